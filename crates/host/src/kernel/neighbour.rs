//! The flusher's neighbour: a CPU that has the same queues of the drives, and serves half of their
//! interrupts.
//!
//! A drive has fewer queues than a large machine has CPUs: an Optane drive 31 for requests (as its
//! users found: github.com/spdk/spdk, issue 598), so that 64 CPUs share them by twos. A queue has
//! one interrupt, which one of its CPUs serves, and Linux spreads those over the CPUs that may have
//! them (5.4: `irq_matrix_alloc_managed` in kernel/irq/matrix.c takes the one with the fewest). So
//! of several drives every other one ends its requests on the neighbour of the CPU that sent them;
//! a completion is not sent on to a CPU of the same socket (`__blk_mq_complete_request` in
//! block/blk-mq.c).
//!
//! CPUs that all do the same give each other what they take. So only the flusher's requests are
//! ended elsewhere here: those to drives with odd numbers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use wharf_runtime::sync::{AtomicBool, Ordering};

use crate::kit::run::Run;
use wharf_runtime::waits::Waiters;
use wharf_runtime::wake::Mailboxes;

/// Writes that have ended, and whose interrupt is to be served.
pub struct Neighbour {
    /// Somebody serves. Set once, before any request is sent.
    is_there: AtomicBool,
    /// No lock of the machine: it is the drive that tells.
    ended: Mutex<VecDeque<Ended>>,
    pub(super) sleeper: Waiters,
}

/// Pages of a file that have been written, in so many requests.
pub(super) struct Ended {
    pub(super) file: u32,
    pub(super) run: Run,
    pub(super) requests: u32,
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

    /// Somebody serves from now on.
    pub(super) fn come(&self) {
        self.is_there.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_there(&self) -> bool {
        // Relaxed: the neighbour came before the first request.
        self.is_there.load(Ordering::Relaxed)
    }

    pub(super) fn pop(&self) -> Option<Ended> {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.pop_front()
    }

    pub(super) fn push(&self, one: Ended) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.push_back(one);
    }
}
