//! The index of a file: page to frame, and which pages are dirty or on their way to the drive.
//!
//! What the rest of the cache asks of an index is a trait, so that one cache can be compared over
//! two: a tree that is changed under a lock ([`Locked`](super::locked::Locked)), and one that is
//! not ([`Concurrent`](super::concurrent::Concurrent)).

use wharf_runtime::Cpu;

use crate::design::Reclaim;
use crate::kit::accounting::{Change, FileCounters};

/// A mark on a page that can be searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// The page differs from the drive's.
    Dirty,
    /// The page is on its way to the drive.
    Writeback,
}

impl Tag {
    /// What is counted when a page gets a tag, or has none any more.
    pub(crate) fn change(set: Option<Tag>) -> Change {
        match set {
            Some(Tag::Dirty) => Change::Dirtied,
            Some(Tag::Writeback) => Change::Sent,
            None => Change::Written,
        }
    }
}

/// Bytes of a node of either tree: a word for each of 64 slots, a word for each mark and other words, on cache lines of its own.
pub(crate) const NODE_BYTES: u64 = 576;

/// See the module. All of it may be called by any CPU at any time.
pub trait Index: Default + Send + Sync + 'static {
    /// The frame of a page.
    fn get(&self, cpu: &Cpu, page: u64) -> Option<u32>;

    /// Gives a page a frame; false if it has one.
    fn insert(&self, cpu: &Cpu, page: u64, frame: u32) -> bool;

    /// Takes a page out, with its tags. `reclaim` says what becomes of nodes that have no page
    /// then.
    fn remove(&self, cpu: &Cpu, page: u64, reclaim: Reclaim);

    /// Gives back what memory removals have left of the pages `first..=last`.
    fn tidy(&self, _: &Cpu, (_first, _last): (u64, u64)) {}

    /// Gives a page, which is in the index, one tag and takes the other away.
    fn retag(&self, cpu: &Cpu, page: u64, set: Option<Tag>, clear: Option<Tag>);

    /// The first page from `from` on, with its frame.
    fn next(&self, cpu: &Cpu, from: u64) -> Option<(u64, u32)>;

    /// The first page from `from` on that has a tag, with its frame.
    fn next_tagged(&self, cpu: &Cpu, from: u64, tag: Tag) -> Option<(u64, u32)>;

    /// Whether a page has a tag, for checks.
    fn has_tag(&self, cpu: &Cpu, page: u64, tag: Tag) -> bool {
        self.next_tagged(cpu, page, tag)
            .is_some_and(|(found, _)| found == page)
    }

    /// Nodes in the tree: 576 bytes each, without what lines need in virtual time. Visits all inner
    /// ones at most; a look from outside, which takes no virtual time.
    fn nodes(&self) -> u64;

    /// Where changes are counted that are not under a lock; `None` if they are counted under it.
    fn counters(&self) -> Option<&FileCounters> {
        None
    }

    /// Virtual time in which CPUs waited for its lock, if it has one, in nanoseconds.
    fn waited_ns(&self) -> u64 {
        0
    }

    /// Checks the index when nobody uses it; gives the number of pages.
    ///
    /// # Panics
    /// If something is in disorder.
    fn verify(&self, cpu: &Cpu) -> u64;
}

impl From<Tag> for ccxarray::Tag {
    fn from(tag: Tag) -> ccxarray::Tag {
        match tag {
            Tag::Dirty => ccxarray::Tag::Dirty,
            Tag::Writeback => ccxarray::Tag::Writeback,
        }
    }
}
