//! The set-up of the paper, as large as it is or smaller in proportion.
//!
//! A scale of `n` divides the drive, the cache and the requests of a profile by `n`, so that the cache is
//! 18.75 % of the drive, hits are as many, and collection runs, as at full size.
//!
//! 1. Pages per block take two thirds of the division (as powers of two) and blocks per plane the rest:
//!    channels and dies stay, and with them what the drive can do at once. Each core needs some blocks
//!    that are open or being collected, whatever their number: with too few of them these would eat up the
//!    spare flash and collection would cost more than at full size.
//! 2. An erase takes as much less time as a block has fewer pages: erasing a byte costs the same.
//! 3. The times of flash and firmware, clients, depth and request sizes stay.
//!
//! What does not scale: requests in flight are a larger part of a smaller cache, a stall by one erase
//! is shorter, and percentiles come from fewer requests.

use serde::Serialize;
use wharf_drive::DriveConfig;
use wharf_workload::profiles::Profile;

use crate::config::{ConfigError, HostConfig, Sets, load_drive, load_host};

use super::run::Run;

/// Divisors that a set-up can be scaled by are powers of two up to this one.
pub const SCALE_MAX: u32 = 1024;

/// How much smaller than the paper's a set-up is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Scale {
    /// Drive, cache and requests are divided by this.
    pub divisor: u32,
    /// At most so many requests of a profile in a run; for tests.
    pub requests_max: Option<u64>,
}

impl Scale {
    /// A scale of 1/`divisor`; `None` unless it is a power of two up to [`SCALE_MAX`].
    pub fn new(divisor: u32) -> Option<Scale> {
        (divisor.is_power_of_two() && divisor <= SCALE_MAX).then_some(Scale {
            divisor,
            requests_max: None,
        })
    }

    /// What pages per block are divided by; blocks per plane take the rest.
    fn pages_divisor(self) -> u32 {
        1 << (self.divisor.ilog2() * 2).div_ceil(3)
    }

    /// The drive of a run.
    ///
    /// # Errors
    /// A drive that cannot be built; a test builds one of every scale.
    pub fn drive(self, run: &Run) -> Result<DriveConfig, ConfigError> {
        let (whole, _) = load_drive("scala", &Sets::default())?;
        let pages = self.pages_divisor();
        let blocks = self.divisor / pages;
        let sets = [
            format!(
                "drive.geometry.blocks_per_plane={}",
                whole.geometry.blocks_per_plane / blocks
            ),
            format!(
                "drive.geometry.pages_per_block={}",
                whole.geometry.pages_per_block / pages
            ),
            format!(
                "drive.timing.erase_ns={}",
                whole.timing.erase_ns / u64::from(pages)
            ),
            format!("drive.firmware.cores={}", run.cores),
        ];
        Ok(load_drive("scala", &Sets::parse(&sets)?)?.0)
    }

    /// The host of a run: the cache is a share of one drive, as the paper has it.
    ///
    /// # Errors
    /// A key that this build does not have: the design that brings it is missing.
    pub fn host(self, run: &Run) -> Result<HostConfig, ConfigError> {
        let mut sets = vec!["host.cache_of=drive".to_string()];
        if run.managers > 0 {
            sets.push(format!("host.managers={}", run.managers));
        }
        if !run.gc_aware {
            sets.push("host.gc_aware=false".into());
        }
        Ok(load_host("default", &Sets::parse(&sets)?)?.0)
    }

    /// Requests of a profile, `stretch` times as many as the scale gives, and the address range that they
    /// fall in, which is that of the scale and lies on the device.
    pub fn requests(self, profile: &Profile, stretch: u32, device_bytes: u64) -> (u64, u64) {
        let once = (profile.table.requests / u64::from(self.divisor)).max(1);
        let requests = once * u64::from(stretch);
        let capped = self
            .requests_max
            .map_or(requests, |most| requests.min(most));
        (capped, profile.footprint_bytes(once).min(device_bytes))
    }

    /// The scale in a sentence.
    pub fn describe(self, drive: &DriveConfig) -> String {
        let gib = drive.namespace_pages() as f64 * 4096.0 / (1u64 << 30) as f64;
        let part = match self.divisor {
            1 => "full size".to_string(),
            n => format!("scale 1/{n}"),
        };
        format!(
            "{part}: drives of {gib:.2} GiB ({} blocks of {} pages a plane), cache 18.75 % of them, requests of the profiles in proportion, \
             flash times as in the paper, erase {:.2} ms",
            drive.geometry.blocks_per_plane,
            drive.geometry.pages_per_block,
            drive.timing.erase_ns as f64 / 1e6,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scale_divides_the_flash_and_can_be_built() {
        let run = Run::sample();
        let whole = Scale::new(1).unwrap().drive(&run).unwrap();
        for power in 0..=SCALE_MAX.ilog2() {
            let scale = Scale::new(1 << power).unwrap();
            let drive = scale.drive(&run).unwrap();
            assert_eq!(drive.geometry.pages() << power, whole.geometry.pages());
            let erase_per_page =
                |d: &DriveConfig| d.timing.erase_ns as f64 / f64::from(d.geometry.pages_per_block);
            assert_eq!(erase_per_page(&drive), erase_per_page(&whole));
        }
        assert_eq!(Scale::new(3), None);
        assert_eq!(Scale::new(2048), None);
    }

    #[test]
    fn a_stretched_run_has_more_requests_in_the_same_range() {
        let scale = Scale::new(128).unwrap();
        let profile = Profile::by_name("T1205").unwrap();
        let (once, range) = scale.requests(profile, 1, u64::MAX);
        assert_eq!(scale.requests(profile, 8, u64::MAX), (8 * once, range));
    }
}
