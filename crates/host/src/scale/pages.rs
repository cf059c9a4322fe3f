//! The pages of the cache as one CPU has them: their state, their tags, and how many are dirty.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Cpu;

use crate::error::IoError;
use crate::key::PageKey;
use crate::kit::accounting::Change;
use crate::kit::backing::Backing;
use crate::kit::common::Common;
use crate::kit::direct_flush::WriterCounters;
use crate::kit::index::{Index, Tag};
use crate::kit::memory::Stock;
use crate::kit::pages::Pages;
use crate::kit::tasks::Tasks;
use crate::scale::frame::{DIRTY, FILLED, REFERENCED, REUSED, STUCK, WAITERS, WRITEBACK};
use crate::scale::replacement::{Candidates, Heard};
use crate::scale::shared::{Shared, SharedCount};

/// A CPU's part of a [`SharedCount`].
#[derive(Default)]
pub(super) struct Batch(Cell<i64>);

/// See the module.
pub(crate) struct CpuPages<I, B> {
    pub(super) tasks: Tasks,
    pub(super) shared: Arc<Shared<I>>,
    pub(super) backing: Rc<B>,
    pub(super) counters: WriterCounters,
    /// Free frames of this CPU.
    pub(super) stock: Stock,
    pub(super) dirty: Batch,
    pub(super) writeback: Batch,
    /// How the policy hears of hits.
    heard: Heard,
    /// Those that it has not heard of yet.
    uses: RefCell<Candidates>,
}

impl<I: Index, B: Backing> Pages for CpuPages<I, B> {
    const WAITERS: u32 = WAITERS;
    const STUCK: u32 = STUCK;
    const WRITEBACK: u32 = WRITEBACK;

    #[inline(always)]
    fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    fn common(&self) -> &Common {
        &self.shared.common
    }

    fn counters(&self) -> &WriterCounters {
        &self.counters
    }

    #[inline]
    fn state(&self, frame: u32) -> u32 {
        self.shared.frames.state(frame)
    }

    #[inline]
    fn change(&self, frame: u32, set: u32, clear: u32) -> u32 {
        self.shared.frames.change(self.cpu(), frame, set, clear)
    }

    #[inline]
    fn look_up(&self, key: PageKey) -> Option<u32> {
        self.index_of(key.file()).get(self.cpu(), key.page())
    }

    #[inline]
    fn hold(&self, frame: u32, key: PageKey) -> bool {
        self.shared.frames.try_pin(self.cpu(), frame, key)
    }

    #[inline]
    fn let_go(&self, frame: u32) {
        self.shared.frames.unpin(self.cpu(), frame);
    }

    fn stuck(&self, key: PageKey) -> IoError {
        IoError::Stuck { page: key.page() }
    }
}

impl<I: Index, B: Backing> CpuPages<I, B> {
    /// The part of CPU `index`.
    pub(super) fn start(cpu: &Cpu, shared: Arc<Shared<I>>, backing: Rc<B>, index: u32) -> Rc<Self> {
        let common = &shared.common;
        let batch = shared.limits.free_batch;
        let keeps = if batch == 1 { 0 } else { batch };
        Rc::new(CpuPages {
            tasks: Tasks::start(cpu, &common.mailboxes, index, common.kernel_path),
            counters: WriterCounters::default(),
            stock: Stock::new(batch, keeps),
            dirty: Batch::default(),
            writeback: Batch::default(),
            heard: shared.replacement.hears(),
            uses: RefCell::default(),
            shared,
            backing,
        })
    }

    #[inline(always)]
    pub(super) fn cpu(&self) -> &Cpu {
        &self.tasks.cpu
    }

    #[inline(always)]
    pub(super) fn index_of(&self, file: u32) -> &I {
        self.shared.index_of(file)
    }

    /// The page of a frame was used, whose state was `state` a moment ago. True for the first use of a page that was
    /// read ahead.
    #[inline]
    pub(super) fn note_use(&self, frame: u32, state: u32) -> bool {
        let (cpu, frames) = (self.cpu(), &self.shared.frames);
        match self.heard {
            Heard::Marked => frames.mark_used(cpu, frame, state),
            Heard::Counted => frames.count_use(cpu, frame, state),
            Heard::Told => {
                // The first use is that which has brought the page.
                if state & (REFERENCED | REUSED) != 0 {
                    self.remember_use(frame);
                }
                frames.mark_used(cpu, frame, state)
            }
        }
    }

    fn remember_use(&self, frame: u32) {
        let mut uses = self.uses.borrow_mut();
        uses.push(frame);
        if uses.len() == uses.inline_size() {
            drop(uses);
            self.tell_uses();
        }
    }

    /// Tells the policy of the uses that it has not heard of.
    pub(super) fn tell_uses(&self) {
        let mut uses = self.uses.borrow_mut();
        if !uses.is_empty() {
            self.shared.replacement.used(self.cpu(), &uses);
            uses.clear();
        }
    }

    /// Adds to a count of all CPUs, by way of this CPU's batch.
    pub(super) fn count(&self, count: &SharedCount, batch: &Batch, n: i64) {
        let sum = batch.0.get() + n;
        let is_full = sum.abs() >= self.shared.limits.count_batch;
        if is_full {
            count.add(self.cpu(), sum);
        }
        batch.0.set(if is_full { 0 } else { sum });
    }

    /// Gives what this CPU has to the others, for it ends.
    pub(super) fn retire(&self) {
        let shared = &self.shared;
        self.tell_uses();
        self.stock.give_all(&self.tasks, &shared.common.free);
        for (count, batch) in [
            (&shared.dirty, &self.dirty),
            (&shared.writeback, &self.writeback),
        ] {
            count.add(self.cpu(), batch.0.take());
        }
    }

    /// Gives a page one tag and takes the other away.
    pub(super) fn retag(&self, key: PageKey, set: Option<Tag>, clear: Option<Tag>) {
        let index = self.index_of(key.file());
        index.retag(self.cpu(), key.page(), set, clear);
        self.note(key.file(), Tag::change(set));
    }

    /// Counts what happens to a page of a file, as the operating system does. An index under a lock
    /// has done so.
    pub(super) fn note(&self, file: u32, change: Change) {
        if let Some(counters) = self.index_of(file).counters() {
            self.tasks.kernel_path.count(self.cpu(), counters, change);
        }
    }

    /// The page of a frame, whose word the caller has, is filled and dirty.
    pub(super) fn mark_dirty(&self, frame: u32, key: PageKey) {
        let shared = &self.shared;
        let marked = FILLED | DIRTY;
        if self.state(frame) & marked == marked {
            return;
        }
        // The tag first: who sees the state finds the page.
        if !self.is(frame, DIRTY) {
            self.retag(key, Some(Tag::Dirty), None);
            self.count(&shared.dirty, &self.dirty, 1);
        }
        self.change_and_wake(frame, marked, 0);
    }
}
