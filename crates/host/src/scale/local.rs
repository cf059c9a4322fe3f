//! What one CPU has of the cache: free frames, counts, and how its tasks find pages, mark them, and
//! wait for them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::{Cpu, Notify};

use crate::design::Statistics;
use crate::dflush::WriterCounters;
use crate::error::IoError;
use crate::kernel::accounting::Change;
use crate::key::PageKey;
use crate::readahead::ReadAhead;
use crate::scale::backing::Backing;
use crate::scale::frame::{DIRTY, FILLED, Frames, STUCK, WAITERS};
use crate::scale::hints::Hints;
use crate::scale::index::{Index, Tag};
use crate::scale::shared::{Shared, SharedCount};
use crate::scale::stride::Stride;
use crate::waits::{TimedWait, Waiters};
use crate::wake::{Pause, Sleeper};

/// A CPU's part of a [`SharedCount`].
#[derive(Default)]
pub struct Batch(Cell<i64>);

/// See the module.
pub struct Local<I, B> {
    pub(super) cpu: Cpu,
    pub(super) shared: Arc<Shared<I>>,
    pub(super) backing: Rc<B>,
    /// The client, or as many as there are clients for the service.
    pub(super) index: u32,
    pub(crate) counters: WriterCounters,
    /// Free frames of this CPU.
    pub(super) free: RefCell<Vec<u32>>,
    /// What this CPU remembers of its readers of each file: those in order, those in steps.
    ahead: RefCell<Vec<ReadAhead>>,
    strides: RefCell<Vec<Stride>>,
    /// What it remembers of where pages are.
    pub(super) hints: Hints,
    pub(super) dirty: Batch,
    pub(super) writeback: Batch,
    /// Pages dirtied since the last look at the limits.
    pub(super) dirtied: Cell<u64>,
    /// Transfers of this CPU under way, and who waits for fewer.
    pub(super) in_flight: Cell<u32>,
    pub(super) landed: Notify,
}

impl<I: Index, B: Backing> Local<I, B> {
    /// The part of CPU `index`, which gets its tasks.
    pub fn start(cpu: &Cpu, shared: Arc<Shared<I>>, backing: Rc<B>, index: u32) -> Rc<Local<I, B>> {
        shared.mailboxes.serve(cpu, index);
        let window = || ReadAhead::new(shared.window_pages);
        let stride = || Stride::new(shared.ahead_pages_max().min(shared.window_pages));
        Rc::new(Local {
            cpu: cpu.clone(),
            ahead: RefCell::new(shared.files.iter().map(|_| window()).collect()),
            strides: RefCell::new(shared.files.iter().map(|_| stride()).collect()),
            hints: Hints::new(shared.frames.count()),
            shared,
            backing,
            index,
            counters: WriterCounters::default(),
            free: RefCell::default(),
            dirty: Batch::default(),
            writeback: Batch::default(),
            dirtied: Cell::new(0),
            in_flight: Cell::new(0),
            landed: Notify::new(),
        })
    }

    pub(super) fn is_service(&self) -> bool {
        self.index == self.shared.clients
    }

    /// Does `f` with what is remembered of readers of a file in order.
    #[inline]
    pub(super) fn ahead<R>(&self, file: u32, f: impl FnOnce(&mut ReadAhead) -> R) -> R {
        f(&mut self.ahead.borrow_mut()[file as usize])
    }

    /// Does `f` with what is remembered of readers of a file in steps.
    pub(super) fn stride<R>(&self, file: u32, f: impl FnOnce(&mut Stride) -> R) -> R {
        f(&mut self.strides.borrow_mut()[file as usize])
    }

    /// Adds to a count of all CPUs, by way of this CPU's batch.
    pub(super) fn count(&self, count: &SharedCount, batch: &Batch, n: i64) {
        let sum = batch.0.get() + n;
        let is_full = sum.abs() >= self.shared.limits.count_batch;
        if is_full {
            count.add(&self.cpu, sum);
        }
        batch.0.set(if is_full { 0 } else { sum });
    }

    /// The frames of the cache.
    #[inline(always)]
    pub fn frames(&self) -> &Frames {
        &self.shared.frames
    }

    /// Waits until no transfer of this CPU is under way. A CPU that runs only while its program waits ends
    /// every call so: what others wait for is never left with one that does not run.
    pub async fn land(&self) {
        while self.has_transfers() {
            self.landed.wait(&self.cpu).await;
        }
    }

    /// True if transfers of this CPU are under way.
    pub(super) fn has_transfers(&self) -> bool {
        self.in_flight.get() > 0
    }

    /// Gives what this CPU has to the others, for it ends.
    pub fn retire(&self) {
        let shared = &self.shared;
        shared.free.give(&self.cpu, &self.free.take());
        for (count, batch) in [
            (&shared.dirty, &self.dirty),
            (&shared.writeback, &self.writeback),
        ] {
            count.add(&self.cpu, batch.0.take());
        }
    }

    /// What the CPU did so far.
    pub fn statistics(&self) -> Statistics {
        self.counters.own()
    }

