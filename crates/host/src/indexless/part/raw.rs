//! The raw form: four bits for each sector, sixteen sectors a word.
//!
//! Words are atomic: whoever looks a sector up makes it hotter without the lock that guards the part.
//! Who may write what is said in `raws.rs`.

use std::array;
use std::sync::Arc;

use wharf_runtime::sync::{AtomicU64, Ordering, fence};

use super::nibbles::{self, NIBBLES};
use super::run::{Counts, Run, SECTORS};
use crate::indexless::word::Word;

/// Words of the form.
pub const WORDS: usize = (SECTORS / NIBBLES) as usize;

/// The words of a part.
pub struct Page<const N: usize = WORDS> {
    words: [AtomicU64; N],
    /// Which one of its shard's.
    number: u32,
}

impl<const N: usize> Page<N> {
    /// One of which nothing is cached.
    pub fn new(number: u32) -> Arc<Page<N>> {
        Arc::new(Page {
            words: array::from_fn(|_| AtomicU64::new(0)),
            number,
        })
    }

    /// Which one of its shard's it is.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Sixteen sectors.
    #[inline]
    pub fn word(&self, at: usize) -> u64 {
        // Relaxed: what orders looks is said in `raws.rs`.
        self.words[at].load(Ordering::Relaxed)
    }

    /// The word of a sector.
    #[inline]
    pub fn get(&self, sector: u32) -> Word {
        let word = self.word((sector / NIBBLES) as usize);
        Word::of_bits((word >> (sector % NIBBLES * 4) & 0xf) as u8)
    }

    /// Under the lock: gives sixteen sectors the words that `change` makes of theirs, until nobody has made one of
    /// them hotter meanwhile; these words before and after.
    #[inline]
    pub fn change(&self, at: usize, change: impl Fn(u64) -> u64) -> (u64, u64) {
        let mut old = self.word(at);
        loop {
            let new = change(old);
            if new == old {
                return (old, new);
            }
            let word = &self.words[at];
            // Release: see `store`.
            match word.compare_exchange_weak(old, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return (old, new),
                Err(now) => old = now,
            }
        }
    }

    /// Without the lock: gives sixteen sectors other words, if theirs are what they were.
    #[inline]
    pub fn try_change(&self, at: usize, old: u64, new: u64) {
        if new != old {
            // Release: see `store`.
            let _ = self.words[at].compare_exchange(old, new, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Gives it these runs.
    pub fn fill(&self, runs: &[Run]) {
        let mut words = [0; N];
        for run in runs {
            let (mut at, end) = (u32::from(run.first), u32::from(run.end()));
            while at < end {
                let (word, from) = ((at / NIBBLES) as usize, at % NIBBLES);
                let to = (from + end - at).min(NIBBLES);
                words[word] |= nibbles::class_of(from, to) * u64::from(run.word.bits());
                at += to - from;
            }
        }
        self.store(words.into_iter());
    }

    /// Gives it another one's.
    fn copy(&self, other: &Page<N>) {
        self.store((0..N).map(|at| other.word(at)));
    }

    fn store(&self, words: impl Iterator<Item = u64>) {
        // Partner of the fence in `Raws::look`: who reads a word that is stored from here on sees
        // that the page has gone from the part that had it.
        fence(Ordering::Release);
        for (to, word) in self.words.iter().zip(words) {
            if to.load(Ordering::Relaxed) != word {
                // Not a store. What is late makes something of what was before this, and in the
                // order of changes comes before it, or fails; loom knows that of exchanges only.
                to.swap(word, Ordering::Relaxed);
            }
        }
    }

    /// Changes sectors of a range; how many are what then.
    pub(super) fn change_range(
        &self,
        first: u32,
        count: u32,
        mut counts: Counts,
        change: impl Fn(Word) -> Word,
    ) -> Counts {
        let (mut at, end) = (first, first + count);
        while at < end {
            let (word, from) = ((at / NIBBLES) as usize, at % NIBBLES);
            let to = (from + end - at).min(NIBBLES);
            let bits = nibbles::class_of(from, to) * 0xf;
            let (old, new) = self.change(word, |word| {
                let mut changed = word & !bits;
                nibbles::each_run(word, from, to, |at, count, nibble| {
                    let new = u64::from(change(Word::of_bits(nibble)).bits());
                    changed |= nibbles::class_of(at, at + count) * new;
                });
                changed
            });
            if new != old {
                counts = counts.less(nibbles::counts(old)).more(nibbles::counts(new));
            }
            at += to - from;
        }
        counts
    }

    /// Makes clean sectors cooler if `clean`, dirty ones if `dirty`: how many are what then, and
    /// how many runs of equal words there were.
    pub(super) fn cool(&self, clean: bool, dirty: bool) -> (Counts, u32) {
        let (mut counts, mut runs, mut before) = (Counts::default(), 0, 0);
        for at in 0..N {
            if self.word(at) == 0 {
                before = 0;
                continue;
            }
            let (old, new) = self.change(at, |word| nibbles::cooler(word, clean, dirty));
            runs += nibbles::runs_begun(old, before);
            before = old >> 60;
            counts = counts.more(nibbles::counts(new));
        }
        (counts, runs)
    }

    /// Calls `each` with runs of sectors that are cached, in ascending order. No run goes beyond
    /// its sixteen sectors.
    #[inline]
    pub(super) fn each_run(&self, mut each: impl FnMut(Run)) {
        for at in 0..N {
            let word = self.word(at);
            if word == 0 {
                continue;
            }
            nibbles::each_run(word, 0, NIBBLES, |from, count, nibble| {
                if nibble != 0 {
                    each(Run {
                        first: at as u16 * NIBBLES as u16 + from as u16,
                        count: count as u16,
                        word: Word::of_bits(nibble),
                    });
                }
            });
        }
    }
}

/// Pages of a shard that no part has at present. Those that others may be looking at are never
/// given back, so that whoever is late sees another part's words, and notices, but no freed memory.
/// That are as many as are kept; those beyond are nobody's to look at.
#[derive(Default)]
pub struct Pages {
    spare: Vec<Arc<Page>>,
    made: u32,
    /// How many are kept.
    kept: u32,
}

impl Pages {
    /// Keeps the first `kept` that are made.
    pub fn keeping(kept: u32) -> Pages {
        Pages {
            kept,
            ..Pages::default()
        }
    }

    /// One that nobody has. What it holds is another part's.
    pub(super) fn take(&mut self) -> Arc<Page> {
        self.spare.pop().unwrap_or_else(|| {
            let number = self.made;
            self.made = (number + 1).min(self.kept);
            Page::new(number)
        })
    }

    /// One that a part has no more.
    pub(super) fn give_back(&mut self, page: Arc<Page>) {
        if page.number < self.kept {
            self.spare.push(page);
        }
    }

    /// One that is kept, in place of one that is not, with its words.
    pub(super) fn settle(&mut self, page: &mut Arc<Page>) {
        if page.number < self.kept {
            return;
        }
        if let Some(kept) = self.spare.pop() {
            kept.copy(page);
            *page = kept;
        }
    }

    /// How many nobody has.
    pub fn spare(&self) -> usize {
        self.spare.len()
    }
}
