//! Structures of the disk and of the metadata store, byte by byte: `docs/backing-format.md` is their
//! specification, and a test holds its tables to them.

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a sector, of disk and metadata store.
pub const SECTOR_BYTES: usize = 4096;

/// Bytes of a granule, in which chunks are addressed and padded.
pub const GRANULE_BYTES: usize = 512;

/// Sectors of data that one mapping sector knows of.
pub const GROUP_SECTORS: u64 = 256;

/// Version of the format.
pub const VERSION: u32 = 1;

/// Begins a superblock.
pub const SUPERBLOCK_MAGIC: [u8; 8] = *b"WHARFBCK";
/// Begins the owner's record.
pub const OWNER_MAGIC: [u8; 8] = *b"WHARFOWN";
/// Begins a zone.
pub const ZONE_MAGIC: [u8; 4] = *b"WZON";
/// Begins a chunk.
pub const CHUNK_MAGIC: [u8; 4] = *b"WCHK";
/// Ends a zone that is closed.
pub const SUMMARY_MAGIC: [u8; 4] = *b"WSUM";

/// The first sectors of the disk: one copy of the superblock in each.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Superblock {
    pub magic: [u8; 8],
    pub version: U32,
    pub zone_sectors: U32,
    pub zones: U32,
    pub page_bytes: U32,
    pub epoch: U64,
    pub pages: U64,
    pub disk_id: [u8; 16],
    pub cache_id: [u8; 16],
    pub reserved: U32,
    pub crc: U32,
}

/// Sector 0 of the metadata store.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Owner {
    pub magic: [u8; 8],
    pub epoch: U64,
    pub disk_id: [u8; 16],
    pub cache_id: [u8; 16],
    pub reserved: U32,
    pub crc: U32,
}

/// The first sector of a zone that is in use.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ZoneHeader {
    pub magic: [u8; 4],
    pub zone: U32,
    pub first_seq: U64,
    pub disk_id: [u8; 16],
    pub reserved: U32,
    pub crc: U32,
}

/// What a chunk says of itself; its payload follows.
#[derive(
    Debug, Clone, Copy, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ChunkHeader {
    pub magic: [u8; 4],
    pub seq: U64,
    pub lba: U64,
    pub bytes: U32,
    pub sectors: U16,
    pub codec: u8,
    pub reserved: u8,
    pub crc: U32,
}

/// A chunk in the summary of its zone.
#[derive(
    Debug, Clone, Copy, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SummaryEntry {
    pub seq: U64,
    pub lba: U64,
    pub granule: U32,
    pub bytes: U32,
    pub sectors: U16,
    pub codec: u8,
    pub reserved: [u8; 5],
}

/// The last bytes of a zone that is closed; the entries end where its sectors begin to be needed.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SummaryFooter {
    pub magic: [u8; 4],
    pub zone: U32,
    pub first_seq: U64,
    pub entries: U32,
    pub reserved: U64,
    pub crc: U32,
}

/// A row of a mapping sector.
#[derive(
    Debug, Clone, Copy, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct RowBytes {
    pub first: u8,
    pub count_less_1: u8,
    pub chunk_first: u8,
    pub chunk_sectors_less_1: u8,
    pub granule: [u8; 6],
    pub bytes: [u8; 3],
    pub check: [u8; 3],
}

const _: () = assert!(size_of::<Superblock>() == 80 && size_of::<Owner>() == 56);
const _: () = assert!(size_of::<ZoneHeader>() == 40 && size_of::<ChunkHeader>() == 32);
const _: () = assert!(size_of::<SummaryEntry>() == 32 && size_of::<SummaryFooter>() == 32);
const _: () = assert!(size_of::<RowBytes>() * GROUP_SECTORS as usize == SECTOR_BYTES);

/// A structure whose last four bytes are the CRC32C of all before them.
pub trait Checked: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned + Sized {
    /// Sets the CRC.
    #[must_use]
    fn sealed(mut self) -> Self {
        let end = size_of::<Self>() - 4;
        let crc = crc_fast::crc32_iscsi(&self.as_bytes()[..end]);
        self.as_mut_bytes()[end..].copy_from_slice(&crc.to_le_bytes());
        self
    }

    /// The structure at the beginning of `bytes`, if its CRC fits.
    fn opened(bytes: &[u8]) -> Option<Self> {
        let (found, _) = Self::read_from_prefix(bytes).ok()?;
        let end = size_of::<Self>() - 4;
        let crc = crc_fast::crc32_iscsi(&found.as_bytes()[..end]);
        (found.as_bytes()[end..] == crc.to_le_bytes()).then_some(found)
    }

    /// As a sector of its own.
    fn sector(self) -> Vec<u8> {
        let mut sector = vec![0; SECTOR_BYTES];
        let sealed = self.sealed();
        sector[..size_of::<Self>()].copy_from_slice(sealed.as_bytes());
        sector
    }
}

impl Checked for Superblock {}
impl Checked for Owner {}
impl Checked for ZoneHeader {}

impl ChunkHeader {
    /// A chunk's header, with the CRC of itself and its payload.
    pub fn new(seq: u64, lba: u64, sectors: u32, codec: u8, payload: &[u8]) -> ChunkHeader {
        let mut header = ChunkHeader {
            magic: CHUNK_MAGIC,
            seq: seq.into(),
            lba: lba.into(),
            bytes: (payload.len() as u32).into(),
            sectors: (sectors as u16).into(),
            codec,
            reserved: 0,
            crc: 0.into(),
        };
        header.crc = header.checksum(payload).into();
        header
    }

    fn checksum(&self, payload: &[u8]) -> u32 {
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        digest.update(&self.as_bytes()[..size_of::<ChunkHeader>() - 4]);
        digest.update(payload);
        digest.finalize() as u32
    }

    /// Whether the CRC is that of header and payload.
    pub fn is_whole(&self, payload: &[u8]) -> bool {
        self.crc.get() == self.checksum(payload)
    }

    /// Whether it can be a chunk's header at all.
    pub fn is_plausible(&self) -> bool {
        let sectors = u64::from(self.sectors.get());
        self.magic == CHUNK_MAGIC
            && (1..=GROUP_SECTORS).contains(&sectors)
            && u64::from(self.bytes.get()) <= sectors * SECTOR_BYTES as u64
            && self.lba.get() % GROUP_SECTORS + sectors <= GROUP_SECTORS
    }
}

/// Granules that a chunk with `bytes` bytes of payload takes.
pub fn granules_of(bytes: u32) -> u64 {
    (size_of::<ChunkHeader>() + bytes as usize).div_ceil(GRANULE_BYTES) as u64
}
