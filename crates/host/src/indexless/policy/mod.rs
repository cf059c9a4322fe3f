//! Which sectors leave the cache.
//!
//! | file | policy | from |
//! |---|---|---|
//! | `scan.rs` | second-chance scan of the bitmap; dirty sectors by continuity | Hao et al., section III-A |
//! | `continuity.rs` | the table of entries by which it ranks, and exact ranks | the same |
//! | `lists.rs` | least recently used; first in, first out | textbooks; section IV-B |
//! | `improved_lru.rs` | half by LRU, half by continuity | section IV-B |
//!
//! All choose from the same cache, in rounds of the same size. What is chosen is looked at once more when it
//! is locked to be evicted, for it may have been used since.

mod continuity;
mod improved_lru;
mod lists;
mod scan;
#[cfg(test)]
mod tests;

use wharf_runtime::Cpu;

use super::bitmap::{Bitmap, Stretch};

pub use improved_lru::ImprovedLru;
pub use lists::{Fifo, List, Lru};
pub use scan::{Continuity, Scan, ScanRules};

/// Neighbouring sectors that are to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Victim {
    /// The first of them.
    pub first: u64,
    /// How many.
    pub count: u32,
}

impl From<Stretch> for Victim {
    fn from(stretch: Stretch) -> Victim {
        Victim {
            first: stretch.first,
            count: stretch.count,
        }
    }
}

/// What a policy chooses from.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Who chooses.
    pub cpu: &'a Cpu,
    /// What is cached.
    pub bitmap: &'a Bitmap,
    /// Sectors that the cache holds at most.
    pub limit: u64,
}

/// A choice of what leaves the cache.
pub trait Policy: Send + 'static {
    /// Sectors were read or written in the cache, or have come into it.
    fn touched(&mut self, first: u64, count: u32);

    /// Sectors are no longer in the cache.
    fn forgotten(&mut self, first: u64, count: u32);

    /// Adds sectors that are to leave: `budget` of them, or a few more, or all there are. `out` has
    /// them in ascending order, those that touch in one.
    fn choose(&mut self, view: View<'_>, budget: u64, out: &mut Vec<Victim>);

    /// Bytes that it takes.
    fn memory_bytes(&self) -> usize;

    /// Cached sectors that it looked at so far to choose from them, counted once for each look;
    /// nothing if it finds victims without looking.
    fn visits(&self) -> Option<u64> {
        None
    }
}

/// Puts victims in ascending order, and those that touch in one.
pub(super) fn tidy(victims: &mut Vec<Victim>) {
    victims.sort_unstable();
    victims.dedup_by(|next, last| {
        let touches = last.first + u64::from(last.count) == next.first
            && last.count.checked_add(next.count).is_some();
        if touches {
            last.count += next.count;
        }
        touches
    });
}
