//! What this process has written to files and the drive has not taken yet, in memory that the drive reaches.
//!
//! `wharf_wire::file::write_area` says what lies where, and who may do what when. Here is the host's side: which file has which place,
//! which page which entry, and when a lease to write is worth a command.

use rustc_hash::FxHashMap;
use wharf_wire::dma::{DmaArea, DmaRegion};
use wharf_wire::file::write_area::{
    AREA_PAGES, ENTRIES, Entry, PLACES, Words, begin, bytes_at, end, entry_word, page_word,
    time_word,
};

use super::frames::{Frames, PAGE};
use super::pause::Pause;
use super::places::{Places, Wanted};

/// Most bytes of one write that are kept; more go by commands, which they are worth.
const BYTES_MAX: usize = 128 << 10;

/// Files grow by commands beyond this.
const END_MAX: u64 = 1 << 40;

/// A lease that was of use for fewer writes is a reason to wait longer for the next.
const USES_MIN: u32 = 4;

/// Writes by commands before the first lease of a file is asked for.
const WRITES_BEFORE: u32 = 1;

/// See the [module](self).
pub(super) struct Writes {
    area: DmaArea,
    places: Places,
    /// The entry of a page of the file at a place. What is there is looked at before it is believed.
    entries: FxHashMap<(usize, u64), usize>,
    /// The page that each entry was of last; none before the first write, as most processes make few.
    owners: Vec<(usize, u64)>,
    /// Where it is looked next for an entry that is free.
    next: usize,
    /// What a write does, page by page.
    pieces: Vec<Piece>,
}

/// A write, as it is made.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) number: u64,
    /// Bytes of the file.
    pub(super) bytes: u64,
    pub(super) offset: u64,
    pub(super) data: &'a [u8],
    pub(super) now_ns: u64,
}

/// What a write does to one page.
#[derive(Clone, Copy)]
struct Piece {
    entry: usize,
    /// The page has no other one.
    is_new: bool,
    page: u64,
    /// Where in the page, and how many bytes.
    within: usize,
    bytes: usize,
    /// What the entry has then.
    from: usize,
    to: usize,
    /// The rest of that comes from what is kept of the file.
    fills: bool,
}

impl Writes {
    /// With the pages of a region from page `first` on.
    pub(super) fn new(region: &DmaRegion, first: usize) -> Writes {
        let (area, address) = region.area(first, AREA_PAGES);
        Writes {
            area,
            places: Places::new(address, USES_MIN),
            entries: FxHashMap::default(),
            owners: Vec::new(),
            next: 0,
            pieces: Vec::new(),
        }
    }

    /// Whether a file has a lease now.
    pub(super) fn has(&self, number: u64) -> bool {
        self.places.valid(&self.area, number).is_some()
    }

    /// A lease to write that is to be asked for before a write; none if there is one, or if it is no time for it.
    pub(super) fn ask(&mut self, number: u64) -> Option<Wanted> {
        if self.has(number) {
            return None;
        }
        self.owners.resize(ENTRIES, (PLACES, 0));
        self.places
            .ask(&self.area, number, Pause::of(WRITES_BEFORE))
    }

    /// What was answered.
    pub(super) fn answered(&mut self, wanted: Wanted, lease: u64) {
        self.places.answered(wanted, lease);
    }

    /// Writes under a lease; gives whether that was done. `kept` are pages of the file, by its `version`.
    pub(super) fn write(&mut self, asked: Asked<'_>, kept: &mut Frames, version: u64) -> bool {
        let behind = asked.offset.saturating_add(asked.data.len() as u64);
        if asked.data.len() > BYTES_MAX || behind > END_MAX {
            return false;
        }
        let Some(place) = self.places.valid(&self.area, asked.number) else {
            return false;
        };
        if self.plan(place, asked, kept, version).is_none() {
            return false;
        }
        if !begin(&self.area, place, self.places.lease(place), asked.bytes) {
            return false;
        }
        let mut rest = asked.data;
        for nth in 0..self.pieces.len() {
            let piece = self.pieces[nth];
            let (now, more) = rest.split_at(piece.bytes);
            rest = more;
            self.put(place, &piece, now, kept, version);
        }
        self.area.tell(time_word(place), asked.now_ns);
        self.places.uses(place);
        let is_done = end(&self.area, place, asked.bytes, asked.bytes.max(behind));
        if !is_done {
            // The drive has waited long enough, and the lease has ended: nobody looks for these any more. What it has taken of them
            // is written once more.
            for piece in &self.pieces {
                self.area.tell(entry_word(piece.entry), 0);
            }
        }
        is_done
    }

    /// What is to be done to each page; none if it cannot be.
    fn plan(
        &mut self,
        place: usize,
        asked: Asked<'_>,
        kept: &mut Frames,
        version: u64,
    ) -> Option<()> {
        let (mut at, mut left) = (asked.offset, asked.data.len());
        self.pieces.clear();
        while left > 0 {
            let (page, within) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let bytes = (PAGE - within).min(left);
            let (mut from, mut to, mut fills) = (within, within + bytes, false);
            let known = self.entry(place, page);
            let entry = match known {
                Some((entry, found)) => {
                    let (first, last) = (usize::from(found.from), usize::from(found.to));
                    if first <= to && from <= last {
                        (from, to) = (from.min(first), to.max(last));
                    } else {
                        // What is between the two must be known.
                        kept.get((version, page))?;
                        (from, to, fills) = (0, PAGE, true);
                    }
                    entry
                }
                None => self.free()?,
            };
            self.pieces.push(Piece {
                entry,
                is_new: known.is_none(),
                page,
                within,
                bytes,
                from,
                to,
                fills,
            });
            at += bytes as u64;
            left -= bytes;
        }
        Some(())
    }

    /// The entry of a page, with what it has.
    #[inline]
    fn entry(&self, place: usize, page: u64) -> Option<(usize, Entry)> {
        let entry = *self.entries.get(&(place, page))?;
        let found = Entry::from_raw(self.area.look(entry_word(entry)))?;
        let is_meant =
            self.owners[entry] == (place, page) && found.lease == self.places.lease(place) as u32;
        is_meant.then_some((entry, found))
    }

    /// An entry that the drive has taken, or that was never used.
    fn free(&mut self) -> Option<usize> {
        for _ in 0..ENTRIES {
            let entry = self.next;
            self.next = (self.next + 1) % ENTRIES;
            if self.area.look(entry_word(entry)) == 0 {
                return Some(entry);
            }
        }
        None
    }

    /// Puts bytes of a page where the drive takes them from.
    fn put(&mut self, place: usize, piece: &Piece, data: &[u8], kept: &mut Frames, version: u64) {
        let at = bytes_at(piece.entry);
        if piece.fills
            && let Some(page) = kept.get((version, piece.page))
        {
            self.area.copy_in(at, page);
        }
        self.area.copy_in(at + piece.within, data);
        if piece.is_new {
            let own = (place, piece.page);
            let before = std::mem::replace(&mut self.owners[piece.entry], own);
            if self.entries.get(&before) == Some(&piece.entry) {
                self.entries.remove(&before);
            }
            self.entries.insert(own, piece.entry);
        }
        self.area.tell(page_word(piece.entry), piece.page);
        let entry = Entry {
            lease: self.places.lease(place) as u32,
            from: piece.from as u16,
            to: piece.to as u16,
        };
        self.area.tell(entry_word(piece.entry), entry.raw());
    }
}
