//! What a client has asked of managers and not done with: a slab of tickets.
//!
//! A ticket is opened with a request and bears its answer. Tasks that want the page *join* it, and
//! leave it when they have copied; when the answer is there and nobody is left, it is closed.

use wharf_runtime::TaskId;

use crate::error::IoError;
use crate::tri::private::Place;

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is with the manager.
    Asked,
    /// The page is in this frame, pinned.
    Here {
        /// The frame.
        frame: u32,
        /// Whether it was in the cache.
        hit: bool,
    },
    /// The frame waits to be filled by the task that opened the ticket.
    ToFill {
        /// The frame.
        frame: u32,
    },
    /// The task that was to fill the frame has gone: others must ask again.
    Abandoned,
    /// What was to be written back is on the drive.
    Written,
    /// It failed.
    Failed(IoError),
}

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// The manager asked.
    pub(super) manager: u32,
    /// The page among the manager's, and its place in the private cache; `None` if no pin was asked
    /// for.
    pub(super) pin: Option<(u64, Place)>,
}

/// One request and its answer.
pub(super) struct Ticket {
    /// What was asked for.
    pub(super) asked: Asked,
    /// When it was asked for.
    pub(super) asked_ns: u64,
    /// How far it has come.
    pub(super) progress: Progress,
    /// The task that was to fill the frame has gone before there was one.
    pub(super) nobody_fills: bool,
    /// Tasks that have joined it and not left.
    users: u32,
    waiters: Vec<TaskId>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Tickets {
    all: Vec<Ticket>,
    free: Vec<u32>,
    /// Tickets without an answer.
    asked: u32,
}

impl Tickets {
    /// Opens a ticket for a task, which has joined it.
    pub(super) fn open(&mut self, asked: Asked, task: TaskId, now_ns: u64) -> u32 {
        self.asked += 1;
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(Ticket {
                asked,
                asked_ns: now_ns,
                progress: Progress::Asked,
                nobody_fills: false,
                users: 0,
                waiters: Vec::new(),
            });
            self.all.len() as u32 - 1
        });
        let ticket = &mut self.all[number as usize];
        (ticket.asked, ticket.progress) = (asked, Progress::Asked);
        ticket.asked_ns = now_ns;
        ticket.nobody_fills = false;
        self.join(number, task);
        number
    }

    /// Another task wants the same.
    pub(super) fn join(&mut self, number: u32, task: TaskId) {
        let ticket = &mut self.all[number as usize];
        ticket.users += 1;
        ticket.waiters.push(task);
    }

    /// A ticket.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &Ticket {
        &self.all[number as usize]
    }

    /// Notes an answer, or what became of it.
    pub(super) fn set(&mut self, number: u32, progress: Progress) {
        let ticket = &mut self.all[number as usize];
        self.asked -= u32::from(ticket.progress == Progress::Asked);
        ticket.progress = progress;
    }

    /// The tasks to wake after a change. All that stay are woken again by the next.
    pub(super) fn waiters(&self, number: u32) -> impl Iterator<Item = TaskId> {
        self.all[number as usize].waiters.iter().copied()
    }

    /// A task leaves, which was to fill the frame if `fills`; true if it was the last.
    pub(super) fn leave(&mut self, number: u32, fills: bool) -> bool {
        let ticket = &mut self.all[number as usize];
        ticket.nobody_fills |= fills;
        ticket.users -= 1;
        ticket.users == 0
    }

    /// True if nobody waits for the answer any more.
    pub(super) fn is_deserted(&self, number: u32) -> bool {
        self.all[number as usize].users == 0
    }

    /// Gives the number of a ticket back that has its answer and no users.
    pub(super) fn close(&mut self, number: u32) {
        let ticket = &mut self.all[number as usize];
        debug_assert!(ticket.users == 0 && ticket.progress != Progress::Asked);
        ticket.waiters.clear();
        self.free.push(number);
    }

    /// True while a manager owes an answer.
    pub(super) fn any_asked(&self) -> bool {
        self.asked > 0
    }

    /// Tickets that are not closed.
    pub(super) fn open_count(&self) -> usize {
        self.all.len() - self.free.len()
    }
}
