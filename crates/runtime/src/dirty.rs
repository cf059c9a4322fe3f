//! A word of bits that say which pages were written since they were last copied away.
//!
//! 1. A writer takes its page's word ([`Versioned::try_lock`](crate::Versioned::try_lock)), marks the
//!    page ([`DirtyBits::set`]), writes, and gives the word back.
//! 2. Who copies pages away clears the mark ([`DirtyBits::clear`]), looks at the word, copies, and
//!    marks the page again if it was or became locked.
//!
//! Either the writer sees that the mark is gone, or the copier sees that the word is taken: each
//! changes its own and then looks at the other's, all in one order (`SeqCst`). So the newest
//! bytes are in the copy, or the page is marked. A writer of a page that is marked changes nothing
//! that others look at.

use crate::sync::{AtomicU64, Ordering};

/// 64 pages' bits. All zeros is a fresh word.
#[derive(Debug)]
#[repr(transparent)]
pub struct DirtyBits(AtomicU64);

impl Default for DirtyBits {
    fn default() -> Self {
        DirtyBits::new()
    }
}

impl DirtyBits {
    /// No page is dirty.
    pub fn new() -> DirtyBits {
        DirtyBits(AtomicU64::new(0))
    }

    /// All bits, to look for pages that are dirty.
    #[inline]
    pub fn bits(&self) -> u64 {
        // Acquire: partner of the release in `set`.
        self.0.load(Ordering::Acquire)
    }

    /// True if page `index` is dirty: then what was written before the mark can be seen.
    #[inline]
    pub fn is_set(&self, index: usize) -> bool {
        self.bits() >> index & 1 == 1
    }

    /// Marks page `index`, whose word the caller holds; true if it was clean.
    #[inline]
    pub fn set(&self, index: usize) -> bool {
        one_order();
        // SeqCst: after the exchange in `Versioned::try_lock`; partner of `clear`.
        if self.0.load(Ordering::SeqCst) >> index & 1 == 1 {
            return false;
        }
        let bit = 1 << index;
        // Release: partner of the acquire in `bits`.
        self.0.fetch_or(bit, Ordering::Release) & bit == 0
    }

    /// Clears the mark of page `index`; true if it was set.
    #[inline]
    pub fn clear(&self, index: usize) -> bool {
        let bit = 1 << index;
        // SeqCst: before the load in `Versioned::begin_read`; partner of `set`.
        let was_set = self.0.fetch_and(!bit, Ordering::SeqCst) & bit != 0;
        one_order();
        was_set
    }
}

/// The model checker knows the one order of `SeqCst` for fences alone.
#[inline(always)]
fn one_order() {
    #[cfg(loom)]
    crate::sync::fence(Ordering::SeqCst);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bits_are_set_and_cleared_one_by_one() {
        let dirty = DirtyBits::new();
        assert!(dirty.set(0) && dirty.set(63) && !dirty.set(63));
        assert_eq!(dirty.bits(), 1 | 1 << 63);
        assert!(dirty.clear(63) && !dirty.clear(63));
        assert!(dirty.is_set(0) && !dirty.is_set(63));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::Versioned;
    use crate::sync::{Arc, AtomicU32};

    struct Page {
        word: Versioned,
        dirty: DirtyBits,
        bytes: AtomicU32,
    }

    /// Copies the page away if it is dirty, as a drive does at a flush.
    fn copy_away(page: &Page) -> Option<u32> {
        if !page.dirty.clear(3) {
            return None;
        }
        let copied = page.word.begin_read().and_then(|version| {
            let bytes = page.bytes.load(Ordering::Relaxed);
            page.word.end_read(version).then_some(bytes)
        });
        if copied.is_none() {
            page.dirty.set(3);
        }
        copied
    }

    #[test]
    fn the_newest_write_is_in_the_copy_or_its_page_is_dirty() {
        loom::model(|| {
            let page = Arc::new(Page {
                word: Versioned::new(),
                dirty: DirtyBits::new(),
                bytes: AtomicU32::new(0),
            });
            let writing = page.clone();
            let writer = loom::thread::spawn(move || {
                for value in 1..=2 {
                    assert!(writing.word.try_lock());
                    writing.dirty.set(3);
                    writing.bytes.store(value, Ordering::Relaxed);
                    writing.word.unlock();
                }
            });
            let early = copy_away(&page);
            writer.join().unwrap();
            let late = copy_away(&page);
            assert_eq!(late.or(early), Some(2), "{early:?}, then {late:?}");
        });
    }
}
