//! Finding out what a cache holds that is opened again.
//!
//! The drive says which sectors are allocated; where they lie says whether they are clean or dirty. That
//! is asked part by part when somebody first touches one, and for all others one after the other while the cache serves
//! already. Where nothing is, a question is about more and more at a time.
//!
//! While parts are unknown, so many sectors count as cached there as the cache may hold
//! (`Label::cached_max`), less those that were found: so nothing is brought in that there is no
//! room for. A cut may have brought sectors back that were given up and not flushed; so many more there may be.

use std::ops::Range;
use std::rc::Rc;

use super::bitmap::Stretch;
use super::keeper::Keeper;
use super::part::{Run, SECTORS};
use super::planted::Fault;
use super::word::{Place, Word};
use crate::backing::Sectors;
use crate::error::IoError;

/// Parts that are asked about together where there is something.
const PARTS: u64 = 16;

/// Parts that are asked about together at most.
const PARTS_MAX: u64 = 4096;

/// How often a drive is asked again that did not answer.
const TRIES: u32 = 3;

/// Time between these, in nanoseconds.
const RETRY_NS: u64 = 10_000_000;

/// Time after which all is tried again, in nanoseconds.
const FAILED_NS: u64 = 1_000_000_000;

/// Runs of addresses.
type Runs = [(u64, u64)];

impl<S: Sectors + 'static> Keeper<S> {
    /// Learns all parts that are unknown.
    ///
    /// # Errors
    /// If the drive does not answer.
    pub(super) async fn learn_all(&self) -> Result<(), IoError> {
        let (mut from, mut step, mut tries) = (0, PARTS, 0);
        let parts = self.known.bitmap.parts(&self.cpu);
        while let Some(part) = self.known.bitmap.find_unknown(&self.cpu, from) {
            let end = (part + step).min(parts);
            match self.learn(part..end).await {
                Ok(any) => {
                    step = if any {
                        PARTS
                    } else {
                        (2 * step).min(PARTS_MAX)
                    };
                    (from, tries) = (end, 0);
                }
                Err(_) if tries < TRIES => {
                    (step, tries) = (1, tries + 1);
                    self.cpu.sleep_until(self.cpu.now() + RETRY_NS).await;
                }
                Err(error) => return Err(error),
            }
            self.shared
                .room
                .waiters
                .wake_all(&self.cpu, self.shared.keeper());
            self.cpu.yield_now().await;
        }
        self.known.bitmap.end_learning(&self.cpu);
        self.shared.room.end_learning();
        self.shared
            .room
            .waiters
            .wake_all(&self.cpu, self.shared.keeper());
        Ok(())
    }

    /// Learns all parts beside what else there is to do.
    pub(super) fn begin_learning(self: &Rc<Self>) {
        let keeper = self.clone();
        self.cpu.spawn("recovery", async move {
            while keeper.learn_all().await.is_err() {
                // Requests for parts that cannot be learned fail; those for others are not kept waiting for room.
                keeper.shared.room.end_learning();
                let room = &keeper.shared.room.waiters;
                room.wake_all(&keeper.cpu, keeper.shared.keeper());
                keeper.cpu.sleep_until(keeper.cpu.now() + FAILED_NS).await;
            }
            // It says how many sectors there may be: more than there are does no harm.
            let _ = keeper.write_label(false).await;
        });
    }

    /// Asks the drive of the cache what it holds of parts; true if it holds anything.
    ///
    /// # Errors
    /// If it does not answer.
    pub(super) async fn learn(&self, parts: Range<u64>) -> Result<bool, IoError> {
        let plan = &self.known.plan;
        let first = parts.start * u64::from(SECTORS);
        let count = (parts.end * u64::from(SECTORS)).min(plan.sectors) - first;
        let cache = &self.mover.cache;
        let clean = cache.allocated(plan.clean(first), count).await?;
        let dirty = cache.allocated(plan.dirty(first), count).await?;
        let any = !clean.is_empty() || !dirty.is_empty();
        let heat = match any {
            true => cache.allocated(plan.heat(parts.start), parts.end - parts.start),
            false => cache.allocated(plan.heat(parts.start), 0),
        };
        let heat = heat.await?;
        let (mut clean, mut dirty) = (&clean[..], &dirty[..]);
        for part in parts {
            let mut words = Words::default();
            let begin = part * u64::from(SECTORS);
            words.note(&mut clean, plan.clean(begin), Word::clean(0));
            let above = words;
            words.note(&mut dirty, plan.dirty(begin), Word::dirty(0));
            if self.shared.planted.is(Fault::CleanWins) {
                words.prefer_clean(&above);
            }
            if words.any && heat.iter().any(|run| holds(run, plan.heat(part))) {
                words.warm(&self.read_heat(part).await);
            }
            self.note_learned(part, &words, &above);
        }
        Ok(any)
    }

    fn note_learned(&self, part: u64, words: &Words, clean: &Words) {
        let runs = words.runs();
        if !self.known.bitmap.learn(&self.cpu, part, &runs) {
            return;
        }
        let begin = part * u64::from(SECTORS);
        let mut found = 0;
        for run in &runs {
            found += u64::from(run.count);
            let first = begin + u64::from(run.first);
            self.shared.touched(&self.cpu, first, run.count.into());
            let is_below =
                |sector: &u16| run.word.is_dirty() && clean.words[usize::from(*sector)].is_cached();
            if (run.first..run.end()).any(|sector| is_below(&sector)) {
                // Clean copies below dirty ones only take room.
                self.shared.note_stale(
                    &self.cpu,
                    Stretch {
                        first,
                        count: run.count.into(),
                        place: Place::Dirty,
                    },
                );
            }
        }
        self.shared.room.learned(found);
    }
}

