//! Waiting for something that another task of the same CPU brings about.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::cpu::Cpu;
use crate::executor::TaskId;

/// A list of tasks of one CPU that wait for a condition. Whoever changes the condition wakes them;
/// each checks it anew.
#[derive(Default)]
pub struct Notify {
    waiters: RefCell<VecDeque<TaskId>>,
}

impl Notify {
    /// Nobody waits.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// True if nobody waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiters.borrow().is_empty()
    }

    /// Wakes everyone who waits.
    #[inline]
    pub fn notify_all(&self, cpu: &Cpu) {
        let mut waiters = self.waiters.borrow_mut();
        for task in waiters.drain(..) {
            cpu.wake(task);
        }
    }

    /// Wakes the task that has waited longest.
    pub fn notify_one(&self, cpu: &Cpu) {
        if let Some(task) = self.waiters.borrow_mut().pop_front() {
            cpu.wake(task);
        }
    }

    /// Waits for the next notification. Check the condition, wait, check again.
    #[inline]
    pub fn wait<'a>(&'a self, cpu: &'a Cpu) -> Notified<'a> {
        Notified {
            notify: self,
            cpu,
            registered: false,
        }
    }
}

/// See [`Notify::wait`].
pub struct Notified<'a> {
    notify: &'a Notify,
    cpu: &'a Cpu,
    registered: bool,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.registered {
            // A spurious wake may leave this task on the list; the caller checks its condition.
            return Poll::Ready(());
        }
        self.registered = true;
        self.notify
            .waiters
            .borrow_mut()
            .push_back(self.cpu.current());
        Poll::Pending
    }
}
