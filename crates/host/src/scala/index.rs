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
//! 2. A slot is 16 bytes: page, frame, local pins, flags. Slots of a set stand in CLOCK order.
//! 3. A table from page to slot with open addressing and 8 bytes an entry, a quarter of which stay free.
//! 4. In front of it a *translation cache*, direct-mapped, from page to slot. An entry is never
//!    made invalid: the slot itself says which page it has.
//!
//! Everything is a `Cell`: a look-up borrows nothing. (ScalaCache, section 5.3.)

use std::cell::Cell;

use wharf_runtime::prefetch;

/// Entries of the translation cache.
const RECENT: usize = 1024;

/// Marks the key of a slot whose page is not ready.
const BUSY: u64 = 1 << 63;

/// The key of a slot without a page. Its page is beyond every volume.
const EMPTY: u64 = u64::MAX;

/// Bits of a slot's state that count local pins.
const PINS: u32 = 0xffff;
const ACCESSED: u32 = 1 << 16;
const DIRTY: u32 = 1 << 17;
/// A write guard of this client is alive on the page.
const GUARDED: u32 = 1 << 18;
/// The command that fetches the page has timed out.
const STUCK: u32 = 1 << 19;

/// A free entry of the table.
const FREE: u64 = u64::MAX;

/// Most slots of an index.
pub const SLOTS_MAX: u64 = u32::MAX as u64 - 1;

struct Slot {
    /// Page of the volume, [`BUSY`] while it is not ready; or [`EMPTY`].
    key: Cell<u64>,
    frame: Cell<u32>,
    state: Cell<u32>,
}

const _: () = assert!(size_of::<Slot>() == 16);

struct Set {
    first: u32,
    slots: u32,
    used: Cell<u32>,
    hand: Cell<u32>,
}

/// What the index knows of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It is in this slot.
    Ready(u32),
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
    slots: Box<[Slot]>,
    /// Page (its low 32 bits) above slot.
    table: Box<[Cell<u64>]>,
    recent: Box<[Cell<u32>; RECENT]>,
    sets: Box<[Set]>,
}

