//! The figures of `docs/performance.md`: requests per second of wall time.
//!
//!     cargo bench -p wharf-lab --bench engine [NAME]
//!
//! Each line is the median of several rounds, with the lowest and highest. Compare lines of one run only.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_drive::config::{DriveConfig, MediaKind};
use wharf_drive::{Drive, PowerSwitch};
use wharf_host::Direct;
use wharf_host::admin::offer_queues;
use wharf_host::boot::{PoweredOn, Spread, make_ready};
use wharf_host::design::{Client, Design, DesignConfig, NoSettings, Parts};
use wharf_host::driver::DriverConfig;
use wharf_host::span::Extent;
use wharf_lab::config::{Sets, load_costs, load_drive, load_host};
use wharf_lab::designs;
use wharf_lab::input::{ClientRule, Input, Made, plan};
use wharf_lab::progress::Progress;
use wharf_lab::replay::{Engine, Prepare, Setup};
use wharf_runtime::clock::Clock;
use wharf_runtime::{Machine, Seed, Side};
use wharf_wire::dma::DmaSpace;
use wharf_workload::fit::FitMode;
use wharf_workload::generate::{GeneratorSpec, Pattern, Sizes};
use wharf_workload::profiles::Profile;

fn main() {
    let wanted = std::env::args().nth(1).filter(|a| !a.starts_with('-'));
    let benches: &[(&str, fn())] = &[
        ("virtual-direct-4g", || {
            virtual_direct("4 GiB", 64, 3_000_000)
        }),
        ("virtual-direct-64g", || {
            virtual_direct("64 GiB", 1024, 3_000_000)
        }),
        ("virtual-clock", virtual_clock),
        ("virtual-scala", virtual_scala),
        ("inline-reads", inline_reads),
        ("real-latency", real_latency),
    ];
    for (name, bench) in benches {
        if wanted.as_deref().is_none_or(|w| name.contains(w)) {
            bench();
        }
    }
}

fn report(name: &str, unit: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values[0], values[values.len() - 1]);
    println!(
        "{name:56} {:12.0} {unit}   ({low:.0} to {high:.0}, {} rounds)",
        values[values.len() / 2],
        values.len()
    );
}

fn drive(sets: &[&str]) -> DriveConfig {
    load_drive("scala", &Sets::parse(sets).expect("fixed keys"))
        .expect("a preset")
        .0
}

fn setup(drive: DriveConfig, prepare: Prepare) -> Setup {
    let host = load_host("default", &Sets::default()).expect("a preset").0;
    Setup {
        cache_bytes: 4096,
        clients: 8,
        depth: 32,
        prepare,
        ..Setup::new(drive, 1, host, load_costs("default").expect("a preset").0)
    }
}

fn generated(pattern: Pattern, requests: u64, footprint_bytes: u64, read_share: f64) -> Input {
    let sizes = Sizes::fixed(4096).expect("a size");
    let spec = GeneratorSpec {
        pattern,
        requests,
        footprint_bytes,
        sizes,
        read_share,
        seed: 1,
    };
    Input::Generated {
        name: "bench".into(),
        parameters: Default::default(),
        spec: Box::new(Made::Pattern(spec)),
    }
}

/// Mixed random 4 KiB requests over a drive whose collection is in its steady state.
fn virtual_direct(size: &str, blocks: u32, requests: u64) {
    let blocks = format!("drive.geometry.blocks_per_plane={blocks}");
    let drive = drive(&[&blocks, "drive.ftl.over_provisioning=0.19"]);
    let bytes = drive.namespace_pages() * 4096;
    for read_share in [0.7, 0.5] {
        let setup = setup(drive.clone(), Prepare::Steady);
        let input = generated(Pattern::Uniform, requests, bytes, read_share);
        let plan =
            Arc::new(plan(&input, FitMode::Error, ClientRule::RoundRobin, 8, bytes).expect("fits"));
        let mut rates = Vec::new();
        let mut amplification = None;
        for _ in 0..3 {
            let design = designs::find("direct").expect("a design");
            let stop = Arc::new(AtomicBool::new(false));
            let row = (design.run)(&setup, &plan, Progress::hidden(), &stop).expect("a run");
            amplification = row.write_amplification;
            rates.push(row.requests as f64 / row.wall_seconds);
        }
        let name = format!(
            "virtual, direct, {size}, {:.0} % reads, WA {:.2}",
            read_share * 100.0,
            amplification.unwrap_or(1.0)
        );
        report(&name, "page I/O per s of wall time", rates);
    }
}

/// 95 % hits over 1 GiB of cache.
fn virtual_clock() {
    let mut setup = setup(drive(&[]), Prepare::Touched);
    setup.cache_bytes = 1 << 30;
    let footprint = (setup.cache_bytes as f64 / 0.95) as u64 / 4096 * 4096;
    let input = generated(Pattern::Uniform, 8_000_000, footprint, 0.7);
    let bytes = setup.cache().drive.namespace_pages() * 4096;
    let plan =
        Arc::new(plan(&input, FitMode::Error, ClientRule::RoundRobin, 8, bytes).expect("fits"));
    let (mut rates, mut hits) = (Vec::new(), None);
    for _ in 0..3 {
        let design = designs::find("clock").expect("a design");
        let stop = Arc::new(AtomicBool::new(false));
        let row = (design.run)(&setup, &plan, Progress::hidden(), &stop).expect("a run");
        hits = row.hit_ratio;
        rates.push(row.requests as f64 / row.wall_seconds);
    }
    let name = format!(
        "virtual, clock, 1 GiB, hits {:.1} %",
        hits.unwrap_or(0.0) * 100.0
    );
    report(&name, "requests per s of wall time", rates);
}

