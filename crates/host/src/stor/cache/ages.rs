//! How long ago files and ranges of them were used, and so which leave first: eviction in two steps (OmniCache, FAST 2024, section 4.2.3).
//!
//! Problem: the hand of a clock looks at pages one by one, when one who waits needs a frame, and knows nothing of files: those of a file that
//! nobody uses any more leave no sooner than others.
//!
//! Idea: before there is no room, pages leave in the background, in two steps.
//!
//! 1. Pages of *inactive* files go: of those that are closed, the first closed first, then of those that were not used for long.
//! 2. If there is still less free room than the *low water*, the ranges of up to 2 MiB go that were used least lately.
//!
//! A file, and a range, has a *stamp*: when it was used last. No list is kept in order, so a use takes no lock and mostly writes
//! nothing. Stamps of ranges are in a table by their hash: two that share a place are as young as the younger one.
//!
//! This is the policy alone; `leave.rs` has pages leave by it.

use std::ops::Range;

use wharf_runtime::sync::{AtomicBool, AtomicU64, Ordering};

use crate::key::PageKey;

/// A range of pages of a file that has this place in the cache of the process.
pub(super) type Part = (u32, Range<u64>);

/// Pages of a range at most: 2 MiB.
pub(super) const RANGE_PAGES_MAX: u64 = 512;

/// Ranges that a cache has room for at least, if it has as many pages.
const RANGES_MIN: u64 = 32;

/// A use that comes so soon after the one that is noted is not noted: nobody writes a line that others read at every hit.
const NOTE_NS: u64 = 10_000;

/// Places of stamps of ranges at least.
const PLACES_MIN: u64 = 64;

/// Pages for each place of a stamp, where more ranges than that are in the cache only if most have few pages.
const PAGES_OF_PLACE: u64 = 8;

/// Of an inactive time, so much passes at least before files are looked through again.
const LOOK_SHARE: u64 = 64;

/// Pages of a range of a cache of so many pages: less than 2 MiB where the cache is small.
pub(super) fn range_pages(cache_pages: u64) -> u64 {
    let share = (cache_pages / RANGES_MIN).max(1);
    (share.next_power_of_two() / 2).clamp(1, RANGE_PAGES_MAX)
}

/// Which cache pages left, and in which step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// The host's, of an inactive file.
    HostInactive,
    /// The host's, of the ranges used least lately.
    HostOldest,
    /// The drive's, of an inactive file.
    NearInactive,
    /// The drive's, of the ranges used least lately.
    NearOldest,
}

impl Left {
    /// All, with their names in reports.
    pub(super) const ALL: [(Left, &'static str); 4] = [
        (Left::HostInactive, "evicted_inactive"),
        (Left::HostOldest, "evicted_oldest"),
        (Left::NearInactive, "near_evicted_inactive"),
        (Left::NearOldest, "near_evicted_oldest"),
    ];
}

/// See the module.
pub(super) struct Ages {
    /// Of each file, by its place.
    files: Box<[AtomicU64]>,
    ranges: Box<[AtomicU64]>,
    /// Pages of a range of the host's cache.
    pub(super) range_pages: u64,
    /// A file that was not used for so long is inactive.
    inactive_ns: u64,
    /// Free pages of the host's cache, and of the drive's, below which ranges leave.
    pub(super) low_pages: u64,
    pub(super) near_low_pages: u64,
    /// Pages are leaving.
    is_running: AtomicBool,
    /// Before then no file is inactive that was not when somebody looked, unless one is closed.
    look_ns: AtomicU64,
    /// Where the next look for old ranges begins: the word of a page.
    hand: AtomicU64,
    /// Pages that left.
    left: [AtomicU64; Left::ALL.len()],
}

impl Ages {
    /// Of so many files in a cache of `pages` pages, with `near_pages` more in the drive. Ranges leave when less than `low_share` of either is free.
    pub(super) fn new(
        files: u32,
        (pages, near_pages): (u64, u64),
        low_share: f64,
        inactive_ns: u64,
    ) -> Ages {
        let places = (pages / PAGES_OF_PLACE).max(PLACES_MIN).next_power_of_two();
        let low = |pages: u64| (pages as f64 * low_share).ceil() as u64;
        Ages {
            files: (0..files).map(|_| AtomicU64::new(0)).collect(),
            ranges: (0..places).map(|_| AtomicU64::new(0)).collect(),
            range_pages: range_pages(pages),
            inactive_ns,
            low_pages: low(pages),
            near_low_pages: low(near_pages),
            is_running: AtomicBool::new(false),
            look_ns: AtomicU64::new(0),
            hand: AtomicU64::new(0),
            left: Default::default(),
        }
    }

