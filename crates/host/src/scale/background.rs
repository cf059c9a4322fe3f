//! What a CPU does that serves all others, the *service*: it writes dirty pages back before writers must, and reads
//! ahead for clients that cannot leave a transfer behind.
//!
//! A client of a design has a CPU that runs all the time; transfers that it began end while it does something else, and
//! it reads ahead itself. A thread of a program runs its tasks only while one of its calls waits. What is to go on
//! meanwhile it leaves to the service, as a *work item*.

use std::rc::Rc;

use wharf_runtime::sync::Ordering;

use crate::dflush::SLEEP_NS;
use crate::readahead::Plan;
use crate::scale::backing::Backing;
use crate::scale::index::Index;
use crate::scale::local::Local;
use wharf_runtime::wake::Pause;

/// Most read_ahead_work that wait. Who has more reads by itself when it gets there.
const WORK_MAX: usize = 64;

/// Something to read ahead.
#[derive(Debug, Clone, Copy)]
pub struct ReadAheadWork {
    file: u32,
    plan: Plan,
}

impl<I: Index, B: Backing> Local<I, B> {
    /// The background flusher of a design, for as long as the CPU runs.
    pub(super) async fn flush_in_background(self: Rc<Self>) {
        loop {
            self.join(&self.shared.flusher);
            if !self.is_flush_due() {
                Pause::default().await;
                continue;
            }
            self.flush_ahead().await;
        }
    }

    /// Begins to write a share, or sleeps if all that is dirty is on its way, or its storage fails.
    async fn flush_ahead(self: &Rc<Self>) {
        if self.begin_share().await.pages == 0 {
            self.join(&self.shared.progress);
            self.wait_at_most(SLEEP_NS).await;
        }
    }

    /// One turn of the service of a program's cache. False if nothing is under way and nothing to be done, until
    /// somebody [calls](Local::call_service), who wakes the task.
    pub async fn serve(self: &Rc<Self>) -> bool {
        self.join(&self.shared.flusher);
        self.run_read_ahead();
        if self.is_flush_due() {
            self.flush_ahead().await;
        } else if self.has_transfers() {
            // Or a work item, or dirty pages.
            self.landed.wait(&self.cpu).await;
        } else {
            return false;
        }
        true
    }

    /// True if dirty pages are to be written in the background. Asks once of a shortage of memory.
    fn is_flush_due(&self) -> bool {
        // Relaxed: a wish, which orders nothing.
        let all = self.shared.memory_short.swap(false, Ordering::Relaxed);
        all || self.shared.is_over_background()
    }

    /// Wakes the service.
    pub fn call_service(&self) {
        self.wake(&self.shared.flusher);
    }

    /// Has plans read, without waiting for it.
    #[cold]
    pub(super) fn read_later(self: &Rc<Self>, file: u32, plans: impl IntoIterator<Item = Plan>) {
        if !self.shared.has_read_ahead_thread {
            for plan in plans {
                self.read_plan(file, &plan, None, 0);
            }
            return;
        }
        self.shared
            .read_ahead_work
            .with(&self.cpu, |read_ahead_work| {
                let room = WORK_MAX.saturating_sub(read_ahead_work.len());
                let new = plans.into_iter().map(|plan| ReadAheadWork { file, plan });
                read_ahead_work.extend(new.take(room));
            });
        self.call_service();
    }

    /// Begins to read what clients have asked for.
    fn run_read_ahead(self: &Rc<Self>) {
        let read_ahead_work = self.shared.read_ahead_work.with(&self.cpu, std::mem::take);
        for ReadAheadWork { file, plan } in read_ahead_work {
            self.backing.while_open(file, || {
                self.read_plan(file, &plan, None, 0);
            });
        }
    }
}
