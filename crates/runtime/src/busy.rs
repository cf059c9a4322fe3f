//! When something shared was last in use, in virtual time.
//!
//! Problem: CPUs' clocks differ by up to a request's work, so that one may come to a lock "before"
//! its last use. It must not wait for what lies in its future.
//!
//! Idea: remember the latest period of uninterrupted use. Who comes within it waits for its end and
//! makes it longer; who comes after it begins the next; who comes before it finds the thing free.

use crate::sync::{AtomicU64, Ordering};

/// The latest busy period. Relaxed atomics: virtual time is one thread.
#[derive(Debug)]
pub(crate) struct Busy {
    from_ns: AtomicU64,
    until_ns: AtomicU64,
}

impl Default for Busy {
    fn default() -> Self {
        Busy {
            from_ns: AtomicU64::new(0),
            until_ns: AtomicU64::new(0),
        }
    }
}

impl Busy {
    /// When somebody who comes at `now_ns` is served.
    #[inline]
    pub(crate) fn free_at(&self, now_ns: u64) -> u64 {
        let until_ns = self.until_ns.load(Ordering::Relaxed);
        if (self.from_ns.load(Ordering::Relaxed)..until_ns).contains(&now_ns) {
            until_ns
        } else {
            now_ns
        }
    }

    /// It is used from `from_ns`, as [`Busy::free_at`] said, to `until_ns`.
    #[inline]
    pub(crate) fn occupy(&self, from_ns: u64, until_ns: u64) {
        let latest_ns = self.until_ns.load(Ordering::Relaxed);
        if from_ns > latest_ns {
            self.from_ns.store(from_ns, Ordering::Relaxed);
        }
        if from_ns >= latest_ns {
            self.until_ns.store(until_ns, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_period_grows_by_those_who_wait_and_leaves_earlier_ones_alone() {
        let busy = Busy::default();
        busy.occupy(busy.free_at(100), 140);
        assert_eq!(busy.free_at(99), 99);
        assert_eq!(busy.free_at(110), 140);
        busy.occupy(140, 180);
        assert_eq!(busy.free_at(120), 180);
        // One from the past takes nothing from the period.
        busy.occupy(busy.free_at(50), 90);
        assert_eq!((busy.free_at(60), busy.free_at(150)), (60, 180));
        // After the end a new one begins.
        busy.occupy(busy.free_at(200), 230);
        assert_eq!((busy.free_at(150), busy.free_at(210)), (150, 230));
    }
}
