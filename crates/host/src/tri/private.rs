//! A client's private cache: the frames of pages that the client holds pinned.
//!
//! One for each manager, so that the pins of all clients never exceed the manager's frames. It holds
//! translations, not pages. Whatever page it holds is used again without a message or a shared
//! line; its own CLOCK chooses which page to let go when there is no place for another.
//!
//! A *place* is empty, *awaited* (its frame has been asked for; it bears the ticket of the request
//! then), or *held*. A place whose ticket is not closed is *used*, and not given to another page.

use wharf_runtime::page_index::{Index, hash_page};

use crate::kit::replacement::{Clock, Look, Policy, Victim};

/// The number of a place.
pub(super) type Place = u32;

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// Page number among the manager's, and the marks below.
    block: u64,
    /// Of a held place the frame, of an awaited one the ticket.
    value: u32,
}

const BLOCK_MASK: u64 = (1 << 40) - 1;
const PRESENT: u64 = 1 << 40;
const AWAITED: u64 = 1 << 41;
const REFERENCED: u64 = 1 << 42;
const WROTE: u64 = 1 << 43;
const USED: u64 = 1 << 44;

impl Entry {
    fn is(&self, mark: u64) -> bool {
        self.block & mark != 0
    }
}

/// A page that is let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Released {
    /// The page, among the manager's.
    pub(super) block: u64,
    /// Whether the client wrote to it.
    pub(super) wrote: bool,
}

/// What is known of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// It is held, in this frame.
    Held(Place, u32),
    /// It has been asked for under this ticket.
    Awaited(u32),
    /// Nothing.
    No,
}

/// See the module.
pub(super) struct Private {
    entries: Box<[Entry]>,
    index: Index,
    /// Places never used yet, or given back: taken before the hand moves.
    empty: Vec<Place>,
    clock: Clock,
    /// Places that are used.
    used: u32,
    /// Pages may stay when nobody uses them.
    keeps: bool,
}

