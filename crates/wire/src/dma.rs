//! Host memory that a drive may reach: regions of pages, and addresses that name them.
//!
//! Problem: a command names host memory by address. The drive must move bytes there without the
//! host's types, must survive any address a broken host sends, and in stamp mode a page is 8
//! bytes, while all address arithmetic should stay that of 4 KiB pages.
//!
//! Idea: a region is one allocation of pages with a *stride*: 4096 bytes, or 8 for stamps. Its
//! addresses are those of 4 KiB pages either way: region number above bit 40, byte
//! offset below. The drive resolves an address through the [`DmaSpace`], the place of an IOMMU.
//!
//! Who may touch a page when: a page named by a command in flight belongs to the drive, all other
//! pages to the host. That is the protocol's rule, which Rust cannot see across the queue: hence
//! the two `unsafe` functions here, and each use says why it has the right.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock};

use crate::host_memory::{FrameTable, frame_table_pages};
use crate::queue::DriveQueue;

/// Bytes of a logical block, and the step of DMA addresses from page to page.
pub const PAGE_BYTES: usize = 4096;

/// Bytes of a page in a region of stamps.
pub const STAMP_BYTES: usize = 8;

/// Regions of a space: one for the frames and one for the lists of each of 1,000 clients.
const REGIONS_MAX: usize = 2048;

/// Position of the region number in an address: a region holds up to 1 TiB.
const REGION_SHIFT: u32 = 40;

/// An address at which there is no host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no host memory at DMA address {0:#x}")]
pub struct DmaFault(pub u64);

/// Memory that could not be had.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The system refused.
    #[error("cannot allocate {bytes} bytes of host memory: {source}; use a smaller cache")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// Too many regions.
    #[error("more than {REGIONS_MAX} DMA regions: use fewer clients")]
    TooManyRegions,
}

/// An anonymous mapping that starts as zeros.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is plain memory, valid on every thread until it is dropped.
unsafe impl Send for Mapping {}
// SAFETY: as above; who may touch which page is the protocol's rule (see the module).
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

struct RegionMemory {
    mapping: Mapping,
    pages: usize,
    stride: usize,
}

impl RegionMemory {
    #[inline(always)]
    fn pointer(&self, page: usize) -> *mut u8 {
        assert!(
            page < self.pages,
            "page {page} of a region of {} pages",
            self.pages
        );
        // SAFETY: `page` is below `pages`, so the offset lies inside the mapping.
        unsafe { self.mapping.start.as_ptr().add(page * self.stride) }
    }
}

/// All host memory that one drive can reach, and the queues offered to it.
///
/// It stands for the bus: what the two halves share besides the entries on the queues.
pub struct DmaSpace {
    regions: Box<[OnceLock<Arc<RegionMemory>>]>,
    next: Mutex<usize>,
    /// Queue memory that a create command may name by its address.
    offered: Mutex<Vec<(u64, DriveQueue)>>,
    page_bytes: usize,
}

impl DmaSpace {
    /// An empty space in which a page of data has `page_bytes` bytes: 4096, or 8 for stamps.
    pub fn new(page_bytes: usize) -> Arc<DmaSpace> {
        assert!(
            page_bytes == PAGE_BYTES || page_bytes == STAMP_BYTES,
            "a page is 4096 or 8 bytes"
        );
        Arc::new(DmaSpace {
            regions: (0..REGIONS_MAX).map(|_| OnceLock::new()).collect(),
            next: Mutex::new(0),
            offered: Mutex::new(Vec::new()),
            page_bytes,
        })
    }

    /// Bytes of a page of data.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Makes a region of `pages` pages of data, all zeros.
    pub fn register(self: &Arc<Self>, pages: usize) -> Result<DmaRegion, RegisterError> {
        self.register_stride(pages, self.page_bytes)
    }

    /// Makes a region of `pages` whole 4 KiB pages, whatever a page of data is: for PRP lists,
    /// identify data, log pages.
    pub fn register_whole(self: &Arc<Self>, pages: usize) -> Result<DmaRegion, RegisterError> {
        self.register_stride(pages, PAGE_BYTES)
    }

