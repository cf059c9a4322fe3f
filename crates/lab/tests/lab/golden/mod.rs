//! The golden set: what every design gave on every preset, recorded once, so that a change of the program's structure
//! shows that it changes no figure of virtual time.
//!
//! * One client at depth 1: equal to the last digit that is recorded.
//! * Four clients at depth 16, five seeds: the mean within half a percent, or within the recorded seeds' spread. There the
//!   order of events at one instant may change, and with it whom a lock goes to.
//!
//! A change that is meant to change figures records them anew, and its message says why:
//!
//!     WHARF_GOLDEN=record cargo test -p wharf-lab --test lab golden

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_lab::config::load_costs;
use wharf_lab::designs::DESIGNS;
use wharf_lab::input::Plan;
use wharf_lab::progress::Progress;
use wharf_lab::replay::{Prepare, RunError, Setup};
use wharf_lab::result::Row;
use wharf_runtime::worker::side_by_side;
use wharf_workload::generate::{GeneratorSpec, Pattern, Sizes};

use crate::support::{check, drive, generated, planned, setup};

/// The presets, each with a geometry that a few thousand requests work through.
const PRESETS: &[(&str, &[&str])] = &[
    ("optane", &["geometry.blocks_per_plane=1000"]),
    ("pmem", &["geometry.blocks_per_plane=6000"]),
    ("scala", SHAPE),
    ("scala-artifact", SHAPE),
    (
        "store",
        &[
            "geometry.blocks_per_plane=64",
            "geometry.pages_per_block=512",
        ],
    ),
    ("tiny", &["firmware.queues_max=16"]),
    ("tlc", SHAPE),
];

const SHAPE: &[&str] = &[
    "geometry.channels=2",
    "geometry.dies_per_channel=4",
    "geometry.planes_per_die=1",
    "geometry.blocks_per_plane=64",
    "geometry.pages_per_block=32",
    "firmware.cores=2",
    "ftl.over_provisioning=0.25",
];

/// Seeds of the loaded runs.
const SEEDS: u64 = 5;

/// Largest change of a mean that is none.
const TOLERANCE: f64 = 0.005;

/// What is recorded of a run, by name.
type Figures = BTreeMap<String, f64>;

/// By `preset/design/load`: for each seed the figures, or why the design cannot run there.
type Golden = BTreeMap<String, Result<Vec<Figures>, String>>;

/// One run of the set.
struct Cell {
    name: String,
    design: usize,
    setup: Setup,
}

