//! A map whose memory follows what it holds.
//!
//! 64 consecutive pages are a *row*: 2 bits of state for each, and where the entries of those that
//! have one are.
//!
//! | state | the page | memory |
//! |---|---|---|
//! | 0 | was never written, or was deallocated | |
//! | 2 | holds zeros, and no flash | the 2 bits |
//! | 3 | has an entry | 4 bytes in the row's *slot* |
//!
//! Deallocated pages need no mark: until the next checkpoint the log has them, and of pages that a
//! checkpoint does not name no copy from before it counts (`checkpoint.rs`). So a page that is
//! evicted from a cache gives its memory back at once.
//!
//! A row is 20 bytes: a word of low bits, a word of high bits, the slot. The entries of a row are in
//! its slot in the order of their pages; a slot has the size of a *class*, and moves when the row
//! needs another one. Slots of a class fill chunks of 4 KiB; a chunk without slots in use gives its
//! memory back, but for one of each class, and so does a group of rows that are all empty.

use std::ops::Range;

use super::entry::Place;
use crate::media::{SlabError, ZeroedSlab};

/// Pages of a row.
pub(super) const ROW_PAGES: u32 = 64;

/// Rows whose memory is given back together: five pages of 4 KiB.
const GROUP_ROWS: u32 = 1024;

/// Words of a chunk: a page of 4 KiB.
const CHUNK_WORDS: u32 = 1024;

