//! The index of a file: page to frame, and which pages are dirty or on their way to the drive.
//!
//! What the rest of the cache asks of an index is a trait, so that one cache can be compared over
//! two: a tree that is changed under a lock ([`Locked`]), and one that is not ([`Concurrent`]).

use ccxarray::{CostHook, Guard, pin_with};
use wharf_runtime::{Cpu, Line, Op};

use crate::design::Reclaim;
use crate::kernel::accounting::{Change, FileCounters};
use crate::kernel::xarray::{Find, XArray};

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
    pub(super) fn change(set: Option<Tag>) -> Change {
        match set {
            Some(Tag::Dirty) => Change::Dirtied,
            Some(Tag::Writeback) => Change::Sent,
            None => Change::Written,
        }
    }
}

/// See the module. All of it may be called by any CPU at any time.
pub trait Index: Default + Send + Sync + 'static {
    /// The frame of a page.
    fn get(&self, cpu: &Cpu, page: u64) -> Option<u32>;

    /// Gives a page a frame; false if it has one.
    fn insert(&self, cpu: &Cpu, page: u64, frame: u32) -> bool;

    /// Takes a page out, with its tags. `reclaim` says what becomes of nodes that have no page then.
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

    /// Nodes in the tree: 576 bytes each, without what lines need in virtual time. Visits all inner ones at most; a look
    /// from outside, which takes no virtual time.
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

/// A tree that is changed under one lock, and read without: the index of Linux.
#[derive(Default)]
pub struct Locked(XArray);

impl Index for Locked {
    #[inline]
    fn get(&self, cpu: &Cpu, page: u64) -> Option<u32> {
        cpu.work(Op::TreeLookup, || self.0.load(page))
            .map(|frame| frame as u32)
    }

    fn insert(&self, cpu: &Cpu, page: u64, frame: u32) -> bool {
        self.0.change(cpu, Change::Added, 1, |tree| {
            cpu.work(Op::TreeUpdate, || {
                let is_new = tree.load(page).is_none();
                if is_new {
                    tree.insert(page, frame.into());
                }
                is_new
            })
        })
    }

    /// Nodes go at once, as in Linux: who removes a page has the lock.
    fn remove(&self, cpu: &Cpu, page: u64, _: Reclaim) {
        self.0.change(cpu, Change::Removed, 1, |tree| {
            cpu.work(Op::TreeUpdate, || tree.remove(page));
        });
    }

    fn retag(&self, cpu: &Cpu, page: u64, set: Option<Tag>, clear: Option<Tag>) {
        self.0.change(cpu, Tag::change(set), 1, |tree| {
            cpu.work(Op::TreeUpdate, || {
                for (tag, on) in [(set, true), (clear, false)] {
                    if let Some(tag) = tag {
                        tree.set_tag(page, tag.into(), on);
                    }
                }
            });
        });
    }

    fn next(&self, cpu: &Cpu, from: u64) -> Option<(u64, u32)> {
        let found = cpu.work(Op::TreeLookup, || self.0.next(from, Find::Any));
        found.map(|(page, frame)| (page, frame as u32))
    }

    fn next_tagged(&self, cpu: &Cpu, from: u64, tag: Tag) -> Option<(u64, u32)> {
        let find = || self.0.next(from, Find::Tagged(tag.into()));
        let found = cpu.work(Op::TreeLookup, find);
        found.map(|(page, frame)| (page, frame as u32))
    }

    fn nodes(&self) -> u64 {
        self.0.nodes()
    }

    fn waited_ns(&self) -> u64 {
        self.0.waited_ns()
    }

    fn verify(&self, cpu: &Cpu) -> u64 {
        self.0.with(cpu, |tree| {
            tree.verify();
            tree.size().entries
        })
    }
}

/// Tells virtual time of the cache lines that the tree touches.
struct Seen<'a>(&'a Cpu);

impl CostHook for Seen<'_> {
    type Line = Line;

    #[inline(always)]
    fn read(&self, line: &Line) {
        line.read(self.0);
    }

    #[inline(always)]
    fn write(&self, line: &Line) {
        line.write(self.0);
    }
}

/// Tells virtual time nothing.
struct Unseen;

impl CostHook for Unseen {
    type Line = Line;

    fn read(&self, _: &Line) {}

    fn write(&self, _: &Line) {}
}

/// A tree that is changed by compare-and-exchange, side by side: ccXArray.
#[derive(Default)]
pub struct Concurrent {
    tree: ccxarray::XArray<u32, Line>,
    counters: FileCounters,
}

impl Concurrent {
    #[inline(always)]
    fn guard(cpu: &Cpu) -> Guard<Seen<'_>> {
        pin_with(Seen(cpu))
    }
}

impl Index for Concurrent {
    #[inline]
    fn get(&self, cpu: &Cpu, page: u64) -> Option<u32> {
        cpu.work(Op::ConcurrentLookup, || {
            self.tree.get(page, &Self::guard(cpu))
        })
    }

    fn insert(&self, cpu: &Cpu, page: u64, frame: u32) -> bool {
        cpu.work(Op::ConcurrentUpdate, || {
            self.tree.insert(page, frame, &Self::guard(cpu)).is_ok()
        })
    }

    fn remove(&self, cpu: &Cpu, page: u64, reclaim: Reclaim) {
        let guard = Self::guard(cpu);
        cpu.work(Op::ConcurrentUpdate, || self.tree.remove(page, &guard));
        match reclaim {
            // Or a file of any size would have as many nodes, in the end.
            Reclaim::Eager => _ = self.tree.reclaim_leaf(page, &guard),
            // An insertion that comes by fills the node again.
            Reclaim::Lazy => {}
        }
    }

    fn tidy(&self, cpu: &Cpu, (first, last): (u64, u64)) {
        self.tree.reclaim(first..=last, &Self::guard(cpu));
    }

    fn retag(&self, cpu: &Cpu, page: u64, set: Option<Tag>, clear: Option<Tag>) {
        let guard = Self::guard(cpu);
        for (tag, on) in [(set, true), (clear, false)] {
            let Some(tag) = tag.map(ccxarray::Tag::from) else {
                continue;
            };
            cpu.work(Op::ConcurrentUpdate, || match on {
                true => self.tree.set_tag(page, tag, &guard),
                false => self.tree.clear_tag(page, tag, &guard),
            });
        }
    }

    fn next(&self, cpu: &Cpu, from: u64) -> Option<(u64, u32)> {
        let guard = Self::guard(cpu);
        cpu.work(Op::ConcurrentLookup, || {
            self.tree.next_at_or_after(from, &guard)
        })
    }

    fn next_tagged(&self, cpu: &Cpu, from: u64, tag: Tag) -> Option<(u64, u32)> {
        let guard = Self::guard(cpu);
        cpu.work(Op::ConcurrentLookup, || {
            self.tree.next_tagged(tag.into(), from, &guard)
        })
    }

    fn counters(&self) -> Option<&FileCounters> {
        Some(&self.counters)
    }

    fn nodes(&self) -> u64 {
        self.tree.nodes(&pin_with(Unseen)) as u64
    }

    fn verify(&self, cpu: &Cpu) -> u64 {
        self.tree.verify(&Self::guard(cpu)).entries as u64
    }
}

impl From<Tag> for ccxarray::Tag {
    fn from(tag: Tag) -> ccxarray::Tag {
        match tag {
            Tag::Dirty => ccxarray::Tag::Dirty,
            Tag::Writeback => ccxarray::Tag::Writeback,
        }
    }
}
