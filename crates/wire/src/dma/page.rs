//! A page of the host's, as the drive uses it.
//!
//! Problem: the drive copies out of a page while threads of the host read it, two drives copy out of the
//! same page, and a frame of the host memory buffer is copied while another process writes to it. A reference to such
//! bytes would promise what is not so.
//!
//! Idea: bytes are copied, by pointer. One way gives a reference ([`HostPage::bytes_mut`]), for pages that
//! nobody else looks at: the target of a read, a frame whose address nobody has.

use std::marker::PhantomData;

use super::region::RegionMemory;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct HostPage<'a> {
    start: *mut u8,
    bytes: usize,
    is_shared: bool,
    memory: PhantomData<&'a ()>,
}

impl<'a> HostPage<'a> {
    #[inline]
    pub(super) fn new(memory: &'a RegionMemory, page: usize) -> HostPage<'a> {
        HostPage {
            start: memory.pointer(page),
            bytes: memory.stride,
            is_shared: memory.shared_memory().is_some(),
            memory: PhantomData,
        }
    }

    /// Bytes of the page.
    #[inline]
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// Whether it is in memory that other processes can be given: they may write to it at any time.
    #[inline]
    pub fn is_shared(self) -> bool {
        self.is_shared
    }

    /// Where it is, for whoever keeps track of its users.
    #[inline]
    pub fn pointer(self) -> *mut u8 {
        self.start
    }

    /// Copies the page to `out`.
    ///
    /// # Safety
    /// Nobody in this process writes to the page meanwhile, or the copy is thrown away: a command in
    /// flight names the page as its source, or its word is looked at before and after. `out` is no part
    /// of host memory.
    ///
    /// # Panics
    /// If `out` is not a page.
    #[inline]
    pub unsafe fn copy_out(self, out: &mut [u8]) {
        assert!(out.len() == self.bytes, "a page of {} bytes", self.bytes);
        // SAFETY: a whole page of the region; the rest is the caller's contract.
        unsafe {
            self.start
                .copy_to_nonoverlapping(out.as_mut_ptr(), out.len());
        }
    }

    /// Copies `data` to the page.
    ///
    /// # Safety
    /// Nobody else in this process writes to the page meanwhile, and who reads it throws away what it read:
    /// a command in flight names the page as its target, or the caller has its word. `data` is no part of
    /// host memory.
    ///
    /// # Panics
    /// If `data` is not a page.
    #[inline]
    pub unsafe fn copy_in(self, data: &[u8]) {
        assert!(data.len() == self.bytes, "a page of {} bytes", self.bytes);
        // SAFETY: as in `copy_out`.
        unsafe {
            self.start
                .copy_from_nonoverlapping(data.as_ptr(), data.len());
        }
    }

    /// Copies another page, or the same, to the page.
    ///
    /// # Safety
    /// As for [`HostPage::copy_in`], and for [`HostPage::copy_out`] of `from`.
    ///
    /// # Panics
    /// If the pages are of unequal size.
    #[inline]
    pub unsafe fn copy_from(self, from: HostPage<'_>) {
        assert!(from.bytes == self.bytes, "pages are of one size");
        // SAFETY: whole pages of regions; the rest is the caller's contract.
        unsafe { self.start.copy_from(from.start, self.bytes) };
    }

    /// Makes the page all zeros.
    ///
    /// # Safety
    /// As for [`HostPage::copy_in`].
    #[inline]
    pub unsafe fn clear(self) {
        // SAFETY: a whole page of the region; the rest is the caller's contract.
        unsafe { self.start.write_bytes(0, self.bytes) };
    }

    /// The page itself.
    ///
    /// # Safety
    /// Nobody else reads or writes the page while the reference is alive, in no process: a command in
    /// flight names it as its target, or nobody has its address, and it is [not
    /// shared](HostPage::is_shared).
    #[inline]
    pub unsafe fn bytes_mut(self) -> &'a mut [u8] {
        // SAFETY: a whole page of the region, which outlives the reference; exclusive by the caller's
        // contract.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}
