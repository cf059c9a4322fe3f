//! What one CPU has of the cache: free frames, counts, and how its tasks find pages, mark them, and
//! wait for them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::sync::Ordering;
use wharf_runtime::{Cpu, Notify};

use crate::design::Counters;
use crate::error::IoError;
use crate::readahead::ReadAhead;
use crate::scale::frame::{DIRTY, FILLED, STUCK, WAITERS};
use crate::scale::index::{Index, Tag};
use crate::scale::shared::{Shared, SharedCount};
use crate::volume::Volume;
use crate::waits::{Nap, Waiters};
use crate::wake::{Pause, Sleeper};

/// A CPU's part of a [`SharedCount`].
#[derive(Default)]
pub struct Batch(Cell<i64>);

/// See the module.
pub struct Local<I> {
    pub(super) cpu: Cpu,
    pub(super) shared: Arc<Shared<I>>,
    pub(super) volume: Rc<Volume>,
    /// The client, or as many as there are clients for the service.
    pub(super) index: u32,
    pub(crate) counters: Counters,
    /// Free frames of this CPU.
    pub(super) free: RefCell<Vec<u32>>,
    pub(super) ahead: RefCell<ReadAhead>,
    pub(super) dirty: Batch,
    pub(super) writeback: Batch,
    /// Pages dirtied since the last look at the limits.
    pub(super) dirtied: Cell<u64>,
    /// Failed write-backs that a flush of this client has reported.
    pub(super) failures_seen: Cell<u64>,
    /// Transfers of this CPU under way, and who waits for fewer.
    pub(super) in_flight: Cell<u32>,
    pub(super) landed: Notify,
}

impl<I: Index> Local<I> {
    /// The part of CPU `index`, which gets its tasks.
    pub fn start(
        cpu: &Cpu,
        shared: Arc<Shared<I>>,
        volume: Rc<Volume>,
        index: u32,
    ) -> Rc<Local<I>> {
        shared.mailboxes.serve(cpu, index);
        Rc::new(Local {
            cpu: cpu.clone(),
            failures_seen: Cell::new(shared.failures.load(Ordering::Relaxed)),
            shared,
            volume,
            index,
            counters: Counters::default(),
            free: RefCell::default(),
            ahead: RefCell::default(),
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

    /// Adds to a count of all CPUs, by way of this CPU's batch.
    pub(super) fn count(&self, count: &SharedCount, batch: &Batch, n: i64) {
        let sum = batch.0.get() + n;
        let is_full = sum.abs() >= self.shared.limits.count_batch;
        if is_full {
            count.add(&self.cpu, sum);
        }
        batch.0.set(if is_full { 0 } else { sum });
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
    pub(super) async fn nap(&self, most_ns: u64) {
        Nap::until(&self.cpu, self.cpu.now() + most_ns).await;
    }

    /// Pins a page that is in the cache, filled or not.
    pub(super) fn pin(&self, page: u64) -> Option<Pinned<'_, I>> {
        loop {
            let frame = self.shared.index.get(&self.cpu, page)?;
            // Fails if the frame is just being taken away: the index will say so in a moment.
            if self.shared.frames.try_pin(&self.cpu, frame, page) {
                return Some(Pinned { local: self, frame });
            }
            std::hint::spin_loop();
        }
    }

    /// Waits while `must_wait` says so of the state of the frame of `page`, which is pinned.
    ///
    /// # Errors
    /// If the drive holds the page and does not answer.
    pub(super) async fn wait_page(
        &self,
        frame: u32,
        page: u64,
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
            Pause::default().await;
        }
        match frames.is(frame, STUCK) {
            true => Err(IoError::Stuck { page }),
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

    /// The page of a frame, whose word the caller has, is filled and dirty.
    pub(super) fn mark_dirty(&self, frame: u32, page: u64) {
        let (cpu, shared) = (&self.cpu, &self.shared);
        let marked = FILLED | DIRTY;
        if shared.frames.state(frame) & marked == marked {
            return;
        }
        // The tag first: who sees the state finds the page.
        if !shared.frames.is(frame, DIRTY) {
            shared.index.retag(cpu, page, Some(Tag::Dirty), None);
            self.count(&shared.dirty, &self.dirty, 1);
        }
        self.change_and_wake(frame, marked, 0);
    }
}

/// A pin of a frame; dropping it takes it off.
pub struct Pinned<'a, I: Index> {
    local: &'a Local<I>,
    pub(super) frame: u32,
}

impl<'a, I: Index> Pinned<'a, I> {
    /// Takes charge of a pin that there is.
    pub(super) fn of(local: &'a Local<I>, frame: u32) -> Self {
        Pinned { local, frame }
    }
}

impl<I: Index> Drop for Pinned<'_, I> {
    fn drop(&mut self) {
        self.local.shared.frames.unpin(&self.local.cpu, self.frame);
    }
}
