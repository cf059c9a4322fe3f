//! What the design is told, and how the flash cache divides its drive.

use serde::{Deserialize, Serialize};
use wharf_codec::Codec;

use super::part::SECTORS;
use super::policy::ScanRules;
use crate::backing::{FixedConfig, SECTOR_BYTES};

/// The largest chunks that a zone has room for, at least.
const ZONE_CHUNKS: u32 = 10;

/// Sectors that are written to the disk together at most; no run crosses a multiple of it.
pub(super) const PIECE_SECTORS: u64 = 256;

/// How the disk behind the cache holds data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Store {
    /// Compressed in chunks of any size, appended to a log (Hao et al., section III-B).
    #[default]
    Chunks,
    /// Compressed in units of a fixed size, in place.
    Fixed,
    /// As it is, in place.
    Plain,
}

crate::settings! {
    /// What the flash caches are told.
    pub struct IndexlessConfig {
        /// Share of the cache that leaves at a time.
        pub round_share: f64 = 0.05, in 0.0001..=0.5;
        /// Heat of sectors that come into the cache.
        pub insert_heat: u8 = 1, in 0..=3;
        /// Clean sectors get cooler after a round if less than this share of the cache was clean
        /// and cold.
        pub clean_cold_share: f64 = 0.05, in 0.0..=1.0;
        /// As `clean_cold_share`, of dirty sectors.
        pub dirty_cold_share: f64 = 0.85, in 0.0..=1.0;
        /// Share of a round that clean sectors are taken for before dirty ones.
        pub clean_share: f64 = 1.0, in 0.0..=1.0;
        /// Share of the cache that an entry of the table of continuity stands for.
        pub entry_share: f64 = 0.0005, in 0.0..=1.0;
        /// Sectors of an entry, at least.
        pub entry_sectors_min: u64 = 64, in 1..=1_000_000;
        /// Whether a scan goes on where the one before ended.
        pub resumes: bool = true;
        /// Whether the rules are those of the paper, whatever else is said of the scan.
        pub by_the_paper: bool = false;
        /// Bytes of neighbours in its chunk that come into the cache with what was missed, at most.
        pub fill_neighbours_bytes: u64 = 0, in 0..=1 << 20;
        /// Bytes that are read in order from which on they are not brought into the cache; 0: all are.
        pub sequential_cutoff_bytes: u64 = 4 << 20;
        /// How the disk behind the cache holds data: `chunks`, `fixed` or `plain`.
        pub store: Store = Store::Chunks;
        /// Pages of a unit, where units are of a fixed size.
        pub unit_pages: u32 = 8, in 4..=32;
        /// Codec of chunks and units: `none`, `zlib`, `lz4` or `zstd`.
        pub codec: Codec = Codec::Zlib;
        /// Bytes of a zone of the disk; 0: 256 MiB, and less where the disk has not 16 of these.
        pub zone_bytes: u64 = 0, in 0..=1 << 32;
        /// Groups of 256 pages whose mapping is kept in memory.
        pub mapping_groups: u64 = 4096, in 16..=1 << 24;
        /// Pages of the chunks in which data lies on the disk that was there before a run.
        pub initial_chunk_pages: u32 = 32, in 1..=256;
    }
}

/// Zones that a disk has at least, where nobody says how large they are.
const ZONES_MIN: u64 = 16;

/// Bytes of a zone of a large disk.
const ZONE_BYTES: u64 = 256 << 20;

impl IndexlessConfig {
    /// Sectors of a zone on a disk of so many.
    pub(super) fn zone_sectors(&self, disk_sectors: u64) -> u32 {
        let bytes = match self.zone_bytes {
            0 => ZONE_BYTES.min(disk_sectors * SECTOR_BYTES as u64 / ZONES_MIN),
            bytes => bytes,
        };
        (bytes / SECTOR_BYTES as u64) as u32
    }

    /// Pages of the largest chunk, for zones of so many sectors.
    pub(super) fn chunk_pages_max(&self, zone_sectors: u32) -> u32 {
        (zone_sectors / ZONE_CHUNKS).clamp(1, PIECE_SECTORS as u32)
    }

    /// Sectors of a disk of so many that can be addressed.
    pub(super) fn addressable(&self, disk_sectors: u64) -> u64 {
        match self.store {
            Store::Chunks | Store::Plain => disk_sectors,
            Store::Fixed => FixedConfig {
                unit_pages: self.unit_pages,
            }
            .pages(disk_sectors),
        }
    }

    /// The rules of the scan.
    pub fn rules(&self) -> ScanRules {
        match self.by_the_paper {
            true => ScanRules::PAPER,
            false => ScanRules {
                entry_share: self.entry_share,
                entry_sectors_min: self.entry_sectors_min,
                resumes: self.resumes,
                clean_cold_share: self.clean_cold_share,
                dirty_cold_share: self.dirty_cold_share,
                clean_share: self.clean_share,
                ..ScanRules::default()
            },
        }
    }
}

/// Sectors of metadata before the mapping, and some to spare.
const BESIDE_MAPPING: u64 = 16;

/// Where on the drive of the cache what lies.
///
/// The address space of the drive is used three times: a clean sector lies at its own address, a dirty one as far
/// behind it as the disk has sectors, and behind both what is known of the disk: the mapping of its chunks, then
/// snapshots of heat. The last sector of the drive is the [superblock](super::Label).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressPlan {
    /// Sectors of the disk.
    pub sectors: u64,
}

impl AddressPlan {
    /// Before a disk of so many sectors.
    pub fn new(sectors: u64) -> AddressPlan {
        AddressPlan { sectors }
    }

    /// Where the clean copy of a sector lies.
    #[inline]
    pub fn clean(&self, sector: u64) -> u64 {
        sector
    }

    /// Where the dirty copy of a sector lies.
    #[inline]
    pub fn dirty(&self, sector: u64) -> u64 {
        self.sectors + sector
    }

    /// Where the metadata begins.
    pub fn metadata(&self) -> u64 {
        2 * self.sectors
    }

    /// Sectors for the mapping of the disk.
    pub fn mapping(&self) -> u64 {
        BESIDE_MAPPING + self.sectors.div_ceil(PIECE_SECTORS)
    }

    /// Where the snapshot of a part's heat lies.
    pub fn heat(&self, part: u64) -> u64 {
        self.metadata() + self.own_heat(part)
    }

    /// The same, from the beginning of the metadata.
    pub(super) fn own_heat(&self, part: u64) -> u64 {
        self.mapping() + part
    }

    /// Sectors that the drive must show.
    pub fn drive_sectors(&self) -> u64 {
        self.heat(self.sectors.div_ceil(u64::from(SECTORS))) + 1
    }
}
