//! What a store is to be: how large, where its bytes lie, how much memory caches it.

use std::path::PathBuf;

use wharf_drive::DriveError;
use wharf_drive::config::{
    ConfigError, DriveConfig, FileSystemKind, MediaKind, NewFiles, TokenCheck,
};
use wharf_drive::media::FileImage;
use wharf_host::driver::DriverConfig;
use wharf_lab::config::{Sets, load_drive};
use wharf_runtime::{CostTable, Idle};

use super::StoreError;

/// The preset of a drive without latencies.
const PRESET: &str = "store";

/// More blocks than the preset's shape makes sense with: a store of about 100 TiB.
const BLOCKS_PER_PLANE_MAX: u32 = 1 << 23;

/// Bytes that a drive with a file system keeps pages of metadata in.
const METADATA_BYTES: u64 = 64 << 20;

/// The most that changes take on their way to their places: the journal of the largest file system, and more. No
/// memory is taken before there are such changes.
const JOURNAL_BYTES: u64 = 1 << 30;

/// Entries of each queue by which files are asked for: threads of a process have so many commands under way, but one.
const FILES_DEPTH: u32 = 64;

/// How a store is opened. Start from [`StoreOptions::file`] or [`StoreOptions::memory`].
#[derive(Debug, Clone)]
pub struct StoreOptions {
    pub(super) drives: Vec<DriveConfig>,
    pub(super) cache_bytes: u64,
    pub(super) clients: u32,
    pub(super) guests: u32,
    pub(super) stripe_bytes: u64,
    pub(super) queue_depth: u32,
    pub(super) idle: Idle,
    /// The file system that the drive is to make before it is used.
    pub(super) new_files: Option<NewFiles>,
}

impl StoreOptions {
    /// A store of at least `bytes` bytes in the file `path`, which is made if it is not there: what a
    /// flush acknowledged is in it. A file is opened again with the same `bytes`.
    ///
    /// # Errors
    /// If no drive of this size can be.
    pub fn file(path: impl Into<PathBuf>, bytes: u64) -> Result<StoreOptions, StoreError> {
        let mut drive = sized(bytes)?;
        (drive.media.kind, drive.media.path) = (MediaKind::File, Some(path.into()));
        Ok(StoreOptions::drives(vec![drive]))
    }

    /// The store that is in the file `path`, as large as it was made.
    ///
    /// # Errors
    /// If there is none, or a drive of another preset.
    pub fn existing(path: impl Into<PathBuf>) -> Result<StoreOptions, StoreError> {
        let path = path.into();
        let image = FileImage::open_read_only(&path).map_err(DriveError::from)?;
        let (mut drive, _) = load_drive(PRESET, &Sets::default())?;
        // All else is the preset's, which opening the drive checks.
        drive.geometry.blocks_per_plane = image.geometry().core.blocks;
        (drive.media.kind, drive.media.path) = (MediaKind::File, Some(path));
        Ok(StoreOptions::drives(vec![drive]))
    }

    /// A store of at least `bytes` bytes in memory, gone when it is closed.
    ///
    /// # Errors
    /// If no drive of this size can be.
    pub fn memory(bytes: u64) -> Result<StoreOptions, StoreError> {
        let mut drive = sized(bytes)?;
        drive.media.kind = MediaKind::Ram;
        Ok(StoreOptions::drives(vec![drive]))
    }

    /// A store on drives of any configuration, striped: presets with their latencies, say.
    ///
    /// # Panics
    /// If there is no drive.
    pub fn drives(drives: Vec<DriveConfig>) -> StoreOptions {
        assert!(!drives.is_empty(), "a store has a drive");
        StoreOptions {
            drives,
            cache_bytes: 64 << 20,
            clients: 1,
            guests: 0,
            stripe_bytes: 64 << 10,
            queue_depth: 128,
            idle: Idle::default(),
            new_files: None,
        }
    }

    /// Has the drive run a file system: the one that is there, or a new one. It is asked for files alone.
    #[must_use]
    pub(crate) fn files(mut self, kind: FileSystemKind, new: Option<NewFiles>) -> StoreOptions {
        for drive in &mut self.drives {
            drive.file_system = Some(kind);
            let memory = &mut drive.memory;
            (memory.metadata_bytes, memory.journal_bytes) = (METADATA_BYTES, JOURNAL_BYTES);
            memory.bytes =
                METADATA_BYTES + JOURNAL_BYTES + memory.transfer_bytes + memory.compute_bytes;
        }
        self.new_files = new;
        self.queue_depth = FILES_DEPTH;
        self.cache_bytes = 0;
        self
    }

