//! Contexts of the kernel's asynchronous requests, as libaio has them: what has ended of the drive's files.
//!
//! A context is the kernel's, and goes on doing what is of the machine's own files. Requests of the drive's files are done when they are
//! made, as Linux does those of its own file systems without `O_DIRECT`; their events wait here, and are given before the kernel's.
//!
//! Who waits for events waits here if the kernel has no requests of the context, else in the kernel, and looks again from time to time.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_long, c_ulong};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use libc::timespec;

use super::tell;
use crate::errno::{Errno, Outcome, last};
use crate::next::Next;

/// The number of `io_pgetevents`.
pub(crate) const IO_PGETEVENTS: c_long = if cfg!(target_arch = "x86_64") {
    333
} else {
    292
};

/// Of which context; the kernel's number.
pub(crate) type Id = c_ulong;

/// What a program is told of the end of a request: `struct io_event`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Ended {
    pub(crate) data: u64,
    /// The program's `struct iocb`.
    pub(crate) request: u64,
    /// Bytes, or the error, negated.
    pub(crate) result: i64,
    pub(crate) result_more: i64,
}

/// How long the kernel is waited for before it is looked whether another thread has made a request of the drive.
const LOOK_NS: i64 = 10_000_000;

const NS: i64 = 1_000_000_000;

/// A context.
pub(crate) struct Context {
    id: Id,
    /// Requests that may be there without their events having been taken.
    most: usize,
    ended: Mutex<VecDeque<Ended>>,
    /// Requests that the kernel has, by what passes here: not less than there are.
    in_kernel: AtomicUsize,
    /// Changes whenever a request is made.
    made: AtomicU32,
}

static ALL: Mutex<BTreeMap<Id, Arc<Context>>> = Mutex::new(BTreeMap::new());

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A call of the kernel itself; gives -1 and `errno` where it fails.
pub(crate) fn kernel(call: c_long, arguments: [c_ulong; 6]) -> c_long {
    static NEXT: Next = Next::new(c"syscall");
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the C library's function has this type for all calls of the kernel; the arguments are the caller's.
    unsafe {
        let function: unsafe extern "C" fn(c_long, ...) -> c_long = std::mem::transmute(NEXT.get());
        function(call, a, b, c, d, e, f)
    }
}

/// The same, as a result.
pub(crate) fn asked(call: c_long, arguments: [c_ulong; 6]) -> Outcome<usize> {
    usize::try_from(kernel(call, arguments)).map_err(|_| last())
}

/// The kernel has made a context for so many requests.
pub(crate) fn made(id: Id, most: usize) {
    lock(&ALL).insert(id, Context::new(id, most));
}

/// The kernel has no such context any more.
pub(crate) fn destroyed(id: Id) {
    if let Some(context) = lock(&ALL).remove(&id) {
        context.wake();
    }
}

/// A context, if it is known.
pub(crate) fn get(id: Id) -> Option<Arc<Context>> {
    lock(&ALL).get(&id).cloned()
}

/// A context for a request of the drive's files.
///
/// # Errors
/// `EINVAL` if the kernel has none of this number.
pub(crate) fn get_or_make(id: Id) -> Outcome<Arc<Context>> {
    if let Some(context) = get(id) {
        return Ok(context);
    }
    // Made by a call that passed by. The kernel knows whether it is there.
    asked(libc::SYS_io_submit, [id, 0, 0, 0, 0, 0])?;
    let mut all = lock(&ALL);
    let context = all.entry(id).or_insert_with(|| Context::new(id, 1 << 16));
    Ok(context.clone())
}

/// When a wait is over.
#[derive(Clone, Copy)]
pub(crate) struct Until(Option<i64>);

impl Until {
    pub(crate) fn new(time: Option<&timespec>) -> Until {
        let ns = |time: &timespec| time.tv_sec.saturating_mul(NS).saturating_add(time.tv_nsec);
        Until(time.map(|time| tell::now_ns().saturating_add(ns(time))))
    }

    /// What is left of it; nothing if it never ends.
    fn left_ns(self) -> Option<i64> {
        self.0.map(|until| (until - tell::now_ns()).max(0))
    }
}

impl Context {
    fn new(id: Id, most: usize) -> Arc<Context> {
        Arc::new(Context {
            id,
            most,
            ended: Mutex::default(),
            in_kernel: AtomicUsize::new(0),
            made: AtomicU32::new(0),
        })
    }

    /// Whether there is room for one more request.
    pub(crate) fn has_room(&self) -> bool {
        lock(&self.ended).len() < self.most
    }

