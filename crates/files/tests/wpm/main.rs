//! The file system for persistent memory before the judges of file systems: random programs of
//! several users beside the model, power cuts behind every store, flush and fence with the lines
//! that were not fenced there or not, and all short programs.
//!
//! All programs of one and of two operations are tried by default, of three some by their seeds. A
//! longer hunt, with so many times as many seeds:
//!
//! ```text
//! WHARF_CASES=100 cargo test --release -p wharf-files --test wpm
//! ```

mod fences;
mod maker;
mod memory;
mod overwrites;
mod planted;
mod rot;
mod tasks;

use std::ops::Range;

use maker::{IMMEDIATE, Maker, NARROW, SHORT, WIDE};
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
        all += assert_survives(maker, &program(seed, 40), seed, how);
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

/// Cuts behind the changes of each program's last operation: those of the ones before are another program's.
fn cuts_of_short_programs(programs: impl Iterator<Item = ace::Program>) -> (u64, Judged) {
    let (mut count, mut all) = (0, Judged::default());
    for (seed, program) in programs.enumerate() {
        let how = Thoroughness {
            first_step: program.last_from,
            ..IMMEDIATE
        };
        all += assert_survives(&SHORT, &program.steps, seed as u64, how);
        count += 1;
    }
    println!("{count} programs, {all:?}");
    (count, all)
}

#[test]
fn all_programs_of_one_operation_survive_power_cuts() {
    cuts_of_short_programs(ace::programs(1));
}

#[test]
fn all_programs_of_two_operations_survive_power_cuts() {
    let (programs, judged) = cuts_of_short_programs(ace::programs(2));
    assert!(
        programs > 18_000 && judged.cuts > 10 * programs,
        "{judged:?}"
    );
}

#[test]
fn programs_of_three_operations_survive_power_cuts() {
    let chosen = |seed| ace::chosen(3, Seed(seed).child("three").rng()).next();
    cuts_of_short_programs((0..40 * cases()).filter_map(chosen));
}
