//! A hash table from page to frame, in 4 bytes an entry: what the caches of the host have, and a core of a drive
//! whose index is not merged with its map. One CPU uses it, or all under a lock.
//!
//! Open addressing with linear probing. An entry holds a frame number plus one in its low bits,
//! and in the bits left over a tag of the page's hash, so that a probe rarely looks at the wrong
//! frame; 0 is an empty slot. The page number itself stands in the frame table, where the owner of
//! the index compares it.
//!
//! The home of a page is the hash of its group of 8 pages plus its place in the group: pages that are
//! neighbours are neighbours here too, often in one cache line.

/// The hash of a page's group: it picks the shard and the page's home.
#[inline]
pub fn hash_page(page: u64) -> u64 {
    // Fibonacci hashing with both halves of the product: its high bits are good on their own, its
    // low bits after the folding.
    let product = u128::from(page >> GROUP_SHIFT) * 0x9e37_79b9_7f4a_7c15;
    (product >> 64) as u64 ^ product as u64
}

/// Pages of a group, as a power of two.
const GROUP_SHIFT: u32 = 3;

/// Page to frame. The caller supplies hashes and compares pages.
pub struct Index {
    slots: Box<[u32]>,
    /// Low bits of an entry: the frame plus one.
    frame_mask: u32,
}

impl Index {
    /// An empty index for `frames` frames: at least a third of its slots stay empty.
    pub fn new(frames: u32) -> Index {
        assert!(frames > 0 && frames < 1 << 31, "1 to 2^31 - 1 frames");
        let slots = (u64::from(frames) * 3)
            .div_ceil(2)
            .next_power_of_two()
            .max(8);
        Index {
            slots: vec![0; slots as usize].into(),
            frame_mask: (frames + 1).next_power_of_two() - 1,
        }
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        self.slots.len() * size_of::<u32>()
    }

    #[inline]
    fn home(&self, page: u64, hash: u64) -> usize {
        let place = page & ((1 << GROUP_SHIFT) - 1);
        hash.wrapping_add(place) as usize & (self.slots.len() - 1)
    }

    #[inline]
    fn tag(&self, page: u64, hash: u64) -> u32 {
        // Other bits than those of the home, and the page's own, which tell neighbours apart.
        (((hash >> 32) as u32) ^ (page as u32).rotate_right(3)) & !self.frame_mask
    }

    /// The frame of `page`; `is_page(frame)` says whether a frame holds it.
    #[inline]
    pub fn find(&self, page: u64, hash: u64, is_page: impl Fn(u32) -> bool) -> Option<u32> {
        let tag = self.tag(page, hash);
        let mut at = self.home(page, hash);
        loop {
            let entry = self.slots[at];
            if entry == 0 {
                return None;
            }
            if entry & !self.frame_mask == tag {
                let frame = (entry & self.frame_mask) - 1;
                if is_page(frame) {
                    return Some(frame);
                }
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Enters a page that is not there.
    #[inline]
    pub fn insert(&mut self, page: u64, hash: u64, frame: u32) {
        let mut at = self.home(page, hash);
        while self.slots[at] != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = self.tag(page, hash) | (frame + 1);
    }

    /// Takes out the entry of `page`, which is there for `frame`. `page_of` gives the page of a frame.
    #[inline]
    pub fn remove(&mut self, page: u64, hash: u64, frame: u32, page_of: impl Fn(u32) -> u64) {
        let mask = self.slots.len() - 1;
        let entry = self.tag(page, hash) | (frame + 1);
        let mut hole = self.home(page, hash);
        while self.slots[hole] != entry {
            assert!(self.slots[hole] != 0, "page {page} is in the index");
            hole = (hole + 1) & mask;
        }
        // Later entries of the run move up, unless that would put them before their home.
        let mut at = (hole + 1) & mask;
        while self.slots[at] != 0 {
            let other = page_of((self.slots[at] & self.frame_mask) - 1);
            let home = self.home(other, hash_page(other));
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.slots[hole] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;
    use std::collections::BTreeMap;

    #[test]
    fn it_agrees_with_a_map_through_random_inserts_and_removals() {
        for seed in 0..200 {
            let mut rng = Seed(seed).child("index").rng();
            let frames = 1 + rng.below(60) as u32;
            let range = [50, 1_000, 1 << 40][rng.below(3) as usize];
            let mut index = Index::new(frames);
            let mut pages = vec![u64::MAX; frames as usize];
            let mut free: Vec<u32> = (0..frames).collect();
            let mut model = BTreeMap::new();
            for _ in 0..1_000 {
                let page = rng.below(range);
                let hash = hash_page(page);
                let found = index.find(page, hash, |f| pages[f as usize] == page);
                assert_eq!(found, model.get(&page).copied(), "seed {seed}, page {page}");
                if let Some(frame) = found {
                    index.remove(page, hash, frame, |f| pages[f as usize]);
                    pages[frame as usize] = u64::MAX;
                    model.remove(&page);
                    free.push(frame);
                } else if let Some(frame) = free.pop() {
                    pages[frame as usize] = page;
                    index.insert(page, hash, frame);
                    model.insert(page, frame);
                }
            }
            for (&page, &frame) in &model {
                let found = index.find(page, hash_page(page), |f| pages[f as usize] == page);
                assert_eq!(found, Some(frame), "seed {seed}, page {page}");
            }
        }
    }
}
