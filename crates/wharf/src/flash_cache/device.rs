//! The drive of a cache: as large as its file or device, showing twice the disk, compressing every
//! page.
//!
//! It is the drive of the store (preset `store`: no latencies, one thread) with units of 16 KiB
//! that pages are packed into. What is in its write buffer is on the file after a flush:
//! acknowledged writes that nobody flushed may be lost with the process, as on a disk with a write
//! cache.

use std::path::Path;

use wharf_codec::Codec;
use wharf_drive::Drive;
use wharf_drive::config::{ConfigError, DriveConfig, MediaKind};
use wharf_drive::media::{FileImage, FileOptions, ImageGeometry};
use wharf_host::indexless::AddressPlan;
use wharf_lab::config::{Sets, load_drive};

use super::CacheError;
use super::label::Label;

/// The preset that it begins with.
const PRESET: &str = "store";
/// Flash of a core, at most: what its map can number.
const CORE_BYTES_MAX: u64 = 256 << 30;
/// Bytes that a core shows, at most.
const CORE_SHOWN_MAX: u64 = 8 << 40;
/// Below this size blocks are small, so that there are enough of them.
const SMALL_BYTES: u64 = 1 << 30;
/// More blocks than the smallest drive can need.
const BLOCKS_MAX: u32 = 1 << 16;
/// Share of the flash that is kept for collection.
const OVER_PROVISIONING: f64 = 0.1;
/// Share of the capacity that only metadata may take.
const METADATA_RESERVE: f64 = 0.02;

/// How much of the flash is cached at most, unless something else is asked for, before compression.
/// A part of the flash is collection's, and of what is written anew the older copy goes a little
/// later; pages of systems and programs take about half of their size. What compresses less is
/// noticed: the cache makes room when the drive says that it has little.
pub fn cached_share(codec: Codec) -> f64 {
    match codec {
        Codec::None => 0.75,
        _ => 1.5,
    }
}

/// The shape of the flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flash {
    cores: u32,
    blocks: u32,
    pages_per_block: u32,
}

/// Bytes that the drive of a cache has to show for a disk of so many sectors.
pub fn shown_bytes(sectors: u64) -> u64 {
    let pages = AddressPlan::new(sectors).drive_sectors();
    // Whole stripes on every core: 4 MiB is more than a stripe of each.
    (pages * 4096).next_multiple_of(4 << 20)
}

fn config(
    path: &Path,
    flash: Flash,
    sectors: u64,
    shown_bytes: u64,
    codec: Codec,
) -> Result<DriveConfig, CacheError> {
    let (mut drive, _) = load_drive(PRESET, &Sets::default())?;
    drive.name = "cache".into();
    drive.geometry.channels = flash.cores;
    drive.geometry.blocks_per_plane = flash.blocks;
    drive.geometry.pages_per_block = flash.pages_per_block;
    drive.geometry.unit_pages = 4;
    drive.firmware.cores = flash.cores;
    // Nobody lends it memory, and its log needs no room for pages that it would keep there.
    drive.host_memory.enabled = false;
    drive.ftl.over_provisioning = OVER_PROVISIONING;
    drive.ftl.shown_bytes = shown_bytes;
    drive.ftl.metadata_bytes = shown_bytes - 2 * sectors * 4096;
    drive.ftl.metadata_reserve_share = METADATA_RESERVE;
    drive.ftl.elide_zeros = true;
    drive.ftl.volatile_write_cache = true;
    drive.ftl.write_buffer_pages = 2048 * flash.cores;
    drive.compression.codec = codec;
    (drive.media.kind, drive.media.path) = (MediaKind::File, Some(path.into()));
    Ok(drive)
}

fn geometry(config: &DriveConfig) -> Result<ImageGeometry, ConfigError> {
    Ok(ImageGeometry {
        cores: config.firmware.cores,
        core: config.plan()?.media_geometry(4096),
    })
}

/// Bytes of the image of such a drive; `None` if it can be no drive.
fn image_bytes(config: &DriveConfig) -> Result<Option<u64>, CacheError> {
    match geometry(config) {
        Ok(geometry) => Ok(geometry.file_bytes().ok()),
        Err(error @ (ConfigError::Codec(_) | ConfigError::TooMuchShown { .. })) => {
            Err(error.into())
        }
        // Too few blocks, of one kind or another.
        Err(_) => Ok(None),
    }
}

