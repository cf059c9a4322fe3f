//! What every design is told alike: what designs that are compared must have in common. What
//! concerns one design alone is in its own [`Settings`](super::Settings).

#[cfg(feature = "designs")]
use serde::{Deserialize, Serialize};
use wharf_wire::dma::PAGE_BYTES;

use super::DesignError;
use crate::key::FILES_MAX;
use crate::volume::Level;

/// When a write reaches the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "designs", derive(Serialize, Deserialize))]
pub enum WritePolicy {
    /// When its page is evicted, or at a flush.
    #[default]
    #[cfg_attr(feature = "designs", serde(rename = "write-back"))]
    Back,
    /// Before it is acknowledged.
    #[cfg_attr(feature = "designs", serde(rename = "write-through"))]
    Through,
}

/// Frames that a cache stays below: 4 TiB.
const FRAMES_MAX: u64 = 1 << 30;

/// What every design is told.
#[derive(Debug, Clone, Copy)]
pub struct DesignConfig {
    /// Bytes of cached data, at 4096 for each page, also where a page is a stamp. What the cache
    /// needs to keep book of them comes on top.
    pub cache_bytes: u64,
    /// Number of clients.
    pub clients: u32,
    /// How many of them, the last ones, are in other processes: in designs that can be
    /// [shared](crate::guest).
    pub guests: u32,
    /// Number of drives behind the role `cache`.
    pub drives: u32,
    /// How their volume is spread over them.
    pub level: Level,
    /// When writes reach the drive.
    pub write_policy: WritePolicy,
    /// Share of the cache that may be dirty before write-back begins in the background, in designs that
    /// write back so.
    pub dirty_background_share: f64,
    /// Share of the cache that may be dirty, or on its way to the drive, before writers wait.
    pub dirty_hard_share: f64,
    /// Files that the volume is divided into, in designs that have an index for each file.
    pub files: u32,
    /// [Memory nodes](crate::kit::nodes) of the machine, in designs that tell them apart.
    pub memory_nodes: u32,
    /// Whether designs that could be in the program are in the operating system, and [pay](crate::kit::kernel_path) for
    /// that.
    pub in_kernel: bool,
    /// Whether pages that designs in the operating system cache are those of files in a file system, which takes its time for
    /// each page that is written.
    pub file_system: bool,
    /// Pages of each client's memory for transfers, in designs that copy between the program's
    /// memory and the drive's.
    pub transfer_pages: u32,
}

impl Default for DesignConfig {
    /// 64 MiB for one client on one drive, write-back from 10 % dirty pages on and at most 20 %,
    /// one file, one memory node, caches in the program, no file system, 4096 transfer pages.
    fn default() -> Self {
        DesignConfig {
            cache_bytes: 64 << 20,
            clients: 1,
            guests: 0,
            drives: 1,
            level: Level::Raid0,
            write_policy: WritePolicy::default(),
            dirty_background_share: 0.1,
            dirty_hard_share: 0.2,
            files: 1,
            memory_nodes: 1,
            in_kernel: false,
            file_system: false,
            transfer_pages: 4096,
        }
    }
}

impl DesignConfig {
    /// Frames of a page cache of [`DesignConfig::cache_bytes`].
    ///
    /// # Errors
    /// If there is no client, no frame, or too many.
    pub fn frames(&self, design: &'static str) -> Result<u32, DesignError> {
        let bytes = self.cache_bytes;
        if self.clients == 0 {
            return Err(DesignError::NoClients { design });
        }
        match bytes / PAGE_BYTES as u64 {
            0 => Err(DesignError::CacheTooSmall { design, bytes }),
            FRAMES_MAX.. => Err(DesignError::CacheTooLarge { design, bytes }),
            frames => Ok(frames as u32),
        }
    }

    /// Refuses a volume with redundancy, for designs that send commands past it.
    ///
    /// # Errors
    /// If the volume has any.
    pub fn check_striped(&self, design: &'static str) -> Result<(), DesignError> {
        match self.level {
            Level::Raid0 => Ok(()),
            level => Err(DesignError::Level { design, level }),
        }
    }

    /// [`DesignConfig::files`], where there can be so many.
    ///
    /// # Errors
    /// If there is none, or more than [keys](crate::key) can name.
    pub fn files(&self, design: &'static str) -> Result<u32, DesignError> {
        match self.files {
            files @ 1..FILES_MAX => Ok(files),
            files => Err(DesignError::Files { design, files }),
        }
    }
}
