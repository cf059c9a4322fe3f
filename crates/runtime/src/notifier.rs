//! A notifier: how a CPU is told that another one has put something into one of its rings.
//!
//! Problem: a controller or a driver reads from many rings and must sleep when all are empty,
//! without a lock, and without an event for every entry in virtual time.
//!
//! Idea: all rings into one task share one notifier. The task drains its rings, then waits for the
//! notifier; a sender pushes, then notifies.
//!
//! * The notifier is a set of flags, one for each *source*, so that a waiter with many rings looks only
//!   at those that rang. The sender's `Release` setting of its flag comes after its push; the waiter
//!   takes the flags with an `AcqRel` swap before it looks at the rings. So either the swap sees the
//!   flag and with it the push, or the flag stays set for the next look.
//! * Virtual time: an entry becomes visible at the time it was sent, which may be later than the
//!   waiter's clock. The notifier remembers the earliest time at which there is something to see
//!   (`pending`), and holds at most one useful event (`armed`).
//! * What a notifier is decides what it costs in virtual time ([`Kind`]): a wire within a device is free; of
//!   memory that processors of one machine share, the lines move from ringer to waiter and back.

use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::Thread;

use crate::bells::Bells;
use crate::cpu::Cpu;
use crate::executor::TaskId;
use crate::line::Line;
use crate::notifier_words::NotifierWords;
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering, fence};

/// No time: nothing pending, nothing armed, no waiter.
const NEVER: u64 = u64::MAX;

/// Sources that a notifier tells apart: they are numbered below this.
pub const SOURCES: usize = 128;

/// What a notifier, and the rings and queues behind it, stand for in virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A wire within a device: free.
    Wire,
    /// Memory that processors of one machine share: flags and entries are cache lines that move.
    Memory,
    /// Such memory, whose waiter looks at the entries themselves all the time: the flags are this program's
    /// short cut, and free.
    Polled,
}

struct Shared {
    kind: Kind,
    /// Which sources have pushed something since the waiter last looked at them.
    ready: [AtomicU64; SOURCES / 64],
    /// Real engine: the waiter's thread is about to park, or parked.
    parked: AtomicBool,
    /// Real engine: the waiter's thread may park.
    may_park: AtomicBool,
    /// Whom to unpark: a notifier may get another waiter when the one before has gone.
    thread: Mutex<Option<Thread>>,
    /// Real engine: where other processes notify it.
    across: Option<Across>,
    // Virtual engine (one thread; plain relaxed accesses):
    waiter: AtomicU64,
    pending_ns: AtomicU64,
    armed_ns: AtomicU64,
    /// The line of the flags, for [`Kind::Memory`].
    line: Line,
}

/// How a notifier reaches to other processes.
enum Across {
    /// By words that one of them shares.
    One(Words),
    /// Many of them notify it, each by its own words, and nobody in this process.
    Many(Bells),
}

/// This process's view of a notifier between two.
struct Words {
    words: NonNull<NotifierWords>,
    /// How a ringer wakes a waiter that sleeps in the other process.
    wake: Option<Wake>,
    /// Keeps the memory.
    _memory: std::sync::Arc<dyn Send + Sync>,
}

/// See [`Notifier::across`].
pub type Wake = Box<dyn Fn() + Send + Sync>;

// SAFETY: the words are atomics, and their memory lives as long as the view.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    #[inline]
    fn words(&self) -> &NotifierWords {
        // SAFETY: valid while the view lives, by the contract of `Notifier::across`.
        unsafe { self.words.as_ref() }
    }
}

impl Across {
    fn notify(&self, source: u32) {
        match self {
            Across::One(one) => {
                if one.words().notify(source)
                    && let Some(wake) = &one.wake
                {
                    wake();
                }
            }
            Across::Many(_) => unreachable!("bells are rung by other processes"),
        }
    }

    fn take(&self) -> u64 {
        match self {
            Across::One(one) => one.words().take(),
            Across::Many(bells) => bells.is_rung().into(),
        }
    }

