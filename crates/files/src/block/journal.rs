//! The form of the journal: groups of page images in a ring.
//!
//! A *group* is what is committed together: the images of all pages that its transactions changed,
//! and the numbers of pages of metadata that they gave back. It lies in the ring as sections, each
//! a [`Descriptor`] with the images that it lists behind it, and ends with a [`Record`]. The record
//! is written when all before it is durable, so a record that is there without a whole group before
//! it means damage, and never the end.
//!
//! The two journal headers are written in turn, and say where the first group is that may not be at
//! home yet. The one with the higher serial counts, if both are whole.

use std::sync::Arc;

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::layout::Geometry;
use super::page::{self, Header, Image, Kind, Wanted};
use crate::errno::Fault;
use crate::pages::{PAGE_BYTES, PageBytes, Run};

/// Entries of a descriptor.
pub const ENTRIES: usize = 506;

/// Where the journal begins.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct JournalHeader {
    /// Of the page; its generation is the serial of this header.
    pub header: Header,
    /// The number of the first group that may not be at home yet, or of the next one.
    pub group: U64,
    /// The page of the ring where it begins, from 0.
    pub at: U64,
    /// The newest transaction of the groups before it.
    pub transaction: U64,
}

/// Which pages follow in a section of a group.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Descriptor {
    /// Of the page; its generation is the number of the group.
    pub header: Header,
    /// The number of the group.
    pub group: U64,
    /// Which section of the group it is, from 0.
    pub section: U32,
    /// Entries, from the first on, that are the homes of the images behind this page, in order.
    pub images: U16,
    /// Entries behind them that are pages of metadata which were given back.
    pub given_back: U16,
    /// Page numbers.
    pub entries: [U64; ENTRIES],
}

/// The end of a group.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Record {
    /// Of the page; its generation is the number of the group.
    pub header: Header,
    /// The number of the group.
    pub group: U64,
    /// Pages of the group, without this one.
    pub pages: U64,
    /// The newest transaction of the group.
    pub transaction: U64,
    /// CRC32C of the pages of the group, without this one, in their order.
    pub crc: U32,
    /// 0.
    pub reserved: U32,
}

const _: () = assert!(size_of::<Descriptor>() == PAGE_BYTES);

/// Where the journal begins, as its header says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// Serial of the header.
    pub serial: u64,
    /// First group that may not be at home.
    pub group: u64,
    /// Its first page in the ring.
    pub at: u64,
    /// Newest transaction before it.
    pub transaction: u64,
}

impl Tail {
    /// The page of a header, which is even serials' first and odd ones' second page.
    fn page(geometry: &Geometry, serial: u64) -> u64 {
        geometry.journal.first + serial % 2
    }

    /// The page where this is to be written, and its bytes.
    pub fn to_page(self, geometry: &Geometry) -> (u64, Image) {
        let number = Tail::page(geometry, self.serial);
        let mut image = page::fresh(Kind::JournalHeader, number, geometry.file_system);
        let bytes = Arc::make_mut(&mut image);
        let header: &mut JournalHeader = page::of_mut(bytes);
        header.group = self.group.into();
        header.at = self.at.into();
        header.transaction = self.transaction.into();
        page::seal(bytes, self.serial);
        (number, image)
    }

    fn of(bytes: &PageBytes, number: u64, geometry: &Geometry) -> Result<Tail, Fault> {
        page::check(bytes, wanted(geometry, Kind::JournalHeader, number))?;
        let header: &JournalHeader = page::of(bytes);
        let tail = Tail {
            serial: header.header.generation.get(),
            group: header.group.get(),
            at: header.at.get(),
            transaction: header.transaction.get(),
        };
        let is_sound = tail.at < geometry.ring_pages()
            && Tail::page(geometry, tail.serial) == number
            && tail.group <= u64::MAX / 2
            && tail.transaction <= u64::MAX / 2;
        match is_sound {
            true => Ok(tail),
            false => Err(page::damaged(number, "it says an impossible place")),
        }
    }

    /// What the two headers say, `pages` being both, side by side.
    ///
    /// # Errors
    /// [`Fault::Damaged`] if neither of them is whole.
    pub fn newer(pages: &[u8], geometry: &Geometry) -> Result<Tail, Fault> {
        let numbers = geometry.journal.first..;
        let pages = numbers.zip(pages.as_chunks::<PAGE_BYTES>().0);
        let tails = pages.map(|(number, bytes)| Tail::of(bytes, number, geometry));
        let found = tails.clone().filter_map(Result::ok);
        let newest = found.max_by_key(|tail| tail.serial);
        let first = || tails.clone().find_map(Result::err);
        newest.ok_or_else(|| first().unwrap_or(Fault::Flush))
    }
}

impl Tail {
    /// How many of the two headers are whole.
    pub fn whole(pages: &[u8], geometry: &Geometry) -> usize {
        let numbers = geometry.journal.first..;
        let pages = numbers.zip(pages.as_chunks::<PAGE_BYTES>().0);
        pages
            .filter(|(number, bytes)| Tail::of(bytes, *number, geometry).is_ok())
            .count()
    }
}

/// A page of the journal of any age.
pub fn wanted(geometry: &Geometry, kind: Kind, number: u64) -> Wanted {
    Wanted {
        kind,
        number,
        file_system: geometry.file_system,
        generation_max: u64::MAX / 2,
    }
}

