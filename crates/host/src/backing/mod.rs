//! The backing store: where a flash cache keeps all data, on a disk.
//!
//! The walk of a write, `ChunkStore` being the store of compressed chunks:
//!
//! 1. [`Backing::write`] cuts a run at groups of 256 sectors (1 MiB); no chunk crosses one (`store.rs`);
//! 2. each piece is compressed as a whole (`packer.rs`) and appended to the log, behind a header that says
//!    what it is (`log.rs`, `format.rs`): nothing is read, nothing is written in place;
//! 3. the group's rows name the new chunk for its sectors (`chunks.rs`), in memory (`mapping_cache.rs`); what
//!    they named before is garbage of its zone;
//! 4. [`Backing::flush`] writes what is gathered and flushes the disk, then writes the mapping sectors
//!    that changed (`mapping.rs`) and flushes the metadata store, then frees zones of which nothing is mapped.
//!
//! A read takes the rows of its group, reads each chunk whole, checks that it is the one meant, and copies
//! what was asked for. When few zones are free, a writer moves the live chunks of the worst zone to the end of the
//! log (`collect.rs`).
//!
//! # What each call promises
//!
//! * `write`: later reads give these pages, or newer ones. After a cut a page that was written and not flushed is
//!   old or new, never torn; so its data must not be given up elsewhere before a flush.
//! * `flush`: all that was written or discarded before survives a cut of the disk, of the metadata store, or of
//!   both. Chunks are durable before the mapping sectors that name them, and those before `flush` ends: then, and not
//!   before, may the caller deallocate its own copies.
//! * `discard`: as a write of zeros. It takes a header on the disk, so that a rebuild knows of it.
//! * Any call may fail with [`BackingError::Full`], and then has changed nothing; `flush`, `read` and
//!   overwriting what is there with as much never do. [`Backing::level`] tells before.
//! * After [`BackingError::Fenced`] somebody else owns the disk.
//!
//! The mapping is in the metadata store alone, but every chunk says what it holds: [`rebuild`] makes it anew from
//! the disk. It may then find chunks that were written and never flushed; they are newer, and whole.
//!
//! | file | idea |
//! |---|---|
//! | `media.rs` | what lies below: sectors, zones, the metadata store |
//! | `volume.rs` | drives as that, for bytes and for stamps |
//! | `format.rs` | structures, byte by byte |
//! | `packer.rs` | pages to payloads |
//! | `chunks.rs` | rows: which chunk holds which sectors |
//! | `mapping.rs`, `mapping_cache.rs` | the mapping sector; those in memory |
//! | `log.rs` | zones |
//! | `superblock.rs` | whose disk it is |
//! | `store.rs`, `collect.rs` | the store of chunks; moving them |
//! | `rebuild.rs` | the mapping from the disk alone |
//! | `fixed.rs` | units of a fixed size in place |
//! | `plain.rs` | pages in place, not compressed |

mod chunks;
mod collect;
#[cfg(test)]
mod document_test;
mod fixed;
mod format;
mod log;
mod mapping;
mod mapping_cache;
mod media;
mod packer;
mod plain;
mod rebuild;
mod store;
mod superblock;
mod volume;

pub use fixed::{FixedConfig, FixedCounters, FixedStore};
pub(crate) use format::Checked;
pub use format::{GRANULE_BYTES, GROUP_SECTORS, SECTOR_BYTES};
pub use media::{DiskZones, MetadataStore, Sectors, Zones};
pub use packer::Packer;
pub use plain::PlainStore;
pub use rebuild::{Rebuilt, rebuild};
pub use store::{ChunkConfig, ChunkCounters, ChunkStore};
pub use superblock::Names;
pub use volume::{Contents, VolumeSectors};

use crate::error::IoError;

