//! A new cache in the place of one that is lost, broken or stale.
//!
//! What only the old cache had is lost. A disk of pages or units in place needs nothing else. Of a
//! disk of chunks the mapping was on the old cache: the chunks say themselves what they hold, and
//! it is made anew from them.

use std::path::{Path, PathBuf};

use wharf_host::backing::{DiskZones, Rebuilt, SECTOR_BYTES, rebuild as rebuild_mapping};
use wharf_host::indexless::Store;

use super::create::{Made, Options, create_again, plan};
use super::disk::Disk;
use super::label::Label;
use super::look::{Look, Runs};
use super::open::{FlashCache, How};
use super::{CacheError, check, device};

/// What came of it.
pub struct Outcome {
    /// The new cache.
    pub made: Made,
    /// What was found on a disk of chunks.
    pub mapping: Option<Rebuilt>,
}

/// What was dirty in a cache that can still be read.
///
/// # Errors
/// If it cannot.
pub fn dirty_of(old: &Path) -> Result<Runs, CacheError> {
    Ok(Look::open(old)?.copies()?.1)
}

/// How the disk holds data as the first of these caches says that has a label; in place if none
/// does.
pub fn store_of<'a>(caches: impl IntoIterator<Item = Option<&'a Path>>) -> Store {
    let mut labels = caches
        .into_iter()
        .flatten()
        .filter_map(|path| Label::read(path).ok());
    labels.next().map_or(Store::Plain, |label| label.store)
}

/// Makes a cache in `fast` in front of the disk at `slow`, which keeps what it holds. Where nothing
/// says how the disk holds data, `options` does.
///
/// # Errors
/// If it cannot be made; if the disk is not what it should be.
pub fn rebuild(fast: &Path, slow: &[PathBuf], options: &Options) -> Result<Outcome, CacheError> {
    let disk = Disk::open(slow, false)?;
    disk.refuse_same(fast)?;
    let Some((disk_id, _)) = disk.chunk_names()? else {
        if options.store == Store::Chunks {
            let line = format!("{}: holds no chunks of a cache", disk.path().display());
            return Err(CacheError::Choice(line));
        }
        let (label, _) = plan(
            &disk,
            &Options {
                force: true,
                ..options.clone()
            },
        )?;
        let made = create_again(fast, &disk, label, options)?;
        FlashCache::open_on(fast, disk, How::New)?.close()?;
        let label = Label::read(fast)?;
        return Ok(Outcome {
            made: Made { label, ..made },
            mapping: None,
        });
    };
    let (zone_bytes, export_bytes) = disk.chunk_shape()?.expect("it has a superblock");
    let options = Options {
        store: Store::Chunks,
        export_bytes: Some(export_bytes),
        ..options.clone()
    };
    let (planned, _) = plan(
        &disk,
        &Options {
            force: true,
            ..options.clone()
        },
    )?;
    let label = Label {
        disk_id,
        zone_bytes,
        ..planned
    };
    let made = create_again(fast, &disk, label, &options)?;
    // The cache is made as in front of an empty disk, whose sectors only seem to be written.
    FlashCache::format(fast, disk)?;
    let disk = Disk::open(slow, false)?;
    let mapping = mapping_of(fast, &disk)?;
    FlashCache::open_on(fast, disk, How::Existing)?.close()?;
    let label = Label::read(fast)?;
    Ok(Outcome {
        made: Made { label, ..made },
        mapping: Some(mapping),
    })
}

/// Makes the mapping in the cache anew from the disk.
fn mapping_of(fast: &Path, disk: &Disk) -> Result<Rebuilt, CacheError> {
    let label = Label::read(fast)?;
    let look = Look::of(device::open(fast, &label)?, label)?;
    let (cpu, _, _) = look.parts();
    let sectors = disk.bytes().div_ceil(SECTOR_BYTES as u64);
    let sectors = super::sectors::TargetSectors::new(cpu, disk.target().clone(), sectors)?;
    let zone_sectors = (look.label().zone_bytes / SECTOR_BYTES as u64) as u32;
    let zones = DiskZones::new(sectors, zone_sectors);
    let metadata = check::mapping(&look)?;
    let cache_id = look.label().cache_id;
    Ok(look.run(rebuild_mapping(&zones, &metadata, cache_id))?)
}
