//! The set-up of the OmniCache paper (section 6.1), smaller in proportion: an emulated device of four CPUs over four modules of
//! persistent memory, 1 to 32 threads, each with a file of its own, 64 GB of data in all and 20 GB of cache, of which 4 GB are in the
//! device.
//!
//! A scale of `n` divides data, cache and requests by `n`. Times, request sizes, threads and cores stay. Threads together make as many
//! requests as the data has of them: those in order go through their file once.

use wharf_drive::DriveConfig;
use wharf_workload::files::{FileJob, FileSpec, Personality};

use super::{Load, Scale};
use crate::config::{ConfigError, HostConfig, Sets, load_drive, load_host};
use crate::input::ClientRule;
use crate::reproduce::run::{Device, Mode, OmniMode, Run};
use crate::reproduce::runs::Gap;
use crate::reproduce::variant::NOVA;

/// Requests under way of a thread.
pub(super) const DEPTH: u32 = 1;

/// The table of this project's machine.
pub(super) const COSTS: &str = "default";

/// A thread stays with its client.
pub(super) const RULE: ClientRule = ClientRule::Stream;

/// Threads, where a figure does not go through numbers of them.
pub(in crate::reproduce) const THREADS: u32 = 32;

/// Bytes of all files at full size.
const DATA_BYTES: u64 = 64 << 30;

/// Bytes of both caches together at full size.
const CACHE_BYTES: u64 = 20 << 30;

/// The share of the cache that the device has: 4 of 20 GB.
const DEVICE_SHARE: f64 = 0.2;

/// Records of the key-value stores under YCSB (section 6.6), and their bytes.
const RECORDS: u64 = 40_000_000;
const RECORD_BYTES: u32 = 512;

/// Records of the key-value stores under db_bench (section A.2.2). Each has a value of 4 KiB.
const BENCH_RECORDS: u64 = 1_000_000;

/// Files of each store, and the least that one has.
const STORE_FILES: u32 = 48;
const STORE_FILE_BYTES_MIN: u64 = 64 << 10;

/// An epoch at full size (section 4.2.3), in nanoseconds.
const EPOCH_NS: u64 = 30_000_000_000;

/// The least that the files of a scaled run have together.
const DATA_BYTES_MIN: u64 = 4 << 20;

/// What threads do: whether in order, and how many of them write.
fn job(workload: &str, threads: u32) -> Option<(Personality, u32)> {
    Some(match workload {
        "random reads" => (Personality::RandomFiles, 0),
        "random writes" => (Personality::RandomFiles, threads),
        "sequential reads" => (Personality::SequentialFiles, 0),
        "sequential writes" => (Personality::SequentialFiles, threads),
        SHARED => (Personality::RandomFiles, threads / 2),
        "read, CRC, write" => (Personality::CrcFiles, 0),
        NEAREST => (Personality::KnnFiles, 0),
        "YCSB A" => (Personality::LsmA, 0),
        "YCSB B" => (Personality::LsmB, 0),
        "YCSB C" => (Personality::LsmC, 0),
        "YCSB D" => (Personality::LsmD, 0),
        "YCSB E" => (Personality::LsmE, 0),
        "YCSB F" => (Personality::LsmF, 0),
        "fillrandom" => (Personality::LsmFillRandom, 0),
        "readrandom" => (Personality::LsmReadRandom, 0),
        _ => return None,
    })
}

/// The workload whose threads share one file.
const SHARED: &str = "half readers and half writers of one file";

/// The workload whose threads search one file.
const NEAREST: &str = "nearest vectors of one file";

fn data_bytes(scale: Scale) -> u64 {
    (DATA_BYTES / u64::from(scale.divisor)).max(DATA_BYTES_MIN)
}

/// Rows of blocks, one of each plane, that a drive of flash has at least.
const ROWS_MIN: u64 = 64;

