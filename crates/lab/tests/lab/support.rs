//! Setups and plans in a line each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_drive::DriveConfig;
use wharf_host::design::Design;
use wharf_lab::compare::{Request as Compare, compare};
use wharf_lab::config::{HostConfig, Sets, load_costs, load_drive, load_host};
use wharf_lab::designs::{DESIGNS, find};
use wharf_lab::input::{ClientRule, Input, Made, Plan, TraceFrom, plan};
use wharf_lab::progress::Progress;
use wharf_lab::replay::{RunError, Setup, row};
use wharf_lab::result::{Comparison, CpuPart, DriverAccount, Row};
use wharf_workload::fit::FitMode;
use wharf_workload::generate::{GeneratorSpec, Pattern, Sizes};
use wharf_workload::layout::Layout;
use wharf_workload::{OutputFormat, ReadOptions, Request, Workload, convert};

pub const SAMPLE: TraceFrom = TraceFrom::BuiltIn {
    name: "sqlite-bank",
    bytes: include_bytes!("../../../../traces/sqlite-bank.trace.gz"),
};

/// A preset with some parameters changed.
pub fn drive(preset: &str, sets: &[&str]) -> DriveConfig {
    let sets: Vec<String> = sets.iter().map(|set| format!("drive.{set}")).collect();
    let sets = Sets::parse(&sets).unwrap_or_else(|error| panic!("{error}"));
    load_drive(preset, &sets)
        .unwrap_or_else(|error| panic!("{error}"))
        .0
}

/// 16 MiB of flash on four dies: a few thousand writes make it collect.
pub fn small() -> DriveConfig {
    let shape = [
        "geometry.channels=2",
        "geometry.dies_per_channel=2",
        "geometry.blocks_per_plane=32",
        "geometry.pages_per_block=32",
        "firmware.cores=2",
        "ftl.over_provisioning=0.25",
    ];
    drive("scala", &shape)
}

/// The small drive with operations so short that a run in real time is short too.
pub fn small_and_quick() -> DriveConfig {
    let mut config = small();
    config.timing.read_ns = 500;
    config.timing.program_ns = 1_000;
    config.timing.erase_ns = 2_000;
    config.timing.channel_ns_per_page = 100;
    config
}

pub fn host() -> HostConfig {
    load_host("default", &Sets::default()).expect("a preset").0
}

/// One client at depth 1 on one drive in virtual time.
pub fn setup(drive: DriveConfig) -> Setup {
    let costs = load_costs("default").expect("a preset").0;
    Setup::new(drive, 1, host(), costs)
}

/// As [`setup`], on so many drives.
pub fn setup_on(drives: u32, drive: DriveConfig) -> Setup {
    let mut setup = setup(drive);
    setup.cache_mut().drives = drives;
    setup
}

/// Bytes that a setup's drives show together.
pub fn volume_bytes(setup: &Setup) -> u64 {
    setup.volume_bytes()
}

/// A generator of 4 KiB requests.
pub fn spec(pattern: Pattern, requests: u64, footprint_bytes: u64) -> GeneratorSpec {
    let sizes = Sizes::fixed(4096).expect("a size");
    GeneratorSpec {
        pattern,
        requests,
        footprint_bytes,
        sizes,
        read_share: 0.5,
        seed: 7,
    }
}

pub fn generated(spec: GeneratorSpec) -> Input {
    let spec = Box::new(Made::Pattern(spec));
    Input::Generated {
        name: "test".into(),
        parameters: BTreeMap::new(),
        spec,
    }
}

/// A workload of exactly these requests, as a trace in memory.
pub fn listed(requests: &[Request]) -> Input {
    let mut text = Vec::new();
    let workload = Workload::from_requests("listed", requests.to_vec());
    let scratch = std::env::temp_dir();
    convert(workload, &mut text, OutputFormat::Wharf, &scratch)
        .expect("our own format has all requests");
    trace(TraceFrom::Memory {
        name: "listed".into(),
        bytes: text.into(),
    })
}

pub fn trace(from: TraceFrom) -> Input {
    Input::Trace {
        from,
        options: ReadOptions::default(),
        layout: Layout::Concatenate,
    }
}

/// The workload for a setup, wrapped round the drive if it is larger.
pub fn planned(input: &Input, setup: &Setup) -> Arc<Plan> {
    planned_by(input, setup, ClientRule::RoundRobin)
}

pub fn planned_by(input: &Input, setup: &Setup, rule: ClientRule) -> Arc<Plan> {
    let plan = plan(
        input,
        FitMode::Wrap,
        rule,
        setup.clients,
        volume_bytes(setup),
    );
    Arc::new(plan.unwrap_or_else(|error| panic!("{error}")))
}

pub fn try_run<D: Design>(setup: &Setup, plan: &Arc<Plan>) -> Result<Row, RunError> {
    row::<D>(
        setup,
        plan,
        Progress::hidden(),
        &Arc::new(AtomicBool::new(false)),
    )
}

