//! Virtual and real time run the same code: with one client at depth 1, in the same order, to the
//! same hits, on every kind of media.

use wharf_drive::DriveConfig;
use wharf_drive::config::MediaKind;
use wharf_host::{Clock, Direct};
use wharf_lab::replay::{Engine, Setup};
use wharf_lab::result::{Mode, Row};
use wharf_workload::generate::Pattern;
use wharf_workload::textbook::{self, simulate};

use crate::support::{generated, planned, run, setup, small_and_quick, spec};

const ENGINES: [Engine; 3] = [
    Engine::Virtual,
    Engine::Real {
        client_threads: 1,
        profile: false,
    },
    Engine::Real {
        client_threads: 1,
        profile: true,
    },
];

fn on(kind: MediaKind, directory: &std::path::Path, run: usize) -> DriveConfig {
    let mut config = small_and_quick();
    config.media.kind = kind;
    config.media.path = (kind == MediaKind::File).then(|| directory.join(format!("{run}.img")));
    config
}

/// What does not depend on the clock.
fn counts(row: &Row) -> (u64, u64, u64, Option<u64>, u64) {
    let commands = (row.commands_per_io * row.requests as f64).round() as u64;
    (
        row.reads,
        row.writes,
        row.verified_reads,
        row.hit_ratio.map(f64::to_bits),
        commands,
    )
}

#[test]
fn both_engines_give_the_same_hits_on_every_media() {
    let directory = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a directory");
    let zipf = generated(spec(Pattern::Zipf { theta: 0.9 }, 4_000, 8 << 20));
    let mut seen = Vec::new();
    let mut number = 0;
    for kind in [MediaKind::Stamp, MediaKind::Ram, MediaKind::File] {
        for engine in ENGINES {
            number += 2;
            let base = Setup {
                engine,
                cache_bytes: 512 << 10,
                ..setup(on(kind, directory.path(), number))
            };
            let plan = planned(&zipf, &base);
            let clock = run::<Clock>(&base, &plan);
            let mut other = base;
            other.cache_mut().drive = on(kind, directory.path(), number + 1);
            let direct = run::<Direct>(&other, &plan);
            let expected = simulate(&mut textbook::Clock::new(128), plan.requests.iter());
            assert_eq!(
                clock.hit_ratio,
                Some(expected.ratio()),
                "{kind:?}, {engine:?}"
            );
            let mode = if engine == Engine::Virtual {
                Mode::Simulated
            } else {
                Mode::Measured
            };
            assert_eq!((clock.mode, direct.mode), (mode, mode));
            seen.push((counts(&clock), counts(&direct)));
        }
    }
    assert!(seen.iter().all(|counts| *counts == seen[0]), "{seen:?}");
}

#[test]
fn many_clients_on_two_threads_read_what_they_wrote() {
    let engine = Engine::Real {
        client_threads: 2,
        profile: false,
    };
    let base = Setup {
        engine,
        clients: 4,
        depth: 8,
        ..setup(small_and_quick())
    };
    let plan = planned(
        &generated(spec(Pattern::Zipf { theta: 0.9 }, 8_000, 4 << 20)),
        &base,
    );
    run::<Clock>(&base, &plan);
    run::<Direct>(&base, &plan);
}
