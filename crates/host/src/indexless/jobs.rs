//! What clients ask of the keeper, the CPU that has the disk.
//!
//! A disk is slow, and its store is one CPU's: clients leave jobs in a list and sleep until they are
//! done. What a hand-over takes is nothing beside a seek.

use std::sync::Arc;

use wharf_runtime::waits::Waiters;
use wharf_runtime::wake::{Mailboxes, Pause, Sleeper};
use wharf_runtime::{Cpu, Lock};

use crate::error::IoError;

/// What is to be done with the disk.
#[derive(Debug)]
pub(super) enum Want {
    /// Read so many pages, and with them so many neighbours at most that cost the disk nothing.
    Read {
        /// Pages that are wanted.
        pages: u32,
        /// Neighbours at most.
        neighbours: u32,
    },
    /// Write these pages.
    Write(Vec<u8>),
    /// Make durable what was written and discarded.
    Flush,
    /// Forget so many pages.
    Discard(u64),
    /// Find out what the drive of the cache holds of a part of the bitmap.
    Learn,
    /// Write all that is dirty to the disk.
    Drain,
    /// Note what is to be known when the cache is opened again.
    Close,
}

/// What a read gave.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// Pages before those that were wanted.
    pub(super) before: u32,
    /// All pages.
    pub(super) data: Vec<u8>,
}

/// The end of a job.
type Done = Result<Given, IoError>;

/// A job's result, once there is one.
#[derive(Clone)]
pub(super) struct Answer(Arc<Lock<Option<Done>>>);

impl Answer {
    /// Waits for it.
    pub(super) async fn wait(self, cpu: &Cpu) -> Done {
        loop {
            if let Some(done) = self.0.with(cpu, Option::take) {
                return done;
            }
            Pause::default().await;
        }
    }
}

/// A job in the list.
pub(super) struct Job {
    /// The first page; of [`Want::Learn`] the part.
    pub(super) first: u64,
    pub(super) want: Want,
    sleeper: Sleeper,
    answer: Answer,
}

impl Job {
    /// Ends it, for `keeper` on its CPU.
    pub(super) fn end(self, cpu: &Cpu, mailboxes: &Mailboxes, keeper: u32, done: Done) {
        self.answer.0.with(cpu, |answer| *answer = Some(done));
        mailboxes.wake(cpu, keeper, self.sleeper);
    }
}

/// The list.
pub(super) struct Jobs {
    list: Lock<Vec<Job>>,
    /// The keeper, when it has nothing to do.
    pub(super) keeper: Waiters,
}

impl Jobs {
    pub(super) fn new(mailboxes: &Arc<Mailboxes>) -> Jobs {
        Jobs {
            list: Lock::new(Vec::new()),
            keeper: Waiters::new(mailboxes.clone()),
        }
    }

    /// Leaves a job, for a task of `client`.
    pub(super) fn leave(&self, cpu: &Cpu, client: u32, first: u64, want: Want) -> Answer {
        let answer = Answer(Arc::new(Lock::new(None)));
        let sleeper = Sleeper {
            client,
            task: cpu.current(),
        };
        let job = Job {
            first,
            want,
            sleeper,
            answer: answer.clone(),
        };
        self.list.with(cpu, |list| list.push(job));
        self.keeper.wake_all(cpu, client);
        answer
    }

    /// All that were left.
    pub(super) fn take(&self, cpu: &Cpu) -> Vec<Job> {
        self.list.with(cpu, std::mem::take)
    }
}
