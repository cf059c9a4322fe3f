//! A bell: how a CPU is told that another one has put something into one of its rings.
//!
//! Problem: a controller or a driver reads from many rings and must sleep when all are empty,
//! without a lock, and without an event for every entry in virtual time.
//!
//! Idea: all rings into one task share one bell. The task drains its rings, then waits for the
//! bell; a sender pushes, then rings.
//!
//! * Real time: the bell is one flag. The sender's `Release` store of the flag comes after its
//!   push; the waiter takes the flag with an `AcqRel` swap before it looks at its rings. So either
//!   the swap sees the flag and with it the push, or the flag stays set for the next pass.
//! * Virtual time: an entry becomes visible at the time it was sent, which may be later than the
//!   waiter's clock. The bell remembers the earliest time at which there is something to see
//!   (`pending`), and holds at most one useful event (`armed`).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::Thread;

use crate::cpu::Cpu;
use crate::executor::TaskId;
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering, fence};

/// No time: nothing pending, nothing armed, no waiter.
const NEVER: u64 = u64::MAX;

struct Shared {
    /// Real engine: something was pushed since the waiter last looked.
    rung: AtomicBool,
    /// Real engine: the waiter's thread is about to park, or parked.
    parked: AtomicBool,
    /// Real engine with parking: whom to unpark.
    thread: std::sync::OnceLock<Thread>,
    // Virtual engine (one thread; plain relaxed accesses):
    waiter: AtomicU64,
    pending_ns: AtomicU64,
    armed_ns: AtomicU64,
}

/// A bell with one waiting task and any number of ringers. Clones are the same bell.
#[derive(Clone)]
pub struct Bell(Arc<Shared>);

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}

impl Bell {
    /// A silent bell.
    pub fn new() -> Bell {
        Bell(Arc::new(Shared {
            rung: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            thread: std::sync::OnceLock::new(),
            waiter: AtomicU64::new(NEVER),
            pending_ns: AtomicU64::new(NEVER),
            armed_ns: AtomicU64::new(NEVER),
        }))
    }

    /// Says that something is to be seen at `at_ns` (virtual time; in real time: now).
    #[inline]
    pub fn ring(&self, cpu: &Cpu, at_ns: u64) {
        if cpu.is_virtual() {
            self.ring_virtual(cpu, at_ns);
        } else {
            self.ring_real();
        }
    }

    #[inline]
    fn ring_virtual(&self, cpu: &Cpu, at_ns: u64) {
        let shared = &*self.0;
        self.note_pending(at_ns);
        let waiter = shared.waiter.load(Ordering::Relaxed);
        if waiter != NEVER && at_ns < shared.armed_ns.load(Ordering::Relaxed) {
            shared.armed_ns.store(at_ns, Ordering::Relaxed);
            cpu.executor().schedule(at_ns, TaskId(waiter as u32));
        }
    }

    #[inline]
    pub(crate) fn ring_real(&self) {
        let shared = &*self.0;
        // Release: partner of the swap in `take_rung`.
        shared.rung.store(true, Ordering::Release);
        if let Some(thread) = shared.thread.get() {
            // Partner of the fence in `set_parked`: either the sleeper's last look at `rung`
            // sees the store above, or this load sees that it parks.
            fence(Ordering::SeqCst);
            if shared.parked.load(Ordering::Relaxed) {
                thread.unpark();
            }
        }
    }

    /// Remembers that an entry will be visible at `at_ns`: a receiver that meets an entry of the
    /// future says so here.
    #[inline]
    pub fn note_pending(&self, at_ns: u64) {
        if at_ns < self.0.pending_ns.load(Ordering::Relaxed) {
            self.0.pending_ns.store(at_ns, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn take_rung(&self) -> bool {
        // The plain load keeps an idle poller from writing to the ringers' line.
        self.0.rung.load(Ordering::Relaxed) && self.0.rung.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn is_rung(&self) -> bool {
        self.0.rung.load(Ordering::Acquire)
    }

    pub(crate) fn set_thread(&self, thread: Thread) {
        let _ = self.0.thread.set(thread);
    }

    pub(crate) fn set_parked(&self, parked: bool) {
        self.0.parked.store(parked, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Waits until the bell rings. May return early: look at the rings, then wait again.
    #[inline]
    pub fn wait<'a>(&'a self, cpu: &'a Cpu) -> Wait<'a> {
        self.wait_until(cpu, NEVER)
    }

    /// Waits until the bell rings or `deadline_ns` has come. May return early.
    #[inline]
    pub fn wait_until<'a>(&'a self, cpu: &'a Cpu, deadline_ns: u64) -> Wait<'a> {
        Wait {
            bell: self,
            cpu,
            deadline_ns,
            polled: false,
        }
    }

    /// Makes the running task the one that this bell wakes. Once, before the first wait.
    pub fn attach(&self, cpu: &Cpu) {
        if !cpu.is_virtual() {
            cpu.executor().watch(self, cpu.current());
        }
    }
}

/// See [`Bell::wait`].
pub struct Wait<'a> {
    bell: &'a Bell,
    cpu: &'a Cpu,
    deadline_ns: u64,
    polled: bool,
}

impl Wait<'_> {
    fn poll_virtual(&mut self) -> Poll<()> {
        let shared = &*self.bell.0;
        let now = self.cpu.now();
        let pending = shared.pending_ns.load(Ordering::Relaxed);
        if pending <= now || self.deadline_ns <= now {
            shared.pending_ns.store(NEVER, Ordering::Relaxed);
            shared.armed_ns.store(NEVER, Ordering::Relaxed);
            shared.waiter.store(NEVER, Ordering::Relaxed);
            return Poll::Ready(());
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

    fn poll_real(&mut self) -> Poll<()> {
        if self.polled || self.deadline_ns <= self.cpu.now() {
            return Poll::Ready(());
        }
        self.polled = true;
        if self.deadline_ns != NEVER {
            self.cpu
                .executor()
                .schedule(self.deadline_ns, self.cpu.current());
        }
        Poll::Pending
    }
}

impl Future for Wait<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.cpu.is_virtual() {
            self.poll_virtual()
        } else {
            self.poll_real()
        }
    }
}
