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
//! pages to the host. The host may go on to read a page that a write names, and name it to two drives. That
//! is the protocol's rule, which Rust cannot see across the queue: hence the `unsafe` functions here, and
//! each use says why it has the right. The drive copies and makes no references ([`HostPage`]).
//!
//! A *guest* is a host in another process. All that it may name is one region, of memory that it shares
//! with the owner; it calls it region 1. Addresses that come from a guest carry its number in their
//! upper 12 bits ([`of_guest`]), also those in lists that it has written: so they find that region or
//! nothing.

mod access;
mod area;
mod page;
mod region;
#[cfg(test)]
mod tests;
mod word;

use std::sync::{Arc, Mutex, OnceLock};

use crate::memory::{MemoryError, SharedMemory};
use crate::queue::DriveQueue;
use crate::window::Window;
use region::RegionMemory;

pub use area::DmaArea;
pub use page::HostPage;
pub use region::DmaRegion;
pub use word::{DmaWord, PAGE_WORDS};

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

/// Guests that a space tells apart. Addresses have room for 2,047 of them beside the drive's own memory.
pub const GUESTS_MAX: u32 = 2_000;

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
    /// What the drive shows of its own memory.
    window: Mutex<Option<Arc<Window>>>,
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
        let guests = match source {
            Source::Within { .. } => 0,
            Source::Private | Source::Shareable => GUESTS_MAX,
        };
        Arc::new(DmaSpace {
            regions: (0..REGIONS_MAX).map(|_| OnceLock::new()).collect(),
            guests: (0..guests).map(|_| OnceLock::new()).collect(),
            source,
            next: Mutex::new(0),
            offered: Mutex::new(Vec::new()),
            window: Mutex::default(),
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

    /// A drive that was powered on has this window on its memory.
    pub fn set_window(&self, window: Arc<Window>) {
        *self.window.lock().expect("no holder panics") = Some(window);
    }

    /// The window on a drive's memory, of the drive that was powered on last, if any has one.
    pub fn window(&self) -> Option<Arc<Window>> {
        self.window.lock().expect("no holder panics").clone()
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
}