    /// Pages of a file are used.
    #[inline]
    pub(super) fn note(&self, slot: u32, pages: &Range<u64>, now_ns: u64) {
        self.note_file(slot, now_ns);
        let ranges = pages.start / self.range_pages..pages.end.div_ceil(self.range_pages);
        ranges.for_each(|range| set(self.place(slot, range), now_ns));
    }

    /// A file is used.
    #[inline]
    pub(super) fn note_file(&self, slot: u32, now_ns: u64) {
        set(&self.files[slot as usize], now_ns);
    }

    fn place(&self, slot: u32, range: u64) -> &AtomicU64 {
        let hash = PageKey::new(slot, range)
            .word()
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = self.ranges.len().trailing_zeros();
        &self.ranges[(hash >> (u64::BITS - bits)) as usize]
    }

    /// When the range of a page was used last.
    pub(super) fn used_ns(&self, slot: u32, page: u64) -> u64 {
        self.place(slot, page / self.range_pages)
            .load(Ordering::Relaxed)
    }

    /// The files that are inactive, in the order in which they leave: those that are `closed`, then those of the `files` first places that
    /// were not used for long.
    pub(super) fn inactive(&self, closed: &[u32], files: u32, now_ns: u64) -> Vec<u32> {
        let used = |slot: u32| self.files[slot as usize].load(Ordering::Relaxed);
        let mut is_closed = vec![false; self.files.len()];
        closed
            .iter()
            .for_each(|slot| is_closed[*slot as usize] = true);
        let open = (0..files).filter(|slot| !is_closed[*slot as usize]);
        let aged = open.map(|slot| (used(slot), slot));
        let (mut old, mut next_ns) = (Vec::new(), now_ns + self.inactive_ns);
        for (used_ns, slot) in aged.filter(|(used_ns, _)| *used_ns > 0) {
            match used_ns + self.inactive_ns < now_ns {
                true => old.push((used_ns, slot)),
                false => next_ns = next_ns.min(used_ns + self.inactive_ns),
            }
        }
        old.sort_unstable();
        let soonest_ns = now_ns + self.inactive_ns / LOOK_SHARE;
        self.look_ns
            .store(next_ns.max(soonest_ns), Ordering::Relaxed);
        let old = old.into_iter().map(|(_, slot)| slot);
        closed.iter().copied().chain(old).collect()
    }

    /// Whether a look at files may find some that are inactive and have pages.
    pub(super) fn is_look_due(&self, now_ns: u64) -> bool {
        now_ns >= self.look_ns.load(Ordering::Relaxed)
    }

    /// The next look is worth its while: a file was closed, or inactive ones still have pages.
    pub(super) fn look_again(&self) {
        self.look_ns.store(0, Ordering::Relaxed);
    }

    /// Where the next look for old ranges of the host's cache begins.
    pub(super) fn hand(&self) -> PageKey {
        PageKey::of_word(self.hand.load(Ordering::Relaxed))
    }

    /// It begins there from now on.
    pub(super) fn set_hand(&self, key: PageKey) {
        self.hand.store(key.word(), Ordering::Relaxed);
    }

    /// True if pages are to leave now, by the caller, who [ends](Ages::end) it; false if they are leaving.
    pub(super) fn begin(&self) -> bool {
        // With the release in `end`.
        !self.is_running.swap(true, Ordering::Acquire)
    }

    /// The caller has had pages leave.
    pub(super) fn end(&self) {
        self.is_running.store(false, Ordering::Release);
    }

    /// So many free pages there are to be when ranges have left, lest the next one has to leave at once.
    pub(super) fn goal(low_pages: u64) -> u64 {
        low_pages + low_pages.div_ceil(4)
    }

    /// Pages have left.
    pub(super) fn count(&self, how: Left, pages: u64) {
        self.left[how as usize].fetch_add(pages, Ordering::Relaxed);
    }

    /// Pages that have left so.
    pub(super) fn counted(&self, how: Left) -> u64 {
        self.left[how as usize].load(Ordering::Relaxed)
    }

