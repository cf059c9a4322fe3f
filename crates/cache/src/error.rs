//! What can go wrong, and what the standard library calls it.

use std::io::{self, ErrorKind};

use wharf_host::error::IoError;
use wharf_storage::StorageError;
use wharf_wire::dma::RegisterError;

/// A page cache that cannot be made, or a request that could not be served.
#[derive(Debug, thiserror::Error)]
pub enum PageCacheError {
    /// Less memory than it takes to work.
    #[error("a page cache of {bytes} bytes is too small: give it at least {bytes_min}")]
    TooSmall {
        /// Bytes asked for.
        bytes: u64,
        /// The least there may be.
        bytes_min: u64,
    },
    /// More memory than there is.
    #[error(
        "a page cache of {bytes} bytes: this machine has {machine_bytes} bytes of memory: give it \
         less"
    )]
    TooLarge {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes there are.
        machine_bytes: u64,
    },
    /// Options that make no sense together.
    #[error("a page cache with {name} of {value}: choose {range}")]
    Option {
        /// The option.
        name: &'static str,
        /// What it was.
        value: String,
        /// What it may be.
        range: String,
    },
    /// Memory that the system has not.
    #[error(transparent)]
    Memory(#[from] RegisterError),
    /// The file or device.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A request.
    #[error("{name}: {source}")]
    Io {
        /// Which file.
        name: String,
        /// What happened.
        source: IoError,
    },
    /// Storage in blocks that do not divide a page.
    #[error("{name}: has blocks of {block_bytes} bytes, which do not divide a page of 4096")]
    Block {
        /// Which file.
        name: String,
        /// Its block.
        block_bytes: u32,
    },
    /// Too many files.
    #[error("all {files_max} files of the page cache are open: raise PageCacheOptions::files_max")]
    NoFileLeft {
        /// Files that there may be.
        files_max: u32,
    },
    /// Too many threads.
    #[error(
        "{threads_max} threads use the page cache already: raise PageCacheOptions::threads_max"
    )]
    NoThreadLeft {
        /// Threads that there may be.
        threads_max: u32,
    },
    /// Ways to open a file that do not go together.
    #[error("a file cannot be opened so: {0}")]
    OpenOptions(&'static str),
    /// A write to a file that was opened to read.
    #[error("{name}: is open to read only: open it with OpenOptions::write(true)")]
    ReadOnly {
        /// Which file.
        name: String,
    },
    /// A read from a file that was opened to write.
    #[error("{name}: is open to write only: open it with OpenOptions::read(true)")]
    WriteOnly {
        /// Which file.
        name: String,
    },
    /// The file is open, but for less than is asked for now.
    #[error("{name}: is open to read only by another handle: close that one first")]
    OpenReadOnly {
        /// Which file.
        name: String,
    },
    /// The file ends before what was to be read does.
    #[error("{name}: ends at byte {len}, before byte {end}, which was to be read")]
    UnexpectedEof {
        /// Which file.
        name: String,
        /// Where the request ends.
        end: u64,
        /// Length of the file in bytes.
        len: u64,
    },
    /// Storage that does not grow, or a file that would get too long.
    #[error("{name}: {end} bytes do not fit: it has room for {room}")]
    NoRoom {
        /// Which file.
        name: String,
        /// Where the request ends.
        end: u64,
        /// The most bytes there can be.
        room: u64,
    },
}

impl PageCacheError {
    /// What the standard library calls this.
    pub fn kind(&self) -> ErrorKind {
        match self {
            PageCacheError::TooSmall { .. }
            | PageCacheError::Option { .. }
            | PageCacheError::Block { .. }
            | PageCacheError::OpenOptions(_) => ErrorKind::InvalidInput,
            PageCacheError::TooLarge { .. } | PageCacheError::Memory(_) => ErrorKind::OutOfMemory,
            PageCacheError::Storage(error) => kind_of_storage(error),
            PageCacheError::Io { source, .. } => kind_of_io(source),
            PageCacheError::NoFileLeft { .. } => ErrorKind::QuotaExceeded,
            PageCacheError::NoThreadLeft { .. } => ErrorKind::ResourceBusy,
            PageCacheError::ReadOnly { .. }
            | PageCacheError::WriteOnly { .. }
            | PageCacheError::OpenReadOnly { .. } => ErrorKind::PermissionDenied,
            PageCacheError::UnexpectedEof { .. } => ErrorKind::UnexpectedEof,
            PageCacheError::NoRoom { .. } => ErrorKind::StorageFull,
        }
    }
}

fn kind_of_storage(error: &StorageError) -> ErrorKind {
    match error {
        StorageError::File { source, .. }
        | StorageError::Uring(source)
        | StorageError::Thread(source) => source.kind(),
        StorageError::InUse(_) => ErrorKind::ResourceBusy,
        StorageError::Kind(_) | StorageError::Depth(_) => ErrorKind::InvalidInput,
        StorageError::FixedSize(_) => ErrorKind::StorageFull,
        StorageError::Io { error, .. } => io::Error::from(error.errno).kind(),
    }
}

fn kind_of_io(error: &IoError) -> ErrorKind {
    match error {
        IoError::System { errno, .. } => io::Error::from_raw_os_error(*errno).kind(),
        IoError::NoRoom { .. } | IoError::Guards { .. } => ErrorKind::ResourceBusy,
        _ => ErrorKind::Other,
    }
}

/// Of the kind that [`PageCacheError::kind`] says, with the error itself inside: its text names the file.
impl From<PageCacheError> for io::Error {
    fn from(error: PageCacheError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}
