//! The words of a frame: which page it holds, what state that page is in, and who may touch its bytes.
//!
//! Problem: a hit must write nothing that other CPUs read, or hits of many CPUs on one page pass its
//! line around.
//!
//! Idea: nobody counts readers. A reader copies and then looks whether the frame's
//! [`Versioned`] word is what it was; a frame that changes its bytes or its page changes its word.
//! Whoever needs a page to stay (a writer, a flusher, a program with a guard) counts itself among the
//! frame's *pins*, which are in one word with its state.
//!
//! 1. A free frame is *taken*: nobody pins it. [`FrameWord::begin`] gives it to a page, with a pin of
//!    whoever fills it.
//! 2. When the bytes are there, the state says [`FILLED`]; if they could not be had, [`FAILED`], and the
//!    next one who wants the page tries again.
//! 3. [`FrameWord::take`] succeeds on a frame that nobody fills, clean and without pins; it is out of
//!    bounds for pins then, and [`FrameWord::empty`] turns readers away as well.

use wharf_runtime::Versioned;
use wharf_runtime::sync::{AtomicU32, AtomicU64, Ordering, spin};

use crate::key::PageKey;

/// The bytes are the page's.
pub const FILLED: u32 = 1;
/// The drive does not have the bytes.
pub const DIRTY: u32 = 1 << 1;
/// The drive reads the bytes: they must not change.
pub const WRITEBACK: u32 = 1 << 2;
/// Used since whoever looks for pages to give up came by.
pub const REFERENCED: u32 = 1 << 3;
/// The drive has not answered in time: nobody should wait for the page.
pub const STUCK: u32 = 1 << 4;
/// Somebody waits for a change of the state.
pub const WAITERS: u32 = 1 << 5;
/// A read of this page starts the next read-ahead.
pub const READAHEAD: u32 = 1 << 6;
/// The bytes could not be read; nobody is at it.
pub const FAILED: u32 = 1 << 7;
/// Used again when it was [`REFERENCED`].
pub const REUSED: u32 = 1 << 8;
/// Free, or being freed.
pub const TAKEN: u32 = 1 << 9;
/// Brought by reading ahead; no request has touched it yet. Never together with [`REFERENCED`]: who marks a use
/// takes this mark off, in the same step.
pub const UNTOUCHED: u32 = 1 << 10;
/// One pin; the bits above count them.
const PIN: u32 = 1 << 11;
/// Half of the pins that can be counted: see [`takes_guards`].
const GUARDED: u32 = 1 << 31;

/// No page: not a key, see [`FILES_MAX`](crate::key::FILES_MAX).
const NO_PAGE: u64 = u64::MAX;

/// What came of copying out of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copied {
    /// All of it. The state is what it was.
    Done(u32),
    /// The frame holds another page, or none.
    Moved,
    /// The page is not there yet.
    Unfilled,
}

/// The pins in a state.
#[inline]
pub fn pins(state: u32) -> u32 {
    state / PIN
}

/// Whether a page in this state may get one more pin that its owner keeps as long as it likes. The
/// other half of the count, two million, is for tasks: each pins a page at a time, and 4,096 CPUs
/// have some hundred tasks each.
#[inline(always)]
pub fn takes_guards(state: u32) -> bool {
    state < GUARDED
}

/// What a use of a page in this state adds to it, if anything.
#[inline(always)]
pub fn mark_of_use(state: u32) -> u32 {
    match state & (REFERENCED | REUSED) {
        0 | REUSED => REFERENCED,
        REFERENCED => REUSED,
        _ => 0,
    }
}

/// Whether a page in this state may go.
#[inline]
pub fn may_go(state: u32) -> bool {
    state & (FILLED | FAILED) != 0 && state & (DIRTY | WRITEBACK | TAKEN) == 0 && state < PIN
}

/// See the module.
pub struct FrameWord {
    state: AtomicU32,
    word: Versioned,
    page: AtomicU64,
}

impl FrameWord {
    /// Of a free frame.
    pub fn free() -> FrameWord {
        FrameWord {
            state: AtomicU32::new(TAKEN),
            word: Versioned::new(),
            page: AtomicU64::new(NO_PAGE),
        }
    }

    /// The state.
    #[inline]
    pub fn state(&self) -> u32 {
        // Acquire: partner of the releases below.
        self.state.load(Ordering::Acquire)
    }

    /// The page that the frame holds.
    #[inline]
    pub fn key(&self) -> Option<PageKey> {
        let page = self.page.load(Ordering::Relaxed);
        (page != NO_PAGE).then(|| PageKey::of_word(page))
    }

