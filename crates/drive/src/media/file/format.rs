//! What an image file looks like: its structures, and where each of them lies.
//!
//! `docs/media-format.md` is the specification; a test compares its tables with this file. All
//! integers are little-endian. Every structure ends in a CRC32C of what is before it, and none
//! crosses a 512-byte sector, so that a crash cannot tear it.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::media::packed::unit::{EXTENTS_PER_PAGE, directory_room};
use crate::media::{CoreGeometry, GeometryError, STAMP_BYTES};

/// The first bytes of every image.
pub const MAGIC: [u8; 8] = *b"WHARFIMG";
/// The version of images of pages.
pub const VERSION_PAGES: u32 = 1;
/// The version of images of units, and the last that this code reads.
pub const VERSION: u32 = 2;
/// Bytes that the header takes, and the alignment of all large parts.
pub const ALIGN: u64 = 4096;
/// Where a core's page holds its sync record.
pub const SYNC_AT: u64 = 0;
/// Where a core's page holds the headers of its two log slots.
pub const SLOT_AT: [u64; 2] = [1024, 2048];

/// The shape of a whole image: some cores of one geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageGeometry {
    /// Firmware cores; each has a region of its own.
    pub cores: u32,
    /// The flash of each.
    pub core: CoreGeometry,
}

/// The start of the file.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    pub magic: [u8; 8],
    pub version: U32,
    pub cores: U32,
    pub blocks: U32,
    pub pages_per_block: U32,
    pub page_bytes: U32,
    pub unit_pages: U32,
    pub log_bytes: U64,
    pub id: [u8; 16],
    pub file_bytes: U64,
    pub reserved_2: U32,
    pub crc: U32,
}

/// Which of a core's programs are known to have reached stable storage.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SyncRecord {
    /// Pages of this sync period and all before it are complete.
    pub synced_period: U32,
    pub reserved: U32,
    pub core: U32,
    pub crc: U32,
}

/// Which generation of the log a slot holds. All zero: none.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SlotHeader {
    /// The slot with the greater generation is the log.
    pub generation: U64,
    /// Bytes of the records that a replacement put there at once.
    pub base_bytes: U64,
    pub core: U32,
    pub slot: U32,
    pub reserved: U32,
    pub crc: U32,
}

/// Before each record of the log.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RecordHeader {
    pub len: U32,
    /// Of the `crc` of the record before or of the slot's header, the length, and the bytes without
    /// padding.
    pub crc: U32,
}

/// The wear of a block. All zero: never erased.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockRecord {
    pub erase_count: U32,
    pub core: U32,
    pub block: U32,
    pub crc: U32,
}

/// The out-of-band area of a page. All zero: erased.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PageEntry {
    pub seq: U64,
    pub lpn: U32,
    /// The block's erase count at the program; an entry of an earlier life is void.
    pub epoch: U32,
    pub data_crc: U32,
    pub ppn: U32,
    /// Syncs with programs before them that the core had made at the program, from 1.
    pub sync_period: U32,
    pub crc: U32,
}

/// A structure that ends in a CRC32C of what is before it.
pub trait Sealed: FromBytes + IntoBytes + Immutable + Copy {
    /// Writes the checksum.
    fn sealed(mut self) -> Self {
        let crc = crc_of(&self);
        let at = size_of::<Self>() - 4;
        self.as_mut_bytes()[at..].copy_from_slice(&crc.to_le_bytes());
        self
    }

    /// Whether the checksum fits.
    fn is_sound(&self) -> bool {
        self.as_bytes()[size_of::<Self>() - 4..] == crc_of(self).to_le_bytes()
    }

    /// Whether nothing was ever written here.
    fn is_blank(&self) -> bool {
        self.as_bytes().iter().all(|&byte| byte == 0)
    }
}

fn crc_of(structure: &impl Sealed) -> u32 {
    let bytes = structure.as_bytes();
    crc_fast::crc32_iscsi(&bytes[..bytes.len() - 4])
}

impl Sealed for Header {}
impl Sealed for SyncRecord {}
impl Sealed for SlotHeader {}
impl Sealed for BlockRecord {}
impl Sealed for PageEntry {}

const _: () = assert!(
    size_of::<Header>() == 72
        && size_of::<SyncRecord>() == 16
        && size_of::<SlotHeader>() == 32
        && size_of::<RecordHeader>() == 8
        && size_of::<BlockRecord>() == 16
        && size_of::<PageEntry>() == 32
);