/// Why the backing store could not do what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BackingError {
    /// A drive failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// There is no room: nothing was changed.
    #[error("the backing disk is full: discard data, or use a larger one")]
    Full,
    /// Pages beyond the end.
    #[error("pages {first} to {end} of {pages} pages of the backing store")]
    OutOfRange {
        /// The first page.
        first: u64,
        /// The page after the last.
        end: u64,
        /// Pages there are.
        pages: u64,
    },
    /// A chunk that is mapped is not there.
    #[error("page {page} cannot be read from the backing disk: its chunk is damaged")]
    DamagedChunk {
        /// The first page of the chunk.
        page: u64,
    },
    /// A mapping sector that is damaged.
    #[error("the mapping of pages {} on is damaged: rebuild it from the disk", group * 256)]
    DamagedMapping {
        /// The group.
        group: u64,
    },
    /// No superblock.
    #[error("there is no backing store on the disk: create one first")]
    NoSuperblock,
    /// Another shape.
    #[error(
        "the backing store on the disk has another version or other zones than this one is told of"
    )]
    OtherShape,
    /// A metadata store that belongs to nothing.
    #[error("the cache drive holds no mapping of a backing disk: rebuild it from the disk")]
    NoOwner,
    /// A metadata store of another disk.
    #[error("cache drive and backing disk do not belong together")]
    Foreign,
    /// A metadata store from before.
    #[error(
        "the cache drive's mapping is an old copy (opened {cache} times, the disk {disk} times): rebuild it from the disk"
    )]
    OldMetadata {
        /// Openings of the disk.
        disk: u64,
        /// Openings of the metadata store.
        cache: u64,
    },
    /// A disk from before.
    #[error("the backing disk is an old copy (opened {disk} times, its mapping {cache} times)")]
    OldDisk {
        /// Openings of the disk.
        disk: u64,
        /// Openings of the metadata store.
        cache: u64,
    },
    /// Its chunks have no more numbers.
    #[error(
        "the backing disk says that it was opened {openings} times, which is more than its chunks have numbers for: copy its data to a new one"
    )]
    TooOften {
        /// Openings, as the superblock counts them.
        openings: u64,
    },
    /// Another owner.
    #[error("somebody else has opened the backing disk since")]
    Fenced,
    /// A store that cannot be made.
    #[error("a backing store cannot be made of this: {0}")]
    Config(&'static str),
}

/// How full a store is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// Share of what may be stored that is, 0 to 1.
    pub used_share: f64,
    /// Whether new dirty data should be refused already: what is dirty now may need the rest.
    pub is_nearly_full: bool,
}

/// Share of the capacity from which on new dirty data should be refused.
const NEARLY_FULL_SHARE: f64 = 0.95;

impl Level {
    fn of(used: u64, capacity: u64) -> Level {
        let used_share = used as f64 / capacity.max(1) as f64;
        Level {
            used_share,
            is_nearly_full: used_share >= NEARLY_FULL_SHARE,
        }
    }
}

/// A store of pages below a cache. See the [module](self) for what each call promises.
#[allow(async_fn_in_trait)] // the futures stay on their CPU: no Send is wanted
pub trait Backing {
    /// Bytes of a page: 4096, or 8 for stamps.
    fn page_bytes(&self) -> usize;

    /// Pages that can be addressed.
    fn pages(&self) -> u64;

    /// Reads the pages from `first` on that fill `out`; those that were never written are zeros.
    async fn read(&self, first: u64, out: &mut [u8]) -> Result<(), BackingError>;

    /// Writes neighbouring pages from `first` on.
    async fn write(&self, first: u64, data: &[u8]) -> Result<(), BackingError>;

    /// Makes pages read as zeros.
    async fn discard(&self, first: u64, pages: u64) -> Result<(), BackingError>;

    /// Makes all that was written and discarded before durable.
    async fn flush(&self) -> Result<(), BackingError>;

    /// How full it is.
    fn level(&self) -> Level;
}

/// Refuses pages beyond the end.
fn check_range(first: u64, count: u64, pages: u64) -> Result<(), BackingError> {
    match first.checked_add(count) {
        Some(end) if end <= pages => Ok(()),
        end => Err(BackingError::OutOfRange {
            first,
            end: end.unwrap_or(u64::MAX),
            pages,
        }),
    }
}
