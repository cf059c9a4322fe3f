//! What a CPU does that serves all others, the *service*: it writes dirty pages back before writers
//! must, and reads ahead for clients that cannot leave a transfer behind.
//!
//! A client of a design has a CPU that runs all the time; transfers that it began end while it does
//! something else, and it reads ahead itself. A thread of a program runs its tasks only while one
//! of its calls waits. What is to go on meanwhile it leaves to the service, as a *work item*.

use std::rc::Rc;

use wharf_runtime::sync::Ordering;

use crate::kit::backing::Backing;
use crate::kit::direct_flush::SLEEP_NS;
use crate::kit::index::Index;
use crate::kit::readahead::Plan;
use crate::scale::local::Local;
use crate::scale::shared::ReadAheadWork;
use wharf_runtime::wake::Pause;

/// Most read_ahead_work that wait. Who has more reads by itself when it gets there.
const WORK_MAX: usize = 64;

impl<I: Index, B: Backing> Local<I, B> {
    /// The background flusher of a design, for as long as the CPU runs.
    pub(crate) async fn flush_in_background(self: Rc<Self>) {
        loop {
            self.pages.tasks.join(&self.shared().common.flusher);
            if !self.is_flush_due() {
                Pause::default().await;
                continue;
            }
            self.flush_ahead().await;
        }
    }

    /// Begins to write a share, or sleeps if all that is dirty is on its way, or its storage fails.
    async fn flush_ahead(&self) {
        if self.write_back.begin_share().await.claimed == 0 {
            self.pages.tasks.join(&self.shared().common.progress);
            self.pages.tasks.wait_at_most(SLEEP_NS).await;
        }
    }

    /// One turn of the service of a program's cache. False if nothing is under way and nothing to
    /// be done, until somebody [calls](Local::call_service), who wakes the task.
    pub async fn serve(&self) -> bool {
        self.pages.tasks.join(&self.shared().common.flusher);
        self.run_read_ahead();
        if self.is_flush_due() {
            self.flush_ahead().await;
        } else if self.transfers.are_any() {
            // Or a work item, or dirty pages.
            self.transfers.wait_for_one().await;
        } else {
            return false;
        }
        true
    }

    /// True if dirty pages are to be written in the background. Asks once of a shortage of memory.
    fn is_flush_due(&self) -> bool {
        // Relaxed: a wish, which orders nothing.
        let all = self
            .shared()
            .common
            .memory_short
            .swap(false, Ordering::Relaxed);
        all || self.shared().is_over_background()
    }

    /// Wakes the service.
    pub fn call_service(&self) {
        self.write_back.wake_flusher();
    }

    /// Has plans read, without waiting for it.
    #[cold]
    pub(super) fn read_later(&self, file: u32, plans: impl IntoIterator<Item = Plan>) {
        if !self.shared().has_read_ahead_thread {
            for plan in plans {
                self.reading.read_plan(file, &plan, None, 0);
            }
            return;
        }
        self.shared()
            .read_ahead_work
            .with(self.cpu(), |read_ahead_work| {
                let room = WORK_MAX.saturating_sub(read_ahead_work.len());
                let new = plans.into_iter().map(|plan| ReadAheadWork { file, plan });
                read_ahead_work.extend(new.take(room));
            });
        self.call_service();
    }

    /// Begins to read what clients have asked for.
    fn run_read_ahead(&self) {
        let read_ahead_work = self
            .shared()
            .read_ahead_work
            .with(self.cpu(), std::mem::take);
        for ReadAheadWork { file, plan } in read_ahead_work {
            self.pages.backing.while_open(file, || {
                self.reading.read_plan(file, &plan, None, 0);
            });
        }
    }
}