    /// Bytes of memory that stamps take.
    pub(super) fn bytes(&self) -> u64 {
        (self.files.len() + self.ranges.len()) as u64 * size_of::<AtomicU64>() as u64
    }
}

/// Something is used that has this stamp.
#[inline]
fn set(stamp: &AtomicU64, now_ns: u64) {
    // Relaxed: a time that is compared with others orders nothing.
    let then_ns = stamp.load(Ordering::Relaxed);
    if then_ns == 0 || now_ns > then_ns + NOTE_NS {
        stamp.store(now_ns.max(1), Ordering::Relaxed);
    }
}

/// Of ranges that were looked at, with when they were used: those used least lately, as many as have `need` pages together, as `pages_of`
/// counts them, and no more than `most`; in order of file and offset, those joined that lie side by side.
pub(super) fn oldest(
    mut looked: Vec<(u64, Part)>,
    need: u64,
    most: usize,
    pages_of: impl Fn(&Part) -> u64,
) -> Vec<Part> {
    looked.sort_unstable_by_key(|(used_ns, (slot, pages))| (*used_ns, *slot, pages.start));
    let mut found = 0;
    let needed = looked.into_iter().take(most).take_while(|(_, part)| {
        let is_needed = found < need;
        if is_needed {
            found += pages_of(part);
        }
        is_needed
    });
    joined(needed.map(|(_, part)| part).collect())
}

/// Ranges in order of file and offset, those joined that lie side by side.
pub(super) fn joined(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_unstable_by_key(|(slot, pages)| (*slot, pages.start));
    let mut all: Vec<Part> = Vec::new();
    for (slot, pages) in parts {
        match all.last_mut() {
            Some((of, last)) if *of == slot && last.end == pages.start => last.end = pages.end,
            _ => all.push((slot, pages)),
        }
    }
    all
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const INACTIVE_NS: u64 = 1_000_000;

    fn new() -> Ages {
        Ages::new(8, (64 << 10, 1_000), 0.1, INACTIVE_NS)
    }

    #[test]
    fn closed_files_leave_first_and_then_those_that_were_not_used_for_long() {
        let ages = new();
        for (slot, now_ns) in [(1, 500), (2, 100), (3, 900), (4, 50), (5, 1_500_000)] {
            ages.note(slot, &(0..1), now_ns);
        }
        let now_ns = 1_000_000 + 600;
        assert_eq!(ages.inactive(&[4, 3], 8, now_ns), [4, 3, 2, 1]);
        assert!(!ages.is_look_due(now_ns + 1), "all young ones stay so");
        assert!(ages.is_look_due(2_500_000));
        ages.look_again();
        assert!(ages.is_look_due(now_ns + 1), "one was closed");
    }

    #[test]
    fn a_use_is_of_the_file_and_of_each_of_its_ranges() {
        let ages = new();
        assert_eq!(ages.range_pages, 512);
        ages.note(1, &(0..1), 10);
        ages.note(1, &(1_000..1_100), 50_000);
        let used = |page| ages.used_ns(1, page);
        assert_eq!([0, 511, 512, 1_024].map(used), [10, 10, 50_000, 50_000]);
        ages.note(1, &(1_000..1_001), 55_000);
        assert_eq!(used(600), 50_000, "it was noted a moment ago");
        assert_eq!((ages.low_pages, ages.near_low_pages), (6_554, 100));
    }

    #[test]
    fn as_many_of_the_oldest_as_are_needed_leave_in_order_of_their_places() {
        let looked = || {
            vec![
                (30, (1, 0..512)),
                (10, (2, 512..1_024)),
                (40, (1, 512..1_024)),
                (20, (2, 0..512)),
            ]
        };
        let oldest = |need, most| oldest(looked(), need, most, |_| 5);
        assert_eq!(oldest(1, 9), [(2, 512..1_024)]);
        assert_eq!(oldest(6, 9), [(2, 0..1_024)]);
        assert_eq!(oldest(11, 9), [(1, 0..512), (2, 0..1_024)]);
        assert_eq!(oldest(99, 9), [(1, 0..1_024), (2, 0..1_024)]);
        assert_eq!(oldest(99, 1), [(2, 512..1_024)]);
        assert!(oldest(0, 9).is_empty());
    }

    #[test]
    fn a_small_cache_has_small_ranges() {
        let pages = [1 << 20, 1, 256].map(range_pages);
        assert_eq!(pages, [512, 1, 4]);
    }
}
