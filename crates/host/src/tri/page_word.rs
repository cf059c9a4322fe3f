//! The word of a cached page: which page a place holds, whether it may be used, and by how many.
//!
//! Problem: one CPU owns a place of a cache and gives it to one page after the other; other CPUs want
//! to use a page that is there without asking the owner (TriCache's direct pin).
//!
//! Idea: page number, state and a count of *pins* are one word, so that one compare-and-swap sees all
//! of them. A place is empty, *busy* (its owner fills it or empties it), or open.
//!
//! 1. A user pins an open place that holds the page it wants ([`PageWord::try_pin`]). While the place
//!    is pinned the page stays.
//! 2. When the users are done, their pins are taken off ([`PageWord::unpin`]), saying whether they
//!    wrote.
//! 3. The owner takes an open place without pins ([`PageWord::try_take`]): from then on nobody
//!    else changes the word until it is opened again ([`PageWord::open`]).
//!
//! All zeros is an empty place.

use wharf_runtime::sync::{AtomicU64, Ordering};

/// Pages that a word can name are below two to the power of this.
pub const PAGE_BITS: u32 = 40;

/// Bits of the count of pins.
const PIN_BITS: u32 = 13;

/// Most pins of a place.
pub const PINS_MAX: u32 = (1 << PIN_BITS) - 1;

/// Pins from which on a user may not add one by itself: the rest is left to the owner.
const OWNERS_PINS: u32 = 1 << (PIN_BITS - 1);

const PAGE_MASK: u64 = (1 << PAGE_BITS) - 1;
const PRESENT: u64 = 1 << PAGE_BITS;
const BUSY: u64 = 1 << (PAGE_BITS + 1);
const DIRTY: u64 = 1 << (PAGE_BITS + 2);
const PIN_SHIFT: u32 = PAGE_BITS + 3;
const PIN: u64 = 1 << PIN_SHIFT;

const _: () = assert!(PIN_SHIFT + PIN_BITS <= 64);

/// What a word said at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageState(u64);

impl PageState {
    /// The page, if there is one.
    #[inline]
    pub fn page(self) -> Option<u64> {
        (self.0 & PRESENT != 0).then_some(self.0 & PAGE_MASK)
    }

    /// True if it holds `page`, busy or open.
    #[inline]
    pub fn holds(self, page: u64) -> bool {
        self.0 & (PRESENT | PAGE_MASK) == PRESENT | page
    }

    /// True while its owner fills or empties it.
    #[inline]
    pub fn is_busy(self) -> bool {
        self.0 & BUSY != 0
    }

    /// True if a user wrote to the page and took its pin off since the page was last clean.
    #[inline]
    pub fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// Number of pins.
    #[inline]
    pub fn pins(self) -> u32 {
        (self.0 >> PIN_SHIFT) as u32
    }
}

/// See the module.
#[derive(Debug)]
#[repr(transparent)]
pub struct PageWord(AtomicU64);

impl Default for PageWord {
    fn default() -> Self {
        PageWord::new()
    }
}

impl PageWord {
    /// An empty place.
    pub fn new() -> PageWord {
        PageWord(AtomicU64::new(0))
    }

    /// What the word says now.
    #[inline]
    pub fn state(&self) -> PageState {
        PageState(self.0.load(Ordering::Relaxed))
    }

    /// Pins the place if it is open and holds `page`; gives the pins there were before. May also
    /// refuse when there are very many pins: ask the owner then.
    #[inline]
    pub fn try_pin(&self, page: u64) -> Option<u32> {
        let may =
            |state: PageState| state.holds(page) && !state.is_busy() && state.pins() < OWNERS_PINS;
        // Acquire: partner of the release in `open`, which publishes what the place holds.
        let before = self.change(Ordering::Acquire, |state| {
            may(state).then_some(state.0 + PIN)
        });
        before.map(PageState::pins)
    }

    /// Takes a pin off, and notes that the page was written to if it was; gives the pins left.
    ///
    /// # Panics
    /// If there is no pin.
    #[inline]
    pub fn unpin(&self, wrote: bool) -> u32 {
        let dirty = if wrote { DIRTY } else { 0 };
        // Release: partner of the acquire in `try_take`.
        let before = self.change(Ordering::Release, |state| {
            assert!(state.pins() > 0, "only a pinned place is unpinned");
            Some((state.0 - PIN) | dirty)
        });
        before.map_or(0, |state| state.pins() - 1)
    }

    /// The owner adds a pin for a user. The place is open.
    ///
    /// # Panics
    /// If the place is not open, or has [`PINS_MAX`] pins.
    #[inline]
    pub fn pin(&self) {
        // Acquire: as in `try_pin`.
        self.change(Ordering::Acquire, |state| {
            assert!(state.page().is_some() && !state.is_busy() && state.pins() < PINS_MAX);
            Some(state.0 + PIN)
        });
    }

    /// The owner takes an open place without pins; gives what it said. It is busy then.
    #[inline]
    pub fn try_take(&self) -> Option<PageState> {
        let may =
            |state: PageState| state.page().is_some() && !state.is_busy() && state.pins() == 0;
        // Acquire: partner of the release in `unpin`: what users did with the page is done.
        self.change(Ordering::Acquire, |state| {
            may(state).then_some(state.0 | BUSY)
        })
    }

    /// The owner gives a place that is busy or empty to `page`; it is busy then, and clean.
    #[inline]
    pub fn assign(&self, page: u64) {
        debug_assert!(page <= PAGE_MASK, "a page below 2^{PAGE_BITS}");
        // Relaxed: nobody uses a busy place.
        self.0.store(PRESENT | BUSY | page, Ordering::Relaxed);
    }

