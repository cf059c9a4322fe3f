//! How long modules of persistent memory take: the same model below a drive's cores and below a host's CPUs.
//!
//! Pages go round over the modules. Each module serves one access after the other, at its own pace. A load is there
//! when its modules have served it, and not before the latency of one. A store is durable when its modules have it; a
//! fence waits for that.

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

    /// When what is stored from `now_ns` on has reached its modules.
    pub fn store(&mut self, now_ns: u64, at: u64, bytes: usize) -> u64 {
        self.serve(now_ns, at, bytes, self.times.store_mb_s)
    }

    /// When a fence that begins at `now_ns` has waited for what is to reach its modules until `stored_ns`.
    pub fn fence(&self, now_ns: u64, stored_ns: u64) -> u64 {
        stored_ns.max(now_ns + self.times.store_ns)
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
    fn a_fence_waits_for_what_was_stored_and_for_nothing_else() {
        let mut modules = two();
        assert_eq!(modules.fence(50, 0), 140);
        let stored_ns = modules.store(100, 3 * PAGE, PAGE_BYTES);
        assert_eq!(modules.fence(200, stored_ns), 2_100);
        assert_eq!(modules.fence(5_000, stored_ns), 5_090);
    }
}
