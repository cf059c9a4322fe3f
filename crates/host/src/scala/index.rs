//! The Queue Index: which pages one client holds, and in which frames.
//!
//! Problem: a cache index that all cores share costs every hit a lock, or at least a shared line. A
//! client of ScalaCache asks the drive for a page only once: while it keeps the drive's reference,
//! it alone needs to know where the page is.
//!
//! Idea: an index for each client, that no other thread touches.
//!
//! 1. A *set* of slots for each firmware core of each drive: as many as the client has frames of that core.
//!    A page is only ever in the set of its core, so what the client holds of a core never exceeds its
//!    share, and no pin has to wait for another client.
//! 2. A slot is 16 bytes: its uses (local pins, flags for CLOCK) and, apart, its page. Slots of a set stand in
//!    CLOCK order.
//! 3. A table (`table.rs`) says the slot and the frame of a page, in one line.
//! 4. In front of it a small *translation cache*, direct-mapped, for pages used just before. What
//!    leaves the index leaves it too.
//! 5. Pins are counted when they begin and when they end, apart, so that the end of one does not
//!    wait for its beginning, nor the next beginning for the end: a page pinned again and again costs
//!    one chain of stores and loads and not two.
//!
//! Everything is a `Cell`: a look-up borrows nothing. (ScalaCache, section 5.3.)

use std::cell::Cell;

use wharf_runtime::prefetch;
use wharf_runtime::slab::{SlabError, ZeroedSlab};
use zerocopy::FromZeros;

pub use super::table::Place;
use super::table::Table;
use crate::kit::replacement::{Clock, Look, Policy, Victim};

/// Entries of the translation cache.
const RECENT: usize = 64;

/// The page of an entry of the translation cache without one. It is beyond every volume.
const NO_PAGE: u64 = u64::MAX;

/// Flags of a slot. It has a page, or is to have one.
const TAKEN: u32 = 1;
/// The page is not ready.
const BUSY: u32 = 1 << 1;
const ACCESSED: u32 = 1 << 2;
const DIRTY: u32 = 1 << 3;
/// A write guard of this client is alive on the page.
const GUARDED: u32 = 1 << 4;
/// The command that fetches the page has timed out.
const STUCK: u32 = 1 << 5;

/// Slots that are looked at for a clean page while a drive collects. A turn of the hand for every miss,
/// where most pages are dirty, would cost more than it saves, and forget which pages are in use.
const CLEAN_STEPS: u32 = 32;

/// Most slots of an index.
pub const SLOTS_MAX: u64 = u32::MAX as u64 - 1;

/// How a slot is used. All zeros is a slot without a page.
#[derive(FromZeros)]
struct Uses {
    flags: Cell<u32>,
    /// Local pins that began, modulo 65,536.
    pins_begun: Cell<u16>,
    /// Local pins that ended, modulo 65,536.
    pins_ended: Cell<u16>,
}

const _: () = assert!(size_of::<Uses>() == 8);

/// An entry of the translation cache.
struct Recent {
    page: Cell<u64>,
    place: Cell<Place>,
}

struct Set {
    first: u32,
    slots: u32,
    used: Cell<u32>,
    clock: Cell<Clock>,
    /// That which looks for clean pages alone.
    clean_clock: Cell<Clock>,
}

/// What the index knows of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It is here.
    Ready(Place),
    /// A command of this client is fetching it.
    Busy,
    /// The command that was to fetch it has timed out.
    Stuck,
    /// This client does not hold it.
    Absent,
}

/// A page that leaves the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// The page.
    pub page: u64,
    /// Whether this client has written to it.
    pub is_dirty: bool,
}

/// Where a missing page goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// Into this slot, which is busy now, in the place of another page or of none.
    In(u32, Option<Leaving>),
    /// CLOCK would take a slot that the request itself is filling: that comes first.
    Own,
    /// No slot of the set can be taken now; at least one is on its way.
    AllBusy,
    /// As before, but the commands for those on their way have timed out.
    AllStuck,
    /// Every slot of the set is pinned.
    AllPinned,
}

