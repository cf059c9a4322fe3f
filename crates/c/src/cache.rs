//! Making a cache, and what it did.

use wharf::page_cache::{PageCache, PageCacheOptions, PageCacheStatistics, Replacement};

use crate::error::{Failure, handle, known, status};

/// A page cache.
pub struct wharf_cache(pub(crate) PageCache);

/// What a cache is to be. Fill it by wharf_cache_options_init, then change what you like.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct wharf_cache_options {
    /// Memory for cached pages in bytes, never exceeded; what keeps book of them comes on top.
    pub memory_bytes: u64,
    /// Share of the pages that may be dirty before writers wait for write-back, or do it themselves, 0 to 0.9.
    pub dirty_share: f64,
    /// Most files open at a time.
    pub files_max: u32,
    /// Most threads that use the cache at a time.
    pub threads_max: u32,
    /// I/Os that each thread has under way on each file, at most.
    pub depth: u32,
    /// Which page leaves next: WHARF_CLOCK, WHARF_S3_FIFO and so on.
    pub replacement: u32,
    /// Most bytes that are read ahead at a time; a quarter of the memory at most.
    pub readahead_bytes: u64,
    /// Not 0: a thread of the cache writes back and reads ahead beside the program's; 0: the program's do.
    pub background: u32,
}

/// Replacement: CLOCK.
pub const WHARF_CLOCK: u32 = 0;
/// Replacement: two lists, as in Linux, which keep what is used again through a scan.
pub const WHARF_TWO_LISTS: u32 = 1;
/// Replacement: first in, first out.
pub const WHARF_FIFO: u32 = 2;
/// Replacement: the page whose last use is longest ago.
pub const WHARF_LRU: u32 = 3;
/// Replacement: 2Q.
pub const WHARF_2Q: u32 = 4;
/// Replacement: ARC.
pub const WHARF_ARC: u32 = 5;
/// Replacement: LIRS.
pub const WHARF_LIRS: u32 = 6;
/// Replacement: SIEVE.
pub const WHARF_SIEVE: u32 = 7;
/// Replacement: S3-FIFO.
pub const WHARF_S3_FIFO: u32 = 8;
/// Replacement: W-TinyLFU.
pub const WHARF_W_TINYLFU: u32 = 9;

/// The numbers above.
const REPLACEMENTS: [(u32, Replacement); 10] = [
    (WHARF_CLOCK, Replacement::Clock),
    (WHARF_TWO_LISTS, Replacement::TwoLists),
    (WHARF_FIFO, Replacement::Fifo),
    (WHARF_LRU, Replacement::Lru),
    (WHARF_2Q, Replacement::TwoQ),
    (WHARF_ARC, Replacement::Arc),
    (WHARF_LIRS, Replacement::Lirs),
    (WHARF_SIEVE, Replacement::Sieve),
    (WHARF_S3_FIFO, Replacement::S3Fifo),
    (WHARF_W_TINYLFU, Replacement::WTinyLfu),
];

/// What the threads of a program did with a cache so far.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct wharf_cache_statistics {
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

/// Fills `options` with what is good for most: 64 MiB, a fifth of it dirty at most, 256 files, 256 threads.
///
/// `options` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_cache_options_init(options: *mut wharf_cache_options) {
    let PageCacheOptions {
        memory_bytes,
        dirty_share,
        files_max,
        threads_max,
        depth,
        replacement,
        background,
        readahead_bytes,
    } = PageCacheOptions::default();
    let filled = wharf_cache_options {
        memory_bytes,
        dirty_share,
        files_max,
        threads_max,
        depth,
        replacement: number_of(replacement),
        background: background.into(),
        readahead_bytes,
    };
    if !options.is_null() {
        // SAFETY: the caller's promise.
        unsafe { options.write(filled) };
    }
}

/// Makes a cache; `options` may be NULL. NULL if it cannot be made. Free it by wharf_cache_free.
///
/// `options` is NULL or filled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_cache_new(options: *const wharf_cache_options) -> *mut wharf_cache {
    // SAFETY: the caller's promise.
    let options = unsafe { options.as_ref() };
    let made = options.map_or(Ok(PageCacheOptions::default()), known_options);
    handle(made.and_then(|options| Ok(wharf_cache(PageCache::new(&options)?))))
}

fn replacement_of(number: u32) -> Result<Replacement, Failure> {
    let found = REPLACEMENTS.iter().find(|(known, _)| *known == number);
    let unknown = || Failure::argument(format!("{number} is no replacement"));
    found
        .map(|(_, replacement)| *replacement)
        .ok_or_else(unknown)
}

fn number_of(replacement: Replacement) -> u32 {
    let found = REPLACEMENTS.iter().find(|(_, known)| *known == replacement);
    found.expect("all are listed").0
}

fn known_options(options: &wharf_cache_options) -> Result<PageCacheOptions, Failure> {
    Ok(PageCacheOptions {
        memory_bytes: options.memory_bytes,
        dirty_share: options.dirty_share,
        files_max: options.files_max,
        threads_max: options.threads_max,
        depth: options.depth,
        replacement: replacement_of(options.replacement)?,
        background: options.background != 0,
        readahead_bytes: options.readahead_bytes,
    })
}

/// Gives the cache up; its memory goes when its last file is closed. NULL is nothing.
///
/// `cache` is NULL or came from `wharf_cache_new`, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_cache_free(cache: *mut wharf_cache) {
    if !cache.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(cache) });
    }
}

/// Says what was done so far. 0, or -1.
///
/// `cache` is NULL or a cache; `out` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_cache_get_statistics(
    cache: *const wharf_cache,
    out: *mut wharf_cache_statistics,
) -> i32 {
    // SAFETY: the caller's promise.
    let statistics = unsafe { known(cache, "the cache") }.map(|cache| cache.0.statistics());
    let written = statistics.and_then(|statistics| {
        if out.is_null() {
            return Err(Failure::argument("the place for statistics is NULL"));
        }
        // SAFETY: the caller's promise.
        unsafe { out.write(statistics.into()) };
        Ok(())
    });
    status(written)
}

impl From<PageCacheStatistics> for wharf_cache_statistics {
    fn from(did: PageCacheStatistics) -> wharf_cache_statistics {
        wharf_cache_statistics {
            reads: did.reads,
            writes: did.writes,
            syncs: did.syncs,
            pages: did.pages,
            hits: did.hits,
            read_ahead_hits: did.read_ahead_hits,
            evictions: did.evictions,
            write_backs: did.write_backs,
            dirty_pages: did.dirty_pages,
        }
    }
}
