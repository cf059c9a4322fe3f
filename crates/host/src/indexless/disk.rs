//! The disk behind the cache, in any of the forms that a store may have.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use wharf_codec::{Sizes, TableName};
use wharf_runtime::Cpu;
use wharf_wire::dma::{DmaSpace, STAMP_BYTES};

use super::published::StoreCounters;
use super::settings::{AddressPlan, IndexlessConfig, PIECE_SECTORS, Store};
use crate::backing::{
    Backing, BackingError, ChunkConfig, ChunkStore, Contents, DiskZones, FixedConfig, FixedStore,
    Level, Names, Packer, PlainStore, SECTOR_BYTES, Sectors, VolumeSectors,
};
use crate::error::{DiskFault, IoError};
use crate::volume::Volume;

/// The drive of the cache, as a store uses it.
pub(super) struct Volumes<'a> {
    pub(super) cpu: &'a Cpu,
    pub(super) space: &'a Arc<DmaSpace>,
    pub(super) cache: Rc<Volume>,
    /// What sectors of metadata hold, of drives in stamp mode.
    pub(super) metadata: &'a Arc<Contents>,
    /// What stamps compress to: as pages of a Linux system, if nothing is said.
    pub(super) sizes: Option<&'a Sizes>,
}

/// The store on the disk, whose sectors are `S`.
pub(super) enum Disk<S> {
    Chunks(Box<ChunkStore<DiskZones<S>, VolumeSectors>>),
    Fixed(Box<FixedStore<S>>),
    Plain(Box<PlainStore<S>>),
}

impl<S: Sectors> Disk<S> {
    /// Makes a new store. Plain pages and units are what the disk holds already.
    pub(super) async fn create(
        volumes: &Volumes<'_>,
        disk: &S,
        plan: &AddressPlan,
        config: &IndexlessConfig,
        names: Names,
    ) -> Result<(), BackingError> {
        if config.store != Store::Chunks {
            return Ok(());
        }
        let packer = volumes.packer(config)?;
        let zone_sectors = config.zone_sectors(disk.sectors());
        let zones = DiskZones::new(disk, zone_sectors);
        let metadata = volumes.metadata(plan)?;
        ChunkStore::create(&zones, &metadata, names, plan.sectors, &packer).await
    }

    /// Opens the store on a disk.
    pub(super) async fn open(
        volumes: &Volumes<'_>,
        disk: S,
        plan: &AddressPlan,
        config: &IndexlessConfig,
    ) -> Result<Disk<S>, BackingError> {
        let page_bytes = volumes.space.page_bytes();
        match config.store {
            Store::Plain => Ok(Disk::Plain(Box::new(PlainStore::new(disk, page_bytes)))),
            Store::Fixed => {
                let units = FixedConfig {
                    unit_pages: config.unit_pages,
                };
                let packer = volumes.packer(config)?;
                let store = FixedStore::open(volumes.cpu, disk, packer, units)?;
                Ok(Disk::Fixed(Box::new(store)))
            }
            Store::Chunks => {
                let zone_sectors = config.zone_sectors(disk.sectors());
                let zones = DiskZones::new(disk, zone_sectors);
                let told = ChunkConfig {
                    mapping_groups: config.mapping_groups as usize,
                    chunk_pages_max: config.chunk_pages_max(zone_sectors),
                };
                let (packer, metadata) = (volumes.packer(config)?, volumes.metadata(plan)?);
                let store = ChunkStore::open(volumes.cpu, zones, metadata, packer, told);
                Ok(Disk::Chunks(Box::new(store.await?)))
            }
        }
    }
}

impl Volumes<'_> {
    fn packer(&self, config: &IndexlessConfig) -> Result<Packer, BackingError> {
        if self.space.page_bytes() == STAMP_BYTES {
            let sizes = self.sizes.cloned().unwrap_or_else(|| {
                let table = TableName::System.load().expect("it comes with the program");
                Sizes::new(&table, 0)
            });
            return Ok(Packer::Stamps(sizes));
        }
        let packer = Packer::bytes(config.codec, config.codec.level_default());
        packer.map_err(|_| BackingError::Config("a codec that this program was built without"))
    }

    /// The sectors of metadata, up to the superblock.
    pub(super) fn own(&self, plan: &AddressPlan) -> Result<VolumeSectors, BackingError> {
        self.sectors(plan.metadata(), self.cache.pages() - plan.metadata())
    }

    /// The sectors of the mapping.
    fn metadata(&self, plan: &AddressPlan) -> Result<VolumeSectors, BackingError> {
        self.sectors(plan.metadata(), plan.mapping())
    }

    fn sectors(&self, first: u64, count: u64) -> Result<VolumeSectors, BackingError> {
        let (cache, part) = (self.cache.clone(), (first, count));
        let sectors = VolumeSectors::new(self.cpu, cache, self.space, part, self.metadata);
        sectors.map_err(|_| BackingError::Config("no memory for transfers"))
    }
}

