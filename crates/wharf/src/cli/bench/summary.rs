//! All turns as a report: one row for each design, the sum of its rounds.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde_json::json;
use wharf_lab::config::text_hash;
use wharf_lab::result::{
    Arrival, BENCH_SCHEMA, Comparison, Drive, GcAffected, MemoryAccount, Mode, Round, Rounds, Row,
    Source, Workload, cdf_from_histogram, latency_summary, ratio,
};

use super::job::{Design, Job};
use super::test_file::TestFile;
use super::threads::histogram;
use super::{Args, Turn};

/// The report of all turns.
pub(super) fn sum_up(
    job: &Job,
    args: &Args,
    test_file: &TestFile,
    turns: &[Turn],
    (notes, warnings): (Vec<String>, Vec<String>),
) -> Comparison {
    let parameters = parameters(job, args);
    let hashed = serde_json::to_string(&parameters).expect("plain data");
    let info = test_file.target.info();
    let of = |design: &Design| -> Vec<&Turn> {
        let turns = turns.iter().filter(|turn| turn.design == *design);
        turns.collect()
    };
    let with_turns = args.designs.iter().map(|design| (design, of(design)));
    let rows: Vec<Row> = with_turns
        .filter(|(_, turns)| !turns.is_empty())
        .map(|(design, turns)| row(*design, job, args.rounds, &turns))
        .collect();
    Comparison {
        schema: BENCH_SCHEMA.into(),
        seed: job.seed,
        seeds: 1,
        workload: Workload {
            name: job.pattern.name().into(),
            source: Source::Generator {
                generator: "bench".into(),
                parameters,
            },
            requests: rows.iter().map(|row| row.requests).max().unwrap_or(0),
            footprint_bytes: job.file_bytes,
            read_share: f64::from(job.read_percent) / 100.0,
            fit: None,
            client_rule: "each thread its own".into(),
            clients: job.threads,
            depth: job.depth,
            arrival: Arrival::Closed,
            speed_factor: None,
            bad_lines: 0,
        },
        more_drives: Vec::new(),
        drive: Drive {
            role: "cache".into(),
            preset: test_file.path.display().to_string(),
            count: 1,
            capacity_bytes: test_file.bytes,
            parameters: BTreeMap::from([
                ("access".into(), json!(info.access)),
                ("block_bytes".into(), json!(info.block_bytes)),
            ]),
        },
        cache_bytes: job.memory_bytes,
        cache_spec: crate::cli::room::size(args.memory),
        config_hash: text_hash(&hashed).to_string(),
        cost_table: None,
        commit: env!("WHARF_COMMIT").into(),
        notes,
        warnings,
        rows,
    }
}

/// The job in fio's words.
fn parameters(job: &Job, args: &Args) -> BTreeMap<String, serde_json::Value> {
    let mut all = BTreeMap::from([
        ("rw".to_string(), json!(job.pattern.name())),
        ("rwmixread".into(), json!(job.read_percent)),
        ("bs".into(), json!(job.block_bytes)),
        ("size".into(), json!(job.file_bytes)),
        ("threads".into(), json!(job.threads)),
        ("iodepth".into(), json!(job.depth)),
        ("fsync".into(), json!(job.fsync)),
        ("end_fsync".into(), json!(args.end_fsync)),
        ("memory".into(), json!(job.memory_bytes)),
        ("replacement".into(), json!(job.replacement)),
        ("rounds".into(), json!(args.rounds)),
    ]);
    if let Some(requests) = job.requests {
        all.insert("io_size".into(), json!(requests * job.block_bytes));
    }
    if let Some(runtime_ns) = job.runtime_ns {
        all.insert("runtime_s".into(), json!(runtime_ns as f64 / 1e9));
    }
    all
}