/// The largest drive of a cache whose image takes `bytes` at most.
///
/// # Errors
/// If none does.
pub fn largest(
    path: &Path,
    bytes: u64,
    sectors: u64,
    codec: Codec,
) -> Result<DriveConfig, CacheError> {
    let shown = shown_bytes(sectors);
    let cores = bytes
        .div_ceil(CORE_BYTES_MAX)
        .max(shown.div_ceil(CORE_SHOWN_MAX)) as u32;
    let pages_per_block = if bytes < SMALL_BYTES { 256 } else { 1024 };
    let of = |blocks| {
        let flash = Flash {
            cores,
            blocks,
            pages_per_block,
        };
        config(path, flash, sectors, shown, codec)
    };
    let block_bytes = u64::from(cores) * u64::from(pages_per_block) * 4096;
    // Fewer blocks take less; and below some number there is no drive.
    let fits = |blocks: u32| -> Result<bool, CacheError> {
        Ok(image_bytes(&of(blocks)?)?.is_none_or(|needed| needed <= bytes))
    };
    let (mut enough, mut too_many) = (0, (bytes / block_bytes) as u32 + 1);
    while too_many - enough > 1 {
        let middle = enough + (too_many - enough) / 2;
        match fits(middle)? {
            true => enough = middle,
            false => too_many = middle,
        }
    }
    let found = of(enough.max(1))?;
    match image_bytes(&found)? {
        Some(needed) if needed <= bytes => Ok(found),
        _ => Err(CacheError::TooSmall {
            path: path.into(),
            bytes,
            needed: smallest(of)?,
        }),
    }
}

/// Bytes of the smallest image, about: what the map of a large disk takes is most of it.
fn smallest(of: impl Fn(u32) -> Result<DriveConfig, CacheError>) -> Result<u64, CacheError> {
    let mut blocks = 1;
    while blocks < BLOCKS_MAX {
        if let Some(bytes) = image_bytes(&of(blocks)?)? {
            return Ok(bytes);
        }
        blocks *= 2;
    }
    Ok(u64::MAX)
}

/// Makes the image of a drive.
///
/// # Errors
/// If there is one and it is not to be overwritten, or it cannot be written.
pub fn create(config: &DriveConfig, seed: u64, overwrite: bool) -> Result<(), CacheError> {
    let options = FileOptions {
        overwrite,
        ..FileOptions::default()
    };
    let path = config
        .media
        .path
        .as_deref()
        .expect("the drive has an image");
    FileImage::create(path, &geometry(config)?, seed, options)?;
    Ok(())
}

/// The drive of a cache that was made before.
///
/// # Errors
/// If the image is not of such a drive, damaged or in use.
pub fn open(path: &Path, label: &Label) -> Result<Drive, CacheError> {
    Ok(Drive::new(existing(path, label)?)?)
}

/// As [`open`], to be read alone: the image stays as it is.
///
/// # Errors
/// As [`open`].
pub fn open_read_only(path: &Path, label: &Label) -> Result<Drive, CacheError> {
    let config = existing(path, label)?;
    let image = FileImage::open_read_only(path)?;
    image.require(&geometry(&config)?)?;
    let cores = 0..config.firmware.cores;
    let media = cores
        .map(|core| image.media(core))
        .collect::<Result<_, _>>()?;
    Ok(Drive::with_media(config, media)?)
}

pub(super) fn existing(path: &Path, label: &Label) -> Result<DriveConfig, CacheError> {
    let image = FileImage::open_read_only(path)?;
    let found = *image.geometry();
    let flash = Flash {
        cores: found.cores,
        blocks: found.core.blocks,
        pages_per_block: found.core.pages_per_block,
    };
    let sectors = label.sectors();
    config(path, flash, sectors, label.shown_bytes, label.codec)
}

/// Bytes of a drive's image.
///
/// # Errors
/// If it can be no drive.
pub fn bytes_of(config: &DriveConfig) -> Result<u64, CacheError> {
    let bytes = image_bytes(config)?;
    Ok(bytes.expect("the drive was found to be one"))
}
