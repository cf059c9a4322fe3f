//! How long modules of persistent memory take: the same model below a drive's cores and below a host's CPUs.
//!
//! Pages go round over the modules. Each module serves one access after the other, at its own pace. A load is there
//! when its modules have served it, and not before the latency of one. A store is durable when its modules have it; a
//! fence waits for that of all stores of its CPU, and not for those of others, as `SFENCE` does.

use wharf_runtime::Resource;

use crate::lines::by_page;

/// What modules take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleTimes {
    /// What a load takes at least, in nanoseconds.
    pub load_ns: u64,
    /// What a fence takes at least, in nanoseconds.
    pub store_ns: u64,
    /// What a module loads, in MB/s (10^6 bytes a second); 0 is unlimited.
    pub load_mb_s: u64,
    /// What a module stores, in MB/s; 0 is unlimited.
    pub store_mb_s: u64,
}

/// Modules, and what they have still to do.
#[derive(Debug, Clone)]
pub struct Modules {
    each: Vec<Resource>,
    times: ModuleTimes,
    /// When what a CPU stored has reached its modules, by the CPU's number.
    stored_ns: Vec<u64>,
}

impl Modules {
    /// So many modules at rest.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(count: u32, times: ModuleTimes) -> Modules {
        assert!(count > 0, "there is a module");
        Modules {
            each: vec![Resource::default(); count as usize],
            times,
            stored_ns: Vec::new(),
        }
    }

    /// When the modules have served an access that begins at `now_ns`.
    fn serve(&mut self, now_ns: u64, at: u64, bytes: usize, mb_s: u64) -> u64 {
        let count = self.each.len() as u64;
        let parts = by_page(at, bytes).map(|(page, _, bytes)| {
            let busy_ns = (bytes as u64 * 1000).checked_div(mb_s).unwrap_or(0);
            self.each[(page % count) as usize].reserve(now_ns, busy_ns)
        });
        parts.max().unwrap_or(now_ns)
    }

    /// When a load that begins at `now_ns` is there.
    pub fn load(&mut self, now_ns: u64, at: u64, bytes: usize) -> u64 {
        let served_ns = self.serve(now_ns, at, bytes, self.times.load_mb_s);
        served_ns.max(now_ns + self.times.load_ns)
    }

    /// A CPU stores bytes from `now_ns` on.
    pub fn store(&mut self, cpu: u32, now_ns: u64, at: u64, bytes: usize) {
        let stored_ns = self.serve(now_ns, at, bytes, self.times.store_mb_s);
        let index = cpu as usize;
        if self.stored_ns.len() <= index {
            self.stored_ns.resize(index + 1, 0);
        }
        self.stored_ns[index] = self.stored_ns[index].max(stored_ns);
    }

    /// When a fence of a CPU that begins at `now_ns` has waited for what that CPU stored.
    pub fn fence(&self, cpu: u32, now_ns: u64) -> u64 {
        let own_ns = self.stored_ns.get(cpu as usize).copied().unwrap_or(0);
        own_ns.max(now_ns + self.times.store_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::PAGE_BYTES;

    const PAGE: u64 = PAGE_BYTES as u64;

    fn two() -> Modules {
        let times = ModuleTimes {
            load_ns: 300,
            store_ns: 90,
            load_mb_s: 4096,
            store_mb_s: 2048,
        };
        Modules::new(2, times)
    }

    #[test]
    fn modules_serve_beside_each_other_and_each_one_access_after_the_other() {
        let mut modules = two();
        let mut load = |at, bytes| modules.load(0, at, bytes);
        assert_eq!(load(0, PAGE_BYTES), 1_000);
        assert_eq!(load(PAGE, PAGE_BYTES), 1_000, "the other module");
        assert_eq!(load(2 * PAGE, PAGE_BYTES), 2_000, "the first again");
        // Two halves of pages of both, behind those.
        assert_eq!(load(4 * PAGE + PAGE / 2, PAGE_BYTES), 2_500);
        assert_eq!(modules.load(9_000, 64, 1), 9_300);
    }

    #[test]
    fn a_fence_waits_for_what_its_cpu_stored_and_for_nothing_else() {
        let mut modules = two();
        assert_eq!(modules.fence(0, 50), 140);
        modules.store(3, 100, 3 * PAGE, PAGE_BYTES);
        assert_eq!(modules.fence(3, 200), 2_100);
        assert_eq!(modules.fence(3, 5_000), 5_090);
        assert_eq!(modules.fence(0, 200), 290, "what another stored");
        // Its own comes behind that of the other in the module.
        modules.store(0, 200, PAGE, 64);
        assert_eq!(modules.fence(0, 300), 2_131);
    }
}
