//! Looks at raw parts without the lock of their shard.
//!
//! Problem: most look-ups are hits in parts that are raw, and change nothing; the lock and what it
//! guards are several cache lines that others write.
//!
//! Idea: a table says which page a part has. Whoever looks does this:
//!
//! 1. it reads how often pages of the shard went to other parts (`moves`), the part's entry, and
//!    the words;
//! 2. it reads `moves` again: if that is as before, the words were this part's. Else, or if the
//!    part is not raw, it looks under the lock.
//!
//! *Who may write words of a page, and when:*
//!
//! * Whoever has the lock, at any time: each word by one read-modify-write (an exchange, or a
//!   compare and exchange of what it was), never by a store.
//! * Whoever has not, after a look that the second step has proven: only by one compare and
//!   exchange of a word as it was seen for the same one with sectors hotter that have some heat
//!   ([`nibbles::hotter`]). If that fails the heat is lost: it is a hint.
//!
//! *Why that is right:* a page gets another part's words only after the entry was cleared and
//! `moves` was raised; there is a fence before these are written ([`Page::store`]), and one before
//! the second look at `moves`: who has read such a word reads the raised number. All changes of a
//! word are read-modify-writes and so in one order, each made of the one before it: what is late
//! finds the word other than it was, and writes nothing, or the same, in which case the sectors
//! that get hotter are, in whatever part it is now, where they were, and of no other count. So a
//! page that has gone to another part can be given a hint too many, and nothing else; what is cold,
//! and what is cached where, changes under the lock alone. Pages that others may be looking at are
//! never freed ([`Pages`]).
//!
//! The place of a sector stays while its range is locked, which is the callers' business
//! (`client.rs`): a look at several words need not be of one moment.
//!
//! That a part was used (`recent`) is a bit of its entry, which is written only where it is not set
//! yet.

use std::sync::{Arc, OnceLock};

use wharf_runtime::sync::{AtomicU32, AtomicU64, Ordering, fence};

use super::part::Pages;
use super::part::nibbles::{self, NIBBLES};
use super::part::raw::{Page, WORDS};

/// Words of one look at most: as many as 256 sectors may touch.
const LOOK_WORDS: usize = 17;

/// The part was used since the hand passed.
const RECENT: u32 = 1 << 31;

/// The raw parts of a shard.
pub(super) struct Raws<const N: usize = WORDS> {
    /// How often pages went from a part.
    moves: AtomicU64,
    /// Of each part the page, counted from one, and [`RECENT`].
    entries: Box<[AtomicU32]>,
    pages: Box<[OnceLock<Arc<Page<N>>>]>,
}

/// Words that were read together.
pub(super) struct Words {
    words: [u64; LOOK_WORDS],
    first: u32,
    end: u32,
}

impl Words {
    /// Each of them with the range of its sectors that was asked for.
    #[inline]
    fn each(&self) -> impl Iterator<Item = (u64, u32, u32)> {
        let (first, end) = (self.first, self.end);
        let from = first / NIBBLES;
        (from..end.div_ceil(NIBBLES)).map(move |at| {
            let begin = at * NIBBLES;
            let word = self.words[(at - from) as usize];
            (word, first.max(begin) - begin, (end - begin).min(NIBBLES))
        })
    }

    /// Calls `each` with first sector, count and word of runs of sectors in one place.
    #[inline]
    pub(super) fn places(&self, mut each: impl FnMut(u32, u32, u8)) {
        let mut begin = self.first / NIBBLES * NIBBLES;
        for (word, from, to) in self.each() {
            nibbles::each_run(nibbles::places(word), from, to, |at, count, place| {
                each(begin + at, count, place);
            });
            begin += NIBBLES;
        }
    }

    /// Whether any sector is cached and cold.
    #[inline]
    pub(super) fn any_cold(&self) -> bool {
        self.each()
            .any(|(word, from, to)| nibbles::any_cold(word, from, to))
    }
}

