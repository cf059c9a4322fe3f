//! Persistent memory of the drive's own: bytes that its cores load and store, and that are there after a power cut.
//!
//! Problem: a file system for persistent memory changes a few bytes at a time. Flash below a translation layer takes
//! whole pages.
//!
//! Idea: modules beside the flash, over which pages go round. Each module serves one access after the other, at its
//! own pace. A store is durable when its module has it, as modules finish on the charge of their capacitors what has
//! reached them (the ADR domain of Yang et al., FAST 2020); a fence waits for that.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use wharf_files::Fault;
use wharf_files::lines::{Lines, RamLines, by_page, first_outside};
use wharf_files::pages::PAGE_BYTES;
use wharf_runtime::Resource;

use crate::config::PersistentMemoryConfig;
use crate::power::PowerSwitch;

/// See the [module](self).
pub struct PersistentMemory {
    held: Arc<RamLines>,
    modules: RefCell<Vec<Resource>>,
    config: PersistentMemoryConfig,
    /// When all that was stored has reached its module.
    stored_ns: Cell<u64>,
    power: PowerSwitch,
}

/// What memory of a configuration holds when it is new, if there is any.
pub(crate) fn blank(config: &PersistentMemoryConfig) -> Option<Arc<RamLines>> {
    let pages = config.bytes / PAGE_BYTES as u64;
    (pages > 0).then(|| Arc::new(RamLines::new(pages)))
}

impl PersistentMemory {
    /// Memory that holds `held`, at rest.
    pub(crate) fn new(
        config: &PersistentMemoryConfig,
        held: Arc<RamLines>,
        power: PowerSwitch,
    ) -> PersistentMemory {
        PersistentMemory {
            held,
            modules: RefCell::new(vec![Resource::default(); config.modules as usize]),
            config: config.clone(),
            stored_ns: Cell::new(0),
            power,
        }
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> u64 {
        self.held.bytes()
    }

    /// When the modules have served an access that begins now.
    fn serve(&self, now_ns: u64, at: u64, bytes: u64, mb_s: u64) -> u64 {
        let mut modules = self.modules.borrow_mut();
        let count = modules.len() as u64;
        let parts = by_page(at, bytes as usize).map(|(page, _, bytes)| {
            let busy_ns = (bytes as u64 * 1000).checked_div(mb_s).unwrap_or(0);
            modules[(page % count) as usize].reserve(now_ns, busy_ns)
        });
        parts.max().unwrap_or(now_ns)
    }

    /// Loads bytes; when they are there, if it is `now_ns`.
    ///
    /// # Errors
    /// [`Fault::Read`]: they are not all there.
    pub fn load(&self, now_ns: u64, at: u64, out: &mut [u8]) -> Result<u64, Fault> {
        self.held.peek(at, out)?;
        let served_ns = self.serve(now_ns, at, out.len() as u64, self.config.load_mb_s);
        Ok(served_ns.max(now_ns + self.config.load_ns))
    }

    /// Stores bytes; false if the power is gone. A power cut tears them between pages.
    ///
    /// # Errors
    /// [`Fault::Write`]: they are not all there.
    pub fn store(&self, now_ns: u64, at: u64, bytes: &[u8]) -> Result<bool, Fault> {
        if let Some(page) = first_outside(at, bytes.len() as u64, self.bytes()) {
            return Err(Fault::Write { page });
        }
        let mut rest = bytes;
        for (page, from, bytes) in by_page(at, bytes.len()) {
            if !self.power.allows_change() {
                return Ok(false);
            }
            let (part, behind) = rest.split_at(bytes);
            rest = behind;
            self.held
                .poke(page * PAGE_BYTES as u64 + from as u64, part)?;
        }
        let stored_ns = self.serve(now_ns, at, bytes.len() as u64, self.config.store_mb_s);
        self.stored_ns.set(self.stored_ns.get().max(stored_ns));
        Ok(true)
    }

    /// When all that was stored so far is durable, if it is `now_ns`; none if the power is gone.
    pub fn fenced_ns(&self, now_ns: u64) -> Option<u64> {
        let fenced_ns = self.stored_ns.get().max(now_ns + self.config.store_ns);
        (!self.power.is_cut()).then_some(fenced_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = PAGE_BYTES as u64;

    fn memory(power: PowerSwitch) -> PersistentMemory {
        let config = PersistentMemoryConfig {
            bytes: 8 * PAGE,
            load_ns: 300,
            store_ns: 90,
            load_mb_s: 4096,
            store_mb_s: 2048,
            modules: 2,
        };
        PersistentMemory::new(&config, blank(&config).unwrap(), power)
    }

    #[test]
    fn modules_serve_beside_each_other_and_each_one_access_after_the_other() {
        let memory = memory(PowerSwitch::on());
        let load = |at, bytes| memory.load(0, at, &mut vec![0; bytes]).unwrap();
        assert_eq!(load(0, PAGE_BYTES), 1_000);
        assert_eq!(load(PAGE, PAGE_BYTES), 1_000, "the other module");
        assert_eq!(load(2 * PAGE, PAGE_BYTES), 2_000, "the first again");
        // Two halves of pages of both, behind those.
        assert_eq!(load(4 * PAGE + PAGE / 2, PAGE_BYTES), 2_500);
        assert_eq!(memory.load(9_000, 64, &mut [0]).unwrap(), 9_300);
    }

    #[test]
    fn a_fence_waits_for_what_was_stored_and_for_nothing_else() {
        let memory = memory(PowerSwitch::on());
        assert_eq!(memory.fenced_ns(50), Some(140));
        assert!(memory.store(100, 3 * PAGE, &[7; PAGE_BYTES]).unwrap());
        assert_eq!(memory.fenced_ns(200), Some(2_100));
        assert_eq!(memory.fenced_ns(5_000), Some(5_090));
    }

    #[test]
    fn what_is_stored_after_the_power_is_gone_is_not_there() {
        let memory = memory(PowerSwitch::cut_after(1));
        assert_eq!(memory.store(0, PAGE - 4, &[9; 8]), Ok(false));
        assert_eq!(memory.fenced_ns(0), None);
        let mut found = [0; 8];
        memory.load(0, PAGE - 4, &mut found).unwrap();
        assert_eq!(found, [9, 9, 9, 9, 0, 0, 0, 0]);
    }

    #[test]
    fn bytes_that_are_not_there_are_errors() {
        let memory = memory(PowerSwitch::on());
        let read = memory.load(0, 8 * PAGE - 1, &mut [0; 2]);
        assert_eq!(read, Err(Fault::Read { page: 8 }));
        let written = memory.store(0, u64::MAX, &[1]);
        assert!(matches!(written, Err(Fault::Write { .. })), "{written:?}");
    }
}