/// See the module.
pub struct QueueIndex {
    table: Table,
    uses: ZeroedSlab<Uses>,
    pages: ZeroedSlab<Cell<u64>>,
    recent: Box<[Recent; RECENT]>,
    sets: Box<[Set]>,
}

impl QueueIndex {
    /// An empty index with a set of each of these sizes, at least one slot in each.
    ///
    /// # Errors
    /// If there is no memory.
    ///
    /// # Panics
    /// If there are more than [`SLOTS_MAX`] slots, or a set without one.
    pub fn new(set_slots: &[u32]) -> Result<QueueIndex, SlabError> {
        let total: u64 = set_slots.iter().map(|&n| u64::from(n)).sum();
        assert!(total <= SLOTS_MAX, "{total} slots are too many");
        let mut first = 0;
        let set = |&slots: &u32| {
            assert!(slots > 0, "a set has a slot");
            first += slots;
            Set {
                first: first - slots,
                slots,
                used: Cell::new(0),
                clock: Cell::new(Clock::new(slots)),
                clean_clock: Cell::new(Clock::new(slots)),
            }
        };
        let none = Place { slot: 0, frame: 0 };
        let recent = |_| Recent {
            page: Cell::new(NO_PAGE),
            place: Cell::new(none),
        };
        Ok(QueueIndex {
            sets: set_slots.iter().map(set).collect(),
            uses: ZeroedSlab::new("the slots of a client", total as usize)?,
            pages: ZeroedSlab::new("the slots of a client", total as usize)?,
            table: Table::new(total)?,
            recent: Box::new(std::array::from_fn(recent)),
        })
    }

    /// Bytes that it takes when its table is full, with no two pages next to each other.
    pub fn bytes(&self) -> usize {
        size_of::<QueueIndex>()
            + size_of_val(&*self.uses)
            + size_of_val(&*self.pages)
            + self.table.bytes()
            + size_of_val(&*self.recent)
            + size_of_val(&*self.sets)
    }

    /// Number of slots.
    pub fn slots(&self) -> u32 {
        self.uses.len() as u32
    }

    /// Slots of a set.
    pub fn set_slots(&self, set: u32) -> u32 {
        self.sets[set as usize].slots
    }

    #[inline(always)]
    fn uses(&self, slot: u32) -> &Uses {
        &self.uses[slot as usize]
    }

    #[inline(always)]
    fn recent(&self, page: u64) -> &Recent {
        &self.recent[page as usize % RECENT]
    }

    /// Where a page is, if it is ready.
    #[inline(always)]
    pub fn find(&self, page: u64) -> Option<Place> {
        let recent = self.recent(page);
        if recent.page.get() == page {
            return Some(recent.place.get());
        }
        let place = self.table.find(page)?;
        recent.page.set(page);
        recent.place.set(place);
        Some(place)
    }

    /// Brings near the line of the table where the search for a page begins.
    #[inline]
    pub fn prefetch_line(&self, page: u64) {
        self.table.prefetch(page);
    }

    /// Where a page is, if it is ready; brings its slot near.
    #[inline]
    pub fn prefetch_slot(&self, page: u64) -> Option<Place> {
        let place = self.table.find(page)?;
        prefetch(self.uses(place.slot));
        Some(place)
    }

    /// What is known of a page.
    pub fn look_up(&self, page: u64) -> Found {
        match self.table.look_up(page) {
            None => Found::Absent,
            Some((slot, Some(frame))) => Found::Ready(Place { slot, frame }),
            Some((slot, None)) if self.has(slot, STUCK) => Found::Stuck,
            Some(_) => Found::Busy,
        }
    }

    /// The page that a slot has or is to have.
    #[inline]
    pub fn page_of(&self, slot: u32) -> u64 {
        self.pages[slot as usize].get()
    }

    #[inline(always)]
    fn has(&self, slot: u32, flag: u32) -> bool {
        self.uses(slot).flags.get() & flag != 0
    }

    /// Sets a flag. Most often it is set already, and then the line stays unchanged.
    #[inline(always)]
    fn set(&self, slot: u32, flag: u32) {
        let flags = &self.uses(slot).flags;
        if flags.get() & flag == 0 {
            flags.set(flags.get() | flag);
        }
    }

