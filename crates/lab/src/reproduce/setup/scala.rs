//! The set-up of the ScalaCache paper, as large as it is or smaller in proportion.
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

use wharf_drive::DriveConfig;
use wharf_drive::config::FrameIndex;
use wharf_workload::profiles::Profile;

use super::{Load, Scale};
use crate::config::{ConfigError, HostConfig, Sets, load_drive, load_host};
use crate::input::{ClientRule, Made};
use crate::replay::Submission;
use crate::reproduce::run::Run;
use crate::reproduce::runs::Gap;
use crate::reproduce::variant::{CLIENTS, KERNEL, SCALA, TRI_2M};

/// Requests that each client keeps in flight (section 6.2).
pub(super) const DEPTH: u32 = 32;

/// The table of the paper's machine.
pub(super) const COSTS: &str = "scalacache-host";

/// Who makes requests: a process stays with a client, as in the authors' program (`perf_mt` takes a
/// trace's process number modulo its threads).
pub(super) const RULE: ClientRule = ClientRule::Process;

/// Dhrystone MIPS of a CPU of the cost table, whose costs a core of the drive pays `slowness` times: Dhrystone 2.1 on the
/// machine of table `default`, gcc 12.2 -O3 with optimisation over both files, the mean of runs between 27,100 and 27,800.
const HOST_DMIPS: f64 = 27_450.0;

/// Dhrystone MIPS by MHz of an Arm Cortex-R8, the core of the SSD controllers that the paper compares with (Marvell Bravera
/// SC5): Arm's figure for Cortex-R7, whose pipeline it has, likewise with optimisation over files.
const CORE_DMIPS_BY_MHZ: f64 = 3.77;

/// The clock that the prior work which the paper matches gives its in-storage cores (FusionFS; OmniCache, Table 4).
const CORE_MHZ: f64 = 1_200.0;

/// How many times longer than a CPU of the host a core of the drive works.
pub(in crate::reproduce) fn slowness() -> f64 {
    HOST_DMIPS / (CORE_DMIPS_BY_MHZ * CORE_MHZ)
}

/// The kernel's cache serves the requests of a client in turn: the authors' program (`aio_perf_mt`) opens the drive
/// without `O_DIRECT` and submits by libaio, which does such requests within `io_submit`.
pub(super) fn submission(run: &Run) -> Submission {
    match run.design == KERNEL.design {
        true => Submission::InTurn,
        false => Submission::Together,
    }
}

/// What pages per block are divided by; blocks per plane take the rest.
fn pages_divisor(scale: Scale) -> u32 {
    1 << (scale.divisor.ilog2() * 2).div_ceil(3)
}

/// The drive of a run.
///
/// # Errors
/// A drive that cannot be built; a test builds one of every scale.
pub(super) fn drive(scale: Scale, run: &Run) -> Result<DriveConfig, ConfigError> {
    let (whole, _) = load_drive("scala", &Sets::default())?;
    let pages = pages_divisor(scale);
    let blocks = scale.divisor / pages;
    let mut sets = vec![
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
        format!("drive.firmware.slowness={:.2}", slowness()),
    ];
    if run.frame_index == FrameIndex::Hash {
        sets.push("drive.host_memory.index=hash".into());
    }
    Ok(load_drive("scala", &Sets::parse(&sets)?)?.0)
}

/// The host of a run: the cache is a share of one drive, as the paper has it.
///
/// # Errors
/// A key that this build does not have: the design that brings it is missing.
pub(super) fn host(run: &Run) -> Result<HostConfig, ConfigError> {
    let mut sets = vec![
        "host.cache_of=drive".to_string(),
        format!("host.stripe_bytes={}", u64::from(run.stripe_kib) << 10),
    ];
    if run.design == TRI_2M.design {
        // The published TriCache reads a page that it does not have also where a write replaces it whole.
        sets.push("design.tri.reads_before_overwrite=true".into());
    }
    if run.managers > 0 {
        sets.push(format!("design.tri.managers={}", run.managers));
    }
    if !run.gc_aware {
        sets.push("design.scala.gc_aware=false".into());
    }
    Ok(load_host("default", &Sets::parse(&sets)?)?.0)
}

