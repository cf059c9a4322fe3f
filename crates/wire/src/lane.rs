//! A direction of a link: its bandwidth, which all who use it share.
//!
//! Completions, data that are fetched, and loads and stores of the drive's memory go over the same wires: whoever has
//! a clone of a lane stands in the same queue.

use wharf_runtime::sync::{Arc, AtomicU64, Ordering};

use crate::dma::PAGE_BYTES;

/// Bytes that cross the link for a page, whatever the media keep of it.
const PAGE: u64 = PAGE_BYTES as u64;

/// How long bytes take. Whole pages are the rule, and take no division.
#[derive(Clone, Copy)]
struct Pace {
    mb_s: u64,
    ns_per_page: u64,
}

impl Pace {
    fn new(mb_s: u64) -> Pace {
        // No bandwidth stands for an unlimited one.
        let ns_per_page = (PAGE * 1000).checked_div(mb_s).unwrap_or(0);
        Pace { mb_s, ns_per_page }
    }

    #[inline]
    fn ns(self, bytes: u64) -> u64 {
        let pages_ns = self.ns_per_page * (bytes / PAGE);
        match bytes % PAGE {
            0 => pages_ns,
            rest => pages_ns + (rest * 1000).checked_div(self.mb_s).unwrap_or(0),
        }
    }
}

/// What a lane carried.
#[derive(Default)]
struct Carried {
    bytes: AtomicU64,
    /// When it has carried all that was asked for.
    free_ns: AtomicU64,
}

/// See the [module](self). Clones are the same.
#[derive(Clone)]
pub struct Lane {
    pace: Pace,
    carried: Arc<Carried>,
}

impl Lane {
    /// An idle one of so many MB/s (10^6 bytes a second); 0 is unlimited.
    pub fn new(mb_s: u64) -> Lane {
        Lane {
            pace: Pace::new(mb_s),
            carried: Arc::default(),
        }
    }

    /// Whether bytes take no time.
    #[inline]
    pub fn is_unlimited(&self) -> bool {
        self.pace.ns_per_page == 0
    }

    /// When bytes that are asked for at `now_ns` have crossed, behind all that were asked for before; `now_ns` if they take no time.
    #[inline]
    pub fn carry(&self, now_ns: u64, bytes: u64) -> u64 {
        if self.is_unlimited() {
            return now_ns;
        }
        let duration_ns = self.pace.ns(bytes);
        let end_ns = |free_ns: u64| free_ns.max(now_ns) + duration_ns;
        // Relaxed: a clock of its own, which orders nothing.
        let (order, next) = (Ordering::Relaxed, |free_ns| Some(end_ns(free_ns)));
        let before = self.carried.free_ns.fetch_update(order, order, next);
        end_ns(before.expect("it is always changed"))
    }

    /// Counts bytes.
    #[inline]
    pub fn count(&self, bytes: u64) {
        // Relaxed: a sum.
        self.carried.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that were counted.
    pub fn bytes(&self) -> u64 {
        self.carried.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_shares_a_lane_stands_in_its_queue() {
        let lane = Lane::new(4096);
        let other = lane.clone();
        assert_eq!(lane.carry(0, 2 * PAGE), 2_000);
        assert_eq!(other.carry(0, PAGE), 3_000);
        assert_eq!(lane.carry(10_000, PAGE), 11_000);
        // Bytes take their share of a page's time.
        assert_eq!(lane.carry(10_000, 1_024), 11_250);
        assert_eq!(lane.carry(10_000, PAGE + 2_048), 12_750);
        assert_eq!(Lane::new(0).carry(5, PAGE), 5);
        other.count(7);
        lane.count(3);
        assert_eq!((lane.bytes(), other.bytes()), (10, 10));
    }
}
