//! The shared part of the cache: frames, their words, and a page table that every CPU may read.
//!
//! Managers own frames and pages: manager `m` of `n` has the pages whose number leaves remainder `m`
//! when divided by `n` (TriCache's round-robin partition), and a run of frames of its own.
//!
//! The page table of a manager is a hash table from page to frame, written by the manager alone. It
//! is a *hint* to everyone else: a client that finds an entry goes by the frame's [`PageWord`], which
//! names the page; one that meets the table in the middle of a change finds nothing, or another
//! page's frame, and asks the manager. So the table needs no locks and its readers no retries.

use wharf_runtime::page_index::hash_page;
use wharf_runtime::sync::{AtomicU32, Ordering};
use wharf_runtime::{Cpu, Line, Versioned};
use wharf_wire::dma::{DmaRegion, DmaSpace, RegisterError};

use crate::span::Span;
use crate::tri::page_word::PageWord;

/// Which manager a page belongs to, and its number among the manager's pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partition {
    managers: u32,
    /// 2^64 divided by the number of managers, rounded up; unused for one manager.
    reciprocal: u64,
}

impl Partition {
    /// Pages dealt to `managers` managers in turn.
    pub(super) fn new(managers: u32) -> Partition {
        Partition {
            managers,
            reciprocal: (u64::MAX / u64::from(managers)).wrapping_add(1),
        }
    }

    /// The manager of `page`, and the page's number there.
    #[inline]
    pub(super) fn locate(self, page: u64) -> (u32, u64) {
        if self.managers == 1 {
            return (0, page);
        }
        // Exact: the reciprocal is less than `managers` / 2^64 too large, and page numbers of 40
        // bits times managers of 16 bits stay below 2^64.
        let block = ((u128::from(page) * u128::from(self.reciprocal)) >> 64) as u64;
        ((page - block * u64::from(self.managers)) as u32, block)
    }

    /// The page that is number `block` of manager `manager`.
    #[inline]
    pub(super) fn page(self, manager: u32, block: u64) -> u64 {
        block * u64::from(self.managers) + u64::from(manager)
    }
}

/// Page words in a cache line.
const WORDS_PER_LINE: u32 = 8;

/// Versions, or entries of the page table, in a cache line.
const SMALL_PER_LINE: usize = 16;

/// The frames of all managers.
pub(super) struct Frames {
    region: DmaRegion,
    words: Box<[PageWord]>,
    versions: Box<[Versioned]>,
    word_lines: Box<[Line]>,
    version_lines: Box<[Line]>,
}

fn lines(count: usize, per_line: usize) -> Box<[Line]> {
    (0..count.div_ceil(per_line)).map(|_| Line::new()).collect()
}

