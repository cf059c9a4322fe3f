//! What can go wrong when storage is opened, made or put together. Errors of single I/Os are
//! [`IoError`].

use std::path::PathBuf;

use crate::io::IoError;

/// Why storage cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The file or device cannot be opened, or asked about itself.
    #[error("{}: cannot {doing}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The path names neither a file nor a block device.
    #[error("{}: is neither a file nor a block device", .0.display())]
    Kind(PathBuf),
    /// Another program, or another handle of this one, has it.
    #[error("{}: is in use by another program, or given twice: close that, or take another file", .0.display())]
    InUse(PathBuf),
    /// io_uring was asked for, and the kernel refuses it.
    #[error("io_uring is refused by this system ({0}): use threads instead")]
    Uring(std::io::Error),
    /// A channel of such a depth cannot be.
    #[error("a channel of depth {0}: choose 1 to {max}", max = crate::target::DEPTH_MAX)]
    Depth(u32),
    /// Threads cannot be started.
    #[error("cannot start a thread for I/O: {0}")]
    Thread(std::io::Error),
    /// The size of this target is fixed.
    #[error("{0}: its size cannot be changed")]
    FixedSize(String),
    /// An I/O that opening needed has failed.
    #[error("{name}: {error}")]
    Io {
        /// The target.
        name: String,
        /// The I/O.
        error: IoError,
    },
}
