//! Queues of hosts in other processes, of which there may be thousands.
//!
//! The sources by which the controller is notified are too few for them, so they share one ([`SOURCE`]). Which of them have rung
//! the drive's [`Bells`] say. These stand in line here: each time that it is the source's turn the first has a burst taken, and goes
//! to the end of the line unless it is empty then.

use std::collections::VecDeque;

use wharf_runtime::Bells;
use wharf_runtime::notifier::SOURCES;

/// What guests' queues notify the controller by.
pub const SOURCE: u32 = SOURCES as u32 - 1;

/// The number of no queue: the controller knows by it that a source is that of all guests.
pub(super) const ALL: u16 = u16::MAX;

/// The queue pairs that a drive has for guests.
#[derive(Clone, Default)]
pub struct GuestQueues {
    /// By which guests ring, each by the number of its queue.
    pub bells: Bells,
    /// How many there are.
    pub count: u32,
}

/// Guests' queues that have rung and were not emptied since.
pub(super) struct Line {
    bells: Bells,
    /// In the order of their turns, each once.
    waiting: VecDeque<u16>,
    waits: Vec<bool>,
}

impl Line {
    /// Nobody has rung. The numbers of all queues are below `queues`.
    pub(super) fn new(bells: Bells, queues: usize) -> Line {
        Line {
            bells,
            waiting: VecDeque::new(),
            waits: vec![false; queues],
        }
    }

    /// The queue whose turn it is.
    pub(super) fn next(&mut self) -> Option<u16> {
        while let Some(number) = self.bells.take() {
            self.put(number as u16);
        }
        let qid = self.waiting.pop_front()?;
        self.waits[qid as usize] = false;
        Some(qid)
    }

    /// A queue has more.
    pub(super) fn put(&mut self, qid: u16) {
        if !std::mem::replace(&mut self.waits[qid as usize], true) {
            self.waiting.push_back(qid);
        }
    }

    /// Whether nobody is in line.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