    fn sleeper(&self) -> Sleeper {
        Sleeper {
            client: self.index,
            task: self.cpu.current(),
        }
    }

    /// Enters the running task among those who are woken by `waiters`.
    pub(super) fn join(&self, waiters: &Waiters) {
        waiters.join(&self.cpu, self.sleeper());
    }

    /// Wakes who is on `waiters`.
    pub(super) fn wake(&self, waiters: &Waiters) {
        waiters.wake_all(&self.cpu, self.index);
    }

    /// Sleeps until something is woken on `waiters`, but for `most_ns` at most. The caller has
    /// [joined](Waiters::join) and looked at its condition.
    pub(super) async fn wait_at_most(&self, most_ns: u64) {
        let nap = TimedWait::until(&self.cpu, self.cpu.now() + most_ns);
        self.shared.kernel_path.sleep(&self.cpu, nap).await;
    }

    /// Pins a page that is in the cache, filled or not.
    pub(super) fn pin(&self, key: PageKey) -> Option<Pinned<'_, I, B>> {
        loop {
            let index = self.shared.index_of(key.file());
            let frame = index.get(&self.cpu, key.page())?;
            // Fails if the frame is just being taken away: the index will say so in a moment.
            if self.shared.frames.try_pin(&self.cpu, frame, key) {
                return Some(Pinned { local: self, frame });
            }
            wharf_runtime::sync::spin();
        }
    }

    /// Waits while `must_wait` says so of the state of the frame of a page, which is pinned.
    ///
    /// # Errors
    /// If the drive holds the page and does not answer.
    pub(super) async fn wait_page(
        &self,
        frame: u32,
        key: PageKey,
        must_wait: impl Fn(u32) -> bool,
    ) -> Result<(), IoError> {
        let (cpu, frames) = (&self.cpu, &self.shared.frames);
        let joined = || {
            let waits = &self.shared.page_waits;
            waits.join(cpu, frame, self.sleeper(), || {
                must_wait(frames.change(cpu, frame, WAITERS, 0))
            })
        };
        while must_wait(frames.state(frame)) && joined() {
            self.counters.waits.add(1);
            self.shared.kernel_path.sleep(cpu, Pause::default()).await;
        }
        match frames.is(frame, STUCK) {
            true => Err(IoError::Stuck { page: key.page() }),
            false => Ok(()),
        }
    }

    /// Sets and clears flags of a frame, and wakes who waits for that.
    pub(super) fn change_and_wake(&self, frame: u32, set: u32, clear: u32) {
        let before = self.shared.frames.change(&self.cpu, frame, set, clear);
        if before & WAITERS != 0 {
            self.wake_page(frame);
        }
    }

    /// Wakes who waits for a frame.
    pub(super) fn wake_page(&self, frame: u32) {
        let (cpu, frames) = (&self.cpu, &self.shared.frames);
        let clear = || {
            frames.change(cpu, frame, 0, WAITERS);
        };
        for sleeper in self.shared.page_waits.take(cpu, frame, clear) {
            self.shared.mailboxes.wake(cpu, self.index, sleeper);
        }
    }

    /// Gives a page one tag and takes the other away.
    pub(super) fn retag(&self, key: PageKey, set: Option<Tag>, clear: Option<Tag>) {
        let index = self.shared.index_of(key.file());
        index.retag(&self.cpu, key.page(), set, clear);
        self.note(key.file(), Tag::change(set));
    }

    /// Counts what happens to a page of a file, as the operating system does. An index under a lock has done so.
    pub(super) fn note(&self, file: u32, change: Change) {
        if let Some(counters) = self.shared.index_of(file).counters() {
            self.shared.kernel_path.count(&self.cpu, counters, change);
        }
    }

    /// The page of a frame, whose word the caller has, is filled and dirty.
    pub(super) fn mark_dirty(&self, frame: u32, key: PageKey) {
        let shared = &self.shared;
        let marked = FILLED | DIRTY;
        if shared.frames.state(frame) & marked == marked {
            return;
        }
        // The tag first: who sees the state finds the page.
        if !shared.frames.is(frame, DIRTY) {
            self.retag(key, Some(Tag::Dirty), None);
            self.count(&shared.dirty, &self.dirty, 1);
        }
        self.change_and_wake(frame, marked, 0);
    }
}

/// A pin of a frame; dropping it takes it off.
pub struct Pinned<'a, I: Index, B: Backing> {
    local: &'a Local<I, B>,
    pub(super) frame: u32,
}

impl<'a, I: Index, B: Backing> Pinned<'a, I, B> {
    /// Takes charge of a pin that there is.
    pub(super) fn of(local: &'a Local<I, B>, frame: u32) -> Self {
        Pinned { local, frame }
    }

    /// Leaves the pin to the caller.
    pub(super) fn keep(self) -> u32 {
        std::mem::ManuallyDrop::new(self).frame
    }
}

impl<I: Index, B: Backing> Drop for Pinned<'_, I, B> {
    fn drop(&mut self) {
        self.local.shared.frames.unpin(&self.local.cpu, self.frame);
    }
}
