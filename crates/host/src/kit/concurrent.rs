//! The index of ScaleCache: a tree that is changed by compare-and-exchange, side by side.

use ccxarray::{CostHook, Guard, pin_with};
use wharf_runtime::{Cpu, Line, Op};

use crate::design::Reclaim;
use crate::kit::accounting::FileCounters;
use crate::kit::index::{Index, Tag};

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
