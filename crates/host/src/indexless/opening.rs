//! How a flash cache begins: made anew, or opened again, over drives or over sectors of a program's.

use std::sync::Arc;

use wharf_runtime::waits::Waiters;
use wharf_runtime::wake::{Mailboxes, Pause, Sleeper};
use wharf_runtime::{Cpu, Lock};
use wharf_wire::dma::DmaSpace;

use super::disk::io_error;
use crate::backing::{BackingError, Contents, Names, Sectors, VolumeSectors};
use crate::design::{Parts, Role};
use crate::error::{DiskFault, IoError};
use crate::volume::Volume;

/// How a flash cache begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// A new one: what the drive of the cache holds is given up, and with [`Store::Chunks`](super::Store) what
    /// the disk holds, too.
    Create {
        /// What cache and disk are called from then on.
        names: Names,
    },
    /// One that was created before. What it holds is found out while it serves.
    Open {
        /// What cache and disk must be called; not asked where there is nothing to compare with.
        names: Option<Names>,
    },
}

/// The names of caches that nobody opens again.
const UNNAMED: Names = Names {
    disk_id: *b"wharf backing   ",
    cache_id: *b"wharf cache     ",
};

impl Default for Start {
    /// A new cache, with names that all such caches have.
    fn default() -> Start {
        Start::Create { names: UNNAMED }
    }
}

/// Why a flash cache cannot be made or opened. Nothing was written to either device then, but for what
/// [`OpenError::Backing`] and [`OpenError::Cache`] say of a device that failed amid it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The store on the disk.
    #[error(transparent)]
    Backing(#[from] BackingError),
    /// The drive of the cache.
    #[error("the drive of the cache: {0}")]
    Cache(IoError),
    /// No superblock, or a damaged one.
    #[error("the drive holds no flash cache: create one first")]
    NoCache,
    /// A superblock of another version of this program.
    #[error("the flash cache on the drive has format {found}; this program knows format {known}")]
    Version {
        /// The format on the drive.
        found: u32,
        /// The format of this program.
        known: u32,
    },
    /// Another disk, or another cache.
    #[error("cache and disk do not belong together: the cache is another disk's")]
    Foreign,
    /// A disk of another size.
    #[error("the cache is of a disk of {cache} sectors, and this disk has {disk}")]
    DiskSize {
        /// Sectors that the cache knows.
        cache: u64,
        /// Sectors of the disk.
        disk: u64,
    },
    /// Pages of another size: bytes and stamps.
    #[error("the cache has pages of {found} bytes, and is opened with pages of {told}")]
    PageBytes {
        /// As it was made.
        found: u32,
        /// As it is opened.
        told: u32,
    },
    /// The drive shows too few addresses.
    #[error(
        "a cache of a disk of {disk} sectors needs a drive that shows {needed} sectors; it shows {shown}"
    )]
    TooSmall {
        /// Sectors of the disk.
        disk: u64,
        /// Sectors that are needed.
        needed: u64,
        /// Sectors that the drive shows.
        shown: u64,
    },
}

impl From<OpenError> for IoError {
    /// What a request fails with that comes after all.
    fn from(error: OpenError) -> IoError {
        match error {
            OpenError::Backing(error) => io_error(error),
            OpenError::Cache(error) => error,
            _ => DiskFault::Foreign.into(),
        }
    }
}

/// Where the sectors of the disk behind a cache are.
///
/// A program that has the disk by other means than a drive of [`Role::Backing`] implements this, and makes its cache
/// with [`Indexless::over`](super::Indexless::over).
pub trait Disks: Send + Sync + 'static {
    /// The disk, on the keeper's CPU.
    type Sectors: Sectors + 'static;

    /// Sectors of the disk; every client asks, and is told the same.
    fn sectors(&self, parts: &Parts) -> u64;

    /// The disk, for the keeper, which is made of `parts`. Nothing is read or written yet.
    ///
    /// # Errors
    /// If it cannot be had.
    fn open(&self, parts: &Parts, space: &Arc<DmaSpace>) -> Result<Self::Sectors, OpenError>;
}

/// The drives of [`Role::Backing`].
#[derive(Default)]
pub struct BackingDrives {
    contents: Arc<Contents>,
}

impl Disks for BackingDrives {
    type Sectors = VolumeSectors;

    fn sectors(&self, parts: &Parts) -> u64 {
        parts.devices.volume(Role::Backing).pages()
    }

    fn open(&self, parts: &Parts, space: &Arc<DmaSpace>) -> Result<VolumeSectors, OpenError> {
        let volume = parts.devices.volume(Role::Backing);
        let all = (0, volume.pages());
        let sectors = VolumeSectors::new(&parts.cpu, volume, space, all, &self.contents);
        Ok(sectors.map_err(|_| BackingError::Config("no memory for transfers"))?)
    }
}

/// Sectors that are asked about together at first, and at most, where a drive is cleared.
const ASKED: u64 = 1 << 20;
const ASKED_MAX: u64 = 1 << 32;

/// Gives up all that a drive holds, durably; the superblock first.
///
/// # Errors
/// If the drive fails.
pub(super) async fn clear(cpu: &Cpu, drive: &Volume) -> Result<(), IoError> {
    let label = drive.pages() - 1;
    if !drive.allocated(label, 1).await?.is_empty() {
        drive.deallocate(cpu, label, 1).await?;
        drive.flush(cpu).await?;
    }
    let (mut at, mut step, mut any) = (0, ASKED, false);
    while at < label {
        let count = step.min(label - at);
        match drive.allocated(at, count).await?.is_empty() {
            true => step = (2 * step).min(ASKED_MAX),
            false => {
                drive.deallocate(cpu, at, count).await?;
                (step, any) = (ASKED, true);
            }
        }
        at += count;
    }
    match any {
        true => drive.flush(cpu).await,
        false => Ok(()),
    }
}

/// How it came out, once it has: sectors that may be used. And who waits for that.
pub(super) struct Opening {
    outcome: Lock<Option<Result<u64, OpenError>>>,
    waiters: Waiters,
}

impl Opening {
    /// It has not come out yet.
    pub(super) fn new(mailboxes: &Arc<Mailboxes>) -> Opening {
        Opening {
            outcome: Lock::new(None),
            waiters: Waiters::new(mailboxes.clone()),
        }
    }

    /// Tells everyone how it came out, as `keeper` on its CPU.
    pub(super) fn end(&self, cpu: &Cpu, keeper: u32, outcome: Result<u64, OpenError>) {
        self.outcome.with(cpu, |known| *known = Some(outcome));
        self.waiters.wake_all(cpu, keeper);
    }

    /// Waits until the cache is open, as `client`; gives the sectors that may be used.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(super) async fn wait(&self, cpu: &Cpu, client: u32) -> Result<u64, OpenError> {
        loop {
            if let Some(outcome) = self.outcome.with(cpu, |known| *known) {
                return outcome;
            }
            let sleeper = Sleeper {
                client,
                task: cpu.current(),
            };
            self.waiters.join(cpu, sleeper);
            if self.outcome.with(cpu, |known| known.is_none()) {
                Pause::default().await;
            }
        }
    }
}
