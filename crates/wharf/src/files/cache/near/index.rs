//! Of which pages the drive may have some in its cache for this process, and which way a request goes.
//!
//! This is a hint: the drive looks for itself at each command, and says when it has no room. Then the range that was not used for longest
//! leaves.

use std::ops::Range;

use rustc_hash::FxHashMap;

/// Pages of a range, which leaves the drive's cache whole: as many as the drive writes to a file at once.
const RANGE_PAGES: u64 = 64;

/// See the [module](self). What is asked for goes by the rules of the design `omni` (`stor/cache/near/place.rs` of `wharf-host`).
#[derive(Default)]
pub(in crate::files::cache) struct Near {
    ranges: Vec<NearRange>,
    places: FxHashMap<(u64, u64), usize>,
    /// Ranges of each file that has some.
    files: FxHashMap<u64, u32>,
    /// Files of which a command has pages leave, once for each such command.
    leaving: Vec<u64>,
    hand: usize,
    /// The drive had no room.
    is_full: bool,
}

/// Neighbouring pages of a file.
struct NearRange {
    number: u64,
    nth: u64,
    /// A bit for each page that the drive may have.
    pages: u64,
    is_used: bool,
}

/// What is wanted of the first page of a request that is not here.
#[derive(Debug, Clone, Copy)]
pub(in crate::files::cache) struct Ask {
    pub(in crate::files::cache) number: u64,
    pub(in crate::files::cache) page: u64,
    pub(in crate::files::cache) writes: bool,
    /// Whether pages are wanted whole.
    pub(in crate::files::cache) is_whole: bool,
    /// Whether it is one of several in order.
    pub(in crate::files::cache) is_in_order: bool,
    /// Whether this process's cache has room without pushing out others.
    pub(in crate::files::cache) has_room: bool,
}

/// Bits of pages that lie in a range.
fn bits(nth: u64, pages: &Range<u64>) -> u64 {
    let first = pages.start.max(nth * RANGE_PAGES) - nth * RANGE_PAGES;
    let end = pages.end.min((nth + 1) * RANGE_PAGES) - nth * RANGE_PAGES;
    let below = |bit: u64| u64::MAX.checked_shr(64 - bit as u32).unwrap_or(0);
    below(end) & !below(first)
}

/// The ranges that pages lie in.
fn ranges(pages: &Range<u64>) -> Range<u64> {
    pages.start / RANGE_PAGES..pages.end.div_ceil(RANGE_PAGES)
}

impl Near {
    /// Whether a request goes by way of the drive's cache, and not to this process's.
    pub(in crate::files::cache) fn is_for(&mut self, ask: Ask) -> bool {
        let is_there = self.has(ask.number, ask.page);
        // What is written whole is not read before, so it does not leave the drive's cache by coming here.
        if is_there && ask.writes && ask.is_whole {
            return true;
        }
        if ask.is_in_order {
            return false;
        }
        if is_there {
            return true;
        }
        // Near saves nothing of whole pages.
        if ask.is_whole && ask.has_room {
            return false;
        }
        !self.is_full || !ask.has_room
    }

    /// Whether the drive may have a page, which is used.
    fn has(&mut self, number: u64, page: u64) -> bool {
        let nth = page / RANGE_PAGES;
        let Some(place) = self.places.get(&(number, nth)) else {
            return false;
        };
        let range = &mut self.ranges[*place];
        range.is_used = true;
        range.pages & bits(nth, &(page..page + 1)) != 0
    }

    /// Whether the drive may have some of these pages.
    pub(in crate::files::cache) fn has_any(&self, number: u64, pages: &Range<u64>) -> bool {
        self.has_file(number)
            && ranges(pages).any(|nth| {
                let place = self.places.get(&(number, nth));
                place.is_some_and(|place| self.ranges[*place].pages & bits(nth, pages) != 0)
            })
    }

    /// Whether the drive may have pages of a file.
    pub(in crate::files::cache) fn has_file(&self, number: u64) -> bool {
        self.files.contains_key(&number)
    }

    /// Whether the drive had no room.
    pub(in crate::files::cache) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The drive had no room for some pages.
    pub(in crate::files::cache) fn note_full(&mut self) {
        self.is_full = true;
    }

    /// The drive has some of these pages, or all.
    pub(in crate::files::cache) fn add(&mut self, number: u64, pages: &Range<u64>) {
        for nth in ranges(pages) {
            let place = *self.places.entry((number, nth)).or_insert_with(|| {
                self.ranges.push(NearRange {
                    number,
                    nth,
                    pages: 0,
                    is_used: false,
                });
                *self.files.entry(number).or_default() += 1;
                self.ranges.len() - 1
            });
            let range = &mut self.ranges[place];
            range.pages |= bits(nth, pages);
            range.is_used = true;
        }
    }