    /// Opens a busy place with so many pins. What it holds must be there.
    #[inline]
    pub fn open(&self, pins: u32) {
        debug_assert!(self.state().is_busy() && pins <= PINS_MAX);
        let word = self.0.load(Ordering::Relaxed) & !BUSY;
        // Release: partner of the acquire in `try_pin`.
        self.0
            .store(word + u64::from(pins) * PIN, Ordering::Release);
    }

    /// The owner empties a busy place.
    #[inline]
    pub fn clear(&self) {
        debug_assert!(self.state().is_busy());
        self.0.store(0, Ordering::Relaxed);
    }

    /// Notes that the page is clean, or that it is dirty.
    #[inline]
    pub fn set_dirty(&self, dirty: bool) {
        // Relaxed: only the owner looks at the mark.
        match dirty {
            true => self.0.fetch_or(DIRTY, Ordering::Relaxed),
            false => self.0.fetch_and(!DIRTY, Ordering::Relaxed),
        };
    }

    /// Changes the word as `f` says, unless it says nothing; gives what it said before.
    #[inline]
    fn change(&self, success: Ordering, f: impl Fn(PageState) -> Option<u64>) -> Option<PageState> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let next = f(PageState(word))?;
            let swapped = self
                .0
                .compare_exchange_weak(word, next, success, Ordering::Relaxed);
            match swapped {
                Ok(_) => return Some(PageState(word)),
                Err(found) => word = found,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_place_goes_from_page_to_page() {
        let word = PageWord::new();
        assert!(word.state().page().is_none() && word.try_take().is_none());
        assert_eq!(word.try_pin(0), None);
        word.assign(7);
        assert_eq!(word.try_pin(7), None);
        word.open(1);
        assert_eq!((word.try_pin(7), word.try_pin(8)), (Some(1), None));
        assert!(word.try_take().is_none());
        assert_eq!((word.unpin(true), word.unpin(false)), (1, 0));
        let taken = word.try_take().unwrap();
        assert!(taken.is_dirty() && taken.holds(7) && word.try_pin(7).is_none());
        word.open(0);
        assert!(
            word.state().is_dirty(),
            "what is put back is as dirty as it was"
        );
        word.set_dirty(false);
        assert!(!word.try_take().unwrap().is_dirty());
        word.assign(PAGE_MASK);
        word.open(0);
        word.pin();
        assert_eq!(
            (word.state().page(), word.state().pins()),
            (Some(PAGE_MASK), 1)
        );
    }

    #[test]
    fn users_leave_pins_to_the_owner() {
        let word = PageWord::new();
        word.assign(1);
        word.open(OWNERS_PINS);
        assert_eq!(word.try_pin(1), None);
        word.pin();
        assert_eq!(word.state().pins(), OWNERS_PINS + 1);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use wharf_runtime::sync::{Arc, AtomicU32};

    /// A place; a relaxed atomic stands for its plain bytes.
    struct Place {
        word: PageWord,
        holds: AtomicU32,
    }

    impl Place {
        fn fill(&self, page: u32) {
            self.word.assign(page.into());
            self.holds.store(page, Ordering::Relaxed);
            self.word.open(0);
        }
    }

    fn place_of(page: u32) -> Arc<Place> {
        let place = Arc::new(Place {
            word: PageWord::new(),
            holds: AtomicU32::new(0),
        });
        place.fill(page);
        place
    }

    #[test]
    fn a_pinned_page_stays_and_is_the_one_that_was_asked_for() {
        loom::model(|| {
            let place = place_of(1);
            let users: Vec<_> = [1, 2]
                .map(|page| {
                    let place = place.clone();
                    loom::thread::spawn(move || {
                        if place.word.try_pin(page.into()).is_some() {
                            assert_eq!(place.holds.load(Ordering::Relaxed), page);
                            place.word.unpin(false);
                        }
                    })
                })
                .into();
            if place.word.try_take().is_some() {
                place.fill(2);
            }
            users.into_iter().for_each(|user| user.join().unwrap());
            assert_eq!(place.word.state().pins(), 0);
        });
    }

    #[test]
    fn the_owner_sees_what_was_written_under_a_pin() {
        loom::model(|| {
            let place = place_of(1);
            let user = {
                let place = place.clone();
                loom::thread::spawn(move || {
                    if place.word.try_pin(1).is_some() {
                        place.holds.store(9, Ordering::Relaxed);
                        place.word.unpin(true);
                    }
                })
            };
            if let Some(taken) = place.word.try_take() {
                let expected = if taken.is_dirty() { 9 } else { 1 };
                assert_eq!(place.holds.load(Ordering::Relaxed), expected);
                place.word.open(0);
            }
            user.join().unwrap();
        });
    }

    #[test]
    fn no_pin_is_lost() {
        loom::model(|| {
            let place = place_of(1);
            let users: Vec<_> = (0..2)
                .map(|_| {
                    let place = place.clone();
                    loom::thread::spawn(move || place.word.try_pin(1).is_some())
                })
                .collect();
            place.word.set_dirty(true);
            let pins = users.into_iter().map(|user| user.join().unwrap());
            assert_eq!(pins.filter(|&pinned| pinned).count(), 2);
            assert_eq!(place.word.state().pins(), 2);
            assert!(place.word.state().is_dirty());
        });
    }
}
