//! The mapping from the disk alone: for when the cache drive is lost.

use std::collections::BTreeMap;

use super::BackingError;
use super::chunks::{Row, replace};
use super::format::{GROUP_SECTORS, SummaryEntry};
use super::log::Log;
use super::mapping;
use super::mapping_cache::MAPPING_START;
use super::media::{MetadataStore, Zones};
use super::superblock::{self, Names};

/// What was found on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rebuilt {
    /// Chunks, those among them that nothing is mapped to any more.
    pub chunks: u64,
    /// Groups with data.
    pub groups: u64,
    /// Pages of the store.
    pub pages: u64,
}

/// Makes the mapping of the store on `zones` anew in `metadata`, which from now on has the name
/// `cache_id` and belongs to the disk. What was dirty in the lost cache alone is lost.
///
/// Of two chunks with a sector the one with the greater number is newer: numbers are given in the order of
/// writing, and what collection moves keeps its own. Chunks of one number hold the same.
///
/// # Errors
/// If there is no store on the disk, the metadata store is too small, or one of them fails.
pub async fn rebuild(
    zones: &impl Zones,
    metadata: &impl MetadataStore,
    cache_id: [u8; 16],
) -> Result<Rebuilt, BackingError> {
    let mut found = superblock::read_superblock(zones).await?;
    let (pages, groups) = (found.shape.pages, found.shape.pages.div_ceil(GROUP_SECTORS));
    if metadata.sectors() < MAPPING_START + groups {
        return Err(BackingError::Config("the metadata store is too small"));
    }
    let log = Log::new(ByRef(zones), found.names.disk_id, 0);
    let mut entries: Vec<(SummaryEntry, u64)> = Vec::new();
    for zone in 0..zones.zones() {
        let of_zone = log.entries(zone).await?;
        entries.extend(of_zone.into_iter().map(|entry| {
            let granule = log.granule_of(zone, &entry);
            (entry, granule)
        }));
    }
    entries.sort_by_key(|(entry, _)| entry.seq.get());
    let mut mapped: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
    for (entry, granule) in &entries {
        let (lba, count) = (entry.lba.get(), u32::from(entry.sectors.get()));
        if lba + u64::from(count) > pages {
            continue;
        }
        let first = (lba % GROUP_SECTORS) as u32;
        let row = Row::whole(first, count, *granule, entry.bytes.get());
        let rows = mapped.entry(lba / GROUP_SECTORS).or_default();
        replace(rows, first, first + count, row);
    }
    metadata.clear().await?;
    for (group, rows) in &mapped {
        let sector = mapping::encode(*group, rows);
        metadata.write(MAPPING_START + group, &sector).await?;
    }
    metadata.flush().await?;
    found.names = Names {
        cache_id,
        ..found.names
    };
    // Numbers of an epoch are greater than those of all before: the next one is new on both sides.
    superblock::adopt(zones, metadata, found, found.epoch + 1).await?;
    Ok(Rebuilt {
        chunks: entries.len() as u64,
        groups: mapped.len() as u64,
        pages,
    })
}

/// Zones that are read only.
struct ByRef<'a, Z>(&'a Z);

impl<Z: Zones> Zones for ByRef<'_, Z> {
    fn zones(&self) -> u32 {
        self.0.zones()
    }

    fn zone_sectors(&self) -> u32 {
        self.0.zone_sectors()
    }

    async fn read(&self, zone: u32, at: u64, out: &mut [u8]) -> Result<(), crate::IoError> {
        self.0.read(zone, at, out).await
    }

    async fn append(&self, zone: u32, at: u32, data: &[u8]) -> Result<(), crate::IoError> {
        self.0.append(zone, at, data).await
    }

    async fn delete(&self, zone: u32) -> Result<(), crate::IoError> {
        self.0.delete(zone).await
    }

    async fn flush(&self) -> Result<(), crate::IoError> {
        self.0.flush().await
    }

    async fn read_superblock(&self, copy: u64, out: &mut [u8]) -> Result<(), crate::IoError> {
        self.0.read_superblock(copy, out).await
    }

    async fn write_superblock(&self, copy: u64, data: &[u8]) -> Result<(), crate::IoError> {
        self.0.write_superblock(copy, data).await
    }
}