    fn is_rung(&self) -> bool {
        match self {
            Across::One(one) => one.words().is_rung(),
            Across::Many(bells) => bells.is_rung(),
        }
    }

    fn set_parked(&self, parked: bool) {
        match self {
            Across::One(one) => one.words().set_parked(parked),
            Across::Many(bells) => bells.set_parked(parked),
        }
    }
}

/// A notifier with one waiting task and any number of ringers. Clones are the same notifier.
#[derive(Clone)]
pub struct Notifier(Arc<Shared>);

impl Default for Notifier {
    fn default() -> Self {
        Self::new()
    }
}

impl Notifier {
    /// A silent notifier of kind [`Kind::Wire`].
    pub fn new() -> Notifier {
        Notifier::of_kind(Kind::Wire)
    }

    /// This process's end of a notifier between two processes, in real time: sources are those below
    /// [`NotifierWords::SOURCES`]. Who notifies it here has `wake` called if the waiter there sleeps.
    ///
    /// # Safety
    /// The words are valid while `memory` lives.
    pub unsafe fn across(
        words: NonNull<NotifierWords>,
        memory: std::sync::Arc<dyn Send + Sync>,
        wake: Option<Wake>,
    ) -> Notifier {
        let words = Words {
            words,
            wake,
            _memory: memory,
        };
        Notifier::made(Kind::Wire, Some(Across::One(words)))
    }

    /// One that is notified by bells: its source is 0, and which of them they are the bells say.
    pub(crate) fn of_bells(bells: &Bells) -> Notifier {
        Notifier::made(Kind::Wire, Some(Across::Many(bells.clone())))
    }

    /// A silent notifier.
    pub fn of_kind(kind: Kind) -> Notifier {
        Notifier::made(kind, None)
    }

    fn made(kind: Kind, across: Option<Across>) -> Notifier {
        Notifier(Arc::new(Shared {
            across,
            kind,
            line: Line::new(),
            ready: [AtomicU64::new(0), AtomicU64::new(0)],
            parked: AtomicBool::new(false),
            may_park: AtomicBool::new(false),
            thread: Mutex::new(None),
            waiter: AtomicU64::new(NEVER),
            pending_ns: AtomicU64::new(NEVER),
            armed_ns: AtomicU64::new(NEVER),
        }))
    }

    /// What it stands for.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Says that `source` has something to be seen at `at_ns` (virtual time; in real time: now).
    #[inline]
    pub fn notify(&self, cpu: &Cpu, source: u32, at_ns: u64) {
        if cpu.is_virtual() {
            self.ring_virtual(cpu, source, at_ns);
        } else {
            self.ring_real(source);
        }
    }

    #[inline]
    fn ring_virtual(&self, cpu: &Cpu, source: u32, at_ns: u64) {
        let shared = &*self.0;
        let at_ns = match shared.kind {
            Kind::Wire | Kind::Polled => at_ns,
            Kind::Memory => {
                shared.line.write(cpu);
                at_ns.max(cpu.now())
            }
        };
        self.note_pending(source, at_ns);
        let waiter = shared.waiter.load(Ordering::Relaxed);
        if waiter != NEVER && at_ns < shared.armed_ns.load(Ordering::Relaxed) {
            shared.armed_ns.store(at_ns, Ordering::Relaxed);
            cpu.executor()
                .schedule_elsewhere(at_ns, TaskId(waiter as u32));
        }
    }

    #[inline]
    pub(crate) fn ring_real(&self, source: u32) {
        let shared = &*self.0;
        if let Some(across) = &shared.across {
            return across.notify(source);
        }
        // Release: partner of the swap in `take_ready`.
        let word = &shared.ready[source as usize / 64];
        word.fetch_or(1 << (source % 64), Ordering::Release);
        // Relaxed: who rings before the waiter is there wakes nobody.
        if shared.may_park.load(Ordering::Relaxed) {
            // Partner of the fence in `set_parked`: either the sleeper's last look at the flags
            // sees the one above, or this load sees that it parks.
            fence(Ordering::SeqCst);
            if shared.parked.load(Ordering::Relaxed) {
                self.nudge();
            }
        }
    }

