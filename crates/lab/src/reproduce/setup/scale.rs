//! The set-up of the ScaleCache paper (section 4), smaller in proportion: 64 CPUs with a thread each, a file
//! of 3 GiB for each thread, 60 GiB of page cache, up to eight Optane drives.
//!
//! A scale of `n` divides files, cache and drives by `n`. Times, clients, request and stripe sizes stay, and
//! with them how many requests the drives can serve at once.
//!
//! 1. The volume is 64 files (128 in the programs of section 4.2 that have more), one after
//!    another, each with the blocks that a thread works on and the better part of a stripe besides:
//!    with files of whole stripes all threads that write in order would begin on the same drive and
//!    go on to the next together.
//! 2. The volume is as large whatever the number of drives, so that only that number changes.
//! 3. A drive has more spare flash than its preset: the model writes each page to a new place, and of
//!    a small drive the preset's share would be less than what is under way.
//!
//! 4. The programs of section 4.2 run for a time, as their authors ran them, and that is divided too. What a process makes in it
//!    is up to its speed.
//!
//! What does not scale: pages under way are a larger part of a smaller cache; pauses of throttled
//! writers, which follow the time in which what is dirty could be written, are shorter; and a file has fewer
//! dirty pages, so that more of the writers flush. Table 1 is of just these. Its runs are larger
//! (`stretch` in its data), and of half the length.

use wharf_drive::DriveConfig;
use wharf_host::volume::Level;
use wharf_workload::files::{FileJob, FileSpec, Personality};
use wharf_workload::generate::ThreadsSpec;

use super::{Load, Scale};
use crate::config::{ConfigError, HostConfig, Sets, load_drive, load_host};
use crate::input::{ClientRule, Made};
use crate::reproduce::run::Run;
use crate::reproduce::runs::Gap;

/// Files, cache and drives of runs which show the tail are `stretch` times as large as others. They need not be larger than
/// this part of the paper's: pauses of 40 ms and more are possible, and a file has thousands of dirty pages.
const TAIL_DIVISOR: u32 = 8;

/// Threads, and files (section 4.1).
pub const THREADS: u32 = 64;

/// Processors of the machine (section 4).
const SOCKETS: u32 = 4;

/// Files of FFSB for one of the other workloads: 1 GiB (the authors' profile).
const FFSB_FILES: u64 = 3;

/// Pages of a file at full size: 3 GiB (section 4.1).
const FILE_PAGES: u64 = 3 << 18;

/// Bytes of the cache at full size: of the machine's 64 GB, what Table 3 gives to pages of files.
const CACHE_BYTES: u64 = 60 << 30;

/// Pages between the blocks of two files: not a whole number of the stripes that are used.
const GAP_PAGES: u64 = 117;

/// Spare flash of a drive.
const OVER_PROVISIONING: f64 = 0.25;

/// Queue pairs that a drive offers: one for each of 64 clients and the services.
const QUEUES: u32 = 96;

/// The table of the paper's machine.
pub(super) const COSTS: &str = "xeon-4socket";

/// Requests of a file go to the client of its thread.
pub(super) const RULE: ClientRule = ClientRule::Stream;

/// The scale of a run.
fn scale_of(scale: Scale, run: &Run) -> Scale {
    let divisor = match run.stretch {
        1 => scale.divisor,
        n => (scale.divisor / n).max(scale.divisor.min(TAIL_DIVISOR)),
    };
    Scale { divisor, ..scale }
}

/// Pages that a thread works on.
fn used_pages(scale: Scale) -> u64 {
    FILE_PAGES / u64::from(scale.divisor)
}

/// Files of a workload, and the pages of each. The programs of section 4.2 are those that the
/// authors publish, which have a second set of files, or room for new ones.
fn files_of(scale: Scale, workload: &str) -> (u32, u64) {
    let pages = used_pages(scale);
    match Personality::by_name(workload) {
        Some(Personality::FfsbScaleCache) => (
            Personality::FfsbScaleCache.files_default(),
            pages / FFSB_FILES,
        ),
        Some(personality) => (personality.files_default(), pages),
        None => (THREADS, pages),
    }
}

/// Requests in flight of each client: the threads that it has.
pub(super) fn depth(run: &Run) -> u32 {
    THREADS.div_ceil(run.clients)
}

