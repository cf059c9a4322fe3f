//! The file system beside the model: random programs.

use wharf_runtime::Seed;

use super::program::{LARGE, Numbers, SMALL, Sizes, apply, dump, look, random};
use super::testing::{assert_sound, made, now};
use super::{Wfs, make};
use crate::model::{Model, ModelLimits};
use crate::pages::{PAGE_BYTES, RamPages};
use crate::{FileSystem, Owner};

/// A new model that is as a new file system of `testing` is.
pub fn model() -> Model {
    let limits = ModelLimits::default();
    Model::new(limits, 0o755, Owner { uid: 0, gid: 0 }, 1)
}

fn open(medium: &RamPages) -> Wfs<&RamPages> {
    now(Wfs::open(medium, 40 * PAGE_BYTES)).expect("it opens").0
}

fn run(seed: u64, sizes: Sizes, pages: u64, rounds: u64) {
    println!("seed {seed}");
    let mut rng = Seed(seed).rng();
    let medium = made(pages);
    let (model, mut wfs) = (model(), open(&medium));
    let mut of_model = Numbers(vec![model.root()]);
    let mut of_wfs = Numbers(vec![wfs.root()]);
    for round in 0..rounds {
        let op = random(&mut rng, sizes, of_model.0.len());
        let expected = apply(&model, &mut of_model, &op, 100 + round);
        let found = apply(&wfs, &mut of_wfs, &op, 100 + round);
        assert_eq!(found, expected, "seed {seed}, round {round}: {op:?}");
        if round % 97 == 0 {
            assert_eq!(dump(&wfs), dump(&model), "seed {seed}, round {round}");
            for (number, other) in of_model.0.iter().zip(&of_wfs.0) {
                let (expected, found) = (now(look(&model, *number)), now(look(&wfs, *other)));
                assert_eq!(found, expected, "seed {seed}, round {round}");
            }
        }
        if round % 400 == 399 {
            now(wfs.sync_all()).unwrap();
            model.close_all();
            drop(wfs);
            assert_sound(&medium, &format!("seed {seed}, round {round}"));
            wfs = open(&medium);
            assert_eq!(dump(&wfs), dump(&model), "seed {seed}, round {round}");
        }
    }
}

#[test]
fn random_programs_do_and_answer_what_the_model_does() {
    (0..12).for_each(|seed| run(seed, SMALL, 600, 1500));
}

#[test]
fn so_do_programs_with_large_files_and_directories() {
    (100..106).for_each(|seed| run(seed, LARGE, 20_000, 1500));
}

#[test]
fn all_is_given_back_when_all_is_removed() {
    let medium = made(2000);
    let wfs = open(&medium);
    let before = now(wfs.stat_fs()).unwrap();
    let mut numbers = Numbers(vec![wfs.root()]);
    let mut rng = Seed(5).rng();
    for round in 0..600 {
        let op = random(&mut rng, SMALL, numbers.0.len());
        let _ = apply(&wfs, &mut numbers, &op, round);
    }
    numbers
        .0
        .iter()
        .for_each(|number| while now(wfs.close(*number)).is_ok() {});
    super::testing::remove_all(&wfs);
    now(wfs.settle()).unwrap();
    assert_eq!(now(wfs.stat_fs()).unwrap(), before);
}

#[test]
fn too_few_pages_are_refused() {
    for pages in [0, 1, 255] {
        let medium = RamPages::new(pages);
        let made = now(make(&medium, super::testing::MAKE));
        assert_eq!(made, Err(super::MakeError::Size));
        assert!(now(Wfs::open(&medium, 0)).is_err());
    }
    assert!(
        now(Wfs::open(&RamPages::new(1000), 0)).is_err(),
        "there is none"
    );
}
