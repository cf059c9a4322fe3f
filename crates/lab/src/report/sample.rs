//! Made-up data to look at a report with: nothing was run, and the data says so.
//!
//! The figures hang together (latencies come from one histogram, the timeline from the same
//! requests) so that a page drawn from them looks as a real one does.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde_json::json;
use wharf_host::driver::DriverStatistics;

use crate::result::{
    Arrival, Comparison, Completed, CompressionAccount, CostTable, CpuGroup, CpuPart, CpuShare,
    DeviceAccount, Drive, DriverAccount, Gauge, GcAffected, MemoryAccount, Mode, OperationAccount,
    Round, Rounds, Row, SCHEMA, Sampled, Side, Source, TimelineBuilder, Workload,
    cdf_from_histogram, latency_summary, ratio,
};

/// What a made-up design is made of.
struct Profile {
    design: &'static str,
    /// Hits by touch once the cache is warm; `None` for a design without a cache.
    hit_share: Option<f64>,
    hit_ns: u64,
    miss_ns: u64,
    host_cpu_us: f64,
    drive_cpu_us: f64,
    write_amplification: f64,
    gc_share: f64,
}

#[rustfmt::skip]
const PROFILES: [Profile; 8] = [
    profile("direct", None, 0, 74_000, 1.9, 2.6, 2.31, 0.34),
    profile("clock", Some(0.71), 900, 69_000, 1.2, 1.1, 1.74, 0.16),
    profile("scala", Some(0.76), 1_100, 41_000, 0.6, 1.9, 1.22, 0.07),
    profile("scale", Some(0.73), 800, 58_000, 0.8, 1.0, 1.51, 0.12),
    profile("omni", Some(0.81), 1_300, 47_000, 1.0, 1.4, 1.44, 0.10),
    profile("indexless", Some(0.66), 9_000, 95_000, 0.4, 2.2, 1.08, 0.03),
    profile("stor", Some(0.69), 1_900, 61_000, 0.9, 2.9, 1.66, 0.14),
    profile("kernel", Some(0.71), 3_800, 83_000, 6.4, 1.1, 1.80, 0.18),
];

#[allow(clippy::too_many_arguments, reason = "a row of the table above")]
const fn profile(
    design: &'static str,
    hit_share: Option<f64>,
    hit_ns: u64,
    miss_ns: u64,
    host_cpu_us: f64,
    drive_cpu_us: f64,
    write_amplification: f64,
    gc_share: f64,
) -> Profile {
    Profile {
        design,
        hit_share,
        hit_ns,
        miss_ns,
        host_cpu_us,
        drive_cpu_us,
        write_amplification,
        gc_share,
    }
}

const REQUESTS: u64 = 150_000;
const IN_FLIGHT: u64 = 24;

/// A made-up comparison of 1 to 8 designs, the same at every call.
pub fn comparison(designs: usize) -> Comparison {
    let notes = vec!["Addresses beyond the drive were wrapped onto it (--fit wrap).".to_owned()];
    Comparison {
        schema: SCHEMA.to_owned(),
        seed: 1,
        seeds: 1,
        workload: workload(),
        drive: Drive {
            role: "cache".into(),
            preset: "sample-ssd".to_owned(),
            count: 1,
            capacity_bytes: 32 << 30,
            parameters: BTreeMap::from([
                ("channels".to_owned(), json!(8)),
                ("dies_per_channel".to_owned(), json!(4)),
                ("gc".to_owned(), json!("greedy")),
                ("over_provisioning".to_owned(), json!(0.07)),
                ("read_us".to_owned(), json!(18)),
                ("program_us".to_owned(), json!(35)),
            ]),
        },
        more_drives: Vec::new(),
        cache_bytes: 824_633_720,
        cache_spec: "18.75% of the footprint".to_owned(),
        config_hash: "5a3c0de05a3c0de0".to_owned(),
        cost_table: Some(CostTable {
            name: "sample-costs".to_owned(),
            machine: "no machine".to_owned(),
            date: "2000-01-01".to_owned(),
            commit: "0000000".to_owned(),
        }),
        commit: "0000000 (sample data)".to_owned(),
        notes,
        warnings: vec!["Sample data: made up to show the report; nothing was run.".to_owned()],
        rows: PROFILES.iter().take(designs.max(1)).map(row).collect(),
    }
}

