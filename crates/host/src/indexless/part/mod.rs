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
//! All of them are made of runs (`run.rs`); raw parts go by sixteen sectors at a time (`nibbles.rs`).
//!
//! A packed part is looked up as it is, without being unpacked. What changes which sectors are
//! cached unpacks it.

mod bits;
pub(super) mod nibbles;
mod offsets;
pub(super) mod raw;
mod run;
mod runs;
#[cfg(all(test, not(loom)))]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use super::word::Word;
use raw::Page;
pub use raw::Pages;
use run::is_plain;
pub use run::{Counts, Run, SECTORS};

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
    words: Words,
    counts: Counts,
}

const _: () = assert!(size_of::<Part>() == 24, "there are many");

enum Words {
    /// In a form that is searched; no bytes if nothing is cached.
    Packed(Box<[u8]>),
    Raw(Arc<Page>),
}

impl Default for Words {
    fn default() -> Words {
        Words::Packed(Box::default())
    }
}

impl Words {
    /// The bytes of the run form, or those of the offset form.
    #[inline]
    fn packed(bytes: &[u8]) -> Packed<'_> {
        match bytes.split_first() {
            None => Packed::Empty,
            Some((&RUNS, bytes)) => Packed::Runs(bytes),
            Some((_, bytes)) => Packed::Offsets(bytes),
        }
    }
}

