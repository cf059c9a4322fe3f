//! The file system for persistent memory before the judges of file systems: random programs of
//! several users beside the model, power cuts behind every store, flush and fence with the lines
//! that were not fenced there or not, and all short programs.
//!
//! A longer hunt, with so many times as many seeds; from 97 on with every program of two operations:
//!
//! ```text
//! WHARF_CASES=100 cargo test --release -p wharf-files --test wpm
//! ```

mod maker;
mod planted;
mod rot;
mod tasks;

use std::ops::Range;

use maker::{IMMEDIATE, Maker, NARROW, WIDE};
use wharf_files::block_on;
use wharf_files::model::ModelLimits;
use wharf_files::testing::ace;
use wharf_files::testing::beside::{self, Room, assert_alike, new_model};
use wharf_files::testing::crash::{Judged, OnMedium, Thoroughness, assert_survives};
use wharf_files::testing::program::Step;
use wharf_files::testing::random::Steps;
use wharf_files::testing::recorded::Recording;
use wharf_files::testing::recorded_lines::RecordedLines;
use wharf_files::testing::taste::Taste;
use wharf_files::testing::view::Likeness;
use wharf_runtime::Seed;

fn program(seed: u64, steps: usize) -> Vec<Step> {
    Steps::new(Seed(seed).child("wpm").rng(), Taste::default()).program(steps)
}

/// How many times as much is tried as by default.
fn cases() -> u64 {
    let cases = std::env::var("WHARF_CASES").map_or(1, |text| text.parse().expect("a number"));
    println!("WHARF_CASES={cases}");
    cases
}

fn beside_the_model(maker: &Maker, seeds: Range<u64>, room: Room) {
    for seed in seeds {
        assert_alike(seed, &program(seed, 200), |program| {
            let model = new_model(ModelLimits::default());
            block_on(async {
                let lines = RecordedLines::new(&maker.make().await);
                let fs = maker.open(&lines).await.expect("it opens");
                let how = (Likeness::ALL, room);
                beside::run(&fs, &model, program, how).await?;
                let checked = maker.check(&fs, &lines).await;
                checked.map_err(beside::Difference::in_the_end)
            })
        });
    }
}

fn cuts(maker: &Maker, seeds: u64, room: Room) -> Judged {
    let mut all = Judged::default();
    for seed in 0..seeds {
        let how = Thoroughness { room, ..IMMEDIATE };
        let judged = assert_survives(maker, &program(seed, 40), seed, how);
        all.cuts += judged.cuts;
        all.cuts_of_openings += judged.cuts_of_openings;
        all.lost_steps += judged.lost_steps;
    }
    println!("{all:?}");
    all
}

#[test]
fn it_is_alike_to_the_model() {
    beside_the_model(&WIDE, 0..100 * cases(), Room::Enough);
}

#[test]
fn it_is_alike_to_the_model_when_it_is_full() {
    beside_the_model(&NARROW, 0..100 * cases(), Room::Little);
}

#[test]
fn it_survives_power_cuts_behind_every_change() {
    let judged = cuts(&WIDE, 8 * cases(), Room::Enough);
    assert!(judged.cuts > 1_000, "{judged:?}");
    assert_eq!(judged.lost_steps, 0);
}

#[test]
fn it_survives_power_cuts_when_it_is_full() {
    cuts(&NARROW, 8 * cases(), Room::Little);
}

#[test]
fn short_programs_survive_power_cuts() {
    let how = Thoroughness {
        first_step: ace::setup().len(),
        ..IMMEDIATE
    };
    for (seed, program) in ace::programs(1).enumerate() {
        assert_survives(&WIDE, &program, seed as u64, how);
    }
    let every = (97 / cases()).max(1) as usize;
    for (seed, program) in ace::programs(2).step_by(every).enumerate() {
        assert_survives(&WIDE, &program, seed as u64, how);
    }
}

#[test]
fn programs_of_three_operations_survive_power_cuts() {
    let how = Thoroughness {
        first_step: ace::setup().len(),
        ..IMMEDIATE
    };
    for seed in 0..20 * cases() {
        let mut programs = ace::chosen(3, Seed(seed).child("three").rng());
        let program = programs.next().expect("there is no end");
        assert_survives(&WIDE, &program, seed, how);
    }
}
