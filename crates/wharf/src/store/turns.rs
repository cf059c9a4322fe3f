//! Several threads of a process at one client of a drive in another process: they use it in turn, and none waits for another's
//! command.
//!
//! Problem: client, driver and what is kept of files are for one thread at a time, and a command may take long: a sync does.
//!
//! Idea: a thread has its turn while it works, and gives it back while it waits for the drive. So as many commands are under way as
//! threads wait, in one queue pair.
//!
//! 1. A thread [enters](Turns::enter) to have its turn.
//! 2. If its command is not done at once, it waits among others ([`Waiters::wait`]). One of those *watches*: it looks at what the drive
//!    has completed, awake at first and then asleep ([`Way::watch`]), without the turn. The others sleep until they are called.
//! 3. When something has come, the watcher takes its turn, runs all tasks, and with them whatever the commands of others have to do, and
//!    calls those whose commands are done.
//! 4. Whoever leaves while nobody watches calls one who does.
//!
//! So the tasks of all threads run on any of them, one at a time. The child of a fork has none of the threads, and never uses what they had.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::marker::PhantomData;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::thread::futex;
use wharf_runtime::clock::Clock;
use wharf_runtime::{Inline, TaskId};
use wharf_wire::shared_queue::SharedQueue;

use super::listener::has_hung_up;

/// How long who waits for a drive in another process does so awake, in nanoseconds. Then it sleeps until the drive wakes it, so that
/// thousands that wait leave it the processors; and is awake for a moment.
const AWAKE_NS: u64 = 200_000;
const MOMENT_NS: u64 = 10_000;

/// How long it sleeps before it looks whether that process is gone: a part of the time that it has waited so far, but so long at least,
/// and at most.
const SLEEP_PART: u64 = 4;
const SLEEP_MIN: Duration = Duration::from_millis(1);
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// Looks after which a thread that is awake lets others have its processor: about 20 µs.
const LOOKS_MAX: u32 = 1_000;

/// Looks of one that does not watch before it sleeps.
const LOOKS_FEW: u32 = 100;

/// Passes over all tasks at a time: one that always has something to do keeps nobody from its turn.
const PASSES_MAX: u32 = 64;

/// Whose turn it is, of several threads that use one client. Who waits for the drive gives its turn back meanwhile.
#[derive(Default)]
pub struct Turns {
    lock: Mutex<()>,
    /// That of who has the turn.
    guard: UnsafeCell<Option<MutexGuard<'static, ()>>>,
}

// SAFETY: the cell is used by who has the lock alone. The guard in it is made and dropped on the thread that has the lock.
unsafe impl Sync for Turns {}

/// A turn. It ends when this is dropped.
pub struct Turn {
    turns: &'static Turns,
    /// It stays on its thread.
    _here: PhantomData<*const ()>,
}

impl Turns {
    /// Nobody's turn.
    pub const fn new() -> Turns {
        Turns {
            lock: Mutex::new(()),
            guard: UnsafeCell::new(None),
        }
    }

    /// Waits for the turn of this thread, which has none.
    #[inline]
    pub fn enter(&'static self) -> Turn {
        self.take();
        Turn {
            turns: self,
            _here: PhantomData,
        }
    }

    #[inline]
    fn take(&'static self) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: this thread has the lock.
        unsafe { *self.guard.get() = Some(guard) };
    }

    #[inline]
    fn give_back(&'static self) {
        // SAFETY: this thread has the lock, by the guard that is there. It is moved out first: others use the cell as soon as it is dropped.
        let guard = unsafe { (*self.guard.get()).take() };
        drop(guard);
    }

    /// Does something while others have their turns.
    fn without<T>(&'static self, f: impl FnOnce() -> T) -> T {
        self.give_back();
        let done = f();
        self.take();
        done
    }
}

impl Drop for Turn {
    #[inline]
    fn drop(&mut self) {
        self.turns.give_back();
    }
}

/// The way to a drive in another process, as whoever waits looks at it.
pub(super) struct Way {
    pub(super) queue: SharedQueue,
    pub(super) connection: Arc<UnixStream>,
    pub(super) clock: Clock,
}

/// How long somebody has waited, and how.
struct Wait {
    began_ns: u64,
    awake_ns: u64,
}

impl Way {
    fn begin(&self) -> Wait {
        Wait {
            began_ns: self.clock.now_ns(),
            awake_ns: AWAKE_NS,
        }
    }

