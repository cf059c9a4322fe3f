//! Whose disk it is: two superblocks on the disk, the owner's record in the metadata store.
//!
//! Disk and metadata store know each other by name, and count how often they were opened (the *epoch*).
//! Opening counts the owner's record up first and the superblock second, each durably. So after a cut
//! between them the record is one ahead; a superblock that is ahead means that the metadata store is an
//! old copy, and a record that is more than one ahead that the disk is. Neither is used.
//!
//! An owner looks at the record before it makes mapping sectors durable. One that finds another epoch
//! there has lost the disk to somebody who opened it later, and stops.

use super::BackingError;
use super::format::{
    Checked, OWNER_MAGIC, Owner, SECTOR_BYTES, SUPERBLOCK_MAGIC, Superblock, VERSION,
};
use super::media::{MetadataStore, SUPERBLOCKS, Zones};

/// Numbers of chunks that an epoch has.
pub const SEQS_OF_EPOCH: u64 = 1 << 40;

/// The last epoch. Every number of its chunks is one of 64 bits.
pub const EPOCH_MAX: u64 = u64::MAX / SEQS_OF_EPOCH;

/// The names of a disk and of the metadata store that belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// The disk.
    pub disk_id: [u8; 16],
    /// The metadata store.
    pub cache_id: [u8; 16],
}

/// What a superblock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Pages that can be addressed.
    pub pages: u64,
    /// Bytes of a page: 4096 or 8.
    pub page_bytes: u32,
}

/// A disk that is open: who it is, and since when.
#[derive(Debug, Clone, Copy)]
pub struct Opened {
    /// Its names.
    pub names: Names,
    /// What it holds.
    pub shape: Shape,
    /// Which opening this is.
    pub epoch: u64,
}

fn superblock(zones: &impl Zones, opened: &Opened) -> Vec<u8> {
    let block = Superblock {
        magic: SUPERBLOCK_MAGIC,
        version: VERSION.into(),
        zone_sectors: zones.zone_sectors().into(),
        zones: zones.zones().into(),
        page_bytes: opened.shape.page_bytes.into(),
        epoch: opened.epoch.into(),
        pages: opened.shape.pages.into(),
        disk_id: opened.names.disk_id,
        cache_id: opened.names.cache_id,
        reserved: 0.into(),
        crc: 0.into(),
    };
    block.sector()
}

fn owner(opened: &Opened) -> Vec<u8> {
    let record = Owner {
        magic: OWNER_MAGIC,
        epoch: opened.epoch.into(),
        disk_id: opened.names.disk_id,
        cache_id: opened.names.cache_id,
        reserved: 0.into(),
        crc: 0.into(),
    };
    record.sector()
}

/// Writes both copies of the superblock, one after the other.
async fn write_superblocks(zones: &impl Zones, opened: &Opened) -> Result<(), BackingError> {
    let block = superblock(zones, opened);
    for copy in 0..SUPERBLOCKS {
        zones.write_superblock(copy, &block).await?;
        zones.flush().await?;
    }
    Ok(())
}

/// Reads the newest superblock that is whole.
///
/// # Errors
/// If there is none, or it is of another version or shape, or no epoch is left.
pub async fn read_superblock(zones: &impl Zones) -> Result<Opened, BackingError> {
    let mut newest: Option<Superblock> = None;
    for copy in 0..SUPERBLOCKS {
        let mut sector = vec![0; SECTOR_BYTES];
        zones.read_superblock(copy, &mut sector).await?;
        let found = Superblock::opened(&sector).filter(|block| block.magic == SUPERBLOCK_MAGIC);
        if let Some(found) = found
            && newest.is_none_or(|held| held.epoch.get() < found.epoch.get())
        {
            newest = Some(found);
        }
    }
    let block = newest.ok_or(BackingError::NoSuperblock)?;
    let is_alike = block.version.get() == VERSION
        && block.zone_sectors.get() == zones.zone_sectors()
        && block.zones.get() == zones.zones();
    if !is_alike {
        return Err(BackingError::OtherShape);
    }
    // To open it may take two: the owner's record can be one ahead.
    if block.epoch.get() > EPOCH_MAX - 2 {
        return Err(BackingError::TooOften {
            openings: block.epoch.get(),
        });
    }
    Ok(Opened {
        names: Names {
            disk_id: block.disk_id,
            cache_id: block.cache_id,
        },
        shape: Shape {
            pages: block.pages.get(),
            page_bytes: block.page_bytes.get(),
        },
        epoch: block.epoch.get(),
    })
}

async fn read_owner(metadata: &impl MetadataStore) -> Result<Option<Owner>, BackingError> {
    let mut sector = vec![0; SECTOR_BYTES];
    metadata.read(0, &mut sector).await?;
    Ok(Owner::opened(&sector).filter(|record| record.magic == OWNER_MAGIC))
}

/// Makes a disk and a metadata store each other's, in epoch 1.
///
/// # Errors
/// If one of them fails.
pub async fn create(
    zones: &impl Zones,
    metadata: &impl MetadataStore,
    names: Names,
    shape: Shape,
) -> Result<(), BackingError> {
    let opened = Opened {
        names,
        shape,
        epoch: 1,
    };
    metadata.write(0, &owner(&opened)).await?;
    metadata.flush().await?;
    write_superblocks(zones, &opened).await
}

/// Opens a disk with its metadata store: from now on no earlier owner can change the mapping.
///
/// # Errors
/// If they are not each other's, or one of them is an old copy.
pub async fn open(
    zones: &impl Zones,
    metadata: &impl MetadataStore,
) -> Result<Opened, BackingError> {
    let found = read_superblock(zones).await?;
    let record = read_owner(metadata).await?.ok_or(BackingError::NoOwner)?;
    let is_own = record.disk_id == found.names.disk_id && record.cache_id == found.names.cache_id;
    if !is_own {
        return Err(BackingError::Foreign);
    }
    let (disk, cache) = (found.epoch, record.epoch.get());
    if disk > cache {
        return Err(BackingError::OldMetadata { disk, cache });
    }
    if cache > disk + 1 {
        return Err(BackingError::OldDisk { disk, cache });
    }
    adopt(zones, metadata, found, cache + 1).await
}

/// As [`open`], whatever the metadata store says: what it held is of no worth.
///
/// # Errors
/// If one of them fails.
pub async fn adopt(
    zones: &impl Zones,
    metadata: &impl MetadataStore,
    found: Opened,
    epoch: u64,
) -> Result<Opened, BackingError> {
    let opened = Opened { epoch, ..found };
    // A cut between the two may have left an epoch that is one ahead: it is made even first.
    if found.epoch + 1 < epoch {
        let even = Opened {
            epoch: epoch - 1,
            ..found
        };
        write_superblocks(zones, &even).await?;
    }
    metadata.write(0, &owner(&opened)).await?;
    metadata.flush().await?;
    write_superblocks(zones, &opened).await?;
    Ok(opened)
}

/// Makes sure that nobody has opened the disk since.
///
/// # Errors
/// [`BackingError::Fenced`].
pub async fn check_owner(
    metadata: &impl MetadataStore,
    opened: &Opened,
) -> Result<(), BackingError> {
    let record = read_owner(metadata).await?;
    let is_own = record.is_some_and(|record| {
        record.epoch.get() == opened.epoch && record.cache_id == opened.names.cache_id
    });
    is_own.then_some(()).ok_or(BackingError::Fenced)
}