/// A made-up comparison in an open loop and real time, of a design without cache, GC or writes: all
/// that a run may lack is lacking here.
pub fn sparse_comparison() -> Comparison {
    let mut c = comparison(2);
    c.workload.source = Source::Generator {
        generator: "zipf".to_owned(),
        parameters: BTreeMap::from([("theta".to_owned(), json!(0.99))]),
    };
    c.workload.name = "zipf".to_owned();
    c.workload.read_share = 1.0;
    c.workload.fit = None;
    c.workload.arrival = Arrival::Open;
    c.workload.speed_factor = Some(2.0);
    c.cost_table = None;
    (c.cache_bytes, c.cache_spec) = (0, String::new());
    c.notes.clear();
    for row in &mut c.rows {
        row.mode = Mode::Measured;
        row.model = Some("a model of something".to_owned());
        (row.hit_ratio, row.no_command_hit_ratio) = (None, None);
        row.read_ahead_hit_ratio = None;
        row.write_amplification = None;
        (row.write_latency_us, row.flush_latency_us) = (None, None);
        (row.reads, row.writes) = (row.requests, 0);
        row.gc_share = 0.0;
        row.drift_us = Some(crate::result::Drift {
            mean: 1.5,
            max: 310.0,
        });
        for point in &mut row.timeline {
            (point.hit_ratio, point.gc_share) = (None, 0.0);
            (point.write_amplification, point.gc_moved_pages) = (None, 0);
        }
    }
    let stopped = &mut c.rows[1];
    stopped.complete = false;
    stopped.rounds = Some(rounds(stopped.iops));
    stopped.requests /= 2;
    (stopped.reads, stopped.verified_reads) = (stopped.requests, 0);
    stopped.cpu_breakdown.clear();
    stopped.timeline.clear();
    stopped.latency_cdf.clear();
    c
}

/// A made-up comparison of 1 to 8 designs, of two seeds of which one is a tenth slower.
pub fn seeded_comparison(designs: usize) -> Comparison {
    let mut c = comparison(designs);
    c.seeds = 2;
    for row in &mut c.rows {
        let mut other = row.clone();
        other.bandwidth_mb_s *= 0.9;
        other.iops *= 0.9;
        other.latency_us.mean /= 0.9;
        *row = Row::over_seeds(&[row.clone(), other]);
    }
    c
}

fn workload() -> Workload {
    Workload {
        name: "sample.csv".to_owned(),
        source: Source::File {
            path: "traces/sample.csv".to_owned(),
            format: "msr".to_owned(),
        },
        requests: REQUESTS,
        footprint_bytes: 4 << 30,
        read_share: 0.62,
        fit: Some("wrap".to_owned()),
        client_rule: "by address: 1 MiB stripes".to_owned(),
        clients: 8,
        depth: 32,
        arrival: Arrival::Closed,
        speed_factor: None,
        bad_lines: 3,
    }
}

