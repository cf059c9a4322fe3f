//! The superblock of a flash cache: the last sector of its drive.
//!
//! It says what the cache is, so that it is not opened as another's, and not by another one's rules. Where the disk
//! has a superblock of its own (`backing/superblock.rs`), that one says whose it is, too.

use wharf_codec::Codec;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::opening::OpenError;
use super::settings::{IndexlessConfig, Store};
use crate::backing::{Checked, Names, SECTOR_BYTES, Sectors};

/// Begins the superblock.
pub(crate) const MAGIC: [u8; 8] = *b"WHARFCCH";

/// The format of the superblock, and of all that is on the drive.
pub(super) const FORMAT: u32 = 1;

/// The superblock, byte by byte (`docs/backing-format.md`).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct LabelBytes {
    pub(crate) magic: [u8; 8],
    pub(crate) format: U32,
    pub(crate) page_bytes: U32,
    pub(crate) sectors: U64,
    pub(crate) epoch: U64,
    pub(crate) cached_max: U64,
    pub(crate) zone_bytes: U64,
    pub(crate) disk_id: [u8; 16],
    pub(crate) cache_id: [u8; 16],
    pub(crate) unit_pages: U32,
    pub(crate) store: u8,
    pub(crate) codec: u8,
    pub(crate) is_clean: u8,
    pub(crate) reserved: u8,
    pub(crate) crc: U32,
}

const _: () = assert!(size_of::<LabelBytes>() == 92);

impl Checked for LabelBytes {}

/// What a flash cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// Bytes of a page: 4096, or 8 for stamps.
    pub page_bytes: u32,
    /// Sectors of the disk behind it.
    pub sectors: u64,
    /// What cache and disk are called.
    pub names: Names,
    /// How often it was opened.
    pub epoch: u64,
    /// Sectors that it may hold: as many as there were where it was closed, else the limit that it was opened with.
    pub cached_max: u64,
    /// Whether it was closed since it was opened.
    pub is_clean: bool,
    /// How the disk holds data.
    pub store: Store,
    /// Codec of chunks and units.
    pub codec: Codec,
    /// Pages of a unit.
    pub unit_pages: u32,
    /// Bytes of a zone.
    pub zone_bytes: u64,
}

const STORES: [Store; 3] = [Store::Chunks, Store::Fixed, Store::Plain];
const CODECS: [Codec; 4] = [Codec::None, Codec::Zlib, Codec::Lz4, Codec::Zstd];

/// The number of one of them.
fn number<T: PartialEq>(all: &[T], one: &T) -> u8 {
    let at = all.iter().position(|other| other == one);
    at.expect("all are listed") as u8
}

impl Label {
    /// That of a new cache, which is not open yet.
    pub(super) fn new(
        config: &IndexlessConfig,
        page_bytes: usize,
        sectors: u64,
        names: Names,
    ) -> Label {
        Label {
            page_bytes: page_bytes as u32,
            sectors,
            names,
            epoch: 0,
            cached_max: 0,
            is_clean: true,
            store: config.store,
            codec: config.codec,
            unit_pages: config.unit_pages,
            zone_bytes: config.zone_bytes,
        }
    }

    /// Reads that of the cache on a drive, whose sectors these are.
    ///
    /// # Errors
    /// If there is none that this program knows, or it cannot be read.
    pub async fn read(drive: &impl Sectors) -> Result<Label, OpenError> {
        let mut sector = vec![0; SECTOR_BYTES];
        let last = drive.sectors().checked_sub(1).ok_or(OpenError::NoCache)?;
        drive
            .read(last, &mut sector)
            .await
            .map_err(OpenError::Cache)?;
        let found = LabelBytes::opened(&sector).filter(|found| found.magic == MAGIC);
        let found = found.ok_or(OpenError::NoCache)?;
        let (found_format, known) = (found.format.get(), FORMAT);
        if found_format != known {
            let found = found_format;
            return Err(OpenError::Version { found, known });
        }
        let store = STORES.get(usize::from(found.store));
        let codec = CODECS.get(usize::from(found.codec));
        Ok(Label {
            page_bytes: found.page_bytes.get(),
            sectors: found.sectors.get(),
            names: Names {
                disk_id: found.disk_id,
                cache_id: found.cache_id,
            },
            epoch: found.epoch.get(),
            cached_max: found.cached_max.get(),
            is_clean: found.is_clean == 1,
            store: *store.ok_or(OpenError::NoCache)?,
            codec: *codec.ok_or(OpenError::NoCache)?,
            unit_pages: found.unit_pages.get(),
            zone_bytes: found.zone_bytes.get(),
        })
    }

    /// Writes it, and makes it and all that was written before durable.
    pub(super) async fn write(&self, drive: &impl Sectors) -> Result<(), OpenError> {
        let bytes = LabelBytes {
            magic: MAGIC,
            format: FORMAT.into(),
            page_bytes: self.page_bytes.into(),
            sectors: self.sectors.into(),
            epoch: self.epoch.into(),
            cached_max: self.cached_max.into(),
            zone_bytes: self.zone_bytes.into(),
            disk_id: self.names.disk_id,
            cache_id: self.names.cache_id,
            unit_pages: self.unit_pages.into(),
            store: number(&STORES, &self.store),
            codec: number(&CODECS, &self.codec),
            is_clean: u8::from(self.is_clean),
            reserved: 0,
            crc: 0.into(),
        };
        let last = drive.sectors() - 1;
        let written = drive.write(last, &bytes.sector()).await;
        written.map_err(OpenError::Cache)?;
        drive.flush().await.map_err(OpenError::Cache)
    }

    /// Refuses what is opened as something else.
    pub(super) fn check(
        &self,
        page_bytes: usize,
        disk: u64,
        names: Option<Names>,
    ) -> Result<(), OpenError> {
        if names.is_some_and(|names| names != self.names) {
            return Err(OpenError::Foreign);
        }
        if self.page_bytes as usize != page_bytes {
            let (found, told) = (self.page_bytes, page_bytes as u32);
            return Err(OpenError::PageBytes { found, told });
        }
        match self.sectors == disk {
            true => Ok(()),
            false => {
                let cache = self.sectors;
                Err(OpenError::DiskSize { cache, disk })
            }
        }
    }

    /// What a cache is told, but for what this one is.
    pub(super) fn apply(&self, config: &IndexlessConfig) -> IndexlessConfig {
        IndexlessConfig {
            store: self.store,
            codec: self.codec,
            unit_pages: self.unit_pages,
            zone_bytes: self.zone_bytes,
            ..config.clone()
        }
    }
}