pub fn run<D: Design>(setup: &Setup, plan: &Arc<Plan>) -> Row {
    let row = try_run::<D>(setup, plan).unwrap_or_else(|error| panic!("{error}"));
    check(&row, plan);
    row
}

/// Runs all designs and checks every row.
pub fn run_all(setup: &Setup, plan: &Arc<Plan>) -> Comparison {
    run_those(setup, plan, |_| true)
}

/// Runs the designs whose names `is_wanted` accepts and checks every row.
pub fn run_those(setup: &Setup, plan: &Arc<Plan>, is_wanted: impl Fn(&str) -> bool) -> Comparison {
    let wanted = DESIGNS.iter().filter(|entry| is_wanted(entry.name));
    let designs: Vec<_> = wanted
        .map(|entry| find(entry.name).expect("it is listed"))
        .collect();
    let count = designs.len();
    let request = Compare {
        setup: setup.clone(),
        designs,
        plans: vec![plan.clone()],
        cache_spec: "test".into(),
        commit: "test".into(),
        jobs: 1,
    };
    let comparison = compare(&request, &Arc::new(AtomicBool::new(false)));
    let comparison = comparison.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(comparison.rows.len(), count);
    comparison.rows.iter().for_each(|row| check(row, plan));
    comparison
}

/// What holds of every complete row.
pub fn check(row: &Row, plan: &Plan) {
    use wharf_workload::Op;
    let count = |op| plan.requests.iter().filter(|r| r.op == op).count() as u64;
    let made = [row.reads, row.writes, row.flushes, row.discards];
    assert!(row.complete, "{row:?}");
    if plan.timed.is_none() {
        let counts = [Op::Read, Op::Write, Op::Flush, Op::Discard].map(count);
        assert_eq!(made, counts);
    }
    assert_eq!(row.requests, made.iter().sum::<u64>());
    assert_eq!(row.verified_reads, row.reads, "every read is checked");
    let latency = row.latency_us;
    let rising = [
        0.0,
        latency.p50,
        latency.p99,
        latency.p99_9,
        latency.p99_99,
        latency.max,
    ];
    assert!(rising.is_sorted() && latency.max > 0.0, "{latency:?}");
    let figures = [
        ("bandwidth", row.bandwidth_mb_s),
        ("iops", row.iops),
        ("elapsed", row.elapsed_seconds),
        ("mean", latency.mean),
        ("host CPU", row.host_cpu_us_per_io),
    ];
    for (name, figure) in figures {
        assert!(
            figure.is_finite() && figure > 0.0,
            "{name} of {}: {figure}",
            row.design
        );
    }
    assert!(row.commands_per_io.is_finite() && row.commands_per_io >= 0.0);
    assert!((0.0..=1.0).contains(&row.gc_share), "{}", row.gc_share);
    assert!(
        row.hit_ratio
            .is_none_or(|ratio| (0.0..=1.0).contains(&ratio))
    );
    assert_eq!(
        row.hit_ratio.is_none(),
        row.design == "direct",
        "{}: all others have a cache",
        row.design
    );
    assert_eq!(row.no_command_hit_ratio.is_some(), row.hit_ratio.is_some());
    assert!(row.no_command_hit_ratio <= row.hit_ratio, "{}", row.design);
    let without_command = row.no_command_hit_ratio.unwrap_or(0.0);
    assert!(row.design != "hardware" || without_command == 0.0);
    let amplification = row.write_amplification.unwrap_or(1.0);
    // What is still in the drive's write buffer at the end is not programmed yet.
    assert!(
        amplification.is_finite() && amplification >= 0.0,
        "{amplification}"
    );
    assert!(!row.timeline.is_empty() && !row.latency_cdf.is_empty());
    is_accounted_for(row, plan.timed.is_some());
}

/// What drivers, managers and drives say of a run agrees.
fn is_accounted_for(row: &Row, is_timed: bool) {
    let name = &row.design;
    let commands: u64 = row.drivers.iter().map(DriverAccount::commands).sum();
    let by_request = commands as f64 / row.requests as f64;
    assert!(
        (by_request - row.commands_per_io).abs() < 1e-6,
        "{name}: {by_request}"
    );
    let serves = row.drivers.iter().any(|a| a.part == CpuPart::Services);
    assert_eq!(
        serves,
        ["kernel", "kernel-dflush", "falcon", "tri"].contains(&name.as_str())
            || name.starts_with("scale"),
        "{name}"
    );
    assert_eq!(row.gauge("manager_asks").is_some(), name == "tri", "{name}");
    let pins = ["scala", "hardware"].contains(&name.as_str());
    assert!(row.frame_hit_ratio.is_none() || pins, "{name}");
    // A time ends a run with commands under way, which drives have served in part and nobody has counted.
    let under_way = if is_timed { 1.05 } else { 1.001 };
    assert!(
        row.command_service_us <= row.command_us * under_way,
        "{name}: served for {} of {} us",
        row.command_service_us,
        row.command_us
    );
    assert!(row.gc_affected.requests <= row.requests, "{name}");
}
