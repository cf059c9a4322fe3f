//! Results as the C library gives them.

use std::ffi::c_int;

use wharf_files::FileError;

/// Why a call fails: a number of `errno`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

/// What a call comes to.
pub(crate) type Outcome<T> = Result<T, Errno>;

impl From<FileError> for Errno {
    fn from(error: FileError) -> Errno {
        Errno(error.errno().number())
    }
}

impl From<wharf_files::Errno> for Errno {
    fn from(errno: wharf_files::Errno) -> Errno {
        Errno(errno.number())
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Errno {
        Errno(errno.raw_os_error())
    }
}

/// What the program is told of a failure.
pub(crate) fn set(errno: Errno) {
    if errno.0 == libc::EREMOTE {
        crate::links::left();
    }
    // SAFETY: where this thread's errno is.
    unsafe { *libc::__errno_location() = errno.0 };
}

/// The error of the C library's last call.
pub(crate) fn last() -> Errno {
    // SAFETY: where this thread's errno is.
    Errno(unsafe { *libc::__errno_location() })
}

/// What a call returns that gives a number, or -1.
pub(crate) fn number<T: From<i8>>(outcome: Outcome<T>) -> T {
    outcome.unwrap_or_else(|errno| {
        set(errno);
        T::from(-1)
    })
}

/// What a call returns that gives 0, or -1.
pub(crate) fn zero(outcome: Outcome<()>) -> c_int {
    number(outcome.map(|()| 0))
}

/// What a call returns that gives a pointer, or null.
pub(crate) fn pointer<T>(outcome: Outcome<*mut T>) -> *mut T {
    outcome.unwrap_or_else(|errno| {
        set(errno);
        std::ptr::null_mut()
    })
}
