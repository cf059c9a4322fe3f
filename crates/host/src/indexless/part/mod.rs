//! A part of the bitmap: the words of 8192 sectors (32 MiB of address space), in the form that
//! takes the least memory.
//!
//! | form | for | bytes |
//! |---|---|---|
//! | none | nothing is cached | 0 |
//! | `raw.rs` | parts in use | 4096 |
//! | `runs.rs` | sectors side by side | 2 to 4 a run |
//! | `offsets.rs` | scattered sectors | `5 + log2(8192 / n)` bits a sector |
//!
//! A packed part is looked up as it is, without being unpacked. What changes which sectors are
//! cached unpacks it.

mod bits;
mod offsets;
mod raw;
mod runs;
#[cfg(test)]
mod tests;

use std::ops::Range;

use super::word::Word;

/// Sectors of a part.
pub const SECTORS: u32 = 8192;

/// Neighbouring sectors with one word, which is not absent. Numbers are within the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first of them.
    pub first: u16,
    /// How many.
    pub count: u16,
    /// The word of each.
    pub word: Word,
}

impl Run {
    /// The sector behind the last one.
    pub fn end(&self) -> u16 {
        self.first + self.count
    }
}

/// How many sectors of a part are what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// In the cache.
    pub cached: u16,
    /// Of these dirty, or being written back.
    pub dirty: u16,
    /// Clean and cold.
    pub cold_clean: u16,
    /// Dirty and cold, and not being written back.
    pub cold_dirty: u16,
}

impl Counts {
    /// Counts `sectors` more with this word.
    #[inline]
    fn add(&mut self, word: Word, sectors: u16) {
        self.each(word, |count| *count += sectors);
    }

    #[inline]
    fn subtract(&mut self, word: Word, sectors: u16) {
        self.each(word, |count| *count -= sectors);
    }

    #[inline]
    fn each(&mut self, word: Word, change: impl Fn(&mut u16)) {
        if !word.is_cached() {
            return;
        }
        change(&mut self.cached);
        let is_cold = word.heat() == 0;
        match (word.is_dirty(), is_cold) {
            (false, true) => change(&mut self.cold_clean),
            (true, cold) => {
                change(&mut self.dirty);
                if cold && !word.is_leaving() {
                    change(&mut self.cold_dirty);
                }
            }
            _ => {}
        }
    }

    fn of(runs: &[Run]) -> Counts {
        let mut counts = Counts::default();
        runs.iter().for_each(|run| counts.add(run.word, run.count));
        counts
    }
}

/// To change more sectors than these, a part is unpacked, and not searched for each.
const UNPACK_MIN: u32 = 8;

/// Of fewer sectors each is searched for where all would have to be gone through.
const SEARCHED_MAX: usize = 8;

/// First byte of a packed part: which form it has.
const RUNS: u8 = 0;
const OFFSETS: u8 = 1;

/// The form of a part.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// Nothing is cached.
    Empty,
    /// A word is where its sector says.
    Raw,
    /// Words are searched for.
    Packed {
        /// Searches for so many neighbours.
        searches: fn(u32) -> u32,
    },
}

/// The words of [`SECTORS`] sectors.
#[derive(Default)]
pub struct Part {
    /// Empty, raw if it has [`raw::BYTES`] bytes, else packed.
    bytes: Box<[u8]>,
    counts: Counts,
}

impl Part {
    /// The part with these runs, packed.
    pub fn of_runs(runs: &[Run]) -> Part {
        let mut part = Part {
            counts: Counts::of(runs),
            ..Part::default()
        };
        part.pack_runs(runs);
        part
    }

    /// How many sectors are what.
    #[inline]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether it takes 4096 bytes.
    #[inline]
    pub fn is_raw(&self) -> bool {
        self.bytes.len() == raw::BYTES
    }

    /// Its form.
    #[inline]
    pub fn form(&self) -> Form {
        match self.bytes.len() {
            0 => Form::Empty,
            raw::BYTES => Form::Raw,
            _ if self.bytes[0] == RUNS => Form::Packed { searches: |_| 1 },
            _ => Form::Packed {
                searches: |count| match count as usize > SEARCHED_MAX {
                    true => 1,
                    false => count,
                },
            },
        }
    }

    /// Bytes that it takes, itself left out.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The word of a sector.
    #[inline]
    pub fn get(&self, sector: u32) -> Word {
        match self.bytes.len() {
            0 => Word::ABSENT,
            raw::BYTES => raw::get(&self.bytes, sector),
            _ if self.bytes[0] == RUNS => self.find_run(sector),
            _ => offsets::get(&self.bytes[1..], sector),
        }
    }

    /// As [`Part::get`] in the run form.
    fn find_run(&self, sector: u32) -> Word {
        let mut runs = runs::iter(&self.bytes[1..]);
        let run = runs.find(|run| sector < u32::from(run.end()));
        let found = run.filter(|run| u32::from(run.first) <= sector);
        found.map_or(Word::ABSENT, |run| run.word)
    }

