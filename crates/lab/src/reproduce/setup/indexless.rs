//! The set-up of the paper on the flash cache without an index (Hao et al., section IV-A), smaller in proportion.
//!
//! A drive that compresses before a disk of 2 TB. The paper says neither how large the cache is in its figures, nor how
//! long its traces are, nor how many requests are under way: what is chosen here is marked so.
//!
//! A scale of `n` divides the requests, with them the addresses and the cache, and the disk by `n`: a seek over a part of the
//! disk takes as long. Times, request sizes and units stay. The drive of the cache has less flash
//! from a 64th on, and is never full.
//!
//! The disk's buffer for writes is divided likewise: else a small run would write no more than the buffer holds, and the
//! disk would serve reads of all that was written from there, without a seek.

use wharf_drive::DriveConfig;
use wharf_workload::profiles::Profile;

use super::{Load, Scale};
use crate::config::{ConfigError, HostConfig, Sets, load_drive, load_host};
use crate::input::{ClientRule, Made};
use crate::reproduce::run::Run;
use crate::reproduce::runs::Gap;

/// Requests under way: our choice, so that the disk has something to choose from.
pub(super) const DEPTH: u32 = 4;

/// CPUs that make requests: our choice.
pub const CLIENTS: u32 = 2;

/// The table of this project's machine: hardly anything here depends on the CPU.
pub(super) const COSTS: &str = "default";

/// Requests are dealt in turn: the traces name nobody.
pub(super) const RULE: ClientRule = ClientRule::RoundRobin;

/// Bytes of the disk at full size (section IV-A).
const DISK_BYTES: u64 = 2_000_398_934_016;

/// The cache, as a share of the pages that a workload touches: the paper's example has 200 GB before 2 TB (section III-A).
const CACHE: &str = "10%";

/// From this scale on 2 GiB of flash, with an eighth of the channels, are far more than the cache takes: a large drive would
/// take most of the time of a run to be made.
const SMALL_DIVISOR: u32 = 64;

/// The buffer of the disk holds the largest request at least.
const BUFFER_BYTES_MIN: u64 = 128 << 10;

/// The drive of the cache.
///
/// # Errors
/// A drive that cannot be built; a test builds one of every scale.
pub(super) fn drive(scale: Scale, run: &Run) -> Result<DriveConfig, ConfigError> {
    let preset = if scale.divisor < SMALL_DIVISOR {
        "tc-csd"
    } else {
        "tc-csd-small"
    };
    let sets: &[String] = match run.is_incompressible {
        true => &["drive.compression.sizes=ratio=1.0".into()],
        false => &[],
    };
    Ok(load_drive(preset, &Sets::parse(sets)?)?.0)
}

/// The disk.
///
/// # Errors
/// As for [`drive`].
pub(super) fn backing(scale: Scale) -> Result<DriveConfig, ConfigError> {
    let bytes = DISK_BYTES / u64::from(scale.divisor) / (1 << 20) * (1 << 20);
    let sets = vec![format!("drive.disk.capacity_bytes={bytes}")];
    let mut disk = load_drive("hdd", &Sets::parse(&sets)?)?.0;
    let heads = disk.disk.as_mut().expect("the preset is a disk");
    let buffer_bytes = heads.write_buffer_bytes / u64::from(scale.divisor);
    heads.write_buffer_bytes = buffer_bytes.max(BUFFER_BYTES_MIN);
    Ok(disk)
}

/// The host of a run: what is on the disk, and by which rules sectors leave.
///
/// # Errors
/// A key that this build does not have.
pub(super) fn host(run: &Run) -> Result<HostConfig, ConfigError> {
    let mut sets = vec![
        format!("host.cache={CACHE}"),
        // The paper does not say that anything is not brought into the cache.
        "design.indexless.sequential_cutoff_bytes=0".to_string(),
    ];
    match run.unit_kib {
        0 => sets.push("design.indexless.store=chunks".into()),
        kib => sets.extend([
            "design.indexless.store=fixed".to_string(),
            format!("design.indexless.unit_pages={}", kib / 4),
        ]),
    }
    if run.by_the_paper {
        sets.push("design.indexless.by_the_paper=true".into());
    }
    Ok(load_host("default", &Sets::parse(&sets)?)?.0)
}

/// The requests of a run on such a device.
///
/// # Errors
/// No such profile.
pub(super) fn load(scale: Scale, run: &Run, seed: u64, device_bytes: u64) -> Result<Load, Gap> {
    let found = Profile::by_name(&run.workload);
    let profile = found.ok_or_else(|| Gap::missing(format!("no profile '{}'", run.workload)))?;
    let once = (profile.table.requests / u64::from(scale.divisor)).max(1);
    Ok(Load::made(
        &run.workload,
        Made::Profile {
            profile,
            requests: Some(scale.at_most(once)),
            footprint_bytes: Some(profile.footprint_bytes(once).min(device_bytes)),
            seed,
        },
    ))
}

/// What a reader has to know.
pub(super) fn notes(scale: Scale) -> Vec<String> {
    vec![
        format!(
            "{scale}: a disk of {} GB (preset hdd, its write buffer smaller likewise) behind a drive of preset tc-csd (tc-csd-small from 1/64 on), a cache of 10 % of the pages that a workload \
             touches, {CLIENTS} clients with {DEPTH} requests each under way; rounds of 5 % of the cache, of 0.5 % and the other \
             rules of the paper where a figure says 'as written'",
            DISK_BYTES / u64::from(scale.divisor) / 1_000_000_000
        ),
        "lun0 is fitted to the published sample of its trace (999 requests); lun2, lun4 and the programs of HiBench are invented \
         within what the paper says of them (small and large requests)"
            .into(),
        "cache size in the figures, length of the traces, data, codec and queue depth are not said in the paper; pages compress as \
         those of a Linux system (mean 2.0 times)"
            .into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::setup::SCALE_MAX;
    use crate::reproduce::variant::LRU;

    #[test]
    fn disks_of_every_scale_can_be_built() {
        for power in 0..=SCALE_MAX.ilog2() {
            let scale = Scale::new(1 << power).unwrap();
            let run = LRU.before_a_disk("lun0");
            let (disk, flash) = (backing(scale).unwrap(), drive(scale, &run).unwrap());
            let buffer_bytes = disk.disk.as_ref().unwrap().write_buffer_bytes;
            let divided = (64 << 20) / u64::from(scale.divisor);
            assert_eq!(buffer_bytes, divided.max(BUFFER_BYTES_MIN));
            // Of the largest workload some 260 GB are touched.
            let cached = 26_000_000_000 / u64::from(scale.divisor);
            assert!(flash.geometry.pages() * 4096 > 2 * cached);
            assert!(disk.namespace_pages() * 4096 > DISK_BYTES / u64::from(scale.divisor) * 9 / 10);
        }
    }
}
