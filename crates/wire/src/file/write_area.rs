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
//!    busy size for the old one. Then it copies the entries of the lease, as far as the size goes, and sets their words to 0. For a
//!    command of the host's own it takes without ending the lease, and without waiting: while a host has a command under way it writes
//!    nothing here.
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

/// Words that host and drive share.
pub trait Words {
    /// The value of a word.
    fn look(&self, index: usize) -> u64;

    /// Tells a value, and all that was done before.
    fn tell(&self, index: usize, value: u64);

    /// Puts a value in the place of the one that it gives. Of two sides of which each swaps a word and then looks at the other's, one
    /// at least sees what the other has put.
    fn swap(&self, index: usize, value: u64) -> u64;

    /// Puts a value in the place of `old`; gives whether that was there.
    fn exchange(&self, index: usize, old: u64, value: u64) -> bool;
}

/// The host begins a write to a file of `bytes` bytes, under a lease; gives whether that lasts.
#[inline]
pub fn begin(words: &impl Words, place: usize, lease: u64, bytes: u64) -> bool {
    words.swap(size_word(place), bytes | BUSY);
    let lasts = words.look(lease_word(place)) == lease;
    if !lasts {
        words.swap(size_word(place), bytes);
    }
    lasts
}

/// The host ends a write that began when the file had `before` bytes; gives whether it has taken effect. If not, the lease has ended.
#[inline]
pub fn end(words: &impl Words, place: usize, before: u64, after: u64) -> bool {
    words.exchange(size_word(place), before | BUSY, after)
}

/// The drive ends a lease.
pub fn stop(words: &impl Words, place: usize) {
    words.swap(lease_word(place), 0);
}

/// Whether the host is not amid a write: if its lease has ended it begins none any more.
pub fn is_still(words: &impl Words, place: usize) -> bool {
    words.look(size_word(place)) & BUSY == 0
}

/// The drive waits no longer: a write that has not ended takes no effect.
pub fn cut_short(words: &impl Words, place: usize) {
    let busy = words.look(size_word(place));
    if busy & BUSY != 0 {
        words.exchange(size_word(place), busy, busy & !BUSY);
    }
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

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::Arc;

    use wharf_runtime::sync::{AtomicU64, Ordering, fence};

    use super::*;

    /// The words of place 0 and of entry 0.
    #[derive(Default)]
    struct Few([AtomicU64; 3]);

    impl Few {
        fn word(&self, index: usize) -> &AtomicU64 {
            match index {
                0 => &self.0[0],
                PLACES => &self.0[1],
                FIRST_OF_ENTRIES => &self.0[2],
                _ => unreachable!("word {index} is used by nobody"),
            }
        }
    }

    // The orderings are those of `DmaArea`; loom takes SeqCst for AcqRel, so what a swap is there needs a fence here.
    impl Words for Few {
        fn look(&self, index: usize) -> u64 {
            self.word(index).load(Ordering::SeqCst)
        }

        fn tell(&self, index: usize, value: u64) {
            self.word(index).store(value, Ordering::Release);
        }

        fn swap(&self, index: usize, value: u64) -> u64 {
            let before = self.word(index).swap(value, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            before
        }

        fn exchange(&self, index: usize, old: u64, value: u64) -> bool {
            let word = self.word(index);
            word.compare_exchange(old, value, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
        }
    }

    /// A write is taken, or its host knows that it was not; never both, never none.
    #[test]
    fn every_write_is_taken_or_known_to_be_not() {
        loom::model(|| {
            let words = Arc::new(Few::default());
            words.tell(lease_word(0), 7);
            let drive = {
                let words = words.clone();
                loom::thread::spawn(move || {
                    stop(&*words, 0);
                    // Of two looks, the second is one too many.
                    if !is_still(&*words, 0) && !is_still(&*words, 0) {
                        cut_short(&*words, 0);
                    }
                    let bytes = words.look(size_word(0)) & !BUSY;
                    (bytes, words.look(entry_word(0)))
                })
            };
            let mut bytes = 0;
            for write in 1..=2 {
                if !begin(&*words, 0, 7, bytes) {
                    break;
                }
                words.tell(entry_word(0), write);
                if !end(&*words, 0, bytes, 10 * write) {
                    break;
                }
                bytes = 10 * write;
            }
            let (taken, entry) = drive.join().unwrap();
            assert_eq!(taken, bytes);
            assert!(entry >= taken / 10, "{taken} bytes without their entry");
        });
    }
}

#[cfg(all(test, not(loom)))]
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
