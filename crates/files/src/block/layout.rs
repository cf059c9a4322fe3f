//! Where everything is on the media.
//!
//! | pages | contents |
//! |---|---|
//! | 0 | superblock |
//! | 1 | state |
//! | 2 and on | journal: two headers, then the ring |
//! | behind it | groups of 64 MiB: a bitmap page, inode tables, pages for files and trees |
//! | the last | superblock once more |
//!
//! All places follow from the number of pages; the superblock says them too, so that a reader sees
//! at once if it computes them otherwise.

use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::page::{self, Header, Image, Kind, Wanted};
use crate::errno::Fault;
use crate::pages::{PAGE_BYTES, PageBytes, Run};

/// What a superblock begins with.
pub const MAGIC: [u8; 8] = *b"wharfwfs";

/// Version of the format.
pub const VERSION: u32 = 1;

/// The page of the superblock; its copy is in the last page.
pub const SUPERBLOCK_PAGE: u64 = 0;

/// The page of the state.
pub const STATE_PAGE: u64 = 1;

/// The first page of the journal.
pub const JOURNAL_PAGE: u64 = 2;

/// Pages of a whole group: 64 MiB.
pub const GROUP_PAGES: u64 = 16_384;

/// The last group has at least so many, or is not there.
pub const GROUP_PAGES_MIN: u64 = 64;

/// A group has a page of inodes for each of so many pages.
pub const PAGES_PER_TABLE: u64 = 60;

/// Inodes of a page.
pub const INODES_PER_TABLE: u64 = 15;

/// Bytes of an inode.
pub const INODE_BYTES: usize = 256;

/// Fewest pages of a file system: 1 MiB.
pub const PAGES_MIN: u64 = 256;

/// Most pages of a file system: page numbers have 48 bits, slots of inodes 32.
pub const PAGES_MAX: u64 = 1 << 34;

/// What never changes of a file system.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// Of the page.
    pub header: Header,
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: U32,
    /// Bytes of a page: 4096.
    pub page_bytes: U32,
    /// Pages of the file system.
    pub pages: U64,
    /// First page of the journal.
    pub journal_first: U64,
    /// Pages of the journal, headers among them.
    pub journal_pages: U64,
    /// First page of the first group.
    pub groups_first: U64,
    /// Number of groups.
    pub groups: U64,
    /// Pages of a whole group.
    pub group_pages: U32,
    /// Bytes of an inode.
    pub inode_bytes: U32,
    /// Key of the hash of names in directories.
    pub hash_key: [U64; 2],
    /// When it was made, in nanoseconds.
    pub made_ns: U64,
}

/// What belongs to no group.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct State {
    /// Of the page.
    pub header: Header,
    /// The first inode of the list of those that are to be cut or given back; 0 if there is none.
    pub orphan_first: U64,
}

/// Where everything is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Pages of the file system.
    pub pages: u64,
    /// The journal.
    pub journal: Run,
    /// First page of the first group.
    pub groups_first: u64,
    /// Number of groups.
    pub groups: u64,
    /// Which file system it is.
    pub file_system: u64,
    /// Key of the hash of names.
    pub hash_key: [u64; 2],
}

/// The parts of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub number: u64,
    /// Its bitmap page, which is its first page.
    pub first: u64,
    /// Its pages.
    pub pages: u64,
    /// Pages of inodes, behind the bitmap.
    pub tables: u64,
}

impl Group {
    /// The first of its pages for files and trees, counted from its first.
    pub fn data_from(&self) -> u64 {
        1 + self.tables
    }

    /// Its inodes.
    pub fn inodes(&self) -> u64 {
        self.tables * INODES_PER_TABLE
    }
}

/// Slots of inodes that a group takes up among all, whether it has them or not.
pub const SLOTS_PER_GROUP: u64 = GROUP_PAGES / PAGES_PER_TABLE * INODES_PER_TABLE;

impl Geometry {
    /// The places of a file system of `pages` pages; `None` if there are too few or too many.
    pub fn new(pages: u64, file_system: u64, hash_key: [u64; 2]) -> Option<Geometry> {
        if !(PAGES_MIN..=PAGES_MAX).contains(&pages) {
            return None;
        }
        let journal = Run::new(JOURNAL_PAGE, (pages / 64).clamp(128, 8192));
        let groups_first = journal.end();
        let room = pages - 1 - groups_first;
        let short = u64::from(room % GROUP_PAGES >= GROUP_PAGES_MIN);
        Some(Geometry {
            pages,
            journal,
            groups_first,
            groups: room / GROUP_PAGES + short,
            file_system,
            hash_key,
        })
    }

    /// A group by its number, which is below [`Geometry::groups`].
    pub fn group(&self, number: u64) -> Group {
        debug_assert!(number < self.groups);
        let first = self.groups_first + number * GROUP_PAGES;
        let pages = (self.pages - 1 - first).min(GROUP_PAGES);
        Group {
            number,
            first,
            pages,
            tables: (pages / PAGES_PER_TABLE).max(1),
        }
    }

    /// The group that all pages of a run lie in, behind its tables; `None` if there is none.
    pub fn group_of(&self, run: Run) -> Option<Group> {
        let number = run.first.checked_sub(self.groups_first)? / GROUP_PAGES;
        if number >= self.groups || run.pages == 0 {
            return None;
        }
        let group = self.group(number);
        let is_inside = run.first >= group.first + group.data_from()
            && run.pages <= GROUP_PAGES
            && run.end() <= group.first + group.pages;
        is_inside.then_some(group)
    }