impl Frames {
    /// `frames` empty frames.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn new(
        space: &std::sync::Arc<DmaSpace>,
        frames: u32,
    ) -> Result<Frames, RegisterError> {
        let count = frames as usize;
        Ok(Frames {
            region: space.register(count)?,
            words: (0..count).map(|_| PageWord::new()).collect(),
            versions: (0..count).map(|_| Versioned::new()).collect(),
            word_lines: lines(count, WORDS_PER_LINE as usize),
            version_lines: lines(count, SMALL_PER_LINE),
        })
    }

    /// Bytes of a page as stored.
    #[inline]
    pub(super) fn page_bytes(&self) -> usize {
        self.region.page_bytes()
    }

    /// Bytes that it takes besides the frames themselves.
    pub(super) fn bookkeeping_bytes(&self) -> usize {
        size_of_val(&*self.words)
            + size_of_val(&*self.versions)
            + size_of_val(&*self.word_lines)
            + size_of_val(&*self.version_lines)
    }

    /// A frame's DMA address.
    #[inline]
    pub(super) fn address(&self, frame: u32) -> u64 {
        self.region.address(frame as usize)
    }

    /// A frame's word, to look at.
    #[inline]
    pub(super) fn word_to_read(&self, cpu: &Cpu, frame: u32) -> &PageWord {
        self.word_lines[(frame / WORDS_PER_LINE) as usize].read(cpu);
        &self.words[frame as usize]
    }

    /// A frame's word, to change.
    #[inline]
    pub(super) fn word_to_write(&self, cpu: &Cpu, frame: u32) -> &PageWord {
        self.word_lines[(frame / WORDS_PER_LINE) as usize].write(cpu);
        &self.words[frame as usize]
    }

    /// The version of a frame's content; `None` while somebody writes to it.
    #[inline]
    pub(super) fn version(&self, frame: u32) -> Option<u32> {
        self.versions[frame as usize].begin_read()
    }

    /// Copies a span of a frame that the caller has pinned to a payload. No half of another CPU's
    /// write is seen.
    #[inline]
    pub(super) fn copy_out(&self, cpu: &Cpu, frame: u32, span: &Span, out: &mut [u8]) {
        let out = &mut out[span.in_payload()];
        self.read(cpu, frame, span.from.into(), out);
    }

    /// Copies bytes from `from` on out of a frame that stays what it is meanwhile; gives the
    /// version that was copied.
    #[inline]
    pub(super) fn read(&self, cpu: &Cpu, frame: u32, from: usize, out: &mut [u8]) -> u32 {
        assert!(from + out.len() <= self.page_bytes(), "within a page");
        self.version_lines[frame as usize / SMALL_PER_LINE].read(cpu);
        let version = &self.versions[frame as usize];
        loop {
            let begun = loop {
                match version.begin_read() {
                    Some(begun) => break begun,
                    // Another CPU copies a page, no more, and waits for nothing.
                    None => std::hint::spin_loop(),
                }
            };
            // SAFETY: the range lies within the frame, which holds its page while it is pinned, so
            // that no drive writes to it. Another CPU may write to it at the same time: then
            // `end_read` says so and the bytes are copied again, unseen. No reference is made.
            unsafe {
                let page = self.region.page_pointer(frame as usize);
                let start = page.add(from).cast_const();
                std::ptr::copy_nonoverlapping(start, out.as_mut_ptr(), out.len());
            }
            if version.end_read(begun) {
                return begun;
            }
        }
    }

    /// Copies a span of a payload to a frame that the caller has pinned.
    #[inline]
    pub(super) fn copy_in(&self, cpu: &Cpu, frame: u32, span: &Span, data: &[u8]) {
        let data = &data[span.in_payload()];
        assert!(
            usize::from(span.from) + data.len() <= self.page_bytes(),
            "within a page"
        );
        self.version_lines[frame as usize / SMALL_PER_LINE].write(cpu);
        let version = &self.versions[frame as usize];
        while !version.try_lock() {
            // As in `read`.
            std::hint::spin_loop();
        }
        // SAFETY: the range lies within the frame, which holds its page while it is pinned; the
        // version is locked, so no other CPU writes, and what readers copy meanwhile they throw
        // away. Write-back of a pinned page sends a copy, so no drive reads the frame.
        unsafe {
            let page = self.region.page_pointer(frame as usize);
            let start = page.add(usize::from(span.from));
            std::ptr::copy_nonoverlapping(data.as_ptr(), start, data.len());
        }
        version.unlock();
    }
}

/// Least bits of an entry for the frame plus one; above them is a tag of the page's hash.
const FRAME_BITS_MIN: u32 = 24;

/// Page to frame, for the pages of one manager. See the module.
pub(super) struct PageTable {
    entries: Box<[AtomicU32]>,
    lines: Box<[Line]>,
    /// The manager's first frame; entries count from it.
    first_frame: u32,
    frame_bits: u32,
}