impl QueueIndex {
    /// An empty index with a set of each of these sizes, at least one slot in each.
    ///
    /// # Panics
    /// If there are more than [`SLOTS_MAX`] slots, or a set without one.
    pub fn new(set_slots: &[u32]) -> QueueIndex {
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
                hand: Cell::new(0),
            }
        };
        let slot = |_| Slot {
            key: Cell::new(EMPTY),
            frame: Cell::new(0),
            state: Cell::new(0),
        };
        QueueIndex {
            sets: set_slots.iter().map(set).collect(),
            slots: (0..total).map(slot).collect(),
            table: (0..total * 4 / 3 + 1).map(|_| Cell::new(FREE)).collect(),
            recent: Box::new([const { Cell::new(0) }; RECENT]),
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        size_of::<QueueIndex>()
            + size_of_val(&*self.slots)
            + size_of_val(&*self.table)
            + size_of_val(&*self.recent)
            + size_of_val(&*self.sets)
    }

    /// Number of slots.
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Slots of a set.
    pub fn set_slots(&self, set: u32) -> u32 {
        self.sets[set as usize].slots
    }

    #[inline(always)]
    fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    /// The slot of a page that is ready.
    #[inline(always)]
    pub fn find(&self, page: u64) -> Option<u32> {
        let recent = &self.recent[page as usize % RECENT];
        let slot = recent.get();
        if self.slot(slot).key.get() == page {
            return Some(slot);
        }
        self.find_again(page, recent)
    }

    /// As [`QueueIndex::find`], for a page that the translation cache does not have.
    #[inline]
    fn find_again(&self, page: u64, recent: &Cell<u32>) -> Option<u32> {
        let slot = self.find_in_table(page)?;
        recent.set(slot);
        (self.slot(slot).key.get() == page).then_some(slot)
    }

    /// Brings near the entry of the table where the search for a page begins.
    #[inline]
    pub fn prefetch_entry(&self, page: u64) {
        prefetch(&self.table[self.home(page)]);
    }

    /// The slot that a page is in if it is in any: the table alone is looked at.
    #[inline]
    pub fn likely_slot(&self, page: u64) -> Option<u32> {
        let mut at = self.home(page);
        loop {
            let entry = self.table[at].get();
            if entry == FREE {
                return None;
            }
            if (entry >> 32) as u32 == page as u32 {
                return Some(entry as u32);
            }
            at = self.after(at);
        }
    }

    /// Brings a slot near.
    #[inline]
    pub fn prefetch_slot(&self, slot: u32) {
        prefetch(self.slot(slot));
    }

    /// Has the translation cache name a page's [likely slot](QueueIndex::likely_slot): the next search
    /// looks there first, and not at a slot that nobody has brought near.
    #[inline]
    pub fn expect(&self, page: u64, slot: u32) {
        self.recent[page as usize % RECENT].set(slot);
    }

    /// What is known of a page.
    pub fn look_up(&self, page: u64) -> Found {
        match self.find_in_table(page) {
            None => Found::Absent,
            Some(slot) if self.slot(slot).key.get() == page => Found::Ready(slot),
            Some(slot) if self.slot(slot).state.get() & STUCK != 0 => Found::Stuck,
            Some(_) => Found::Busy,
        }
    }

    /// Where a page's search in the table begins.
    #[inline(always)]
    fn home(&self, page: u64) -> usize {
        // Fibonacci hashing; the product of hash and size, shifted, is a number below the size.
        let hash = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((hash * self.table.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.table.len() {
            0
        } else {
            at + 1
        }
    }

    /// The entry of the table that names the page, and the slot it names.
    #[inline]
    fn entry(&self, page: u64) -> Option<(usize, u32)> {
        let mut at = self.home(page);
        loop {
            let entry = self.table[at].get();
            if entry == FREE {
                return None;
            }
            let slot = entry as u32;
            if (entry >> 32) as u32 == page as u32 && self.page_of(slot) == page {
                return Some((at, slot));
            }
            at = self.after(at);
        }
    }

    #[inline]
    fn find_in_table(&self, page: u64) -> Option<u32> {
        self.entry(page).map(|(_, slot)| slot)
    }

    fn insert(&self, page: u64, slot: u32) {
        let mut at = self.home(page);
        while self.table[at].get() != FREE {
            at = self.after(at);
        }
        self.table[at].set((page & 0xffff_ffff) << 32 | u64::from(slot));
    }

    /// Takes a page out of the table. Later entries of its run move up, so that none is cut off.
    fn remove(&self, page: u64) {
        let (mut hole, _) = self.entry(page).expect("the page is in the table");
        let mut at = hole;
        loop {
            at = self.after(at);
            let entry = self.table[at].get();
            if entry == FREE {
                break;
            }
            let home = self.home(self.page_of(entry as u32));
            // The entry may move to the hole unless its home lies behind the hole.
            let stays = if hole <= at {
                hole < home && home <= at
            } else {
                hole < home || home <= at
            };
            if !stays {
                self.table[hole].set(entry);
                hole = at;
            }
        }
        self.table[hole].set(FREE);
    }

    /// The page that a slot has or is to have.
    #[inline(always)]
    pub fn page_of(&self, slot: u32) -> u64 {
        self.slot(slot).key.get() & !BUSY
    }

    /// The frame of a ready slot.
    #[inline(always)]
    pub fn frame(&self, slot: u32) -> u32 {
        self.slot(slot).frame.get()
    }

    #[inline(always)]
    fn change(&self, slot: u32, f: impl FnOnce(u32) -> u32) {
        let state = &self.slot(slot).state;
        state.set(f(state.get()));
    }

    /// Notes a use for CLOCK.
    #[inline(always)]
    pub fn touch(&self, slot: u32) {
        self.change(slot, |state| state | ACCESSED);
    }

    /// Notes a use and counts a local pin: the page stays until [`QueueIndex::unpin`].
    ///
    /// # Panics
    /// If the page has 65,535 pins.
    #[inline(always)]
    pub fn pin(&self, slot: u32) {
        self.change(slot, |state| {
            assert!(state & PINS < PINS, "a page has up to 65,535 pins");
            (state + 1) | ACCESSED
        });
    }

    /// Gives a local pin back; true if it was the last.
    #[inline(always)]
    pub fn unpin(&self, slot: u32) -> bool {
        self.change(slot, |state| {
            debug_assert!(state & PINS > 0, "only what is pinned is unpinned");
            state - 1
        });
        self.slot(slot).state.get() & PINS == 0
    }

    /// Local pins.
    pub fn pins(&self, slot: u32) -> u32 {
        self.slot(slot).state.get() & PINS
    }

    /// Notes a write.
    #[inline(always)]
    pub fn set_dirty(&self, slot: u32) {
        self.change(slot, |state| state | DIRTY);
    }

    /// Whether this client has written to the page since it came.
    pub fn is_dirty(&self, slot: u32) -> bool {
        self.slot(slot).state.get() & DIRTY != 0
    }

    /// Whether a write guard of this client is alive on the page.
    #[inline(always)]
    pub fn is_guarded(&self, slot: u32) -> bool {
        self.slot(slot).state.get() & GUARDED != 0
    }

    /// Notes the birth or the end of a write guard.
    #[inline(always)]
    pub fn set_guarded(&self, slot: u32, is_guarded: bool) {
        let bit = if is_guarded { GUARDED } else { 0 };
        self.change(slot, |state| state & !GUARDED | bit);
    }

    /// Makes room for an absent page in its set, and notes that it is on its way. `own` tells the
    /// slots that the request itself is filling; with `clean_first`, dirty pages leave only if a
    /// whole turn of the hand finds no clean one. Also gives the number of slots looked at.
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
        let (mut any_busy, mut any_stuck) = (false, false);
        // After one turn no slot is marked as accessed; after two, none can be taken.
        for step in 0..2 * set.slots {
            let slot = set.first + set.hand.get();
            let (key, state) = (self.slot(slot).key.get(), self.slot(slot).state.get());
            let is_empty = key == EMPTY;
            let is_busy = !is_empty && key & BUSY != 0;
            let is_held = is_busy || state & PINS > 0;
            let is_accessed = state & ACCESSED != 0;
            if is_held && !is_accessed && own(slot) {
                return (Placed::Own, step);
            }
            let is_stuck = state & STUCK != 0;
            any_busy |= is_busy && !is_stuck;
            any_stuck |= is_stuck;
            let may_leave = !(state & DIRTY != 0 && clean_first && step < set.slots);
            set.hand.set((set.hand.get() + 1) % set.slots);
            if is_accessed {
                self.change(slot, |state| state & !ACCESSED);
            } else if !is_held && may_leave {
                let leaving = self.vacate(slot);
                self.begin(slot, page);
                return (Placed::In(slot, leaving), step + 1);
            }
        }
        let none = match (any_busy, any_stuck) {
            (true, _) => Placed::AllBusy,
            (false, true) => Placed::AllStuck,
            (false, false) => Placed::AllPinned,
        };
        (none, 2 * set.slots)
    }

    fn begin(&self, slot: u32, page: u64) {
        debug_assert!(page < BUSY - 1, "pages are numbered far below 2^63");
        self.slot(slot).key.set(page | BUSY);
        self.slot(slot).state.set(0);
        self.insert(page, slot);
    }

    /// The page of a slot that was placed is there, in `frame`.
    pub fn set_ready(&self, slot: u32, frame: u32) {
        let this = self.slot(slot);
        this.key.set(this.key.get() & !BUSY);
        this.frame.set(frame);
        self.change(slot, |state| state & !STUCK);
    }

    /// The command for a slot that was placed has timed out.
    pub fn set_stuck(&self, slot: u32) {
        self.change(slot, |state| state | STUCK);
    }

    /// Takes a slot's page out of the index: it has not come, or it leaves.
    pub fn vacate(&self, slot: u32) -> Option<Leaving> {
        let page = self.page_of(slot);
        let is_dirty = self.is_dirty(slot);
        if self.slot(slot).key.get() == EMPTY {
            return None;
        }
        self.remove(page);
        self.slot(slot).key.set(EMPTY);
        self.slot(slot).state.set(0);
        Some(Leaving { page, is_dirty })
    }

    /// The slots whose pages are ready and not pinned.
    pub fn idle_slots(&self) -> impl Iterator<Item = u32> {
        (0..self.slots()).filter(|&slot| {
            let key = self.slot(slot).key.get();
            key & BUSY == 0 && self.pins(slot) == 0
        })
    }

    /// Checks that table and slots agree.
    ///
    /// # Panics
    /// If they do not.
    pub fn verify(&self) {
        let mut named = 0;
        for entry in self.table.iter().map(Cell::get).filter(|&e| e != FREE) {
            let slot = entry as u32;
            assert!(self.slot(slot).key.get() != EMPTY, "slot {slot} is empty");
            assert_eq!(self.find_in_table(self.page_of(slot)), Some(slot));
            named += 1;
        }
        let has_page = |slot: &&Slot| slot.key.get() != EMPTY;
        assert_eq!(named, self.slots.iter().filter(has_page).count());
    }
}

#[cfg(test)]
#[path = "index_test.rs"]
mod tests;
