//! Why an operation failed.

use crate::pages::Fault;

/// The numbers of POSIX that this file system gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::upper_case_acronyms, missing_docs)] // as they are written everywhere
pub enum Errno {
    ENOSPC,
    EROFS,
    ESTALE,
    EINVAL,
    EEXIST,
    ENOENT,
    EFBIG,
    EMLINK,
}

/// Why an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// As POSIX says it.
    #[error("{0:?}")]
    Errno(Errno),
    /// The pages below failed, or hold what does not belong there.
    #[error("EIO: {0}")]
    Io(Fault),
}

impl From<Errno> for FileError {
    fn from(errno: Errno) -> FileError {
        FileError::Errno(errno)
    }
}

impl From<Fault> for FileError {
    fn from(fault: Fault) -> FileError {
        FileError::Io(fault)
    }
}
