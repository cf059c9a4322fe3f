//! Sleeping until something changes: the state of a frame, or anything at all.
//!
//! As in Linux (mm/filemap.c, "wait table"), who waits for a page stands in one of a few queues,
//! chosen by a hash of the frame, and a flag of the frame says that somebody does. The
//! flag is set in the same step that reads the condition, so no wake is lost.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::cpu::Sleep;
use crate::sync::{AtomicBool, Ordering};
use crate::{Cpu, Lock};
use crossbeam_utils::CachePadded;

use crate::wake::{Mailboxes, Sleeper};

/// Queues of the wait table.
const QUEUES: usize = 64;

/// Frames, and who waits for each.
type Queue = Lock<Vec<(u32, Sleeper)>>;

/// Who waits for pages.
pub struct PageWaits {
    queues: Box<[CachePadded<Queue>]>,
}

impl Default for PageWaits {
    /// Nobody waits.
    fn default() -> PageWaits {
        let queue = |_| CachePadded::new(Lock::new(Vec::new()));
        PageWaits {
            queues: (0..QUEUES).map(queue).collect(),
        }
    }
}

impl PageWaits {
    fn queue(&self, frame: u32) -> &Queue {
        &self.queues[frame as usize % QUEUES]
    }

    /// Enters `sleeper` among those who wait for `frame` if `must_wait` says so, which sets the
    /// frame's flag for waiters and looks at its state in one step; true if so.
    pub fn join(
        &self,
        cpu: &Cpu,
        frame: u32,
        sleeper: Sleeper,
        must_wait: impl FnOnce() -> bool,
    ) -> bool {
        self.queue(frame).with(cpu, |queue| {
            let waits = must_wait();
            if waits {
                queue.push((frame, sleeper));
            }
            waits
        })
    }

    /// Takes everyone who waits for `frame`; `clear_flag` clears the frame's flag for waiters.
    pub fn take(&self, cpu: &Cpu, frame: u32, clear_flag: impl FnOnce()) -> Vec<Sleeper> {
        self.queue(frame).with(cpu, |queue| {
            clear_flag();
            let taken = queue.extract_if(.., |(other, _)| *other == frame);
            taken.map(|(_, sleeper)| sleeper).collect()
        })
    }

    /// Number of sleepers, for checks.
    pub fn sleepers(&self, cpu: &Cpu) -> usize {
        self.queues.iter().map(|q| q.with(cpu, |q| q.len())).sum()
    }
}

/// Who waits for an event that has no frame: memory has become free, the flusher is wanted.
pub struct Waiters {
    /// Somebody may be on the list: a waker need not look otherwise.
    any: AtomicBool,
    list: Lock<Vec<Sleeper>>,
    mailboxes: Arc<Mailboxes>,
}

impl Waiters {
    /// Nobody waits; who does is woken through `mailboxes`.
    pub fn new(mailboxes: Arc<Mailboxes>) -> Waiters {
        Waiters {
            any: AtomicBool::new(false),
            list: Lock::new(Vec::new()),
            mailboxes,
        }
    }

    /// Enters a sleeper, once. Look at the condition afterwards, then sleep.
    pub fn join(&self, cpu: &Cpu, sleeper: Sleeper) {
        self.list.with(cpu, |list| {
            if !list.contains(&sleeper) {
                list.push(sleeper);
            }
            // SeqCst: either the waker sees this, or this sleeper's look at the condition, which
            // comes later, sees what the waker changed before it looked here (in `wake_all`).
            self.any.store(true, Ordering::SeqCst);
        });
        crate::sync::fence(Ordering::SeqCst);
    }

    /// Wakes everyone, as client `waker`.
    pub fn wake_all(&self, cpu: &Cpu, waker: u32) {
        // Partner of the fence in `join`.
        crate::sync::fence(Ordering::SeqCst);
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let sleepers = self.list.with(cpu, |list| {
            self.any.store(false, Ordering::Relaxed);
            std::mem::take(list)
        });
        for sleeper in sleepers {
            self.mailboxes.wake(cpu, waker, sleeper);
        }
    }
}

/// Waits until the running task is woken, or a time has come. May return early.
pub struct TimedWait<'a> {
    sleep: Sleep<'a>,
    polled: bool,
}

impl<'a> TimedWait<'a> {
    /// A nap until `deadline_ns` at the latest.
    pub fn until(cpu: &'a Cpu, deadline_ns: u64) -> TimedWait<'a> {
        TimedWait {
            sleep: cpu.sleep_until(deadline_ns),
            polled: false,
        }
    }
}

impl Future for TimedWait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let woken = std::mem::replace(&mut self.polled, true);
        match Pin::new(&mut self.sleep).poll(context) {
            Poll::Pending if !woken => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }
}
