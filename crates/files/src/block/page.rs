//! Pages of metadata: each says what it is, where it belongs, and whether it is whole.
//!
//! The first 32 bytes of every page of metadata are a [`Header`]. A page is obeyed only if its
//! checksum matches, it is of the kind that is wanted, it belongs at the place where it was found,
//! to this file system, and is not newer than the newest transaction. Everything else is rot, a
//! misplaced page or one of another time: an error, and never anything else.

use std::sync::Arc;

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::errno::Fault;
use crate::pages::{PAGE_BYTES, PageBytes};

/// A page that several may look at; who changes it copies it.
pub type Image = Arc<PageBytes>;

/// The first bytes of each page of metadata.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// CRC32C of all that follows it in the page.
    pub crc: U32,
    /// What the page is: [`Kind`].
    pub kind: U16,
    /// 0.
    pub reserved: U16,
    /// The page's own number.
    pub number: U64,
    /// Which file system it belongs to.
    pub file_system: U64,
    /// The transaction that wrote it last; of the pages of the journal, their group or serial.
    pub generation: U64,
}

/// What a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// What never changes: [`Superblock`](super::layout::Superblock).
    Superblock = 1,
    /// What belongs to no group: [`State`](super::layout::State).
    State = 2,
    /// Where the journal begins: [`JournalHeader`](super::journal::JournalHeader).
    JournalHeader = 3,
    /// Which pages follow in the journal: [`Descriptor`](super::journal::Descriptor).
    Descriptor = 4,
    /// The end of a group in the journal: [`Record`](super::journal::Record).
    Record = 5,
    /// What is in use in a group: [`Bitmap`](super::groups::Bitmap).
    Bitmap = 6,
    /// Inodes: [`Table`](super::node::Table).
    Table = 7,
    /// A node of a tree: [`NodeHead`](super::records::NodeHead).
    Node = 8,
    /// Extended attributes of one inode.
    Xattrs = 9,
    /// The target of a symbolic link.
    Link = 10,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 10] = [
        Kind::Superblock,
        Kind::State,
        Kind::JournalHeader,
        Kind::Descriptor,
        Kind::Record,
        Kind::Bitmap,
        Kind::Table,
        Kind::Node,
        Kind::Xattrs,
        Kind::Link,
    ];

    /// Its number in a header.
    pub fn raw(self) -> u16 {
        self as u16
    }

    /// The kind of this number.
    pub fn of_raw(raw: u16) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.raw() == raw)
    }
}

/// A page of a kind, for a place, with nothing in it.
pub fn fresh(kind: Kind, number: u64, file_system: u64) -> Image {
    let mut page = [0; PAGE_BYTES];
    let header = head_mut(&mut page);
    header.kind = kind.raw().into();
    header.number = number.into();
    header.file_system = file_system.into();
    Arc::new(page)
}

/// The header of a page.
pub fn head(page: &PageBytes) -> &Header {
    of(page)
}

/// The header of a page, to be changed.
pub fn head_mut(page: &mut PageBytes) -> &mut Header {
    of_mut(page)
}

/// The structure that a page begins with.
pub fn of<T: FromBytes + KnownLayout + Immutable + Unaligned>(page: &PageBytes) -> &T {
    const { assert!(size_of::<T>() <= PAGE_BYTES) };
    let (value, _) = T::ref_from_prefix(page).expect("it fits and needs no alignment");
    value
}

/// The structure that a page begins with, to be changed.
pub fn of_mut<T: FromBytes + IntoBytes + KnownLayout + Unaligned>(page: &mut PageBytes) -> &mut T {
    const { assert!(size_of::<T>() <= PAGE_BYTES) };
    let (value, _) = T::mut_from_prefix(page).expect("it fits and needs no alignment");
    value
}

/// CRC32C of bytes.
pub fn crc(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Puts the generation and the checksum into a page that is to be written.
pub fn seal(page: &mut PageBytes, generation: u64) {
    head_mut(page).generation = generation.into();
    let crc = crc(&page[4..]);
    head_mut(page).crc = crc.into();
}

/// What a page on the media has to be.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Its kind.
    pub kind: Kind,
    /// Its place.
    pub number: u64,
    /// Its file system.
    pub file_system: u64,
    /// It is not newer.
    pub generation_max: u64,
}

/// Whether a page is what is wanted.
///
/// # Errors
/// [`Fault::Damaged`].
pub fn check(page: &PageBytes, wanted: Wanted) -> Result<(), Fault> {
    let header = head(page);
    let what = if header.crc.get() != crc(&page[4..]) {
        "its checksum does not match"
    } else if header.file_system.get() != wanted.file_system {
        "it belongs to another file system"
    } else if header.number.get() != wanted.number {
        "it belongs to another place"
    } else if header.kind.get() != wanted.kind.raw() {
        "it is of another kind"
    } else if header.generation.get() > wanted.generation_max {
        "it is newer than the newest transaction"
    } else {
        return Ok(());
    };
    Err(damaged(wanted.number, what))
}

/// The error of a page that does not hold what belongs there.
pub fn damaged(page: u64, what: &'static str) -> Fault {
    Fault::Damaged { page, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_obeyed_only_whole_and_at_its_place() {
        let mut page = *fresh(Kind::Table, 7, 99);
        page[100] = 1;
        seal(&mut page, 5);
        let wanted = Wanted {
            kind: Kind::Table,
            number: 7,
            file_system: 99,
            generation_max: 5,
        };
        assert_eq!(check(&page, wanted), Ok(()));
        for wrong in [
            Wanted {
                number: 8,
                ..wanted
            },
            Wanted {
                kind: Kind::Node,
                ..wanted
            },
            Wanted {
                file_system: 98,
                ..wanted
            },
            Wanted {
                generation_max: 4,
                ..wanted
            },
        ] {
            assert!(check(&page, wrong).is_err(), "{wrong:?}");
        }
        for byte in 0..PAGE_BYTES {
            let mut rotten = page;
            rotten[byte] ^= 0x10;
            assert!(check(&rotten, wanted).is_err(), "byte {byte}");
        }
        assert!(check(&[0; PAGE_BYTES], wanted).is_err());
    }
}