/// The drive: persistent memory, or flash, behind four cores and a link, with room for the files and the file system.
///
/// # Errors
/// A drive that cannot be built; a test builds one of every scale.
pub(super) fn drive(scale: Scale, run: &Run) -> Result<DriveConfig, ConfigError> {
    let preset = if run.is_on_flash { "tlc" } else { "pmem" };
    let (whole, _) = load_drive(preset, &Sets::default())?;
    let rows = u64::from(whole.geometry.blocks_per_plane);
    let row_pages = whole.geometry.pages() / rows;
    let pages = data_bytes(scale) / 4096 * 3 / 2 + (64 << 20) / 4096;
    let rows = pages.div_ceil(row_pages);
    let mut sets = vec![
        format!("drive.media.kind={}", scale.media_kind()),
        format!("drive.firmware.cores={}", run.cores),
        // A queue of each file (section 3.2), whose commands go to the cores in turn.
        format!("drive.firmware.queues_max={}", run.clients),
    ];
    sets.extend(speed(run.device));
    if run.mode == Mode::Omni(OmniMode::Cxl) {
        sets.push("drive.link.kind=cxl".into());
    }
    let of_media = match run.is_on_flash {
        true => vec![format!(
            "drive.geometry.blocks_per_plane={}",
            rows.max(ROWS_MIN)
        )],
        // What the host has in the place of the drive is as large.
        false if run.design == NOVA.design => {
            vec![format!("drive.geometry.blocks_per_plane={rows}")]
        }
        false => vec![
            // Beside as much flash, which nobody writes.
            format!("drive.geometry.blocks_per_plane={rows}"),
            "drive.file_system=wpm".into(),
            format!("drive.persistent_memory.bytes={}", pages * 4096),
            // Our choice: eight lanes of PCIe 4.0. The paper's device is on the other socket.
            "drive.link.to_host_mb_s=16000".into(),
            "drive.link.from_host_mb_s=16000".into(),
        ],
    };
    sets.extend(of_media);
    Ok(load_drive(preset, &Sets::parse(&sets)?)?.0)
}

/// What a drive so fast has (Figure 9, Table 4): how slow its cores are beside the host's of 2.7 GHz, its memory, and half of what the
/// link takes there and back.
fn speed(device: Device) -> Vec<String> {
    let (slowness, memory_gb_s, link_ns) = match device {
        // Memory does not hold it up.
        Device::Usual => (1.0, None, 900),
        Device::Fast => (1.0, Some(120), 900),
        Device::Middle => (2.7 / 2.0, Some(60), 1_200),
        Device::Slow => (2.7 / 1.2, Some(16), 1_500),
        Device::SlowCpu => (2.7 / 1.2, None, 900),
        Device::SlowMemory => (1.0, Some(16), 900),
    };
    let mut sets = vec![
        format!("drive.firmware.slowness={slowness}"),
        format!("drive.link.latency_ns={}ns", link_ns / 2),
    ];
    sets.extend(memory_gb_s.map(|gb_s: u32| format!("drive.memory.mb_s={}", gb_s * 1_000)));
    sets
}

/// The host of a run.
///
/// # Errors
/// A key that this build does not have: the design that brings it is missing.
pub(super) fn host(scale: Scale, run: &Run) -> Result<HostConfig, ConfigError> {
    let cache_bytes = match run.cache_percent {
        0 => CACHE_BYTES / u64::from(scale.divisor),
        percent => data_bytes(scale) * u64::from(percent) / 100,
    };
    let mode = match run.mode {
        Mode::Omni(mode) => Some(mode),
        _ => None,
    };
    let (caches, read_fill) = match mode {
        Some(OmniMode::HostAlone | OmniMode::PageCache) => ("host", "host"),
        Some(OmniMode::NoCache) => ("none", "host"),
        Some(OmniMode::PaperReads) => ("both", "paper"),
        _ => ("both", "host"),
    };
    let without = match mode {
        Some(OmniMode::NoRanges) => "ranges",
        Some(OmniMode::NoExclusion) => "exclusion",
        Some(OmniMode::NoNearIo) => "near-io",
        _ => "nothing",
    };
    let epoch_ns = match mode {
        Some(OmniMode::NoEpochs) => 0,
        _ => EPOCH_NS / u64::from(scale.divisor),
    };
    let compute = match mode {
        Some(OmniMode::HostAlone | OmniMode::HostComputes) => "host",
        Some(OmniMode::NoCache | OmniMode::DriveComputes) => "drive",
        Some(OmniMode::PresenceComputes) => "presence",
        Some(OmniMode::DataComputes) => "data",
        Some(OmniMode::ExecComputes | OmniMode::PageCache) => "exec",
        _ => "dynamic",
    };
    let sets = [
        format!("host.in_kernel={}", run.in_kernel),
        format!("design.omni.compute={compute}"),
        format!("design.omni.epoch_ns={epoch_ns}ns"),
        format!("host.cache={cache_bytes}"),
        format!("design.omni.caches={caches}"),
        format!("design.omni.read_fill={read_fill}"),
        format!("design.omni.without={without}"),
        format!("design.omni.device_share={DEVICE_SHARE}"),
        // The threads are those of one process.
        format!("design.omni.threads={}", run.clients),
    ];
    Ok(load_host("default", &Sets::parse(&sets)?)?.0)
}

