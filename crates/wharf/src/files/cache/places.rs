//! Places of leases in an area that the drive takes something from: which file has which, and when it is asked for one.

use rustc_hash::FxHashMap;
use wharf_wire::file::write_area::{PLACES, Words, lease_word};

use super::pause::Pause;

/// A file that has a lease, or had one.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    number: u64,
    /// The number of its lease; 0 if it has none.
    lease: u64,
    /// A thread asks for one: until it is answered nobody uses the place, whose words the drive may be writing.
    is_asked: bool,
    /// What was done under it.
    uses: u32,
    pause: Pause,
}

/// A lease that is to be asked for. Whoever has it tells what was [answered](Places::answered), be it none.
#[derive(Debug, Clone, Copy)]
pub(in crate::files) struct Wanted {
    /// The file.
    pub(in crate::files) number: u64,
    /// The address of the word by which it is asked for.
    pub(in crate::files) word: u64,
}

/// See the [module](self).
pub(super) struct Places {
    /// The address of the area's first word.
    address: u64,
    places: [Place; PLACES],
    numbers: FxHashMap<u64, usize>,
    hand: usize,
    /// A lease that was of use less often is a reason to wait longer for the next.
    uses_min: u32,
}

impl Places {
    /// Those of an area at an address.
    pub(super) fn new(address: u64, uses_min: u32) -> Places {
        Places {
            address,
            places: [Place::default(); PLACES],
            numbers: FxHashMap::default(),
            hand: 0,
            uses_min,
        }
    }

    /// The place of a file that has a lease now.
    #[inline]
    pub(super) fn valid(&self, area: &impl Words, number: u64) -> Option<usize> {
        let place = *self.numbers.get(&number)?;
        let Place {
            lease, is_asked, ..
        } = self.places[place];
        (lease != 0 && !is_asked && area.look(lease_word(place)) == lease).then_some(place)
    }

    /// The number of the lease of the file at a place.
    #[inline]
    pub(super) fn lease(&self, place: usize) -> u64 {
        self.places[place].lease
    }

    /// The file at a place is used under its lease.
    #[inline]
    pub(super) fn uses(&mut self, place: usize) {
        self.places[place].uses += 1;
    }

    /// A lease of a file without one; none if it is no time for it, or another thread asks already. A file that is
    /// new here is used without one as often as its pause `first` says.
    pub(super) fn ask(&mut self, area: &impl Words, number: u64, first: Pause) -> Option<Wanted> {
        let place = self.place(area, number, first);
        let known = &mut self.places[place];
        if known.is_asked {
            return None;
        }
        if known.lease != 0 {
            // It has ended.
            known.lease = 0;
            known.pause.begin(known.uses >= self.uses_min);
        }
        known.is_asked = known.pause.is_over();
        let word = self.address + (lease_word(place) * size_of::<u64>()) as u64;
        known.is_asked.then_some(Wanted { number, word })
    }

    /// What was answered, 0 for an error too; gives the place of the file, if it still has one.
    pub(super) fn answered(&mut self, wanted: Wanted, lease: u64) -> Option<usize> {
        let place = *self.numbers.get(&wanted.number)?;
        let known = &mut self.places[place];
        (known.lease, known.uses, known.is_asked) = (lease, 0, false);
        if lease == 0 {
            known.pause.begin(false);
        }
        Some(place)
    }

    /// Where a file is, or is from now on.
    fn place(&mut self, area: &impl Words, number: u64, first: Pause) -> usize {
        if let Some(place) = self.numbers.get(&number) {
            return *place;
        }
        // One that is not used now, if there is one; one that nobody asks for at least, as threads do so for fewer files than there are places.
        let mut place = self.hand;
        for _ in 0..PLACES {
            self.hand = (self.hand + 1) % PLACES;
            if self.places[self.hand].is_asked {
                continue;
            }
            place = self.hand;
            if area.look(lease_word(place)) == 0 {
                break;
            }
        }
        self.numbers.remove(&self.places[place].number);
        self.numbers.insert(number, place);
        self.places[place] = Place {
            number,
            pause: first,
            ..Place::default()
        };
        place
    }
}
