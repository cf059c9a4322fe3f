//! Erase blocks: their states, how many valid pages each has, and who is free.
//!
//! A block goes round: free → open (a frontier writes it) → closed → victim → erasing → free. A
//! closed block hangs in the list of its number of valid pages, so that the emptiest is found, and
//! an invalidated page accounted, in constant time. Where pages are packed, valid data are weighed
//! by granules, and a list is of blocks that weigh about the same. Free blocks wait in the
//! order of their wear, for each plane. Host writes get the least worn one; collected pages, which
//! will stay for longer, get the most worn one: dynamic wear levelling.

use std::collections::BTreeSet;

use super::entry::NONE;
use super::frames::Origin;
use crate::divide::quotient;

/// Where a block is in its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Erased, waiting to be opened.
    Free,
    /// Written by a frontier, or its last programs are under way.
    Open,
    /// Full; may be chosen as a victim.
    Closed,
    /// Its valid pages are being moved.
    Victim,
    /// Its erase is under way.
    Erasing,
    /// Holds a page that cannot be read: not collected while that page is mapped.
    Spoiled,
    /// Worn out: not used any more.
    Retired,
}

/// Most blocks of equally many valid pages among which a victim is chosen: several for each plane of
/// a core of usual size.
const CANDIDATES_MAX: usize = 64;

/// One erase block.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    /// What a map entry (or a frame on its way) refers to: pages, or granules of packed ones.
    pub valid: u32,
    /// Programs under way.
    pub pending: u32,
    previous: u32,
    next: u32,
    /// The core's sequence number when the block closed: its age.
    pub closed_seq: u64,
    /// Where it is in its round.
    pub state: State,
}

/// All blocks of a core.
#[derive(Debug)]
pub struct Blocks {
    blocks: Vec<Block>,
    /// First closed block of each number of valid pages, or of granules that are about as many.
    heads: Vec<u32>,
    /// Blocks are in one list whose valid data differ in so many low bits alone.
    list_bits: u32,
    /// No closed block is in a list before this.
    fewest_valid: usize,
    /// Erase count and number of the free blocks of each plane.
    free: Vec<BTreeSet<(u32, u32)>>,
    free_count: u32,
    /// Blocks of each plane that will be free: victims, and those being erased.
    coming: Vec<u32>,
    blocks_per_plane: u32,
}

impl Blocks {
    /// `planes * blocks_per_plane` blocks, none free yet. Valid data weigh `weight_per_block` at most,
    /// in `lists_max` lists or little more.
    pub fn new(
        planes: u32,
        blocks_per_plane: u32,
        weight_per_block: u32,
        lists_max: u32,
    ) -> Blocks {
        let list_bits = (0..).find(|bits| weight_per_block >> bits <= lists_max);
        let list_bits = list_bits.expect("one list is enough in the end");
        let empty = Block {
            valid: 0,
            pending: 0,
            previous: NONE,
            next: NONE,
            closed_seq: 0,
            state: State::Open,
        };
        Blocks {
            blocks: vec![empty; (planes * blocks_per_plane) as usize],
            heads: vec![NONE; (weight_per_block >> list_bits) as usize + 1],
            list_bits,
            fewest_valid: 0,
            free: (0..planes).map(|_| BTreeSet::new()).collect(),
            free_count: 0,
            coming: vec![0; planes as usize],
            blocks_per_plane,
        }
    }

    /// The block of this number.
    #[inline]
    pub fn get(&self, block: u32) -> &Block {
        &self.blocks[block as usize]
    }

