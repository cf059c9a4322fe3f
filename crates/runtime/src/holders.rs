//! Which CPUs have a cache line, and whether anybody has ever written to it.
//!
//! Every frame of a cache has such a set, and most machines have few CPUs: so it is small while they
//! are few, and right however many they are. The first 63 are bits of a word in place, and each 63 beyond
//! them bits of a word on the heap, made when one of them has the line for the first time.

use std::sync::OnceLock;

use crate::sync::{AtomicU64, Ordering};

/// CPUs of a word.
const WORD_CPUS: u32 = 63;

/// Set in the first word once somebody has written; of no meaning in the others.
const WRITTEN: u64 = 1 << WORD_CPUS;

/// See the module. All orderings are relaxed: only virtual time, which is one thread, looks at it.
#[derive(Debug)]
pub(crate) struct Holders {
    word: AtomicU64,
    /// CPUs from [`WORD_CPUS`] on, numbered from 0.
    more: OnceLock<Box<Holders>>,
}

/// The bit of a CPU in its word; none if it is in a later one.
#[inline]
fn bit(cpu: u32) -> u64 {
    match cpu {
        0..WORD_CPUS => 1 << cpu,
        _ => 0,
    }
}

impl Holders {
    /// Nobody has the line, and nobody ever had.
    pub(crate) fn none() -> Holders {
        Holders {
            word: AtomicU64::new(0),
            more: OnceLock::new(),
        }
    }

    /// Whether anybody has written to the line.
    #[inline]
    pub(crate) fn any_wrote(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WRITTEN != 0
    }

    /// Whether a CPU has the line.
    #[inline]
    pub(crate) fn contains(&self, cpu: u32) -> bool {
        match cpu < WORD_CPUS {
            true => self.word.load(Ordering::Relaxed) & bit(cpu) != 0,
            false => self.contains_beyond(cpu - WORD_CPUS),
        }
    }

    #[cold]
    fn contains_beyond(&self, beyond: u32) -> bool {
        self.more.get().is_some_and(|more| more.contains(beyond))
    }

    /// Whether nobody but this CPU has the line.
    #[inline]
    pub(crate) fn is_none_but(&self, cpu: u32) -> bool {
        let others = self.word.load(Ordering::Relaxed) & !WRITTEN & !bit(cpu);
        others == 0 && self.more.get().is_none_or(|more| more.none_beyond_but(cpu))
    }

    #[cold]
    fn none_beyond_but(&self, cpu: u32) -> bool {
        // For a CPU of the word before, a number that no later word has.
        self.is_none_but(cpu.checked_sub(WORD_CPUS).unwrap_or(u32::MAX))
    }

    /// Whether just one CPU has the line. If anybody has written, it is the last who did: nobody has read since.
    pub(crate) fn is_one(&self) -> bool {
        self.count() == 1
    }

    fn count(&self) -> u32 {
        let here = (self.word.load(Ordering::Relaxed) & !WRITTEN).count_ones();
        here + self.more.get().map_or(0, |more| more.count())
    }

    /// A CPU gets the line too.
    #[inline]
    pub(crate) fn insert(&self, cpu: u32) {
        match cpu.checked_sub(WORD_CPUS) {
            None => {
                let word = self.word.load(Ordering::Relaxed);
                self.word.store(word | bit(cpu), Ordering::Relaxed);
            }
            Some(beyond) => self.more().insert(beyond),
        }
    }

    /// A CPU has written: it alone has the line.
    #[inline]
    pub(crate) fn set_writer(&self, cpu: u32) {
        self.word.store(WRITTEN | bit(cpu), Ordering::Relaxed);
        if cpu >= WORD_CPUS {
            self.set_writer_beyond(cpu - WORD_CPUS);
        } else if let Some(more) = self.more.get() {
            more.clear();
        }
    }

    #[cold]
    fn set_writer_beyond(&self, beyond: u32) {
        self.more().set_writer(beyond);
    }

    #[cold]
    fn clear(&self) {
        self.word.store(0, Ordering::Relaxed);
        if let Some(more) = self.more.get() {
            more.clear();
        }
    }

    #[cold]
    fn more(&self) -> &Holders {
        self.more.get_or_init(|| Box::new(Holders::none()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rng::{Rng, Seed};

    #[test]
    fn it_is_the_set_that_it_says_for_any_number_of_cpus() {
        for cpus in [1, 62, 63, 64, 65, 126, 127, 300] {
            let mut rng: Rng = Seed(cpus).rng();
            let (holders, mut model, mut is_written) = (Holders::none(), BTreeSet::new(), false);
            for _ in 0..2_000 {
                let cpu = rng.below(cpus) as u32;
                if rng.chance(1, 8) {
                    holders.set_writer(cpu);
                    (model, is_written) = (BTreeSet::from([cpu]), true);
                } else {
                    holders.insert(cpu);
                    model.insert(cpu);
                }
                let looked_at = rng.below(cpus) as u32;
                assert_eq!(holders.contains(looked_at), model.contains(&looked_at));
                let has_others = model.iter().any(|&other| other != looked_at);
                assert_eq!(holders.is_none_but(looked_at), !has_others);
                assert_eq!(holders.any_wrote(), is_written);
                assert_eq!(holders.is_one(), model.len() == 1);
            }
        }
    }
}
