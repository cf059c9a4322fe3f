//! Power cuts, rot and full journals, seen through one tree of records.

use std::collections::BTreeMap;

use wharf_runtime::{Rng, Seed};

use super::inodes;
use super::journal::{self, JournalHeader};
use super::node::ROOT;
use super::page::{self, Kind};
use super::store::Store;
use super::testing::{made, now, store};
use super::tree::Tree;
use crate::errno::{Errno, FileError};
use crate::pages::{PAGE_BYTES, Pages, RamPages};
use crate::testing::recorded::RecordedPages;

type Model = BTreeMap<u64, Vec<u8>>;

/// Pages that the cache may keep: few, so that most are read again.
const CACHE_BYTES: usize = 20 * PAGE_BYTES;

async fn with_tree<P: Pages, T>(
    store: &Store<P>,
    change: impl AsyncFn(&mut super::tx::Tx<'_, P>, &mut Tree) -> Result<T, FileError>,
) -> Result<T, FileError> {
    let change = async |tx: &mut super::tx::Tx<'_, P>| {
        let mut root = inodes::load(tx, ROOT).await?;
        let mut tree = Tree::new(ROOT, root.tree_root(), inodes::goal(tx, ROOT));
        let result = change(tx, &mut tree).await?;
        root.set_tree_root(tree.root);
        inodes::store(tx, &root).await?;
        Ok(result)
    };
    store.change(change).await
}

fn put<P: Pages>(store: &Store<P>, key: u64, value: &[u8]) -> Result<(), FileError> {
    now(with_tree(store, async |tx, tree| {
        tree.insert(tx, key, value).await
    }))
}

fn take<P: Pages>(store: &Store<P>, key: u64) -> Result<bool, FileError> {
    now(with_tree(store, async |tx, tree| {
        tree.remove(tx, key).await
    }))
}

fn all<P: Pages>(store: &Store<P>) -> Result<Model, FileError> {
    now(store.view(async |tx| {
        let root = inodes::load(tx, ROOT).await?;
        let tree = Tree::new(ROOT, root.tree_root(), 0);
        let (mut found, mut from) = (Model::new(), Some(0));
        while let Some(key) = from {
            let (records, next) = tree.within(tx, key, u64::MAX).await?;
            for (key, value) in records {
                assert!(found.last_key_value().is_none_or(|(last, _)| *last < key));
                found.insert(key, value);
            }
            from = next;
        }
        Ok(found)
    }))
}

/// One random change of both.
fn step<P: Pages>(store: &Store<P>, model: &mut Model, rng: &mut Rng, keys: u64) {
    let key = rng.below(keys) * 977;
    if rng.chance(3, 5) {
        let value = vec![rng.next_u32() as u8; rng.below(300) as usize];
        put(store, key, &value).expect("there is room");
        model.insert(key, value);
    } else {
        let is_gone = take(store, key).expect("it can be taken");
        assert_eq!(is_gone, model.remove(&key).is_some());
    }
}

#[test]
fn a_tree_is_the_map_of_the_library() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut rng = Seed(seed).rng();
        let medium = made(3000);
        let mut model = Model::new();
        {
            let store = store(&medium, CACHE_BYTES).unwrap();
            for round in 0..3000 {
                let keys = [30, 400, 3000][round / 300 % 3];
                step(&store, &mut model, &mut rng, keys);
                let key = rng.next_u64() % (3100 * 977);
                let found = now(store.view(async |tx| {
                    let root = inodes::load(tx, ROOT).await?;
                    let tree = Tree::new(ROOT, root.tree_root(), 0);
                    tree.floor(tx, key).await
                }));
                let floor = model.range(..=key).next_back();
                let floor = floor.map(|(key, value)| (*key, value.clone()));
                assert_eq!(found, Ok(floor));
            }
            assert_eq!(all(&store), Ok(model.clone()));
            now(store.commit()).unwrap();
        }
        let again = store(&medium, CACHE_BYTES).unwrap();
        assert_eq!(all(&again), Ok(model.clone()));
        for key in model.keys() {
            assert_eq!(take(&again, *key), Ok(true));
        }
        assert_eq!(all(&again), Ok(Model::new()));
        let root = now(again.view(async |tx| Ok(inodes::load(tx, ROOT).await?.tree_root())));
        assert_eq!(root, Ok(None));
        let group = again.geometry.group(0);
        let free = again.changing.with(|all| all.summaries[0]).unwrap().pages;
        assert_eq!(
            u64::from(free),
            group.pages - group.data_from(),
            "no node was left"
        );
    }
}

