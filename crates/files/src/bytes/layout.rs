//! Where everything is, and words that are obeyed only if whole.
//!
//! What a cut must not tear is a word of 8 bytes: 48 bits of value, and 16 bits that check value,
//! place and file system. A word of zeros stands for nothing.

use crc_fast::{CrcAlgorithm, Digest};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::errno::Fault;
use crate::lines::Lines;
use crate::pages::PAGE_BYTES;

/// Bytes of a page.
pub const PAGE: u64 = PAGE_BYTES as u64;

/// What a superblock says that it is.
pub const MAGIC: [u8; 8] = *b"wharfwpm";

/// The version of the format.
pub const VERSION: u32 = 1;

/// Pages that a file system can have.
pub const PAGES_MIN: u64 = 16;

/// See [`PAGES_MIN`]: addresses of bytes have 48 bits.
pub const PAGES_MAX: u64 = 1 << 35;

/// The page of the journal.
pub const JOURNAL_PAGE: u64 = 1;

/// The first page of the table of inodes.
pub const TABLE_PAGE: u64 = 2;

/// Bytes of a slot of an inode.
pub const SLOT_BYTES: u64 = 16;

/// The highest value of a word.
pub const WORD_MAX: u64 = (1 << 48) - 1;

/// Bits of a number that say which slot.
const SLOT_BITS: u32 = 36;

/// The last generation of a slot; the slot is not used any more behind it.
pub const GENERATION_MAX: u64 = (1 << 27) - 1;

/// The number of the root directory: the first slot, its first time.
pub const ROOT: u64 = 1;

/// What never changes.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// CRC32C of all that follows it.
    pub crc: U32,
    /// [`VERSION`].
    pub version: U32,
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// Pages of the file system.
    pub pages: U64,
    /// Which file system it is.
    pub file_system: U64,
    /// The page of the journal.
    pub journal_page: U64,
    /// The first page of the table of inodes.
    pub table_page: U64,
    /// How many pages the table has.
    pub table_pages: U64,
    /// When it was made, in nanoseconds.
    pub made_ns: U64,
}

/// A slot of an inode.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Slot {
    /// A word: how often the slot was used, this time among them.
    pub uses: U64,
    /// A word: the address behind the last record of the inode's log; 0 of a slot that is free.
    pub log_end: U64,
}

/// CRC32C of several pieces.
pub fn crc32c(pieces: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    pieces.iter().for_each(|piece| digest.update(piece));
    digest.finalize() as u32
}

/// Something on the media that is not what it should be.
pub fn damaged(at: u64, what: &'static str) -> Fault {
    let page = at / PAGE;
    Fault::Damaged { page, what }
}

/// The places of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Pages of it.
    pub pages: u64,
    /// Pages of the table of inodes.
    pub table_pages: u64,
    /// Which file system it is.
    pub file_system: u64,
}

impl Geometry {
    /// The places of a file system of so many pages, if there can be one.
    pub fn new(pages: u64, file_system: u64) -> Option<Geometry> {
        if !(PAGES_MIN..=PAGES_MAX).contains(&pages) {
            return None;
        }
        Some(Geometry {
            pages,
            // A slot for each page: whatever is made takes one at least.
            table_pages: pages.div_ceil(PAGE / SLOT_BYTES),
            file_system,
        })
    }

    /// The first page for logs and files.
    pub fn data_first(&self) -> u64 {
        TABLE_PAGE + self.table_pages
    }

    /// The page behind the last one for logs and files.
    pub fn data_end(&self) -> u64 {
        self.pages - 1
    }

    /// Whether pages are all for logs and files.
    pub fn has(&self, first: u64, pages: u64) -> bool {
        let end = first.checked_add(pages);
        first >= self.data_first() && end.is_some_and(|end| end <= self.data_end())
    }

    /// Slots of inodes.
    pub fn slots(&self) -> u64 {
        self.table_pages * (PAGE / SLOT_BYTES)
    }

    /// The address of a slot.
    pub fn slot_at(&self, slot: u64) -> u64 {
        TABLE_PAGE * PAGE + slot * SLOT_BYTES
    }

    /// The address of the word of a slot that says where the log ends.
    pub fn log_end_at(&self, slot: u64) -> u64 {
        self.slot_at(slot) + 8
    }

    /// The slot and generation of a number, if it can be one.
    pub fn slot_of(&self, number: u64) -> Option<(u64, u64)> {
        let slot = (number & ((1 << SLOT_BITS) - 1)).checked_sub(1)?;
        let generation = number >> SLOT_BITS;
        (slot < self.slots() && generation <= GENERATION_MAX).then_some((slot, generation))
    }

    /// The number of what is in a slot.
    pub fn number_of(slot: u64, generation: u64) -> u64 {
        generation << SLOT_BITS | (slot + 1)
    }

