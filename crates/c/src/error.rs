//! How a C program learns what went wrong.

use std::cell::RefCell;
use std::error::Error;
use std::ffi::{CString, c_char};

use errno::{Errno, set_errno};
use wharf::host::error::IoError;
use wharf::page_cache::PageCacheError;

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// What went wrong in the last call of this thread that failed, as one line; empty if none has. It is valid until
/// the thread's next call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn wharf_error() -> *const c_char {
    MESSAGE.with_borrow(|message| message.as_ptr())
}

/// Why a call fails.
pub(crate) enum Failure {
    /// An argument that cannot be.
    Argument(String),
    /// The cache says so.
    Cache(PageCacheError),
}

impl Failure {
    pub(crate) fn argument(text: impl Into<String>) -> Failure {
        Failure::Argument(text.into())
    }

    /// Leaves number and message for the program.
    pub(crate) fn leave(self) {
        let (number, text) = match self {
            Failure::Argument(text) => (libc::EINVAL, text),
            Failure::Cache(error) => (number_of(&error), error.to_string()),
        };
        let text = CString::new(text.replace('\0', " ")).expect("no zeros are left");
        MESSAGE.with_borrow_mut(|message| *message = text);
        set_errno(Errno(number));
    }
}

impl From<PageCacheError> for Failure {
    fn from(error: PageCacheError) -> Failure {
        Failure::Cache(error)
    }
}

/// The system's own number if it was the system; else what comes nearest.
fn number_of(error: &PageCacheError) -> i32 {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(now) = cause {
        let system = now.downcast_ref::<std::io::Error>();
        if let Some(number) = system.and_then(std::io::Error::raw_os_error) {
            return number;
        }
        cause = now.source();
    }
    match error {
        PageCacheError::TooSmall { .. }
        | PageCacheError::Option { .. }
        | PageCacheError::Block { .. } => libc::EINVAL,
        PageCacheError::Memory(_) | PageCacheError::TooLarge { .. } => libc::ENOMEM,
        PageCacheError::NoFileLeft { .. } => libc::ENFILE,
        PageCacheError::NoThreadLeft { .. } => libc::EAGAIN,
        PageCacheError::ReadOnly { .. } => libc::EBADF,
        PageCacheError::OpenReadOnly { .. }
        | PageCacheError::Io {
            source: IoError::Kept { .. },
            ..
        } => libc::EBUSY,
        PageCacheError::NoRoom { .. } => libc::ENOSPC,
        _ => libc::EIO,
    }
}

/// The value, or `failed` with number and message left.
pub(crate) fn give<T, E: Into<Failure>>(outcome: Result<T, E>, failed: T) -> T {
    outcome.unwrap_or_else(|error| {
        error.into().leave();
        failed
    })
}

/// 0, or -1 with number and message left.
pub(crate) fn status<E: Into<Failure>>(outcome: Result<(), E>) -> i32 {
    give(outcome.map(|()| 0).map_err(Into::into), -1)
}

/// A handle on the heap, or null with number and message left.
pub(crate) fn handle<T, E: Into<Failure>>(outcome: Result<T, E>) -> *mut T {
    let boxed = outcome.map(|value| Box::into_raw(Box::new(value)));
    give(boxed.map_err(Into::into), std::ptr::null_mut())
}

/// What a pointer that was handed in points to.
///
/// # Safety
/// It is null, or points to a `T` that nobody changes meanwhile.
pub(crate) unsafe fn known<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::argument(format!("{what} is NULL")))
}