    /// Remembers that an entry of `source` will be visible at `at_ns`: a receiver that meets an
    /// entry of the future says so here.
    #[inline]
    pub fn note_pending(&self, source: u32, at_ns: u64) {
        let word = &self.0.ready[source as usize / 64];
        word.store(
            word.load(Ordering::Relaxed) | 1 << (source % 64),
            Ordering::Relaxed,
        );
        if at_ns < self.0.pending_ns.load(Ordering::Relaxed) {
            self.0.pending_ns.store(at_ns, Ordering::Relaxed);
        }
    }

    /// Virtual time: when there is something to see that has not been seen, as far as is known; the end of time if
    /// nothing.
    #[inline]
    pub fn pending_ns(&self) -> u64 {
        self.0.pending_ns.load(Ordering::Relaxed)
    }

    /// Takes the flags in virtual time: one thread, so plain loads and stores do.
    #[inline]
    fn take_ready_virtual(&self) -> Ready {
        let take = |word: &AtomicU64| {
            let bits = word.load(Ordering::Relaxed);
            word.store(0, Ordering::Relaxed);
            bits
        };
        Ready::from_words(take(&self.0.ready[0]), take(&self.0.ready[1]))
    }

    /// Takes the flags in real time.
    #[inline]
    pub(crate) fn take_ready_real(&self) -> Ready {
        let take = |word: &AtomicU64| match word.load(Ordering::Relaxed) {
            // The plain load keeps an idle poller from writing to the ringers' line.
            0 => 0,
            // AcqRel: partner of the setting in `ring_real`.
            _ => word.swap(0, Ordering::AcqRel),
        };
        let first = match &self.0.across {
            None => take(&self.0.ready[0]),
            Some(across) => across.take(),
        };
        Ready::from_words(first, take(&self.0.ready[1]))
    }

    pub(crate) fn is_rung(&self) -> bool {
        let is_set = |word: &AtomicU64| word.load(Ordering::Acquire) != 0;
        let across = || self.0.across.as_ref();
        self.0.ready.iter().any(is_set) || across().is_some_and(Across::is_rung)
    }

    /// Wakes the waiter's thread if it sleeps: what another process asks for that has notified.
    pub fn nudge(&self) {
        if let Some(thread) = &*self.thread() {
            thread.unpark();
        }
    }

    pub(crate) fn set_thread(&self, thread: Thread) {
        *self.thread() = Some(thread);
        self.0.may_park.store(true, Ordering::Relaxed);
    }

