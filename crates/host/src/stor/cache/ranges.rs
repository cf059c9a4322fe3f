//! Which ranges of files a process has in the cache of the drive's memory, and when it used them last.

use rustc_hash::FxHashMap;
use wharf_wire::dma::PAGE_BYTES;

use crate::span::Extent;

/// Bytes of a range at most: as many as a node of OmniIndex has (OmniCache, section 4.2.1).
const RANGE_BYTES_MAX: u64 = 2 << 20;

/// Ranges that the cache has room for at least, if it has as many pages.
const RANGES_MIN: u64 = 16;

/// A range of a file: its place in the cache of the process, and which of its ranges it is.
pub(super) type RangeKey = (u32, u64);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Ranges {
    /// Bytes of each.
    bytes: u64,
    /// When each was used last, as a number that grows.
    used: FxHashMap<RangeKey, u64>,
    uses: u64,
    /// One is on its way out.
    evicts: bool,
}

impl Ranges {
    /// None yet, of a cache of so many bytes.
    pub(super) fn new(near_bytes: u64) -> Ranges {
        let share = (near_bytes / RANGES_MIN).max(1);
        Ranges {
            bytes: (share.next_power_of_two() / 2).clamp(PAGE_BYTES as u64, RANGE_BYTES_MAX),
            used: FxHashMap::default(),
            uses: 0,
            evicts: false,
        }
    }

    /// The range that a byte of a file is in.
    pub(super) fn of(&self, slot: u32, offset: u64) -> RangeKey {
        (slot, offset / self.bytes)
    }

    /// Bytes of a range: the first, and how many.
    pub(super) fn extent(&self, (_, range): RangeKey) -> Extent {
        Extent::new(range * self.bytes, self.bytes)
    }

    /// Pages of a range have been kept, or used.
    pub(super) fn touch(&mut self, key: RangeKey) {
        self.uses += 1;
        self.used.insert(key, self.uses);
    }

    /// The range that was used least lately, which goes now; nothing if one is going already, or there is none but `but`.
    pub(super) fn begin_evict(&mut self, but: RangeKey) -> Option<RangeKey> {
        if self.evicts {
            return None;
        }
        let others = self.used.iter().filter(|(key, _)| **key != but);
        let (key, _) = others.min_by_key(|(_, used)| **used)?;
        let key = *key;
        self.used.remove(&key);
        self.evicts = true;
        Some(key)
    }

    /// It is gone.
    pub(super) fn end_evict(&mut self) {
        self.evicts = false;
    }

    /// Nothing of a file is there any more; whether something was.
    pub(super) fn forget(&mut self, slot: u32) -> bool {
        let before = self.used.len();
        self.used.retain(|(of, _), _| *of != slot);
        self.used.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_cache_has_small_ranges() {
        let bytes = |near| Ranges::new(near).extent((0, 3));
        assert_eq!(bytes(4 << 30), Extent::new(6 << 20, 2 << 20));
        assert_eq!(bytes(0), Extent::new(3 * 4096, 4096));
        assert_eq!(bytes(1 << 20).bytes, 32 << 10);
        assert_eq!(Ranges::new(4 << 30).of(7, (6 << 20) + 5), (7, 3));
    }

    #[test]
    fn the_range_that_was_used_least_lately_goes_and_one_at_a_time() {
        let mut ranges = Ranges::new(1 << 30);
        for key in [(1, 0), (1, 1), (2, 0), (1, 0)] {
            ranges.touch(key);
        }
        assert_eq!(ranges.begin_evict((1, 1)), Some((2, 0)));
        assert_eq!(ranges.begin_evict((1, 1)), None, "one is going");
        ranges.end_evict();
        assert_eq!(ranges.begin_evict((9, 9)), Some((1, 1)));
        ranges.end_evict();
        assert!(ranges.forget(1) && !ranges.forget(1));
        assert_eq!(ranges.begin_evict((9, 9)), None);
    }
}
