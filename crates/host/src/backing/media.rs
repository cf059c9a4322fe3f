//! What lies below: sectors that are written in place, and zones that are appended to.
//!
//! The log asks for [`Zones`] alone: append, read, delete. That is what a disk can do in order, and what a
//! store of objects can do at all.

use super::format::SECTOR_BYTES;
use crate::error::IoError;

/// Sectors of 4096 bytes, each of which is written whole or not at all. What was not flushed may be lost
/// in a power cut, in any order.
#[allow(async_fn_in_trait)] // the futures stay on their CPU: no Send is wanted
pub trait Sectors {
    /// How many.
    fn sectors(&self) -> u64;

    /// Reads the sectors from `first` on that fill `out`.
    async fn read(&self, first: u64, out: &mut [u8]) -> Result<(), IoError>;

    /// Writes sectors from `first` on.
    async fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError>;

    /// Makes what was written durable.
    async fn flush(&self) -> Result<(), IoError>;

    /// Says that sectors are not needed any more; what they hold from then on is not known.
    async fn forget(&self, first: u64, sectors: u64) -> Result<(), IoError>;

    /// Makes sectors zeros without writing each; false if that cannot be done here, and then nothing was.
    async fn zero(&self, _first: u64, _sectors: u64) -> Result<bool, IoError> {
        Ok(false)
    }

    /// Runs of sectors (first and number), ascending, beside which all sectors read as zeros. Where nobody
    /// knows better these are all.
    async fn written(&self) -> Result<Vec<(u64, u64)>, IoError> {
        Ok(vec![(0, self.sectors())])
    }

    /// From now on all sectors read as zeros, durably after a flush.
    async fn clear(&self) -> Result<(), IoError> {
        for (first, sectors) in self.written().await? {
            let (mut at, end) = (first, first + sectors);
            let zeros = vec![0; CLEARED_SECTORS.min(sectors) as usize * SECTOR_BYTES];
            while at < end {
                let count = CLEARED_SECTORS.min(end - at);
                self.write(at, &zeros[..count as usize * SECTOR_BYTES])
                    .await?;
                at += count;
            }
        }
        Ok(())
    }
}

/// Sectors that are cleared by one write.
const CLEARED_SECTORS: u64 = 256;

impl<S: Sectors> Sectors for &S {
    fn sectors(&self) -> u64 {
        (*self).sectors()
    }

    async fn read(&self, first: u64, out: &mut [u8]) -> Result<(), IoError> {
        (*self).read(first, out).await
    }

    async fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError> {
        (*self).write(first, data).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        (*self).flush().await
    }

    async fn forget(&self, first: u64, sectors: u64) -> Result<(), IoError> {
        (*self).forget(first, sectors).await
    }

    async fn zero(&self, first: u64, sectors: u64) -> Result<bool, IoError> {
        (*self).zero(first, sectors).await
    }

    async fn written(&self) -> Result<Vec<(u64, u64)>, IoError> {
        (*self).written().await
    }

    async fn clear(&self) -> Result<(), IoError> {
        (*self).clear().await
    }
}

/// Sectors by number, for what is known of the chunks: on the drive of the cache.
#[allow(async_fn_in_trait)] // the futures stay on their CPU: no Send is wanted
pub trait MetadataStore {
    /// How many.
    fn sectors(&self) -> u64;

    /// Reads a sector; zeros if it was never written.
    async fn read(&self, number: u64, out: &mut [u8]) -> Result<(), IoError>;

    /// Writes a sector, whole or not at all.
    async fn write(&self, number: u64, data: &[u8]) -> Result<(), IoError>;

    /// Makes what was written durable.
    async fn flush(&self) -> Result<(), IoError>;

    /// As [`Sectors::written`].
    async fn written(&self) -> Result<Vec<(u64, u64)>, IoError>;

    /// As [`Sectors::clear`].
    async fn clear(&self) -> Result<(), IoError>;
}

impl<S: Sectors> MetadataStore for S {
    fn sectors(&self) -> u64 {
        Sectors::sectors(self)
    }

    async fn read(&self, number: u64, out: &mut [u8]) -> Result<(), IoError> {
        Sectors::read(self, number, out).await
    }

