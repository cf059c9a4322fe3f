//! A request as the program has it in its memory: `struct aiocb` of glibc, of which programs are built with all fields.

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::sync::atomic::{AtomicI32, AtomicIsize, Ordering};

use libc::{off_t, size_t};

use crate::errno::Outcome;

/// How the program is told of an end: `struct sigevent`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Event {
    pub(crate) value: usize,
    pub(crate) signal: c_int,
    pub(crate) how: c_int,
    pub(crate) function: Option<unsafe extern "C" fn(usize)>,
    pub(crate) attributes: *const libc::pthread_attr_t,
    reserved: [usize; 4],
}

const _: () = assert!(size_of::<Event>() == size_of::<libc::sigevent>());

impl Event {
    /// Nobody is told.
    pub(crate) const NONE: Event = Event {
        value: 0,
        signal: 0,
        how: libc::SIGEV_NONE,
        function: None,
        attributes: std::ptr::null(),
        reserved: [0; 4],
    };
}

/// What stands in a block that was last used for a request of this library's. The C library has a scheduling policy there, of which
/// none has this number.
const MARK: c_int = i32::from_be_bytes(*b"WHRF");

/// What stands there until the C library has taken a request up that is handed to it: another number of no policy.
const HANDED_OVER: c_int = MARK + 1;

/// `struct aiocb`.
#[repr(C)]
pub(crate) struct Block {
    pub(crate) descriptor: c_int,
    pub(crate) operation: c_int,
    pub(crate) priority: c_int,
    pub(crate) buffer: *mut c_void,
    pub(crate) bytes: size_t,
    pub(crate) event: Event,
    next: *mut c_void,
    priority_absolute: c_int,
    policy: AtomicI32,
    error: AtomicI32,
    returned: AtomicIsize,
    pub(crate) offset: off_t,
    reserved: [u8; 32],
}

const _: () = assert!(size_of::<Block>() == size_of::<libc::aiocb>());
const _: () = assert!(offset_of!(Block, event) == offset_of!(libc::aiocb, aio_sigevent));
const _: () = assert!(offset_of!(Block, offset) == offset_of!(libc::aiocb, aio_offset));

impl Block {
    /// Its request is one of this library's from now on, and under way.
    pub(crate) fn begin(&self) {
        self.policy.store(MARK, Ordering::Relaxed);
        self.returned.store(0, Ordering::Relaxed);
        self.error.store(libc::EINPROGRESS, Ordering::Release);
    }

    /// Its request has ended. The program may use the memory for something else from now on.
    pub(crate) fn end(&self, outcome: Outcome<usize>) {
        let (error, returned) = match outcome {
            Ok(bytes) => (0, bytes as isize),
            Err(errno) => (errno.0, -1),
        };
        self.returned.store(returned, Ordering::Relaxed);
        // Release: who sees the end sees what was read too.
        self.error.store(error, Ordering::Release);
    }

    /// 0, `EINPROGRESS`, or why it failed.
    pub(crate) fn error(&self) -> c_int {
        self.error.load(Ordering::Acquire)
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.error() == libc::EINPROGRESS
    }

    /// Its request is about to become one of the C library's.
    pub(crate) fn hand_over(&self) {
        self.error.store(libc::EINPROGRESS, Ordering::Relaxed);
        self.policy.store(HANDED_OVER, Ordering::Relaxed);
    }

    /// Whether the C library has neither taken its request up nor refused it so far.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.policy.load(Ordering::Relaxed) == HANDED_OVER && self.is_under_way()
    }

    /// Whether the C library has refused the request.
    pub(crate) fn was_refused(&self) -> bool {
        self.policy.load(Ordering::Relaxed) == HANDED_OVER && !self.is_under_way()
    }

    /// Whether its last request was one of this library's.
    pub(crate) fn is_ours(&self) -> bool {
        self.policy.load(Ordering::Relaxed) == MARK
    }
}
