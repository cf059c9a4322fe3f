#![doc = include_str!("../README.md")]

// | file | idea |
// |---|---|
// | `options.rs`, `opening.rs` | what a cache is to be, how a file is opened |
// | `error.rs` | what can go wrong, and what the standard library calls it |
// | `file.rs`, `streams.rs` | a file: reads, writes, sync, length, pins; as a stream |
// | `thread.rs` | what a thread has of a cache |
// | `tasks.rs`, `bytes.rs`, `metrics.rs` | what features add: files for tasks, `Bytes`, statistics for a recorder |
// | `background.rs` | the cache's own thread |
// | `channels.rs` | its channels to the files, on one ring: what lies below the cache |
// | `table.rs`, `open_file.rs` | which files are open; one of them, its length and its storage |
//
// The cache itself is `wharf_host::scale`, as in the lab.

mod background;
#[cfg(feature = "bytes")]
mod bytes;
mod channels;
mod error;
mod file;
#[cfg(feature = "metrics")]
mod metrics;
mod open_file;
mod opening;
mod options;
mod streams;
mod table;
#[cfg(feature = "tokio")]
mod tasks;
mod thread;

use std::path::Path;
use std::sync::Arc;

use wharf_host::design::{DesignConfig, Reclaim};
use wharf_host::dflush::Balance;
use wharf_host::key::{FILES_MAX, PAGES_MAX};
use wharf_host::scale::shared::{Shape, Shared};
use wharf_runtime::sync::Ordering;
use wharf_storage::target::DEPTH_MAX;
use wharf_storage::{FileId, FileOptions, Opened, Target, custom};
use wharf_wire::dma::{DmaSpace, PAGE_BYTES};

use background::Background;
pub use error::PageCacheError;
pub use file::{Advice, File, PageGuard};
use open_file::OpenFile;
use opening::Access;
pub use opening::OpenOptions;
pub use options::PageCacheOptions;
#[cfg(feature = "tokio")]
pub use tasks::{AsyncFile, WaitingThreads};
use thread::Core;
pub use wharf_host::design::Replacement;
pub use wharf_host::error::IoError;
pub use wharf_storage as storage;
pub use wharf_storage::Storage;

/// The least pages of a cache.
const PAGES_MIN: u64 = 16;

/// Pages that a writer which has to write back writes at a time: random ones are so many I/Os, and drives gain
/// little from more.
const SHARE_PAGES: u64 = 128;

/// Most threads that a cache may have.
const THREADS_MAX: u32 = 4096;

/// Most threads that call storage of a user's own.
const STORAGE_THREADS_MAX: u32 = 256;

/// A page cache. Clones are the same cache; its files keep it alive.
#[derive(Clone)]
pub struct PageCache {
    handle: Arc<Handle>,
}

/// What cache and files keep alive together.
struct Handle {
    core: Arc<Core>,
    /// The cache's own thread, which ends with this.
    _background: Option<Background>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Relaxed: threads that see it later leave their contexts later.
        self.core.closed.store(true, Ordering::Relaxed);
        thread::detach();
    }
}

/// What the threads of a program did with a cache so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageCacheStatistics {
    /// Calls that read.
    pub reads: u64,
    /// Calls that wrote.
    pub writes: u64,
    /// Calls that synced.
    pub syncs: u64,
    /// Pages that these reads and writes touched.
    pub pages: u64,
    /// Of these, found in the cache, where an earlier call had touched them.
    pub hits: u64,
    /// Of these, found where reading ahead had brought them, and touched for the first time.
    pub read_ahead_hits: u64,
    /// Pages that left the cache for others.
    pub evictions: u64,
    /// Pages written to storage.
    pub write_backs: u64,
    /// Dirty pages now, about.
    pub dirty_pages: u64,
}

impl PageCache {
    /// A cache without files.
    ///
    /// # Errors
    /// If the options cannot be, or memory is short.
    pub fn new(options: &PageCacheOptions) -> Result<PageCache, PageCacheError> {
        check(options)?;
        let space = DmaSpace::new(PAGE_BYTES);
        let config = DesignConfig {
            cache_bytes: options.memory_bytes,
            clients: options.threads_max,
            dirty_background_share: options.dirty_share / 2.0,
            dirty_hard_share: options.dirty_share,
            ..DesignConfig::default()
        };
        let shape = Shape {
            frames: (options.memory_bytes / PAGE_BYTES as u64) as u32,
            files: options.files_max,
            balance: match options.background {
                true => Balance::FlushUnlessBusy,
                false => Balance::Flush,
            },
            replacement: options.replacement,
            reclaim: Reclaim::Eager,
            has_flusher: options.background,
            has_read_ahead_thread: options.background,
            window_pages: options.readahead_bytes / PAGE_BYTES as u64,
            share_pages: SHARE_PAGES,
        };
        let shared = Shared::new(&config, &shape, &space)?;
        let core = Core::new(
            shared,
            options.files_max,
            options.threads_max,
            options.depth,
        );
        let core = Arc::new(core);
        let background = match options.background {
            true => Some(Background::start(&core)?),
            false => None,
        };
        Ok(PageCache {
            handle: Arc::new(Handle {
                core,
                _background: background,
            }),
        })
    }

