//! How a program hears of an end: by a signal, by a thread that calls a function, or by waiting.

use std::ffi::{c_int, c_long, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::block::Event;
use crate::errno::{Errno, Outcome, last};

/// Requests that have ended: who waits does so until it changes.
static ENDED: AtomicU32 = AtomicU32::new(0);

/// A request has ended.
pub(crate) fn ended() {
    // Release: partner of the acquire in `count`.
    ENDED.fetch_add(1, Ordering::Release);
    wake(&ENDED);
}

const WAKE: c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
const WAIT: c_int = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;

/// Wakes all who wait for a word to change.
pub(crate) fn wake(word: &AtomicU32) {
    let all = c_int::MAX;
    // SAFETY: a word that is there.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), WAKE, all) };
}

/// How many have ended, for [`wait`].
pub(crate) fn count() -> u32 {
    ENDED.load(Ordering::Acquire)
}

/// Waits until others have ended than those `seen`, or the time is over. It takes no lock: a handler of a signal may wait.
///
/// # Errors
/// `EINTR`.
pub(crate) fn wait(seen: u32, time: Option<&libc::timespec>) -> Outcome<()> {
    wait_for(&ENDED, seen, time)
}

/// Waits until a word is another than was seen, or the time is over.
///
/// # Errors
/// `EINTR`.
pub(crate) fn wait_for(word: &AtomicU32, seen: u32, time: Option<&libc::timespec>) -> Outcome<()> {
    let time = time.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: a word that is there, and a time that is there or null.
    let waited: c_long = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), WAIT, seen, time) };
    match waited {
        0 => Ok(()),
        _ => match last() {
            Errno(libc::EAGAIN | libc::ETIMEDOUT) => Ok(()),
            errno => Err(errno),
        },
    }
}

/// Now, by a clock that is not set.
pub(crate) fn now_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(now.tv_nsec)
}

/// Requests of one call of `lio_listio`, whose end is told together.
pub(crate) struct List {
    left: AtomicUsize,
    event: Event,
}

// SAFETY: what the event points to is the program's, and is passed on alone.
unsafe impl Send for List {}
// SAFETY: as before.
unsafe impl Sync for List {}

impl List {
    /// A list of none yet, whose end is not told before [`List::one_has_ended`] is called for the call itself.
    pub(crate) fn new(event: Event) -> Arc<List> {
        Arc::new(List {
            left: AtomicUsize::new(1),
            event,
        })
    }

    pub(crate) fn one_more(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn one_has_ended(&self) {
        // Both: the last one sees what the others did.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            tell(&self.event);
        }
    }
}

/// What a signal has with it, where the C library tells of asynchronous requests: the beginning of `siginfo_t`.
#[repr(C)]
struct Said {
    signal: c_int,
    errno: c_int,
    code: c_int,
    /// Of alignment.
    reserved: c_int,
    process: libc::pid_t,
    user: libc::uid_t,
    value: usize,
    rest: [usize; 12],
}

const _: () = assert!(size_of::<Said>() == size_of::<libc::siginfo_t>());

/// `SI_ASYNCIO`.
const CODE: c_int = -4;

/// Tells the program what it wants to be told.
pub(crate) fn tell(event: &Event) {
    match event.how {
        libc::SIGEV_SIGNAL => {
            // SAFETY: no arguments.
            let (process, user) = unsafe { (libc::getpid(), libc::getuid()) };
            let said = Said {
                signal: event.signal,
                errno: 0,
                code: CODE,
                reserved: 0,
                process,
                user,
                value: event.value,
                rest: [0; 12],
            };
            let call = libc::SYS_rt_sigqueueinfo;
            // SAFETY: what is said is there. A signal that there is not is an error that nobody can be told of.
            unsafe { libc::syscall(call, process, event.signal, &raw const said) };
        }
        libc::SIGEV_THREAD => {
            if let Some(function) = event.function {
                let called = Box::into_raw(Box::new((function, event.value)));
                if start(call, called.cast(), event.attributes).is_err() {
                    // SAFETY: made above, and nobody else has it.
                    drop(unsafe { Box::from_raw(called) });
                }
            }
        }
        _ => {}
    }
}

/// A thread of the program's: it calls the function that the program named.
extern "C" fn call(called: *mut c_void) -> *mut c_void {
    type Called = (unsafe extern "C" fn(usize), usize);
    // SAFETY: made by `tell`, for this thread alone; a set that is there.
    unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        let (function, value) = *Box::from_raw(called.cast::<Called>());
        function(value);
    }
    ptr::null_mut()
}

/// Starts a thread that takes no signals; nobody waits for its end, unless there are attributes that say so.
pub(crate) fn start(
    work: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
    attributes: *const libc::pthread_attr_t,
) -> Outcome<()> {
    // SAFETY: sets and attributes that are there; what is made here ends here.
    let started = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        let mut own = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut own);
        libc::pthread_attr_setdetachstate(&raw mut own, libc::PTHREAD_CREATE_DETACHED);
        let attributes = match attributes.is_null() {
            true => &raw const own,
            false => attributes,
        };
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let mut thread = std::mem::zeroed();
        let started = libc::pthread_create(&raw mut thread, attributes, work, argument);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        libc::pthread_attr_destroy(&raw mut own);
        started
    };
    match started {
        0 => Ok(()),
        _ => Err(Errno(libc::EAGAIN)),
    }
}