/// Sizes of slots, in entries.
const CLASSES: [u32; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

/// Sum of [`CLASSES`]: words that a row can have made others keep at most, one slot of each class.
const CLASS_WORDS: u64 = 220;

/// No chunk, no slot.
const NONE: u32 = u32::MAX;

/// States of a page, see the module.
const ZERO: u32 = 2;
const STORED: u32 = 3;

/// Words 0 and 1: low bits; 2 and 3: high bits; 4: the slot, where a page has state 3.
type Raw = [u32; 5];

/// A row, unpacked.
#[derive(Clone, Copy)]
pub(super) struct Row {
    low: u64,
    high: u64,
    slot: u32,
}

impl Row {
    #[inline]
    fn unpack(raw: &Raw) -> Row {
        Row {
            low: u64::from(raw[0]) | u64::from(raw[1]) << 32,
            high: u64::from(raw[2]) | u64::from(raw[3]) << 32,
            slot: raw[4],
        }
    }

    #[inline]
    fn pack(self) -> Raw {
        let (low, high) = (self.low, self.high);
        [
            low as u32,
            (low >> 32) as u32,
            high as u32,
            (high >> 32) as u32,
            self.slot,
        ]
    }

    /// Low and high bits.
    pub fn bits(self) -> (u64, u64) {
        (self.low, self.high)
    }

    /// The pages of state 3.
    pub fn stored(self) -> u64 {
        self.low & self.high
    }

    fn known(self) -> u64 {
        self.low | self.high
    }
}

/// A chunk of slots of one class.
#[derive(Clone, Copy)]
struct Chunk {
    class: u8,
    /// Slots in use.
    used: u16,
    /// Slots that were ever in use: those behind hold no link.
    fresh: u16,
    /// The first of the free slots that were in use, each of which names the next.
    free: u16,
    /// Neighbours among the chunks of the class that have free slots.
    before: u32,
    after: u32,
}

/// Among slots of a chunk: none.
const NO_SLOT: u16 = u16::MAX;

/// The memory of all slots.
struct Slots {
    words: ZeroedSlab<u32>,
    chunks: Vec<Chunk>,
    /// Chunks without memory.
    empty: Vec<u32>,
    /// The first chunk of each class that has free slots.
    partial: [u32; CLASSES.len()],
}

/// See the [module](self).
pub(super) struct SparseMap {
    rows: ZeroedSlab<Raw>,
    /// Rows of each group that hold something.
    live: Vec<u16>,
    slots: Slots,
    /// Entries.
    stored: u64,
}

/// The class of a slot for `entries` entries, of 1 to 64.
#[inline]
fn class_of(entries: u32) -> usize {
    CLASSES.partition_point(|size| *size < entries)
}

/// Bytes that a checkpoint's rows take at most, of `pages` pages of which `entries` have an entry.
pub(crate) fn bytes_max(pages: u32, entries: u64) -> u64 {
    u64::from(pages.div_ceil(ROW_PAGES)) * ROW_BYTES + entries * 4
}

/// Bytes of a row in a checkpoint, without its entries: its number and its states.
pub(super) const ROW_BYTES: u64 = 20;

impl SparseMap {
    /// A map of `pages` pages of which at most `entries_max` have an entry at a time.
    pub fn new(pages: u32, entries_max: u64) -> Result<SparseMap, SlabError> {
        let rows = pages.div_ceil(ROW_PAGES);
        // A chunk is made where no chunk of its class has a free slot. So the chunks of a class are never
        // more than its slots once filled: one for each row, and no more words than 1.5 times the entries.
        let classes = CLASSES.len() as u64;
        let words =
            (u64::from(rows) * CLASS_WORDS).min(entries_max.saturating_mul(classes * 3 / 2));
        let words = (words + classes * u64::from(CHUNK_WORDS)).min(u64::from(NONE));
        let chunks = words
            .div_ceil(u64::from(CHUNK_WORDS))
            .min(u64::from(NONE / CHUNK_WORDS));
        Ok(SparseMap {
            rows: ZeroedSlab::sparse("the rows of the map", rows as usize)?,
            live: vec![0; rows.div_ceil(GROUP_ROWS) as usize],
            slots: Slots {
                words: ZeroedSlab::sparse(
                    "the entries of the map",
                    chunks as usize * CHUNK_WORDS as usize,
                )?,
                chunks: Vec::new(),
                empty: Vec::new(),
                partial: [NONE; CLASSES.len()],
            },
            stored: 0,
        })
    }

    /// The entry of a page.
    pub fn get(&self, lpn: u32) -> u32 {
        let row = Row::unpack(&self.rows[(lpn / ROW_PAGES) as usize]);
        let bit = 1 << (lpn % ROW_PAGES);
        match state(row, bit) {
            STORED => {
                let rank = (row.stored() & (bit - 1)).count_ones();
                self.slots.words[(row.slot + rank) as usize]
            }
            ZERO => Place::Zero.encode(),
            _ => Place::Unmapped.encode(),
        }
    }

    /// Changes the entry of a page.
    pub fn set(&mut self, lpn: u32, entry: u32) {
        let index = lpn / ROW_PAGES;
        let mut row = Row::unpack(&self.rows[index as usize]);
        let bit = 1 << (lpn % ROW_PAGES);
        let (was, known) = (state(row, bit), row.known() != 0);
        let now = match super::map::uncached(entry) {
            Some(Place::Unmapped | Place::Trimmed) => 0,
            Some(Place::Zero) => ZERO,
            _ => STORED,
        };
        let (rank, count) = (
            (row.stored() & (bit - 1)).count_ones(),
            row.stored().count_ones(),
        );
        match (was == STORED, now == STORED) {
            (true, true) => self.slots.words[(row.slot + rank) as usize] = entry,
            (false, true) => row.slot = self.slots.insert(row.slot, count, rank, entry),
            (true, false) => row.slot = self.slots.remove(row.slot, count, rank),
            (false, false) => {}
        }
        row.low = if now & 1 != 0 {
            row.low | bit
        } else {
            row.low & !bit
        };
        row.high = if now & 2 != 0 {
            row.high | bit
        } else {
            row.high & !bit
        };
        self.stored += u64::from(now == STORED);
        self.stored -= u64::from(was == STORED);
        self.put(index, row, known);
    }

    /// Keeps a row, which held something before if `known`.
    fn put(&mut self, index: u32, row: Row, known: bool) {
        self.rows[index as usize] = row.pack();
        let group = (index / GROUP_ROWS) as usize;
        match (known, row.known() != 0) {
            (false, true) => self.live[group] += 1,
            (true, false) => {
                self.live[group] -= 1;
                if self.live[group] == 0 {
                    let first = group * GROUP_ROWS as usize;
                    let end = (first + GROUP_ROWS as usize).min(self.rows.len());
                    self.rows.forget(first..end);
                }
            }
            _ => {}
        }
    }

    /// The first page of `range` that is in a state other than 0.
    pub fn next_known(&self, range: Range<u32>) -> Option<u32> {
        if range.is_empty() {
            return None;
        }
        let (first, mut mask) = (
            range.start / ROW_PAGES,
            u64::MAX << (range.start % ROW_PAGES),
        );
        for (index, row) in self.rows_from(first) {
            if index * ROW_PAGES >= range.end {
                return None;
            }
            if index > first {
                mask = u64::MAX;
            }
            let known = row.known() & mask;
            if known != 0 {
                let lpn = index * ROW_PAGES + known.trailing_zeros();
                return (lpn < range.end).then_some(lpn);
            }
        }
        None
    }

    /// The rows from `first` on that hold something.
    pub fn rows_from(&self, first: u32) -> impl Iterator<Item = (u32, Row)> + '_ {
        let groups = (first / GROUP_ROWS) as usize..self.live.len();
        let groups = groups.filter(|group| self.live[*group] > 0);
        let rows = groups.flat_map(move |group| {
            let begin = group as u32 * GROUP_ROWS;
            let end = (begin + GROUP_ROWS).min(self.rows.len() as u32);
            begin.max(first)..end
        });
        let rows = rows.map(|index| (index, Row::unpack(&self.rows[index as usize])));
        rows.filter(|(_, row)| row.known() != 0)
    }

    /// The entries of a row, in the order of its pages.
    pub fn entries(&self, row: Row) -> &[u32] {
        match row.stored().count_ones() {
            0 => &[],
            count => &self.slots.words[row.slot as usize..][..count as usize],
        }
    }

    /// Rows that hold something, and entries.
    pub fn len(&self) -> (u64, u64) {
        (
            self.live.iter().map(|rows| u64::from(*rows)).sum(),
            self.stored,
        )
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> u64 {
        let groups = self.live.iter().filter(|rows| **rows > 0).count() as u64;
        let rows = groups * u64::from(GROUP_ROWS) * size_of::<Raw>() as u64;
        let chunks = (self.slots.chunks.len() - self.slots.empty.len()) as u64;
        let tables = self.live.len() * 2 + self.slots.chunks.len() * size_of::<Chunk>();
        rows + chunks * u64::from(CHUNK_WORDS) * 4 + tables as u64
    }
}

#[inline]
fn state(row: Row, bit: u64) -> u32 {
    u32::from(row.low & bit != 0) | u32::from(row.high & bit != 0) << 1
}

impl Slots {
    /// Adds an entry at `rank` to the `count` that are in `slot`; gives where they are now.
    fn insert(&mut self, slot: u32, count: u32, rank: u32, entry: u32) -> u32 {
        let (slot, from) = match count > 0 && class_of(count) == class_of(count + 1) {
            true => (slot, slot),
            false => (self.take(class_of(count + 1)), slot),
        };
        let (to, from, rank_at, count_at) =
            (slot as usize, from as usize, rank as usize, count as usize);
        if count > 0 {
            // The upper part first: in the same slot it goes over itself.
            self.words
                .copy_within(from + rank_at..from + count_at, to + rank_at + 1);
            if from != to {
                self.words.copy_within(from..from + rank_at, to);
                self.release(from as u32, class_of(count));
            }
        }
        self.words[to + rank_at] = entry;
        slot
    }

    /// Takes the entry at `rank` away from the `count` that are in `slot`; gives where they are now.
    fn remove(&mut self, slot: u32, count: u32, rank: u32) -> u32 {
        let left = count - 1;
        if left == 0 {
            self.release(slot, class_of(1));
            return 0;
        }
        let to = match class_of(left) == class_of(count) {
            true => slot,
            false => self.take(class_of(left)),
        };
        let (from, at, rank) = (slot as usize, to as usize, rank as usize);
        if from != at {
            self.words.copy_within(from..from + rank, at);
        }
        self.words
            .copy_within(from + rank + 1..from + count as usize, at + rank);
        if from != at {
            self.release(slot, class_of(count));
        }
        to
    }

    /// Takes a slot of a class.
    fn take(&mut self, class: usize) -> u32 {
        let number = match self.partial[class] {
            NONE => self.begin_chunk(class),
            number => number,
        };
        let size = CLASSES[class];
        let chunk = &mut self.chunks[number as usize];
        let slot = match chunk.free {
            NO_SLOT => {
                chunk.fresh += 1;
                chunk.fresh - 1
            }
            slot => slot,
        };
        let word = number * CHUNK_WORDS + u32::from(slot) * size;
        if chunk.free == slot {
            chunk.free = self.words[word as usize] as u16;
        }
        chunk.used += 1;
        if u32::from(chunk.used) == CHUNK_WORDS / size {
            self.unlink(number, class);
        }
        word
    }

    fn begin_chunk(&mut self, class: usize) -> u32 {
        let chunk = Chunk {
            class: class as u8,
            used: 0,
            fresh: 0,
            free: NO_SLOT,
            before: NONE,
            after: NONE,
        };
        let number = match self.empty.pop() {
            Some(number) => {
                self.chunks[number as usize] = chunk;
                number
            }
            None => {
                self.chunks.push(chunk);
                self.chunks.len() as u32 - 1
            }
        };
        self.link(number, class);
        number
    }

    /// Gives a slot back.
    fn release(&mut self, word: u32, class: usize) {
        let number = word / CHUNK_WORDS;
        let size = CLASSES[class];
        let slot = (word % CHUNK_WORDS / size) as u16;
        let chunk = &mut self.chunks[number as usize];
        debug_assert!(usize::from(chunk.class) == class && chunk.used > 0);
        let was_full = u32::from(chunk.used) == CHUNK_WORDS / size;
        self.words[word as usize] = chunk.free.into();
        chunk.free = slot;
        chunk.used -= 1;
        if was_full {
            self.link(number, class);
        }
        // The only chunk with free slots is kept: the next slot of the class would come from it.
        let Chunk {
            used,
            before,
            after,
            ..
        } = self.chunks[number as usize];
        if used == 0 && (before, after) != (NONE, NONE) {
            self.unlink(number, class);
            let first = (number * CHUNK_WORDS) as usize;
            self.words.forget(first..first + CHUNK_WORDS as usize);
            self.empty.push(number);
        }
    }

    /// A chunk has free slots from now on.
    fn link(&mut self, number: u32, class: usize) {
        let after = std::mem::replace(&mut self.partial[class], number);
        let chunk = &mut self.chunks[number as usize];
        (chunk.before, chunk.after) = (NONE, after);
        if after != NONE {
            self.chunks[after as usize].before = number;
        }
    }

    /// A chunk has no free slots any more, or nothing else.
    fn unlink(&mut self, number: u32, class: usize) {
        let Chunk { before, after, .. } = self.chunks[number as usize];
        match before {
            NONE => self.partial[class] = after,
            before => self.chunks[before as usize].after = after,
        }
        if after != NONE {
            self.chunks[after as usize].before = before;
        }
    }
}
