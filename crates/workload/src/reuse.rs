//! LRU stack distances, exactly: how many distinct other pages were touched between two touches
//! of one page. This is the reuse distance of CLOCK-Pro (Jiang, Chen and Zhang, ATC 2005).
//!
//! 1. Each touch takes the next slot of a time line and frees the slot of the page's touch before.
//! 2. The distance is the number of taken slots after the freed one: a bitmap, and a Fenwick tree of the
//!    counts per 512 slots, O(log n) a touch.
//! 3. When the time line is used up, the taken slots are moved together; it is made at least twice as
//!    long as they need, so that this costs O(1) a touch in the mean.

use std::hash::Hash;

use rustc_hash::FxHashMap;

const SLOTS_MIN: usize = 1 << 12;
const WORD: usize = 64;
const BLOCK_WORDS: usize = 8;
const BLOCK: usize = WORD * BLOCK_WORDS;

/// Stack distances over pages named by `K`.
pub struct StackDistances<K> {
    slot_of: FxHashMap<K, u32>,
    key_at: Vec<K>,
    bits: Vec<u64>,
    /// Fenwick tree over blocks, from 1.
    tree: Vec<u32>,
    capacity: usize,
}

impl<K: Copy + Eq + Hash> Default for StackDistances<K> {
    fn default() -> Self {
        StackDistances {
            slot_of: FxHashMap::default(),
            key_at: Vec::new(),
            bits: vec![0; SLOTS_MIN / WORD],
            tree: vec![0; SLOTS_MIN / BLOCK + 1],
            capacity: SLOTS_MIN,
        }
    }
}

impl<K: Copy + Eq + Hash> StackDistances<K> {
    /// Touches a page. Returns the number of distinct other pages touched since its last touch, or
    /// `None` at its first.
    pub fn touch(&mut self, page: K) -> Option<u64> {
        if self.key_at.len() == self.capacity {
            self.compact();
        }
        let slot = self.key_at.len();
        self.key_at.push(page);
        let before = self.slot_of.insert(page, slot as u32);
        let distance = before.map(|before| {
            let before = before as usize;
            let older_or_same = self.taken_up_to(before);
            self.bits[before / WORD] &= !(1 << (before % WORD));
            self.add(before / BLOCK, u32::MAX);
            // The map already counts this page once; itself is not among the others.
            self.slot_of.len() as u64 - older_or_same
        });
        self.bits[slot / WORD] |= 1 << (slot % WORD);
        self.add(slot / BLOCK, 1);
        distance
    }

    /// Number of distinct pages so far.
    pub fn unique_pages(&self) -> u64 {
        self.slot_of.len() as u64
    }

    /// Adds to the count of a block, modulo 2^32.
    fn add(&mut self, block: usize, count: u32) {
        let mut at = block + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(count);
            at += at & at.wrapping_neg();
        }
    }

    /// Taken slots from the first to `slot` inclusive.
    fn taken_up_to(&self, slot: usize) -> u64 {
        let (mut at, mut sum) = (slot / BLOCK, 0u32);
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at]);
            at &= at - 1;
        }
        let word = slot / WORD;
        let whole = &self.bits[slot / BLOCK * BLOCK_WORDS..word];
        let last = self.bits[word] & (u64::MAX >> (WORD - 1 - slot % WORD));
        let ones: u32 = whole.iter().map(|w| w.count_ones()).sum();
        u64::from(sum) + u64::from(ones + last.count_ones())
    }

    /// Moves the taken slots together, on a time line of at least twice their number.
    fn compact(&mut self) {
        let mut kept = Vec::with_capacity(self.slot_of.len());
        for (slot, &key) in self.key_at.iter().enumerate() {
            if self.bits[slot / WORD] >> (slot % WORD) & 1 == 1 {
                self.slot_of.insert(key, kept.len() as u32);
                kept.push(key);
            }
        }
        let taken = kept.len();
        self.capacity = (2 * taken).next_power_of_two().max(SLOTS_MIN);
        kept.reserve_exact(self.capacity - taken);
        self.key_at = kept;
        self.bits = vec![0; self.capacity / WORD];
        self.tree = vec![0; self.capacity / BLOCK + 1];
        for slot in 0..taken {
            self.bits[slot / WORD] |= 1 << (slot % WORD);
        }
        for block in 0..taken.div_ceil(BLOCK) {
            self.add(block, (taken - block * BLOCK).min(BLOCK) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list with the most recent page first.
    #[derive(Default)]
    struct Obvious(Vec<u64>);

    impl Obvious {
        fn touch(&mut self, page: u64) -> Option<u64> {
            let at = self.0.iter().position(|&p| p == page);
            if let Some(at) = at {
                self.0.remove(at);
            }
            self.0.insert(0, page);
            at.map(|at| at as u64)
        }
    }

    #[test]
    fn distances_equal_those_of_a_list_over_many_compactions() {
        let mut x = 7u64;
        let (mut fast, mut slow) = (StackDistances::default(), Obvious::default());
        for step in 0..60_000u64 {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            // Some pages hot, some rare, and new ones coming.
            let page = match x >> 62 {
                0 => x >> 33 & 0xf,
                1 | 2 => 100 + (x >> 33 & 0x3ff),
                _ => step / 8,
            };
            assert_eq!(fast.touch(page), slow.touch(page), "step {step}");
        }
        assert_eq!(fast.unique_pages(), slow.0.len() as u64);
    }
}
