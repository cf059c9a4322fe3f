//! How a C program learns what went wrong.

use std::cell::RefCell;
use std::error::Error;
use std::ffi::{CString, c_char};
use std::io;

use errno::{Errno, set_errno};
use wharf::drive::{DriveError, media::ImageError as MediaError};
use wharf::files::ImageError;
use wharf::host::error::IoError;
use wharf::page_cache::PageCacheError;
use wharf::store::StoreError;

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
    /// The system says so, or a file system in its words.
    System(io::Error),
    /// An image of a file system.
    Image(ImageError),
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
            Failure::System(error) => (error.raw_os_error().unwrap_or(libc::EIO), said(&error)),
            Failure::Image(error) => (number_of_image(&error), error.to_string()),
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

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Failure {
        Failure::Image(error)
    }
}

/// What the system says of a number, without the number.
fn said(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}

/// The system's own number, if it was the system.
fn number_of_system(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut cause = Some(error);
    while let Some(now) = cause {
        let system = now.downcast_ref::<io::Error>();
        match system.map(|system| (system.raw_os_error(), system.kind())) {
            Some((Some(number), _)) => return Some(number),
            Some((None, io::ErrorKind::AlreadyExists)) => return Some(libc::EEXIST),
            _ => cause = now.source(),
        }
    }
    None
}

fn number_of_image(error: &ImageError) -> i32 {
    if let ImageError::Drive(StoreError::Drive(DriveError::Image(error))) = error {
        return match error {
            MediaError::Missing { .. } => libc::ENOENT,
            MediaError::Exists { .. } => libc::EEXIST,
            MediaError::Locked { .. } => libc::EBUSY,
            other => number_of_system(other).unwrap_or(libc::EINVAL),
        };
    }
    match error {
        ImageError::Table(_) | ImageError::NoFileSystem | ImageError::Make(_) => libc::EINVAL,
        ImageError::Memory(_) => libc::ENOMEM,
        ImageError::Files(error) => error.errno().number(),
        ImageError::System(error) => number_of_system(error).unwrap_or(libc::EIO),
        other => number_of_system(other).unwrap_or(libc::EIO),
    }
}

/// The system's own number if it was the system; else what comes nearest.
fn number_of(error: &PageCacheError) -> i32 {
    if let Some(number) = number_of_system(error) {
        return number;
    }
    match error {
        PageCacheError::TooSmall { .. }
        | PageCacheError::Option { .. }
        | PageCacheError::OpenOptions(_)
        | PageCacheError::Block { .. } => libc::EINVAL,
        PageCacheError::Memory(_) | PageCacheError::TooLarge { .. } => libc::ENOMEM,
        PageCacheError::NoFileLeft { .. } => libc::ENFILE,
        PageCacheError::NoThreadLeft { .. } => libc::EAGAIN,
        PageCacheError::ReadOnly { .. } | PageCacheError::WriteOnly { .. } => libc::EBADF,
        PageCacheError::OpenReadOnly { .. }
        | PageCacheError::Io {
            source: IoError::Kept { .. },
            ..
        } => libc::EBUSY,
        PageCacheError::UnexpectedEof { .. } => libc::ENXIO,
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
