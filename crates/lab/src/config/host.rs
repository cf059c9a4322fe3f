//! The host's side of a configuration. Presets in `configs/host/` give each value and its source.

use serde::{Deserialize, Serialize};
use wharf_host::boot::Spread;
use wharf_host::design::WritePolicy;
use wharf_host::volume::{LayoutError, Level};
use wharf_runtime::Idle;

use super::design::DesignTables;
use super::kinds::Fault;
use super::units::ShareOrBytes;

/// Most files of a volume.
const FILES_MAX: u32 = 1 << 16;

/// Bytes of a cache page.
const PAGE_BYTES: u64 = 4096;

/// How the host caches, and how it talks to its drives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// The preset's name.
    pub name: String,
    /// Memory for cached pages, the same for every design: a size, or a share of what
    /// [`HostConfig::cache_of`] names.
    pub cache: ShareOrBytes,
    /// What a share of [`HostConfig::cache`] is a share of.
    pub cache_of: CacheOf,
    /// When a write reaches the drive.
    pub write_policy: WritePolicy,
    /// Ask for huge pages under the cache; ordinary ones serve where there are none.
    pub huge_pages: bool,
    /// Bytes that go to one drive of an array before the next one's turn.
    pub stripe_bytes: u64,
    /// How an array of drives is spread over them, and with which redundancy.
    pub layout: ArrayLayout,
    /// An array is made by the driver of the operating system, which designs that are in it go through.
    pub md: bool,
    /// Files that the drives are divided into, of equal size, in designs that have an index for each file.
    pub files: u32,
    /// Memory nodes of the machine, each with lists and free frames of its own, in designs that tell them apart.
    pub memory_nodes: u32,
    /// Designs that could be in the program are in the operating system, and pay for that.
    pub in_kernel: bool,
    /// What designs in the operating system cache are pages of files in a file system, which takes its time for each that is
    /// written.
    pub file_system: bool,
    /// Share of the cache that may be dirty before write-back begins in the background, in designs
    /// that write back so.
    pub dirty_background_share: f64,
    /// Share of the cache that may be dirty, or on its way to the drive, before writers wait.
    pub dirty_hard_share: f64,
    /// Entries of a client's queue pair: one fewer commands are in flight at once.
    pub queue_depth: u32,
    /// A command without completion for so long is reported as lost; 0 waits for ever.
    pub command_timeout_ns: u64,
    /// How often a command is sent again when its status allows that.
    pub retries: u32,
    /// What a polling thread of the real engine does when it finds nothing to do.
    pub idle: IdleConfig,
    /// What concerns one design alone.
    #[serde(default)]
    pub design: DesignTables,
}

/// What a cache's share is a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheOf {
    /// The distinct pages that the workload touches.
    Workload,
    /// The pages that the drive, or the array of drives, shows.
    Drive,
}

/// How an array of drives is spread over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrayLayout {
    /// Striped.
    Raid0,
    /// Striped, with rotating parity.
    Raid5,
    /// Striped over pairs of drives, of which both hold the same.
    Raid10,
}

impl From<ArrayLayout> for Level {
    fn from(layout: ArrayLayout) -> Level {
        match layout {
            ArrayLayout::Raid0 => Level::Raid0,
            ArrayLayout::Raid5 => Level::Raid5,
            ArrayLayout::Raid10 => Level::Raid10,
        }
    }
}

/// What a polling thread does when it finds nothing to do; see [`Idle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleConfig {
    /// Empty passes before the thread yields to the operating system.
    pub spin_passes: u32,
    /// Further empty passes with a yield each, before it parks.
    pub yield_passes: u32,
    /// Longest time parked at a stretch, in microseconds; 0 never parks.
    pub park_us: u32,
}

impl From<IdleConfig> for Idle {
    fn from(config: IdleConfig) -> Idle {
        Idle {
            spin_passes: config.spin_passes,
            yield_passes: config.yield_passes,
            park_us: config.park_us,
        }
    }
}

/// A value of a host configuration that is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("host: {key} = {value} must be {rule}")]
pub struct HostRangeError {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub rule: String,
}

impl HostConfig {
    /// Bytes of the cache, in whole pages and at least one, for a workload that touches
    /// `workload_bytes` on drives that show `drive_bytes`.
    pub fn cache_bytes(&self, workload_bytes: u64, drive_bytes: u64) -> u64 {
        let whole_bytes = match self.cache_of {
            CacheOf::Workload => workload_bytes,
            CacheOf::Drive => drive_bytes,
        };
        (self.cache.of(whole_bytes) / PAGE_BYTES * PAGE_BYTES).max(PAGE_BYTES)
    }

    /// How a volume is spread over its drives.
    pub fn spread(&self) -> Spread {
        Spread {
            level: self.layout.into(),
            stripe_pages: self.stripe_bytes / PAGE_BYTES,
            has_array_driver: self.md,
        }
    }

    /// Refuses a number of drives that [`HostConfig::layout`] cannot be on.
    ///
    /// # Errors
    /// Too few drives, or an odd number for pairs.
    pub fn check_drives(&self, drives: u32) -> Result<(), LayoutError> {
        Level::from(self.layout).columns(drives).map(drop)
    }

    /// Checks every value.
    pub fn check(&self) -> Result<(), HostRangeError> {
        let fault = |key: &str, value: String, rule: &str| {
            let (key, rule) = (key.into(), rule.into());
            Err(HostRangeError { key, value, rule })
        };
        if matches!(self.cache, ShareOrBytes::Bytes(0..PAGE_BYTES)) {
            return fault("cache", self.cache.to_string(), "at least 4096 bytes");
        }
        let whole_pages = self.stripe_bytes.is_multiple_of(PAGE_BYTES);
        if !whole_pages || !(PAGE_BYTES..=1 << 30).contains(&self.stripe_bytes) {
            let rule = "a multiple of 4096, up to 1 GiB";
            return fault("stripe_bytes", self.stripe_bytes.to_string(), rule);
        }
        let shares = [
            ("dirty_background_share", self.dirty_background_share),
            ("dirty_hard_share", self.dirty_hard_share),
        ];
        for (key, value) in shares {
            if !(0.0..=1.0).contains(&value) {
                return fault(key, value.to_string(), "0 to 1");
            }
        }
        if self.dirty_background_share > self.dirty_hard_share {
            let value = self.dirty_background_share.to_string();
            return fault("dirty_background_share", value, "at most dirty_hard_share");
        }
        let counts = [
            ("queue_depth", self.queue_depth, 2, 4096, "2 to 4096"),
            ("files", self.files, 1, FILES_MAX, "1 to 65536"),
            ("memory_nodes", self.memory_nodes, 1, 64, "1 to 64"),
            ("retries", self.retries, 0, 255, "0 to 255"),
        ];
        for (key, value, low, high, rule) in counts {
            if !(low..=high).contains(&value) {
                return fault(key, value.to_string(), rule);
            }
        }
        match self.design.check() {
            Ok(()) => Ok(()),
            Err(Fault::Range { key, value, rule }) => fault(&key, value, &rule),
            Err(Fault::Whole(message)) => {
                unreachable!("a design checks one key at a time: {message}")
            }
        }
    }
}
