//! The judges of file systems find what is wrong: each mistake that is planted in a file system
//! that is right is found, and none is found in it as it is.

mod toy;

use std::panic::{AssertUnwindSafe, catch_unwind};

use toy::{Mistake, Toys};
use wharf_files::block_on;
use wharf_files::model::ModelLimits;
use wharf_files::testing::ace;
use wharf_files::testing::beside::{self, Room, assert_alike, new_model};
use wharf_files::testing::crash::{Judged, Thoroughness, assert_survives};
use wharf_files::testing::program::Step;
use wharf_files::testing::random::Steps;
use wharf_files::testing::taste::Taste;
use wharf_files::testing::view::Likeness;
use wharf_runtime::Seed;

fn program(seed: u64, steps: usize) -> Vec<Step> {
    Steps::new(Seed(seed).child("judge").rng(), Taste::default()).program(steps)
}

/// Runs random programs on toys beside the model.
fn beside(mistake: Mistake, seeds: u64, room: Room) {
    for seed in 0..seeds {
        assert_alike(seed, &program(seed, 150), |program| {
            let model = new_model(ModelLimits::default());
            let toys = Toys::new(mistake, room);
            let how = (Likeness::ALL, room);
            block_on(beside::run(&toys.alone(), &model, program, how))
        });
    }
}

/// Cuts the power in random programs.
fn cuts(mistake: Mistake, seeds: u64, room: Room) -> Judged {
    let mut all = Judged::default();
    for seed in 0..seeds {
        let toys = Toys::new(mistake, room);
        let how = Thoroughness {
            room,
            ..Thoroughness::default()
        };
        let judged = assert_survives(&toys, &program(seed, 60), seed, how);
        all.cuts += judged.cuts;
        all.cuts_of_openings += judged.cuts_of_openings;
        all.lost_steps += judged.lost_steps;
    }
    all
}

/// What a judge says to a mistake.
fn verdict(judge: impl FnOnce()) -> String {
    match catch_unwind(AssertUnwindSafe(judge)) {
        Ok(()) => panic!("nothing is found"),
        Err(said) => *said.downcast::<String>().expect("it says what"),
    }
}

#[test]
fn nothing_is_wrong_with_what_is_right() {
    beside(Mistake::Nothing, 100, Room::Enough);
    let judged = cuts(Mistake::Nothing, 250, Room::Enough);
    assert!(
        judged.cuts > 2_000 && judged.cuts_of_openings > 100,
        "{judged:?}"
    );
    // The cuts did take something away.
    assert!(judged.lost_steps > 500, "{judged:?}");
}

#[test]
fn what_is_full_says_so_and_keeps_its_promises() {
    beside(Mistake::Nothing, 100, Room::Little);
    let judged = cuts(Mistake::Nothing, 100, Room::Little);
    assert!(judged.cuts > 500, "{judged:?}");
    let said = verdict(|| beside(Mistake::HalfDoneWhenFull, 100, Room::Little));
    assert!(said.contains("in the end"), "{said}");
}

/// The steps of the program that a judge prints.
fn steps_in(said: &str) -> usize {
    said.lines().filter(|line| line.contains(": user ")).count()
}

#[test]
fn planted_mistakes_are_found_beside_the_model() {
    for (mistake, found) in [
        (Mistake::RemovesFullDirectories, "Done, not Failed(39)"),
        (Mistake::StaleBytes, "page "),
        (Mistake::ForgetsXattrs, "Done, not Failed(61)"),
    ] {
        let said = verdict(|| beside(mistake, 400, Room::Enough));
        // What is printed is short.
        assert!(said.contains(found), "{mistake:?}: {said}");
        assert!((1..=14).contains(&steps_in(&said)), "{mistake:?}: {said}");
    }
}

#[test]
fn planted_mistakes_are_found_by_power_cuts() {
    for (mistake, found) in [
        (Mistake::SyncForgets, "not as after"),
        (Mistake::LostChangeIsSkipped, "not as after"),
        (Mistake::RenameInTwoSteps, "Rename {"),
        (Mistake::TornPage, "is none of what it was"),
        (Mistake::NewestWriteIsLost, "is none of what it was"),
        (Mistake::BytesOfOthers, "is none of what it was"),
        (Mistake::BytesGoFirst, "is none of what it was"),
        (
            Mistake::OpensOnce,
            "opened, and cut again: it cannot be opened",
        ),
    ] {
        let said = verdict(|| {
            cuts(mistake, 200, Room::Enough);
        });
        assert!(said.contains(found), "{mistake:?}: {said}");
        assert!(steps_in(&said) <= 14, "{mistake:?}: {said}");
    }
}

#[test]
fn short_programs_survive_power_cuts() {
    let how = Thoroughness {
        first_step: ace::setup().len(),
        ..Thoroughness::default()
    };
    let toys = Toys::new(Mistake::Nothing, Room::Enough);
    for (seed, program) in ace::programs(1).enumerate() {
        assert_survives(&toys, &program.steps, seed as u64, how);
    }
    for (seed, program) in ace::programs(2).step_by(211).enumerate() {
        assert_survives(&toys, &program.steps, seed as u64, how);
    }
}
