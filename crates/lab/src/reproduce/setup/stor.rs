//! The set-up of the StorStack paper (section 4.1), smaller in proportion: a host of eight CPUs, a device of four cores over
//! persistent memory, files of 1 GB that are read and written at random and of 8 GB that are gone through in order.
//!
//! A scale of `n` divides files, cache and requests by `n`. Times, request sizes, threads and cores stay. A random workload makes as
//! many requests as its file has of them, a sequential one goes through its file once.
//!
//! The media keep bytes: file systems write whole pages of metadata, and the smallest request has 1 KiB. Above an eighth of the paper's sizes
//! they are `mixed`.

use wharf_drive::DriveConfig;
use wharf_workload::files::{FileJob, FileSpec, Personality};

use super::{Load, Scale};
use crate::config::{ConfigError, HostConfig, Sets, load_drive, load_host};
use crate::input::ClientRule;
use crate::reproduce::run::{Mode, Run};
use crate::reproduce::runs::Gap;

/// Requests under way of a thread.
pub(super) const DEPTH: u32 = 1;

/// The table of this project's machine.
pub(super) const COSTS: &str = "default";

/// A thread stays with its client.
pub(super) const RULE: ClientRule = ClientRule::Stream;

/// Bytes of the file of random workloads at full size (section 4.2).
const RANDOM_BYTES: u64 = 1 << 30;

/// Bytes of the file of sequential workloads at full size (section 4.2).
const SEQUENTIAL_BYTES: u64 = 8 << 30;

/// Bytes of the host's memory, which is a page cache, at full size (section 4.1).
const CACHE_BYTES: u64 = 16 << 30;

/// The smallest that a file of a scaled run is.
const FILE_BYTES_MIN: u64 = 4 << 20;

/// What threads do, and how many of them only write.
#[derive(Debug, Clone, Copy)]
struct Job {
    personality: Personality,
    threads: u32,
    writers: u32,
}

/// The job of a workload.
fn job(workload: &str) -> Option<Job> {
    let (personality, threads, writers) = match workload {
        "random reads" => (Personality::RandomFiles, 1, 0),
        "random writes" => (Personality::RandomFiles, 1, 1),
        "sequential reads" => (Personality::SequentialFiles, 1, 0),
        "sequential writes" => (Personality::SequentialFiles, 1, 1),
        "4 readers" => (Personality::RandomFiles, 4, 0),
        "3 readers and 1 writer" => (Personality::RandomFiles, 4, 1),
        "1 reader and 3 writers" => (Personality::RandomFiles, 4, 3),
        "4 writers" => (Personality::RandomFiles, 4, 4),
        _ => return None,
    };
    Some(Job {
        personality,
        threads,
        writers,
    })
}

/// Bytes of a workload's file.
fn file_bytes(scale: Scale, workload: &str) -> u64 {
    let whole = match job(workload).map(|job| job.personality) {
        Some(Personality::SequentialFiles) => SEQUENTIAL_BYTES,
        _ => RANDOM_BYTES,
    };
    (whole / u64::from(scale.divisor)).max(FILE_BYTES_MIN)
}

/// The drive: persistent memory behind four cores, with room for the file, the file system and pages under way.
///
/// # Errors
/// A drive that cannot be built; a test builds one of every scale.
pub(super) fn drive(scale: Scale, run: &Run) -> Result<DriveConfig, ConfigError> {
    let (whole, _) = load_drive("pmem", &Sets::default())?;
    let planes = whole.geometry.pages() / u64::from(whole.geometry.blocks_per_plane);
    let pages = file_bytes(scale, &run.workload) / 4096 * 3 / 2 + (64 << 20) / 4096;
    // Half on the way there, half on the way back.
    let latency_ns = whole.link.latency_ns + u64::from(run.added_us) * 500;
    let mut sets = vec![
        format!("drive.geometry.blocks_per_plane={}", pages.div_ceil(planes)),
        format!("drive.link.latency_ns={latency_ns}"),
        format!("drive.firmware.cores={}", run.cores),
        format!("drive.media.kind={}", scale.media_kind()),
    ];
    if let Some(check) = token_check(run.mode) {
        sets.push(format!("drive.firmware.token_check={check}"));
    }
    if matches!(run.mode, Mode::Bytes | Mode::CachedBytes) || token_check(run.mode).is_some() {
        // Beside as much flash, which nobody writes.
        sets.push("drive.file_system=wpm".into());
        sets.push(format!("drive.persistent_memory.bytes={}", pages * 4096));
    }
    Ok(load_drive("pmem", &Sets::parse(&sets)?)?.0)
}

