//! What is computed on files, by the host, the drive, or both: the checker knows each answer.

use std::sync::Arc;

use wharf_host::omni::{Caches, Omni, OmniConfig};
use wharf_host::stor::Compute;
use wharf_lab::input::{Input, Plan, TraceFrom};
use wharf_lab::replay::Setup;
use wharf_lab::result::Row;
use wharf_workload::files::{FileOp, FileOpKind, Personality, write_file_trace};

use crate::file_view::{in_memory, of_files, run, spec, with_room};
use crate::support::{drive, planned, setup_on};

const COMPUTES: [Compute; 4] = [
    Compute::Host,
    Compute::Drive,
    Compute::Presence,
    Compute::Dynamic,
];

fn four_clients() -> Setup {
    Setup {
        clients: 4,
        depth: 1,
        cache_bytes: 1 << 20,
        ..setup_on(1, with_room(&in_memory().cache().drive))
    }
}

/// A plan on `omni` with these caches, and this choice of who computes.
fn on_omni(setup: &Setup, plan: &Arc<Plan>, (caches, compute): (Caches, Compute)) -> Row {
    let own = OmniConfig {
        caches,
        compute,
        ..OmniConfig::default()
    };
    let mut setup = setup.clone();
    setup.host.design.set::<Omni>(&own);
    let done = run(&setup, plan, &["omni"]);
    done.rows.into_iter().next().expect("one row")
}

/// Checksums of what was written, by whoever computes them: the checker knows each of them.
#[test]
fn a_checksum_is_that_of_the_bytes_wherever_it_is_computed() {
    let setup = four_clients();
    let mut job = spec(Personality::RandomFiles);
    (job.files, job.threads, job.requests) = (4, 4, 4_000);
    (job.request_bytes, job.footprint_bytes) = (4_096, Some(2 << 20));
    job.job.read_share = 0.6;
    let made = planned(&of_files(job, 4096), &setup);
    let files = made.files.as_ref().expect("operations on files");
    let ops = files.ops.iter().map(|op| match op.kind {
        FileOpKind::Read => FileOp {
            kind: FileOpKind::CrcWrite,
            ..*op
        },
        _ => *op,
    });
    let mut text = Vec::new();
    write_file_trace(&files.names, ops, &mut text).unwrap();
    let from = TraceFrom::Memory {
        name: "crc".into(),
        bytes: text.into(),
    };
    let input = Input::Files {
        name: "crc".into(),
        from: from.operations(None).unwrap().expect("a trace of files"),
        unit_bytes: 4096,
    };
    let plan = planned(&input, &setup);
    for caches in [Caches::Both, Caches::Host, Caches::None] {
        for compute in COMPUTES {
            let row = on_omni(&setup, &plan, (caches, compute));
            let sums = row.verified_reads;
            assert!(sums > 2_000, "{caches:?} {compute:?}: {sums}");
            let by = |gauge| row.gauge(gauge).unwrap_or(0.0);
            let (host, drive) = (by("computed_by_host"), by("computed_by_drive"));
            match (caches, compute) {
                (Caches::None, _) | (_, Compute::Host) => assert_eq!((host, drive), (0.0, 0.0)),
                (_, Compute::Drive) => assert_eq!((host, drive), (0.0, sums as f64)),
                (_, Compute::Dynamic) => assert!(host > 4.0 && drive > 4.0, "{host} {drive}"),
                _ => assert_eq!(host + drive, sums as f64),
            }
        }
    }
    run(&setup, &plan, &["clock", "ext4-model", "nova"]);
}

/// Vectors that are written meanwhile, by whoever searches them: the checker knows the nearest of each range that nobody was writing.
#[test]
fn the_nearest_are_those_of_the_bytes_whoever_searches_them() {
    let setup = four_clients();
    let plan = |files| {
        let mut job = spec(Personality::KnnFiles);
        (job.files, job.threads, job.requests) = (files, 4, 2_000);
        (job.request_bytes, job.footprint_bytes) = (64 << 10, Some(4 << 20));
        job.job.read_share = 0.8;
        planned(&of_files(job, 4096), &setup)
    };
    for caches in [Caches::Both, Caches::Host, Caches::None] {
        for compute in COMPUTES {
            for files in [1, 4] {
                let row = on_omni(&setup, &plan(files), (caches, compute));
                let found = row.verified_reads;
                assert!(found > 1_200, "{caches:?} {compute:?}: {found}");
                let by = |gauge| row.gauge(gauge).unwrap_or(0.0);
                let (host, drive) = (by("computed_by_host"), by("computed_by_drive"));
                let both = by("computed_by_both");
                match (caches, compute) {
                    (Caches::None, _) | (_, Compute::Host) => {
                        assert_eq!(host + drive + both, 0.0);
                    }
                    (_, Compute::Drive) => assert_eq!((host, drive), (0.0, found as f64)),
                    (_, Compute::Dynamic) => {
                        assert_eq!(host + drive + both, found as f64);
                        assert!(both > 100.0, "{caches:?}: {host}, {drive}, {both}");
                    }
                    _ => assert_eq!((host + drive, both), (found as f64, 0.0)),
                }
            }
        }
    }
    let plan = planned(&of_files(spec(Personality::KnnFiles), 4096), &setup);
    run(&setup, &plan, &["clock", "ext4-model", "nova"]);
}

