//! A terabyte address space replays in a few GB. A program of its own: the peak is the process's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_lab::config::{Sets, load_costs, load_drive, load_host};
use wharf_lab::designs::DESIGNS;
use wharf_lab::input::{ClientRule, Input, Made, plan};
use wharf_lab::progress::Progress;
use wharf_lab::replay::{Setup, volume_bytes};
use wharf_workload::fit::FitMode;
use wharf_workload::generate::{GeneratorSpec, Pattern, Sizes};

const TIB: u64 = 1 << 40;

/// Most memory that the process ever had resident, in bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("a peak");
    line.trim()
        .trim_end_matches(" kB")
        .parse::<u64>()
        .expect("a number")
        * 1024
}

#[test]
fn a_terabyte_of_flash_replays_in_less_than_4_gib() {
    // 32 dies of 4 planes of 1024 blocks of 2560 pages: 1.25 TiB of flash, of which 1 TiB is shown.
    let shape = [
        "drive.geometry.planes_per_die=4",
        "drive.geometry.pages_per_block=2560",
        "drive.ftl.over_provisioning=0.2",
    ];
    let sets = Sets::parse(&shape.map(String::from)).expect("keys");
    let (drive, _) = load_drive("scala", &sets).expect("a drive");
    let host = load_host("default", &Sets::default()).expect("a preset").0;
    let shown = volume_bytes(&drive, 1, &host);
    assert!(shown >= TIB, "{shown}");
    let setup = Setup {
        cache_bytes: 16 << 20,
        clients: 4,
        depth: 32,
        ..Setup::new(drive, 1, host, load_costs("default").expect("a preset").0)
    };
    let sizes = Sizes::fixed(4096).expect("a size");
    let spec = GeneratorSpec {
        pattern: Pattern::Uniform,
        requests: 40_000,
        footprint_bytes: shown,
        sizes,
        read_share: 0.5,
        seed: 1,
    };
    let spec = Box::new(Made::Pattern(spec));
    let input = Input::Generated {
        name: "sparse".into(),
        parameters: BTreeMap::new(),
        spec,
    };
    let plan = plan(&input, FitMode::Error, ClientRule::RoundRobin, 4, shown).expect("it fits");
    let span = plan.touched.last().expect("pages").1 - plan.touched[0].0;
    assert!(
        span * 4096 > TIB / 100 * 99,
        "the workload is spread over {span} pages"
    );
    let plan = Arc::new(plan);
    for design in DESIGNS {
        let stop = Arc::new(AtomicBool::new(false));
        let row = (design.run)(&setup, &plan, Progress::hidden(), &stop).expect("a row");
        assert!(row.complete && row.verified_reads == row.reads);
    }
    let peak = peak_bytes();
    assert!(peak < 4 << 30, "{} MiB", peak >> 20);
}
