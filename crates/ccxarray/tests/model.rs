//! The tree beside a sorted map, in random operations.
#![cfg(not(any(loom, shuttle)))]

mod support;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use ccxarray::{Guard, Shape, Tag, Tagged, Tags, XArray, pin};
use support::Rng;

/// What the tree should hold.
#[derive(Default)]
struct Model(BTreeMap<u64, Tagged<u64>>);

impl Model {
    fn at_or_after(&self, from: u64, tag: Option<Tag>) -> Option<(u64, u64)> {
        let mut found = self.range(from..=u64::MAX, tag);
        found.next().map(|(index, now)| (index, now.entry))
    }

    fn range(
        &self,
        range: RangeInclusive<u64>,
        tag: Option<Tag>,
    ) -> impl Iterator<Item = (u64, Tagged<u64>)> {
        let found = self.0.range(range).map(|(&index, &now)| (index, now));
        found.filter(move |(_, now)| tag.is_none_or(|tag| now.tags.has(tag)))
    }

    fn hole(&self, from: u64) -> Option<u64> {
        let mut hole = from;
        for &index in self.0.range(from..).map(|(index, _)| index) {
            if index > hole {
                break;
            }
            hole = index.checked_add(1)?;
        }
        Some(hole)
    }
}

struct Pair {
    tree: XArray,
    model: Model,
    rng: Rng,
    /// How wide indices spread, 1 to 6.
    spread: u64,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        Pair {
            tree: XArray::new(),
            model: Model::default(),
            rng: Rng(seed),
            spread: 1 + seed % 6,
        }
    }

    /// An index, half of the time one that is in use.
    fn index(&mut self) -> u64 {
        let bits = [3, 8, 14, 40, 63, 64][self.rng.below(self.spread) as usize];
        let index = self.rng.next() >> (64 - bits);
        // The greatest indices have neighbours of their own.
        let index = if self.rng.below(8) == 0 && bits == 64 {
            u64::MAX - (index >> 61)
        } else {
            index
        };
        match self.rng.below(2) {
            0 => index,
            _ => self
                .model
                .at_or_after(index, None)
                .map_or(index, |(at, _)| at),
        }
    }

    fn entry(&mut self) -> u64 {
        self.rng.next() >> 4
    }

    fn tag(&mut self) -> Tag {
        Tag::ALL[self.rng.below(3) as usize]
    }

    fn range(&mut self) -> RangeInclusive<u64> {
        let first = self.index();
        first..=first.saturating_add(self.rng.below(1 << 13))
    }

    fn step(&mut self, guard: &Guard) {
        let index = self.index();
        let before = self.model.0.get(&index).copied();
        match self.rng.below(14) {
            0..3 => self.insert(index, before, guard),
            3 => {
                let entry = self.entry();
                let tags = before.map_or(Tags::NONE, |before| before.tags);
                let replaced = self.tree.replace(index, entry, guard);
                assert_eq!(replaced, before.map(|before| before.entry));
                self.model.0.insert(index, Tagged { entry, tags });
            }
            4..6 => {
                assert_eq!(self.tree.remove(index, guard), before);
                self.model.0.remove(&index);
            }
            6..9 => self.tag_one(index, before, guard),
            9 => self.exchange(index, before, guard),
            10 => self.update(index, before, guard),
            11 => self.copy_tags(guard),
            12 => self.retain(guard),
            _ => {
                let range = self.range();
                self.tree.reclaim(range, guard);
            }
        }
        self.compare(index, guard);
    }

    fn insert(&mut self, index: u64, before: Option<Tagged<u64>>, guard: &Guard) {
        let entry = self.entry();
        let inserted = self.tree.insert(index, entry, guard);
        assert_eq!(inserted, before.map_or(Ok(()), |before| Err(before.entry)));
        let tags = Tags::NONE;
        self.model.0.entry(index).or_insert(Tagged { entry, tags });
    }

    fn tag_one(&mut self, index: u64, before: Option<Tagged<u64>>, guard: &Guard) {
        let (tag, on) = (self.tag(), self.rng.below(3) > 0);
        let done = match on {
            true => self.tree.set_tag(index, tag, guard),
            false => self.tree.clear_tag(index, tag, guard),
        };
        assert_eq!(done, before.is_some());
        if let Some(now) = self.model.0.get_mut(&index) {
            now.tags = match on {
                true => now.tags.with(tag),
                false => now.tags.without(tag),
            };
        }
        assert_eq!(self.tree.has_tag(index, tag, guard), on && before.is_some());
    }

    fn exchange(&mut self, index: u64, before: Option<Tagged<u64>>, guard: &Guard) {
        let (guess, new) = (self.entry(), self.entry());
        let found = before.map(|before| before.entry);
        let exchanged = self.tree.compare_exchange(index, guess, new, guard);
        assert_eq!(exchanged, Err(found));
        if let Some(found) = found {
            let exchanged = self.tree.compare_exchange(index, found, new, guard);
            assert_eq!(exchanged, Ok(()));
            self.model.0.get_mut(&index).unwrap().entry = new;
        }
    }

    fn update(&mut self, index: u64, before: Option<Tagged<u64>>, guard: &Guard) {
        let (entry, tag) = (self.entry(), self.tag());
        let left = self.tree.update(index, guard, |_| None);
        assert_eq!(left, Err(before));
        let tags = Tags::from(tag);
        let updated = self
            .tree
            .update(index, guard, |_| Some(Tagged { entry, tags }));
        assert_eq!(updated.ok(), before);
        if let Some(now) = self.model.0.get_mut(&index) {
            *now = Tagged { entry, tags };
        }
    }

    fn copy_tags(&mut self, guard: &Guard) {
        let (from, to, limit) = (self.tag(), self.tag(), self.rng.below(20) as usize);
        let range = self.range();
        let found: Vec<u64> = self
            .model
            .range(range.clone(), Some(from))
            .map(|(index, _)| index)
            .collect();
        let (count, next) = self.tree.copy_tag(range, from, to, limit, guard);
        assert_eq!(count, found.len().min(limit));
        assert_eq!(next, found.get(limit).copied());
        for index in &found[..count] {
            let now = self.model.0.get_mut(index).unwrap();
            now.tags = now.tags.with(to);
        }
    }

    fn retain(&mut self, guard: &Guard) {
        let (range, tag) = (self.range(), self.tag());
        let clean: Vec<u64> = self
            .model
            .range(range.clone(), None)
            .filter(|(_, now)| !now.tags.has(tag))
            .map(|(index, _)| index)
            .collect();
        let keep = |_, now: Tagged<u64>| now.tags.has(tag);
        assert_eq!(self.tree.retain(range, guard, keep), clean.len());
        for index in clean {
            self.model.0.remove(&index);
        }
    }

    /// Compares look-ups and searches from an index on.
    fn compare(&mut self, index: u64, guard: &Guard) {
        let (tree, model) = (&self.tree, &self.model);
        assert_eq!(tree.get_tagged(index, guard), model.0.get(&index).copied());
        let entry = model.0.get(&index).map(|now| now.entry);
        assert_eq!(tree.get(index, guard), entry);
        assert_eq!(
            tree.next_at_or_after(index, guard),
            model.at_or_after(index, None)
        );
        assert_eq!(tree.next_hole(index, guard), model.hole(index));
        let tag = self.tag();
        assert_eq!(
            self.tree.next_tagged(tag, index, guard),
            self.model.at_or_after(index, Some(tag))
        );
        let range = self.range();
        let found = self.tree.range_tagged(tag, range.clone(), guard).take(5);
        assert!(found.eq(self.model.range(range, Some(tag)).take(5)));
    }
}