/// States of the model after each operation, and where in the changes of the medium they ended;
/// for each commit, the change behind which it counts and the operations before it.
struct History {
    states: Vec<Model>,
    commits: Vec<(usize, usize)>,
}

impl History {
    /// The operations that must have survived a cut behind so many changes.
    fn durable(&self, changes: usize) -> usize {
        let done = self.commits.iter().filter(|(at, _)| *at <= changes);
        done.map(|(_, states)| *states).max().unwrap_or(0)
    }
}

fn random_history(medium: &RecordedPages, rng: &mut Rng, rounds: usize) -> History {
    let store = store(medium, CACHE_BYTES).unwrap();
    let mut model = all(&store).unwrap();
    let mut history = History {
        states: vec![model.clone()],
        commits: Vec::new(),
    };
    for _ in 0..rounds {
        if rng.chance(1, 6) {
            now(store.commit()).unwrap();
            let done = history.states.len() - 1;
            history.commits.push((medium.changes(), done));
        } else if rng.chance(1, 40) {
            now(store.settle_all()).unwrap();
        } else {
            step(&store, &mut model, rng, 120);
            history.states.push(model.clone());
        }
    }
    history
}

#[test]
fn after_a_cut_anywhere_the_tree_is_what_it_was_after_some_number_of_operations() {
    for seed in 0..4 {
        println!("seed {seed}");
        let mut rng = Seed(seed).rng();
        let medium = RecordedPages::new(&made(300));
        let history = random_history(&medium, &mut rng, 400);
        println!("{} changes", medium.changes());
        let mut cut_rng = Seed(seed).child("cut").rng();
        medium.cut_everywhere(&mut cut_rng, |changes, after| {
            let found = all(&store(&after, CACHE_BYTES).expect("it recovers")).unwrap();
            let least = history.durable(changes);
            let is_prefix = history.states[least..].contains(&found);
            assert!(is_prefix, "seed {seed}, cut behind {changes} changes");
        });
    }
}

#[test]
fn a_cut_in_recovery_leaves_what_recovers() {
    let seed = 9;
    println!("seed {seed}");
    let mut rng = Seed(seed).rng();
    let medium = RecordedPages::new(&made(300));
    let history = random_history(&medium, &mut rng, 60);
    let mut cut_rng = Seed(seed).child("cut").rng();
    medium.cut_everywhere(&mut cut_rng, |changes, after| {
        let first = RecordedPages::new(&after);
        let found = all(&store(&first, CACHE_BYTES).expect("it recovers")).unwrap();
        assert!(history.states[history.durable(changes)..].contains(&found));
        let mut rng = Seed(changes as u64).rng();
        first.cut_everywhere(&mut rng, |_, again| {
            let twice = all(&store(&again, CACHE_BYTES).expect("it recovers again"));
            assert_eq!(twice, Ok(found.clone()), "cut behind {changes} changes");
        });
    });
}

/// A medium with several groups in its journal, none at home.
fn with_groups(groups: u64) -> (RamPages, Vec<Model>) {
    let medium = made(300);
    let mut states = vec![Model::new()];
    {
        let store = store(&medium, CACHE_BYTES).unwrap();
        for key in 0..groups {
            put(&store, key, &[key as u8; 250]).unwrap();
            now(store.commit()).unwrap();
            states.push(all(&store).unwrap());
        }
        assert_eq!(store.changing.with(|all| all.next_group), groups + 1);
        assert!(store.changing.with(|all| all.ring_used) > groups);
    }
    (medium, states)
}

#[test]
fn a_group_lost_in_the_middle_is_damage_and_not_the_end() {
    let (medium, states) = with_groups(4);
    let found = all(&store(medium.clone(), CACHE_BYTES).unwrap());
    assert_eq!(found.as_ref(), Ok(&states[4]));
    let geometry = now(super::recover::geometry(&medium)).unwrap();
    let used: Vec<u64> = (0..geometry.ring_pages())
        .map(|at| journal::ring_page(&geometry, at))
        .filter(|page| medium.peek(*page) != [0; PAGE_BYTES])
        .collect();
    let last_group = |page| {
        let header = *page::head(&medium.peek(page));
        header.generation.get() == 4 && header.kind.get() == Kind::Record.raw()
    };
    for page in used {
        for is_cleared in [true, false] {
            let hurt = medium.clone();
            let mut bytes = hurt.peek(page);
            match is_cleared {
                true => bytes.fill(0),
                false => bytes[2000] ^= 1,
            }
            hurt.poke(page, &bytes);
            match store(hurt, CACHE_BYTES) {
                // The last record is what a cut may take.
                Ok(store) if last_group(page) => assert_eq!(all(&store).as_ref(), Ok(&states[3])),
                Ok(_) => panic!("page {page} of the journal was obeyed"),
                Err(_) => assert!(!last_group(page)),
            }
        }
    }
}

