//! One task that waits for the earliest of many times, which others keep adding.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::cpu::Cpu;
use crate::executor::TaskId;

const NEVER: u64 = u64::MAX;

/// An alarm clock of one task. Others of the same CPU set it to earlier times.
pub struct Alarm {
    waiter: Cell<Option<TaskId>>,
    due_ns: Cell<u64>,
}

impl Default for Alarm {
    fn default() -> Self {
        Alarm {
            waiter: Cell::new(None),
            due_ns: Cell::new(NEVER),
        }
    }
}

impl Alarm {
    /// Has the waiter woken at `at_ns`, unless it is woken earlier anyway.
    #[inline]
    pub fn set(&self, cpu: &Cpu, at_ns: u64) {
        if at_ns < self.due_ns.get() {
            self.due_ns.set(at_ns);
            if let Some(task) = self.waiter.get() {
                cpu.executor().schedule(at_ns, task);
            }
        }
    }

    /// Waits until the earliest time set since the last wait ended.
    #[inline]
    pub fn wait<'a>(&'a self, cpu: &'a Cpu) -> AlarmWait<'a> {
        AlarmWait {
            alarm: self,
            cpu,
            armed: false,
        }
    }
}

/// See [`Alarm::wait`].
pub struct AlarmWait<'a> {
    alarm: &'a Alarm,
    cpu: &'a Cpu,
    armed: bool,
}

impl Future for AlarmWait<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let due_ns = self.alarm.due_ns.get();
        if due_ns != NEVER && due_ns <= self.cpu.now() {
            self.alarm.due_ns.set(NEVER);
            self.alarm.waiter.set(None);
            return Poll::Ready(());
        }
        if !self.armed {
            self.armed = true;
            self.alarm.waiter.set(Some(self.cpu.current()));
            if due_ns != NEVER {
                self.cpu.executor().schedule(due_ns, self.cpu.current());
            }
        }
        Poll::Pending
    }
}