    /// A request of the drive's files has ended.
    pub(crate) fn add(&self, ended: Ended) {
        lock(&self.ended).push_back(ended);
        self.wake();
    }

    /// The kernel has so many more requests.
    pub(crate) fn add_to_kernel(&self, count: usize) {
        self.in_kernel.fetch_add(count, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        // Release: partner of the acquire in `wait`.
        self.made.fetch_add(1, Ordering::Release);
        tell::wake(&self.made);
    }

    /// Takes at least `least` events, and at most as there is room for; fewer when the time is over. `mask` is what the kernel is given of
    /// signals while it waits, or 0.
    ///
    /// # Errors
    /// Of the kernel, and `EINTR`, if nothing was taken.
    ///
    /// # Safety
    /// There is room for so many events, and what the mask points to.
    pub(crate) unsafe fn take(
        &self,
        least: usize,
        (room, most): (*mut Ended, usize),
        until: Until,
        mask: c_ulong,
    ) -> Outcome<usize> {
        let mut taken = 0;
        loop {
            let seen = self.made.load(Ordering::Acquire);
            // SAFETY: the caller's promise.
            taken += unsafe { self.take_own(room.add(taken), most - taken) };
            let left_ns = until.left_ns();
            let is_enough = taken >= least || left_ns == Some(0);
            let has_kernel = self.in_kernel.load(Ordering::Relaxed) > 0;
            let wait_ns = match is_enough {
                true => Some(0),
                false => Some(left_ns.unwrap_or(LOOK_NS).min(LOOK_NS)),
            };
            if taken < most && (has_kernel || mask != 0) {
                let least = if is_enough { 0 } else { least - taken };
                // SAFETY: the caller's promise.
                let found = unsafe {
                    self.take_kernels(least, (room.add(taken), most - taken), wait_ns, mask)
                };
                match found {
                    Ok(found) => taken += found,
                    Err(errno) if taken == 0 => return Err(errno),
                    Err(_) => return Ok(taken),
                }
            } else if !is_enough {
                let time = left_ns.map(|ns| timespec {
                    tv_sec: ns / NS,
                    tv_nsec: ns % NS,
                });
                match tell::wait_for(&self.made, seen, time.as_ref()) {
                    Err(errno) if taken == 0 => return Err(errno),
                    Err(_) => return Ok(taken),
                    Ok(()) => {}
                }
                if get(self.id).is_none() {
                    return Err(Errno(libc::EINVAL));
                }
            }
            if is_enough || taken >= least {
                return Ok(taken);
            }
        }
    }

    /// # Safety
    /// There is room for so many.
    unsafe fn take_own(&self, room: *mut Ended, most: usize) -> usize {
        let mut ended = lock(&self.ended);
        let count = ended.len().min(most);
        for (at, one) in ended.drain(..count).enumerate() {
            // SAFETY: the caller's promise.
            unsafe { room.add(at).write(one) };
        }
        count
    }

    /// # Safety
    /// There is room for so many, and what the mask points to.
    unsafe fn take_kernels(
        &self,
        least: usize,
        (room, most): (*mut Ended, usize),
        wait_ns: Option<i64>,
        mask: c_ulong,
    ) -> Outcome<usize> {
        let time = wait_ns.map(|ns| timespec {
            tv_sec: ns / NS,
            tv_nsec: ns % NS,
        });
        let time = time
            .as_ref()
            .map_or(0, |time| std::ptr::from_ref(time) as c_ulong);
        let call = match mask {
            0 => libc::SYS_io_getevents,
            _ => IO_PGETEVENTS,
        };
        let found = asked(
            call,
            [
                self.id,
                least as c_ulong,
                most as c_ulong,
                room as c_ulong,
                time,
                mask,
            ],
        )?;
        self.took(found);
        Ok(found)
    }

    /// The kernel has given the program so many events.
    pub(crate) fn took(&self, found: usize) {
        let less = |count: usize| Some(count.saturating_sub(found));
        let _ = self
            .in_kernel
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// What a fork must find in order.
pub(crate) struct Forking(MutexGuard<'static, BTreeMap<Id, Arc<Context>>>);

/// Before a fork: no other thread is amid changing the contexts.
pub(crate) fn before_fork() -> Forking {
    Forking(lock(&ALL))
}

impl Forking {
    /// In the child: the contexts are the parent's.
    pub(crate) fn in_child(mut self) {
        self.0.clear();
    }
}
