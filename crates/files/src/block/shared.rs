//! What several tasks share: values behind a short lock, and turns.
//!
//! Not yet: tasks of the runtime are woken by their numbers and not by wakers, so there a [`Turn`]
//! has to be waited for by other means as soon as operations of several tasks meet in one file
//! system; and the lock is not charged.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::task::{Poll, Waker};

/// A value behind a lock that is never held across a wait.
#[derive(Debug, Default)]
pub struct Shared<T>(Mutex<T>);

impl<T> Shared<T> {
    /// A value.
    pub fn new(value: T) -> Shared<T> {
        Shared(Mutex::new(value))
    }

    /// Runs `f` with the lock held.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One after the other: a lock that is held across waits.
#[derive(Debug, Default)]
pub struct Turn(Shared<Line>);

#[derive(Debug, Default)]
struct Line {
    is_taken: bool,
    waiting: Vec<Waker>,
}

/// It is one's turn until this is dropped.
#[derive(Debug)]
pub struct Taken<'a> {
    turn: &'a Turn,
    /// A turn belongs to the task that waited for it.
    _task: Cell<()>,
}

impl Turn {
    /// Waits for one's turn.
    pub async fn take(&self) -> Taken<'_> {
        poll_fn(|context| {
            self.0.with(|line| {
                if line.is_taken {
                    line.waiting.push(context.waker().clone());
                    return Poll::Pending;
                }
                line.is_taken = true;
                Poll::Ready(())
            })
        })
        .await;
        Taken {
            turn: self,
            _task: Cell::new(()),
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let waiting = self.turn.0.with(|line| {
            line.is_taken = false;
            std::mem::take(&mut line.waiting)
        });
        waiting.into_iter().for_each(Waker::wake);
    }
}