fn row(p: &Profile) -> Row {
    let histogram =
        || Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("fixed bounds");
    let (mut reads_ns, mut writes_ns) = (histogram(), histogram());
    let mut affected_ns = histogram();
    let mut timeline = TimelineBuilder::new(1);
    let mut random = Random(0x5eed ^ p.miss_ns);
    let (mut t_ns, mut bytes, mut hits, mut before_ns) = (0, 0, 0, 0);
    for i in 0..REQUESTS {
        let warm = (i as f64 / (0.2 * REQUESTS as f64)).min(1.0);
        let hit = random.share() < p.hit_share.unwrap_or(0.0) * warm;
        let collecting = (i / 2_500) % 4 == 3 && random.share() < p.gc_share * 4.0;
        let base_ns = if hit { p.hit_ns } else { p.miss_ns };
        let slow = if random.share() < 0.003 { 14.0 } else { 1.0 };
        let wait_ns = if collecting && !hit {
            6.0 * p.miss_ns as f64
        } else {
            0.0
        };
        let spread = 0.7 + random.share() * random.share() * 2.0;
        let latency_ns = (base_ns as f64 * spread * slow + wait_ns * random.share()) as u64;

        t_ns += latency_ns / IN_FLIGHT + (p.host_cpu_us * 300.0) as u64;
        let size = if i % 3 == 0 { 16_384 } else { 4_096 };
        bytes += size;
        hits += u64::from(hit);
        let request = Completed {
            latency_ns,
            bytes: size,
            touches: u64::from(p.hit_share.is_some()),
            hits: u64::from(hit),
        };
        timeline.record(t_ns, request);
        if collecting {
            timeline.record_gc(before_ns, t_ns);
        }
        let read = random.share() < 0.62;
        let (written, moved) = (u64::from(!read && !hit), 3 * u64::from(collecting));
        let did = Sampled {
            frame_hits: 0,
            programmed_pages: written + moved,
            host_pages: written,
            gc_moved_pages: moved,
        };
        timeline.record_sampled(before_ns, t_ns, did);
        before_ns = t_ns;
        let side_ns = if read { &mut reads_ns } else { &mut writes_ns };
        side_ns
            .record(latency_ns.max(1))
            .expect("within the bounds");
        if collecting && !hit {
            affected_ns
                .record(latency_ns.max(1))
                .expect("within the bounds");
        }
    }
    let mut all_ns = reads_ns.clone();
    all_ns.add(&writes_ns).expect("same bounds");
    let seconds = t_ns as f64 / 1e9;
    Row {
        design: p.design.to_owned(),
        mode: Mode::Simulated,
        model: None,
        complete: true,
        requests: REQUESTS,
        reads: reads_ns.len(),
        writes: writes_ns.len(),
        flushes: 0,
        discards: 0,
        names: 0,
        file_operations: Vec::new(),
        elapsed_seconds: seconds,
        bandwidth_mb_s: ratio(bytes as f64 / 1e6, seconds),
        iops: ratio(REQUESTS as f64, seconds),
        latency_us: latency_summary(&all_ns),
        read_latency_us: Some(latency_summary(&reads_ns)),
        write_latency_us: Some(latency_summary(&writes_ns)),
        flush_latency_us: Some(latency_summary(&writes_ns)),
        drift_us: None,
        hit_ratio: p.hit_share.map(|_| ratio(hits as f64, REQUESTS as f64)),
        no_command_hit_ratio: p.hit_share.map(|share| 0.75 * share),
        read_ahead_hit_ratio: p.hit_share.map(|_| 0.04),
        link_bytes_per_byte: Some(1.25 - p.hit_share.unwrap_or(0.0)),
        pages_read_per_page: Some(1.1 - p.hit_share.unwrap_or(0.0)),
        frame_hit_ratio: (p.design == "scala").then_some(0.12),
        host_cpu_us_per_io: p.host_cpu_us,
        commands_per_io: 1.0 - 0.8 * p.hit_share.unwrap_or(0.0),
        command_us: p.miss_ns as f64 / 1000.0,
        command_service_us: p.miss_ns as f64 / 1500.0,
        drivers: drivers(p),
        devices: vec![DeviceAccount {
            role: "cache".into(),
            preset: "sample-ssd".into(),
            count: 1,
            read_pages: reads_ns.len(),
            written_pages: writes_ns.len(),
            pin_fills: 0,
            write_amplification: Some(p.write_amplification),
            gc_share: p.gc_share,
            compression: Some(CompressionAccount {
                physical_ratio: Some(2.0),
                used_bytes: 1 << 28,
                capacity_bytes: 1 << 29,
                map_bytes: 1 << 22,
                unfilled_share: 0.03,
                padding_share: 0.01,
                granule_write_amplification: Some(p.write_amplification * 1.03),
            }),
            seeks: None,
            read_seeks: None,
            positioning_us: None,
        }],
        gauges: gauges(p),
        write_amplification: Some(p.write_amplification),
        gc_share: p.gc_share,
        gc_affected: GcAffected {
            requests: affected_ns.len(),
            latency_us: (!affected_ns.is_empty()).then(|| latency_summary(&affected_ns)),
        },
        memory: MemoryAccount {
            drive_bytes: 12 << 15,
            ring_bytes: 1 << 19,
        },
        verified_reads: reads_ns.len(),
        cpu_breakdown: cpu_breakdown(p),
        cpus: cpus(p, seconds),
        latency_cdf: cdf_from_histogram(&all_ns),
        timeline: timeline.finish(t_ns),
        rounds: None,
        spread: BTreeMap::new(),
        wall_seconds: 0.21,
    }
}

