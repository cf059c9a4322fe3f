//! A thread's part in a scene of several: it owns some of the indices, knows what must be there, and
//! does to the tree as a whole whatever it likes.

use std::collections::BTreeMap;

use ccxarray::{Guard, Tag, Tagged, Tags, XArray, pin};

use crate::support::Rng;

/// What a scene is.
#[derive(Clone, Copy)]
pub struct Scene {
    /// Threads; thread `n` owns the indices that are `n` modulo their number.
    pub threads: u64,
    /// Operations of each.
    pub steps: u64,
    /// Indices have one of these numbers of bits.
    pub bits: &'static [u32],
}

/// A thread of a scene.
pub struct Actor<'a> {
    tree: &'a XArray,
    scene: Scene,
    number: u64,
    rng: Rng,
    owned: BTreeMap<u64, Tagged<u64>>,
}

impl<'a> Actor<'a> {
    pub fn new(tree: &'a XArray, scene: Scene, number: u64, seed: u64) -> Actor<'a> {
        Actor {
            tree,
            scene,
            number,
            rng: Rng(seed ^ number << 32),
            owned: BTreeMap::new(),
        }
    }

    /// Plays the part; gives what must be in the tree at the end.
    pub fn play(mut self) -> BTreeMap<u64, Tagged<u64>> {
        for _ in 0..self.scene.steps {
            self.step(&pin());
        }
        self.owned
    }

    fn index(&mut self) -> u64 {
        let bits = self.scene.bits;
        let bits = bits[self.rng.below(bits.len() as u64) as usize];
        self.rng.next() >> (64 - bits)
    }

    fn own_index(&mut self) -> u64 {
        let index = self.index();
        index - index % self.scene.threads + self.number
    }

    fn step(&mut self, guard: &Guard) {
        let index = self.own_index();
        let tag = Tag::ALL[self.rng.below(2) as usize];
        match self.rng.below(16) {
            0..4 => self.insert(index, guard),
            4..6 => assert_eq!(self.tree.remove(index, guard), self.owned.remove(&index)),
            6..9 => self.set_tag(index, tag, guard),
            9 => self.clear_tag(index, tag, guard),
            10 => self.truncate(index, guard),
            11..13 => {
                self.tree.reclaim(.., guard);
            }
            13 => {
                let from = self.index();
                if let Some(hole) = self.tree.next_hole(from, guard) {
                    assert!(hole >= from && !self.owned.contains_key(&hole));
                }
            }
            _ => self.search(guard),
        }
        let expected = self.owned.get(&index).copied();
        assert_eq!(self.tree.get_tagged(index, guard), expected);
    }

    fn insert(&mut self, index: u64, guard: &Guard) {
        let entry = self.rng.next() >> 4;
        let inserted = self.tree.insert(index, entry, guard);
        let before = self.owned.get(&index).map(|now| now.entry);
        assert_eq!(inserted, before.map_or(Ok(()), Err));
        let tags = Tags::NONE;
        self.owned.entry(index).or_insert(Tagged { entry, tags });
    }

    fn set_tag(&mut self, index: u64, tag: Tag, guard: &Guard) {
        let now = self.owned.get_mut(&index);
        assert_eq!(self.tree.set_tag(index, tag, guard), now.is_some());
        if let Some(now) = now {
            now.tags = now.tags.with(tag);
            // The search may find a neighbour's first.
            let found = self.tree.next_tagged(tag, index, guard);
            assert_eq!(found.map(|(index, _)| index), Some(index));
        }
    }

    fn clear_tag(&mut self, index: u64, tag: Tag, guard: &Guard) {
        let now = self.owned.get_mut(&index);
        assert_eq!(self.tree.clear_tag(index, tag, guard), now.is_some());
        if let Some(now) = now {
            now.tags = now.tags.without(tag);
        }
    }

    /// Takes the own entries of a range out.
    fn truncate(&mut self, first: u64, guard: &Guard) {
        let last = first.saturating_add(self.rng.below(200));
        let (threads, number) = (self.scene.threads, self.number);
        let is_other = |index, _| index % threads != number;
        let removed = self.tree.retain(first..=last, guard, is_other);
        let owned: Vec<u64> = self.owned.range(first..=last).map(|(&i, _)| i).collect();
        assert_eq!(removed, owned.len());
        for index in owned {
            self.owned.remove(&index);
        }
    }

    /// Finds the own entries among all, in order, with a tag or any.
    fn search(&mut self, guard: &Guard) {
        let tag = Tag::ALL[self.rng.below(2) as usize];
        let first = self.index();
        let own = |index: &u64| index % self.scene.threads == self.number;
        let owned = self.owned.range(first..);
        if self.rng.below(2) == 0 {
            let found = self.tree.range(first.., guard).map(|(index, _)| index);
            assert!(found.filter(own).eq(owned.map(|(&index, _)| index)));
        } else {
            let found = self.tree.range_tagged(tag, first.., guard);
            let found = found.map(|(index, _)| index).filter(own);
            let tagged = owned.filter(|(_, now)| now.tags.has(tag));
            assert!(found.eq(tagged.map(|(&index, _)| index)));
        }
    }
}

/// The look at the whole when all threads have come to their ends.
pub fn check(tree: &XArray, parts: Vec<BTreeMap<u64, Tagged<u64>>>) {
    let guard = pin();
    tree.verify(&guard);
    let mut expected = BTreeMap::new();
    parts.into_iter().for_each(|part| expected.extend(part));
    assert!(tree.range(.., &guard).eq(expected));
    // What takes a node's place has the bits of all tags that may be below; searches clear them.
    tree.reclaim(.., &guard);
    for tag in Tag::ALL {
        tree.range_tagged(tag, .., &guard).for_each(drop);
    }
    let shape = tree.verify(&guard);
    assert_eq!((shape.stale_bits, shape.empty_nodes), (0, 0));
}