    #[inline(always)]
    fn clear(&self, slot: u32, flag: u32) {
        let flags = &self.uses(slot).flags;
        flags.set(flags.get() & !flag);
    }

    /// Notes a use for CLOCK.
    #[inline(always)]
    pub fn touch(&self, slot: u32) {
        self.set(slot, ACCESSED);
    }

    /// Notes a use and counts a local pin: the page stays until [`QueueIndex::unpin`].
    ///
    /// # Panics
    /// If the page has 65,535 pins.
    #[inline(always)]
    pub fn pin(&self, slot: u32) {
        let uses = self.uses(slot);
        let begun = uses.pins_begun.get().wrapping_add(1);
        assert!(
            begun != uses.pins_ended.get(),
            "a page has up to 65,535 pins"
        );
        uses.pins_begun.set(begun);
        self.touch(slot);
    }

    /// Gives a local pin back; true if it was the last.
    #[inline(always)]
    pub fn unpin(&self, slot: u32) -> bool {
        let uses = self.uses(slot);
        let (begun, ended) = (uses.pins_begun.get(), uses.pins_ended.get());
        debug_assert!(begun != ended, "only what is pinned is unpinned");
        uses.pins_ended.set(ended.wrapping_add(1));
        begun == ended.wrapping_add(1)
    }

    /// Local pins.
    pub fn pins(&self, slot: u32) -> u32 {
        let uses = self.uses(slot);
        u32::from(uses.pins_begun.get().wrapping_sub(uses.pins_ended.get()))
    }

    /// Notes a write.
    #[inline(always)]
    pub fn set_dirty(&self, slot: u32) {
        self.set(slot, DIRTY);
    }

    /// Whether this client has written to the page since it came.
    pub fn is_dirty(&self, slot: u32) -> bool {
        self.has(slot, DIRTY)
    }

    /// Whether a write guard of this client is alive on the page.
    #[inline(always)]
    pub fn is_guarded(&self, slot: u32) -> bool {
        self.has(slot, GUARDED)
    }

    /// Notes the birth or the end of a write guard.
    #[inline(always)]
    pub fn set_guarded(&self, slot: u32, is_guarded: bool) {
        match is_guarded {
            true => self.set(slot, GUARDED),
            false => self.clear(slot, GUARDED),
        }
    }

    /// Makes room for an absent page in its set, and notes that it is on its way. `own` tells the
    /// slots that the request itself is filling; with `clean_first`, a clean page leaves if some
    /// `CLEAN_STEPS` steps find one. Also gives the number of slots looked at.
    pub fn place(
        &self,
        set: u32,
        page: u64,
        clean_first: bool,
        own: impl Fn(u32) -> bool,
    ) -> (Placed, u32) {
        let set = &self.sets[set as usize];
        if set.used.get() < set.slots {
            let slot = set.first + set.used.get();
            set.used.set(set.used.get() + 1);
            self.begin(slot, page);
            return (Placed::In(slot, None), 0);
        }
        let mut steps = 0;
        if clean_first {
            let clean;
            (clean, steps) = self.next_clean(set);
            if let Some(slot) = clean {
                let leaving = self.vacate(slot);
                self.begin(slot, page);
                return (Placed::In(slot, leaving), steps);
            }
        }
        let (mut any_busy, mut any_stuck) = (false, false);
        let mut clock = set.clock.get();
        let (victim, looked) = clock.victim(|at| {
            let slot = set.first + at;
            let flags = self.uses(slot).flags.get();
            let is_busy = flags & BUSY != 0;
            let is_held = is_busy || self.pins(slot) > 0;
            let is_accessed = flags & ACCESSED != 0;
            if is_held && !is_accessed && own(slot) {
                return Look::Ends;
            }
            let is_stuck = flags & STUCK != 0;
            any_busy |= is_busy && !is_stuck;
            any_stuck |= is_stuck;
            if is_accessed {
                self.clear(slot, ACCESSED);
                return Look::Used(1);
            }
            if is_held { Look::Stays } else { Look::Goes }
        });
        set.clock.set(clock);
        if !clean_first && looked > 0 {
            set.clean_clock.set(clock);
        }
        let steps = steps + looked;
        match victim {
            Victim::Frame(at) => {
                let slot = set.first + at;
                let leaving = self.vacate(slot);
                self.begin(slot, page);
                return (Placed::In(slot, leaving), steps);
            }
            Victim::Ended => return (Placed::Own, steps),
            Victim::None => {}
        }
        let none = match (any_busy, any_stuck) {
            (true, _) => Placed::AllBusy,
            (false, true) => Placed::AllStuck,
            (false, false) => Placed::AllPinned,
        };
        (none, steps)
    }