    fn check_of(&self, at: u64, value: u64) -> u64 {
        let (at, value) = (at.to_le_bytes(), value.to_le_bytes());
        let crc = crc32c(&[&value, &at, &self.file_system.to_le_bytes()]);
        u64::from(crc ^ crc >> 16) & 0xffff
    }

    /// A value, above 0, as a word for an address.
    pub fn word(&self, at: u64, value: u64) -> u64 {
        debug_assert!(value > 0 && value <= WORD_MAX);
        self.check_of(at, value) << 48 | value
    }

    /// The value of a word that was found at an address; 0 if there is nothing.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn value(&self, at: u64, word: u64) -> Result<u64, Fault> {
        let value = word & WORD_MAX;
        match word == 0 || value > 0 && self.check_of(at, value) == word >> 48 {
            true => Ok(value),
            false => Err(damaged(at, "a word does not match its check")),
        }
    }

    /// The superblock, sealed.
    pub fn superblock(&self, made_ns: u64) -> Superblock {
        let mut superblock = Superblock {
            crc: 0.into(),
            version: VERSION.into(),
            magic: MAGIC,
            pages: self.pages.into(),
            file_system: self.file_system.into(),
            journal_page: JOURNAL_PAGE.into(),
            table_page: TABLE_PAGE.into(),
            table_pages: self.table_pages.into(),
            made_ns: made_ns.into(),
        };
        superblock.crc = crc32c(&[&superblock.as_bytes()[4..]]).into();
        superblock
    }

    /// Reads a superblock that was found at an address of a medium of `pages` pages.
    fn of_superblock(found: &Superblock, at: u64, pages: u64) -> Result<Geometry, Fault> {
        if found.magic != MAGIC {
            return Err(damaged(at, "it is no superblock"));
        }
        if crc32c(&[&found.as_bytes()[4..]]) != found.crc.get() {
            return Err(damaged(at, "its checksum does not match"));
        }
        if found.version.get() != VERSION {
            return Err(damaged(at, "the version of the format is another"));
        }
        if found.pages.get() > pages {
            let what = "the medium is smaller than the file system";
            return Err(damaged(at, what));
        }
        let geometry = Geometry::new(found.pages.get(), found.file_system.get());
        let geometry = geometry.ok_or(damaged(at, "no file system has so many pages"))?;
        match geometry.superblock(found.made_ns.get()).as_bytes() == found.as_bytes() {
            true => Ok(geometry),
            false => Err(damaged(at, "its places are not those of the format")),
        }
    }

    /// Finds a file system: by its superblock, or by the copy of it in the last page.
    ///
    /// # Errors
    /// [`Fault::Damaged`], if neither is one; of the media.
    pub async fn find<L: Lines>(lines: &L) -> Result<Geometry, Fault> {
        let pages = lines.bytes() / PAGE;
        let first = Geometry::read(lines, 0, pages).await;
        match first {
            Ok(geometry) => Ok(geometry),
            Err(fault) if pages == 0 => Err(fault),
            Err(fault) => {
                let copy = Geometry::read(lines, (pages - 1) * PAGE, pages).await;
                copy.map_err(|_| fault)
            }
        }
    }

    async fn read<L: Lines>(lines: &L, at: u64, pages: u64) -> Result<Geometry, Fault> {
        let mut bytes = [0; size_of::<Superblock>()];
        lines.load(at, &mut bytes).await?;
        let found = Superblock::read_from_bytes(&bytes);
        let found = found.map_err(|_| damaged(at, "it is no superblock"))?;
        Geometry::of_superblock(&found, at, pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole_at_their_place_alone() {
        let geometry = Geometry::new(100, 7).unwrap();
        let word = geometry.word(8192, 77);
        assert_eq!(geometry.value(8192, word), Ok(77));
        assert_eq!(geometry.value(8192, 0), Ok(0));
        assert!(geometry.value(8200, word).is_err());
        assert!(Geometry::new(100, 8).unwrap().value(8192, word).is_err());
        for bit in 0..64 {
            assert!(geometry.value(8192, word ^ 1 << bit).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn numbers_are_slots_and_generations() {
        let geometry = Geometry::new(1000, 7).unwrap();
        assert_eq!(geometry.slot_of(ROOT), Some((0, 0)));
        let number = Geometry::number_of(5, GENERATION_MAX);
        assert_eq!(geometry.slot_of(number), Some((5, GENERATION_MAX)));
        assert_eq!(geometry.slot_of(0), None);
        assert_eq!(geometry.slot_of(1025), None);
        assert_eq!(geometry.slots(), 1024);
        assert!(!geometry.has(999, 1) && geometry.has(998, 1) && !geometry.has(5, 1));
        assert!(!geometry.has(7, u64::MAX));
    }
}
