//! Computing on bytes of files: memory for it, and whose turn it is.
//!
//! Problem: a scan of a file takes a core for longer than all other commands, and there may be many scans.
//!
//! Idea: vectors have tasks of their own (`tasks.rs`), so that no other command waits for one of them. What they compute is cut into
//! parts, between which a core serves what else has come; of the vectors of a core one at a time has such a part in its run queue. So a command
//! waits for one part at most.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// The memory of a drive for vectors: a wall.
pub(super) struct ComputeMemory {
    bytes: u64,
    left: Cell<u64>,
    /// Those who wait, in order: what each wants.
    line: RefCell<VecDeque<(u64, u64, Waker)>>,
    next: Cell<u64>,
}

/// Memory of a vector, until this is dropped.
pub(super) struct Taken<'a> {
    memory: &'a ComputeMemory,
    bytes: u64,
}

impl ComputeMemory {
    pub(super) fn new(bytes: u64) -> ComputeMemory {
        ComputeMemory {
            bytes,
            left: Cell::new(bytes),
            line: RefCell::default(),
            next: Cell::default(),
        }
    }

    /// All that there is: none if the drive does not compute.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Waits until there are so many bytes, of no more than there are at all.
    pub(super) async fn take(&self, bytes: u64) -> Taken<'_> {
        assert!(bytes <= self.bytes, "it was checked");
        let own = self.next.replace(self.next.get() + 1);
        poll_fn(|context| {
            let mut line = self.line.borrow_mut();
            let is_first = line.front().is_none_or(|(first, ..)| *first == own);
            if is_first && bytes <= self.left.get() {
                if line.front().is_some() {
                    line.pop_front();
                }
                self.left.set(self.left.get() - bytes);
                return Poll::Ready(());
            }
            if !line.iter().any(|(number, ..)| *number == own) {
                line.push_back((own, bytes, context.waker().clone()));
            }
            Poll::Pending
        })
        .await;
        // There may be enough for the next one too.
        self.wake_first();
        Taken {
            memory: self,
            bytes,
        }
    }

    fn wake_first(&self) {
        if let Some((_, bytes, waker)) = self.line.borrow().front()
            && *bytes <= self.left.get()
        {
            waker.wake_by_ref();
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let memory = self.memory;
        memory.left.set(memory.left.get() + self.bytes);
        memory.wake_first();
    }
}

/// Whose turn it is to compute on a core, and how many vectors it has.
#[derive(Default)]
pub(super) struct Turns {
    is_taken: Cell<bool>,
    /// Those who wait, in order; the first has place `given`.
    waiting: RefCell<VecDeque<Waker>>,
    /// Turns that who waited has been given.
    given: Cell<u64>,
    vectors: Cell<u32>,
}

/// A turn, until this is dropped.
pub(super) struct OwnTurn<'a>(&'a Turns);

/// A vector that a core has to do, until this is dropped.
pub(super) struct Counted<'a>(&'a Turns);

impl Turns {
    /// Waits for a turn.
    pub(super) async fn take(&self) -> OwnTurn<'_> {
        if !self.is_taken.replace(true) {
            return OwnTurn(self);
        }
        let mut place = None;
        poll_fn(|context| {
            let mut waiting = self.waiting.borrow_mut();
            let given = self.given.get();
            let place = *place.get_or_insert_with(|| {
                waiting.push_back(context.waker().clone());
                given + waiting.len() as u64 - 1
            });
            match place < given {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        OwnTurn(self)
    }

    /// A core has one vector more.
    pub(super) fn count(&self) -> Counted<'_> {
        self.vectors.set(self.vectors.get() + 1);
        Counted(self)
    }
}

impl Drop for OwnTurn<'_> {
    fn drop(&mut self) {
        let next = self.0.waiting.borrow_mut().pop_front();
        match next {
            Some(waker) => {
                self.0.given.set(self.0.given.get() + 1);
                waker.wake();
            }
            None => self.0.is_taken.set(false),
        }
    }
}

impl Counted<'_> {
    /// Vectors that the core has besides.
    pub(super) fn others(&self) -> u32 {
        self.0.vectors.get() - 1
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.vectors.set(self.0.vectors.get() - 1);
    }
}
