//! Which files the cache of a process has pages of: a place for each, by its number.
//!
//! A file keeps its place when nobody has it open any more, and its pages with it, until another file needs the place: that of the one that was
//! closed first. One that was closed while it had dirty pages *lingers*: the drive's open file stays until they are written.

use std::collections::{BTreeMap, VecDeque};

/// See the module.
pub(super) struct Table {
    by_number: BTreeMap<u64, u32>,
    places: Box<[Place]>,
    free: Vec<u32>,
    /// Those that nobody has open, the first closed first.
    closed: VecDeque<u32>,
    /// Those that were closed with dirty pages, perhaps opened again.
    lingering: VecDeque<u32>,
    /// How often the cache stopped knowing more of a file than the drive.
    given_up: u64,
}

#[derive(Default)]
struct Place {
    number: u64,
    openers: u32,
    lingers: bool,
    /// The path by which it was opened last.
    path: Box<[u8]>,
}

/// A file that is open now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attached {
    pub(super) slot: u32,
    /// Whether nothing is known of it.
    pub(super) is_new: bool,
    /// Whether nobody had it open.
    pub(super) is_first: bool,
}

impl Table {
    pub(super) fn new(places: u32) -> Table {
        Table {
            by_number: BTreeMap::new(),
            places: (0..places).map(|_| Place::default()).collect(),
            free: (0..places).rev().collect(),
            closed: VecDeque::new(),
            lingering: VecDeque::new(),
            given_up: 0,
        }
    }

    /// From now on the drive knows all of some file: what it said of it before may be old.
    pub(super) fn note_given_up(&mut self) {
        self.given_up += 1;
    }

    /// How often that was so.
    pub(super) fn given_up(&self) -> u64 {
        self.given_up
    }

    fn place(&mut self, slot: u32) -> &mut Place {
        &mut self.places[slot as usize]
    }

    /// One more has a file open; nothing if there is no place for it.
    pub(super) fn attach(&mut self, number: u64, path: &[u8]) -> Option<Attached> {
        let known = self.by_number.get(&number).copied();
        let slot = match known {
            Some(slot) => slot,
            None => {
                let slot = self.free.pop()?;
                self.by_number.insert(number, slot);
                slot
            }
        };
        let place = self.place(slot);
        let is_first = place.openers == 0;
        place.openers += 1;
        if &*place.path != path {
            place.path = path.into();
        }
        if known.is_some() && is_first {
            self.closed.retain(|closed| *closed != slot);
        }
        let is_new = known.is_none();
        self.place(slot).number = number;
        Some(Attached {
            slot,
            is_new,
            is_first,
        })
    }

    /// One less has it open; true if it was the last.
    pub(super) fn detach(&mut self, slot: u32) -> bool {
        let place = self.place(slot);
        place.openers -= 1;
        let is_last = place.openers == 0;
        if is_last {
            self.closed.push_back(slot);
        }
        is_last
    }

    /// Those that nobody has open, the first closed first.
    pub(super) fn closed(&self) -> Vec<u32> {
        self.closed.iter().copied().collect()
    }

    pub(super) fn is_open(&self, slot: u32) -> bool {
        self.places[slot as usize].openers > 0
    }

    /// The place of a file of which more may be known here than in the drive.
    pub(super) fn find_live(&self, number: u64) -> Option<u32> {
        let slot = *self.by_number.get(&number)?;
        let place = &self.places[slot as usize];
        (place.openers > 0 || place.lingers).then_some(slot)
    }

    /// The file that was closed first, for one who has it open from now on.
    pub(super) fn take_closed(&mut self) -> Option<u32> {
        let slot = self.closed.pop_front()?;
        self.place(slot).openers = 1;
        Some(slot)
    }

    /// Takes a file out that only the caller has open, and which has no dirty pages; false if others have opened it meanwhile.
    pub(super) fn take_out(&mut self, slot: u32) -> bool {
        let place = self.place(slot);
        let is_alone = place.openers == 1;
        if is_alone {
            let number = place.number;
            self.end_lingering(slot);
            self.note_given_up();
            self.by_number.remove(&number);
        }
        is_alone
    }

