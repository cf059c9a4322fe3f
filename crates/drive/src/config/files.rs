//! File systems that the drive's cores serve, and the memory that they have for it.

use serde::{Deserialize, Serialize};
use wharf_files::block::Make;
use wharf_files::gpt::Guid;
use wharf_files::volume::Format;

use super::{ConfigError, DriveConfig, MediaKind};
use crate::media::PAGE_BYTES;

/// How a drive with a key checks the tokens of commands for files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenCheck {
    /// Claims are checked once, and 16 bytes are compared with each command.
    #[default]
    Cached,
    /// The code of the claims is computed anew for each command: what no state of the drive's could forge.
    Every,
    /// Not at all: each request is believed. For measuring what checks cost.
    Off,
}

/// Pages that one request of a file task takes of the memory for transfers, at most.
pub const TRANSFER_PAGES_MAX: u32 = 64;

/// A file system that a drive can serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystemKind {
    /// The journaling one, of extents.
    Wfs,
    /// The one for persistent memory: in `persistent_memory`, or on pages if there is none.
    Wpm,
    /// On pages, what the first partition says that it holds; a new one is `wfs`.
    Any,
}

impl FileSystemKind {
    /// What may be on the media; a new one is the first of these.
    pub fn formats(self) -> &'static [Format] {
        match self {
            FileSystemKind::Wfs => &[Format::Wfs],
            FileSystemKind::Wpm => &[Format::Wpm],
            FileSystemKind::Any => &Format::ALL,
        }
    }
}

impl From<Format> for FileSystemKind {
    fn from(format: Format) -> FileSystemKind {
        match format {
            Format::Wfs => FileSystemKind::Wfs,
            Format::Wpm => FileSystemKind::Wpm,
        }
    }
}

/// A new file system, in a partition of all that the drive shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewFiles {
    /// The drive's own number.
    pub disk: Guid,
    /// The partition's.
    pub partition: Guid,
    /// What the file system is to be.
    pub make: Make,
}

/// Memory of the drive's own. Every key has a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryConfig {
    /// Bytes, of which the others are parts.
    pub bytes: u64,
    /// What it moves, in MB/s (10^6 bytes a second); 0 is unlimited.
    pub mb_s: u64,
    /// Until the first byte of a page is there, in nanoseconds.
    pub latency_ns: u64,
    /// For pages of metadata that a file system keeps.
    pub metadata_bytes: u64,
    /// For changes of metadata that are on their way to their places.
    pub journal_bytes: u64,
    /// For pages on their way between flash and host that cannot go straight.
    pub transfer_bytes: u64,
    /// For pages of files that hosts have the drive keep; 0 is none.
    pub near_bytes: u64,
    /// Most of that for one host; 0 is all.
    pub near_host_bytes: u64,
    /// Pages of files that were written near are there after a loss of power: capacitors last until they are kept.
    #[serde(skip_serializing_if = "super::is_default")]
    pub protected: bool,
    /// For computing on bytes of files; 0 is none: the drive does not compute.
    pub compute_bytes: u64,
}

impl Default for MemoryConfig {
    fn default() -> MemoryConfig {
        MemoryConfig {
            bytes: 66 << 20,
            mb_s: 0,
            latency_ns: 0,
            metadata_bytes: 32 << 20,
            journal_bytes: 26 << 20,
            transfer_bytes: 4 << 20,
            near_bytes: 0,
            near_host_bytes: 0,
            protected: false,
            compute_bytes: 2 << 20,
        }
    }
}

/// Persistent memory of the drive's own, beside its flash. Every key has a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PersistentMemoryConfig {
    /// Bytes; 0 is none.
    pub bytes: u64,
    /// What a load takes at least, in nanoseconds.
    pub load_ns: u64,
    /// What a fence takes at least, in nanoseconds.
    pub store_ns: u64,
    /// What a module loads, in MB/s (10^6 bytes a second); 0 is unlimited.
    pub load_mb_s: u64,
    /// What a module stores, in MB/s; 0 is unlimited.
    pub store_mb_s: u64,
    /// Modules, over which pages go round.
    pub modules: u32,
}

impl Default for PersistentMemoryConfig {
    fn default() -> PersistentMemoryConfig {
        PersistentMemoryConfig {
            bytes: 0,
            load_ns: 0,
            store_ns: 0,
            load_mb_s: 0,
            store_mb_s: 0,
            modules: 1,
        }
    }
}

impl MemoryConfig {
    /// Most pages of files that the drive keeps for one host.
    pub fn near_host_pages(&self) -> u32 {
        let bytes = match self.near_host_bytes {
            0 => self.near_bytes,
            bytes => bytes.min(self.near_bytes),
        };
        (bytes / u64::from(PAGE_BYTES)) as u32
    }
}

impl DriveConfig {
    /// Checks what file systems need.
    pub(super) fn check_files(&self) -> Result<(), ConfigError> {
        let memory = &self.memory;
        let range = |key, value: u64, rule| {
            let value = value.to_string();
            Err(ConfigError::Range { key, value, rule })
        };
        if memory.bytes > 1 << 40 {
            return range("memory.bytes", memory.bytes, "at most 2^40 (1 TiB)");
        }
        if memory.protected && self.media.kind == MediaKind::File {
            return Err(ConfigError::Range {
                key: "memory.protected",
                value: "true".into(),
                rule: "false with media.kind 'file': an image keeps flash alone",
            });
        }
        let persistent = &self.persistent_memory;
        let (bytes, modules) = (persistent.bytes, persistent.modules);
        if bytes > 1 << 44 || !bytes.is_multiple_of(PAGE_BYTES.into()) {
            let rule = "a multiple of 4096, at most 2^44 (16 TiB)";
            return range("persistent_memory.bytes", bytes, rule);
        }
        if bytes > 0 && self.media.kind == MediaKind::File {
            let rule = "0 with media.kind 'file': an image keeps flash alone";
            return range("persistent_memory.bytes", bytes, rule);
        }
        if !(1..=1024).contains(&modules) {
            return range("persistent_memory.modules", modules.into(), "1 to 1024");
        }
        let parts = [
            memory.metadata_bytes,
            memory.journal_bytes,
            memory.transfer_bytes,
            memory.near_bytes,
            memory.compute_bytes,
        ];
        let sum = parts.into_iter().fold(0, u64::saturating_add);
        if sum > memory.bytes {
            let rule = "at least the sum of memory.metadata_bytes, journal_bytes, transfer_bytes, near_bytes and compute_bytes";
            return range("memory.bytes", memory.bytes, rule);
        }
        let least = u64::from(TRANSFER_PAGES_MAX) * u64::from(PAGE_BYTES);
        if memory.transfer_bytes < least {
            let rule = "at least 262144 (256 KiB)";
            return range("memory.transfer_bytes", memory.transfer_bytes, rule);
        }
        if self.file_system.is_some() && self.as_disk().is_some() {
            return Err(ConfigError::OfDisk {
                key: "file_system",
                rule: "left out",
            });
        }
        if self.file_system.is_some() && self.media.kind == MediaKind::Stamp {
            return Err(ConfigError::Range {
                key: "media.kind",
                value: "stamp".into(),
                rule: "'ram', 'mixed' or 'file' with file_system: metadata are whole pages",
            });
        }
        Ok(())
    }
}