impl<const N: usize> Raws<N> {
    /// Of `parts` parts, so many of which are raw as a rule. Others that are raw are looked at
    /// under the lock.
    pub(super) fn new(parts: u64, raw_max: usize) -> Raws<N> {
        let kept = (raw_max as u64).min(parts);
        Raws {
            moves: AtomicU64::new(0),
            entries: (0..parts).map(|_| AtomicU32::new(0)).collect(),
            pages: (0..kept).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Pages for these parts.
    pub(super) fn pages(&self) -> Pages {
        Pages::keeping(self.pages.len() as u32)
    }

    /// Whether part `at` seems to be raw.
    #[inline]
    pub(super) fn has(&self, at: usize) -> bool {
        self.entries[at].load(Ordering::Relaxed) & !RECENT != 0
    }

    /// The words of sectors of part `at`, if they can be had without the lock.
    #[inline]
    pub(super) fn look(&self, at: usize, first: u32, end: u32) -> Option<Words> {
        // Acquire: partner of the release in `withdraw`.
        let moves = self.moves.load(Ordering::Acquire);
        let page = self.page(at)?;
        let from = first / NIBBLES;
        let count = (end.div_ceil(NIBBLES) - from) as usize;
        if count > LOOK_WORDS {
            return None;
        }
        let mut words = [0; LOOK_WORDS];
        for (index, word) in words[..count].iter_mut().enumerate() {
            *word = page.word(from as usize + index);
        }
        // Partner of the fence in `Page::store`.
        fence(Ordering::Acquire);
        let is_same = self.moves.load(Ordering::Relaxed) == moves;
        is_same.then_some(Words { words, first, end })
    }

    #[inline]
    fn page(&self, at: usize) -> Option<&Page<N>> {
        // Acquire: partner of the release in `publish`, after which the page has the part's words.
        let entry = self.entries[at].load(Ordering::Acquire) & !RECENT;
        let number = (entry as usize).checked_sub(1)?;
        self.pages[number].get().map(|page| &**page)
    }

    /// Makes sectors of part `at` hotter that have some heat, and notes that the part was used.
    #[inline]
    pub(super) fn warm(&self, at: usize, of: &Words) {
        self.note_use(at);
        let is_warmed = |(word, from, to)| nibbles::hotter(word, from, to) == word;
        if of.each().all(is_warmed) {
            return;
        }
        // It may be packed by now: then there is nothing to be hotter.
        let Some(page) = self.page(at) else { return };
        let index = of.first / NIBBLES;
        for (index, (word, from, to)) in (index as usize..).zip(of.each()) {
            page.try_change(index, word, nibbles::hotter(word, from, to));
        }
    }

    /// Notes that part `at` was used.
    #[inline]
    pub(super) fn note_use(&self, at: usize) {
        // Relaxed: it says nothing of anything else.
        if self.entries[at].load(Ordering::Relaxed) & RECENT == 0 {
            self.entries[at].fetch_or(RECENT, Ordering::Relaxed);
        }
    }

    /// Takes it back; was it noted?
    pub(super) fn forget_use(&self, at: usize) -> bool {
        self.entries[at].fetch_and(!RECENT, Ordering::Relaxed) & RECENT != 0
    }

    /// Under the lock: part `at` has this page, with its words in it.
    pub(super) fn publish(&self, at: usize, page: &Arc<Page<N>>) {
        let Some(slot) = self.pages.get(page.number() as usize) else {
            return;
        };
        slot.get_or_init(|| page.clone());
        // Release: see `page`. The bit stays; nobody else changes the number.
        self.entries[at].fetch_or(page.number() + 1, Ordering::Release);
    }

    /// Under the lock: part `at` has no page any more. Before the page has other words.
    pub(super) fn withdraw(&self, at: usize) {
        let entry = &self.entries[at];
        if entry.load(Ordering::Relaxed) & !RECENT == 0 {
            return;
        }
        entry.fetch_and(RECENT, Ordering::Relaxed);
        // Release: who reads this number reads the entry that was cleared, or a later one.
        self.moves.fetch_add(1, Ordering::Release);
    }

    /// Bytes that it takes, pages left out.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.entries) + size_of_val(&*self.pages)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::indexless::part::Run;
    use crate::indexless::word::{Place, Word};

    fn run(first: u16, count: u16, word: Word) -> Run {
        Run { first, count, word }
    }

    /// Parts 0 and 1 have one page in turn. Sector 3 of part 0 is dirty all the time, that of part
    /// 1 absent; sector 5 is clean in both.
    #[test]
    fn a_look_beside_packing_sees_the_part_that_it_asked_for_and_loses_nothing_but_heat() {
        loom::model(|| {
            let raws = loom::sync::Arc::new(Raws::<1>::new(2, 1));
            let page = Page::<1>::new(0);
            let words_of = |part: usize| match part {
                0 => vec![run(3, 1, Word::dirty(1)), run(5, 1, Word::clean(2))],
                _ => vec![run(5, 1, Word::clean(1))],
            };
            page.fill(&words_of(0));
            raws.publish(0, &page);
            let others = raws.clone();
            let looker = loom::thread::spawn(move || {
                for part in [0, 1] {
                    if let Some(words) = others.look(part, 0, 16) {
                        let mut found = [Place::Disk; 16];
                        words.places(|at, count, place| {
                            let place = Word::of_bits(place).place();
                            found[at as usize..(at + count) as usize].fill(place);
                        });
                        let third = if part == 0 { Place::Dirty } else { Place::Disk };
                        assert_eq!((found[3], found[5]), (third, Place::Clean));
                        others.warm(part, &words);
                    }
                }
            });
            // Whoever has the lock: a sector of part 0 comes in, it is packed, and part 1 has its
            // page.
            let come = |word: u64| word | u64::from(Word::clean(1).bits()) << (4 * 9);
            let (_, all) = page.change(0, come);
            raws.withdraw(0);
            page.fill(&words_of(1));
            raws.publish(1, &page);
            looker.join().unwrap();
            assert_eq!(Word::of_bits((all >> 36 & 15) as u8), Word::clean(1));
            let third = page.get(3);
            assert_eq!(third, Word::ABSENT);
            let fifth = page.get(5);
            assert!(fifth.place() == Place::Clean && (1..=3).contains(&fifth.heat()));
            assert_eq!(page.get(9), Word::ABSENT);
        });
    }

    /// A change under the lock is never lost to heat from beside; that heat may be.
    #[test]
    fn words_that_change_while_a_neighbour_gets_hotter_stay_changed() {
        loom::model(|| {
            let raws = loom::sync::Arc::new(Raws::<1>::new(1, 1));
            let page = Page::<1>::new(0);
            page.fill(&[run(3, 1, Word::dirty(1))]);
            raws.publish(0, &page);
            let others = raws.clone();
            let looker = loom::thread::spawn(move || {
                let words = others.look(0, 3, 4).expect("nobody packs it");
                others.warm(0, &words);
            });
            page.change(0, |word| word | u64::from(Word::clean(1).bits()) << (4 * 9));
            looker.join().unwrap();
            assert!([Word::dirty(1), Word::dirty(2)].contains(&page.get(3)));
            assert_eq!(page.get(9), Word::clean(1));
        });
    }

    /// The page goes to a part with the same words: what is late finds it as it was. Sectors of
    /// that part can get hotter, and nothing else.
    #[test]
    fn heat_that_comes_late_to_a_part_with_the_same_words_changes_nothing_else() {
        loom::model(|| {
            let raws = loom::sync::Arc::new(Raws::<1>::new(2, 1));
            let page = Page::<1>::new(0);
            let words = [run(3, 1, Word::dirty(1)), run(4, 1, Word::clean(0))];
            page.fill(&words);
            raws.publish(0, &page);
            let others = raws.clone();
            let looker = loom::thread::spawn(move || {
                if let Some(words) = others.look(0, 2, 4) {
                    others.warm(0, &words);
                }
            });
            raws.withdraw(0);
            page.fill(&words);
            raws.publish(1, &page);
            let (_, changed) = page.change(0, |word| nibbles::cooler(word, true, true));
            looker.join().unwrap();
            let found = [2, 3, 4].map(|at| page.get(at));
            assert_eq!([found[0], found[2]], [Word::ABSENT, Word::clean(0)]);
            assert!([0, 1].contains(&found[1].heat()) && found[1].place() == Place::Dirty);
            assert_eq!(page.word(0) >> 16, changed >> 16);
        });
    }
}
