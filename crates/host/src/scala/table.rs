//! From a page to its slot and its frame: one cache line for a look-up.
//!
//! Problem: over gigabytes of cached pages every line that a hit waits for is a miss of the caches and of
//! the TLB, and what waits for the look-up (the frame, its word, the slot) cannot even begin.
//!
//! Idea: neighbours share a line, and the line says all that the hit needs to go on.
//!
//! 1. Seven pages that follow one another are a *group*: a line with the group's number, and slot and
//!    frame of each page.
//! 2. Groups are in a table with open addressing, by a hash of their number; a third of it is used
//!    where all groups are whole.
//! 3. If pages stand alone there are more groups. Beyond two thirds the table doubles: its mapping has
//!    room for a group for each page, and takes memory only as far as the table has come.
//!
//! A page that is on its way has a slot and no frame. All zeros is an empty table.

use std::cell::Cell;

use wharf_runtime::slab::{SlabError, ZeroedSlab};
use zerocopy::FromZeros;

/// Pages of a group.
const GROUP_PAGES: u64 = 7;

/// Where a page is that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its slot in the index.
    pub slot: u32,
    /// Its frame on the page's drive.
    pub frame: u32,
}

/// One page of a group: numbers above zero, or zero for none.
#[derive(FromZeros, Clone)]
struct Entry {
    slot_above: Cell<u32>,
    frame_above: Cell<u32>,
}

#[derive(FromZeros)]
#[repr(C, align(64))]
struct Group {
    number_above: Cell<u64>,
    entries: [Entry; GROUP_PAGES as usize],
}

const _: () = assert!(size_of::<Group>() == 64);

impl Entry {
    #[inline(always)]
    fn place(&self) -> Option<Place> {
        let frame = self.frame_above.get().checked_sub(1)?;
        Some(Place {
            slot: self.slot_above.get() - 1,
            frame,
        })
    }
}

impl Group {
    #[inline(always)]
    fn is_free(&self) -> bool {
        self.number_above.get() == 0
    }

    /// Takes over what `other` has, and leaves it free.
    fn take(&self, other: &Group) {
        self.number_above.set(other.number_above.replace(0));
        for (entry, other) in self.entries.iter().zip(&other.entries) {
            entry.slot_above.set(other.slot_above.replace(0));
            entry.frame_above.set(other.frame_above.replace(0));
        }
    }
}

/// Number of a page's group, and the page's place in it.
#[inline(always)]
fn parts(page: u64) -> (u64, usize) {
    (page / GROUP_PAGES, (page % GROUP_PAGES) as usize)
}

/// See the module.
pub(super) struct Table {
    lines: ZeroedSlab<Group>,
    /// Lines in use, from the first on.
    len: Cell<usize>,
    /// Groups in them.
    groups: Cell<usize>,
}