/// The version of an image of this shape.
fn version_of(core: &CoreGeometry) -> u32 {
    match core.unit_pages {
        0 => VERSION_PAGES,
        _ => VERSION,
    }
}

impl Header {
    /// Whether its version has such a shape.
    pub fn fits_version(&self) -> bool {
        self.version == version_of(&self.geometry().core)
    }

    /// The header of an image of this shape.
    pub fn new(geometry: &ImageGeometry, id: [u8; 16], file_bytes: u64) -> Self {
        let core = &geometry.core;
        let mut header = Self::new_zeroed();
        header.magic = MAGIC;
        header.version = version_of(core).into();
        header.cores = geometry.cores.into();
        header.blocks = core.blocks.into();
        header.pages_per_block = core.pages_per_block.into();
        header.page_bytes = core.page_bytes.into();
        header.unit_pages = core.unit_pages.into();
        header.log_bytes = core.log_bytes.into();
        header.id = id;
        header.file_bytes = file_bytes.into();
        header.sealed()
    }

    /// The shape that the header tells of.
    pub fn geometry(&self) -> ImageGeometry {
        ImageGeometry {
            cores: self.cores.get(),
            core: CoreGeometry {
                blocks: self.blocks.get(),
                pages_per_block: self.pages_per_block.get(),
                page_bytes: self.page_bytes.get(),
                unit_pages: self.unit_pages.get(),
                log_bytes: self.log_bytes.get(),
            },
        }
    }
}

/// Where the parts of one core's region lie, as offsets in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The core's page: sync record and slot headers.
    pub core_page: u64,
    /// The block records.
    pub block_records: u64,
    /// The out-of-band areas of all pages, by page number, or the directories of all units.
    pub entries: u64,
    /// The data of all pages, by page number.
    pub data: u64,
    /// The two slots of the log.
    pub slots: [u64; 2],
    /// The end of the region: where the next core's begins.
    pub end: u64,
}

impl Layout {
    /// The region of core `core`, or an error where no file is large enough for all cores.
    pub fn new(geometry: &ImageGeometry, core: u32) -> Result<Self, GeometryError> {
        let shape = &geometry.core;
        let pages = u128::from(shape.blocks) * u128::from(shape.pages_per_block);
        let (entries, data) = match (shape.unit_pages, shape.page_bytes) {
            (0, page_bytes) => (pages * size_of::<PageEntry>() as u128, page_bytes),
            (unit_pages, page_bytes) => {
                let units = pages / u128::from(unit_pages);
                let room = u128::from(directory_room(unit_pages));
                // Each extent has room for its stamp.
                let stamps = EXTENTS_PER_PAGE * STAMP_BYTES;
                let is_stamps = page_bytes == STAMP_BYTES;
                (units * room, if is_stamps { stamps } else { page_bytes })
            }
        };
        let parts = [
            u128::from(ALIGN),
            u128::from(shape.blocks) * size_of::<BlockRecord>() as u128,
            entries,
            pages * u128::from(data),
            u128::from(shape.log_bytes),
            u128::from(shape.log_bytes),
        ]
        .map(|bytes| bytes.next_multiple_of(u128::from(ALIGN)));
        let region: u128 = parts.iter().sum();
        let file_bytes = u128::from(ALIGN) + region * u128::from(geometry.cores);
        if file_bytes > i64::MAX as u128 {
            return Err(GeometryError::TooLarge {
                cores: geometry.cores,
            });
        }
        let mut at = u128::from(ALIGN) + region * u128::from(core);
        let [core_page, block_records, entries, data, slot_a, slot_b] = parts.map(|bytes| {
            let start = at;
            at += bytes;
            start as u64
        });
        let slots = [slot_a, slot_b];
        Ok(Self {
            core_page,
            block_records,
            entries,
            data,
            slots,
            end: at as u64,
        })
    }
}

impl ImageGeometry {
    /// Refuses a shape that cannot be addressed or does not fit a file.
    pub fn check(&self) -> Result<(), GeometryError> {
        if self.cores == 0 {
            return Err(GeometryError::Zero { what: "cores" });
        }
        self.core.check()?;
        self.file_bytes().map(drop)
    }

    /// Bytes of an image of this shape; most of them are holes.
    pub fn file_bytes(&self) -> Result<u64, GeometryError> {
        Ok(Layout::new(self, self.cores - 1)?.end)
    }
}