enum Packed<'a> {
    Empty,
    Runs(&'a [u8]),
    Offsets(&'a [u8]),
}

impl Part {
    /// The part with these runs, packed.
    pub fn of_runs(runs: &[Run], pages: &mut Pages) -> Part {
        let mut part = Part {
            counts: Counts::of(runs),
            ..Part::default()
        };
        part.pack_runs(runs, pages);
        part
    }

    /// How many sectors are what.
    #[inline]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Its page, if it is raw.
    #[inline]
    pub(super) fn page(&self) -> Option<&Arc<Page>> {
        match &self.words {
            Words::Raw(page) => Some(page),
            Words::Packed(_) => None,
        }
    }

    /// The same, one of those that others may look at, if there is one.
    pub(super) fn settled_page(&mut self, pages: &mut Pages) -> Option<&Arc<Page>> {
        if let Words::Raw(page) = &mut self.words {
            pages.settle(page);
        }
        self.page()
    }

    /// Whether it takes 4096 bytes.
    #[inline]
    pub fn is_raw(&self) -> bool {
        self.page().is_some()
    }

    /// Its form.
    #[inline]
    pub fn form(&self) -> Form {
        let Words::Packed(bytes) = &self.words else {
            return Form::Raw;
        };
        match Words::packed(bytes) {
            Packed::Empty => Form::Empty,
            Packed::Runs(_) => Form::Packed { searches: |_| 1 },
            Packed::Offsets(_) => Form::Packed {
                searches: |count| match count as usize > SEARCHED_MAX {
                    true => 1,
                    false => count,
                },
            },
        }
    }

    /// Bytes that it takes, itself left out.
    pub fn bytes(&self) -> usize {
        match &self.words {
            Words::Raw(_) => raw::WORDS * 8,
            Words::Packed(bytes) => bytes.len(),
        }
    }

    /// The word of a sector.
    #[inline]
    pub fn get(&self, sector: u32) -> Word {
        let bytes = match &self.words {
            Words::Raw(page) => return page.get(sector),
            Words::Packed(bytes) => bytes,
        };
        match Words::packed(bytes) {
            Packed::Empty => Word::ABSENT,
            Packed::Runs(bytes) => find_run(bytes, sector),
            Packed::Offsets(bytes) => offsets::get(bytes, sector),
        }
    }

    /// Adds the runs of equal words, in ascending order; neighbours differ.
    pub fn runs(&self, out: &mut Vec<Run>) {
        let begin = out.len();
        let push = |run: Run| match out[begin..].last_mut() {
            Some(last) if last.word == run.word && last.end() == run.first => {
                last.count += run.count;
            }
            _ => out.push(run),
        };
        let bytes = match &self.words {
            Words::Raw(page) => return page.each_run(push),
            Words::Packed(bytes) => bytes,
        };
        match Words::packed(bytes) {
            Packed::Empty => {}
            Packed::Runs(bytes) => runs::iter(bytes).for_each(push),
            Packed::Offsets(bytes) => offsets::iter(bytes).for_each(push),
        }
    }

    /// Calls `each` with sectors of a range and their words, in ascending order: all of them, in
    /// runs of any length.
    #[inline]
    pub fn each_in(&self, sectors: Range<u32>, mut each: impl FnMut(Range<u32>, Word)) {
        let bytes = match &self.words {
            Words::Raw(page) => return sectors.for_each(|s| each(s..s + 1, page.get(s))),
            Words::Packed(bytes) => bytes,
        };
        match Words::packed(bytes) {
            Packed::Empty => each(sectors, Word::ABSENT),
            Packed::Runs(bytes) => each_in(runs::iter(bytes), sectors, each),
            Packed::Offsets(bytes) if sectors.len() > SEARCHED_MAX => {
                each_in(offsets::iter(bytes), sectors, each);
            }
            Packed::Offsets(bytes) => sectors.for_each(|s| each(s..s + 1, offsets::get(bytes, s))),
        }
    }

    /// Changes the words of `count` sectors from `first` on, and unpacks the part if it must.
    pub fn change(
        &mut self,
        first: u32,
        count: u32,
        pages: &mut Pages,
        change: impl Fn(Word) -> Word,
    ) {
        let done = match count > UNPACK_MIN {
            true => 0,
            false => self.change_packed(first, count, &change),
        };
        if done < count || count > UNPACK_MIN {
            self.unpack(pages);
            self.change_in_place(first + done, count - done, change);
        }
    }

    /// As [`Part::change`], but only if that needs no unpacking; false if something is left to do.
    pub fn change_in_place(
        &mut self,
        first: u32,
        count: u32,
        change: impl Fn(Word) -> Word,
    ) -> bool {
        if let Words::Raw(page) = &self.words {
            self.counts = page.change_range(first, count, self.counts, change);
            return true;
        }
        self.change_packed(first, count, &change) == count
    }

    /// Changes words of a packed part, until one would need it to be unpacked; tells how many it
    /// looked at. None where it is raw.
    fn change_packed(&mut self, first: u32, count: u32, change: &impl Fn(Word) -> Word) -> u32 {
        let Words::Packed(bytes) = &mut self.words else {
            return 0;
        };
        for done in 0..count {
            let sector = first + done;
            let (old, new) = match Words::packed(bytes) {
                Packed::Empty => (Word::ABSENT, change(Word::ABSENT)),
                Packed::Runs(bytes) => {
                    let old = find_run(bytes, sector);
                    (old, change(old))
                }
                Packed::Offsets(_) => {
                    let (old, new) = offsets::change(&mut bytes[1..], sector, change);
                    if old.is_cached() && is_plain(new) {
                        self.counts.subtract(old, 1);
                        self.counts.add(new, 1);
                        continue;
                    }
                    (old, new)
                }
            };
            if new != old {
                return done;
            }
        }
        count
    }

    /// Makes clean sectors cooler if `clean`, dirty ones if `dirty`, where that needs no other
    /// form: how many runs of equal words there were.
    pub fn cool(&mut self, clean: bool, dirty: bool) -> Option<u32> {
        let Words::Raw(page) = &self.words else {
            return None;
        };
        let runs;
        (self.counts, runs) = page.cool(clean, dirty);
        Some(runs)
    }

    /// Gives the part these runs, in the form it has: raw, or packed.
    pub fn replace(&mut self, runs: &[Run], pages: &mut Pages) {
        self.counts = Counts::of(runs);
        match &self.words {
            Words::Raw(page) => page.fill(runs),
            Words::Packed(_) => self.pack_runs(runs, pages),
        }
    }

    /// Brings it into the raw form.
    pub fn unpack(&mut self, pages: &mut Pages) {
        if !self.is_raw() {
            let mut runs = Vec::new();
            self.runs(&mut runs);
            self.fill_page(&runs, pages);
        }
    }

    fn fill_page(&mut self, runs: &[Run], pages: &mut Pages) {
        if !self.is_raw() {
            self.words = Words::Raw(pages.take());
        }
        self.page().expect("it is raw now").fill(runs);
    }

    /// Brings it into the smallest form; `runs` is room to work in. One with sectors that are being
    /// written back stays raw.
    pub fn pack(&mut self, runs: &mut Vec<Run>, pages: &mut Pages) {
        if self.is_raw() {
            runs.clear();
            self.runs(runs);
            self.pack_runs(runs, pages);
        }
    }

    fn pack_runs(&mut self, runs: &[Run], pages: &mut Pages) {
        match self.packed_form(runs) {
            None => self.fill_page(runs, pages),
            Some(bytes) => {
                let before = std::mem::replace(&mut self.words, Words::Packed(bytes));
                if let Words::Raw(page) = before {
                    pages.give_back(page);
                }
            }
        }
    }

    /// These runs in the smaller of the packed forms; none if a raw part is smaller, or the only
    /// one that has them.
    fn packed_form(&self, runs: &[Run]) -> Option<Box<[u8]>> {
        if runs.is_empty() {
            return Some(Box::default());
        }
        if runs.iter().any(|run| run.word.is_leaving()) {
            return None;
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
        (bytes.len() < raw::WORDS * 8).then(|| bytes.into_boxed_slice())
    }
}

/// The word of a sector in the run form.
fn find_run(bytes: &[u8], sector: u32) -> Word {
    let run = runs::iter(bytes).find(|run| sector < u32::from(run.end()));
    let found = run.filter(|run| u32::from(run.first) <= sector);
    found.map_or(Word::ABSENT, |run| run.word)
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