    /// Sets and clears flags in one step; gives the state there was.
    #[inline]
    pub fn change(&self, set: u32, clear: u32) -> u32 {
        self.update(|state| Some((state | set) & !clear))
            .expect("it always changes")
    }

    /// Changes the state as `next` says, unless it says nothing; gives what it was.
    #[inline]
    fn update(&self, next: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        // Release: partner of the acquire in `state`. Acquire: of the release of who changed it last.
        let updated = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        updated.ok()
    }

    /// Pins the frame if it holds the page of `key`. The page stays then, filled or not.
    #[inline]
    pub fn try_pin(&self, key: PageKey) -> bool {
        let pinned = self.update(|state| (state & TAKEN == 0).then_some(state + PIN));
        if pinned.is_none() {
            return false;
        }
        // The acquire above is the partner of the release in `begin`, which follows the page.
        let holds = self.page.load(Ordering::Relaxed) == key.word();
        if !holds {
            self.unpin();
        }
        holds
    }

    /// Adds a pin to a frame that has one.
    pub fn pin_again(&self) {
        // Relaxed: the pin that there is keeps the frame.
        let before = self.state.fetch_add(PIN, Ordering::Relaxed);
        assert!(before >= PIN, "a pinned frame");
    }

    /// Takes a pin off.
    #[inline]
    pub fn unpin(&self) {
        // Release: partner of the acquire in `take`: what was done to the page is done.
        let before = self.state.fetch_sub(PIN, Ordering::Release);
        assert!(before >= PIN, "a pin is taken off once");
    }

    /// Gives a free frame to a page, with a pin of the caller, who fills it, and `flags`.
    pub fn begin(&self, key: PageKey, flags: u32) {
        self.page.store(key.word(), Ordering::Relaxed);
        // Release: partner of the acquire in `try_pin` and `state`.
        self.state.store(PIN | flags, Ordering::Release);
    }

    /// Takes the frame if its page may go: clean, without pins, and nobody fills it.
    pub fn take(&self) -> bool {
        self.update(|state| may_go(state).then_some(state | TAKEN))
            .is_some()
    }

    /// Takes back a frame that was begun and did not get into the index.
    pub fn cancel(&self) {
        let alone = |state: u32| (pins(state) == 1).then_some(TAKEN);
        while self.update(alone).is_none() {
            // Somebody looks here for a page that has left, and leaves.
            spin();
        }
        self.empty();
    }

    /// Empties a taken frame: readers that are copying from it notice.
    pub fn empty(&self) {
        // Who has it found another page here than it looked for, and leaves.
        self.lock();
        self.page.store(NO_PAGE, Ordering::Relaxed);
        // Release: partner of the acquire in `state`.
        self.state.store(TAKEN, Ordering::Release);
        self.unlock();
    }

    /// Takes the word: nobody else changes the bytes, or marks them as dirty or in write-back.
    #[inline]
    pub fn lock(&self) {
        while !self.word.try_lock() {
            spin();
        }
    }

    /// Gives the word back.
    #[inline]
    pub fn unlock(&self) {
        self.word.unlock();
    }

    /// Copies bytes of the page of `key` by `copy`, if it is there; again if somebody has disturbed it.
    #[inline]
    pub fn read(&self, key: PageKey, mut copy: impl FnMut()) -> Copied {
        loop {
            let Some(version) = self.word.begin_read() else {
                spin();
                continue;
            };
            if self.page.load(Ordering::Relaxed) != key.word() {
                return Copied::Moved;
            }
            let state = self.state();
            if state & FILLED == 0 {
                return Copied::Unfilled;
            }
            copy();
            if self.word.end_read(version) {
                return Copied::Done(state);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Guards of a page that a program kept were counted in 22 bits and not looked at: with four
    /// million the count went over, and the page left its frame under all of them.
    #[test]
    fn a_page_with_too_many_guards_counted_none() {
        let word = FrameWord::free();
        word.begin(PageKey::new(0, 7), 0);
        word.change(FILLED, 0);
        let mut guards = 1;
        while takes_guards(word.state()) {
            word.pin_again();
            guards += 1;
        }
        assert_eq!(pins(word.state()), guards);
        // As many again are for those who hold a page for a moment.
        for _ in guards..2 * guards - 1 {
            assert!(word.try_pin(PageKey::new(0, 7)));
        }
        assert!(!word.take(), "a page with pins stays");
        assert_eq!(word.state() & TAKEN, 0, "no pin changed a flag");
        for _ in 0..2 * guards - 1 {
            word.unpin();
        }
        assert!(word.take());
    }
}