    /// It has none of these pages any more.
    pub(in crate::files::cache) fn remove(&mut self, number: u64, pages: &Range<u64>) {
        if !self.has_file(number) {
            return;
        }
        for nth in ranges(pages) {
            let Some(place) = self.places.get(&(number, nth)).copied() else {
                continue;
            };
            let range = &mut self.ranges[place];
            range.pages &= !bits(nth, pages);
            if range.pages == 0 {
                self.drop_range(place);
            }
        }
        self.is_full = false;
    }

    /// It has none of a file any more.
    pub(in crate::files::cache) fn forget(&mut self, number: u64) {
        if !self.has_file(number) {
            return;
        }
        let mut place = 0;
        while place < self.ranges.len() {
            match self.ranges[place].number == number {
                true => self.drop_range(place),
                false => place += 1,
            }
        }
        self.is_full = false;
    }

    /// A command is about to be sent that has pages of a file leave.
    pub(in crate::files::cache) fn begin_leaving(&mut self, number: u64) {
        self.leaving.push(number);
    }

    /// It has ended.
    pub(in crate::files::cache) fn end_leaving(&mut self, number: u64) {
        let own = self.leaving.iter().position(|other| *other == number);
        self.leaving.swap_remove(own.expect("it has begun"));
    }

    /// Whether such a command is under way.
    pub(in crate::files::cache) fn is_leaving(&self, number: u64) -> bool {
        self.leaving.contains(&number)
    }

    /// The range that is to leave next, with its file (by CLOCK; Corbató 1968).
    pub(in crate::files::cache) fn victim(&mut self) -> Option<(u64, Range<u64>)> {
        // Each is passed by once at most.
        for _ in 0..2 * self.ranges.len() {
            self.hand = (self.hand + 1) % self.ranges.len();
            let range = &mut self.ranges[self.hand];
            if !std::mem::take(&mut range.is_used) {
                let first = range.nth * RANGE_PAGES;
                return Some((range.number, first..first + RANGE_PAGES));
            }
        }
        None
    }

    fn drop_range(&mut self, place: usize) {
        let gone = self.ranges.swap_remove(place);
        self.places.remove(&(gone.number, gone.nth));
        if let Some(moved) = self.ranges.get(place) {
            self.places.insert((moved.number, moved.nth), place);
        }
        let left = self.files.get_mut(&gone.number).expect("it has a range");
        *left -= 1;
        if *left == 0 {
            self.files.remove(&gone.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Ask = Ask {
        number: 7,
        page: 100,
        writes: false,
        is_whole: false,
        is_in_order: false,
        has_room: true,
    };

    #[test]
    fn ranges_come_and_go_with_their_pages() {
        let mut near = Near::default();
        near.add(7, &(60..70));
        near.add(8, &(0..1));
        assert!(near.has_any(7, &(69..90)) && near.has_any(7, &(0..61)));
        assert!(!near.has_any(7, &(70..200)) && !near.has_any(7, &(0..60)));
        assert_eq!((near.ranges.len(), near.files[&7]), (3, 2));
        near.remove(7, &(0..64));
        assert!(!near.has_any(7, &(0..64)) && near.has_any(7, &(64..65)));
        assert_eq!(near.ranges.len(), 2);
        assert!(near.has(8, 0) && near.has(7, 69) && !near.has(7, 63));
        near.forget(7);
        assert!(!near.has_file(7) && near.has(8, 0));
        near.forget(8);
        assert!(near.ranges.is_empty() && near.places.is_empty() && near.files.is_empty());
        assert!(near.victim().is_none());
    }

    #[test]
    fn what_was_used_leaves_last() {
        let mut near = Near::default();
        for file in 1..=4 {
            near.add(file, &(0..3));
        }
        let (first, pages) = near.victim().unwrap();
        near.remove(first, &pages);
        let left: Vec<u64> = (1..=4).filter(|file| near.has_file(*file)).collect();
        assert_eq!(left.len(), 3);
        assert!(near.has(left[0], 1));
        let mut gone = Vec::new();
        for _ in 0..2 {
            let (number, pages) = near.victim().unwrap();
            assert_eq!(pages, 0..RANGE_PAGES);
            near.remove(number, &pages);
            gone.push(number);
        }
        assert!(!gone.contains(&left[0]), "{gone:?}");
    }

    #[test]
    fn parts_of_pages_go_to_the_drive_while_it_has_room() {
        let mut near = Near::default();
        assert!(near.is_for(READ));
        let whole = Ask {
            is_whole: true,
            ..READ
        };
        let in_order = Ask {
            is_in_order: true,
            ..READ
        };
        assert!(!near.is_for(whole) && !near.is_for(in_order));
        near.note_full();
        assert!(!near.is_for(READ), "this process has room");
        let no_room = |ask: Ask| Ask {
            has_room: false,
            ..ask
        };
        assert!(near.is_for(no_room(READ)) && near.is_for(no_room(whole)));
        // What is there is used there, but by who goes through the file.
        near.add(7, &(100..101));
        assert!(near.is_for(READ) && near.is_for(whole) && !near.is_for(in_order));
        assert!(near.is_for(Ask {
            writes: true,
            ..whole
        }));
    }
}
