//! The index of Linux: a tree that is changed under one lock, and read without.

use wharf_runtime::{Cpu, Op};

use crate::design::Reclaim;
use crate::kit::accounting::Change;
use crate::kit::index::{Index, Tag};
use crate::kit::xarray::{Find, XArray};

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
