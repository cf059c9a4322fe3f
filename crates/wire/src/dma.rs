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
//!
//! A *guest* is a host in another process. All that it may name is one region, of memory that it shares
//! with the owner; it calls it region 1. Addresses that come from a guest carry its number in their
//! upper 12 bits ([`of_guest`]), also those in lists that it has written: so they find that region or
//! nothing.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock};

use wharf_runtime::Holder;

use crate::host_memory::{FrameTable, frame_table_pages};
use crate::memory::{MemoryError, SharedMemory};
use crate::queue::DriveQueue;

/// Bytes of a logical block, and the step of DMA addresses from page to page.
pub const PAGE_BYTES: usize = 4096;

/// Bytes of a page in a region of stamps.
pub const STAMP_BYTES: usize = 8;

/// Regions of a space: one for the frames and one for the lists of each of 1,000 clients.
const REGIONS_MAX: usize = 2048;

/// Position of the region number in an address: a region holds up to 1 TiB.
const REGION_SHIFT: u32 = 40;

/// Position of the guest's number, from 1, in an address that comes from a guest.
const GUEST_SHIFT: u32 = 52;

/// The only region that a guest knows.
const GUEST_REGION: u64 = 1;

/// The address that guest number `guest` means by `address`; one at which there is nothing if it is not
/// an address.
#[inline]
pub fn of_guest(guest: u32, address: u64) -> u64 {
    let within = match address >> GUEST_SHIFT {
        0 => address,
        _ => address % PAGE_BYTES as u64,
    };
    u64::from(guest + 1) << GUEST_SHIFT | within
}

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
    /// The system refused memory to share.
    #[error(transparent)]
    Shared(#[from] MemoryError),
    /// Memory of another process that is used up.
    #[error(
        "the memory of this client in the store's process holds {pages} pages less than needed"
    )]
    Short {
        /// Pages that are missing.
        pages: usize,
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

/// What keeps a region's memory.
enum Keeper {
    Private { _mapping: Mapping },
    Shared(Arc<SharedMemory>),
}

struct RegionMemory {
    start: NonNull<u8>,
    pages: usize,
    stride: usize,
    keeper: Keeper,
}

// SAFETY: plain memory that the keeper keeps valid; see `Mapping`.
unsafe impl Send for RegionMemory {}
// SAFETY: as above.
unsafe impl Sync for RegionMemory {}

impl RegionMemory {
    #[inline(always)]
    fn pointer(&self, page: usize) -> *mut u8 {
        assert!(
            page < self.pages,
            "page {page} of a region of {} pages",
            self.pages
        );
        // SAFETY: `page` is below `pages`, so the offset lies inside the mapping.
        unsafe { self.start.as_ptr().add(page * self.stride) }
    }

    fn private(pages: usize, stride: usize) -> Result<RegionMemory, RegisterError> {
        let mapping = Mapping::new((pages * stride).max(1))?;
        Ok(RegionMemory {
            start: mapping.start,
            pages,
            stride,
            keeper: Keeper::Private { _mapping: mapping },
        })
    }

    /// Pages of shared memory, from byte `offset` of it on.
    fn shared(
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

/// Where a space's regions come from.
enum Source {
    /// Memory of this process.
    Private,
    /// Memory that other processes can be given.
    Shareable,
    /// A guest's: all of them are parts of one region of the owner's, from a byte of its memory on.
    Within {
        memory: Arc<SharedMemory>,
        offset: usize,
        pages: usize,
    },
}

/// All host memory that one drive can reach, and the queues offered to it.
///
/// It stands for the bus: what the two halves share besides the entries on the queues.
pub struct DmaSpace {
    regions: Box<[OnceLock<Arc<RegionMemory>>]>,
    /// Regions of guests, by their number.
    guests: Box<[OnceLock<Arc<RegionMemory>>]>,
    source: Source,
    /// Regions made; in a guest, pages given to regions.
    next: Mutex<usize>,
    /// Queue memory that a create command may name by its address.
    offered: Mutex<Vec<(u64, DriveQueue)>>,
    page_bytes: usize,
}

impl DmaSpace {
    /// An empty space in which a page of data has `page_bytes` bytes: 4096, or 8 for stamps.
    pub fn new(page_bytes: usize) -> Arc<DmaSpace> {
        DmaSpace::of(Source::Private, page_bytes)
    }

    /// As [`DmaSpace::new`], of regions that other processes can be given.
    pub fn shareable(page_bytes: usize) -> Arc<DmaSpace> {
        DmaSpace::of(Source::Shareable, page_bytes)
    }

    /// A guest's space: `pages` pages of 4096 bytes in `memory`, from byte `offset` on, which the
    /// owner's space [admits](DmaSpace::admit).
    pub fn within(memory: &Arc<SharedMemory>, offset: usize, pages: usize) -> Arc<DmaSpace> {
        let memory = memory.clone();
        let source = Source::Within {
            memory,
            offset,
            pages,
        };
        DmaSpace::of(source, PAGE_BYTES)
    }

    fn of(source: Source, page_bytes: usize) -> Arc<DmaSpace> {
        assert!(
            page_bytes == PAGE_BYTES || page_bytes == STAMP_BYTES,
            "a page is 4096 or 8 bytes"
        );
        Arc::new(DmaSpace {
            regions: (0..REGIONS_MAX).map(|_| OnceLock::new()).collect(),
            guests: (0..Holder::GUESTS_MAX).map(|_| OnceLock::new()).collect(),
            source,
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
        if let Source::Within { memory, offset, .. } = &self.source {
            let first = self.carve(&mut next, pages, stride)?;
            let offset = offset + first * PAGE_BYTES;
            return Ok(DmaRegion {
                memory: Arc::new(RegionMemory::shared(memory, offset, pages, stride)),
                base: (GUEST_REGION << REGION_SHIFT) + (first * PAGE_BYTES) as u64,
            });
        }
        let index = *next;
        if index >= REGIONS_MAX || pages * PAGE_BYTES > 1 << REGION_SHIFT {
            return Err(RegisterError::TooManyRegions);
        }
        let memory = Arc::new(match &self.source {
            Source::Shareable => {
                let bytes = (pages * stride).max(1).next_multiple_of(PAGE_BYTES);
                let shared = Arc::new(SharedMemory::create(bytes)?);
                RegionMemory::shared(&shared, 0, pages, stride)
            }
            _ => RegionMemory::private(pages, stride)?,
        });
        let _ = self.regions[index].set(memory.clone());
        *next += 1;
        Ok(DmaRegion {
            memory,
            base: (index as u64 + 1) << REGION_SHIFT,
        })
    }

    /// Gives `pages` of a guest's pages to a region; gives the first.
    fn carve(
        &self,
        next: &mut usize,
        wanted: usize,
        stride: usize,
    ) -> Result<usize, RegisterError> {
        assert!(stride == PAGE_BYTES, "guests have pages of 4096 bytes");
        let Source::Within { pages, .. } = &self.source else {
            unreachable!("only a guest's memory is divided");
        };
        let first = *next;
        let missing = (first + wanted).saturating_sub(*pages);
        if missing > 0 {
            return Err(RegisterError::Short { pages: missing });
        }
        *next += wanted;
        Ok(first)
    }

    /// Lets guest number `guest` name `pages` pages of 4096 bytes in `memory`, from byte `offset` on.
    ///
    /// # Panics
    /// If it has been given memory before.
    pub fn admit(&self, guest: u32, memory: &Arc<SharedMemory>, offset: usize, pages: usize) {
        let region = RegionMemory::shared(memory, offset, pages, PAGE_BYTES);
        let given = self.guests[guest as usize].set(Arc::new(region));
        assert!(given.is_ok(), "a guest has one region");
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
            _ => self.resolve_of_guest(address),
        }
    }

    #[cold]
    fn resolve_of_guest(&self, address: u64) -> Result<(&Arc<RegionMemory>, usize), DmaFault> {
        let guest = (address >> GUEST_SHIFT).wrapping_sub(1) as usize;
        let memory = self.guests.get(guest).and_then(OnceLock::get);
        let within = address & ((1 << GUEST_SHIFT) - 1);
        let offset = (within & ((1 << REGION_SHIFT) - 1)) as usize;
        match memory {
            Some(memory)
                if within >> REGION_SHIFT == GUEST_REGION && offset / PAGE_BYTES < memory.pages =>
            {
                Ok((memory, offset))
            }
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

    /// The entry of a PRP list at `address`: an address of whoever wrote the list.
    ///
    /// # Errors
    /// As [`DmaSpace::read_u64`].
    #[inline]
    pub fn read_prp(&self, address: u64) -> Result<u64, DmaFault> {
        let entry = self.read_u64(address)?;
        Ok(match (address >> GUEST_SHIFT) as u32 {
            0 => entry,
            guest => of_guest(guest - 1, entry),
        })
    }

    /// The 64-bit word at `address` in a region of whole pages.
    #[inline]
    pub fn read_u64(&self, address: u64) -> Result<u64, DmaFault> {
        let (memory, offset) = self.resolve(address)?;
        if memory.stride != PAGE_BYTES || !offset.is_multiple_of(8) {
            return Err(DmaFault(address));
        }
        let start = memory.pointer(offset / PAGE_BYTES);
        // SAFETY: an aligned word inside the mapping. List pages are written by the host before
        // the doorbell of the command that names them, and not again before its completion. Volatile:
        // a guest may not keep to that, and what is checked must be what is used.
        Ok(unsafe { start.add(offset % PAGE_BYTES).cast::<u64>().read_volatile() })
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
        match &self.memory.keeper {
            Keeper::Shared(memory) => Some(memory),
            Keeper::Private { .. } => None,
        }
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

    #[test]
    fn a_guest_names_its_own_region_and_nothing_else() {
        let space = DmaSpace::shareable(PAGE_BYTES);
        let owned = space.register(2).unwrap();
        let memory = Arc::new(SharedMemory::create(3 * PAGE_BYTES).unwrap());
        space.admit(5, &memory, PAGE_BYTES, 2);
        let guest = DmaSpace::within(&memory, PAGE_BYTES, 2);
        let (first, second) = (guest.register_whole(1).unwrap(), guest.register(1).unwrap());
        assert!(matches!(
            guest.register_whole(3),
            Err(RegisterError::Short { pages: 3 })
        ));
        // SAFETY: no command is in flight and one reference is alive at a time.
        unsafe { second.page_mut(0) }.fill(9);
        let named = of_guest(5, second.address(0));
        // SAFETY: as above.
        assert_eq!(unsafe { space.page_mut(named) }.unwrap(), [9; PAGE_BYTES]);
        let end = second.address(0) + PAGE_BYTES as u64;
        for address in [
            0,
            owned.address(0) + (1 << REGION_SHIFT),
            end,
            u64::MAX,
            6 << GUEST_SHIFT,
        ] {
            assert!(
                space.page_pointer(of_guest(5, address)).is_err(),
                "{address:#x}"
            );
        }
        assert!(space.page_pointer(of_guest(4, second.address(0))).is_err());
        // What a guest's list names is the guest's.
        let list = first.page_pointer(0).cast::<u64>();
        // SAFETY: the page of a region of whole pages, which nobody uses.
        unsafe { list.write(second.address(0)) };
        assert_eq!(space.read_prp(of_guest(5, first.address(0))), Ok(named));
        assert_eq!(
            space.read_u64(of_guest(5, first.address(0))),
            Ok(second.address(0))
        );
    }
}
