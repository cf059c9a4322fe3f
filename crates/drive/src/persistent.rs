//! Persistent memory of the drive's own: bytes that its cores load and store, and that are there after a power cut.
//!
//! Problem: a file system for persistent memory changes a few bytes at a time. Flash below a translation layer takes
//! whole pages.
//!
//! Idea: modules beside the flash ([`Modules`] has what they take). A store is durable when its module has it, as modules
//! finish on the charge of their capacitors what has reached them (the ADR domain of Yang et al., FAST 2020); a fence
//! waits for that.

use std::cell::RefCell;
use std::sync::Arc;

use wharf_files::Fault;
use wharf_files::lines::{Lines, RamLines, by_page, first_outside};
use wharf_files::modules::{ModuleTimes, Modules};
use wharf_files::pages::PAGE_BYTES;

use crate::config::PersistentMemoryConfig;
use crate::power::PowerSwitch;

/// See the [module](self).
pub struct PersistentMemory {
    held: Arc<RamLines>,
    modules: RefCell<Modules>,
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
        let times = ModuleTimes {
            load_ns: config.load_ns,
            store_ns: config.store_ns,
            load_mb_s: config.load_mb_s,
            store_mb_s: config.store_mb_s,
        };
        PersistentMemory {
            held,
            modules: RefCell::new(Modules::new(config.modules, times)),
            power,
        }
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> u64 {
        self.held.bytes()
    }

    /// Loads bytes; when they are there, if it is `now_ns`.
    ///
    /// # Errors
    /// [`Fault::Read`]: they are not all there.
    pub fn load(&self, now_ns: u64, at: u64, out: &mut [u8]) -> Result<u64, Fault> {
        self.held.peek(at, out)?;
        Ok(self.modules.borrow_mut().load(now_ns, at, out.len()))
    }

    /// A core stores bytes; false if the power is gone. A power cut tears them between pages.
    ///
    /// # Errors
    /// [`Fault::Write`]: they are not all there.
    pub fn store(&self, core: u32, now_ns: u64, at: u64, bytes: &[u8]) -> Result<bool, Fault> {
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
        let mut modules = self.modules.borrow_mut();
        modules.store(core, now_ns, at, bytes.len());
        Ok(true)
    }

    /// When all that a core has stored so far is durable, if it is `now_ns`; none if the power is gone.
    pub fn fenced_ns(&self, core: u32, now_ns: u64) -> Option<u64> {
        let fenced_ns = self.modules.borrow().fence(core, now_ns);
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
    fn a_fence_waits_for_what_was_stored_and_for_nothing_else() {
        let memory = memory(PowerSwitch::on());
        assert_eq!(memory.fenced_ns(0, 50), Some(140));
        assert!(memory.store(0, 100, 3 * PAGE, &[7; PAGE_BYTES]).unwrap());
        assert_eq!(memory.fenced_ns(0, 200), Some(2_100));
        assert_eq!(memory.fenced_ns(0, 5_000), Some(5_090));
        assert_eq!(memory.fenced_ns(1, 200), Some(290), "another core");
    }

    #[test]
    fn what_is_stored_after_the_power_is_gone_is_not_there() {
        let memory = memory(PowerSwitch::cut_after(1));
        assert_eq!(memory.store(0, 0, PAGE - 4, &[9; 8]), Ok(false));
        assert_eq!(memory.fenced_ns(0, 0), None);
        let mut found = [0; 8];
        memory.load(0, PAGE - 4, &mut found).unwrap();
        assert_eq!(found, [9, 9, 9, 9, 0, 0, 0, 0]);
    }

    #[test]
    fn bytes_that_are_not_there_are_errors() {
        let memory = memory(PowerSwitch::on());
        let read = memory.load(0, 8 * PAGE - 1, &mut [0; 2]);
        assert_eq!(read, Err(Fault::Read { page: 8 }));
        let written = memory.store(0, 0, u64::MAX, &[1]);
        assert!(matches!(written, Err(Fault::Write { .. })), "{written:?}");
    }
}
