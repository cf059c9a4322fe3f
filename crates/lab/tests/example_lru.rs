//! The design of `docs/new-design.md` is one like those that are built in: its hits are the
//! textbook's, every read is checked, and what the document quotes is what runs.

#[allow(dead_code)] // its own program
#[path = "../examples/lru_design.rs"]
mod lru_design;

use std::collections::BTreeMap;
use std::sync::Arc;

use lru_design::{ExampleLru, LruConfig};
use wharf_host::Design;
use wharf_lab::compare::{Request, compare};
use wharf_lab::config::{Sets, load_costs, load_drive, load_host};
use wharf_lab::designs::{find, register};
use wharf_lab::input::{ClientRule, Input, Made, Plan, plan};
use wharf_lab::progress::Progress;
use wharf_lab::replay::{Engine, Setup, row};
use wharf_lab::result::Row;
use wharf_workload::fit::FitMode;
use wharf_workload::generate::{GeneratorSpec, Pattern, Sizes};
use wharf_workload::textbook::{Lru, PageCache, simulate};

const FRAMES: u64 = 300;

fn setup(sets: &[&str]) -> Setup {
    let sets = Sets::parse(sets).unwrap();
    let (drive, host) = (
        load_drive("scala", &sets).unwrap().0,
        load_host("default", &sets).unwrap().0,
    );
    let costs = load_costs("default").unwrap().0;
    Setup {
        cache_bytes: FRAMES * 4096,
        ..Setup::new(drive, 1, host, costs)
    }
}

fn zipf(setup: &Setup) -> Arc<Plan> {
    let spec = GeneratorSpec {
        pattern: Pattern::Zipf { theta: 0.8 },
        requests: 6_000,
        footprint_bytes: 8 << 20,
        sizes: Sizes::new(&[(4096, 3), (512, 1), (20480, 1)]).unwrap(),
        read_share: 0.6,
        seed: 5,
    };
    let input = Input::Generated {
        name: "zipf".into(),
        parameters: BTreeMap::new(),
        spec: Box::new(Made::Pattern(spec)),
    };
    let bytes = setup.volume_bytes();
    let plan = plan(
        &input,
        FitMode::Wrap,
        ClientRule::RoundRobin,
        setup.clients,
        bytes,
    );
    Arc::new(plan.unwrap())
}

fn run(setup: &Setup, plan: &Arc<Plan>) -> Row {
    let row = row::<ExampleLru>(setup, plan, Progress::hidden(), &Arc::default()).unwrap();
    assert!(row.complete);
    assert_eq!(row.verified_reads, row.reads, "every read is checked");
    row
}

#[test]
fn its_hits_are_those_of_the_textbook() {
    let mut setup = setup(&["drive.geometry.blocks_per_plane=64"]);
    let plan = zipf(&setup);
    let expected = simulate(&mut Lru::new(FRAMES as usize), plan.requests.iter());
    assert!(expected.hits > 1_000);
    assert_eq!(run(&setup, &plan).hit_ratio, Some(expected.ratio()));
    // What it is told of its own: pages leave in the order in which they came.
    setup
        .host
        .design
        .set::<ExampleLru>(&LruConfig { fifo: true });
    let expected = simulate(&mut Fifo::default(), plan.requests.iter());
    assert_eq!(run(&setup, &plan).hit_ratio, Some(expected.ratio()));
}

/// A miss evicts the page that came first.
#[derive(Default)]
struct Fifo(std::collections::VecDeque<u64>);

impl PageCache for Fifo {
    fn touch(&mut self, page: u64) -> bool {
        if self.0.contains(&page) {
            return true;
        }
        self.0.push_back(page);
        if self.0.len() > FRAMES as usize {
            self.0.pop_front();
        }
        false
    }
}

#[test]
fn several_clients_with_many_requests_keep_every_byte() {
    let sets = ["drive.geometry.blocks_per_plane=64"];
    for (media, frames) in [("stamp", 7), ("stamp", FRAMES), ("ram", 40)] {
        let media = format!("drive.media.kind={media}");
        let mut setup = setup(&[sets[0], &media]);
        (setup.clients, setup.depth, setup.cache_bytes) = (4, 16, frames * 4096);
        let plan = zipf(&setup);
        let row = run(&setup, &plan);
        assert!(row.hit_ratio.unwrap() > 0.0);
        let again = run(&setup, &plan);
        assert_eq!((row.iops, row.hit_ratio), (again.iops, again.hit_ratio));
    }
    let mut setup = setup(&sets);
    (setup.clients, setup.depth) = (4, 16);
    setup.cache_mut().drive.timing.read_ns = 500;
    setup.cache_mut().drive.timing.program_ns = 1_000;
    setup.engine = Engine::Real {
        client_threads: 2,
        profile: false,
    };
    run(&setup, &zipf(&setup));
}

#[test]
fn it_is_told_and_compared_as_the_others_are() {
    assert!(Sets::parse(&["design.example-lru.fifo=true"]).is_ok());
    let none = Sets::default();
    let before = load_host("default", &none).unwrap().0;
    assert_eq!(before.design.of::<ExampleLru>(), LruConfig::default());
    register::<ExampleLru>();
    let sets = Sets::parse(&["design.example-lru.fifo=true"]).unwrap();
    let host = load_host("default", &sets).unwrap().0;
    assert!(host.design.of::<ExampleLru>().fifo);
    let wrong = Sets::parse(&["design.example-lru.fifa=true"]).unwrap();
    let error = load_host("default", &wrong).unwrap_err().to_string();
    assert_eq!(
        error,
        "--set: unknown key 'design.example-lru.fifa', the nearest is 'design.example-lru.fifo'"
    );
    let setup = setup(&["drive.geometry.blocks_per_plane=64"]);
    let plans = vec![zipf(&setup)];
    let names = ["direct", "clock", ExampleLru::NAME];
    let request = Request {
        setup,
        designs: names.into_iter().filter_map(find).collect(),
        plans,
        cache_spec: "test".into(),
        commit: "test".into(),
        jobs: 1,
    };
    let comparison = compare(&request, &Arc::default()).unwrap();
    let rows: Vec<&str> = comparison.rows.iter().map(|row| &*row.design).collect();
    assert_eq!(rows, names);
}

const EXAMPLE: &str = include_str!("../examples/lru_design.rs");
const DOCUMENT: &str = include_str!("../../../docs/new-design.md");

#[test]
fn the_document_quotes_what_runs() {
    let quoted: Vec<&str> = DOCUMENT.split("```rust\n").skip(1).collect();
    assert!(quoted.len() >= 6, "{}", quoted.len());
    for block in quoted {
        let block = block.split("```").next().unwrap();
        // Parts that are left out are lines of dots.
        for part in block.split("// …\n") {
            let part = part.trim_matches('\n').trim_end();
            assert!(EXAMPLE.contains(part), "not in the example:\n{part}");
        }
    }
    let command = "cargo run --release -p wharf-lab --example lru_design";
    assert!(DOCUMENT.contains(command) && EXAMPLE.contains(command));
}

#[test]
fn the_design_has_at_most_two_hundred_lines() {
    let (design, _) = EXAMPLE.split_once("\n// The design ends here").unwrap();
    assert!(design.lines().count() <= 200, "{}", design.lines().count());
}
