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
const PARTS: u64 = 64;

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
        let (mut of_clean, mut of_dirty) = (Vec::new(), Vec::new());
        for part in parts {
            let begin = part * u64::from(SECTORS);
            take_part(&mut clean, plan.clean(begin), &mut of_clean);
            take_part(&mut dirty, plan.dirty(begin), &mut of_dirty);
            // R1.
            let runs = match self.shared.planted.is(Fault::CleanWins) {
                false => layered(&of_dirty, Word::dirty(0), &of_clean, Word::clean(0)),
                true => layered(&of_clean, Word::clean(0), &of_dirty, Word::dirty(0)),
            };
            let has_heat = |run: &(u64, u64)| holds(run, plan.heat(part));
            let runs = match !runs.is_empty() && heat.iter().any(has_heat) {
                true => warmed(&runs, &self.read_heat(part).await),
                false => runs,
            };
            if self.known.bitmap.learn(&self.cpu, part, &runs) {
                self.note_learned(begin, &runs, &of_clean, &of_dirty);
            }
        }
        Ok(any)
    }

    fn note_learned(&self, begin: u64, runs: &[Run], clean: &Locals, dirty: &Locals) {
        let mut found = 0;
        for run in runs {
            found += u64::from(run.count);
            let first = begin + u64::from(run.first);
            self.shared.touched(&self.cpu, first, run.count.into());
        }
        let mut clean = clean.iter().peekable();
        for (from, to) in dirty {
            while clean.next_if(|below| below.1 <= *from).is_some() {}
            if clean.peek().is_some_and(|below| below.0 < *to) {
                // Clean copies below dirty ones only take room.
                let stale = Stretch {
                    first: begin + u64::from(*from),
                    count: u32::from(to - from),
                    place: Place::Dirty,
                };
                self.shared.note_stale(&self.cpu, stale);
            }
        }
        self.shared.room.learned(found);
    }
}

/// First sector and the one behind the last of runs within a part, in ascending order.
type Locals = [(u16, u16)];

fn holds(run: &(u64, u64), address: u64) -> bool {
    (run.0..run.0 + run.1).contains(&address)
}

/// Gives what of `runs` is in the part whose addresses begin at `begin`, and takes away what ends in it.
fn take_part(runs: &mut &Runs, begin: u64, out: &mut Vec<(u16, u16)>) {
    out.clear();
    let end = begin + u64::from(SECTORS);
    while let Some((first, count)) = runs.first().copied()
        && first < end
    {
        let (from, to) = (first.max(begin), (first + count).min(end));
        if from < to {
            out.push(((from - begin) as u16, (to - begin) as u16));
        }
        if first + count > end {
            break;
        }
        *runs = &runs[1..];
    }
}

/// The words of a part in which `above` hides what is below.
fn layered(above: &Locals, word_above: Word, below: &Locals, word_below: Word) -> Vec<Run> {
    let mut runs = Vec::with_capacity(above.len() + below.len());
    let mut push = |from: u16, to: u16, word: Word| {
        if from < to {
            runs.push(Run {
                first: from,
                count: to - from,
                word,
            });
        }
    };
    let (mut above, mut hidden_to) = (above.iter().copied().peekable(), 0);
    for (from, to) in below {
        let mut at = hidden_to.max(*from);
        while let Some((first, end)) = above.next_if(|(first, _)| first < to) {
            push(at, first, word_below);
            push(first, end, word_above);
            hidden_to = end;
            at = at.max(end);
        }
        push(at, *to, word_below);
    }
    above.for_each(|(first, end)| push(first, end, word_above));
    runs
}

/// The same with heat from a snapshot, where that is of a sector in the same state.
fn warmed(runs: &[Run], snapshot: &[Word]) -> Vec<Run> {
    let mut warm: Vec<Run> = Vec::new();
    for run in runs {
        for sector in run.first..run.end() {
            let before = snapshot.get(usize::from(sector)).copied();
            let before = before.filter(|before| before.place() == run.word.place());
            let heat = before.map_or(0, Word::heat);
            let word = match run.word.is_dirty() {
                true => Word::dirty(heat),
                false => Word::clean(heat),
            };
            match warm.last_mut() {
                Some(last) if last.end() == sector && last.word == word => last.count += 1,
                _ => warm.push(Run {
                    first: sector,
                    count: 1,
                    word,
                }),
            }
        }
    }
    warm
}

#[cfg(test)]
mod tests {
    use wharf_runtime::Seed;

    use super::*;

    /// Runs that do not touch, of two parts, and which of their sectors are in them.
    fn some(rng: &mut wharf_runtime::Rng, begin: u64) -> (Vec<(u64, u64)>, Vec<bool>) {
        let end = 2 * u64::from(SECTORS);
        let (mut runs, mut is_in, mut at) = (Vec::new(), vec![false; end as usize], 0);
        let longest = [3, 300, 9000][rng.below(3) as usize];
        loop {
            let first = at + 1 + rng.below(longest);
            let count = 1 + rng.below(longest);
            if first + count > end {
                return (runs, is_in);
            }
            runs.push((begin + first, count));
            is_in[first as usize..(first + count) as usize].fill(true);
            at = first + count;
        }
    }

    #[test]
    fn runs_of_both_kinds_give_the_words_that_sectors_one_by_one_do() {
        for seed in 0..200 {
            let mut rng = Seed(seed).child("layers").rng();
            let (clean, is_clean) = some(&mut rng, 0);
            let (dirty, is_dirty) = some(&mut rng, 1 << 20);
            let (mut clean, mut dirty) = (&clean[..], &dirty[..]);
            for part in 0..2 {
                let begin = part * u64::from(SECTORS);
                let (mut of_clean, mut of_dirty) = (Vec::new(), Vec::new());
                take_part(&mut clean, begin, &mut of_clean);
                take_part(&mut dirty, (1 << 20) + begin, &mut of_dirty);
                let runs = layered(&of_dirty, Word::dirty(0), &of_clean, Word::clean(0));
                let snapshot: Vec<Word> = (0..SECTORS)
                    .map(|_| match rng.below(3) {
                        0 => Word::clean(2),
                        1 => Word::dirty(1),
                        _ => Word::ABSENT,
                    })
                    .collect();
                for (runs, is_warm) in [(&runs, false), (&warmed(&runs, &snapshot), true)] {
                    let mut words = vec![Word::ABSENT; SECTORS as usize];
                    for run in runs {
                        words[usize::from(run.first)..usize::from(run.end())].fill(run.word);
                    }
                    for (at, word) in words.into_iter().enumerate() {
                        let heat = |kind: Word| match is_warm && snapshot[at] == kind {
                            true => kind.heat(),
                            false => 0,
                        };
                        let whole = begin as usize + at;
                        let expected = match (is_dirty[whole], is_clean[whole]) {
                            (true, _) => Word::dirty(heat(Word::dirty(1))),
                            (_, true) => Word::clean(heat(Word::clean(2))),
                            _ => Word::ABSENT,
                        };
                        assert_eq!(word, expected, "seed {seed}, sector {whole}");
                    }
                    let apart = |two: &[Run]| {
                        two[0].end() < two[1].first
                            || two[0].end() == two[1].first && two[0].word != two[1].word
                    };
                    assert!(runs.windows(2).all(apart), "seed {seed}");
                }
            }
        }
    }
}