    /// The next page that may leave without a write, by CLOCK over clean pages, and the slots looked at.
    /// Dirty pages keep their marks and their order: another hand is for them.
    fn next_clean(&self, set: &Set) -> (Option<u32>, u32) {
        let mut clock = set.clean_clock.get();
        let (victim, looked) = clock.search(CLEAN_STEPS.min(set.slots), |at| {
            let slot = set.first + at;
            let flags = self.uses(slot).flags.get();
            if flags & (BUSY | DIRTY) != 0 || self.pins(slot) > 0 {
                return Look::Stays;
            }
            if flags & ACCESSED == 0 {
                return Look::Goes;
            }
            self.clear(slot, ACCESSED);
            Look::Used(1)
        });
        set.clean_clock.set(clock);
        match victim {
            Victim::Frame(at) => (Some(set.first + at), looked),
            _ => (None, looked),
        }
    }

    fn begin(&self, slot: u32, page: u64) {
        debug_assert!(page < NO_PAGE, "a volume has fewer pages");
        self.uses(slot).flags.set(TAKEN | BUSY);
        self.pages[slot as usize].set(page);
        self.table.insert(page, slot);
    }

    /// The page of a slot that was placed is there, in `frame`.
    pub fn set_ready(&self, slot: u32, frame: u32) -> Place {
        self.table.set_frame(self.page_of(slot), frame);
        self.clear(slot, BUSY | STUCK);
        Place { slot, frame }
    }

    /// The command for a slot that was placed has timed out.
    pub fn set_stuck(&self, slot: u32) {
        self.set(slot, STUCK);
    }

    /// Takes a slot's page out of the index: it has not come, or it leaves.
    pub fn vacate(&self, slot: u32) -> Option<Leaving> {
        if !self.has(slot, TAKEN) {
            return None;
        }
        let (page, is_dirty) = (self.page_of(slot), self.is_dirty(slot));
        self.table.remove(page);
        if self.recent(page).page.get() == page {
            self.recent(page).page.set(NO_PAGE);
        }
        self.uses(slot).flags.set(0);
        Some(Leaving { page, is_dirty })
    }

    /// The slots whose pages are ready and not pinned.
    pub fn idle_slots(&self) -> impl Iterator<Item = u32> {
        (0..self.slots()).filter(|&slot| {
            let flags = self.uses(slot).flags.get();
            flags & (TAKEN | BUSY) == TAKEN && self.pins(slot) == 0
        })
    }

    /// Checks that table, slots and translation cache agree.
    ///
    /// # Panics
    /// If they do not.
    pub fn verify(&self) {
        let mut named = 0;
        for (page, slot) in self.table.iter() {
            assert!(self.has(slot, TAKEN), "slot {slot} is empty");
            assert_eq!(self.page_of(slot), page);
            let place = self.table.look_up(page).map(|(slot, _)| slot);
            assert_eq!(place, Some(slot), "page {page} is found");
            assert_eq!(self.table.find(page).is_none(), self.has(slot, BUSY));
            named += 1;
        }
        assert_eq!(
            named,
            (0..self.slots()).filter(|&s| self.has(s, TAKEN)).count()
        );
        for recent in self.recent.iter().filter(|r| r.page.get() != NO_PAGE) {
            assert_eq!(self.table.find(recent.page.get()), Some(recent.place.get()));
        }
    }
}

#[cfg(test)]
#[path = "index_test.rs"]
mod tests;