    /// Opens a file or a block device to read, as [`std::fs::File::open`] does. [`OpenOptions`] has the other ways.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, PageCacheError> {
        OpenOptions::new().read(true).open(self, path)
    }

    /// Makes a file, or cuts the one that is there to no bytes, and opens it to read and to write.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn create(&self, path: impl AsRef<Path>) -> Result<File, PageCacheError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        options.open(self, path)
    }

    /// Opens a file that is made if it is not there and `makes`, and must not be there if it `must_be_new`.
    fn open_as(
        &self,
        path: &Path,
        access: Access,
        makes: bool,
        must_be_new: bool,
    ) -> Result<File, PageCacheError> {
        let how = FileOptions {
            read_only: !access.write,
            create_bytes: makes.then_some(0),
            must_be_new,
            ..FileOptions::default()
        };
        // From here on the path does not matter, which may be another file's by now.
        let opened = Opened::new(path, &how)?;
        let id = opened.id();
        if let Some(open) = self.handle.core.table.again(id) {
            return self.file(open, access);
        }
        let can_grow = !opened.is_device();
        let target = check_blocks(opened.target()?)?;
        self.add(Some(id), target, can_grow, access)
    }

    /// Opens storage of any kind: an array, memory. Its size stays as it is.
    ///
    /// # Errors
    /// Blocks that do not divide a page; too many files.
    pub fn open_target(&self, target: Arc<dyn Target>) -> Result<File, PageCacheError> {
        let read_only = target.info().read_only;
        self.add(
            None,
            check_blocks(target)?,
            false,
            Access::to_all(read_only),
        )
    }

    /// Opens storage of your own: `threads` threads call it, 1 to 256, so many I/Os are under way at a time. Who opens the same storage
    /// twice has two files; clone the handle instead.
    ///
    /// # Errors
    /// If it has no length; threads that cannot be started; too many files.
    pub fn open_storage(
        &self,
        storage: Arc<dyn Storage>,
        threads: u32,
    ) -> Result<File, PageCacheError> {
        if !(1..=STORAGE_THREADS_MAX).contains(&threads) {
            return Err(PageCacheError::Option {
                name: "threads",
                value: threads.to_string(),
                range: format!("1 to {STORAGE_THREADS_MAX}"),
            });
        }
        let access = Access::to_all(!storage.is_writable());
        let can_grow = storage.can_grow();
        self.add(None, custom(storage, threads)?, can_grow, access)
    }

    fn add(
        &self,
        id: Option<FileId>,
        target: Arc<dyn Target>,
        can_grow: bool,
        access: Access,
    ) -> Result<File, PageCacheError> {
        let (end, room) = (target.size_bytes(), PAGES_MAX * PAGE_BYTES as u64);
        if end > room {
            let name = target.info().name.clone();
            return Err(PageCacheError::NoRoom { name, end, room });
        }
        let core = &self.handle.core;
        let make = |number| OpenFile::new(target.clone(), number, can_grow);
        let open = core.table.open(id, make)?;
        if Arc::ptr_eq(&open.target, &target) {
            core.shared.use_file(open.number);
        }
        self.file(open, access)
    }

    /// The handle of an open file that the table has counted.
    fn file(&self, open: Arc<OpenFile>, access: Access) -> Result<File, PageCacheError> {
        let file = File::new(open, self.handle.clone(), access);
        match file.is_less_than_asked() {
            true => Err(PageCacheError::OpenReadOnly {
                name: file.name().into(),
            }),
            false => Ok(file),
        }
    }

    /// What was done so far.
    pub fn statistics(&self) -> PageCacheStatistics {
        let core = &self.handle.core;
        let mut all = PageCacheStatistics {
            dirty_pages: core.shared.dirty.get(),
            // Relaxed: a number.
            write_backs: core
                .shared
                .common
                .background_written
                .load(Ordering::Relaxed),
            ..PageCacheStatistics::default()
        };
        for counters in &core.counters {
            all.reads += counters.reads.get();
            all.writes += counters.writes.get();
            all.syncs += counters.syncs.get();
            all.pages += counters.pages.get();
            all.hits += counters.hits.get();
            all.read_ahead_hits += counters.read_ahead_hits.get();
            all.evictions += counters.evictions.get();
            all.write_backs += counters.write_backs.get();
        }
        all
    }
}

impl std::fmt::Debug for PageCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageCache")
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}

/// Storage that the cache can use.
fn check_blocks(target: Arc<dyn Target>) -> Result<Arc<dyn Target>, PageCacheError> {
    let info = target.info();
    match (PAGE_BYTES as u32).is_multiple_of(info.block_bytes) {
        true => Ok(target),
        false => Err(PageCacheError::Block {
            name: info.name.clone(),
            block_bytes: info.block_bytes,
        }),
    }
}

fn check(options: &PageCacheOptions) -> Result<(), PageCacheError> {
    let bytes = options.memory_bytes;
    let bytes_min = PAGES_MIN * PAGE_BYTES as u64;
    if bytes < bytes_min {
        return Err(PageCacheError::TooSmall { bytes, bytes_min });
    }
    let refuse =
        |name, value: String, range: String| Err(PageCacheError::Option { name, value, range });
    // The system would promise it, and end some process when it is used.
    let machine = rustix::system::sysinfo();
    let machine_bytes = machine.totalram.saturating_mul(machine.mem_unit.into());
    if bytes > machine_bytes {
        return Err(PageCacheError::TooLarge {
            bytes,
            machine_bytes,
        });
    }
    if bytes / PAGE_BYTES as u64 >= 1 << 30 {
        return refuse("memory_bytes", bytes.to_string(), "less than 4 TiB".into());
    }
    for (name, value, most) in [
        ("files_max", options.files_max, FILES_MAX.min(1 << 16)),
        ("threads_max", options.threads_max, THREADS_MAX),
        ("depth", options.depth, DEPTH_MAX),
    ] {
        if !(1..=most).contains(&value) {
            return refuse(name, value.to_string(), format!("1 to {most}"));
        }
    }
    if !(0.0..=0.9).contains(&options.dirty_share) {
        return refuse(
            "dirty_share",
            options.dirty_share.to_string(),
            "0 to 0.9".into(),
        );
    }
    Ok(())
}
