//! Waiting for something that another task of the same CPU brings about.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::cpu::Cpu;
use crate::executor::TaskId;

/// A list of tasks of one CPU that wait for a condition. Whoever changes the condition wakes them;
/// each checks it anew.
///
/// A wait has one place on the list at most. It leaves it when it ends, also by a wake that was meant
/// for something else, or when it is dropped; one that is dropped before it knew of its notification
/// passes it on. So no [`Notify::notify_one`] is spent on a task that does not wait.
#[derive(Default)]
pub struct Notify {
    /// In the order of their numbers.
    waiters: RefCell<VecDeque<Waiter>>,
    next_number: Cell<u64>,
}

struct Waiter {
    number: u64,
    task: TaskId,
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
        for waiter in waiters.drain(..) {
            cpu.wake(waiter.task);
        }
    }

    /// Wakes the task that has waited longest.
    pub fn notify_one(&self, cpu: &Cpu) {
        if let Some(waiter) = self.waiters.borrow_mut().pop_front() {
            cpu.wake(waiter.task);
        }
    }

    /// Waits for the next notification. Check the condition, wait, check again.
    #[inline]
    pub fn wait<'a>(&'a self, cpu: &'a Cpu) -> Notified<'a> {
        Notified {
            notify: self,
            cpu,
            number: None,
            ended: false,
        }
    }

    fn enter(&self, task: TaskId) -> u64 {
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        let mut waiters = self.waiters.borrow_mut();
        waiters.push_back(Waiter { number, task });
        number
    }

    /// Takes a wait off the list; false if it is not there, because it was notified.
    fn leave(&self, number: u64) -> bool {
        let mut waiters = self.waiters.borrow_mut();
        if waiters.front().is_none_or(|first| first.number > number) {
            return false;
        }
        let place = waiters.binary_search_by_key(&number, |waiter| waiter.number);
        if let Ok(place) = place {
            waiters.remove(place);
        }
        place.is_ok()
    }
}

/// See [`Notify::wait`].
pub struct Notified<'a> {
    notify: &'a Notify,
    cpu: &'a Cpu,
    /// Its number on the list, once it has been there.
    number: Option<u64>,
    ended: bool,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let Some(number) = self.number else {
            self.number = Some(self.notify.enter(self.cpu.current()));
            return Poll::Pending;
        };
        // Maybe woken for something else: the caller checks its condition.
        self.ended = true;
        self.notify.leave(number);
        Poll::Ready(())
    }
}

impl Drop for Notified<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(number) = self.number.filter(|_| !self.ended) else {
            return;
        };
        if !self.notify.leave(number) {
            self.notify.notify_one(self.cpu);
        }
    }
}