    /// The group whose bitmap a page is.
    pub fn group_of_bitmap(&self, page: u64) -> Option<Group> {
        let number = page.checked_sub(self.groups_first)? / GROUP_PAGES;
        let group = (number < self.groups).then(|| self.group(number));
        group.filter(|group| group.first == page)
    }

    /// The page of an inode and its index there, by its slot among all; `None` if there is none.
    pub fn inode_place(&self, slot: u64) -> Option<(u64, usize)> {
        let (number, index) = (slot / SLOTS_PER_GROUP, slot % SLOTS_PER_GROUP);
        if number >= self.groups {
            return None;
        }
        let group = self.group(number);
        let page = group.first + 1 + index / INODES_PER_TABLE;
        (index < group.inodes()).then_some((page, (index % INODES_PER_TABLE) as usize))
    }

    /// The page of the copy of the superblock.
    pub fn superblock_copy(&self) -> u64 {
        self.pages - 1
    }

    /// Pages of the ring of the journal.
    pub fn ring_pages(&self) -> u64 {
        self.journal.pages - 2
    }

    /// The superblock, for page `number`, sealed.
    pub fn superblock(&self, number: u64, made_ns: u64) -> Image {
        let mut image = page::fresh(Kind::Superblock, number, self.file_system);
        let bytes = std::sync::Arc::make_mut(&mut image);
        let superblock: &mut Superblock = page::of_mut(bytes);
        superblock.magic = MAGIC;
        superblock.version = VERSION.into();
        superblock.page_bytes = (PAGE_BYTES as u32).into();
        superblock.pages = self.pages.into();
        superblock.journal_first = self.journal.first.into();
        superblock.journal_pages = self.journal.pages.into();
        superblock.groups_first = self.groups_first.into();
        superblock.groups = self.groups.into();
        superblock.group_pages = (GROUP_PAGES as u32).into();
        superblock.inode_bytes = (INODE_BYTES as u32).into();
        superblock.hash_key = self.hash_key.map(U64::new);
        superblock.made_ns = made_ns.into();
        page::seal(bytes, 0);
        image
    }

    /// Reads a superblock that was found in page `number` of a medium of `pages` pages.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn from_superblock(bytes: &PageBytes, number: u64, pages: u64) -> Result<Geometry, Fault> {
        let superblock: &Superblock = page::of(bytes);
        if superblock.magic != MAGIC {
            return Err(page::damaged(number, "it is no superblock"));
        }
        let file_system = superblock.header.file_system.get();
        page::check(
            bytes,
            Wanted {
                kind: Kind::Superblock,
                number,
                file_system,
                generation_max: 0,
            },
        )?;
        if superblock.version.get() != VERSION {
            return Err(page::damaged(
                number,
                "the version of the format is another",
            ));
        }
        let said = superblock.pages.get();
        if said > pages {
            return Err(page::damaged(
                number,
                "the medium is smaller than the file system",
            ));
        }
        let hash_key = superblock.hash_key.map(U64::get);
        let geometry = Geometry::new(said, file_system, hash_key)
            .ok_or(page::damaged(number, "no file system has so many pages"))?;
        let expected = geometry.superblock(number, superblock.made_ns.get());
        match expected[..] == bytes[..] {
            true => Ok(geometry),
            false => Err(page::damaged(
                number,
                "its places are not those of the format",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_tables_fill_the_media_without_overlap() {
        for pages in [256, 257, 300, 1000, 16_384, 16_600, 40_000, 1 << 20] {
            let geometry = Geometry::new(pages, 1, [2, 3]).unwrap();
            assert!(geometry.groups > 0, "{pages}");
            let mut end = geometry.journal.end();
            for number in 0..geometry.groups {
                let group = geometry.group(number);
                assert_eq!(group.first, end, "{pages} {number}");
                end = group.first + group.pages;
                assert!(group.data_from() < group.pages);
                let last = Run::one(end - 1);
                assert_eq!(geometry.group_of(last), Some(group));
                assert_eq!(geometry.group_of(Run::new(end - 1, 2)), None);
                assert_eq!(geometry.group_of(Run::one(group.first)), None);
            }
            assert!(end < pages, "the copy of the superblock has its page");
            assert!(pages - end <= GROUP_PAGES_MIN, "{pages}");
        }
        assert_eq!(Geometry::new(255, 1, [2, 3]), None);
    }

    #[test]
    fn whole_groups_have_273_tables() {
        let geometry = Geometry::new(1 << 20, 1, [2, 3]).unwrap();
        assert_eq!(geometry.group(0).tables, 273);
        assert_eq!(SLOTS_PER_GROUP, 273 * 15);
        let (page, index) = geometry.inode_place(SLOTS_PER_GROUP + 16).unwrap();
        assert_eq!((page, index), (geometry.group(1).first + 2, 1));
        assert_eq!(geometry.inode_place(u64::MAX), None);
    }

    #[test]
    fn a_superblock_that_says_other_places_is_refused() {
        let geometry = Geometry::new(5000, 9, [2, 3]).unwrap();
        let image = geometry.superblock(0, 77);
        assert_eq!(Geometry::from_superblock(&image, 0, 5000), Ok(geometry));
        assert!(Geometry::from_superblock(&image, 0, 4999).is_err());
        assert!(Geometry::from_superblock(&image, 1, 5000).is_err());
        let mut other = *image;
        page::of_mut::<Superblock>(&mut other).groups = 7.into();
        page::seal(&mut other, 0);
        assert!(Geometry::from_superblock(&other, 0, 5000).is_err());
    }
}
