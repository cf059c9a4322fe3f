//! Errors as exceptions, with the line that the command line would print.

use std::error::Error;
use std::io;

use pyo3::PyErr;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};
use wharf::cli::Failure;
use wharf::page_cache::PageCacheError;
use wharf::storage::StorageError;

/// `errno` where the system gave no other: an I/O error.
const EIO: i32 = 5;
/// `errno` of what is no file.
const EINVAL: i32 = 22;
/// `errno` of a file that others use in another way.
const EBUSY: i32 = 16;
/// `errno` of a resource of which there is no more just now.
const EAGAIN: i32 = 11;
/// `errno` of a table of files that is full.
const ENFILE: i32 = 23;
/// `errno` of a file that is not open for that.
const EBADF: i32 = 9;
/// `errno` of storage that has no more room.
const ENOSPC: i32 = 28;

/// Why a command did not succeed: bad input is a `ValueError`, a file that cannot be read an `OSError`, a run that failed a `RuntimeError`.
pub(crate) fn failed(failure: Failure) -> PyErr {
    match failure {
        Failure::Input(line) => PyValueError::new_err(line),
        Failure::File { line, errno } => system(errno, line),
        Failure::Run(line) => PyRuntimeError::new_err(line),
        Failure::Interrupted => PyKeyboardInterrupt::new_err(()),
    }
}

/// Why a page cache did not do something: options that cannot be are a `ValueError`, all else is an `OSError`.
pub(crate) fn refused(error: &PageCacheError) -> PyErr {
    let errno = match error {
        PageCacheError::TooSmall { .. }
        | PageCacheError::TooLarge { .. }
        | PageCacheError::Option { .. }
        | PageCacheError::OpenOptions(_)
        | PageCacheError::Block { .. } => return PyValueError::new_err(error.to_string()),
        PageCacheError::Storage(StorageError::Kind(_)) => EINVAL,
        PageCacheError::NoFileLeft { .. } => ENFILE,
        PageCacheError::NoThreadLeft { .. } => EAGAIN,
        PageCacheError::ReadOnly { .. } | PageCacheError::WriteOnly { .. } => EBADF,
        PageCacheError::OpenReadOnly { .. } => EBUSY,
        PageCacheError::NoRoom { .. } => ENOSPC,
        _ => number_of_system(error).unwrap_or(EIO),
    };
    system(errno, error.to_string())
}

/// As [`refused`], of calls that have the standard library's error.
pub(crate) fn failed_io(error: io::Error) -> PyErr {
    match error.downcast::<PageCacheError>() {
        Ok(error) => refused(&error),
        Err(error) => system(error.raw_os_error().unwrap_or(EIO), error.to_string()),
    }
}

/// An `OSError`, or the class of its number.
fn system(errno: i32, line: String) -> PyErr {
    PyOSError::new_err((errno, line))
}

/// The system's own number, if it was the system.
fn number_of_system(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut cause = Some(error);
    while let Some(now) = cause {
        let system = now.downcast_ref::<io::Error>();
        if let Some(number) = system.and_then(io::Error::raw_os_error) {
            return Some(number);
        }
        cause = now.source();
    }
    None
}