/// Eight clients on four drives that keep the cache: the profile `webmail`, with the paper's share of
/// the drives as cache.
fn virtual_scala() {
    let mut setup = setup(drive(&[]), Prepare::Touched);
    setup.cache_mut().drives = 4;
    let bytes = setup.volume_bytes();
    let drive_bytes = setup.cache().drive.namespace_pages() * 4096;
    setup.cache_bytes = drive_bytes * 4 * 3 / 16 / 4096 * 4096;
    let input = Input::Generated {
        name: "webmail".into(),
        parameters: Default::default(),
        spec: Box::new(Made::Profile {
            profile: Profile::by_name("webmail").expect("a profile"),
            requests: Some(4_000_000),
            footprint_bytes: None,
            seed: 1,
        }),
    };
    let plan =
        Arc::new(plan(&input, FitMode::Error, ClientRule::RoundRobin, 8, bytes).expect("fits"));
    let (mut rates, mut hits) = (Vec::new(), None);
    for _ in 0..3 {
        let design = designs::find("scala").expect("a design");
        let stop = Arc::new(AtomicBool::new(false));
        let row = (design.run)(&setup, &plan, Progress::hidden(), &stop).expect("a run");
        hits = row.hit_ratio;
        rates.push(row.requests as f64 / row.wall_seconds);
    }
    let name = format!(
        "virtual, scala, webmail, 4 drives, hits {:.1} %",
        hits.unwrap_or(0.0) * 100.0
    );
    report(&name, "requests per s of wall time", rates);
}

/// What a program that links Wharf does: reads on its own thread, no latencies, data in RAM.
fn inline_reads() {
    let mut config = drive(&[
        "drive.geometry.blocks_per_plane=64",
        "drive.timing.read_ns=0",
        "drive.timing.program_ns=0",
        "drive.timing.erase_ns=0",
        "drive.firmware.slowness=1",
        "drive.ftl.over_provisioning=0.11",
    ]);
    config.media.kind = MediaKind::Ram;
    let pages = config.namespace_pages();
    let drive = Drive::new(config)
        .expect("a drive")
        .fill(&[(0, pages)])
        .expect("fills");
    let space = DmaSpace::new(4096);
    let mut machine = Machine::new(load_costs("default").expect("a preset").0, false);
    let handle = drive
        .power_on(&mut machine, "drive", &space, &PowerSwitch::on())
        .expect("powers on");
    let new_queue = |qid, entries| handle.new_queue(qid, entries);
    let (queue, offer) = offer_queues(&space, 1, 128, new_queue)
        .expect("memory")
        .remove(0);
    let powered = PoweredOn {
        admin: handle.admin,
        offers: vec![offer],
        later: 0,
        features: &[],
        hmb: None,
    };
    let host = machine.add_cpu("host", Side::Host, 1.0);
    let inline = machine.inline();
    let reads_per_round = 500_000u64;
    let rates = inline.block_on(host, move |cpu| async move {
        let config = DriverConfig::default();
        let made = make_ready(&cpu, &space, vec![powered], Spread::striped(16), config).await;
        let (_admins, ready) = made.expect("a drive");
        let volume = ready.open_volume(&cpu, &space, vec![queue], config);
        let volume = volume.expect("memory");
        let design = Arc::new(
            Direct::new(&DesignConfig::default(), &NoSettings::default(), &space).expect("memory"),
        );
        let client = design.client(Parts::new(&cpu, volume, 0)).expect("memory");
        let mut rng = Seed(1).rng();
        let mut page = vec![0u8; 4096];
        let mut rates = Vec::new();
        for _ in 0..5 {
            let clock = Clock::start();
            for _ in 0..reads_per_round {
                let extent = Extent::of_pages(rng.below(pages), 1);
                client.read(extent, &mut page).await.expect("reads");
            }
            rates.push(reads_per_round as f64 * 1e9 / clock.now_ns() as f64);
        }
        rates
    });
    report(
        "real, inline, depth 1, RAM of 4 GiB, random 4 KiB reads",
        "reads per s",
        rates,
    );
}

/// How near a timed flash comes to its model: one drive thread, one client at depth 1.
fn real_latency() {
    for (what, read_share, modelled_us) in [("reads", 1.0, 18.0), ("writes", 0.0, 35.0)] {
        let mut setup = setup(drive(&["drive.firmware.slowness=1"]), Prepare::Touched);
        setup.engine = Engine::Real {
            client_threads: 1,
            profile: false,
        };
        (setup.clients, setup.depth) = (1, 1);
        setup.host.idle = wharf_lab::config::IdleConfig {
            spin_passes: 1_000_000,
            yield_passes: 0,
            park_us: 0,
        };
        let input = generated(Pattern::Uniform, 20_000, 64 << 20, read_share);
        let bytes = setup.cache().drive.namespace_pages() * 4096;
        let plan =
            Arc::new(plan(&input, FitMode::Error, ClientRule::RoundRobin, 1, bytes).expect("fits"));
        let design = designs::find("direct").expect("a design");
        let stop = Arc::new(AtomicBool::new(false));
        let row = (design.run)(&setup, &plan, Progress::hidden(), &stop).expect("a run");
        println!(
            "{:56} {:12.2} us median, modelled {modelled_us} us, p99 {:.2} us",
            format!("real, one drive thread, depth 1, {what}"),
            row.latency_us.p50,
            row.latency_us.p99
        );
    }
}