/// What a design did in all its rounds.
fn row(design: Design, job: &Job, rounds: u32, turns: &[&Turn]) -> Row {
    let sum = |of: fn(&Turn) -> u64| turns.iter().map(|turn| of(turn)).sum::<u64>();
    let (reads, writes) = (sum(|t| t.ran.done.reads), sum(|t| t.ran.done.writes));
    let requests = reads + writes;
    let seconds = sum(|t| t.ran.done.elapsed_ns) as f64 / 1e9;
    let reads_ns = merged(turns, |turn| &turn.ran.done.read_latency_ns);
    let writes_ns = merged(turns, |turn| &turn.ran.done.write_latency_ns);
    let mut all_ns = reads_ns.clone();
    all_ns.add(&writes_ns).expect("equal bounds");
    let told = turns.iter().all(|turn| turn.ran.hits.is_some());
    let pages = sum(|t| t.ran.hits.map_or(0, |hits| hits.pages)) as f64;
    let hits = sum(|t| t.ran.hits.map_or(0, |hits| hits.hits)) as f64;
    let read_ahead = sum(|t| t.ran.hits.map_or(0, |hits| hits.read_ahead_hits)) as f64;
    let of_pages = |some: f64| told.then(|| ratio(some, pages));
    let rounds_done = rounds_of(design, job, turns);
    let some =
        |histogram: &Histogram<u64>| (!histogram.is_empty()).then(|| latency_summary(histogram));
    Row {
        design: design.name().into(),
        mode: Mode::Measured,
        model: None,
        complete: turns.len() == rounds as usize && turns.iter().all(|t| t.ran.done.complete),
        requests,
        reads,
        writes,
        // Those of the job are told round by round, and are no requests here.
        flushes: 0,
        discards: 0,
        names: 0,
        file_operations: Vec::new(),
        elapsed_seconds: seconds,
        // Of the median round: one that something else slowed down does not count for more by taking longer.
        bandwidth_mb_s: rounds_done.iops_median * job.block_bytes as f64 / 1e6,
        iops: rounds_done.iops_median,
        latency_us: latency_summary(&all_ns),
        read_latency_us: some(&reads_ns),
        write_latency_us: some(&writes_ns),
        flush_latency_us: None,
        drift_us: None,
        hit_ratio: of_pages(hits),
        no_command_hit_ratio: of_pages(hits),
        read_ahead_hit_ratio: of_pages(read_ahead),
        pages_read_per_page: None,
        link_bytes_per_byte: None,
        frame_hit_ratio: None,
        host_cpu_us_per_io: ratio(sum(|t| t.ran.done.cpu_ns) as f64 / 1e3, requests as f64),
        commands_per_io: 0.0,
        command_us: 0.0,
        command_service_us: 0.0,
        drivers: Vec::new(),
        devices: Vec::new(),
        gauges: BTreeMap::new(),
        write_amplification: None,
        gc_share: 0.0,
        memory: MemoryAccount::default(),
        gc_affected: GcAffected {
            requests: 0,
            latency_us: None,
        },
        verified_reads: reads,
        cpu_breakdown: Vec::new(),
        cpus: Vec::new(),
        latency_cdf: cdf_from_histogram(&all_ns),
        timeline: Vec::new(),
        rounds: Some(rounds_done),
        spread: BTreeMap::new(),
        wall_seconds: sum(|turn| turn.wall_ns) as f64 / 1e9,
    }
}

fn rounds_of(design: Design, job: &Job, turns: &[&Turn]) -> Rounds {
    let run = |turn: &&Turn| {
        let done = &turn.ran.done;
        let (requests, seconds) = (done.reads + done.writes, done.elapsed_ns as f64 / 1e9);
        Round {
            round: turn.round,
            place: turn.place,
            requests,
            flushes: done.flushes,
            elapsed_seconds: seconds,
            flush_seconds: done.flush_ns as f64 / 1e9,
            iops: ratio(requests as f64, seconds),
            hit_ratio: turn
                .ran
                .hits
                .map(|touch| ratio(touch.hits as f64, touch.pages as f64)),
        }
    };
    let limited = turns.last().and_then(|turn| turn.ran.limit_bytes);
    let (by, limit_bytes) = match (design, limited) {
        (Design::Scale, _) => ("PageCacheOptions::memory_bytes", Some(job.memory_bytes)),
        (Design::Direct, _) => ("having no cache", None),
        (_, Some(limit)) => ("a control group", Some(limit)),
        (_, None) => ("nothing", None),
    };
    let peak_bytes = turns.iter().map(|turn| turn.ran.peak_bytes).max();
    Rounds::new(
        turns.iter().map(run).collect(),
        by.into(),
        limit_bytes,
        peak_bytes.unwrap_or(0),
    )
}

fn merged(turns: &[&Turn], of: fn(&Turn) -> &Vec<(u64, u64)>) -> Histogram<u64> {
    let mut all = histogram();
    for (value_ns, count) in turns.iter().flat_map(|turn| of(turn)) {
        all.saturating_record_n(*value_ns, *count);
    }
    all
}