#[test]
fn it_is_a_map_with_tags() {
    for seed in 0..300 {
        let mut pair = Pair::new(seed);
        let guard = pin();
        for round in 0..400 {
            pair.step(&guard);
            if round % 20 == 0 {
                let shape = pair.tree.verify(&guard);
                assert_eq!(shape.entries, pair.model.0.len());
            }
        }
        let Pair { tree, model, .. } = pair;
        assert!(tree.range(.., &guard).eq(model.range(0..=u64::MAX, None)));
        for tag in Tag::ALL {
            let found = tree.range_tagged(tag, .., &guard);
            assert!(found.eq(model.range(0..=u64::MAX, Some(tag))));
        }
        tree.reclaim(.., &guard);
        let shape = tree.verify(&guard);
        assert_eq!((shape.stale_bits, shape.empty_nodes), (0, 0), "seed {seed}");
        assert_eq!(tree.len(&guard), model.0.len());
        for index in model.0.into_keys() {
            tree.remove(index, &guard);
        }
        assert!(tree.is_empty(&guard));
        tree.reclaim(.., &guard);
        assert_eq!(tree.verify(&guard), Shape::default());
    }
}

#[test]
fn the_tree_is_as_high_as_its_greatest_index_needs() {
    let (tree, guard) = (XArray::<u64>::new(), pin());
    for (index, height) in [
        (63, 1),
        (64, 2),
        (4095, 2),
        (4096, 3),
        (1 << 40, 7),
        (u64::MAX, 11),
    ] {
        tree.insert(index, index >> 4, &guard).unwrap();
        assert_eq!(tree.verify(&guard).height, height);
    }
    for (index, height) in [(u64::MAX, 7), (1 << 40, 3), (4096, 2), (4095, 2), (64, 1)] {
        tree.remove(index, &guard);
        tree.reclaim(.., &guard);
        assert_eq!(tree.verify(&guard).height, height);
    }
    assert_eq!(tree.get(63, &guard), Some(3));
}

#[test]
fn an_empty_node_is_used_again() {
    let (tree, guard) = (XArray::<u64>::new(), pin());
    for round in 0..3 {
        tree.insert(70, round, &guard).unwrap();
        assert_eq!(tree.nodes(&guard), 2);
        tree.set_tag(70, Tag::Dirty, &guard);
        assert_eq!(tree.remove(70, &guard).unwrap().entry, round);
        // A tag does not outlive its entry.
        tree.insert(70, round, &guard).unwrap();
        assert_eq!(tree.next_tagged(Tag::Dirty, 0, &guard), None);
        tree.remove(70, &guard);
    }
    assert_eq!(tree.reclaim(.., &guard), 2);
    assert_eq!(tree.nodes(&guard), 0);
}

#[test]
fn a_range_is_reclaimed_without_its_neighbours() {
    let (tree, guard) = (XArray::<u64>::new(), pin());
    for index in (0..64 * 64).step_by(64) {
        tree.insert(index, index, &guard).unwrap();
        tree.remove(index, &guard);
    }
    assert_eq!(tree.nodes(&guard), 65);
    assert_eq!(tree.reclaim(640..704, &guard), 1);
    assert_eq!(tree.reclaim(640.., &guard), 53);
    assert_eq!(tree.reclaim(10..10, &guard), 0);
    assert_eq!(tree.reclaim(.., &guard), 11);
}
