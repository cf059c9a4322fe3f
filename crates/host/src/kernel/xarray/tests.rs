//! The tree beside a map, in random operations; readers beside a writer.

use std::collections::{BTreeMap, BTreeSet};

use wharf_runtime::machine::Idle;
use wharf_runtime::{CostTable, CpuId, Machine, Rng, Seed, Side};

use super::*;

const ALL: [Tag; TAGS] = [Tag::Dirty, Tag::Writeback, Tag::ToWrite];

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
    rng.next_u64() >> (64 - bits)
}

fn step(rng: &mut Rng, spread: u32, tree: &Tree, control: &mut Control, model: &mut Model) {
    let mut changes = Changes::new(tree, control);
    let mut index = random_index(rng, spread);
    if rng.chance(1, 2) {
        // An index that is there, if one is.
        index = model
            .values
            .range(index..)
            .next()
            .map_or(index, |(i, _)| *i);
    }
    let tag = ALL[rng.below(3) as usize];
    match rng.below(10) {
        0..3 => {
            let value = rng.next_u64() >> 1;
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
            let on = rng.chance(2, 3);
            let there = model.values.contains_key(&index);
            assert_eq!(changes.set_tag(index, tag, on), there);
            match on && there {
                true => model.tags[tag as usize].insert(index),
                false => model.tags[tag as usize].remove(&index),
            };
        }
        8 => {
            let (to, max) = (ALL[rng.below(3) as usize], rng.below(20) as u32);
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
        let mut rng = Seed(seed).rng();
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

#[test]
fn readers_on_other_threads_see_what_is_there_all_the_time() {
    let array = std::sync::Arc::new(XArray::new());
    let mut machine = Machine::new(CostTable::free(), false);
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let [writer, reader] = ["writer", "reader"].map(|name| machine.add_cpu(name, Side::Host, 1.0));
    let (array_too, done_too) = (array.clone(), done.clone());
    // Page 70 stays; its neighbours come and go, and with them height and siblings.
    machine.spawn_main(writer, "writer", move |cpu| async move {
        let mut rng = Seed(1).rng();
        array_too.with(&cpu, |changes| {
            changes.insert(70, 70);
            changes.set_tag(70, Tag::Dirty, true);
        });
        for _ in 0..20_000 {
            let index = [3, 71, 5_000, 1 << 30][rng.below(4) as usize] + rng.below(3);
            array_too.with(&cpu, |changes| match changes.load(index) {
                Some(_) => changes.remove(index),
                None => changes.insert(index, index),
            });
        }
        done_too.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    machine.spawn_main(reader, "reader", move |cpu| async move {
        while array.load(70).is_none() {
            cpu.yield_now().await;
        }
        let mut rng = Seed(2).rng();
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            assert_eq!(array.load(70), Some(70));
            assert_eq!(array.next(4, Find::Tagged(Tag::Dirty)), Some((70, 70)));
            let index = [3, 71, 5_000, 1 << 30][rng.below(4) as usize];
            assert!(array.load(index).is_none_or(|value| value == index));
            cpu.progress();
            cpu.yield_now().await;
        }
        array.with(&cpu, |changes| changes.verify());
    });
    run_on_threads(machine, writer, reader);
}

fn run_on_threads(machine: Machine, writer: CpuId, reader: CpuId) {
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let summary = machine.run_threads(&[vec![writer], vec![reader]], Idle::default(), stop);
    drop(summary);
}
