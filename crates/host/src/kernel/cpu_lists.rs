//! What one CPU does with the lists of frames: its batches on their way to them, and which frames
//! it takes off.

use std::cell::RefCell;
use std::sync::Arc;

use wharf_runtime::{Cpu, Op};

use crate::kernel::frame::{ACTIVE, REFERENCED};
use crate::kernel::shared::Shared;
use crate::key::PageKey;
use crate::kit::nodes::by_node;
use crate::kit::replacement::two_lists::{List, TwoLists};

/// Most pages moved from the active list to the inactive one at a time (`SWAP_CLUSTER_MAX`).
const REFILL_PAGES: u32 = 32;

/// Frames on their way to or between the lists.
#[derive(Default)]
struct Batches {
    /// New in the cache, on no list yet.
    add: Vec<u32>,
    /// Touched a second time, with the page that they held then.
    activate: Vec<(u32, Option<PageKey>)>,
}

/// See the module.
pub(super) struct CpuLists {
    cpu: Cpu,
    shared: Arc<Shared>,
    batches: RefCell<Batches>,
}

impl CpuLists {
    /// Empty batches.
    pub(super) fn new(cpu: &Cpu, shared: &Arc<Shared>) -> CpuLists {
        CpuLists {
            cpu: cpu.clone(),
            shared: shared.clone(),
            batches: RefCell::default(),
        }
    }

    fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// Frames that a batch keeps.
    fn list_batch(&self) -> usize {
        self.shared.limits.list_batch
    }

    /// A page is new in the cache.
    pub(super) fn enter(&self, frame: u32) {
        let full = {
            let mut batches = self.batches.borrow_mut();
            batches.add.push(frame);
            batches.add.len() >= self.list_batch()
        };
        if full {
            self.drain_batches();
        }
    }

    /// Puts frames that are on no list on theirs.
    pub(super) fn put(&self, frames: &[u32]) {
        let changed = |frame| self.shared.frames.relink(&self.cpu, frame);
        self.on_lists(frames, |lru, frame| {
            lru.add(frame, self.list_for(frame), changed);
        });
    }

    /// A page was used: the first time it is marked, the second time it becomes active.
    #[inline]
    pub(super) fn mark_accessed(&self, frame: u32) {
        let frames = &self.shared.frames;
        match frames.flags(frame) & (REFERENCED | ACTIVE) {
            0 | ACTIVE => drop(frames.set(self.cpu(), frame, REFERENCED)),
            REFERENCED => self.activate(frame),
            _ => {}
        }
    }

    fn activate(&self, frame: u32) {
        let frames = &self.shared.frames;
        frames.set(self.cpu(), frame, ACTIVE);
        frames.clear(self.cpu(), frame, REFERENCED);
        let full = {
            let mut batches = self.batches.borrow_mut();
            batches.activate.push((frame, frames.key(frame)));
            batches.activate.len() >= self.list_batch()
        };
        if full {
            self.drain_batches();
        }
    }

    /// Does `f` to frames with the lists that they are of: those of one node under one lock, as far
    /// as they follow one another.
    pub(super) fn on_lists(&self, frames: &[u32], mut f: impl FnMut(&mut TwoLists, u32)) {
        for (node, run) in by_node(self.shared.lru.nodes(), frames) {
            self.shared.lru.with(self.cpu(), node, |lru| {
                let each = || run.iter().for_each(|frame| f(lru, *frame));
                self.cpu().work_n(Op::ListUpdate, run.len() as u32, each);
            });
        }
    }

    /// Puts the frames of this CPU's batches on their lists.
    pub(super) fn drain_batches(&self) {
        let batches = self.batches.take();
        let frames = &self.shared.frames;
        let changed = |frame| frames.relink(self.cpu(), frame);
        self.put(&batches.add);
        let (active, keys): (Vec<u32>, Vec<_>) = batches.activate.into_iter().unzip();
        let mut keys = keys.into_iter();
        self.on_lists(&active, |lru, frame| {
            let key = keys.next().expect("one for each frame");
            if frames.key(frame) == key && lru.list_of(frame) == Some(List::Inactive) {
                lru.remove(frame, changed);
                lru.add(frame, List::Active, changed);
            }
        });
    }

    fn list_for(&self, frame: u32) -> List {
        match self.shared.frames.is(frame, ACTIVE) {
            true => List::Active,
            false => List::Inactive,
        }
    }

    /// Moves old active pages to the inactive list if that is too short.
    pub(super) fn refill_inactive(&self, lru: &mut TwoLists) {
        let frames = &self.shared.frames;
        let changed = |frame| frames.relink(self.cpu(), frame);
        let deactivate = |frame| _ = frames.clear(self.cpu(), frame, ACTIVE);
        let moved = lru.refill(REFILL_PAGES, changed, deactivate);
        self.cpu().work_n(Op::ListUpdate, moved, || ());
    }

    /// Takes up to `count` frames off the tail of a node's inactive list.
    pub(super) fn isolate(&self, node: usize, count: u32) -> Vec<u32> {
        self.shared.lru.with(self.cpu(), node, |lru| {
            self.refill_inactive(lru);
            let changed = |frame| self.shared.frames.relink(self.cpu(), frame);
            let oldest = || lru.take_oldest(List::Inactive, changed);
            let batch: Vec<u32> = std::iter::repeat_with(oldest)
                .map_while(|frame| frame)
                .take(count as usize)
                .collect();
            self.cpu()
                .work_n(Op::ListUpdate, batch.len() as u32, || batch)
        })
    }

    /// Moves frames whose pages were to be given up, and are written now, to where they are taken
    /// next.
    pub(super) fn rotate(&self, written: &[u32]) {
        let frames = &self.shared.frames;
        let changed = |frame| frames.relink(self.cpu(), frame);
        self.on_lists(written, |lru, frame| {
            if lru.list_of(frame).is_some() {
                frames.clear(self.cpu(), frame, ACTIVE | REFERENCED);
                lru.remove(frame, changed);
                lru.add_oldest(frame, changed);
            }
        });
    }
}