/// The same call of whichever store it is.
macro_rules! each {
    ($disk:expr, $store:ident => $call:expr) => {
        match $disk {
            Disk::Chunks($store) => $call,
            Disk::Fixed($store) => $call,
            Disk::Plain($store) => $call,
        }
    };
}

impl<S: Sectors> Disk<S> {
    pub(super) async fn read(&self, first: u64, out: &mut [u8]) -> Result<(), BackingError> {
        each!(self, store => store.read(first, out).await)
    }

    /// `wanted` with neighbours, `most` at most: such that come with it, whatever is read. Those behind it first.
    pub(super) async fn with_neighbours(
        &self,
        wanted: Range<u64>,
        most: u64,
    ) -> Result<Range<u64>, BackingError> {
        let last = wanted.end - 1;
        let (left, right) = match self {
            Disk::Chunks(store) => {
                let left = store.in_one_chunk(wanted.start).await?.start;
                (left, store.in_one_chunk(last).await?.end)
            }
            Disk::Fixed(store) => {
                let unit = store.unit_pages();
                (wanted.start / unit * unit, (last / unit + 1) * unit)
            }
            Disk::Plain(_) => (wanted.start, wanted.end),
        };
        let behind = most.min(right - wanted.end);
        let before = (most - behind).min(wanted.start - left);
        Ok(wanted.start - before..wanted.end + behind)
    }

    pub(super) async fn write(&self, first: u64, data: &[u8]) -> Result<(), BackingError> {
        each!(self, store => store.write(first, data).await)
    }

    pub(super) async fn discard(&self, first: u64, pages: u64) -> Result<(), BackingError> {
        each!(self, store => store.discard(first, pages).await)
    }

    pub(super) async fn flush(&self) -> Result<(), BackingError> {
        each!(self, store => store.flush().await)
    }

    pub(super) fn pages(&self) -> u64 {
        each!(self, store => store.pages())
    }

    pub(super) fn level(&self) -> Level {
        each!(self, store => store.level())
    }

    /// What the store did so far.
    pub(super) fn counters(&self) -> StoreCounters {
        match self {
            Disk::Chunks(store) => {
                let did = store.counters();
                StoreCounters {
                    written_pages: did.written_pages,
                    stored_pages: did.written_pages,
                    stored_bytes: did.written_bytes + did.moved_bytes,
                    moved_bytes: did.moved_bytes,
                    read_pages: did.read_pages,
                    read_chunks: did.read_chunks,
                    mapping_bytes: store.mapping_bytes(),
                }
            }
            Disk::Fixed(store) => {
                let did = store.counters();
                StoreCounters {
                    written_pages: did.written_pages,
                    stored_pages: did.unit_pages_written,
                    stored_bytes: did.written_bytes,
                    read_pages: did.read_pages,
                    read_chunks: did.read_units,
                    mapping_bytes: store.memory_bytes(),
                    ..StoreCounters::default()
                }
            }
            Disk::Plain(store) => {
                let (written_pages, read_pages) = store.counters();
                StoreCounters {
                    written_pages,
                    stored_pages: written_pages,
                    stored_bytes: written_pages * SECTOR_BYTES as u64,
                    read_pages,
                    ..StoreCounters::default()
                }
            }
        }
    }
}

/// An error of the store as one of a request.
pub(super) fn io_error(error: BackingError) -> IoError {
    match error {
        BackingError::Io(error) => error,
        BackingError::Full => DiskFault::Full.into(),
        BackingError::OutOfRange { first, end, pages } => IoError::OutOfRange {
            first,
            pages: end - first,
            volume_pages: pages,
        },
        BackingError::DamagedChunk { page } => DiskFault::Damaged { page }.into(),
        BackingError::DamagedMapping { group } => {
            let page = group * PIECE_SECTORS;
            DiskFault::Damaged { page }.into()
        }
        BackingError::Fenced => DiskFault::Fenced.into(),
        _ => DiskFault::Foreign.into(),
    }
}