    /// Waits until the drive has completed something, or something is to be done by the clock in `timer_ns`; not for ever. False if the
    /// process that has the drive is gone.
    fn watch(&self, wait: &mut Wait, timer_ns: Option<u64>) -> bool {
        let from_ns = self.clock.now_ns();
        let most_ns = timer_ns.unwrap_or(u64::MAX);
        let mut looks = 0;
        while !self.queue.has_completed() {
            let for_ns = self.clock.now_ns() - from_ns;
            if for_ns >= most_ns {
                return true;
            }
            if for_ns < wait.awake_ns {
                looks += 1;
                match looks < LOOKS_MAX {
                    true => std::hint::spin_loop(),
                    // Who does what is waited for may need this processor.
                    false => std::thread::yield_now(),
                }
                continue;
            }
            let waited = Duration::from_nanos((from_ns - wait.began_ns + for_ns) / SLEEP_PART);
            let left = Duration::from_nanos(most_ns - for_ns);
            self.queue
                .sleep(waited.clamp(SLEEP_MIN, SLEEP_MAX).min(left));
            wait.awake_ns = MOMENT_NS;
            return !has_hung_up(&self.connection);
        }
        true
    }

    /// Runs everything on this thread until a task of `inline` is done; gives whether it is, or the process that has the drive is gone.
    fn wait_alone(&self, inline: &Inline, task: TaskId) -> bool {
        let mut wait = self.begin();
        loop {
            run(inline, task);
            if inline.is_done(task) {
                return true;
            }
            if !self.watch(&mut wait, inline.next_timer_ns()) {
                return false;
            }
        }
    }
}

/// Runs what is to be run now, at most until a task is done.
fn run(inline: &Inline, task: TaskId) {
    for _ in 0..PASSES_MAX {
        if !inline.pass() || inline.is_done(task) {
            return;
        }
    }
}

/// By which one who waits is called.
#[derive(Default)]
struct Call(AtomicU32);

impl Call {
    /// Has one that waits look, or the next one that will.
    fn call(&self) {
        // Release: what it is called for is seen by who takes the call.
        if self.0.swap(1, Ordering::Release) == 0 {
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
        }
    }

    /// Waits for a call, and takes it.
    fn wait(&self) {
        let mut looks = 0;
        // Acquire: partner of the release in `call`.
        while self.0.swap(0, Ordering::Acquire) == 0 {
            looks += 1;
            match looks < LOOKS_FEW {
                true => std::hint::spin_loop(),
                // Who calls in between has changed the word: then it does not begin to sleep.
                false => drop(futex::wait(&self.0, futex::Flags::PRIVATE, 0, None)),
            }
        }
    }
}

/// Threads that wait for commands of one client. Whoever uses it has the turn.
#[derive(Default)]
pub(super) struct Waiters {
    turns: Cell<Option<&'static Turns>>,
    all: RefCell<Vec<(TaskId, Arc<Call>)>>,
    /// To be used again.
    spare: RefCell<Vec<Arc<Call>>>,
    is_watched: Cell<bool>,
    /// One who watched has found that the process that has the drive is gone.
    is_cut_off: Cell<bool>,
}

impl Waiters {
    /// From now on threads have turns, and who waits gives its back.
    pub(super) fn share(&self, turns: &'static Turns) {
        self.turns.set(Some(turns));
    }

    /// Waits until a task of `inline` is done; false if the process that has the drive is gone before.
    pub(super) fn wait(&self, inline: &Inline, task: TaskId, way: &Way) -> bool {
        let Some(turns) = self.turns.get() else {
            return way.wait_alone(inline, task);
        };
        let call = self.spare.borrow_mut().pop().unwrap_or_default();
        self.all.borrow_mut().push((task, call.clone()));
        let is_done = self.wait_among(turns, (inline, task), (way, &call));
        self.all.borrow_mut().retain(|(other, _)| *other != task);
        // A call that came too late is taken by nobody.
        call.0.store(0, Ordering::Relaxed);
        self.spare.borrow_mut().push(call);
        self.call(inline);
        is_done
    }

    fn wait_among(
        &self,
        turns: &'static Turns,
        (inline, task): (&Inline, TaskId),
        (way, call): (&Way, &Call),
    ) -> bool {
        let mut wait = way.begin();
        loop {
            run(inline, task);
            if inline.is_done(task) {
                return true;
            }
            if self.is_cut_off.get() {
                return false;
            }
            let is_watched = self.is_watched.replace(true);
            self.call(inline);
            if is_watched {
                turns.without(|| call.wait());
                continue;
            }
            let timer_ns = inline.next_timer_ns();
            let is_there = turns.without(|| way.watch(&mut wait, timer_ns));
            self.is_watched.set(false);
            if !is_there {
                self.is_cut_off.set(true);
            }
        }
    }

    /// Calls those whose commands are done, all if none will ever be, and one who watches if nobody does.
    fn call(&self, inline: &Inline) {
        let mut is_watched = self.is_watched.get();
        for (task, call) in &*self.all.borrow() {
            if inline.is_done(*task) || self.is_cut_off.get() || !is_watched {
                is_watched |= !inline.is_done(*task);
                call.call();
            }
        }
    }
}
