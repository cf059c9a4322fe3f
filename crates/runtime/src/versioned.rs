//! A word that guards a page: one writer at a time, and readers that write nothing.
//!
//! Problem: several CPUs copy out of a page and now and then one copies into it. A reader must not
//! see half of a write, and must not touch a line that other readers share.
//!
//! Idea (a sequence lock): the word counts writes, and says who is writing.
//!
//! 1. A writer puts its number into a free word ([`Versioned::try_lock`]), writes, and makes the word
//!    free again, with the next count ([`Versioned::unlock`]).
//! 2. A reader notes a free word ([`Versioned::begin_read`]), copies, and looks again
//!    ([`Versioned::end_read`]): if the word is the same, what it copied is whole.
//! 3. Writers in one process have one number, and a drive has one. When a process dies in the middle of a
//!    write, others find its number in the word and free it ([`Versioned::unlock_of`]).
//! 4. A word in memory that several processes write may hold anything. Who doubts that the one it names
//!    has it asks that one's own notes, and frees the word if they say no ([`Versioned::free_unless`]). So
//!    a writer notes what it is about to take, and strikes that out when it has given it back.
//!
//! The low 6 bits hold the writer, 0 for nobody; the upper 26 count.
//!
//! A copy that a writer disturbs is a race on plain memory; its result is thrown away unseen. Who
//! reads that way does so through raw pointers and makes no reference to the page.

use crate::sync::{AtomicU32, Ordering, fence};

/// Bits of a word that say who writes.
const HOLDER: u32 = 63;

/// A process that writes, as words name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder(u32);

impl Holder {
    /// The process that the words belong to.
    pub const OWNER: Holder = Holder(1);

    /// A drive: its core that has the frame.
    pub const DRIVE: Holder = Holder(2);

    /// Other processes that words tell apart.
    pub const GUESTS_MAX: u32 = HOLDER - 2;

    /// Another process: number `guest`, below [`Holder::GUESTS_MAX`].
    ///
    /// # Panics
    /// If the number is not below it.
    pub const fn guest(guest: u32) -> Holder {
        assert!(guest < Holder::GUESTS_MAX, "a word names 61 guests");
        Holder(guest + 3)
    }

    /// The number of the other process, if it is one.
    pub const fn guest_number(self) -> Option<u32> {
        self.0.checked_sub(3)
    }
}

/// See the module. All zeros is a fresh word.
#[derive(Debug)]
#[repr(transparent)]
pub struct Versioned(AtomicU32);

impl Default for Versioned {
    fn default() -> Self {
        Versioned::new()
    }
}

impl Versioned {
    /// An unlocked word.
    pub fn new() -> Versioned {
        Versioned(AtomicU32::new(0))
    }

    /// Takes the word for writing, in the process that it belongs to; false if somebody has it.
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.try_lock_as(Holder::OWNER)
    }

    /// Takes the word for writing; false if somebody has it.
    #[inline]
    pub fn try_lock_as(&self, holder: Holder) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        // Acquire (SeqCst is that too): partner of the release in `unlock`. SeqCst: before the load
        // in `DirtyBits::set`. What follows must also not be seen before the word is taken: the
        // release fence, partner of the acquire fence in `end_read`.
        let taken = word & HOLDER == 0
            && self
                .0
                .compare_exchange(word, word | holder.0, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok();
        fence(Ordering::Release);
        taken
    }

    /// Gives the word back after writing, whatever others that share the memory have made of it.
    #[inline]
    pub fn unlock(&self) {
        let word = self.0.load(Ordering::Relaxed);
        // Release: partner of the acquire in `try_lock` and in `begin_read`.
        self.0.store(next(word), Ordering::Release);
    }

    /// Gives the word back on behalf of a process that is dead, or may not be believed; true if it was
    /// that one's.
    pub fn unlock_of(&self, holder: Holder) -> bool {
        self.free_unless(|named| named != holder)
    }

    /// Frees the word if it names somebody who, as `has_it` says, does not have it; true if it did.
    ///
    /// `has_it` may say no while the one that it is asked of is about to take the word, but not while it
    /// has it: that one notes it before it takes the word, and strikes it out, by a `Release`, after it has
    /// given it back; `has_it` loads the note by an `Acquire`.
    pub fn free_unless(&self, has_it: impl FnOnce(Holder) -> bool) -> bool {
        // Acquire: partner of the exchange in `try_lock_as`. Who took the word had noted it.
        let word = self.0.load(Ordering::Acquire);
        // Release: as in `unlock`. If the note was struck out since, the word is another.
        word & HOLDER != 0
            && !has_it(Holder(word & HOLDER))
            && self
                .0
                .compare_exchange(word, next(word), Ordering::Release, Ordering::Relaxed)
                .is_ok()
    }

    /// True while somebody writes.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) & HOLDER != 0
    }

    /// True while a process has the word.
    #[inline]
    pub fn is_held_by(&self, holder: Holder) -> bool {
        self.0.load(Ordering::Relaxed) & HOLDER == holder.0
    }

    /// The version to read; `None` while somebody writes.
    #[inline]
    pub fn begin_read(&self) -> Option<u32> {
        // Acquire (SeqCst is that too): partner of the release in `unlock`. SeqCst: after the
        // exchange in `DirtyBits::clear`.
        let word = self.0.load(Ordering::SeqCst);
        (word & HOLDER == 0).then_some(word)
    }

    /// True if nobody has written since [`Versioned::begin_read`] gave `version`: what was copied
    /// in between is whole.
    #[inline]
    pub fn end_read(&self, version: u32) -> bool {
        // Acquire: partner of the release fence in `try_lock`.
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == version
    }
}