    fn register_stride(
        self: &Arc<Self>,
        pages: usize,
        stride: usize,
    ) -> Result<DmaRegion, RegisterError> {
        let mut next = self.next.lock().expect("no holder panics");
        let index = *next;
        if index >= REGIONS_MAX || pages * PAGE_BYTES > 1 << REGION_SHIFT {
            return Err(RegisterError::TooManyRegions);
        }
        let mapping = Mapping::new((pages * stride).max(1))?;
        let memory = Arc::new(RegionMemory {
            mapping,
            pages,
            stride,
        });
        let _ = self.regions[index].set(memory.clone());
        *next += 1;
        Ok(DmaRegion {
            memory,
            base: (index as u64 + 1) << REGION_SHIFT,
        })
    }

    /// Offers the drive's end of a queue pair at an address, for the create commands to name.
    pub fn offer(&self, address: u64, queue: DriveQueue) {
        self.offered
            .lock()
            .expect("no holder panics")
            .push((address, queue));
    }

    /// Takes the queue offered at `address`.
    pub fn take_offer(&self, address: u64) -> Option<DriveQueue> {
        let mut offered = self.offered.lock().expect("no holder panics");
        let index = offered.iter().position(|(at, _)| *at == address)?;
        Some(offered.swap_remove(index).1)
    }

    #[inline]
    fn resolve(&self, address: u64) -> Result<(&Arc<RegionMemory>, usize), DmaFault> {
        let region = (address >> REGION_SHIFT) as usize;
        let memory = self
            .regions
            .get(region.wrapping_sub(1))
            .and_then(OnceLock::get);
        let offset = (address & ((1 << REGION_SHIFT) - 1)) as usize;
        match memory {
            Some(memory) if offset / PAGE_BYTES < memory.pages => Ok((memory, offset)),
            _ => Err(DmaFault(address)),
        }
    }

    /// The page of data at `address`, for the drive to fill or to read.
    ///
    /// # Safety
    /// The page is named by a command in flight, and nobody else of the drive uses it meanwhile.
    #[inline]
    #[allow(clippy::mut_from_ref)] // the space hands out disjoint pages, as a bus does
    pub unsafe fn page_mut(&self, address: u64) -> Result<&mut [u8], DmaFault> {
        let (memory, offset) = self.resolve(address)?;
        if memory.stride != self.page_bytes || !offset.is_multiple_of(PAGE_BYTES) {
            return Err(DmaFault(address));
        }
        let start = memory.pointer(offset / PAGE_BYTES);
        // SAFETY: the page lies inside the mapping; exclusive by the caller's contract.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, memory.stride) })
    }

    /// A pointer to the page of data at `address`, for whoever shares it and keeps track of its users
    /// elsewhere.
    #[inline]
    pub fn page_pointer(&self, address: u64) -> Result<*mut u8, DmaFault> {
        let (memory, offset) = self.resolve(address)?;
        if memory.stride != self.page_bytes || !offset.is_multiple_of(PAGE_BYTES) {
            return Err(DmaFault(address));
        }
        Ok(memory.pointer(offset / PAGE_BYTES))
    }

    /// The frame table for `frames` frames at `address`, in a region of whole pages.
    ///
    /// # Errors
    /// If the table does not lie within one region.
    pub fn frame_table(&self, address: u64, frames: usize) -> Result<FrameTable, DmaFault> {
        let (memory, offset) = self.resolve(address)?;
        let first = offset / PAGE_BYTES;
        let fits = first + frame_table_pages(frames) <= memory.pages;
        if memory.stride != PAGE_BYTES || !offset.is_multiple_of(PAGE_BYTES) || !fits || frames == 0
        {
            return Err(DmaFault(address));
        }
        let start = NonNull::new(memory.pointer(first)).expect("a mapping is not at address 0");
        // SAFETY: the pages lie inside the region, which the view keeps; regions begin as zeros,
        // and the lender uses these pages for nothing else, as the command set asks.
        Ok(unsafe { FrameTable::new(start, frames, memory.clone()) })
    }

    /// Checks that `pages` pages of data lie at `address` and after it, in one region.
    ///
    /// # Errors
    /// The first address that does not.
    pub fn check_pages(&self, address: u64, pages: usize) -> Result<(), DmaFault> {
        let (memory, offset) = self.resolve(address)?;
        let first = offset / PAGE_BYTES;
        let is_data = memory.stride == self.page_bytes && offset.is_multiple_of(PAGE_BYTES);
        match is_data && first + pages <= memory.pages {
            true => Ok(()),
            false => Err(DmaFault(address)),
        }
    }

