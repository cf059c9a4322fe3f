//! A region: one allocation of pages, and the host's hold on it.

use std::ptr::NonNull;
use std::sync::Arc;

use super::{PAGE_BYTES, RegisterError};
use crate::host_memory::{FrameTable, frame_table_pages};
use crate::memory::SharedMemory;

/// An anonymous mapping that starts as zeros.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is plain memory, valid on every thread until it is dropped.
unsafe impl Send for Mapping {}
// SAFETY: as above; who may touch which page is the protocol's rule (see the parent module).
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(bytes: usize) -> Result<Mapping, RegisterError> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the system's choice overlaps nothing.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, flags) }.map_err(
            |error| RegisterError::OutOfMemory {
                bytes,
                source: error.into(),
            },
        )?;
        // SAFETY: the range is the mapping just made. Huge pages are a wish: a refusal is no error.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxHugepage) };
        let start = NonNull::new(start.cast()).expect("a mapping is not at address 0");
        Ok(Mapping { start, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped in `new`, and nothing can refer to it any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// What keeps a region's memory.
enum Keeper {
    Private { _mapping: Mapping },
    Shared(Arc<SharedMemory>),
}

/// Pages in memory.
pub(super) struct RegionMemory {
    start: NonNull<u8>,
    pub(super) pages: usize,
    pub(super) stride: usize,
    keeper: Keeper,
}

// SAFETY: plain memory that the keeper keeps valid; see `Mapping`.
unsafe impl Send for RegionMemory {}
// SAFETY: as above.
unsafe impl Sync for RegionMemory {}

impl RegionMemory {
    #[inline(always)]
    pub(super) fn pointer(&self, page: usize) -> *mut u8 {
        assert!(
            page < self.pages,
            "page {page} of a region of {} pages",
            self.pages
        );
        // SAFETY: `page` is below `pages`, so the offset lies inside the mapping.
        unsafe { self.start.as_ptr().add(page * self.stride) }
    }

    pub(super) fn private(pages: usize, stride: usize) -> Result<RegionMemory, RegisterError> {
        let mapping = Mapping::new((pages * stride).max(1))?;
        Ok(RegionMemory {
            start: mapping.start,
            pages,
            stride,
            keeper: Keeper::Private { _mapping: mapping },
        })
    }

    /// The memory, if other processes can be given it.
    #[inline]
    pub(super) fn shared_memory(&self) -> Option<&Arc<SharedMemory>> {
        match &self.keeper {
            Keeper::Shared(memory) => Some(memory),
            Keeper::Private { .. } => None,
        }
    }

    /// Pages of shared memory, from byte `offset` of it on.
    pub(super) fn shared(
        memory: &Arc<SharedMemory>,
        offset: usize,
        pages: usize,
        stride: usize,
    ) -> RegionMemory {
        RegionMemory {
            start: memory.at(offset, pages * stride),
            pages,
            stride,
            keeper: Keeper::Shared(memory.clone()),
        }
    }
}

/// The host's hold on one region.
pub struct DmaRegion {
    pub(super) memory: Arc<RegionMemory>,
    /// The address of its first page.
    pub(super) base: u64,
}

impl DmaRegion {
    /// `pages` pages of 4096 bytes, or of `stride` bytes, of memory that another process has registered.
    /// It has no addresses here: only the owner's drive knows it by such.
    pub fn of_owner(memory: &Arc<SharedMemory>, pages: usize, stride: usize) -> DmaRegion {
        DmaRegion {
            memory: Arc::new(RegionMemory::shared(memory, 0, pages, stride)),
            base: 0,
        }
    }

    /// The memory, if other processes can be given it.
    pub fn shared(&self) -> Option<&Arc<SharedMemory>> {
        self.memory.shared_memory()
    }

    /// Number of pages.
    pub fn pages(&self) -> usize {
        self.memory.pages
    }

    /// Bytes of a page as stored: 4096, or 8 for stamps.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.memory.stride
    }

    /// The address of a page, for a command to name.
    #[inline]
    pub fn address(&self, page: usize) -> u64 {
        debug_assert!(page < self.memory.pages);
        self.base + (page * PAGE_BYTES) as u64
    }

    /// A page's bytes.
    ///
    /// # Safety
    /// No command in flight names the page, and no other reference to it is alive.
    #[inline]
    #[allow(clippy::mut_from_ref)] // pages are hmb one by one; see the contract
    pub unsafe fn page_mut(&self, page: usize) -> &mut [u8] {
        let start = self.memory.pointer(page);
        // SAFETY: inside the mapping; exclusive by the caller's contract.
        unsafe { std::slice::from_raw_parts_mut(start, self.memory.stride) }
    }

    /// A page's bytes, to read.
    ///
    /// # Safety
    /// No command in flight names the page as its target, and nobody writes to it while the reference is
    /// alive. Commands may read it.
    #[inline]
    pub unsafe fn page_ref(&self, page: usize) -> &[u8] {
        let start = self.memory.pointer(page);
        // SAFETY: inside the mapping; not written by the caller's contract.
        unsafe { std::slice::from_raw_parts(start, self.memory.stride) }
    }

    /// The region, one of whole pages, as a frame table for `frames` frames.
    ///
    /// # Panics
    /// If it is too small, or not of whole pages.
    pub fn frame_table(&self, frames: usize) -> FrameTable {
        assert!(
            self.memory.stride == PAGE_BYTES && frame_table_pages(frames) <= self.memory.pages,
            "a table for {frames} frames needs more whole pages"
        );
        let start = NonNull::new(self.memory.pointer(0)).expect("a mapping is not at address 0");
        // SAFETY: inside the mapping, which the view keeps and which began as zeros; the owner of
        // the region uses it for nothing else.
        unsafe { FrameTable::new(start, frames, self.memory.clone()) }
    }

    /// A pointer to a page, for whoever keeps track of its users elsewhere.
    #[inline(always)]
    pub fn page_pointer(&self, page: usize) -> *mut u8 {
        self.memory.pointer(page)
    }
}
