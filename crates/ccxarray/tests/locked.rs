//! The locked tree beside a map, in random operations.
#![cfg(not(any(loom, shuttle)))]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use ccxarray::locked::{Changes, Control, Find, Tree};
use ccxarray::{TAGS, Tag};
use support::Rng;

/// What the tree should hold.
#[derive(Default)]
struct Model {
    values: BTreeMap<u64, u64>,
    tags: [BTreeSet<u64>; TAGS],
}

impl Model {
    fn next(&self, from: u64, find: Find) -> Option<(u64, u64)> {
        let index = match find {
            Find::Any => self.values.range(from..).next().map(|(i, _)| *i),
            Find::Tagged(tag) => self.tags[tag as usize].range(from..).next().copied(),
        }?;
        Some((index, self.values[&index]))
    }
}

fn random_index(rng: &mut Rng, spread: u32) -> u64 {
    let bits = [3, 8, 14, 40, 63][rng.below(u64::from(spread)) as usize];
    rng.next() >> (64 - bits)
}

fn step(rng: &mut Rng, spread: u32, tree: &Tree, control: &mut Control, model: &mut Model) {
    let mut changes = Changes::new(tree, control);
    let mut index = random_index(rng, spread);
    if rng.below(2) == 0 {
        // An index that is there, if one is.
        index = model
            .values
            .range(index..)
            .next()
            .map_or(index, |(i, _)| *i);
    }
    let tag = Tag::ALL[rng.below(3) as usize];
    match rng.below(10) {
        0..3 => {
            let value = rng.next() >> 1;
            assert_eq!(
                changes.insert(index, value),
                model.values.insert(index, value)
            );
        }
        3..5 => {
            assert_eq!(changes.remove(index), model.values.remove(&index));
            for tags in &mut model.tags {
                tags.remove(&index);
            }
        }
        5..8 => {
            let on = rng.below(3) < 2;
            let there = model.values.contains_key(&index);
            assert_eq!(changes.set_tag(index, tag, on), there);
            match on && there {
                true => model.tags[tag as usize].insert(index),
                false => model.tags[tag as usize].remove(&index),
            };
        }
        8 => {
            let (to, max) = (Tag::ALL[rng.below(3) as usize], rng.below(20) as u32);
            let last = index.saturating_add(rng.below(1 << 14));
            changes.copy_tag((index, last), tag, to, max);
            let from = model.tags[tag as usize]
                .range(index..=last)
                .take(max as usize);
            let copied: Vec<u64> = from.copied().collect();
            model.tags[to as usize].extend(copied);
        }
        _ => {
            assert_eq!(
                changes.has_tag(index, tag),
                model.tags[tag as usize].contains(&index)
            );
        }
    }
    assert_eq!(tree.load(index), model.values.get(&index).copied());
    for find in [Find::Any, Find::Tagged(tag)] {
        assert_eq!(tree.next(index, find), model.next(index, find));
    }
}

#[test]
fn it_is_a_map_with_tags() {
    for seed in 0..200 {
        let mut rng = Rng(seed);
        let (tree, mut control, mut model) =
            (Tree::default(), Control::default(), Model::default());
        for round in 0..400 {
            step(
                &mut rng,
                1 + seed as u32 % 5,
                &tree,
                &mut control,
                &mut model,
            );
            if round % 20 == 0 {
                Changes::new(&tree, &mut control).verify();
            }
        }
        let mut changes = Changes::new(&tree, &mut control);
        changes.verify();
        assert_eq!(changes.size().entries, model.values.len() as u64);
        for index in model.values.into_keys() {
            changes.remove(index);
            changes.verify();
        }
        assert_eq!((changes.size().nodes, tree.next(0, Find::Any)), (0, None));
    }
}

#[test]
fn a_dense_file_takes_a_node_for_64_pages_and_gives_them_back() {
    let (tree, mut control) = (Tree::default(), Control::default());
    let mut changes = Changes::new(&tree, &mut control);
    (0..4096 * 64).for_each(|page| assert_eq!(changes.insert(page, page), None));
    let size = changes.size();
    assert_eq!(size.nodes, 4096 + 64 + 1);
    // 576 bytes a node in Linux (ScaleCache, section 2.2); at most half of the memory is unused.
    assert!(size.bytes <= 2 * 576 * size.nodes, "{size:?}");
    (0..4096 * 64).for_each(|page| assert_eq!(changes.remove(page), Some(page)));
    assert_eq!((changes.size().entries, changes.size().nodes), (0, 0));
    (0..64).for_each(|page| assert_eq!(changes.insert(page, page), None));
    assert_eq!(changes.size().bytes, size.bytes, "nodes are used again");
}