impl PageTable {
    /// An empty table for `frames` frames from `first_frame` on.
    pub(super) fn new(first_frame: u32, frames: u32) -> PageTable {
        let count = (u64::from(frames) * 2).next_power_of_two().max(8) as usize;
        PageTable {
            entries: (0..count).map(|_| AtomicU32::new(0)).collect(),
            lines: lines(count, SMALL_PER_LINE),
            first_frame,
            frame_bits: FRAME_BITS_MIN.max(32 - (frames + 1).leading_zeros()),
        }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.entries) + size_of_val(&*self.lines)
    }

    /// Neighbours of a group of 8 pages have neighbouring homes, often in one cache line.
    #[inline]
    fn home(&self, block: u64) -> usize {
        hash_page(block).wrapping_add(block & 7) as usize & (self.entries.len() - 1)
    }

    #[inline]
    fn tag(&self, block: u64) -> u32 {
        let mixed = (hash_page(block) >> 32) as u32 ^ (block as u32).rotate_right(3);
        mixed << self.frame_bits
    }

    #[inline]
    fn frame_of(&self, entry: u32) -> u32 {
        self.first_frame + (entry & !(u32::MAX << self.frame_bits)) - 1
    }

    /// The frame of a page, as `is_page(frame)` confirms it. May miss a page while the manager
    /// changes the table; for the manager itself it is exact.
    #[inline]
    pub(super) fn find(&self, cpu: &Cpu, block: u64, is_page: impl Fn(u32) -> bool) -> Option<u32> {
        let (mask, tag) = (self.entries.len() - 1, self.tag(block));
        let high = u32::MAX << self.frame_bits;
        let home = self.home(block);
        self.lines[home / SMALL_PER_LINE].read(cpu);
        for at in home..home + self.entries.len() {
            // Acquire: partner of the release in `set`; the word that the entry leads to is at
            // least as new as the entry.
            let entry = self.entries[at & mask].load(Ordering::Acquire);
            if entry == 0 {
                return None;
            }
            if entry & high == tag && is_page(self.frame_of(entry)) {
                return Some(self.frame_of(entry));
            }
        }
        None
    }

    fn set(&self, cpu: &Cpu, at: usize, entry: u32) {
        self.lines[at / SMALL_PER_LINE].write(cpu);
        // Release: partner of the acquire in `find`.
        self.entries[at].store(entry, Ordering::Release);
    }

    fn get(&self, at: usize) -> u32 {
        // Relaxed: the manager alone writes.
        self.entries[at].load(Ordering::Relaxed)
    }

    /// The manager enters a page that is not there.
    pub(super) fn insert(&self, cpu: &Cpu, block: u64, frame: u32) {
        let mask = self.entries.len() - 1;
        let mut at = self.home(block);
        while self.get(at) != 0 {
            at = (at + 1) & mask;
        }
        self.set(cpu, at, self.tag(block) | (frame - self.first_frame + 1));
    }

    /// The manager takes out a page that is there for `frame`. `block_of` gives the page of a frame.
    pub(super) fn remove(&self, cpu: &Cpu, block: u64, frame: u32, block_of: impl Fn(u32) -> u64) {
        let mask = self.entries.len() - 1;
        let entry = self.tag(block) | (frame - self.first_frame + 1);
        let mut hole = self.home(block);
        while self.get(hole) != entry {
            assert!(self.get(hole) != 0, "block {block} is in the table");
            hole = (hole + 1) & mask;
        }
        // Later entries of the run move up, unless that would put them before their home.
        let mut at = (hole + 1) & mask;
        while self.get(at) != 0 {
            let home = self.home(block_of(self.frame_of(self.get(at))));
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.set(cpu, hole, self.get(at));
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.set(cpu, hole, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use wharf_runtime::{CostTable, Machine, Seed, Side};

    use super::*;

    #[test]
    fn every_page_has_one_manager_and_comes_back() {
        for managers in [1, 2, 3, 5, 7, 16, 63, 64, 128] {
            let partition = Partition::new(managers);
            let ends = (0..2_000).chain((1 << 40) - 2_000..1 << 40);
            for page in ends {
                let (manager, block) = partition.locate(page);
                assert_eq!(u64::from(manager), page % u64::from(managers));
                assert_eq!(block, page / u64::from(managers));
                assert_eq!(partition.page(manager, block), page);
            }
        }
    }

    /// Random changes of a table of `frames` frames, beside a map.
    fn churn(cpu: &Cpu, seed: u64) {
        let mut rng = Seed(seed).child("table").rng();
        let frames = 1 + rng.below(60) as u32;
        let first_frame = rng.below(1_000) as u32;
        let range = [50, 1_000, 1 << 40][rng.below(3) as usize];
        let table = PageTable::new(first_frame, frames);
        let mut blocks: BTreeMap<u32, u64> = BTreeMap::new();
        let mut free: Vec<u32> = (first_frame..first_frame + frames).collect();
        let mut model: BTreeMap<u64, u32> = BTreeMap::new();
        for _ in 0..1_000 {
            let block = rng.below(range);
            let found = table.find(cpu, block, |frame| blocks[&frame] == block);
            assert_eq!(
                found,
                model.get(&block).copied(),
                "seed {seed}, block {block}"
            );
            if let Some(frame) = found {
                table.remove(cpu, block, frame, |frame| blocks[&frame]);
                model.remove(&block);
                free.push(frame);
            } else if let Some(frame) = free.pop() {
                blocks.insert(frame, block);
                table.insert(cpu, block, frame);
                model.insert(block, frame);
            }
        }
        for (&block, &frame) in &model {
            let found = table.find(cpu, block, |frame| blocks[&frame] == block);
            assert_eq!(found, Some(frame), "seed {seed}, block {block}");
        }
    }

    #[test]
    fn the_page_table_agrees_with_a_map() {
        let mut machine = Machine::new(CostTable::free(), false);
        let id = machine.add_cpu("cpu", Side::Host, 1.0);
        machine.spawn_main(id, "churn", |cpu| async move {
            (0..200).for_each(|seed| churn(&cpu, seed));
        });
        machine.run_virtual(Seed(1)).unwrap();
    }
}