    async fn write(&self, number: u64, data: &[u8]) -> Result<(), IoError> {
        Sectors::write(self, number, data).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        Sectors::flush(self).await
    }

    async fn written(&self) -> Result<Vec<(u64, u64)>, IoError> {
        Sectors::written(self).await
    }

    async fn clear(&self) -> Result<(), IoError> {
        Sectors::clear(self).await
    }
}

/// Copies of the superblock.
pub const SUPERBLOCKS: u64 = 2;

/// Zones that are written once from the beginning to the end, and then deleted; and two sectors beside them.
#[allow(async_fn_in_trait)] // the futures stay on their CPU: no Send is wanted
pub trait Zones {
    /// How many zones.
    fn zones(&self) -> u32;

    /// Sectors of each.
    fn zone_sectors(&self) -> u32;

    /// Reads bytes of a zone from `at` on.
    async fn read(&self, zone: u32, at: u64, out: &mut [u8]) -> Result<(), IoError>;

    /// Writes whole sectors from sector `at` of a zone on, behind those that were written, but for a
    /// summary, which goes to its end.
    async fn append(&self, zone: u32, at: u32, data: &[u8]) -> Result<(), IoError>;

    /// Empties a zone. It may still hold what it held.
    async fn delete(&self, zone: u32) -> Result<(), IoError>;

    /// Makes what was appended durable.
    async fn flush(&self) -> Result<(), IoError>;

    /// Reads a copy of the superblock.
    async fn read_superblock(&self, copy: u64, out: &mut [u8]) -> Result<(), IoError>;

    /// Writes a copy of the superblock.
    async fn write_superblock(&self, copy: u64, data: &[u8]) -> Result<(), IoError>;
}

/// Zones on a disk: its superblocks, then zone after zone.
pub struct DiskZones<S> {
    disk: S,
    zone_sectors: u32,
}

impl<S: Sectors> DiskZones<S> {
    /// Zones of `zone_sectors` sectors, as many as fit on the disk.
    pub fn new(disk: S, zone_sectors: u32) -> DiskZones<S> {
        DiskZones { disk, zone_sectors }
    }

    fn sector(&self, zone: u32, at: u64) -> u64 {
        assert!(zone < self.zones() && at <= u64::from(self.zone_sectors));
        SUPERBLOCKS + u64::from(zone) * u64::from(self.zone_sectors) + at
    }
}

impl<S: Sectors> Zones for DiskZones<S> {
    fn zones(&self) -> u32 {
        let sectors = self.disk.sectors().saturating_sub(SUPERBLOCKS);
        (sectors / u64::from(self.zone_sectors)).min(u64::from(u32::MAX)) as u32
    }

    fn zone_sectors(&self) -> u32 {
        self.zone_sectors
    }

    async fn read(&self, zone: u32, at: u64, out: &mut [u8]) -> Result<(), IoError> {
        let bytes = SECTOR_BYTES as u64;
        let (first, end) = (at / bytes, (at + out.len() as u64).div_ceil(bytes));
        let mut sectors = vec![0; ((end - first) * bytes) as usize];
        self.disk
            .read(self.sector(zone, first), &mut sectors)
            .await?;
        let from = (at - first * bytes) as usize;
        out.copy_from_slice(&sectors[from..from + out.len()]);
        Ok(())
    }

    async fn append(&self, zone: u32, at: u32, data: &[u8]) -> Result<(), IoError> {
        let end = u64::from(at) + (data.len() / SECTOR_BYTES) as u64;
        assert!(end <= u64::from(self.zone_sectors), "a zone has an end");
        self.disk.write(self.sector(zone, at.into()), data).await
    }

    async fn delete(&self, zone: u32) -> Result<(), IoError> {
        let sectors = self.zone_sectors.into();
        self.disk.forget(self.sector(zone, 0), sectors).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.disk.flush().await
    }

    async fn read_superblock(&self, copy: u64, out: &mut [u8]) -> Result<(), IoError> {
        self.disk.read(copy, out).await
    }

    async fn write_superblock(&self, copy: u64, data: &[u8]) -> Result<(), IoError> {
        self.disk.write(copy, data).await
    }
}
