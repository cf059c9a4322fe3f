//! Making a cache: the drive's image in FAST, the label, and with chunks the store on SLOW.
//!
//! Everything is looked at before anything is written. A cache over pages in place (`Store::Plain`)
//! writes nothing to SLOW: what it holds stays, and is served from the first moment.

use std::path::{Path, PathBuf};

use wharf_codec::Codec;
use wharf_host::backing::SECTOR_BYTES;
use wharf_host::indexless::Store;

use super::device;
use super::disk::Disk;
use super::label::{Label, State};
use super::open::{FlashCache, How};
use super::{CacheError, hex};
use crate::random;

/// Zones that chunks have no room in: one is open, others take what collection moves.
const ZONES_SPARE: u64 = 4;
/// Of the rest, the share that chunks may fill when they do not compress at all.
const CHUNKS_SHARE: f64 = 0.9;
/// Zones that a disk is divided into, about.
const ZONES: u64 = 128;
/// The smallest and the largest zone.
const ZONE_BYTES: [u64; 2] = [16 << 20, 256 << 20];

/// What a cache is to be.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes of FAST, if it is made; else as large as it is.
    pub size_bytes: Option<u64>,
    /// How the cache's drive compresses.
    pub codec: Codec,
    /// How the disk holds data.
    pub store: Store,
    /// How chunks and units are compressed on the disk.
    pub disk_codec: Codec,
    /// Bytes that are cached at most; as many as may be useful if nothing is said.
    pub limit_bytes: Option<u64>,
    /// Bytes that a store of chunks shows; as many as surely fit if nothing is said.
    pub export_bytes: Option<u64>,
    /// Whether what FAST holds, and with chunks what SLOW holds, may be written over.
    pub force: bool,
}

/// What was made.
#[derive(Debug, Clone)]
pub struct Made {
    /// Its label.
    pub label: Label,
    /// Bytes of the image.
    pub image_bytes: u64,
}

/// Makes a cache in `fast` in front of the disk at `slow`.
///
/// # Errors
/// If it cannot be, or something is there that is not to be written over; nothing was written then.
pub fn create(fast: &Path, slow: &[PathBuf], options: &Options) -> Result<Made, CacheError> {
    let disk = Disk::open(slow, false)?;
    disk.refuse_same(fast)?;
    let (label, seed) = plan(&disk, options)?;
    let (made, was_there) = make_image(fast, label, seed, options)?;
    // The cache, and with chunks the store on the disk, are made by opening it for the first time.
    let formatted = format_disk(fast, disk);
    if formatted.is_err() && !was_there {
        // What cannot be removed is as it is.
        let _ = std::fs::remove_file(fast);
    }
    formatted?;
    Ok(Made {
        label: Label::read(fast)?,
        ..made
    })
}

fn format_disk(fast: &Path, disk: Disk) -> Result<(), CacheError> {
    FlashCache::open_on(fast, disk, How::New)?.close()
}

/// As [`create`] in the place of a cache that is lost: the disk keeps what it holds.
///
/// # Errors
/// As [`create`]; if the disk does not hold what `options` says.
pub fn create_again(
    fast: &Path,
    disk: &Disk,
    label: Label,
    options: &Options,
) -> Result<Made, CacheError> {
    disk.refuse_same(fast)?;
    Ok(make_image(fast, label, number()?, options)?.0)
}

