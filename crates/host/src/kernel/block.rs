//! Block requests: runs of pages to and from the drive.
//!
//! A request is sent and ended by a task of its own on the CPU that submitted it, which stands for
//! the interrupt: whoever asked for the pages waits for their flags like everyone else, or does
//! something else meanwhile. So a request ends also if who asked for it has gone.
//!
//! After a timeout the drive may still use the frames. They stay locked, or in write-back, and are
//! marked as stuck: who wants them fails instead of waiting. When the drive answers after all, they
//! end as after an error.

use std::cell::Cell;
use std::rc::Rc;

use wharf_runtime::Op;
use wharf_runtime::sync::Ordering;

use crate::error::IoError;
use crate::group::Group;
use crate::kernel::accounting::Change;
use crate::kernel::frame::{LOCKED, RECLAIM, STUCK, UPTODATE, WRITEBACK};
use crate::kernel::local::Local;
use crate::kernel::xarray::Tag;
use crate::key::PageKey;
use crate::run::Run;
use crate::volume::Transfer;
use wharf_runtime::wake::Pause;

/// Requests of a CPU under way beyond which it waits before it writes back more.
pub(super) const IN_FLIGHT_MAX: u32 = 128;

/// How a request ended; `None` until it has.
pub type Outcome = Rc<Cell<Option<Result<(), IoError>>>>;

impl Local {
    /// Sends a request for a run of pages of a file, and leaves it empty. For a read its frames are locked, for a write
    /// in write-back.
    pub(super) fn submit(self: &Rc<Self>, kind: Transfer, file: u32, run: &mut Run) -> Outcome {
        let outcome = Outcome::default();
        let run = std::mem::take(run);
        if run.frames.is_empty() {
            outcome.set(Some(Ok(())));
            return outcome;
        }
        self.in_flight.set(self.in_flight.get() + 1);
        let requests = self.requests(kind, file, &run);
        self.cpu.work_n(Op::BlockSubmit, requests, || ());
        let (local, told) = (self.clone(), outcome.clone());
        self.cpu.spawn("block request", async move {
            local.carry_out(kind, file, run, requests, &told).await;
            local.in_flight.set(local.in_flight.get() - 1);
            local.landed.notify_all(&local.cpu);
        });
        outcome
    }

    /// Requests that a run becomes: one for each drive, and what redundancy adds.
    fn requests(&self, kind: Transfer, file: u32, run: &Run) -> u32 {
        let first = self.files.in_volume(file, run.first);
        self.volume
            .commands_of(kind, first, run.frames.len() as u64)
    }

    /// Waits while too many requests of this CPU are under way.
    pub(super) async fn wait_for_room(&self) {
        let most = match self.is_service {
            true => IN_FLIGHT_MAX,
            false => self.shared.limits.in_flight_max,
        };
        while self.in_flight.get() >= most {
            self.landed.wait(&self.cpu).await;
        }
    }

    async fn carry_out(
        &self,
        kind: Transfer,
        file: u32,
        run: Run,
        requests: u32,
        outcome: &Outcome,
    ) {
        let address = |frame: &u32| self.shared.frames.address(*frame);
        let addresses: Vec<u64> = run.frames.iter().map(address).collect();
        let group = self.volume.open_group();
        let first = self.files.in_volume(file, run.first);
        self.volume.issue(&group, kind, first, &addresses).await;
        self.volume.ring();
        let result = group.wait(&self.cpu).await.map(drop);
        let is_write = kind != Transfer::Read;
        if is_write && result.is_ok() && self.ends_elsewhere(file, &run) {
            outcome.set(Some(result));
            return self.end_elsewhere(file, run, requests);
        }
        self.cpu.work_n(Op::Interrupt, requests, || ());
        outcome.set(Some(result));
        // Who waits for the outcome need not wait for a drive that is late.
        self.landed.notify_all(&self.cpu);
        if !group.is_quiet() {
            self.wait_for_late(&group, &run).await;
        }
        match is_write {
            true => self.end_write(file, &run, result.is_ok()),
            false => self.end_read(&run, result.is_ok()),
        }
        self.wake(&self.shared.progress);
    }

    /// Has everyone who wants the frames fail until the drive has answered.
    #[cold]
    async fn wait_for_late(&self, group: &Group, run: &Run) {
        for &frame in &run.frames {
            self.shared.frames.set(&self.cpu, frame, STUCK);
            self.wake_page(frame);
        }
        self.wake(&self.shared.progress);
        while !group.is_quiet() {
            group.watch(&self.cpu);
            Pause::default().await;
        }
    }

    /// Unlocks the pages of a read. After an error they stay, without their content: the next one
    /// who wants one reads it again.
    fn end_read(&self, run: &Run, ok: bool) {
        for &frame in &run.frames {
            if ok {
                self.shared.frames.set(&self.cpu, frame, UPTODATE);
            }
            self.clear_and_wake(frame, LOCKED | STUCK);
        }
    }

    /// Ends the write-back of pages. After an error they are dirty again. (Linux forgets them.)
    pub(super) fn end_write(&self, file: u32, run: &Run, ok: bool) {
        let shared = &self.shared;
        if !ok {
            // Counted when the pages are dirty again, not when they were late: a flush that began in
            // between has not seen them among the dirty ones, and must hear of them.
            let failures = &shared.inodes[file as usize].failures;
            failures.fetch_add(run.frames.len() as u64, Ordering::Relaxed);
        }
        let mut rotated = Vec::new();
        for (page, &frame) in (run.first..).zip(&run.frames) {
            if !ok {
                self.mark_dirty(frame, PageKey::new(file, page));
            }
            let tree = shared.tree(file);
            tree.change(&self.cpu, Change::Written, 1, |tree| {
                let clear = || tree.set_tag(page, Tag::Writeback, false);
                self.cpu.work(Op::TreeUpdate, clear);
            });
            shared.writeback.fetch_sub(1, Ordering::Relaxed);
            let before = self.clear_and_wake(frame, WRITEBACK | STUCK | RECLAIM);
            if ok && before & RECLAIM != 0 {
                rotated.push(frame);
            }
        }
        if ok {
            let count = run.frames.len() as u64;
            shared.written.fetch_add(count, Ordering::Relaxed);
            match self.is_service {
                true => drop(
                    shared
                        .background_written
                        .fetch_add(count, Ordering::Relaxed),
                ),
                false => self.counters.write_backs.add(count),
            }
        }
        if !rotated.is_empty() {
            self.rotate(&rotated);
        }
    }

    /// Waits until the read of a page, for which the caller's frame is locked, has ended.
    ///
    /// # Errors
    /// The read's.
    pub(super) async fn wait_read(&self, outcome: &Outcome, frame: u32) -> Result<(), IoError> {
        loop {
            if let Some(result) = outcome.get() {
                return result;
            }
            // The outcome is set before the page is unlocked, or stuck.
            if self.join_page(frame, LOCKED) {
                self.counters.waits.add(1);
                self.sleep(Pause::default()).await;
            }
        }
    }
}
