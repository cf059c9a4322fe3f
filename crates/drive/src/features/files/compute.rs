//! Computing on bytes of files: memory for it, and whose turn it is.
//!
//! Problem: a scan of a file takes a core for longer than all other commands, and there may be many scans.
//!
//! Idea: vectors have tasks of their own (`tasks.rs`), so that no other command waits for one of them. What they compute is cut into
//! parts, between which a core serves what else has come; of the vectors of a core one at a time has such a part in its run queue. So a command
//! waits for one part at most.
//!
//! Hosts share alike, however many vectors one sends: memory goes to the host that has the least of it, and a turn to the one whose last is
//! longest ago.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// How much each host has of something, if it has any.
#[derive(Default)]
pub(super) struct Shares(RefCell<BTreeMap<u32, u64>>);

impl Shares {
    pub(super) fn of(&self, host: u32) -> u64 {
        self.0.borrow().get(&host).copied().unwrap_or_default()
    }

    pub(super) fn give(&self, host: u32, more: u64) {
        *self.0.borrow_mut().entry(host).or_default() += more;
    }

    /// Takes back what it was given.
    pub(super) fn take(&self, host: u32, less: u64) {
        let mut all = self.0.borrow_mut();
        if let Some(own) = all.get_mut(&host) {
            *own -= less;
        }
        all.retain(|_, own| *own > 0);
    }
}

/// The place of whose turn it is of those who wait in a line: who has the least, and of these the first.
pub(super) fn least_of(line: impl Iterator<Item = u64>) -> Option<usize> {
    let first = line.enumerate().min_by_key(|(place, has)| (*has, *place));
    first.map(|(place, _)| place)
}

/// The memory of a drive for vectors: a wall.
pub(super) struct ComputeMemory {
    bytes: u64,
    left: Cell<u64>,
    /// What each host has of it.
    used: Shares,
    /// Those who wait, in order.
    line: RefCell<Vec<Wanting>>,
    next: Cell<u64>,
}

/// Who waits for memory.
struct Wanting {
    number: u64,
    host: u32,
    bytes: u64,
    waker: Waker,
}

/// Memory of a vector, until this is dropped.
pub(super) struct Taken<'a> {
    memory: &'a ComputeMemory,
    host: u32,
    bytes: u64,
}

impl ComputeMemory {
    pub(super) fn new(bytes: u64) -> ComputeMemory {
        ComputeMemory {
            bytes,
            left: Cell::new(bytes),
            used: Shares::default(),
            line: RefCell::default(),
            next: Cell::default(),
        }
    }

    /// All that there is: none if the drive does not compute.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Waits until there are so many bytes for a host, of no more than there are at all.
    pub(super) async fn take(&self, host: u32, bytes: u64) -> Taken<'_> {
        assert!(bytes <= self.bytes, "it was checked");
        let number = self.next.replace(self.next.get() + 1);
        let mut waits = false;
        poll_fn(|context| {
            if !std::mem::replace(&mut waits, true) {
                self.line.borrow_mut().push(Wanting {
                    number,
                    host,
                    bytes,
                    waker: context.waker().clone(),
                });
            }
            match self.first() {
                Some(place) if self.line.borrow()[place].number == number => {
                    self.line.borrow_mut().remove(place);
                    Poll::Ready(())
                }
                _ => Poll::Pending,
            }
        })
        .await;
        self.left.set(self.left.get() - bytes);
        self.used.give(host, bytes);
        // There may be enough for the next one too.
        self.wake_first();
        Taken {
            memory: self,
            host,
            bytes,
        }
    }

    /// The place in the line of whose turn it is, if there is enough: nobody passes one who waits for more.
    fn first(&self) -> Option<usize> {
        let line = self.line.borrow();
        let first = least_of(line.iter().map(|one| self.used.of(one.host)))?;
        (line[first].bytes <= self.left.get()).then_some(first)
    }

    fn wake_first(&self) {
        if let Some(place) = self.first() {
            self.line.borrow()[place].waker.wake_by_ref();
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let memory = self.memory;
        memory.left.set(memory.left.get() + self.bytes);
        memory.used.take(self.host, self.bytes);
        memory.wake_first();
    }
}

/// Whose turn it is to compute on a core, and how many vectors it has.
#[derive(Default)]
pub(super) struct Turns {
    is_taken: Cell<bool>,
    /// Those who wait, in order.
    waiting: RefCell<Vec<Waiting>>,
    /// Who waited, and has the turn.
    given: Cell<Option<u64>>,
    /// What each who asks for a turn, and each turn, is numbered by.
    count: Cell<u64>,
    hosts: RefCell<BTreeMap<u32, Own>>,
}

/// Who waits for a turn.
struct Waiting {
    number: u64,
    host: u32,
    waker: Waker,
}

/// What is known of a host that has vectors on a core.
#[derive(Default)]
struct Own {
    vectors: u32,
    /// Which was its last turn.
    last: u64,
}

/// A turn, until this is dropped.
pub(super) struct OwnTurn<'a>(&'a Turns);

/// A vector of a host that a core has to do, until this is dropped.
pub(super) struct Counted<'a> {
    turns: &'a Turns,
    host: u32,
}

impl Turns {
    /// Waits for a turn of a vector that was [counted](Turns::count).
    pub(super) async fn take(&self, host: u32) -> OwnTurn<'_> {
        let number = self.count.replace(self.count.get() + 1);
        if self.is_taken.replace(true) {
            let mut waits = false;
            poll_fn(|context| {
                if !std::mem::replace(&mut waits, true) {
                    let waker = context.waker().clone();
                    self.waiting.borrow_mut().push(Waiting {
                        number,
                        host,
                        waker,
                    });
                }
                match self.given.get() == Some(number) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            })
            .await;
        }
        self.count.set(self.count.get() + 1);
        if let Some(own) = self.hosts.borrow_mut().get_mut(&host) {
            own.last = self.count.get();
        }
        OwnTurn(self)
    }

    /// Whose turn it is then; that one does not wait any more.
    fn next(&self) -> Option<Waiting> {
        let (mut waiting, hosts) = (self.waiting.borrow_mut(), self.hosts.borrow());
        let last = |one: &Waiting| hosts.get(&one.host).map_or(0, |own| own.last);
        let next = least_of(waiting.iter().map(last))?;
        Some(waiting.remove(next))
    }

    /// A core has one vector more.
    pub(super) fn count(&self, host: u32) -> Counted<'_> {
        self.hosts.borrow_mut().entry(host).or_default().vectors += 1;
        Counted { turns: self, host }
    }
}

impl Drop for OwnTurn<'_> {
    fn drop(&mut self) {
        match self.0.next() {
            Some(next) => {
                self.0.given.set(Some(next.number));
                next.waker.wake();
            }
            None => self.0.is_taken.set(false),
        }
    }
}

impl Counted<'_> {
    /// Vectors that the core has besides.
    pub(super) fn others(&self) -> u32 {
        let hosts = self.turns.hosts.borrow();
        hosts.values().map(|own| own.vectors).sum::<u32>() - 1
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let mut hosts = self.turns.hosts.borrow_mut();
        if let Some(own) = hosts.get_mut(&self.host) {
            own.vectors -= 1;
        }
        hosts.retain(|_, own| own.vectors > 0);
    }
}
