//! Equal runs give equal files, byte for byte; another seed gives another run, as right as the first.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_lab::compare::{Request as Compare, compare};
use wharf_lab::designs::find;
use wharf_lab::input::{Input, Plan};
use wharf_lab::progress::Progress;
use wharf_lab::replay::{Prepare, Setup};
use wharf_lab::report::json;
use wharf_lab::result::{Comparison, Row};
use wharf_workload::generate::{GeneratorSpec, Pattern};

use crate::support::{SAMPLE, generated, listed, planned, run_all, setup, small, spec, trace};

fn file(comparison: &Comparison) -> String {
    json::to_string(&comparison.without_wall_clock())
}

/// Runs twice with the setup's seed and once with another; gives the first.
fn compare_runs(mut setup: Setup, input: &Input) -> Comparison {
    let plan = planned(input, &setup);
    let first = run_all(&setup, &plan);
    let again = run_all(&setup, &Arc::new(plan_anew(input, &setup)));
    assert!(file(&first) == file(&again), "two runs of one seed differ");
    setup.seed += 1;
    let mut other = run_all(&setup, &plan);
    assert_eq!(other.seed, first.seed + 1);
    other.seed = first.seed;
    assert!(
        file(&first) != file(&other),
        "ties do not depend on the seed"
    );
    first
}

/// Runs of several seeds are made side by side; what comes of them is what they give one after the other.
#[test]
fn several_seeds_are_the_mean_of_their_runs() {
    let setup = |seed| Setup {
        seed,
        clients: 2,
        depth: 4,
        ..setup(small())
    };
    let plan_of = |seed| {
        let input = generated(GeneratorSpec {
            seed,
            ..spec(Pattern::Uniform, 3_000, 8 << 20)
        });
        planned(&input, &setup(seed))
    };
    let designs = || ["direct", "clock", "scala"].map(|name| find(name).expect("built in"));
    let all = |jobs| Compare {
        setup: setup(5),
        designs: designs().into(),
        plans: [5, 6, 7].map(plan_of).into(),
        cache_spec: "test".into(),
        commit: "test".into(),
        jobs,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let run = |jobs| compare(&all(jobs), &stop).expect("it runs");
    let together = run(4).without_wall_clock();
    assert_eq!(file(&together), file(&run(1)), "jobs change nothing");
    assert_eq!((together.seed, together.seeds), (5, 3));
    for (design, row) in designs().into_iter().zip(&together.rows) {
        let alone = [5, 6, 7].map(|seed| {
            let run = (design.run)(&setup(seed), &plan_of(seed), Progress::hidden(), &stop);
            run.expect("it runs")
        });
        let mut mean = Row::over_seeds(&alone);
        mean.wall_seconds = 0.0;
        assert_eq!(*row, mean);
        assert!(row.spread["iops"].deviation > 0.0, "{}", row.design);
    }
}

fn plan_anew(input: &Input, setup: &Setup) -> Plan {
    Arc::into_inner(planned(input, setup)).expect("nobody else has it")
}

#[test]
fn the_sample_trace() {
    let mut setup = setup(crate::support::drive("scala", &[]));
    (setup.clients, setup.depth) = (4, 8);
    compare_runs(setup, &trace(SAMPLE));
}

#[test]
fn writes_that_make_a_small_drive_collect() {
    let mut setup = setup(small());
    (setup.clients, setup.depth, setup.prepare) = (8, 16, Prepare::Empty);
    let zipf = spec(Pattern::Zipf { theta: 0.8 }, 20_000, 11 << 20);
    let comparison = compare_runs(setup, &generated(zipf));
    for row in &comparison.rows {
        assert!(row.gc_share > 0.0, "{} never collected", row.design);
        assert!(row.write_amplification.expect("pages were written") > 1.0);
    }
}

#[test]
fn two_drives() {
    let mut setup = setup(small());
    (setup.cache_mut().drives, setup.clients, setup.depth) = (2, 3, 8);
    let uniform = spec(Pattern::Uniform, 10_000, 20 << 20);
    assert_eq!(compare_runs(setup, &generated(uniform)).drive.count, 2);
}

#[test]
fn an_open_loop() {
    let mut setup = setup(small());
    (setup.clients, setup.depth, setup.speed) = (4, 4, Some(1.0));
    let uniform = spec(Pattern::Uniform, 4_000, 8 << 20);
    let plan = plan_anew(&generated(uniform), &setup);
    let mut requests = plan.requests.to_vec();
    // Pairs at one time: ties for the seed to break.
    for (index, request) in (0..).zip(&mut requests) {
        request.time_ns = index / 2 * 10_000;
    }
    let comparison = compare_runs(setup, &listed(&requests));
    assert!(comparison.rows.iter().all(|row| row.drift_us.is_some()));
}