    /// Memory in which each drive keeps pages of files as hosts say, and the most of it for one host; 0 is none, and all.
    pub(crate) fn near(mut self, bytes: u64, host_bytes: u64) -> StoreOptions {
        for drive in &mut self.drives {
            let memory = &mut drive.memory;
            (memory.near_bytes, memory.near_host_bytes) = (bytes, host_bytes);
            memory.bytes = memory.bytes.saturating_add(bytes);
        }
        self
    }

    /// How the drives check tokens of commands for files.
    pub(crate) fn token_check(mut self, check: TokenCheck) -> StoreOptions {
        for drive in &mut self.drives {
            drive.firmware.token_check = check;
        }
        self
    }

    /// Whether the drive runs a file system.
    pub(super) fn has_files(&self) -> bool {
        self.drives[0].file_system.is_some()
    }

    /// How its own clients speak to the drives.
    pub(super) fn driver(&self) -> DriverConfig {
        driver(self.has_files())
    }

    /// Memory for cached pages, over all clients; 64 MiB unless said otherwise.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: u64) -> StoreOptions {
        self.cache_bytes = bytes;
        self
    }

    /// Clients that the store can have, each for one thread; 1 unless said otherwise.
    #[must_use]
    pub fn clients(mut self, clients: u32) -> StoreOptions {
        self.clients = clients;
        self
    }

    /// Clients that the store can have beside these, each in another process that attaches
    /// ([`Store::share`](super::Store::share)); none unless said otherwise, 61 at most, or 2,000 of a drive with files. Each has its share of the cache,
    /// attached or not. The cache is then in memory files,
    /// for which a system may have no huge pages.
    #[must_use]
    pub fn guests(mut self, guests: u32) -> StoreOptions {
        self.guests = guests;
        self
    }

    /// Bytes on one drive of several before the next one's turn; 64 KiB unless said otherwise.
    #[must_use]
    pub fn stripe_bytes(mut self, bytes: u64) -> StoreOptions {
        self.stripe_bytes = bytes;
        self
    }

    /// What the drives' thread does when there is nothing to do.
    #[must_use]
    pub fn idle(mut self, idle: Idle) -> StoreOptions {
        self.idle = idle;
        self
    }

    /// Nothing is charged in real time: the table only has to be there.
    pub(super) fn costs(&self) -> CostTable {
        CostTable::free()
    }
}

/// The smallest drive of the preset's shape that shows `bytes` bytes.
fn sized(bytes: u64) -> Result<DriveConfig, StoreError> {
    let (mut drive, _) = load_drive(PRESET, &Sets::default())?;
    let pages = bytes.div_ceil(4096).max(1);
    let fits = |drive: &DriveConfig| match drive.plan() {
        Ok(_) => Ok(drive.namespace_pages() >= pages),
        Err(ConfigError::Spare { .. } | ConfigError::NoNamespace { .. }) => Ok(false),
        Err(other) => Err(StoreError::Config(other)),
    };
    let (mut too_few, mut enough) = (1, 2);
    while {
        drive.geometry.blocks_per_plane = enough;
        !fits(&drive)?
    } {
        (too_few, enough) = (enough, enough * 2);
        if enough > BLOCKS_PER_PLANE_MAX {
            return Err(StoreError::TooLarge { bytes });
        }
    }
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        drive.geometry.blocks_per_plane = middle;
        if fits(&drive)? {
            enough = middle;
        } else {
            too_few = middle;
        }
    }
    drive.geometry.blocks_per_plane = enough;
    Ok(drive)
}

/// How clients speak to drives, which may have files.
pub(super) fn driver(has_files: bool) -> DriverConfig {
    match has_files {
        // The drive answers, however long the machine's storage takes, or however busy the machine is. A client in another process sees by
        // its connection that the drive's process is gone.
        true => DriverConfig {
            timeout_ns: u64::MAX,
            ..DriverConfig::default()
        },
        false => DriverConfig::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_is_as_large_as_asked_and_hardly_larger() {
        for bytes in [1, 4096, 5 << 20, 64 << 20, 1 << 30, 5 << 30] {
            let drive = sized(bytes).unwrap();
            let shown = drive.namespace_pages() * 4096;
            assert!(shown >= bytes, "{shown} for {bytes}");
            assert!(
                shown < bytes + bytes / 4 + (256 << 20),
                "{shown} for {bytes}"
            );
        }
    }

    #[test]
    fn what_no_drive_can_hold_is_an_error() {
        assert!(sized(1 << 60).is_err());
    }
}