/// Pages of the ring that a group takes, with its record.
pub fn pages_of_group(images: usize, given_back: usize) -> u64 {
    let sections = (images + given_back).div_ceil(ENTRIES).max(1);
    (sections + images + 1) as u64
}

/// The runs of pages of the medium that are `pages` pages of the ring from `at` on.
pub fn ring_runs(geometry: &Geometry, at: u64, pages: u64) -> Vec<Run> {
    let (ring, first) = (geometry.ring_pages(), geometry.journal.first + 2);
    debug_assert!(at < ring && pages <= ring);
    let until_wrap = pages.min(ring - at);
    let runs = [
        Run::new(first + at, until_wrap),
        Run::new(first, pages - until_wrap),
    ];
    runs.into_iter().filter(|run| run.pages > 0).collect()
}

/// The page of the medium that is page `at` of the ring, which goes round.
pub fn ring_page(geometry: &Geometry, at: u64) -> u64 {
    geometry.journal.first + 2 + at % geometry.ring_pages()
}

/// The bytes of a group as it is written at `at` of the ring: its pages, and its record.
///
/// The images are sealed already; `images` are in the order in which they are written.
pub fn encode(
    geometry: &Geometry,
    group: u64,
    at: u64,
    images: &[(u64, Image)],
    given_back: &[u64],
    transaction: u64,
) -> (Vec<u8>, Image) {
    let total = pages_of_group(images.len(), given_back.len());
    let mut bytes = Vec::with_capacity((total as usize - 1) * PAGE_BYTES);
    let sections = (images.len() + given_back.len()).div_ceil(ENTRIES).max(1);
    let (mut images_left, mut given_left) = (images, given_back);
    for section in 0..sections {
        let here = images_left.len().min(ENTRIES);
        let (now, later) = images_left.split_at(here);
        let (given_now, given_later) = given_left.split_at(given_left.len().min(ENTRIES - here));
        (images_left, given_left) = (later, given_later);
        let number = ring_page(geometry, at + (bytes.len() / PAGE_BYTES) as u64);
        let mut head = page::fresh(Kind::Descriptor, number, geometry.file_system);
        let head = Arc::make_mut(&mut head);
        let descriptor: &mut Descriptor = page::of_mut(head);
        descriptor.group = group.into();
        descriptor.section = (section as u32).into();
        descriptor.images = (now.len() as u16).into();
        descriptor.given_back = (given_now.len() as u16).into();
        let numbers = now.iter().map(|(home, _)| home).chain(given_now);
        for (entry, number) in descriptor.entries.iter_mut().zip(numbers) {
            *entry = (*number).into();
        }
        page::seal(head, group);
        bytes.extend_from_slice(head);
        now.iter()
            .for_each(|(_, image)| bytes.extend_from_slice(&image[..]));
    }
    let number = ring_page(geometry, at + total - 1);
    let mut record = page::fresh(Kind::Record, number, geometry.file_system);
    let end = Arc::make_mut(&mut record);
    let fields: &mut Record = page::of_mut(end);
    fields.group = group.into();
    fields.pages = (total - 1).into();
    fields.transaction = transaction.into();
    fields.crc = page::crc(&bytes).into();
    page::seal(end, group);
    (bytes, record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_as_many_pages_as_it_is_said_to() {
        let geometry = Geometry::new(1 << 20, 5, [0; 2]).unwrap();
        for (images, given_back) in [
            (0, 0),
            (1, 0),
            (0, 1),
            (506, 0),
            (507, 3),
            (500, 7),
            (3, 1500),
        ] {
            let image = |home| (home, page::fresh(Kind::Node, home, 5));
            let images: Vec<_> = (1000..1000 + images).map(image).collect();
            let given: Vec<u64> = (0..given_back).collect();
            let (bytes, record) = encode(&geometry, 9, 8180, &images, &given, 44);
            let pages = pages_of_group(images.len(), given.len());
            assert_eq!(bytes.len() as u64, (pages - 1) * PAGE_BYTES as u64);
            let place = ring_page(&geometry, 8180 + pages - 1);
            let wanted = wanted(&geometry, Kind::Record, place);
            assert_eq!(page::check(&record, wanted), Ok(()));
        }
    }

    #[test]
    fn the_newer_header_counts_and_one_is_enough() {
        let geometry = Geometry::new(1000, 5, [0; 2]).unwrap();
        let tail = |serial| Tail {
            serial,
            group: serial,
            at: 3,
            transaction: 9,
        };
        let mut pages = vec![0; 2 * PAGE_BYTES];
        assert!(Tail::newer(&pages, &geometry).is_err());
        for serial in 6..9 {
            let (number, image) = tail(serial).to_page(&geometry);
            let at = (number - geometry.journal.first) as usize * PAGE_BYTES;
            pages[at..at + PAGE_BYTES].copy_from_slice(&image[..]);
            assert_eq!(Tail::newer(&pages, &geometry), Ok(tail(serial)));
        }
        pages[99] ^= 1;
        assert_eq!(Tail::newer(&pages, &geometry), Ok(tail(7)));
        pages.rotate_left(PAGE_BYTES);
        assert!(
            Tail::newer(&pages, &geometry).is_err(),
            "both are misplaced"
        );
    }
}
