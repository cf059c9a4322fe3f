//! What a page cache is to be, how files are opened, and what can go wrong.

use wharf_host::design::Replacement;
use wharf_host::error::IoError;
use wharf_storage::StorageError;
use wharf_wire::dma::RegisterError;

/// What a [`PageCache`](crate::PageCache) is to be.
#[derive(Debug, Clone)]
pub struct PageCacheOptions {
    /// Memory for cached pages in bytes, never exceeded. What keeps book of them comes on top: about
    /// 1.5 % of it, and 64 KiB for each thread that uses the cache, less in small ones.
    pub memory_bytes: u64,
    /// Share of the pages that may be dirty, or on their way to storage, before writers wait for write-back, or
    /// do it themselves.
    pub dirty_share: f64,
    /// A thread of the cache writes dirty pages back when they are more than half of `dirty_share`, and reads ahead while
    /// the program computes. Without it writers write back themselves, and reading ahead is a part of the read.
    pub background: bool,
    /// Most bytes that are read ahead at a time of a reader in order, or in equal steps; a quarter of the memory at most.
    pub readahead_bytes: u64,
    /// Which page leaves next.
    pub replacement: Replacement,
    /// Most files open at a time.
    pub files_max: u32,
    /// Most threads that use the cache at a time. One that has ended no longer counts.
    pub threads_max: u32,
    /// I/Os that each thread has under way on each file, at most.
    pub depth: u32,
}

impl Default for PageCacheOptions {
    /// 64 MiB, a fifth of it dirty at most, with a thread of its own that reads 1 MiB ahead, CLOCK, for 256 files and
    /// 256 threads with 128 I/Os each.
    fn default() -> Self {
        PageCacheOptions {
            memory_bytes: 64 << 20,
            dirty_share: 0.2,
            background: true,
            readahead_bytes: 1 << 20,
            replacement: Replacement::Clock,
            files_max: 256,
            threads_max: 256,
            depth: 128,
        }
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenOptions {
    /// Make the file, empty, if there is none.
    pub create: bool,
    /// Writes fail, and the file need not be writable.
    pub read_only: bool,
}

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
    /// A write to a file that was opened to read.
    #[error("{name}: is open to read only: leave out OpenOptions::read_only")]
    ReadOnly {
        /// Which file.
        name: String,
    },
    /// The file is open, but for less than is asked for now.
    #[error("{name}: is open to read only by another handle: close that one first")]
    OpenReadOnly {
        /// Which file.
        name: String,
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