/// A drive without the memory for a search, or a checksum, refuses it: the host computes, and asks again ever more rarely.
#[test]
fn a_drive_that_refuses_to_compute_is_asked_a_few_times_and_the_host_computes() {
    let mut setup = four_clients();
    setup.cache_mut().drive.memory.compute_bytes = 64 << 10;
    let plan = |personality, request_bytes| {
        let mut job = spec(personality);
        (job.files, job.threads, job.requests) = (4, 4, 320);
        (job.request_bytes, job.footprint_bytes) = (request_bytes, Some(4 << 20));
        job.job.read_share = 1.0;
        planned(&of_files(job, 4096), &setup)
    };
    let searches = plan(Personality::KnnFiles, 64 << 10);
    let checksums = plan(Personality::CrcFiles, 4 << 10);
    for compute in [Compute::Drive, Compute::Presence, Compute::Dynamic] {
        for caches in [Caches::Both, Caches::Host, Caches::None] {
            for plan in [&searches, &checksums] {
                let row = on_omni(&setup, plan, (caches, compute));
                assert_eq!(row.verified_reads, 320, "{caches:?} {compute:?}");
                let by = |gauge| row.gauge(gauge).unwrap_or(0.0);
                let (host, drive) = (by("computed_by_host"), by("computed_by_drive"));
                let asked = drive + by("computed_by_both");
                if caches == Caches::None {
                    // Each client finds out by itself; what it asks in vain is a command more.
                    let alone = on_omni(&setup, plan, (caches, Compute::Host));
                    let more = (row.commands_per_io - alone.commands_per_io) * 320.0;
                    assert!((4.0..=32.0).contains(&more.round()), "{compute:?}: {more}");
                } else {
                    // All threads at first, and one at a time from then on.
                    assert_eq!(host + asked, 320.0);
                    assert!(
                        (1.0..=12.0).contains(&asked),
                        "{caches:?} {compute:?}: {asked}"
                    );
                }
            }
        }
    }
}

/// The drive of the paper's set-up, with a queue for each thread, and so many threads that search one file.
fn searching(threads: u32) -> (Setup, Arc<Plan>) {
    let sets = [
        "media.kind=ram",
        "firmware.cores=4",
        &format!("firmware.queues_max={threads}"),
        "link.latency_ns=450ns",
        "link.to_host_mb_s=16000",
        "link.from_host_mb_s=16000",
        "file_system=wpm",
        "geometry.blocks_per_plane=16384",
        "persistent_memory.bytes=128MiB",
    ];
    let mut setup = Setup {
        clients: threads,
        depth: 1,
        cache_bytes: 20 << 20,
        ..setup_on(1, drive("pmem", &sets))
    };
    let mut job = spec(Personality::KnnFiles);
    (job.files, job.threads, job.requests) = (1, threads, 256);
    (job.request_bytes, job.footprint_bytes) = (256 << 10, Some(64 << 20));
    job.job.read_share = 1.0;
    setup.host.files = 1;
    let plan = planned(&of_files(job, 4096), &setup);
    (setup, plan)
}

/// Both sides at once have nearly what each has alone, taken together, or more: the host reads a piece of its part while it searches another.
/// Once vectors met on every other core, and the host's part went before the drive's command: 0.75, 0.73, 0.61 and 0.56.
#[test]
fn both_sides_search_as_fast_as_each_of_them_alone_taken_together() {
    for (threads, least) in [(4, 0.9), (8, 1.0), (16, 0.95), (32, 0.95)] {
        let (setup, plan) = searching(threads);
        let rate = |compute| on_omni(&setup, &plan, (Caches::Both, compute)).bandwidth_mb_s;
        let (host, drive) = (rate(Compute::Host), rate(Compute::Drive));
        let both = rate(Compute::Dynamic);
        let reach = both / (host + drive);
        println!("{threads} threads: {host:.0} + {drive:.0}, both {both:.0}: {reach:.3}");
        assert!(reach >= least, "{threads} threads: {reach}");
    }
}