#[test]
fn every_design_gives_the_figures_that_were_recorded() {
    let made = make();
    let file = folder().join("figures.json");
    if std::env::var_os("WHARF_GOLDEN").is_some_and(|word| word == "record") {
        return std::fs::write(&file, written(&made)).expect("the tree can be written");
    }
    let text = std::fs::read_to_string(&file).expect("the recorded figures");
    let recorded: Golden = serde_json::from_str(&text).expect("what this test wrote");
    let differences = differences(&recorded, &made);
    assert!(
        differences.is_empty(),
        "{} figures differ from those recorded:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

#[test]
fn a_figure_that_has_changed_is_found() {
    let figures = |value| vec![Figures::from([("iops".to_string(), value)]); 5];
    let golden = |value| Golden::from([("tiny/direct/loaded".into(), Ok(figures(value)))]);
    assert!(differences(&golden(1000.0), &golden(1004.0)).is_empty());
    assert_eq!(differences(&golden(1000.0), &golden(1006.0)).len(), 1);
    assert_eq!(differences(&golden(1000.0), &Golden::new()).len(), 1);
    let alone = |value| Golden::from([("tiny/direct/alone".into(), Ok(figures(value)))]);
    assert_eq!(differences(&alone(1000.0), &alone(1000.001)).len(), 5);
}

/// The set as JSON, a line for each cell, so that a difference shows what it is of.
fn written(golden: &Golden) -> String {
    let cell = |(name, made)| {
        let made = serde_json::to_string(made).expect("plain data");
        format!("  {name:?}: {made}")
    };
    let cells: Vec<String> = golden.iter().map(cell).collect();
    format!("{{\n{}\n}}\n", cells.join(",\n"))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/golden")
}

/// Runs the whole set.
fn make() -> Golden {
    let cells = cells();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let made = side_by_side(cells.len(), threads, |number, _| run(&cells[number]));
    let mut golden = Golden::new();
    for (cell, made) in cells.iter().zip(made) {
        let all = golden.entry(cell.name.clone()).or_insert(Ok(Vec::new()));
        match (all.as_mut(), made) {
            (Ok(all), Ok(figures)) => all.push(figures),
            (Ok(_), Err(reason)) => *all = Err(reason),
            (Err(_), _) => {}
        }
    }
    golden
}

fn cells() -> Vec<Cell> {
    let costs = load_costs(folder().join("costs.toml").to_str().expect("a plain path"));
    let costs = costs.expect("a table of its own").0;
    let mut cells = Vec::new();
    for (preset, shape) in PRESETS {
        for (design, entry) in DESIGNS.iter().enumerate() {
            for (load, clients, depth, seeds) in [("alone", 1, 1, 1), ("loaded", 4, 16, SEEDS)] {
                cells.extend((1..=seeds).map(|seed| Cell {
                    name: format!("{preset}/{}/{load}", entry.name),
                    design,
                    setup: Setup {
                        costs: costs.clone(),
                        clients,
                        depth,
                        seed,
                        cache_bytes: 2 << 20,
                        prepare: Prepare::Touched,
                        ..setup(drive(preset, shape))
                    },
                }));
            }
        }
    }
    cells
}

fn run(cell: &Cell) -> Result<Figures, String> {
    let entry = &DESIGNS[cell.design];
    let plan = plan_for(&cell.setup);
    let stop = Arc::new(AtomicBool::new(false));
    match (entry.run)(&cell.setup, &plan, Progress::hidden(), &stop) {
        Ok(row) => {
            check(&row, &plan);
            Ok(figures(&row))
        }
        Err(error @ (RunError::Design(_) | RunError::Drive(_))) => Err(error.to_string()),
        Err(error) => panic!("{}, seed {}: {error}", cell.name, cell.setup.seed),
    }
}

/// Skewed requests of one page to sixteen, six in ten reads.
fn plan_for(setup: &Setup) -> Arc<Plan> {
    let sizes = [(4096, 6), (8192, 2), (16384, 1), (65536, 1)];
    let spec = GeneratorSpec {
        pattern: Pattern::Zipf { theta: 0.8 },
        requests: if setup.clients == 1 { 1500 } else { 4000 },
        footprint_bytes: 12 << 20,
        sizes: Sizes::new(&sizes).expect("plain sizes"),
        read_share: 0.6,
        seed: 40 + setup.seed,
    };
    planned(&generated(spec), setup)
}

/// The figures of a row, with seven digits: a sum of floating-point numbers may be made in another order.
fn figures(row: &Row) -> Figures {
    let hits = |share: Option<f64>| share.unwrap_or(-1.0);
    let all = [
        ("iops", row.iops),
        ("mean_us", row.latency_us.mean),
        ("p50_us", row.latency_us.p50),
        ("p99_us", row.latency_us.p99),
        ("max_us", row.latency_us.max),
        ("hit_ratio", hits(row.hit_ratio)),
        ("no_command_hit_ratio", hits(row.no_command_hit_ratio)),
        ("pages_read_per_page", hits(row.pages_read_per_page)),
        ("commands_per_io", row.commands_per_io),
        ("host_cpu_us_per_io", row.host_cpu_us_per_io),
        ("write_amplification", hits(row.write_amplification)),
        ("gc_share", row.gc_share),
    ];
    let rounded = |value: f64| format!("{value:.6e}").parse().expect("a number");
    all.map(|(name, value)| (name.to_string(), rounded(value)))
        .into()
}

/// What differs, a line each.
fn differences(recorded: &Golden, made: &Golden) -> Vec<String> {
    let mut lines = Vec::new();
    for (cell, old) in recorded {
        match (old, made.get(cell)) {
            (Ok(old), Some(Ok(new))) if cell.ends_with("/alone") => {
                exactly(cell, old, new, &mut lines)
            }
            (Ok(old), Some(Ok(new))) => by_mean(cell, old, new, &mut lines),
            (Err(old), Some(Err(new))) if old == new => {}
            (_, new) => lines.push(format!("{cell}: recorded {old:?}, now {new:?}")),
        }
    }
    let unknown = made.keys().filter(|cell| !recorded.contains_key(*cell));
    lines.extend(unknown.map(|cell| format!("{cell}: not recorded")));
    lines
}

fn exactly(cell: &str, old: &[Figures], new: &[Figures], lines: &mut Vec<String>) {
    for (old, new) in old.iter().zip(new) {
        for (name, old) in old {
            let new = new.get(name);
            if new != Some(old) {
                lines.push(format!("{cell} {name}: recorded {old}, now {new:?}"));
            }
        }
    }
}

fn by_mean(cell: &str, old: &[Figures], new: &[Figures], lines: &mut Vec<String>) {
    for name in old[0].keys() {
        let values = |all: &[Figures]| -> Vec<f64> {
            all.iter()
                .filter_map(|figures| figures.get(name).copied())
                .collect()
        };
        let (old, new) = (values(old), values(new));
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
        let (low, high) = old.iter().fold((f64::MAX, f64::MIN), |(low, high), value| {
            (low.min(*value), high.max(*value))
        });
        let (was, is) = (mean(&old), mean(&new));
        let is_near = (is - was).abs() <= TOLERANCE * was.abs();
        if new.len() != old.len() || !(is_near || (low..=high).contains(&is)) {
            lines.push(format!(
                "{cell} {name}: recorded {was} ({low} to {high}), now {is}"
            ));
        }
    }
}
