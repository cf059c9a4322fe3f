//! Transfers: runs of pages to and from what lies below a cache.
//!
//! A transfer is sent and ended by a task of its own on the CPU that submitted it, which stands for
//! the interrupt where there is one; whoever asked for the pages waits for their frames like
//! everyone else, or does something else meanwhile. So it ends also if who asked for it has gone.
//!
//! After a timeout the drive may still use the frames. They stay as they are, and are marked as
//! stuck: who wants them fails instead of waiting. When the drive answers after all, they end as
//! after an error.

use std::cell::Cell;
use std::rc::Rc;

use wharf_runtime::Notify;
use wharf_runtime::wake::Pause;
use wharf_wire::dma::DmaRegion;

use crate::error::IoError;
use crate::kit::backing::{Backing, Sent};
use crate::kit::pages::Pages;
use crate::kit::run::Run;
use crate::volume::Transfer;

/// Transfers of a CPU under way beyond which it waits before it sends more.
pub(crate) const IN_FLIGHT_MAX: u32 = 128;

/// How a transfer ended; `None` until it has.
pub(crate) type Outcome = Rc<Cell<Option<Result<(), IoError>>>>;

/// What becomes of pages whose transfer has ended.
pub(crate) trait Ends: Pages {
    /// What lies below.
    type Backing: Backing;

    /// Whether who waits for a transfer is woken before those who wait for its pages.
    const TELLS_FIRST: bool;

    /// What lies below.
    fn backing(&self) -> &Self::Backing;

    /// The memory of the frames.
    fn memory(&self) -> &DmaRegion;

    /// A transfer is ordered: what that costs is paid. Gives the requests that it becomes, for
    /// [`Ends::answered`].
    fn ordered(&self, _kind: Transfer, _file: u32, _run: &Run) -> u32 {
        0
    }

    /// What lies below has answered, in so many requests. Gives the run back, or `None` if another
    /// CPU sees to its end.
    fn answered(
        &self,
        _kind: Transfer,
        _file: u32,
        run: Run,
        _requests: u32,
        _ok: bool,
    ) -> Option<Run> {
        Some(run)
    }

    /// Ends a read: the pages are there, or somebody may try again.
    fn end_read(&self, run: &Run, ok: bool);

    /// Ends the write-back of pages of a file. After an error they are dirty again.
    fn end_write(&self, file: u32, run: &Run, ok: bool);
}

/// The transfers of a CPU. See the module.
pub(crate) struct Transfers<P> {
    pages: Rc<P>,
    /// Those of a client beyond which it waits before it sends more.
    client_max: u32,
    /// Those under way, and who waits for fewer.
    in_flight: Cell<u32>,
    landed: Notify,
}

impl<P: Ends> Transfers<P> {
    /// None yet.
    pub(crate) fn new(pages: &Rc<P>, client_max: u32) -> Rc<Transfers<P>> {
        Rc::new(Transfers {
            pages: pages.clone(),
            client_max,
            in_flight: Cell::new(0),
            landed: Notify::new(),
        })
    }

    /// Sends a transfer for a run of pages of a file, and leaves it empty. The frames are such as
    /// [`Ends::end_read`] or [`Ends::end_write`] expects.
    pub(crate) fn submit(self: &Rc<Self>, kind: Transfer, file: u32, run: &mut Run) -> Outcome {
        let outcome = Outcome::default();
        let run = std::mem::take(run);
        if run.frames.is_empty() {
            outcome.set(Some(Ok(())));
            return outcome;
        }
        self.in_flight.set(self.in_flight.get() + 1);
        let requests = self.pages.ordered(kind, file, &run);
        let (all, told) = (self.clone(), outcome.clone());
        self.pages.tasks().cpu.spawn("transfer", async move {
            all.carry_out(kind, file, run, requests, &told).await;
            all.in_flight.set(all.in_flight.get() - 1);
            all.notify();
        });
        outcome
    }

    async fn carry_out(
        &self,
        kind: Transfer,
        file: u32,
        run: Run,
        requests: u32,
        outcome: &Outcome,
    ) {
        let (pages, cpu) = (&*self.pages, &self.pages.tasks().cpu);
        let memory = pages.memory();
        let sent = pages.backing().begin(cpu, kind, file, &run, memory).await;
        let result = sent.wait(cpu).await;
        let kept = pages.answered(kind, file, run, requests, result.is_ok());
        outcome.set(Some(result));
        let Some(run) = kept else { return };
        // Who waits for the outcome need not wait for a drive that is late.
        if P::TELLS_FIRST || !sent.is_quiet() {
            self.notify();
        }
        if !sent.is_quiet() {
            self.wait_for_late(&sent, &run).await;
        }
        match kind {
            Transfer::Read => pages.end_read(&run, result.is_ok()),
            _ => pages.end_write(file, &run, result.is_ok()),
        }
        pages.tasks().wake(&pages.common().progress);
    }

    /// Has everyone who wants the frames fail until the drive has answered.
    #[cold]
    async fn wait_for_late(&self, sent: &<P::Backing as Backing>::Sent, run: &Run) {
        let (pages, cpu) = (&*self.pages, &self.pages.tasks().cpu);
        for &frame in &run.frames {
            pages.change_and_wake(frame, P::STUCK, 0);
        }
        pages.tasks().wake(&pages.common().progress);
        while !sent.is_quiet() {
            sent.watch(cpu);
            Pause::default().await;
        }
    }

    fn notify(&self) {
        self.landed.notify_all(&self.pages.tasks().cpu);
    }

    /// Waits until a transfer of this CPU has ended, or more than that.
    pub(crate) async fn wait_for_one(&self) {
        self.landed.wait(&self.pages.tasks().cpu).await;
    }

    /// Waits while too many are under way.
    pub(crate) async fn wait_for_room(&self) {
        let most = match self.pages.is_service() {
            true => IN_FLIGHT_MAX,
            false => self.client_max,
        };
        while self.in_flight.get() >= most {
            self.wait_for_one().await;
        }
    }

    /// Waits until none is under way.
    pub(crate) async fn land(&self) {
        while self.are_any() {
            self.wait_for_one().await;
        }
    }

    /// True if some are under way.
    pub(crate) fn are_any(&self) -> bool {
        self.in_flight.get() > 0
    }

    /// Waits until these have ended, or are known to be late; gives the first error. Sleeps once.
    ///
    /// # Errors
    /// The transfers'.
    pub(crate) async fn wait_for(&self, outcomes: &[Outcome]) -> Result<(), IoError> {
        let have_ended = outcomes.iter().all(|outcome| outcome.get().is_some());
        if !have_ended {
            self.pages.tasks().sleep(self.ends(outcomes)).await;
        }
        first_error(outcomes)
    }

    async fn ends(&self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            while outcome.get().is_none() {
                self.wait_for_one().await;
            }
        }
    }

    /// As [`Transfers::wait_for`], as a thread that is woken by each that ends.
    ///
    /// # Errors
    /// The transfers'.
    pub(crate) async fn wait_for_each(&self, outcomes: &[Outcome]) -> Result<(), IoError> {
        while outcomes.iter().any(|outcome| outcome.get().is_none()) {
            self.pages.tasks().sleep(self.wait_for_one()).await;
        }
        first_error(outcomes)
    }
}

/// The first error of transfers, as far as they have ended.
pub(crate) fn first_error(outcomes: &[Outcome]) -> Result<(), IoError> {
    let results = outcomes.iter().filter_map(|outcome| outcome.get());
    results.fold(Ok(()), Result::and)
}