impl Table {
    /// An empty table for `pages` pages.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn new(pages: u64) -> Result<Table, SlabError> {
        let lines =
            |groups: u64, per_group: (u64, u64)| (groups * per_group.0 / per_group.1) as usize + 8;
        Ok(Table {
            lines: ZeroedSlab::new("the index of a client", lines(pages, (3, 2)))?,
            len: Cell::new(lines(pages / GROUP_PAGES, (3, 1))),
            groups: Cell::new(0),
        })
    }

    /// Bytes that it takes when it is full, with no two pages in a group.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Where the search for a group begins.
    #[inline(always)]
    fn home(&self, group: u64) -> usize {
        // Fibonacci hashing; the product of hash and size, shifted, is a number below the size.
        let hash = group.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((hash * self.len.get() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.len.get() { 0 } else { at + 1 }
    }

    /// Where the page is, if it can be used.
    #[inline(always)]
    pub(super) fn find(&self, page: u64) -> Option<Place> {
        let (group, within) = parts(page);
        let home = self.home(group);
        let line = &self.lines[home];
        if line.number_above.get() == group + 1 {
            return line.entries[within].place();
        }
        if line.is_free() {
            return None;
        }
        self.entry_from(home, page)?.place()
    }

    /// The page's slot, and its frame if it can be used.
    pub(super) fn look_up(&self, page: u64) -> Option<(u32, Option<u32>)> {
        let entry = self.entry_from(self.home(parts(page).0), page)?;
        let slot = entry.slot_above.get().checked_sub(1)?;
        Some((slot, entry.frame_above.get().checked_sub(1)))
    }

    /// The entry of a page whose group has one, searched from line `at` on.
    fn entry_from(&self, at: usize, page: u64) -> Option<&Entry> {
        let (group, within) = parts(page);
        let at = self.position(at, group)?;
        Some(&self.lines[at].entries[within])
    }

    fn position(&self, mut at: usize, group: u64) -> Option<usize> {
        loop {
            let line = &self.lines[at];
            if line.number_above.get() == group + 1 {
                return Some(at);
            }
            if line.is_free() {
                return None;
            }
            at = self.after(at);
        }
    }

    /// Gives a page that the table does not have a slot. It has no frame yet.
    pub(super) fn insert(&self, page: u64, slot: u32) {
        let (group, within) = parts(page);
        let line = self.line_for(group);
        if line.is_free() {
            line.number_above.set(group + 1);
            self.groups.set(self.groups.get() + 1);
        }
        let entry = &line.entries[within];
        debug_assert!(entry.slot_above.get() == 0, "page {page} has a slot");
        entry.slot_above.set(slot + 1);
        if self.groups.get() > self.len.get() / 3 * 2 && self.len.get() < self.lines.len() {
            self.grow();
        }
    }

    /// The line of a group, or the free one where it belongs.
    fn line_for(&self, group: u64) -> &Group {
        let mut at = self.home(group);
        loop {
            let line = &self.lines[at];
            if line.is_free() || line.number_above.get() == group + 1 {
                return line;
            }
            at = self.after(at);
        }
    }

    /// Doubles the table, as far as its mapping goes.
    #[cold]
    fn grow(&self) {
        let taken = |line: &Group| {
            let all = Group::new_zeroed();
            all.take(line);
            all
        };
        let in_use = &self.lines[..self.len.get()];
        let all: Vec<Group> = in_use
            .iter()
            .filter(|line| !line.is_free())
            .map(taken)
            .collect();
        self.len.set((self.len.get() * 2).min(self.lines.len()));
        for group in &all {
            self.line_for(group.number_above.get() - 1).take(group);
        }
    }

    /// Gives a page that has a slot its frame.
    pub(super) fn set_frame(&self, page: u64, frame: u32) {
        let entry = self.entry_from(self.home(parts(page).0), page);
        let entry = entry.expect("the page is in the table");
        entry.frame_above.set(frame + 1);
    }

    /// Takes a page out of the table.
    pub(super) fn remove(&self, page: u64) {
        let (group, within) = parts(page);
        let at = self.position(self.home(group), group);
        let at = at.expect("the page is in the table");
        let line = &self.lines[at];
        line.entries[within].slot_above.set(0);
        line.entries[within].frame_above.set(0);
        if line.entries.iter().all(|entry| entry.slot_above.get() == 0) {
            line.number_above.set(0);
            self.groups.set(self.groups.get() - 1);
            self.close(at);
        }
    }

    /// Moves later groups of the run up to the free line `hole`, so that none is cut off.
    fn close(&self, mut hole: usize) {
        let mut at = hole;
        loop {
            at = self.after(at);
            let line = &self.lines[at];
            if line.is_free() {
                return;
            }
            let home = self.home(line.number_above.get() - 1);
            // The group may move to the hole unless its home lies behind the hole.
            let stays = if hole <= at {
                hole < home && home <= at
            } else {
                hole < home || home <= at
            };
            if !stays {
                self.lines[hole].take(line);
                hole = at;
            }
        }
    }

    /// All pages with a slot, with that slot.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u32)> {
        let lines = self.lines[..self.len.get()]
            .iter()
            .filter(|line| !line.is_free());
        lines.flat_map(|line| {
            let first = (line.number_above.get() - 1) * GROUP_PAGES;
            let pages = (first..).zip(&line.entries);
            pages.filter_map(|(page, entry)| Some((page, entry.slot_above.get().checked_sub(1)?)))
        })
    }
}