fn holds(run: &(u64, u64), address: u64) -> bool {
    (run.0..run.0 + run.1).contains(&address)
}

/// The words of a part while it is put together.
#[derive(Clone, Copy)]
struct Words {
    words: [Word; SECTORS as usize],
    any: bool,
}

impl Default for Words {
    fn default() -> Words {
        Words {
            words: [Word::ABSENT; SECTORS as usize],
            any: false,
        }
    }
}

impl Words {
    /// Gives a word to the sectors that are allocated from `begin` on. Runs that end within the part are taken away.
    fn note(&mut self, runs: &mut &Runs, begin: u64, word: Word) {
        let end = begin + u64::from(SECTORS);
        while let Some((first, count)) = runs.first().copied() {
            if first >= end {
                break;
            }
            let (from, to) = (first.max(begin), (first + count).min(end));
            if from < to {
                self.words[(from - begin) as usize..(to - begin) as usize].fill(word);
                self.any = true;
            }
            if first + count > end {
                break;
            }
            *runs = &runs[1..];
        }
    }

    /// Breaks rule R1.
    fn prefer_clean(&mut self, clean: &Words) {
        for (word, clean) in self.words.iter_mut().zip(&clean.words) {
            if clean.is_cached() {
                *word = *clean;
            }
        }
    }

    /// Takes heat from a snapshot, where it is of a sector in the same state.
    fn warm(&mut self, snapshot: &[Word]) {
        for (word, before) in self.words.iter_mut().zip(snapshot) {
            if word.is_cached() && word.place() == before.place() {
                *word = match word.is_dirty() {
                    true => Word::dirty(before.heat()),
                    false => Word::clean(before.heat()),
                };
            }
        }
    }

    fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        if !self.any {
            return runs;
        }
        for (sector, word) in (0u16..).zip(&self.words) {
            match runs.last_mut() {
                _ if !word.is_cached() => {}
                Some(last) if last.end() == sector && last.word == *word => last.count += 1,
                _ => runs.push(Run {
                    first: sector,
                    count: 1,
                    word: *word,
                }),
            }
        }
        runs
    }
}
