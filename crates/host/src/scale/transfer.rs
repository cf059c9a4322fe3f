//! Transfers: runs of pages to and from the drives.
//!
//! A transfer is sent and ended by a task of its own on the CPU that submitted it; whoever asked for
//! the pages waits for their frames like everyone else, or does something else meanwhile. So it ends
//! also if who asked for it has gone.
//!
//! After a timeout the drive may still use the frames. They stay pinned, or in write-back, and are
//! marked as stuck: who wants them fails instead of waiting. When the drive answers after all, they
//! end as after an error.

use std::cell::Cell;
use std::rc::Rc;

use wharf_runtime::sync::Ordering;

use crate::error::IoError;
use crate::key::PageKey;
use crate::run::Run;
use crate::scale::backing::{Backing, Sent};
use crate::scale::frame::{DIRTY, FAILED, FILLED, STUCK, WRITEBACK};
use crate::scale::index::{Index, Tag};
use crate::scale::local::Local;
use crate::volume::Transfer;
use wharf_runtime::wake::Pause;

/// Transfers of a CPU under way beyond which it waits before it sends more.
pub(super) const IN_FLIGHT_MAX: u32 = 128;

/// How a transfer ended; `None` until it has.
pub type Outcome = Rc<Cell<Option<Result<(), IoError>>>>;

impl<I: Index, B: Backing> Local<I, B> {
    /// Sends a transfer for a run, and leaves it empty. For a read its frames have a pin that the
    /// transfer takes off, for a write they are in write-back.
    pub(super) fn submit(self: &Rc<Self>, kind: Transfer, file: u32, run: &mut Run) -> Outcome {
        let outcome = Outcome::default();
        let run = std::mem::take(run);
        if run.frames.is_empty() {
            outcome.set(Some(Ok(())));
            return outcome;
        }
        self.in_flight.set(self.in_flight.get() + 1);
        let (local, told) = (self.clone(), outcome.clone());
        self.cpu.spawn("transfer", async move {
            local.carry_out(kind, file, &run, &told).await;
            local.in_flight.set(local.in_flight.get() - 1);
            local.landed.notify_all(&local.cpu);
        });
        outcome
    }

    /// Waits while too many transfers of this CPU are under way.
    pub(super) async fn wait_for_room(&self) {
        let most = match self.is_service() {
            true => IN_FLIGHT_MAX,
            false => self.shared.limits.in_flight_max,
        };
        while self.in_flight.get() >= most {
            self.landed.wait(&self.cpu).await;
        }
    }

    /// Waits until these transfers have ended; gives the first error.
    ///
    /// # Errors
    /// The transfers'.
    pub(super) async fn wait_for(&self, outcomes: &[Outcome]) -> Result<(), IoError> {
        if outcomes.iter().all(|outcome| outcome.get().is_some()) {
            return self.results(outcomes).await;
        }
        let results = self.results(outcomes);
        self.shared.kernel_path.sleep(&self.cpu, results).await
    }

    /// As [`Local::wait_for`], whatever it costs to sleep.
    async fn results(&self, outcomes: &[Outcome]) -> Result<(), IoError> {
        let mut all = Ok(());
        for outcome in outcomes {
            loop {
                if let Some(result) = outcome.get() {
                    all = all.and(result);
                    break;
                }
                self.landed.wait(&self.cpu).await;
            }
        }
        all
    }

    async fn carry_out(self: &Rc<Self>, kind: Transfer, file: u32, run: &Run, outcome: &Outcome) {
        let (cpu, frames) = (&self.cpu, &self.shared.frames);
        let sent = self.backing.begin(cpu, kind, file, run, frames).await;
        let result = sent.wait(cpu).await;
        outcome.set(Some(result));
        if !sent.is_quiet() {
            self.landed.notify_all(&self.cpu);
            self.wait_for_late(&sent, run).await;
        }
        match kind {
            Transfer::Read => self.end_read(run, result.is_ok()),
            _ => self.end_write(file, run, result.is_ok()),
        }
        self.wake(&self.shared.progress);
    }

    /// Has everyone who wants the frames fail until the drive has answered.
    #[cold]
    async fn wait_for_late(&self, sent: &B::Sent, run: &Run) {
        for &frame in &run.frames {
            self.change_and_wake(frame, STUCK, 0);
        }
        self.wake(&self.shared.progress);
        while !sent.is_quiet() {
            sent.watch(&self.cpu);
            Pause::default().await;
        }
    }

    /// Ends a read: the pages are there, or somebody may try again.
    fn end_read(&self, run: &Run, ok: bool) {
        for &frame in &run.frames {
            self.change_and_wake(frame, if ok { FILLED } else { FAILED }, STUCK);
            self.shared.frames.unpin(&self.cpu, frame);
        }
    }

    /// Ends the write-back of pages. After an error they are dirty again.
    fn end_write(&self, file: u32, run: &Run, ok: bool) {
        let (cpu, shared) = (&self.cpu, &self.shared);
        let count = run.frames.len() as u64;
        let retry = &shared.files[file as usize].retry;
        match ok {
            true => retry.note_success(),
            false => retry.note_failure(cpu.now()),
        }
        if !ok {
            // Counted when the pages are dirty again, not when they were late: a flush that began in
            // between has not seen them among the dirty ones, and must hear of them.
            let failures = &shared.files[file as usize].failures;
            failures.fetch_add(count, Ordering::Relaxed);
        }
        for (page, &frame) in (run.first..).zip(&run.frames) {
            let dirty = (!ok).then_some(Tag::Dirty);
            self.retag(PageKey::new(file, page), dirty, Some(Tag::Writeback));
            self.change_and_wake(frame, if ok { 0 } else { DIRTY }, WRITEBACK | STUCK);
        }
        self.count(&shared.writeback, &self.writeback, -(count as i64));
        if !ok {
            self.count(&shared.dirty, &self.dirty, count as i64);
        } else if self.is_service() {
            let written = &shared.background_written;
            written.fetch_add(count, Ordering::Relaxed);
        } else {
            self.counters.write_backs.add(count);
        }
    }
}
