//! A flash cache in front of a slow disk, in real time: what `wharf cache` and `wharf serve nbd
//! --cache --backing` do.
//!
//! FAST is a file or block device with the image of a drive that compresses; SLOW is the disk. On
//! one thread there are the drive, the design `indexless` with its client and its keeper, and a
//! channel to the disk:
//!
//! 1. A request comes to the client (`serve/flash.rs`). A hit is a command to the drive, which
//!    reads the image.
//! 2. A miss, a round of eviction, a write around the cache are the keeper's: its store
//!    (`host/backing/`) asks for sectors of the disk (`sectors.rs`), whose I/Os end while others go
//!    on.
//! 3. FAST says on its first page whose cache it is (`label.rs`); what is cached the drive says
//!    itself. So a cache that was killed is opened as one that was closed.
//!
//! | file | idea |
//! |---|---|
//! | `sectors.rs` | the disk: sectors over a channel |
//! | `reactor.rs` | what a thread has under way on real storage |
//! | `device.rs` | the drive in FAST |
//! | `label.rs` | whose cache it is |
//! | `disk.rs` | SLOW: opening it, what it holds, whether it is what it was |
//! | `engine.rs` | the thread |
//! | `create.rs` | making a cache |
//! | `open.rs` | a cache that is in use |
//! | `figures.rs` | what is told while it is served |
//! | `look.rs` | what a cache holds, without changing it |
//! | `check.rs`, `overlay.rs` | whether cache and disk agree, without changing them |
//! | `rebuild.rs` | a new cache in the place of one that is lost |

pub mod check;
pub mod create;
pub mod device;
pub mod disk;
pub mod engine;
pub mod figures;
pub mod label;
pub mod look;
pub mod open;
pub mod overlay;
pub mod reactor;
pub mod rebuild;
pub mod sectors;
#[cfg(test)]
mod sync_tests;

use std::path::{Path, PathBuf};

use wharf_drive::DriveError;
use wharf_drive::config::ConfigError;
use wharf_drive::media::ImageError;
use wharf_host::admin::AdminError;
use wharf_host::backing::BackingError;
use wharf_host::design::DesignError;
use wharf_host::error::IoError;
use wharf_host::indexless::OpenError;
use wharf_storage::StorageError;
use wharf_wire::dma::RegisterError;

pub use open::FlashCache;

/// Why a cache cannot be made, opened or used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The system refused something.
    #[error("{}: cannot {doing} it: {source}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: std::io::Error,
    },
    /// No thread or descriptor.
    #[error("the system has no thread or descriptor left: {0}")]
    Thread(std::io::Error),
    /// No cache.
    #[error("{}: holds no cache: make one with `wharf cache create`", .0.display())]
    NoCache(PathBuf),
    /// A cache of another version.
    #[error(
        "{}: is a cache of version {found}, and this program knows version {known}: use the program \
         that made it",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// That of this program.
        known: u32,
    },
    /// FAST and SLOW are one.
    #[error("{}: is given as the cache and as the disk: they are two", .0.display())]
    Same(PathBuf),
    /// FAST and SLOW in each other's place.
    #[error("{}: is a cache, not a disk: are --cache and --backing swapped?", .0.display())]
    IsCache(PathBuf),
    /// Nothing to make a cache in.
    #[error("{}: does not exist: give --size to make it", .0.display())]
    NoSize(PathBuf),
    /// Too small.
    #[error(
        "{}: a cache of {bytes} bytes is too small: for this disk give it more than {needed}",
        path.display()
    )]
    TooSmall {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        bytes: u64,
        /// Bytes that hardly anything is cached in.
        needed: u64,
    },
    /// Too small a disk.
    #[error("{}: a disk of {bytes} bytes is too small for {what}", path.display())]
    SmallDisk {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        bytes: u64,
        /// For what.
        what: &'static str,
    },
    /// Something that is not to be overwritten.
    #[error("{}: holds {what}: --force overwrites it", path.display())]
    Holds {
        /// The file.
        path: PathBuf,
        /// What it holds.
        what: String,
    },
    /// A disk that grew or shrank.
    #[error(
        "{}: has {found} bytes, and its cache was made for {wanted}: give back the size it had",
        path.display()
    )]
    DiskSize {
        /// The disk.
        path: PathBuf,
        /// Its bytes.
        found: u64,
        /// Those that the cache knows.
        wanted: u64,
    },
    /// Another disk, or another cache.
    #[error(
        "{}: is not the disk of the cache {}, which was last used with {known}",
        disk.display(),
        cache.display()
    )]
    Foreign {
        /// The disk.
        disk: PathBuf,
        /// The cache.
        cache: PathBuf,
        /// The disk's path then.
        known: String,
    },
    /// A disk that was written to behind its cache.
    #[error(
        "{}: was changed since its cache was closed, so that what is cached may be stale: \
         `wharf cache rebuild` forgets what is cached, and what of it the disk has not got is lost",
        .0.display()
    )]
    Changed(PathBuf),
    /// A cache that was given up.
    #[error(
        "{}: was detached: everything is on its disk. Make a new cache with --force",
        .0.display()
    )]
    Detached(PathBuf),
    /// Dirty sectors that do not get to the disk.
    #[error(
        "{dirty} dirty sectors do not get to the disk: it fails or is full. The cache keeps them"
    )]
    Stuck {
        /// How many.
        dirty: u64,
    },
    /// An impossible choice.
    #[error("{0}")]
    Choice(String),
    /// A preset that does not load: a broken installation.
    #[error(transparent)]
    Preset(#[from] wharf_lab::config::ConfigError),
    /// A drive that cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The image.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The drive.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The disk.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Memory.
    #[error(transparent)]
    Memory(#[from] RegisterError),
    /// The drive does not start.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The design.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// Cache and disk do not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store on the disk.
    #[error(transparent)]
    Backing(#[from] BackingError),
    /// An I/O.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl CacheError {
    /// What the system said of a file.
    fn system(path: &Path, doing: &'static str, source: std::io::Error) -> CacheError {
        CacheError::System {
            path: path.into(),
            doing,
            source,
        }
    }
}

/// Bytes as letters and digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
