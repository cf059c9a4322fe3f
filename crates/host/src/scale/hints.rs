//! What a program's thread remembers of where pages are: the frames of some thousand that it used.
//!
//! Problem: a look-up in the index pins an epoch, and the fence in that keeps the processor from beginning an access
//! before the last one has ended, whose data it may have waited for. A hit of some bytes takes most of its time so.
//!
//! Idea: frames are never freed, and a frame says itself which page it holds. So a thread looks into the frame where
//! the page was last, and goes to the index if the page is not there.
//!
//! A hint may be as old as it likes. Before a page leaves the index its frame is marked as taken, and it is emptied only
//! afterwards; in between the page may be in another frame already, with newer bytes. So who comes by a hint does not
//! believe a [taken](crate::scale::frame::TAKEN) frame. A look-up by the index that is overtaken so began before those
//! bytes were written.

use std::cell::{Cell, OnceCell};

use crate::key::PageKey;

/// Most hints of a thread: 64 KiB, which caches near a processor hold.
const HINTS_MAX: u32 = 8192;

/// Bits of a page's mark. The lowest of them are its place.
const MARK_BITS: u32 = 32;

/// No page in no frame: a mark that pages may have, with a frame that none has.
const NOTHING: u64 = u64::MAX;

/// See the module.
pub(super) struct Hints {
    /// Places that there will be: a power of two.
    count: u32,
    /// In each place a page's mark and its frame; none before the first use.
    places: OnceCell<Box<[Cell<u64>]>>,
}

impl Hints {
    /// None yet, for a cache of `frames` frames.
    pub fn new(frames: u32) -> Hints {
        Hints {
            count: frames.clamp(1, HINTS_MAX).next_power_of_two(),
            places: OnceCell::new(),
        }
    }

    /// The frame in which the page was last, if that is known.
    #[inline(always)]
    pub fn find(&self, key: PageKey) -> Option<u32> {
        let places = self.places.get()?;
        let (place, mark) = place_of(key, places.len());
        let word = places[place].get();
        (word >> MARK_BITS == mark && word != NOTHING).then_some(word as u32)
    }

    /// The page is in this frame.
    pub fn note(&self, key: PageKey, frame: u32) {
        let none = || (0..self.count).map(|_| Cell::new(NOTHING)).collect();
        let places = self.places.get_or_init(none);
        let (place, mark) = place_of(key, places.len());
        places[place].set(mark << MARK_BITS | u64::from(frame));
    }

    /// The page is no longer where it was.
    #[cold]
    pub fn forget(&self, key: PageKey) {
        if let Some(places) = self.places.get() {
            places[place_of(key, places.len()).0].set(NOTHING);
        }
    }
}

/// The place of a page among `places`, a power of two, and its mark. Pages that follow one another have
/// places of their own.
#[inline(always)]
fn place_of(key: PageKey, places: usize) -> (usize, u64) {
    // Files' first pages are not to meet.
    let hash = key.page() ^ u64::from(key.file()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash as usize & (places - 1), hash % (1 << MARK_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_where_it_was_noted_until_another_takes_its_place() {
        let hints = Hints::new(16);
        let key = |page| PageKey::new(3, page);
        assert_eq!(hints.find(key(5)), None);
        (0..16).for_each(|page| hints.note(key(page), 100 + page as u32));
        for page in 0..16 {
            assert_eq!(hints.find(key(page)), Some(100 + page as u32));
            assert_eq!(
                hints.find(key(page + (1 << 13))),
                None,
                "another page's mark"
            );
        }
        hints.note(key(5 + 16), 7);
        assert_eq!(hints.find(key(5 + 16)), Some(7));
        hints.forget(key(4));
        assert_eq!(hints.find(key(4)), None);
    }

    #[test]
    fn files_of_equal_length_share_no_places_in_order() {
        let hints = Hints::new(HINTS_MAX);
        let keys = [PageKey::new(1, 0), PageKey::new(2, 0)];
        for (frame, key) in (0..).zip(keys) {
            hints.note(key, frame);
        }
        assert_eq!(keys.map(|key| hints.find(key)), [Some(0), Some(1)]);
    }
}