impl Private {
    /// Room for `pages` pages that stay; with none, for one that does not.
    pub(super) fn new(pages: u32) -> Private {
        let places = pages.max(1);
        Private {
            entries: vec![Entry::default(); places as usize].into(),
            index: Index::new(places),
            empty: (0..places).rev().collect(),
            clock: Clock::new(places),
            used: 0,
            keeps: pages > 0,
        }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.entries) + self.index.bytes() + self.empty.capacity() * 4
    }

    /// Looks a page up, and marks it as used.
    #[inline]
    pub(super) fn find(&mut self, block: u64) -> Known {
        let entries = &mut self.entries;
        let is_page =
            |at: u32| entries[at as usize].block & (PRESENT | BLOCK_MASK) == PRESENT | block;
        let Some(place) = self.index.find(block, hash_page(block), is_page) else {
            return Known::No;
        };
        let entry = &mut entries[place as usize];
        if !entry.is(REFERENCED) {
            entry.block |= REFERENCED;
        }
        match entry.is(AWAITED) {
            false => Known::Held(place, entry.value),
            true => Known::Awaited(entry.value),
        }
    }

    /// The client writes to a page that it holds.
    #[inline]
    pub(super) fn set_wrote(&mut self, place: Place) {
        let entry = &mut self.entries[place as usize];
        if !entry.is(WROTE) {
            entry.block |= WROTE;
        }
    }

    /// Makes room for another page: gives the place, the page that must go for it, and how far the
    /// hand went. `None` if every place is used.
    pub(super) fn make_room(&mut self) -> Option<(Place, Option<Released>, u32)> {
        if let Some(place) = self.empty.pop() {
            return Some((place, None, 0));
        }
        if !self.has_room() {
            return None;
        }
        let entries = &mut self.entries;
        let (victim, steps) = self.clock.victim(|place| {
            let entry = &mut entries[place as usize];
            if entry.is(USED) {
                return Look::Stays;
            }
            if entry.is(REFERENCED) {
                entry.block &= !REFERENCED;
                return Look::Used(1);
            }
            Look::Goes
        });
        let Victim::Frame(place) = victim else {
            unreachable!("a place that is not used is found in two rounds")
        };
        Some((place, Some(self.take_out(place)), steps))
    }

    /// Whether there is a place that is not used.
    pub(super) fn has_room(&self) -> bool {
        (self.used as usize) < self.entries.len()
    }

    /// Puts a page into a place: held in a frame.
    pub(super) fn hold(&mut self, place: Place, block: u64, frame: u32) {
        self.enter(place, block, frame);
    }

    /// Puts a page into a place: awaited under a ticket, and used until the ticket is closed.
    pub(super) fn await_frame(&mut self, place: Place, block: u64, ticket: u32) {
        self.enter(place, block | AWAITED | USED, ticket);
        self.used += 1;
    }

    fn enter(&mut self, place: Place, block: u64, value: u32) {
        self.entries[place as usize] = Entry {
            block: block | PRESENT,
            value,
        };
        let block = block & BLOCK_MASK;
        self.index.insert(block, hash_page(block), place);
    }

    /// The awaited frame is there.
    pub(super) fn set_held(&mut self, place: Place, frame: u32) {
        let entry = &mut self.entries[place as usize];
        debug_assert!(entry.is(AWAITED));
        entry.block &= !AWAITED;
        entry.value = frame;
    }

    /// The ticket is closed. Gives the page if it must be let go.
    pub(super) fn close(&mut self, place: Place) -> Option<Released> {
        let entry = &mut self.entries[place as usize];
        debug_assert!(entry.is(USED) && !entry.is(AWAITED));
        entry.block &= !USED;
        self.used -= 1;
        self.pass_by(place)
    }

    /// The page does not come: its place is empty.
    pub(super) fn forget(&mut self, place: Place) {
        debug_assert!(self.entries[place as usize].is(USED));
        self.used -= 1;
        self.let_go(place);
    }

    /// Nobody uses the page now: lets it go where pages do not stay.
    pub(super) fn pass_by(&mut self, place: Place) -> Option<Released> {
        (!self.keeps).then(|| self.let_go(place))
    }

    fn let_go(&mut self, place: Place) -> Released {
        let released = self.take_out(place);
        self.empty.push(place);
        released
    }

    fn take_out(&mut self, place: Place) -> Released {
        let entry = std::mem::take(&mut self.entries[place as usize]);
        let block = entry.block & BLOCK_MASK;
        let entries = &self.entries;
        self.index.remove(block, hash_page(block), place, |at| {
            entries[at as usize].block & BLOCK_MASK
        });
        Released {
            block,
            wrote: entry.is(WROTE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_stay_until_the_hand_has_passed_them_twice() {
        let mut private = Private::new(2);
        for block in [10, 11] {
            let (place, gone, _) = private.make_room().unwrap();
            assert_eq!(gone, None);
            private.hold(place, block, block as u32 + 100);
        }
        assert!(matches!(private.find(10), Known::Held(_, 110)));
        let (place, gone, steps) = private.make_room().unwrap();
        let eleven = Released {
            block: 11,
            wrote: false,
        };
        assert_eq!((gone, steps), (Some(eleven), 2));
        private.hold(place, 12, 112);
        assert_eq!(private.find(11), Known::No);
        assert!(matches!(private.find(10), Known::Held(..)));
    }

    #[test]
    fn used_places_stay() {
        let mut private = Private::new(1);
        let (place, ..) = private.make_room().unwrap();
        private.await_frame(place, 5, 77);
        assert_eq!(private.find(5), Known::Awaited(77));
        assert!(private.make_room().is_none());
        private.set_held(place, 3);
        private.set_wrote(place);
        assert!(private.make_room().is_none());
        assert_eq!(private.close(place), None);
        assert_eq!(private.find(5), Known::Held(place, 3));
        let gone = private.make_room().unwrap().1.unwrap();
        assert!(gone.wrote && gone.block == 5);
    }

    #[test]
    fn without_room_to_keep_pages_each_goes_when_it_has_been_used() {
        let mut private = Private::new(0);
        let (place, ..) = private.make_room().unwrap();
        private.await_frame(place, 5, 1);
        private.set_held(place, 3);
        assert_eq!(private.close(place).map(|gone| gone.block), Some(5));
        assert_eq!(private.find(5), Known::No);
        let (place, ..) = private.make_room().unwrap();
        private.await_frame(place, 6, 2);
        private.forget(place);
        assert_eq!(private.find(6), Known::No);
        assert!(private.make_room().is_some());
    }
}