/// The profile that a run names.
pub(super) fn profile(run: &Run) -> Option<&'static Profile> {
    Profile::by_name(&run.workload)
}

/// The requests of a run on such a device.
///
/// # Errors
/// No such profile.
pub(super) fn load(scale: Scale, run: &Run, seed: u64, device_bytes: u64) -> Result<Load, Gap> {
    let found = profile(run);
    let profile = found.ok_or_else(|| Gap::missing(format!("no profile '{}'", run.workload)))?;
    let (requests, footprint_bytes) = requests(scale, profile, run.stretch, device_bytes);
    Ok(Load::made(
        &run.workload,
        Made::Profile {
            profile,
            requests: Some(requests),
            footprint_bytes: Some(footprint_bytes),
            seed,
        },
    ))
}

/// Requests of a profile, `stretch` times as many as the scale gives, and the address range that they
/// fall in, which is that of the scale and lies on the device.
fn requests(scale: Scale, profile: &Profile, stretch: u32, device_bytes: u64) -> (u64, u64) {
    let once = (profile.table.requests / u64::from(scale.divisor)).max(1);
    let requests = scale.at_most(once * u64::from(stretch));
    (requests, profile.footprint_bytes(once).min(device_bytes))
}

/// What a reader has to know of the set-up.
pub(super) fn notes(scale: Scale) -> Vec<String> {
    let run = SCALA.clients("", CLIENTS);
    let drive = drive(scale, &run).expect("the program's own preset");
    let gib = drive.namespace_pages() as f64 * 4096.0 / (1u64 << 30) as f64;
    vec![
        format!(
            "{scale}: drives of {gib:.2} GiB ({} blocks of {} pages a plane), cache 18.75 % of them, requests of the profiles in proportion, \
             flash times as in the paper, erase {:.2} ms",
            drive.geometry.blocks_per_plane,
            drive.geometry.pages_per_block,
            drive.timing.erase_ns as f64 / 1e6,
        ),
        "workloads are profiles fitted to the paper's Table 2, as its traces cannot be shipped"
            .into(),
        format!(
            "8 clients and 4 firmware cores a drive where a figure says nothing else, {DEPTH} requests of each client in flight, a \
             process of the workload staying with a client; the kernel's cache serves them in turn"
        ),
        format!(
            "cores of the drive {:.1} times as slow as the host's CPUs, by their Dhrystone MIPS",
            slowness()
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::setup::SCALE_MAX;

    #[test]
    fn every_scale_divides_the_flash_and_can_be_built() {
        let run = Run::sample();
        let whole = drive(Scale::new(1).unwrap(), &run).unwrap();
        for power in 0..=SCALE_MAX.ilog2() {
            let scale = Scale::new(1 << power).unwrap();
            let drive = drive(scale, &run).unwrap();
            assert_eq!(drive.geometry.pages() << power, whole.geometry.pages());
            let erase_per_page =
                |d: &DriveConfig| d.timing.erase_ns as f64 / f64::from(d.geometry.pages_per_block);
            assert_eq!(erase_per_page(&drive), erase_per_page(&whole));
        }
        assert_eq!(Scale::new(3), None);
        assert_eq!(Scale::new(2048), None);
    }

    #[test]
    fn a_core_of_the_drive_is_as_slow_as_its_dhrystone_mips_say() {
        let drive = drive(Scale::new(128).unwrap(), &Run::sample()).unwrap();
        assert_eq!(drive.firmware.slowness, 6.07);
    }

    #[test]
    fn the_kernels_cache_alone_serves_a_clients_requests_in_turn() {
        assert_eq!(submission(&Run::sample()), Submission::Together);
        let kernel = KERNEL.clients("webmail", CLIENTS);
        assert_eq!(submission(&kernel), Submission::InTurn);
    }

    #[test]
    fn a_stretched_run_has_more_requests_in_the_same_range() {
        let scale = Scale::new(128).unwrap();
        let profile = Profile::by_name("T1205").unwrap();
        let (once, range) = requests(scale, profile, 1, u64::MAX);
        assert_eq!(requests(scale, profile, 8, u64::MAX), (8 * once, range));
    }
}