/// What the label will say, and the seed of the image's name.
pub fn plan(disk: &Disk, options: &Options) -> Result<(Label, u64), CacheError> {
    let bytes = disk.bytes();
    let too_small = |what| CacheError::SmallDisk {
        path: disk.path().into(),
        bytes,
        what,
    };
    if bytes < SECTOR_BYTES as u64 {
        return Err(too_small("a cache: it has no sector"));
    }
    if let Some(what) = disk.content()? {
        let is_foreign = options.store != Store::Plain || what != "data";
        if is_foreign && !options.force {
            let path = disk.path().into();
            return Err(CacheError::Holds { path, what });
        }
    }
    let zone_bytes = (bytes / ZONES)
        .next_power_of_two()
        .clamp(ZONE_BYTES[0], ZONE_BYTES[1]);
    let unit_pages = 8;
    let most = match options.store {
        Store::Plain => bytes / 512 * 512,
        Store::Chunks => {
            let zones = (bytes.saturating_sub(8192) / zone_bytes).saturating_sub(ZONES_SPARE);
            ((zones * zone_bytes) as f64 * CHUNKS_SHARE) as u64 / 4096 * 4096
        }
        Store::Fixed => bytes / 4096 / (2 * (unit_pages + 1)) * unit_pages * 4096,
    };
    if most == 0 {
        return Err(too_small("such a store: with chunks it needs 80 MiB"));
    }
    let export_bytes = match (options.store, options.export_bytes) {
        (Store::Chunks, Some(bytes)) => bytes / 4096 * 4096,
        (_, Some(_)) => {
            let line = "--export-size: is for --store chunks, which shows more than the disk has";
            return Err(CacheError::Choice(line.into()));
        }
        (_, None) => most,
    };
    let sectors = export_bytes.div_ceil(4096);
    let mut ids = [[0; 16]; 2];
    for id in &mut ids {
        *id = (u128::from(number()?) << 64 | u128::from(number()?)).to_le_bytes();
    }
    let label = Label {
        seq: 0,
        state: State::Closed,
        cache_id: ids[0],
        disk_id: ids[1],
        disk_bytes: bytes,
        export_bytes,
        shown_bytes: device::shown_bytes(sectors),
        limit_bytes: options.limit_bytes.unwrap_or(0),
        zone_bytes,
        store: options.store,
        codec: options.codec,
        disk_codec: options.disk_codec,
        unit_pages: unit_pages as u32,
        digest: match options.store {
            Store::Chunks => 0,
            _ => disk.digest()?,
        },
        name_digest: disk.name_digest(),
        disk_path: disk.path().display().to_string(),
    };
    Ok((label, number()?))
}

/// Makes the image and its label; tells whether FAST was there before.
fn make_image(
    fast: &Path,
    mut label: Label,
    seed: u64,
    options: &Options,
) -> Result<(Made, bool), CacheError> {
    let found = std::fs::metadata(fast).ok();
    let is_device = found.as_ref().is_some_and(|found| {
        use std::os::unix::fs::FileTypeExt;
        found.file_type().is_block_device()
    });
    let there_bytes = match (&found, is_device) {
        (Some(_), true) => {
            let target = wharf_storage::open(
                fast,
                &wharf_storage::FileOptions {
                    read_only: true,
                    ..wharf_storage::FileOptions::default()
                },
            )?;
            target.size_bytes()
        }
        (Some(found), false) => found.len(),
        (None, _) => 0,
    };
    let bytes = options.size_bytes.unwrap_or(there_bytes);
    if found.is_none() && options.size_bytes.is_none() {
        return Err(CacheError::NoSize(fast.into()));
    }
    let drive = device::largest(fast, bytes, label.sectors(), label.codec)?;
    if let Some(found) = &found
        && found.is_file()
        && found.len() > 0
        && !options.force
    {
        let what = match Label::read(fast) {
            Ok(label) => format!("a cache (of {})", label.disk_path),
            Err(_) => "something".into(),
        };
        let path = fast.into();
        return Err(CacheError::Holds { path, what });
    }
    // What is cached at most: not more than the disk has, nor than compression could make room for.
    let flash_bytes = drive.geometry.pages() * 4096;
    let most = label.export_bytes.div_ceil(4096) * 4096;
    let useful = most.min((flash_bytes as f64 * device::cached_share(label.codec)) as u64);
    label.limit_bytes = match label.limit_bytes {
        0 => useful,
        given => given.min(most),
    };
    // An empty file is in nobody's way.
    let overwrites = options.force || found.as_ref().is_some_and(|found| found.len() == 0);
    device::create(&drive, seed, overwrites)?;
    label.write(fast)?;
    let image_bytes = device::bytes_of(&drive)?;
    Ok((Made { label, image_bytes }, found.is_some()))
}

/// A number that nobody else has.
fn number() -> Result<u64, CacheError> {
    let read = random::bytes();
    let bytes =
        read.map_err(|error| CacheError::system(Path::new(random::SOURCE), "read", error))?;
    Ok(u64::from_le_bytes(bytes))
}

/// What was made, for people.
pub fn describe(fast: &Path, made: &Made) -> String {
    let label = &made.label;
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    format!(
        "cache {} in {} ({}), of {} ({}): up to {} cached, {} on the disk, cache compressed by {}",
        hex(&label.cache_id),
        fast.display(),
        mib(made.image_bytes),
        label.disk_path,
        mib(label.export_bytes),
        mib(label.limit_bytes),
        match label.store {
            Store::Plain => "pages in place".to_string(),
            Store::Chunks => format!("chunks ({})", label.disk_codec),
            Store::Fixed => format!(
                "units of {} KiB ({})",
                label.unit_pages * 4,
                label.disk_codec
            ),
        },
        label.codec,
    )
}
