//! How often the disk was given something else: whoever has read sectors without a lock sees
//! whether that was before.
//!
//! Of each megabyte of sectors there is a count, some of them share one. Whoever changes what the
//! disk has of sectors has them locked, and counts when it is done, before they are unlocked.
//! Whoever wants to know notes the count, reads them from the disk, locks them, and compares:
//!
//! * a write around the cache and a discard count after the disk has them, or has failed;
//! * what was dirty and is on the disk now counts before it is not cached any more; a write into
//!   the cache need not count, as such sectors are cached from then on.
//!
//! If the count is the same, and a sector is not cached, what was read is what the disk has.

use wharf_runtime::sync::{AtomicU64, Ordering};

/// Counts.
const COUNTS: usize = 1024;

/// Sectors of a megabyte; a chunk lies in one.
const SECTORS: u64 = 256;

/// See the module.
pub(super) struct Changes(Box<[AtomicU64]>);

impl Default for Changes {
    fn default() -> Changes {
        Changes((0..COUNTS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Changes {
    fn of(&self, megabyte: u64) -> &AtomicU64 {
        // The multiplier of Fibonacci hashing.
        let hash = megabyte.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        &self.0[hash as usize % COUNTS]
    }

    /// The disk has something else for sectors, which the caller has locked.
    pub(super) fn note(&self, first: u64, count: u64) {
        for megabyte in first / SECTORS..=(first + count.max(1) - 1) / SECTORS {
            // Relaxed: who compares has the lock after this, and who noted it before asked the
            // keeper after that.
            self.of(megabyte).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The count of the megabyte that a sector is in.
    pub(super) fn seen(&self, sector: u64) -> u64 {
        self.of(sector / SECTORS).load(Ordering::Relaxed)
    }
}
