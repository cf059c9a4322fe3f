//! A part of a host's memory that host and drive both use at any time, without a command: words, and bytes beside them.
//!
//! What each side may do when is agreed by the words; see who uses it.

use std::ptr::NonNull;
use std::sync::Arc;

use wharf_runtime::sync::{AtomicU64, Ordering};

use super::region::RegionMemory;
use super::{DmaFault, DmaRegion, DmaSpace, PAGE_BYTES};
use crate::file::write_area::Words;

/// See the module. The memory stays as long as this is there.
pub struct DmaArea {
    start: NonNull<u8>,
    bytes: usize,
    _memory: Arc<RegionMemory>,
}

// SAFETY: plain memory that the region keeps valid; words are atomic, and bytes are copied as the words allow.
unsafe impl Send for DmaArea {}

impl DmaArea {
    fn new(memory: &Arc<RegionMemory>, first: usize, pages: usize) -> DmaArea {
        let start = NonNull::new(memory.pointer(first)).expect("a mapping is not at address 0");
        DmaArea {
            start,
            bytes: pages * PAGE_BYTES,
            _memory: memory.clone(),
        }
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(
            (index + 1) * size_of::<u64>() <= self.bytes,
            "word {index} of an area of {} bytes",
            self.bytes
        );
        // SAFETY: an aligned word inside the mapping, which this keeps; other processes use it by atomics too, or are hosts
        // that harm themselves.
        unsafe { self.start.cast::<AtomicU64>().add(index).as_ref() }
    }

    fn bytes(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(
            at <= self.bytes && bytes <= self.bytes - at,
            "bytes {at} to {} of an area of {}",
            at + bytes,
            self.bytes
        );
        // SAFETY: inside the mapping.
        unsafe { self.start.as_ptr().add(at) }
    }

    /// Copies bytes out of it. A host that writes there meanwhile changes what is copied, and nothing else.
    #[inline]
    pub fn copy_out(&self, at: usize, out: &mut [u8]) {
        let from = self.bytes(at, out.len());
        // SAFETY: inside the mapping; nothing of this program is behind it.
        unsafe { out.as_mut_ptr().copy_from_nonoverlapping(from, out.len()) };
    }

    /// Copies bytes into it.
    #[inline]
    pub fn copy_in(&self, at: usize, bytes: &[u8]) {
        let to = self.bytes(at, bytes.len());
        // SAFETY: inside the mapping; nothing of this program is behind it.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

impl Words for DmaArea {
    #[inline]
    fn look(&self, index: usize) -> u64 {
        // SeqCst: see `swap`; partner of the release in `tell`, too.
        self.word(index).load(Ordering::SeqCst)
    }

    #[inline]
    fn tell(&self, index: usize, value: u64) {
        // Release: partner of the load in `look`.
        self.word(index).store(value, Ordering::Release);
    }

    #[inline]
    fn swap(&self, index: usize, value: u64) -> u64 {
        // SeqCst: partner of the swap of the other side, and of the look behind it.
        self.word(index).swap(value, Ordering::SeqCst)
    }

    #[inline]
    fn exchange(&self, index: usize, old: u64, value: u64) -> bool {
        let word = self.word(index);
        // SeqCst: as `swap`.
        word.compare_exchange(old, value, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }
}

impl DmaSpace {
    /// `pages` whole pages from `address` on, in one region of whole pages.
    ///
    /// # Errors
    /// If they are not there, or `address` is not that of a page.
    pub fn area(&self, address: u64, pages: usize) -> Result<DmaArea, DmaFault> {
        let (memory, offset) = self.resolve(address)?;
        let first = offset / PAGE_BYTES;
        let fits = pages > 0 && first + pages <= memory.pages;
        match fits && offset.is_multiple_of(PAGE_BYTES) && memory.stride == PAGE_BYTES {
            true => Ok(DmaArea::new(memory, first, pages)),
            false => Err(DmaFault(address)),
        }
    }
}

impl DmaRegion {
    /// `pages` of its pages from page `first` on, and their address.
    ///
    /// # Panics
    /// If it does not have them, or its pages are not whole.
    pub fn area(&self, first: usize, pages: usize) -> (DmaArea, u64) {
        assert!(
            self.page_bytes() == PAGE_BYTES && pages > 0 && first + pages <= self.pages(),
            "pages {first} to {} of a region",
            first + pages
        );
        (
            DmaArea::new(&self.memory, first, pages),
            self.address(first),
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_the_same_words_and_bytes() {
        let space = DmaSpace::new(PAGE_BYTES);
        let region = space.register_whole(4).unwrap();
        let (host, address) = region.area(1, 2);
        let drive = space.area(address, 2).unwrap();
        host.tell(1023, 7);
        assert_eq!((drive.look(1023), drive.swap(1023, 9)), (7, 7));
        assert!(!host.exchange(1023, 7, 8) && host.exchange(1023, 9, 8));
        host.copy_in(4090, b"over the end");
        let mut out = [0; 12];
        drive.copy_out(4090, &mut out);
        assert_eq!(&out, b"over the end");
        // Beside it is nothing.
        assert_eq!(region.word(512 * 3).0.look(), 0);
        for (address, pages) in [(address, 4), (address + 8, 1), (address, 0), (8, 1)] {
            assert!(space.area(address, pages).is_err(), "{address:#x} {pages}");
        }
    }

    #[test]
    #[should_panic(expected = "word 512 of an area of 4096 bytes")]
    fn a_word_behind_the_end_is_refused() {
        let space = DmaSpace::new(PAGE_BYTES);
        let region = space.register_whole(2).unwrap();
        region.area(0, 1).0.look(512);
    }
}