    /// Writes the 64-bit word at `address` in a region of whole pages.
    ///
    /// # Safety
    /// The word is in a page named by a command in flight, and nobody else writes the word meanwhile.
    #[inline]
    pub unsafe fn write_u64(&self, address: u64, value: u64) -> Result<(), DmaFault> {
        let (memory, offset) = self.resolve(address)?;
        if memory.stride != PAGE_BYTES || !offset.is_multiple_of(8) {
            return Err(DmaFault(address));
        }
        let start = memory.pointer(offset / PAGE_BYTES);
        // SAFETY: an aligned word inside the mapping; exclusive by the caller's contract.
        unsafe { start.add(offset % PAGE_BYTES).cast::<u64>().write(value) };
        Ok(())
    }

    /// The 64-bit word at `address` in a region of whole pages: an entry of a PRP list.
    #[inline]
    pub fn read_u64(&self, address: u64) -> Result<u64, DmaFault> {
        let (memory, offset) = self.resolve(address)?;
        if memory.stride != PAGE_BYTES || !offset.is_multiple_of(8) {
            return Err(DmaFault(address));
        }
        let start = memory.pointer(offset / PAGE_BYTES);
        // SAFETY: an aligned word inside the mapping. List pages are written by the host before
        // the doorbell of the command that names them, and not again before its completion.
        Ok(unsafe { start.add(offset % PAGE_BYTES).cast::<u64>().read() })
    }

    /// Copies `bytes` to `address` on, within one page of a region of whole pages.
    ///
    /// # Safety
    /// As for [`DmaSpace::page_mut`].
    pub unsafe fn write_bytes(&self, address: u64, bytes: &[u8]) -> Result<(), DmaFault> {
        let (memory, offset) = self.resolve(address)?;
        let within = offset % PAGE_BYTES;
        if memory.stride != PAGE_BYTES || within + bytes.len() > PAGE_BYTES {
            return Err(DmaFault(address));
        }
        let start = memory.pointer(offset / PAGE_BYTES);
        // SAFETY: inside one page of the mapping; exclusive by the caller's contract.
        unsafe {
            start
                .add(within)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
        Ok(())
    }

    /// Copies bytes from `address` on, within one page of a region of whole pages.
    ///
    /// # Safety
    /// As for [`DmaSpace::page_mut`].
    pub unsafe fn read_bytes(&self, address: u64, out: &mut [u8]) -> Result<(), DmaFault> {
        let (memory, offset) = self.resolve(address)?;
        let within = offset % PAGE_BYTES;
        if memory.stride != PAGE_BYTES || within + out.len() > PAGE_BYTES {
            return Err(DmaFault(address));
        }
        let start = memory.pointer(offset / PAGE_BYTES);
        // SAFETY: inside one page of the mapping; exclusive by the caller's contract.
        unsafe {
            start
                .add(within)
                .copy_to_nonoverlapping(out.as_mut_ptr(), out.len())
        };
        Ok(())
    }
}

/// The host's hold on one region.
pub struct DmaRegion {
    memory: Arc<RegionMemory>,
    base: u64,
}

impl DmaRegion {
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
    #[allow(clippy::mut_from_ref)] // pages are lent one by one; see the contract
    pub unsafe fn page_mut(&self, page: usize) -> &mut [u8] {
        let start = self.memory.pointer(page);
        // SAFETY: inside the mapping; exclusive by the caller's contract.
        unsafe { std::slice::from_raw_parts_mut(start, self.memory.stride) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_resolves_to_its_page_and_no_other() {
        let space = DmaSpace::new(STAMP_BYTES);
        let region = space.register(4).unwrap();
        for page in 0..4 {
            // SAFETY: no command is in flight and one reference is alive at a time.
            unsafe { region.page_mut(page) }.fill(page as u8 + 1);
        }
        for page in 0..4 {
            // SAFETY: as above.
            let bytes = unsafe { space.page_mut(region.address(page)) }.unwrap();
            assert_eq!(bytes, [page as u8 + 1; STAMP_BYTES]);
        }
    }

    #[test]
    fn a_wrong_address_is_a_fault() {
        let space = DmaSpace::new(PAGE_BYTES);
        let region = space.register(2).unwrap();
        let end = region.address(1) + PAGE_BYTES as u64;
        for address in [
            0,
            1,
            end,
            region.address(0) + 8,
            7 << REGION_SHIFT,
            u64::MAX,
        ] {
            // SAFETY: no reference to any page is alive.
            let page = unsafe { space.page_mut(address) };
            assert_eq!(page.err(), Some(DmaFault(address)));
        }
        assert!(space.read_u64(region.address(0) + 4).is_err());
        assert!(space.read_u64(region.address(0) + 8).is_ok());
    }
}
