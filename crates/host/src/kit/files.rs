//! A file of a cache.

use wharf_runtime::sync::{AtomicU64, Ordering};

use crate::errseq::ErrSeqCursor;
use crate::kit::direct_flush::Cursor;

/// A place for an open file; in Linux its `address_space`.
#[derive(Default)]
pub struct CachedFile<I> {
    /// Page to frame.
    pub index: I,
    /// Where the next flusher looks for dirty pages.
    pub cursor: Cursor,
    /// Write-backs of pages that failed.
    failures: AtomicU64,
}

impl<I> CachedFile<I> {
    /// Write-backs of pages that failed.
    pub fn failures(&self) -> u64 {
        // Relaxed, as below: a number that is compared, and orders nothing.
        self.failures.load(Ordering::Relaxed)
    }

    /// So many more failed. They are counted when the pages are dirty again, not when they are
    /// known to be late: a flush that began in between has not seen them among the dirty ones, and
    /// must hear of them.
    pub fn note_failures(&self, pages: u64) {
        self.failures.fetch_add(pages, Ordering::Relaxed);
    }

    /// What one has been told of who comes now.
    pub fn told(&self) -> ErrSeqCursor {
        ErrSeqCursor::new(self.failures())
    }
}