    /// Adds the runs of equal words, in ascending order; neighbours differ.
    pub fn runs(&self, out: &mut Vec<Run>) {
        let begin = out.len();
        let mut push = |run: Run| match out[begin..].last_mut() {
            Some(last) if last.word == run.word && last.end() == run.first => {
                last.count += run.count;
            }
            _ => out.push(run),
        };
        match self.bytes.len() {
            0 => {}
            raw::BYTES => raw::iter(&self.bytes).for_each(push),
            _ if self.bytes[0] == RUNS => runs::iter(&self.bytes[1..]).for_each(&mut push),
            _ => offsets::iter(&self.bytes[1..]).for_each(push),
        }
    }

    /// Calls `each` with sectors of a range and their words, in ascending order: all of them, in
    /// runs of any length.
    #[inline]
    pub fn each_in(&self, sectors: Range<u32>, mut each: impl FnMut(Range<u32>, Word)) {
        match self.bytes.len() {
            0 => each(sectors, Word::ABSENT),
            raw::BYTES => sectors.for_each(|s| each(s..s + 1, raw::get(&self.bytes, s))),
            _ if self.bytes[0] == RUNS => each_in(runs::iter(&self.bytes[1..]), sectors, each),
            _ if sectors.len() > SEARCHED_MAX => {
                each_in(offsets::iter(&self.bytes[1..]), sectors, each);
            }
            _ => sectors.for_each(|s| each(s..s + 1, offsets::get(&self.bytes[1..], s))),
        }
    }

    /// Sets the word of a sector, in place, if the form allows it.
    #[inline]
    fn try_set(&mut self, sector: u32, old: Word, new: Word) -> bool {
        match self.bytes.len() {
            raw::BYTES => raw::set(&mut self.bytes, sector, new),
            0 => return false,
            _ if self.bytes[0] == OFFSETS && old.is_cached() && is_plain(new) => {
                offsets::set(&mut self.bytes[1..], sector, new);
            }
            _ => return false,
        }
        self.counts.subtract(old, 1);
        self.counts.add(new, 1);
        true
    }

    /// Changes the words of `count` sectors from `first` on, and unpacks the part if it must.
    pub fn change(&mut self, first: u32, count: u32, change: impl Fn(Word) -> Word) {
        if count > UNPACK_MIN {
            self.unpack();
        }
        for sector in first..first + count {
            let old = self.get(sector);
            let new = change(old);
            if new != old && !self.try_set(sector, old, new) {
                self.unpack();
                self.try_set(sector, old, new);
            }
        }
    }

    /// As [`Part::change`], but only if that needs no unpacking; false if something is left to do.
    pub fn change_in_place(
        &mut self,
        first: u32,
        count: u32,
        change: impl Fn(Word) -> Word,
    ) -> bool {
        (first..first + count).all(|sector| {
            let old = self.get(sector);
            let new = change(old);
            new == old || self.try_set(sector, old, new)
        })
    }

    /// Gives the part these runs, in the form it has: raw, or packed.
    pub fn replace(&mut self, runs: &[Run]) {
        let was_raw = self.is_raw();
        self.counts = Counts::of(runs);
        match was_raw {
            true => self.bytes = raw::of_runs(runs),
            false => self.pack_runs(runs),
        }
    }

    /// Brings it into the raw form.
    pub fn unpack(&mut self) {
        if !self.is_raw() {
            let mut runs = Vec::new();
            self.runs(&mut runs);
            self.bytes = raw::of_runs(&runs);
        }
    }

    /// Brings it into the smallest form; `runs` is room to work in. One with sectors that are being
    /// written back stays raw.
    pub fn pack(&mut self, runs: &mut Vec<Run>) {
        if self.is_raw() {
            runs.clear();
            self.runs(runs);
            self.pack_runs(runs);
        }
    }

    fn pack_runs(&mut self, runs: &[Run]) {
        if runs.is_empty() {
            self.bytes = Box::default();
            return;
        }
        if runs.iter().any(|run| run.word.is_leaving()) {
            self.bytes = raw::of_runs(runs);
            return;
        }
        let offsets_bytes = 1 + offsets::bytes_of(usize::from(self.counts.cached));
        let mut bytes = Vec::with_capacity(offsets_bytes);
        bytes.push(RUNS);
        runs::write(runs, &mut bytes);
        if bytes.len() > offsets_bytes {
            bytes.clear();
            bytes.push(OFFSETS);
            let mut form = Vec::with_capacity(offsets_bytes);
            offsets::write(runs, &mut form);
            bytes.append(&mut form);
        }
        self.bytes = match bytes.len() < raw::BYTES {
            true => bytes.into_boxed_slice(),
            false => raw::of_runs(runs),
        };
    }
}

/// Calls `each` with the sectors of a range, by runs in ascending order from the part's beginning.
fn each_in(
    runs: impl Iterator<Item = Run>,
    sectors: Range<u32>,
    mut each: impl FnMut(Range<u32>, Word),
) {
    let mut at = sectors.start;
    for run in runs {
        let (first, end) = (u32::from(run.first), u32::from(run.end()));
        if end <= at {
            continue;
        }
        if first >= sectors.end {
            break;
        }
        if at < first {
            each(at..first, Word::ABSENT);
        }
        at = end.min(sectors.end);
        each(first.max(sectors.start)..at, run.word);
    }
    if at < sectors.end {
        each(at..sectors.end, Word::ABSENT);
    }
}

/// Whether packed forms have the word.
fn is_plain(word: Word) -> bool {
    word.is_cached() && !word.is_leaving()
}
