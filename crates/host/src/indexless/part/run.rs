//! Runs of sectors of a part, and how many of them are what.

use crate::indexless::word::Word;

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
    pub(super) fn add(&mut self, word: Word, sectors: u16) {
        self.each(word, |count| *count += sectors);
    }

    #[inline]
    pub(super) fn subtract(&mut self, word: Word, sectors: u16) {
        self.each(word, |count| *count -= sectors);
    }

    /// With those of others.
    #[inline]
    pub(super) fn more(self, others: Counts) -> Counts {
        Counts {
            cached: self.cached + others.cached,
            dirty: self.dirty + others.dirty,
            cold_clean: self.cold_clean + others.cold_clean,
            cold_dirty: self.cold_dirty + others.cold_dirty,
        }
    }

    /// Without those of some.
    #[inline]
    pub(super) fn less(self, some: Counts) -> Counts {
        Counts {
            cached: self.cached - some.cached,
            dirty: self.dirty - some.dirty,
            cold_clean: self.cold_clean - some.cold_clean,
            cold_dirty: self.cold_dirty - some.cold_dirty,
        }
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

    pub(super) fn of(runs: &[Run]) -> Counts {
        let mut counts = Counts::default();
        runs.iter().for_each(|run| counts.add(run.word, run.count));
        counts
    }
}

/// Whether packed forms have the word.
#[inline]
pub(super) fn is_plain(word: Word) -> bool {
    word.is_cached() && !word.is_leaving()
}
