//! What a page cache is to be.

use wharf_host::design::Replacement;

/// What a [`PageCache`](crate::PageCache) is to be.
#[derive(Debug, Clone)]
pub struct PageCacheOptions {
    /// Memory for cached pages in bytes, never exceeded. What keeps book of them comes on top: about
    /// 3 % of it (half of that with CLOCK), and 64 KiB for each thread that uses the cache, less in small ones.
    pub memory_bytes: u64,
    /// Share of the pages that may be dirty, or on their way to storage, before writers wait for write-back, or
    /// do it themselves.
    pub dirty_share: f64,
    /// A thread of the cache writes dirty pages back when they are more than half of `dirty_share`, and reads ahead while
    /// the program computes. Without it writers write back themselves, and reading ahead is a part of the read.
    pub background: bool,
    /// Most bytes that are read ahead at a time of a reader in order, or in equal steps; a quarter of the memory at most.
    pub readahead_bytes: u64,
    /// Which page leaves next: any policy of `wharf policies`, or that of Linux. What is usual is chosen by hit ratios of real traces and by the time of
    /// hits (docs/library.md).
    pub replacement: Replacement,
    /// Most files open at a time.
    pub files_max: u32,
    /// Most threads that use the cache at a time. One that has ended no longer counts.
    pub threads_max: u32,
    /// I/Os that each thread has under way on each file, at most.
    pub depth: u32,
}

impl Default for PageCacheOptions {
    /// 64 MiB, a fifth of it dirty at most, with a thread of its own that reads 1 MiB ahead, S3-FIFO, for 256 files and
    /// 256 threads with 128 I/Os each.
    fn default() -> Self {
        PageCacheOptions {
            memory_bytes: 64 << 20,
            dirty_share: 0.2,
            background: true,
            readahead_bytes: 1 << 20,
            replacement: Replacement::S3Fifo,
            files_max: 256,
            threads_max: 256,
            depth: 128,
        }
    }
}