    /// The place of a file that was taken out is free: none of its pages is left.
    pub(super) fn free(&mut self, slot: u32) {
        self.place(slot).openers = 0;
        self.free.push(slot);
    }

    /// A file was closed with dirty pages.
    pub(super) fn linger(&mut self, slot: u32) {
        let place = self.place(slot);
        if !std::mem::replace(&mut place.lingers, true) {
            self.lingering.push_back(slot);
        }
    }

    /// The next that lingers, which is the last of them now.
    pub(super) fn next_lingering(&mut self) -> Option<u32> {
        let slot = self.lingering.pop_front()?;
        self.lingering.push_back(slot);
        Some(slot)
    }

    /// One lingers no longer.
    pub(super) fn end_lingering(&mut self, slot: u32) {
        if std::mem::replace(&mut self.place(slot).lingers, false) {
            self.lingering.retain(|other| *other != slot);
        }
    }

    /// How many linger.
    pub(super) fn lingering(&self) -> usize {
        self.lingering.len()
    }

    /// The one that lingers and was opened by a path, for one who has it open from now on.
    pub(super) fn take_lingering_of(&mut self, path: &[u8]) -> Option<u32> {
        let of_path = |slot: &&u32| {
            let place = &self.places[**slot as usize];
            place.openers == 0 && &*place.path == path
        };
        let slot = *self.lingering.iter().find(of_path)?;
        self.closed.retain(|closed| *closed != slot);
        self.place(slot).openers = 1;
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_place_until_another_one_needs_it() {
        let mut table = Table::new(2);
        let a = table.attach(70, b"/a").expect("there is room");
        assert!(a.is_new && a.is_first);
        let again = table.attach(70, b"/a").expect("it has its place");
        assert_eq!(
            (again.slot, again.is_new, again.is_first),
            (a.slot, false, false)
        );
        let b = table.attach(80, b"/b").expect("there is room").slot;
        assert_eq!(table.attach(90, b"/c"), None);
        assert!(!table.detach(a.slot));
        assert_eq!(table.take_closed(), None);
        assert!(table.detach(b) && table.detach(a.slot));
        assert_eq!(table.take_closed(), Some(b));
        assert_eq!(table.given_up(), 0);
        assert!(table.take_out(b));
        assert_eq!(table.given_up(), 1, "what the drive said before may be old");
        assert_eq!(table.find_live(80), None);
        table.free(b);
        assert_eq!(table.attach(90, b"/c").map(|c| c.slot), Some(b));
        assert_eq!(table.attach(70, b"/a").map(|a| a.is_new), Some(false));
    }

    #[test]
    fn a_file_that_somebody_opened_meanwhile_is_not_taken_out() {
        let mut table = Table::new(1);
        let slot = table.attach(7, b"/a").expect("there is room").slot;
        table.detach(slot);
        assert_eq!(table.take_closed(), Some(slot));
        table.attach(7, b"/a").expect("it is known");
        assert!(!table.take_out(slot));
        assert!(!table.detach(slot));
        assert!(table.is_open(slot));
    }

    #[test]
    fn one_that_lingers_is_found_by_its_path() {
        let mut table = Table::new(4);
        let slot = table.attach(7, b"/a").expect("there is room").slot;
        assert!(table.detach(slot));
        table.linger(slot);
        table.linger(slot);
        assert_eq!((table.lingering(), table.find_live(7)), (1, Some(slot)));
        assert_eq!(table.take_lingering_of(b"/b"), None);
        assert_eq!(table.take_lingering_of(b"/a"), Some(slot));
        assert_eq!(table.take_lingering_of(b"/a"), None, "it is open");
        assert_eq!(table.next_lingering(), Some(slot));
        assert_eq!(table.next_lingering(), Some(slot));
        table.end_lingering(slot);
        assert_eq!(table.next_lingering(), None);
    }
}
