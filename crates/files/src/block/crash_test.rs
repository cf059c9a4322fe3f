//! Power cuts: what is found afterwards is what the contract of the trait allows.

use std::collections::{BTreeMap, BTreeSet};

use wharf_runtime::Seed;

use super::Wfs;
use super::model_test::model;
use super::program::{Dump, Numbers, Op, SMALL, Thing, apply, dump, look, random};
use super::testing::{assert_sound, made, now};
use crate::pages::{PAGE_BYTES, RamPages};
use crate::testing::recorded::RecordedPages;
use crate::{FileSystem, Kind};

const CACHE_BYTES: usize = 40 * PAGE_BYTES;

/// What was done, and what the model looked like.
struct History {
    /// After each operation, by number of operations.
    states: Vec<Dump>,
    /// Files without names that were open then: a cut may bring their names back.
    nameless: Vec<Vec<Thing>>,
    /// Changes of the medium when each operation began.
    begun: Vec<usize>,
    /// Changes when a sync was done, and the operations that were completed before it.
    synced: Vec<(usize, usize)>,
}

/// The tree without bytes and holes.
fn names_of(dump: &Dump) -> BTreeMap<&[u8], Thing> {
    let without_bytes = |thing: &Thing| {
        let mut thing = thing.clone();
        thing.bytes.clear();
        thing.edges.clear();
        thing.attributes.stored_bytes = 0;
        thing
    };
    let all = dump.iter();
    all.map(|(path, thing)| (path.as_slice(), without_bytes(thing)))
        .collect()
}

/// Page `page` of a file, with zeros behind its end.
fn page_of(thing: &Thing, page: usize) -> [u8; PAGE_BYTES] {
    let mut bytes = [0; PAGE_BYTES];
    let from = page * PAGE_BYTES;
    if let Some(rest) = thing.bytes.get(from..) {
        let length = rest.len().min(PAGE_BYTES);
        bytes[..length].copy_from_slice(&rest[..length]);
    }
    bytes
}

/// Whether a page is what it was in one of the states, as far as the file goes; mixtures of 512
/// bytes are not needed, as pages are never torn.
fn is_page_of_some(found: &Thing, page: usize, states: &[&Thing]) -> bool {
    let bytes = page_of(found, page);
    let end = (found.bytes.len() - page * PAGE_BYTES).min(PAGE_BYTES);
    let is_zeros = bytes.iter().all(|byte| *byte == 0);
    is_zeros
        || states
            .iter()
            .any(|state| page_of(state, page)[..end] == bytes[..end])
}

impl History {
    /// What a cut behind so many changes may leave, as a range of states.
    fn range(&self, changes: usize) -> (usize, usize) {
        let synced = self.synced.iter().filter(|(at, _)| *at <= changes);
        let least = synced.map(|(_, state)| *state).max().unwrap_or(0);
        let most = self.begun.iter().filter(|at| **at <= changes).count();
        (least, most)
    }

    fn judge(&self, changes: usize, found: &Dump) {
        let (least, most) = self.range(changes);
        let names = names_of(found);
        let fitting = (least..=most).filter(|nth| names_of(&self.states[*nth]) == names);
        let fitting: Vec<usize> = fitting.collect();
        assert!(
            !fitting.is_empty(),
            "cut behind {changes} changes: the tree is that of none of {least}..={most}"
        );
        // Names may have moved; sizes and times tell files apart well enough.
        let states = &self.states[least..=most];
        for (path, thing) in found {
            if thing.attributes.kind != Kind::File {
                continue;
            }
            let all: Vec<&Thing> = states
                .iter()
                .flat_map(|state| state.values())
                .chain(self.nameless[least..=most].iter().flatten())
                .filter(|other| other.attributes.kind == Kind::File)
                .collect();
            for page in 0..thing.bytes.len().div_ceil(PAGE_BYTES) {
                let path = String::from_utf8_lossy(path);
                assert!(
                    is_page_of_some(thing, page, &all),
                    "cut behind {changes} changes: page {page} of {path} was never so"
                );
            }
        }
        // What was synced last, and never touched since, is whole.
        let last = &self.states[least];
        for (path, thing) in last {
            let stays = states.iter().all(|state| state.get(path) == Some(thing));
            if stays && let Some(found) = found.get(path) {
                assert_eq!(found.bytes, thing.bytes, "cut behind {changes} changes");
            }
        }
    }
}

/// Runs a random program on a medium that remembers.
fn history(medium: &RecordedPages, seed: u64, rounds: u64) -> History {
    let mut rng = Seed(seed).rng();
    let (model, wfs) = (model(), now(Wfs::open(medium, CACHE_BYTES)).unwrap().0);
    let mut of_model = Numbers(vec![model.root()]);
    let mut of_wfs = Numbers(vec![wfs.root()]);
    let mut history = History {
        states: vec![dump(&model).unwrap()],
        nameless: vec![Vec::new()],
        begun: Vec::new(),
        synced: Vec::new(),
    };
    for round in 0..rounds {
        let op = random(&mut rng, SMALL, of_model.0.len());
        let begun = medium.changes();
        let expected = apply(&model, &mut of_model, &op, 100 + round);
        let found = apply(&wfs, &mut of_wfs, &op, 100 + round);
        assert_eq!(found, expected, "seed {seed}, round {round}: {op:?}");
        if matches!(op, Op::Sync(_)) && found.is_ok() {
            let states = history.states.len() - 1;
            history.synced.push((medium.changes(), states));
        } else {
            history.begun.push(begun);
            history.states.push(dump(&model).unwrap());
            let all = of_model.0.iter().filter_map(|n| now(look(&model, *n)).ok());
            let nameless = all.filter(|thing| thing.attributes.links == 0);
            history.nameless.push(nameless.collect());
        }
    }
    history
}

fn recovered(medium: &RamPages) -> Dump {
    let (wfs, _) = now(Wfs::open(medium, CACHE_BYTES)).expect("it recovers");
    dump(&wfs).expect("all can be read")
}

#[test]
fn after_a_cut_anywhere_the_tree_is_that_of_the_model_after_some_number_of_operations() {
    for seed in 0..4 {
        println!("seed {seed}");
        let medium = RecordedPages::new(&made(500));
        let history = history(&medium, seed, 250);
        println!("{} changes", medium.changes());
        let mut rng = Seed(seed).child("cut").rng();
        medium.cut_everywhere(&mut rng, |changes, after| {
            history.judge(changes, &recovered(&after));
            assert_sound(
                &after,
                &format!("seed {seed}, cut behind {changes} changes"),
            );
        });
    }
}

#[test]
fn nothing_is_lost_of_the_free_pages_in_cuts() {
    let seed = 31;
    println!("seed {seed}");
    let base = made(500);
    let free = |medium: &RamPages| {
        let wfs = now(Wfs::open(medium, CACHE_BYTES)).unwrap().0;
        super::testing::remove_all(&wfs);
        now(wfs.settle()).unwrap();
        now(wfs.stat_fs()).unwrap()
    };
    let before = free(&base.clone());
    let medium = RecordedPages::new(&base);
    history(&medium, seed, 250);
    let mut rng = Seed(seed).child("cut").rng();
    let mut left = BTreeSet::new();
    medium.cut_everywhere(&mut rng, |changes, after| {
        if changes % 7 == 0 && free(&after) != before {
            left.insert(changes);
        }
    });
    assert_eq!(
        left,
        BTreeSet::new(),
        "cuts that leave pages in use by nothing"
    );
}
