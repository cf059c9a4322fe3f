//! Where a host keeps what it has written under a lease to write: a part of its memory that the drive takes it from.
//!
//! | pages | what |
//! |---|---|
//! | 0 | words: of each of 64 places the lease, then of each the size, then of each the time |
//! | 1 to 8 | of each of 4096 entries a word: whose bytes it has, and which |
//! | 9 to 16 | of each entry a word: the page of the file |
//! | 17 to 4112 | of each entry 4096 bytes |
//!
//! 1. The drive writes a lease's number to the word of its place, and 0 before anybody else may see the file.
//! 2. To write, the host swaps [`BUSY`] into the size, and looks at the lease. If that lasts, it puts bytes into entries, tells the time,
//!    and exchanges the busy size for the new one: by that the write has taken effect. If either is not so, it has not, and the
//!    host sends a command.
//! 3. To take, the drive swaps 0 into the lease, and waits until the size is not busy; if it is for too long, it exchanges the
//!    busy size for the old one. Then it copies the entries of the lease, as far as the size goes, and sets their words to 0. While
//!    the host waits for a command of its own, it takes without ending the lease.
//!
//! What a host writes there is looked at once, and means its own files alone.

use crate::dma::PAGE_BYTES;

/// Leases to write that a host can have.
pub const PLACES: usize = 64;

/// Entries: pages that have been written and not been taken.
pub const ENTRIES: usize = 4096;

/// The bit of a size that a write is under way.
pub const BUSY: u64 = 1 << 63;

const WORDS: usize = PAGE_BYTES / size_of::<u64>();
const FIRST_OF_ENTRIES: usize = WORDS;
const FIRST_OF_PAGES: usize = FIRST_OF_ENTRIES + ENTRIES;
const BYTES_AT: usize = (FIRST_OF_PAGES + ENTRIES) * size_of::<u64>();

/// Pages of an area.
pub const AREA_PAGES: usize = BYTES_AT / PAGE_BYTES + ENTRIES;

/// The word of a place's lease.
pub const fn lease_word(place: usize) -> usize {
    place
}

/// The word of a place's size, in bytes.
pub const fn size_word(place: usize) -> usize {
    PLACES + place
}

/// The word of the time at which a place's file was written last, in nanoseconds since 1970.
pub const fn time_word(place: usize) -> usize {
    2 * PLACES + place
}

/// The word of an entry; an [`Entry`].
pub const fn entry_word(entry: usize) -> usize {
    FIRST_OF_ENTRIES + entry
}

/// The word of the page that an entry is of.
pub const fn page_word(entry: usize) -> usize {
    FIRST_OF_PAGES + entry
}

/// The byte where the words of entries begin; they lie side by side.
pub const ENTRY_WORDS_AT: usize = FIRST_OF_ENTRIES * size_of::<u64>();

/// The byte where those of an entry begin.
pub const fn bytes_at(entry: usize) -> usize {
    BYTES_AT + entry * PAGE_BYTES
}

/// What the word of an entry says: bytes `from` to `to` of a page, written under the lease of whose number these are the low bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The low bits of the lease's number.
    pub lease: u32,
    /// The first byte of the page.
    pub from: u16,
    /// The byte behind the last one.
    pub to: u16,
}

impl Entry {
    /// What a word says; none if it has no bytes, or none that there are.
    #[inline]
    pub const fn from_raw(raw: u64) -> Option<Entry> {
        let entry = Entry {
            lease: (raw >> 32) as u32,
            from: (raw >> 16) as u16,
            to: raw as u16,
        };
        match entry.from < entry.to && entry.to as usize <= PAGE_BYTES {
            true => Some(entry),
            false => None,
        }
    }

    /// The word; never 0.
    #[inline]
    pub const fn raw(self) -> u64 {
        (self.lease as u64) << 32 | (self.from as u64) << 16 | self.to as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_entry_says_comes_back() {
        let entry = Entry {
            lease: u32::MAX,
            from: 4095,
            to: 4096,
        };
        assert_eq!(Entry::from_raw(entry.raw()), Some(entry));
        let none = [
            0,
            7 << 32,
            Entry { from: 9, ..entry }.raw() - 4090,
            1 << 16 | 1,
            4097,
            u64::MAX,
        ];
        for raw in none {
            assert_eq!(Entry::from_raw(raw), None, "{raw:#x}");
        }
    }

    #[test]
    fn parts_do_not_overlap() {
        assert!(time_word(PLACES - 1) < WORDS);
        assert_eq!(entry_word(ENTRIES - 1) + 1, page_word(0));
        assert_eq!((page_word(ENTRIES - 1) + 1) * size_of::<u64>(), bytes_at(0));
        assert_eq!(bytes_at(ENTRIES), AREA_PAGES * PAGE_BYTES);
        assert_eq!(AREA_PAGES, 4113);
    }
}
