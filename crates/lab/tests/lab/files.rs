//! File operations through whole systems: fileserver and its like, over one file or several.

use std::collections::BTreeMap;

use wharf_lab::input::{ClientRule, Input, Made};
use wharf_lab::replay::Setup;
use wharf_workload::files::{FileJob, FileSpec, Personality};

use crate::file_view::usual;
use crate::support::{drive, planned, run_those, setup, setup_on, small};

fn spec(personality: Personality) -> FileSpec {
    FileSpec {
        personality,
        requests: 4_000,
        files: 16,
        threads: 8,
        footprint_bytes: Some(4 << 20),
        request_bytes: 4096,
        stride_bytes: None,
        job: FileJob::default(),
        seed: 11,
    }
}

fn of(spec: FileSpec) -> Input {
    Input::Generated {
        name: spec.personality.name().into(),
        parameters: BTreeMap::new(),
        spec: Box::new(Made::Files(spec)),
    }
}

fn input(personality: Personality) -> Input {
    of(spec(personality))
}

#[test]
fn every_read_of_file_operations_is_checked_on_every_design() {
    for (index, personality) in (0..).zip(usual()) {
        let mut setup = Setup {
            clients: [4, 3][index % 2],
            depth: [1, 2][index / 2 % 2],
            cache_bytes: 1 << 20,
            ..setup_on(2, small())
        };
        setup.host.files = [16, 1][index / 3 % 2];
        let plan = planned(&input(personality), &setup);
        assert!(plan.in_order && plan.rule == ClientRule::Stream);
        let done = run_those(&setup, &plan, |_| true);
        let flushes = done.rows.iter().map(|row| row.flush_latency_us.is_some());
        let has_flushes = done.rows[0].flushes > 0;
        assert!(flushes.into_iter().all(|has| has == has_flushes));
    }
}

#[test]
fn equal_seeds_give_equal_figures_with_many_files() {
    let mut setup = Setup {
        clients: 8,
        cache_bytes: 1 << 20,
        ..setup(small())
    };
    setup.host.files = 16;
    let plan = planned(&input(Personality::Varmail), &setup);
    let run = || run_those(&setup, &plan, |name| ["kernel", "scale"].contains(&name));
    assert_eq!(run().without_wall_clock(), run().without_wall_clock());
}

#[test]
fn deleted_files_leave_the_cache_and_are_not_written() {
    let mut setup = Setup {
        clients: 8,
        // Nothing has to leave for others.
        cache_bytes: 64 << 20,
        ..setup(small())
    };
    setup.host.files = 16;
    let plan = planned(&input(Personality::Fileserver), &setup);
    let done = run_those(&setup, &plan, |name| {
        ["clock", "kernel", "scale"].contains(&name)
    });
    for row in &done.rows {
        let written: u64 = row.drivers.iter().map(|driver| driver.writes).sum();
        // A file is deleted before it is written back, if it is deleted at all.
        assert!(
            row.discards > 20 && written < row.writes / 4,
            "{}: {written}",
            row.design
        );
    }
}

#[test]
fn sixty_four_clients_share_eight_drives() {
    let drive = drive(
        "optane",
        &["geometry.blocks_per_plane=5000", "firmware.queues_max=96"],
    );
    let mut setup = Setup {
        clients: 64,
        cache_bytes: 16 << 20,
        ..setup_on(8, drive)
    };
    setup.host.files = 64;
    for personality in [Personality::Fileserver, Personality::Varmail] {
        let spec = FileSpec {
            files: 64,
            threads: 64,
            requests: 12_000,
            footprint_bytes: Some(64 << 20),
            ..spec(personality)
        };
        let plan = planned(&of(spec), &setup);
        assert!(plan.by_client.iter().all(|list| !list.is_empty()));
        run_those(&setup, &plan, |name| {
            ["direct", "kernel", "scale"].contains(&name)
        });
    }
}

/// File operations of eight threads that run for `run_ns`.
fn for_a_time(personality: Personality, run_ns: u64) -> Input {
    Input::Timed {
        name: personality.name().into(),
        spec: FileSpec {
            requests: u64::MAX,
            ..spec(personality)
        },
        run_ns,
    }
}

/// All threads made equally many requests, so that a run was as long as its slowest thread, and throughput that of all in step
/// with it. The authors of ScaleCache let each of their programs run for a minute.
#[test]
fn who_is_faster_makes_more_requests_in_the_same_time() {
    const RUN_NS: u64 = 4_000_000;
    for clients in [8, 2] {
        let mut setup = Setup {
            clients,
            depth: 8 / clients,
            cache_bytes: 1 << 20,
            ..setup_on(2, small())
        };
        setup.host.files = 16;
        for personality in [
            Personality::FileserverScaleCache,
            Personality::VarmailScaleCache,
            Personality::FfsbScaleCache,
        ] {
            let plan = planned(&for_a_time(personality, RUN_NS), &setup);
            assert!(
                plan.in_order && plan.request_count().is_none() && plan.footprint_pages == 1024
            );
            let run = || {
                run_those(&setup, &plan, |name| {
                    ["direct", "kernel", "scale"].contains(&name)
                })
            };
            let done = run();
            let mut requests = Vec::new();
            for row in &done.rows {
                let lasted_ns = row.elapsed_seconds * 1e9;
                assert!(row.complete, "{}", row.design);
                assert!(
                    lasted_ns <= RUN_NS as f64 && lasted_ns > 0.9 * RUN_NS as f64,
                    "{}: {lasted_ns} ns",
                    row.design
                );
                let reads = personality == Personality::FileserverScaleCache;
                assert!(row.reads > 0 || !reads, "{}", row.design);
                requests.push(row.requests);
            }
            assert!(requests[0] != requests[1] && requests[1] != requests[2]);
            assert_eq!(done.without_wall_clock(), run().without_wall_clock());
        }
    }
}

/// Readers of videos were paced by counting requests of the writers beside them, whatever time those took.
#[test]
fn readers_with_a_rate_pause_and_the_pauses_are_in_no_latency() {
    const RUN_NS: u64 = 40_000_000;
    let mut setup = Setup {
        clients: 8,
        cache_bytes: 1 << 20,
        ..setup_on(2, small())
    };
    setup.host.files = 16;
    let plan = planned(
        &for_a_time(Personality::VideoserverScaleCache, RUN_NS),
        &setup,
    );
    let done = run_those(&setup, &plan, |name| {
        ["direct", "kernel", "scale"].contains(&name)
    });
    for row in &done.rows {
        // Three readers with two free reads each; in 40 ms there are three events, for four reads each.
        let most = 3 * 2 + 3 * 4;
        assert!(
            row.reads > 6 && row.reads <= most && row.writes > 100 * row.reads,
            "{}: {} reads, {} writes",
            row.design,
            row.reads,
            row.writes
        );
        let mean_us = row.read_latency_us.as_ref().unwrap().mean;
        assert!(mean_us < 10_000.0, "{}: {mean_us} µs", row.design);
    }
}