/// Of one of the designs, two of a kind each.
fn gauges(p: &Profile) -> BTreeMap<String, Gauge> {
    let all = [
        ("manager_wait", "share", 0.34),
        ("manager_asks", "count", (REQUESTS / 4) as f64),
        ("manager_queue", "us", 2.5),
        ("manager_held", "us", p.miss_ns as f64 / 1000.0),
        ("index_bytes", "bytes", f64::from(112 << 15)),
    ];
    let gauge = |(name, unit, value): (&str, &str, f64)| {
        let unit = unit.to_string();
        (name.to_string(), Gauge { unit, value })
    };
    match p.design {
        "clock" => all.into_iter().map(gauge).collect(),
        _ => BTreeMap::new(),
    }
}

/// Two rounds, one twice as fast as the other.
fn rounds(iops: f64) -> Rounds {
    let run = |round: u32| {
        let iops = iops * f64::from(round + 1);
        Round {
            round,
            place: 0,
            requests: REQUESTS / 2,
            flushes: 0,
            elapsed_seconds: ratio((REQUESTS / 2) as f64, iops),
            flush_seconds: 0.01,
            iops,
            hit_ratio: None,
        }
    };
    let runs = (0..2).map(run).collect();
    Rounds::new(runs, "a sample".to_owned(), Some(64 << 20), 80 << 20)
}

fn drivers(p: &Profile) -> Vec<DriverAccount> {
    let misses = (REQUESTS as f64 * (1.0 - 0.8 * p.hit_share.unwrap_or(0.0))) as u64;
    let did = DriverStatistics {
        reads: misses / 2,
        writes: misses - misses / 2,
        read_bytes: misses / 2 * 8192,
        write_bytes: (misses - misses / 2) * 8192,
        command_ns: misses * p.miss_ns,
        ..DriverStatistics::default()
    };
    vec![DriverAccount::new(CpuPart::Clients, &did)]
}

fn cpus(p: &Profile, seconds: f64) -> Vec<CpuGroup> {
    let group = |part, count: u32, us: f64| CpuGroup {
        part,
        count,
        busy_share: ratio(us * REQUESTS as f64, seconds * 1e6 * f64::from(count)),
        spin_share: 0.0,
        operations: vec![OperationAccount {
            operation: "sample".into(),
            category: "index".into(),
            count: REQUESTS,
            busy_us: us * REQUESTS as f64,
        }],
    };
    vec![
        group(CpuPart::Clients, 8, p.host_cpu_us),
        group(CpuPart::Cores, 4, p.drive_cpu_us),
    ]
}

fn cpu_breakdown(p: &Profile) -> Vec<CpuShare> {
    let host = [
        ("front end", 0.12),
        ("index", 0.31),
        ("replacement", 0.14),
        ("copy", 0.2),
        ("driver", 0.23),
    ];
    let drive = [
        ("controller", 0.28),
        ("map", 0.17),
        ("flash", 0.3),
        ("GC", 0.2),
        ("log", 0.05),
    ];
    let part = |side, us: f64| {
        move |&(category, share): &(&str, f64)| CpuShare {
            side,
            category: category.to_owned(),
            us_per_io: us * share,
        }
    };
    // Without a cache there is neither an index nor replacement, and the rest makes up all.
    let without: [(&str, f64); 3] = [("front end", 0.2), ("copy", 0.3), ("driver", 0.5)];
    let host: &[(&str, f64)] = if p.hit_share.is_some() {
        &host
    } else {
        &without
    };
    host.iter()
        .map(part(Side::Host, p.host_cpu_us))
        .chain(drive.iter().map(part(Side::Drive, p.drive_cpu_us)))
        .collect()
}

/// A small generator: sample data must not depend on the run's own random numbers.
struct Random(u64);

impl Random {
    /// A number between 0 and 1.
    fn share(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    }
}