    /// All blocks, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Block)> {
        (0..).zip(&self.blocks)
    }

    /// The plane that a block is on.
    #[inline]
    pub fn plane_of(&self, block: u32) -> u32 {
        quotient(u64::from(block), self.blocks_per_plane) as u32
    }

    /// Blocks that are free.
    #[inline]
    pub fn free_count(&self) -> u32 {
        self.free_count
    }

    /// True if a block of the plane is free.
    #[inline]
    pub fn has_free(&self, plane: u32) -> bool {
        !self.free[plane as usize].is_empty()
    }

    /// The block that [`Blocks::open`] would open.
    pub fn next_free(&self, plane: u32, origin: Origin) -> Option<u32> {
        let free = &self.free[plane as usize];
        let next = match origin {
            Origin::Host => free.first(),
            Origin::Gc => free.last(),
        };
        next.map(|(_, block)| *block)
    }

    /// The blocks of a plane that are opened after the next: by host writes, and by collection.
    pub fn after_next(&self, plane: u32) -> impl Iterator<Item = u32> {
        let free = &self.free[plane as usize];
        let those = free.iter().nth(1).into_iter().chain(free.last());
        those.map(|(_, block)| *block)
    }

    /// Opens a free block of a plane: the least worn for a host write, the most worn for pages that
    /// were collected and will stay for longer.
    pub fn open(&mut self, plane: u32, origin: Origin) -> Option<u32> {
        let free = &mut self.free[plane as usize];
        let (_, block) = match origin {
            Origin::Host => free.pop_first()?,
            Origin::Gc => free.pop_last()?,
        };
        let entry = &mut self.blocks[block as usize];
        assert!(
            entry.state == State::Free && entry.valid == 0 && entry.pending == 0,
            "{entry:?}"
        );
        entry.state = State::Open;
        self.free_count -= 1;
        Some(block)
    }

    /// Puts an erased block among the free ones.
    pub fn set_free(&mut self, block: u32, erase_count: u32) {
        self.mark_free(block);
        let plane = self.plane_of(block);
        self.free[plane as usize].insert((erase_count, block));
    }

    /// Puts erased blocks, given with their erase counts, among the free ones: those of a whole core at once,
    /// where blocks are of a page each and millions.
    pub fn set_all_free(&mut self, erased: &[(u32, u32)]) {
        let mut of_planes = vec![Vec::new(); self.free.len()];
        for &(block, erase_count) in erased {
            self.mark_free(block);
            of_planes[self.plane_of(block) as usize].push((erase_count, block));
        }
        for (free, erased) in self.free.iter_mut().zip(of_planes) {
            // Built whole, a set takes a tenth of the time of as many insertions.
            free.append(&mut erased.into_iter().collect());
        }
    }

    fn mark_free(&mut self, block: u32) {
        let entry = &mut self.blocks[block as usize];
        assert!(
            entry.valid == 0 && entry.pending == 0,
            "a block with pages is freed: {entry:?}"
        );
        let was_coming = entry.state == State::Erasing;
        entry.state = State::Free;
        self.free_count += 1;
        let plane = self.plane_of(block);
        self.coming[plane as usize] -= u32::from(was_coming);
    }

    /// Closes a full block, now that its last program has ended.
    pub fn close(&mut self, block: u32, seq: u64) {
        let entry = &mut self.blocks[block as usize];
        assert!(
            entry.state == State::Open && entry.pending == 0,
            "{entry:?}"
        );
        entry.state = State::Closed;
        entry.closed_seq = seq;
        self.link(block);
    }

    /// A program on the block has begun.
    #[inline]
    pub fn begin_program(&mut self, block: u32) {
        self.blocks[block as usize].pending += 1;
    }

    /// A program on the block has ended; returns whether it was the last under way.
    #[inline]
    pub fn end_program(&mut self, block: u32) -> bool {
        let entry = &mut self.blocks[block as usize];
        entry.pending -= 1;
        entry.pending == 0
    }

    /// A page of the block, of this weight, has become valid.
    #[inline]
    pub fn validate(&mut self, block: u32, weight: u32) {
        let entry = &mut self.blocks[block as usize];
        debug_assert!(entry.state == State::Open, "{entry:?}");
        entry.valid += weight;
    }

    /// A page of the block, of this weight, is no longer needed; returns whether it was the last.
    #[inline]
    pub fn invalidate(&mut self, block: u32, weight: u32) -> bool {
        if self.blocks[block as usize].state == State::Closed {
            self.unlink(block);
            self.blocks[block as usize].valid -= weight;
            self.link(block);
        } else {
            self.blocks[block as usize].valid -= weight;
        }
        let emptied = self.blocks[block as usize].valid == 0;
        if emptied && self.blocks[block as usize].state == State::Spoiled {
            // The unreadable page was overwritten: the block can be collected after all.
            self.blocks[block as usize].state = State::Closed;
            self.link(block);
        }
        emptied
    }

    /// Takes a closed block as a victim.
    pub fn take_victim(&mut self, block: u32) {
        assert!(self.blocks[block as usize].state == State::Closed);
        self.unlink(block);
        self.blocks[block as usize].state = State::Victim;
        let plane = self.plane_of(block);
        self.coming[plane as usize] += 1;
    }

    /// Moves a block that is not in a list to another state.
    pub fn set_state(&mut self, block: u32, state: State) {
        let entry = &mut self.blocks[block as usize];
        assert!(
            entry.state != State::Closed && entry.state != State::Free,
            "{entry:?}"
        );
        let was_coming = entry.state != State::Open;
        entry.state = state;
        if was_coming && state != State::Erasing {
            let plane = self.plane_of(block);
            self.coming[plane as usize] -= 1;
        }
    }

    /// What the valid data of the emptiest closed block weigh, or little less.
    pub fn fewest_valid(&mut self) -> Option<u32> {
        Some((self.first_list()? as u32) << self.list_bits)
    }

    fn first_list(&mut self) -> Option<usize> {
        while *self.heads.get(self.fewest_valid)? == NONE {
            self.fewest_valid += 1;
        }
        Some(self.fewest_valid)
    }

    /// The closed block with the fewest valid pages; of several one on the plane that has the fewest
    /// blocks free or coming, so that collected pages and host writes find room on every plane.
    pub fn emptiest(&mut self) -> Option<u32> {
        let fewest = self.first_list()?;
        let first = self.heads[fewest];
        let next = |block: &u32| Some(self.blocks[*block as usize].next).filter(|b| *b != NONE);
        let candidates = std::iter::successors(Some(first), next).take(CANDIDATES_MAX);
        candidates.min_by_key(|block| {
            let plane = self.plane_of(*block) as usize;
            let room = self.free[plane].len() + self.coming[plane] as usize;
            // In a list of weights a block without any is still the best.
            (self.blocks[*block as usize].valid > 0 && fewest == 0, room)
        })
    }

    #[inline]
    fn link(&mut self, block: u32) {
        let valid = (self.blocks[block as usize].valid >> self.list_bits) as usize;
        let first = std::mem::replace(&mut self.heads[valid], block);
        self.blocks[block as usize].previous = NONE;
        self.blocks[block as usize].next = first;
        if first != NONE {
            self.blocks[first as usize].previous = block;
        }
        self.fewest_valid = self.fewest_valid.min(valid);
    }

    #[inline]
    fn unlink(&mut self, block: u32) {
        let Block {
            valid,
            previous,
            next,
            ..
        } = self.blocks[block as usize];
        match previous {
            NONE => self.heads[(valid >> self.list_bits) as usize] = next,
            _ => self.blocks[previous as usize].next = next,
        }
        if next != NONE {
            self.blocks[next as usize].previous = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(blocks: &mut Blocks, valid: u32) -> u32 {
        let block = blocks.open(0, Origin::Host).unwrap();
        blocks.validate(block, valid);
        blocks.close(block, 1);
        block
    }

    #[test]
    fn the_emptiest_block_is_found_whatever_happens_to_the_others() {
        let mut blocks = Blocks::new(1, 4, 8, 8);
        (0..4).for_each(|b| blocks.set_free(b, 0));
        let [a, b, c] = [5, 3, 4].map(|valid| closed(&mut blocks, valid));
        assert_eq!(blocks.emptiest(), Some(b));
        (0..3).for_each(|_| assert!(!blocks.invalidate(a, 1)));
        assert_eq!(blocks.emptiest(), Some(a));
        blocks.take_victim(a);
        assert_eq!(blocks.emptiest(), Some(b));
        blocks.invalidate(c, 1);
        blocks.invalidate(c, 1);
        assert_eq!(blocks.emptiest(), Some(c));
        assert!(!blocks.invalidate(a, 1));
        assert!(blocks.invalidate(a, 1), "the last page of the victim");
    }

    #[test]
    fn the_host_gets_the_least_worn_free_block_and_collection_the_most_worn() {
        let mut blocks = Blocks::new(2, 2, 8, 8);
        for (block, wear) in [(0, 9), (1, 3), (2, 1), (3, 7)] {
            blocks.set_free(block, wear);
        }
        assert_eq!(
            [(); 3].map(|()| blocks.open(0, Origin::Host)),
            [Some(1), Some(0), None]
        );
        assert_eq!(blocks.open(1, Origin::Gc), Some(3));
        assert_eq!(blocks.free_count(), 1);
    }

    #[test]
    fn blocks_that_are_freed_together_are_free_as_one_by_one() {
        let erased = [(0, 3), (1, 0), (2, 7), (3, 0), (5, 2)];
        let (mut together, mut singly) = (Blocks::new(2, 3, 8, 8), Blocks::new(2, 3, 8, 8));
        together.set_all_free(&erased);
        for (block, wear) in erased {
            singly.set_free(block, wear);
        }
        assert_eq!((together.free_count(), singly.free_count()), (5, 5));
        for (plane, origin) in [
            (0, Origin::Host),
            (0, Origin::Gc),
            (1, Origin::Gc),
            (1, Origin::Host),
        ] {
            let opened = together.open(plane, origin);
            assert!(opened.is_some() && opened == singly.open(plane, origin));
        }
    }
}