/// The operations of a run.
///
/// # Errors
/// No such workload.
pub(super) fn load(scale: Scale, run: &Run, seed: u64) -> Result<Load, Gap> {
    let missing = || Gap::missing(format!("no workload '{}'", run.workload));
    let (personality, writers) = job(&run.workload, run.clients).ok_or_else(missing)?;
    if personality.is_lsm() {
        return Ok(Load::files(
            &run.workload,
            store(scale, run, personality, seed),
        ));
    }
    let request_bytes = run.request_kib << 10;
    let once = data_bytes(scale) / u64::from(request_bytes);
    let spec = FileSpec {
        personality,
        requests: scale.at_most(once * u64::from(run.stretch)),
        files: match run.workload.as_str() {
            SHARED | NEAREST => 1,
            _ => run.clients,
        },
        threads: run.clients,
        footprint_bytes: Some(data_bytes(scale)),
        request_bytes,
        stride_bytes: None,
        job: FileJob {
            writers: Some(writers),
            ..FileJob::default()
        },
        seed,
    };
    Ok(Load::files(&run.workload, spec))
}

/// A key-value store of each thread, in a quarter of the files.
fn store(scale: Scale, run: &Run, personality: Personality, seed: u64) -> FileSpec {
    let files = run.clients * STORE_FILES;
    let least = u64::from(files) * STORE_FILE_BYTES_MIN;
    let footprint = |records: u64, bytes: u32| {
        (records * u64::from(bytes) * 4 / u64::from(scale.divisor)).max(least)
    };
    let (record_bytes, footprint, records) = match personality {
        Personality::LsmFillRandom | Personality::LsmReadRandom => {
            let bytes = personality.request_bytes_default();
            let footprint = footprint(BENCH_RECORDS, bytes);
            // Small stores are larger than in proportion.
            (bytes, footprint, footprint / 4 / u64::from(bytes))
        }
        _ => {
            let footprint = footprint(RECORDS, RECORD_BYTES);
            (RECORD_BYTES, footprint, RECORDS / u64::from(scale.divisor))
        }
    };
    FileSpec {
        personality,
        requests: scale.at_most(records * 4),
        files,
        threads: run.clients,
        footprint_bytes: Some(footprint),
        request_bytes: record_bytes,
        stride_bytes: None,
        job: FileJob::default(),
        seed,
    }
}

/// What a reader has to know.
pub(super) fn notes(scale: Scale) -> Vec<String> {
    let mib = |bytes: u64| (bytes >> 20) / u64::from(scale.divisor);
    vec![
        format!(
            "{scale}: {} MiB of data and {} MiB of cache, a fifth of it in the drive; the drive is of preset pmem with its modules as persistent memory (wpm), \
             four cores, and a link of 900 ns there and back and 16 GB/s each way; one request of a thread under way",
            mib(DATA_BYTES),
            mib(CACHE_BYTES),
        ),
        "what is on flash (Table 5) is on a drive of preset tlc: four cores, and a link of 3.2 GB/s each way; the paper does not say which drive it had".into(),
        "all caches are empty when a run begins, but for what is left of making the files: each design makes them in its own way before".into(),
        "the paper prints no error bars, and its artifact cannot have measured what it describes: near-cache I/O is compiled out, and what is evicted dirty is lost"
            .into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf_host::nova::NovaConfig;

    use crate::reproduce::setup::SCALE_MAX;
    use crate::reproduce::variant::OMNI;

    #[test]
    fn drives_of_every_scale_hold_their_files_with_room_for_a_file_system() {
        for power in 0..=SCALE_MAX.ilog2() {
            let scale = Scale::new(1 << power).unwrap();
            let run = OMNI.on_private_files("random reads");
            let memory = drive(scale, &run).unwrap().persistent_memory.bytes;
            assert!(memory > data_bytes(scale) * 5 / 4);
            let on_flash = Run {
                is_on_flash: true,
                ..run.clone()
            };
            let drive = drive(scale, &on_flash).unwrap();
            assert!(drive.geometry.pages() * 4096 > data_bytes(scale) * 5 / 4);
            host(scale, &run).unwrap();
        }
    }

    #[test]
    fn the_hosts_memory_is_as_large_as_the_drives_with_the_same_modules() {
        let scale = Scale::new(1024).unwrap();
        let nova = drive(scale, &NOVA.on_private_files("random reads")).unwrap();
        let memory = drive(scale, &OMNI.on_private_files("random reads")).unwrap();
        let memory = memory.persistent_memory;
        assert!(nova.namespace_pages() * 4096 >= memory.bytes * 9 / 10);
        let modules = NovaConfig {
            load_ns: memory.load_ns,
            store_ns: memory.store_ns,
            load_mb_s: memory.load_mb_s,
            store_mb_s: memory.store_mb_s,
            modules: memory.modules,
        };
        assert_eq!(modules, NovaConfig::default());
    }

    #[test]
    fn a_share_of_the_cache_is_of_the_data() {
        let scale = Scale::new(64).unwrap();
        let run = Run {
            cache_percent: 25,
            ..OMNI.on_private_files("random reads")
        };
        assert_eq!(host(scale, &run).unwrap().cache.of(1), (16 << 30) / 64);
    }
}