/// One of the drives that together hold the files.
///
/// # Errors
/// A drive that cannot be built; a test builds one of every scale.
pub(super) fn drive(scale: Scale, run: &Run) -> Result<DriveConfig, ConfigError> {
    let scale = scale_of(scale, run);
    let (whole, _) = load_drive("optane", &Sets::default())?;
    let geometry = &whole.geometry;
    let (files, file_pages) = files_of(scale, &run.workload);
    let volume_pages = u64::from(files) * (file_pages + GAP_PAGES);
    let stripe_pages = u64::from(run.stripe_kib) / 4;
    // Drives hold other data only in so many columns. A run on too few of them for its layout is refused when it is made.
    let columns = Level::from(run.layout)
        .columns(run.drives)
        .unwrap_or(run.drives);
    let shown_pages = volume_pages.div_ceil(u64::from(columns)) + stripe_pages;
    let pages = (shown_pages as f64 / (1.0 - OVER_PROVISIONING)).ceil() as u64;
    let planes = geometry.pages() / u64::from(geometry.blocks_per_plane);
    let sets = [
        format!(
            "drive.geometry.blocks_per_plane={}",
            pages.div_ceil(planes) + 1
        ),
        format!("drive.ftl.over_provisioning={OVER_PROVISIONING}"),
        format!("drive.firmware.cores={}", run.cores),
        format!("drive.firmware.queues_max={QUEUES}"),
    ];
    Ok(load_drive("optane", &Sets::parse(&sets)?)?.0)
}

/// The host of a run.
///
/// # Errors
/// A key that this build does not have.
pub(super) fn host(scale: Scale, run: &Run) -> Result<HostConfig, ConfigError> {
    let scale = scale_of(scale, run);
    let sets = [
        format!("host.cache={}", CACHE_BYTES / u64::from(scale.divisor)),
        format!("host.files={}", files_of(scale, &run.workload).0),
        format!("host.in_kernel={}", run.in_kernel),
        // Files of EXT4 and of XFS (section 4).
        "host.file_system=true".into(),
        // MD-RAID makes the arrays (section 4); a single drive is none.
        format!("host.md={}", run.drives > 1),
        // Four processors (section 4), each with memory of its own.
        format!("host.memory_nodes={SOCKETS}"),
        // Linux' lists and lazy deletion are kept (sections 2.1 and 3.2.3).
        "design.scale.replacement=two-lists".into(),
        "design.scale.index_reclaim=lazy".into(),
        // What a flushing writer takes is the dirty pages of a file (section 3.3, and the published code).
        "design.scale.dflush=flush-files".into(),
        "design.kernel.dflush=flush-files".into(),
        format!("host.stripe_bytes={}", u64::from(run.stripe_kib) << 10),
        format!("host.layout={}", Level::from(run.layout)),
    ];
    Ok(load_host("default", &Sets::parse(&sets)?)?.0)
}

/// The requests of a run on such a volume.
///
/// # Errors
/// No such workload.
pub(super) fn load(scale: Scale, run: &Run, seed: u64, device_bytes: u64) -> Result<Load, Gap> {
    let scale = scale_of(scale, run);
    if let Some(personality) = Personality::by_name(&run.workload) {
        return Ok(files(scale, run, seed, personality));
    }
    let (is_random, read_share) = match run.workload.as_str() {
        "random writes" => (true, 0.0),
        "sequential writes" => (false, 0.0),
        "random reads" => (true, 1.0),
        other => return Err(Gap::missing(format!("no workload '{other}'"))),
    };
    let file_bytes = (device_bytes / 4096).div_ceil(THREADS.into()) * 4096;
    let request_bytes = run.request_kib << 10;
    let used_bytes = used_pages(scale) * 4096;
    let whole = used_bytes / u64::from(request_bytes) * u64::from(THREADS);
    let requests = if run.stretch > 1 { whole / 2 } else { whole };
    let spec = ThreadsSpec {
        threads: THREADS,
        file_bytes,
        used_bytes,
        request_bytes,
        is_random,
        read_share,
        requests: scale.at_most(requests),
        seed,
    };
    Ok(Load::threads(&run.workload, spec))
}