/// How tokens are checked, in the figure that is about that.
fn token_check(mode: Mode) -> Option<&'static str> {
    match mode {
        Mode::Trusting => Some("off"),
        Mode::TokensCompared => Some("cached"),
        Mode::CodeEachTime => Some("every"),
        _ => None,
    }
}

/// The host of a run.
///
/// # Errors
/// A key that this build does not have: the design that brings it is missing.
pub(super) fn host(scale: Scale, run: &Run) -> Result<HostConfig, ConfigError> {
    let mut sets = vec![
        format!("host.cache={}", CACHE_BYTES / u64::from(scale.divisor)),
        format!("host.in_kernel={}", run.in_kernel),
    ];
    if matches!(run.mode, Mode::CachedBlocks | Mode::CachedBytes) {
        sets.push("design.stor.cache=write-back".into());
        // The threads are those of one process.
        sets.push(format!("design.stor.threads={}", run.clients));
    }
    let of_design: &[&str] = match run.mode {
        // Which file system it is, the drive says.
        Mode::Usual | Mode::Blocks | Mode::Bytes | Mode::CachedBlocks | Mode::CachedBytes => &[],
        // How it checks, too.
        Mode::Trusting | Mode::TokensCompared | Mode::CodeEachTime => &[],
        // Of another design.
        Mode::Omni(_) => &[],
        Mode::Direct => &["design.ext4-model.direct=true"],
        Mode::ByInode => &["design.stor.placement=by-inode"],
        Mode::RoundRobin => &["design.stor.placement=round-robin"],
        Mode::LeastLoaded => &["design.stor.placement=least-loaded"],
        Mode::ReadSpread => &["design.stor.placement=read-spread"],
    };
    sets.extend(of_design.iter().map(|set| set.to_string()));
    Ok(load_host("default", &Sets::parse(&sets)?)?.0)
}

/// The operations of a run.
///
/// # Errors
/// No such workload.
pub(super) fn load(scale: Scale, run: &Run, seed: u64) -> Result<Load, Gap> {
    let missing = || Gap::missing(format!("no workload '{}'", run.workload));
    let job = job(&run.workload).ok_or_else(missing)?;
    let bytes = file_bytes(scale, &run.workload);
    let request_bytes = run.request_kib << 10;
    let spec = FileSpec {
        personality: job.personality,
        requests: scale.at_most(bytes / u64::from(request_bytes)),
        files: 1,
        threads: job.threads,
        footprint_bytes: Some(bytes),
        request_bytes,
        stride_bytes: None,
        job: FileJob {
            writers: Some(job.writers),
            ..FileJob::default()
        },
        seed,
    };
    Ok(Load::files(&run.workload, spec))
}

/// What a reader has to know.
pub(super) fn notes(scale: Scale) -> Vec<String> {
    let mib = |bytes: u64| (bytes >> 20) / u64::from(scale.divisor);
    vec![
        format!(
            "{scale}: files of {} MiB (random) and {} MiB (sequential) on a drive of preset pmem with four cores, a page cache of {} MiB; one thread, or four on \
             one file, with one request each under way",
            mib(RANDOM_BYTES),
            mib(SEQUENTIAL_BYTES),
            mib(CACHE_BYTES),
        ),
        "the paper's device is a process whose file system is that of the physical host over persistent memory (memmap), and its host a virtual machine: \
         what leaving the virtual machine costs is in all of its figures, and in none of these"
            .into(),
        "the paper prints no error bars, and MB/s alone".into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::setup::SCALE_MAX;
    use crate::reproduce::variant::DIRECT_ALONE;

    #[test]
    fn drives_of_every_scale_hold_their_files_with_room_for_a_file_system() {
        for power in 0..=SCALE_MAX.ilog2() {
            let scale = Scale::new(1 << power).unwrap();
            for workload in ["random reads", "sequential writes"] {
                let run = DIRECT_ALONE.on_files(workload);
                let shown = drive(scale, &run).unwrap().namespace_pages() * 4096;
                assert!(shown > file_bytes(scale, workload) * 5 / 4);
                host(scale, &run).unwrap();
            }
        }
    }

    #[test]
    fn what_is_added_is_on_the_link() {
        let scale = Scale::new(64).unwrap();
        let with = |added_us| {
            let run = Run {
                added_us,
                ..DIRECT_ALONE.on_files("random reads")
            };
            drive(scale, &run).unwrap().link.latency_ns
        };
        assert_eq!(with(25) - with(0), 12_500);
    }
}
