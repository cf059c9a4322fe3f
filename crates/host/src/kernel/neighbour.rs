//! The flusher's neighbour: a CPU that has the same queues of the drives, and serves half of their interrupts.
//!
//! A drive has fewer queues than a large machine has CPUs: an Optane drive 31 for requests (as its users found:
//! github.com/spdk/spdk, issue 598), so that 64 CPUs share them by twos. A queue has one interrupt, which one of its CPUs
//! serves, and Linux spreads those over the CPUs that may have them (5.4: `irq_matrix_alloc_managed` in kernel/irq/matrix.c takes
//! the one with the fewest). So of several drives every other one ends its requests on the neighbour of the CPU that sent
//! them; a completion is not sent on to a CPU of the same socket (`__blk_mq_complete_request` in block/blk-mq.c).
//!
//! CPUs that all do the same give each other what they take. So only the flusher's requests are ended elsewhere here:
//! those to drives with odd numbers.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use wharf_runtime::Op;
use wharf_runtime::sync::{AtomicBool, Ordering};

use crate::kernel::local::Local;
use crate::run::Run;
use wharf_runtime::waits::Waiters;
use wharf_runtime::wake::{Mailboxes, Pause};

/// Writes that have ended, and whose interrupt is to be served.
pub struct Neighbour {
    /// Somebody serves. Set once, before any request is sent.
    is_there: AtomicBool,
    /// No lock of the machine: it is the drive that tells.
    ended: Mutex<VecDeque<Ended>>,
    sleeper: Waiters,
}

/// Pages of a file that have been written, in so many requests.
struct Ended {
    file: u32,
    run: Run,
    requests: u32,
}

impl Neighbour {
    /// Nobody yet; who comes is woken through `mailboxes`.
    pub fn new(mailboxes: Arc<Mailboxes>) -> Neighbour {
        Neighbour {
            is_there: AtomicBool::new(false),
            ended: Mutex::default(),
            sleeper: Waiters::new(mailboxes),
        }
    }

    fn pop(&self) -> Option<Ended> {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.pop_front()
    }

    fn push(&self, one: Ended) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.push_back(one);
    }
}

impl Local {
    /// Whether requests for such pages end on the neighbour.
    pub(super) fn ends_elsewhere(&self, file: u32, run: &Run) -> bool {
        let is_flusher = self.index == self.shared.clients;
        // Relaxed: the neighbour came before the first request.
        if !is_flusher || !self.shared.neighbour.is_there.load(Ordering::Relaxed) {
            return false;
        }
        let first = self.files.in_volume(file, run.first);
        self.volume.layout().locate(first).0 % 2 == 1
    }

    /// Leaves the end of a write to the neighbour.
    pub(super) fn end_elsewhere(&self, file: u32, run: Run, requests: u32) {
        let neighbour = &self.shared.neighbour;
        neighbour.push(Ended {
            file,
            run,
            requests,
        });
        self.wake(&neighbour.sleeper);
    }

    /// The neighbour, for as long as its CPU runs.
    pub(super) async fn end_for_flusher(self: Rc<Self>) {
        let neighbour = &self.shared.neighbour;
        neighbour.is_there.store(true, Ordering::Relaxed);
        loop {
            let one = neighbour.pop().or_else(|| {
                self.join(&neighbour.sleeper);
                neighbour.pop()
            });
            let Some(one) = one else {
                Pause::default().await;
                continue;
            };
            self.cpu.work_n(Op::Interrupt, one.requests, || ());
            self.end_write(one.file, &one.run, true);
            self.wake(&self.shared.progress);
            // One that works for long must not meet others in its past.
            self.cpu.pace().await;
        }
    }
}
