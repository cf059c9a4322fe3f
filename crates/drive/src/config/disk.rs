//! What a disk is: its shape, the curve of its seeks, its buffer.

use serde::{Deserialize, Serialize};

use super::{ConfigError, DriveConfig};

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 4096;

/// The most sectors of a disk: what 32 bits can name, less the numbers that stand for none.
const SECTORS_MAX: u64 = u32::MAX as u64 - 2;

/// What kind of drive it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriveKind {
    /// Flash behind a translation layer.
    Flash,
    /// Platters, heads and an arm.
    Disk,
}

/// A disk. Distances of seeks are shares of the full stroke, so that a disk of another size keeps
/// its curve: a seek over the share `x` takes `settle + a + b * sqrt(x)` below `seek_linear_share`
/// and `settle + c + e * x` from there on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskConfig {
    /// Bytes that it shows, rounded down to whole stripes.
    pub capacity_bytes: u64,
    /// Turns of the spindle in a minute.
    pub rotations_per_minute: u32,
    /// Surfaces, each with a head.
    pub heads: u32,
    /// Zones of equally many cylinders; tracks of a zone have equally many sectors.
    pub zones: u32,
    /// Rate under a head of the outermost zone, in MB/s (10^6 bytes a second).
    pub outer_mb_s: u64,
    /// Rate under a head of the innermost zone, in MB/s; zones between lie on a line.
    pub inner_mb_s: u64,
    /// The constant part of short seeks, in nanoseconds.
    pub seek_a_ns: u64,
    /// What short seeks take for each root of a full stroke, in nanoseconds.
    pub seek_b_ns: u64,
    /// The constant part of long seeks, in nanoseconds.
    pub seek_c_ns: u64,
    /// What long seeks take for each full stroke, in nanoseconds.
    pub seek_e_ns: u64,
    /// Share of the full stroke from which on seeks are long.
    pub seek_linear_share: f64,
    /// After every seek, until the head can read, in nanoseconds.
    pub settle_ns: u64,
    /// Further settling before a write after a seek or a change of heads, in nanoseconds.
    pub write_settle_ns: u64,
    /// From one head to another of the same cylinder, in nanoseconds; tracks are skewed by it.
    pub head_switch_ns: u64,
    /// Commands that the elevator chooses from.
    pub queue_depth: u32,
    /// How much waiting counts: a command is served before another whose positioning is shorter by
    /// less than this many times what it has waited longer. 0 never ages.
    pub aging_share: f64,
    /// What the disk reads ahead after a read while nothing else is to be done, in bytes.
    pub read_ahead_bytes: u64,
    /// Acknowledge writes from the buffer (a volatile write cache) rather than from the platter.
    pub write_cache: bool,
    /// Written data that the buffer takes before it is on the platter, in bytes.
    pub write_buffer_bytes: u64,
}

impl DiskConfig {
    /// Nanoseconds of a turn.
    pub fn turn_ns(&self) -> u64 {
        60_000_000_000 / u64::from(self.rotations_per_minute)
    }

    /// Sectors that it has.
    pub fn sectors(&self) -> u64 {
        self.capacity_bytes / SECTOR_BYTES
    }

    /// Sectors of a track of zone `zone`.
    pub fn track_sectors(&self, zone: u32) -> u32 {
        let (outer, inner) = (self.outer_mb_s as f64, self.inner_mb_s as f64);
        let step = match self.zones {
            1 => 0.0,
            zones => (outer - inner) / f64::from(zones - 1),
        };
        let mb_s = outer - step * f64::from(zone);
        (mb_s * self.turn_ns() as f64 / 1000.0 / SECTOR_BYTES as f64) as u32
    }

    /// Refuses values that make no disk.
    ///
    /// # Errors
    /// The first one.
    pub fn check(&self) -> Result<(), ConfigError> {
        let range = |key, value: String, rule| Err(ConfigError::Range { key, value, rule });
        let sectors = self.sectors();
        if !(1..=SECTORS_MAX).contains(&sectors) {
            let value = self.capacity_bytes.to_string();
            return range("disk.capacity_bytes", value, "4096 bytes to 16 TiB");
        }
        let buffered = self.write_buffer_bytes / SECTOR_BYTES;
        let counts = [
            (
                "disk.rotations_per_minute",
                u64::from(self.rotations_per_minute),
                60,
                60_000,
                "60 to 60000",
            ),
            ("disk.heads", u64::from(self.heads), 1, 64, "1 to 64"),
            ("disk.zones", u64::from(self.zones), 1, 1024, "1 to 1024"),
            (
                "disk.outer_mb_s",
                self.outer_mb_s,
                1,
                100_000,
                "1 to 100000",
            ),
            (
                "disk.inner_mb_s",
                self.inner_mb_s,
                1,
                self.outer_mb_s,
                "1 to disk.outer_mb_s",
            ),
            (
                "disk.queue_depth",
                u64::from(self.queue_depth),
                1,
                1024,
                "1 to 1024",
            ),
            (
                "disk.write_buffer_bytes",
                buffered,
                1,
                1 << 20,
                "4096 bytes to 4 GiB",
            ),
            (
                "disk.read_ahead_bytes",
                self.read_ahead_bytes,
                0,
                1 << 32,
                "at most 4 GiB",
            ),
        ];
        for (key, value, low, high, rule) in counts {
            if !(low..=high).contains(&value) {
                return range(key, value.to_string(), rule);
            }
        }
        let times = [
            ("disk.seek_a_ns", self.seek_a_ns),
            ("disk.seek_b_ns", self.seek_b_ns),
            ("disk.seek_c_ns", self.seek_c_ns),
            ("disk.seek_e_ns", self.seek_e_ns),
            ("disk.settle_ns", self.settle_ns),
            ("disk.write_settle_ns", self.write_settle_ns),
            ("disk.head_switch_ns", self.head_switch_ns),
        ];
        for (key, value) in times {
            if value > super::TIME_NS_MAX {
                return range(key, value.to_string(), "at most 10^10 (10 s)");
            }
        }
        if !(0.0..=1.0).contains(&self.seek_linear_share) {
            let value = self.seek_linear_share.to_string();
            return range("disk.seek_linear_share", value, "0 to 1");
        }
        if !(0.0..=1000.0).contains(&self.aging_share) {
            return range(
                "disk.aging_share",
                self.aging_share.to_string(),
                "0 to 1000",
            );
        }
        if (0..self.zones).any(|zone| self.track_sectors(zone) < 2) {
            let value = self.inner_mb_s.to_string();
            return range(
                "disk.inner_mb_s",
                value,
                "enough for two sectors of 4096 bytes a track",
            );
        }
        Ok(())
    }
}

impl DriveConfig {
    /// What kind of drive it is.
    pub fn kind(&self) -> DriveKind {
        self.kind.unwrap_or(DriveKind::Flash)
    }

    /// What the drive is as a disk, if it is one.
    pub fn as_disk(&self) -> Option<&DiskConfig> {
        match self.kind() {
            DriveKind::Disk => self.disk.as_ref(),
            DriveKind::Flash => None,
        }
    }

    /// Whether writes are acknowledged from a volatile buffer after power-on.
    pub fn volatile_write_cache(&self) -> bool {
        match self.as_disk() {
            Some(disk) => disk.write_cache,
            None => self.ftl.volatile_write_cache,
        }
    }
}