#[test]
fn one_journal_header_is_enough_and_an_older_one_says_the_same() {
    let (medium, states) = with_groups(3);
    let geometry = now(super::recover::geometry(&medium)).unwrap();
    for page in geometry.journal.first..geometry.journal.first + 2 {
        let hurt = medium.clone();
        let mut bytes = hurt.peek(page);
        page::of_mut::<JournalHeader>(&mut bytes).at = 5.into();
        hurt.poke(page, &bytes);
        let found = all(&store(hurt.clone(), CACHE_BYTES).unwrap());
        assert_eq!(found.as_ref(), Ok(&states[3]));
    }
    let hurt = medium.clone();
    for page in geometry.journal.first..geometry.journal.first + 2 {
        hurt.clear(page);
    }
    assert!(store(hurt, CACHE_BYTES).is_err());
}

#[test]
fn the_copy_of_the_superblock_serves_when_the_first_is_lost() {
    let (medium, states) = with_groups(2);
    medium.clear(0);
    let found = all(&store(medium.clone(), CACHE_BYTES).unwrap());
    assert_eq!(found.as_ref(), Ok(&states[2]));
    medium.clear(medium.pages() - 1);
    assert!(store(medium, CACHE_BYTES).is_err());
}

#[test]
fn a_transaction_larger_than_the_journal_is_refused_and_changes_nothing() {
    let medium = made(1000);
    let store = store(&medium, CACHE_BYTES).unwrap();
    put(&store, 1, b"before").unwrap();
    let before = all(&store).unwrap();
    let many = now(with_tree(&store, async |tx, tree| {
        for key in 0..1000 {
            tree.insert(tx, key, &[7; 290]).await?;
        }
        Ok(())
    }));
    assert_eq!(many, Err(Errno::ENOSPC.into()));
    assert_eq!(all(&store).unwrap(), before);
    put(&store, 2, b"after").unwrap();
    now(store.commit()).unwrap();
}

#[test]
fn an_error_of_the_journal_makes_it_read_only() {
    let base = made(300);
    for fails_from in 0..12 {
        let medium = RecordedPages::failing(&base, fails_from);
        let store = store(&medium, CACHE_BYTES).unwrap();
        put(&store, 1, b"one").unwrap();
        let before = all(&store).unwrap();
        if now(store.commit()).is_ok() {
            continue;
        }
        assert_eq!(put(&store, 2, b"two"), Err(Errno::EROFS.into()));
        assert!(matches!(now(store.commit()), Err(FileError::Io(_))));
        assert_eq!(all(&store).unwrap(), before, "it can be read");
    }
}

#[test]
fn rot_of_any_page_is_an_error_or_changes_nothing() {
    let seed = 21;
    println!("seed {seed}");
    let mut rng = Seed(seed).rng();
    let medium = made(300);
    let model = {
        let store = store(&medium, CACHE_BYTES).unwrap();
        let mut model = Model::new();
        (0..300).for_each(|_| step(&store, &mut model, &mut rng, 200));
        now(store.settle_all()).unwrap();
        model
    };
    for page in 0..300 {
        let original = medium.peek(page);
        if original == [0; PAGE_BYTES] {
            continue;
        }
        // A bit, another page, an older or foreign one.
        let mut bit = original;
        bit[rng.below(PAGE_BYTES as u64) as usize] ^= 1 << rng.below(8);
        let mut foreign = original;
        page::head_mut(&mut foreign).file_system = 5.into();
        page::seal(&mut foreign, 0);
        for rot in [
            bit,
            medium.peek((page + 1) % 300),
            foreign,
            [0xff; PAGE_BYTES],
        ] {
            let hurt = medium.clone();
            hurt.poke(page, &rot);
            if let Ok(Ok(found)) = store(hurt, CACHE_BYTES).map(|store| all(&store)) {
                assert_eq!(found, model, "page {page}");
            }
        }
    }
}