    fn thread(&self) -> MutexGuard<'_, Option<Thread>> {
        let thread = &self.0.thread;
        thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_parked(&self, parked: bool) {
        if let Some(across) = &self.0.across {
            return across.set_parked(parked);
        }
        self.0.parked.store(parked, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Waits until it is notified; gives the sources to look at. May return early, with none.
    ///
    /// Each source in the set must be drained, or remembered: its flag is taken. (A receiver that
    /// finds an entry of the future sets the flag again.)
    #[inline]
    pub fn wait<'a>(&'a self, cpu: &'a Cpu) -> Wait<'a> {
        self.wait_until(cpu, NEVER)
    }

    /// As [`Notifier::wait`], until `deadline_ns` at the latest.
    #[inline]
    pub fn wait_until<'a>(&'a self, cpu: &'a Cpu, deadline_ns: u64) -> Wait<'a> {
        Wait {
            notifier: self,
            cpu,
            deadline_ns,
            polled: false,
        }
    }

    /// Makes the running task the one that this notifier wakes. Once, before the first wait.
    pub fn attach(&self, cpu: &Cpu) {
        if !cpu.is_virtual() {
            cpu.executor().watch(self, cpu.current());
        }
    }
}

/// A set of sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready(u128);

impl Ready {
    /// No source.
    pub const NONE: Ready = Ready(0);

    fn from_words(low: u64, high: u64) -> Ready {
        Ready(u128::from(low) | u128::from(high) << 64)
    }

    /// The sources of both sets.
    #[inline]
    #[must_use]
    pub fn union(self, other: Ready) -> Ready {
        Ready(self.0 | other.0)
    }

    /// Puts a source into the set.
    #[inline]
    pub fn insert(&mut self, source: u32) {
        self.0 |= 1 << source;
    }

    /// Takes a source out of the set.
    #[inline]
    pub fn remove(&mut self, source: u32) {
        self.0 &= !(1 << source);
    }

    /// True if the source is in the set.
    #[inline]
    pub fn contains(self, source: u32) -> bool {
        self.0 >> source & 1 == 1
    }

    /// True if there is none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The sources numbered below `end`.
    #[inline]
    #[must_use]
    pub fn below(self, end: u32) -> Ready {
        Ready(self.0 & !u128::MAX.unbounded_shl(end))
    }

    /// The sources that are not in `other`.
    #[inline]
    #[must_use]
    pub fn without(self, other: Ready) -> Ready {
        Ready(self.0 & !other.0)
    }

    /// The first source from `from` on, going round: whose turn it is.
    #[inline]
    pub fn next_from(self, from: u32) -> Option<u32> {
        let ahead = self.0 & u128::MAX.unbounded_shl(from);
        let bits = if ahead != 0 { ahead } else { self.0 };
        (bits != 0).then(|| bits.trailing_zeros())
    }
}

impl Iterator for Ready {
    type Item = u32;

    /// Takes the lowest source out of the set.
    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let source = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(source)
    }
}

/// See [`Notifier::wait`].
pub struct Wait<'a> {
    notifier: &'a Notifier,
    cpu: &'a Cpu,
    deadline_ns: u64,
    polled: bool,
}

impl Wait<'_> {
    #[inline]
    fn poll_virtual(&mut self) -> Poll<Ready> {
        let shared = &*self.notifier.0;
        let now = self.cpu.inner().clock_ns.get();
        let pending = shared.pending_ns.load(Ordering::Relaxed);
        if pending <= now || self.deadline_ns <= now {
            shared.pending_ns.store(NEVER, Ordering::Relaxed);
            shared.armed_ns.store(NEVER, Ordering::Relaxed);
            shared.waiter.store(NEVER, Ordering::Relaxed);
            let ready = self.notifier.take_ready_virtual();
            if shared.kind == Kind::Memory && !ready.is_empty() {
                // The look that found them, and the exchange that took them.
                shared.line.read(self.cpu);
                shared.line.write(self.cpu);
            }
            return Poll::Ready(ready);
        }
        // Any event armed before may have fired already: arm anew for what is known now.
        let wake_ns = pending.min(self.deadline_ns);
        let task = self.cpu.current();
        shared.waiter.store(u64::from(task.0), Ordering::Relaxed);
        if !self.polled || shared.armed_ns.load(Ordering::Relaxed) <= now {
            shared.armed_ns.store(wake_ns, Ordering::Relaxed);
            if wake_ns != NEVER {
                self.cpu.executor().schedule(wake_ns, task);
            }
        }
        self.polled = true;
        Poll::Pending
    }

    fn poll_real(&mut self) -> Poll<Ready> {
        let ready = self.notifier.take_ready_real();
        let late = self.deadline_ns != NEVER && self.deadline_ns <= self.cpu.now();
        if !ready.is_empty() || late {
            return Poll::Ready(ready);
        }
        if !self.polled && self.deadline_ns != NEVER {
            self.cpu
                .executor()
                .schedule(self.deadline_ns, self.cpu.current());
        }
        self.polled = true;
        Poll::Pending
    }
}

impl Future for Wait<'_> {
    type Output = Ready;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Ready> {
        if self.cpu.is_virtual() {
            self.poll_virtual()
        } else {
            self.poll_real()
        }
    }
}