/// The free word after a write.
#[inline]
const fn next(word: u32) -> u32 {
    (word | HOLDER).wrapping_add(1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_writer_at_a_time_and_readers_notice_it() {
        let word = Versioned::new();
        let version = word.begin_read().unwrap();
        assert!(word.end_read(version) && !word.is_locked());
        assert!(word.try_lock());
        assert!(word.is_locked() && !word.try_lock() && word.begin_read().is_none());
        assert!(!word.end_read(version));
        word.unlock();
        let later = word.begin_read().unwrap();
        assert!(later != version && word.end_read(later) && !word.end_read(version));
    }

    #[test]
    fn the_count_wraps() {
        let word = Versioned(AtomicU32::new(!HOLDER));
        assert!(word.try_lock() && word.is_locked());
        word.unlock();
        assert_eq!(word.begin_read(), Some(0));
    }

    #[test]
    fn a_dead_writers_word_is_freed_and_nobody_elses() {
        let word = Versioned::new();
        let version = word.begin_read().unwrap();
        let last = Holder::guest(Holder::GUESTS_MAX - 1);
        assert!(word.try_lock_as(last) && !word.try_lock());
        assert!(word.is_held_by(last) && !word.is_held_by(Holder::OWNER));
        assert!(!word.unlock_of(Holder::guest(0)) && word.is_locked());
        assert!(word.unlock_of(last) && !word.is_locked());
        assert!(!word.end_read(version), "its write may have begun");
        assert!(!word.unlock_of(last));
    }

    #[test]
    fn holders_are_told_apart() {
        let guests = (0..Holder::GUESTS_MAX).map(Holder::guest);
        assert!(
            guests
                .clone()
                .map(|guest| guest.guest_number())
                .eq((0..Holder::GUESTS_MAX).map(Some))
        );
        for holder in [Holder::OWNER, Holder::DRIVE].into_iter().chain(guests) {
            let word = Versioned::new();
            assert!(word.try_lock_as(holder) && word.is_held_by(holder));
            let named = |named: Holder| {
                assert_eq!(named, holder);
                false
            };
            assert!(word.free_unless(named) && !word.is_locked());
        }
        assert_eq!(
            Holder::OWNER
                .guest_number()
                .or(Holder::DRIVE.guest_number()),
            None
        );
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::sync::Arc;

    /// Two words of a "page": relaxed atomics stand for its plain bytes.
    struct Page {
        word: Versioned,
        halves: [AtomicU32; 2],
    }

    #[test]
    fn a_reader_sees_whole_writes_or_none() {
        loom::model(|| {
            let page = Arc::new(Page {
                word: Versioned::new(),
                halves: [AtomicU32::new(0), AtomicU32::new(0)],
            });
            let writers: Vec<_> = (1..=2)
                .map(|value| {
                    let page = page.clone();
                    loom::thread::spawn(move || {
                        if page.word.try_lock() {
                            page.halves
                                .iter()
                                .for_each(|h| h.store(value, Ordering::Relaxed));
                            page.word.unlock();
                        }
                    })
                })
                .collect();
            if let Some(version) = page.word.begin_read() {
                let seen = [0, 1].map(|i| page.halves[i].load(Ordering::Relaxed));
                if page.word.end_read(version) {
                    assert_eq!(seen[0], seen[1], "half of a write");
                }
            }
            writers.into_iter().for_each(|w| w.join().unwrap());
        });
    }

    #[test]
    fn a_word_is_not_taken_from_one_that_has_it() {
        loom::model(|| {
            let word = Arc::new(Versioned::new());
            let noted = Arc::new(AtomicU32::new(0));
            let (taken, note) = (word.clone(), noted.clone());
            let writer = loom::thread::spawn(move || {
                note.fetch_add(1, Ordering::Relaxed);
                assert!(taken.try_lock(), "nobody else takes it");
                taken.unlock();
                note.fetch_sub(1, Ordering::Release);
            });
            let freed = word.free_unless(|_| noted.load(Ordering::Acquire) > 0);
            assert!(!freed, "its holder had it");
            writer.join().unwrap();
        });
    }
}