/// File operations: for as long as their authors ran the program; of others as many requests as 64 files have pages.
fn files(scale: Scale, run: &Run, seed: u64, personality: Personality) -> Load {
    let (files, file_pages) = files_of(scale, &run.workload);
    let run_ns = personality
        .run_seconds()
        .map(|seconds| seconds * 1_000_000_000 / u64::from(scale.divisor));
    let requests = match run_ns {
        Some(_) => u64::MAX,
        None => used_pages(scale) * u64::from(THREADS),
    };
    let spec = FileSpec {
        personality,
        requests: scale.at_most(requests),
        files,
        threads: THREADS,
        footprint_bytes: Some(u64::from(files) * file_pages * 4096),
        request_bytes: run.request_kib << 10,
        stride_bytes: None,
        job: FileJob::default(),
        seed,
    };
    match run_ns {
        Some(run_ns) => Load::timed(&run.workload, spec, run_ns),
        None => Load::made(&run.workload, Made::Files(spec)),
    }
}

/// What a reader has to know of the set-up.
pub(super) fn notes(scale: Scale) -> Vec<String> {
    let mib = |bytes: u64| (bytes >> 20) / u64::from(scale.divisor);
    vec![
        format!(
            "{scale}: {THREADS} threads with a CPU and a file of {} MiB each, a cache of {} MiB, drives of preset optane that \
             together hold the files, stripes of 512 KiB where a figure says nothing else",
            mib(FILE_PAGES * 4096),
            mib(CACHE_BYTES),
        ),
        "each thread reads or writes its file once from end to end, in order or shuffled, one request at a time, as fio does; fileserver and its \
         like are the programs that the authors publish, and run for as long as theirs, divided by the scale"
            .into(),
        "of a file system there is what it takes for a page that is written (EXT4 of this project's machine): no journal, no inode lock, no \
         allocation of blocks; the paper's EXT4 and XFS are both compared with the one page cache that there is"
            .into(),
        "of MD-RAID there are the cache line that all CPUs share, the search for drive and place, and RAID-5's parity; designs in the program have none of it"
            .into(),
        "ScaleCache keeps Linux' lists, and nodes of its index until their file is deleted; its writers flush whole files, as its published code".into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ArrayLayout;
    use crate::input::Input;
    use crate::replay::volume_bytes;
    use crate::reproduce::setup::SCALE_MAX;
    use crate::reproduce::variant::SCALE;

    #[test]
    fn drives_of_every_scale_can_be_built_and_hold_the_files() {
        for power in 4..=SCALE_MAX.ilog2() {
            let scale = Scale::new(1 << power).unwrap();
            let layouts = [ArrayLayout::Raid0, ArrayLayout::Raid5, ArrayLayout::Raid10];
            for (drives, layout) in [1, 2, 4, 8]
                .into_iter()
                .flat_map(|drives| layouts.map(|layout| (drives, layout)))
            {
                for stripe_kib in [64, 512, 2048] {
                    let run = Run {
                        drives,
                        stripe_kib,
                        layout,
                        ..Run::sample_of_scale()
                    };
                    let (drive, host) = (drive(scale, &run).unwrap(), host(scale, &run).unwrap());
                    if host.check_drives(drives).is_err() {
                        continue;
                    }
                    let bytes = volume_bytes(&drive, drives, &host);
                    let least = u64::from(THREADS) * (used_pages(scale) + GAP_PAGES) * 4096;
                    assert!(bytes >= least, "{drives} drives, {stripe_kib} KiB");
                    assert!(load(scale, &run, 1, bytes).is_ok());
                }
            }
            for (name, personality) in Personality::ALL {
                // Jobs, and what has thousands of files, are not of the paper.
                if personality.is_job() || personality.files_default() > 2 * THREADS {
                    continue;
                }
                let run = SCALE.threads(name, 8);
                let (drive, host) = (drive(scale, &run).unwrap(), host(scale, &run).unwrap());
                let bytes = volume_bytes(&drive, 8, &host);
                let spec = match load(scale, &run, 1, bytes).unwrap().input {
                    Input::Timed { spec, .. } => spec,
                    Input::Generated { spec, .. } => match *spec {
                        Made::Files(spec) => spec,
                        _ => panic!("{name} is of files"),
                    },
                    _ => panic!("{name} is made"),
                };
                let generator = spec.on_volume(bytes).generator();
                assert!(generator.is_ok_and(|g| g.initial().iter().all(|r| r.1 <= bytes)));
                assert_eq!(u64::from(host.files), u64::from(spec.files), "{name}");
            }
        }
    }
}
