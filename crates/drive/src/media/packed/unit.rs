//! A program unit and its directory: what an extent is, and how the directory lies in an image.
//!
//! A unit is `unit_pages` pages that are programmed together. It is divided into granules of 64
//! bytes; an *extent* is a run of granules that holds one logical page, and extents follow one
//! another without gaps. The *directory* says of each extent whose page it is and how long. It
//! lies in the unit's spare area, 64 bytes a page as flash has; what of it does not fit there takes
//! granules of the unit, on media of every kind alike.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::media::{LPN_MAX, Oob, PAGE_BYTES, STAMP_BYTES};

/// Bytes of a granule: what the length of an extent is rounded up to.
pub const GRANULE_BYTES: u32 = 64;
/// Granules of a page.
pub const PAGE_GRANULES: u32 = PAGE_BYTES / GRANULE_BYTES;
/// Most extents of a unit, for each of its pages.
pub const EXTENTS_PER_PAGE: u32 = 16;
/// Most pages of a unit.
pub const UNIT_PAGES_MAX: u32 = 16;
/// Bytes of the spare area, for each page of a unit.
const SPARE_BYTES_PER_PAGE: u32 = 64;
/// Longest page that is worth compressing: one granule less than the page.
pub const PACKED_BYTES_MAX: u32 = PAGE_BYTES - GRANULE_BYTES;

/// What the bytes of an extent are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// The page as it is.
    Raw = 0,
    /// The page, compressed by the drive's codec.
    Packed = 1,
    /// A page of zeros that takes the room of another: of drives that were filled beforehand.
    Filler = 2,
}

impl Form {
    /// The form of this number.
    pub fn of_number(number: u16) -> Option<Form> {
        [Form::Raw, Form::Packed, Form::Filler]
            .into_iter()
            .find(|form| *form as u16 == number)
    }
}

/// How a page is kept: its bytes on flash (of stamps those that the model says), and their form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// 1 to 4096.
    pub bytes: u16,
    /// What they are.
    pub form: Form,
}

impl Content {
    /// A page that is kept as it is.
    pub const RAW: Content = Content {
        bytes: PAGE_BYTES as u16,
        form: Form::Raw,
    };

    /// Granules that it takes.
    #[inline]
    pub fn granules(self) -> u32 {
        u32::from(self.bytes).div_ceil(GRANULE_BYTES)
    }

    /// Bytes that media keep of it, where a page holds `page_bytes`.
    #[inline]
    pub fn stored_bytes(self, page_bytes: usize) -> usize {
        match self.form {
            Form::Filler => 0,
            _ if page_bytes == STAMP_BYTES as usize => page_bytes,
            _ => self.bytes.into(),
        }
    }
}

/// An extent that is to be programmed.
#[derive(Debug, Clone, Copy)]
pub struct ExtentData<'a> {
    /// Whose page, and which version.
    pub oob: Oob,
    /// How it is kept.
    pub content: Content,
    /// What media keep of it: [`Content::stored_bytes`].
    pub data: &'a [u8],
}

/// Which unit is programmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitPlace {
    /// The erase block.
    pub block: u32,
    /// The unit within it.
    pub unit: u32,
    /// The number within the block of its first extent.
    pub first_extent: u32,
}

/// Granules that the directory of `extents` extents takes from a unit of `unit_pages` pages.
#[inline]
pub fn directory_granules(unit_pages: u32, extents: u32) -> u32 {
    let bytes = size_of::<UnitHeader>() as u32 + extents * size_of::<ExtentEntry>() as u32;
    bytes
        .saturating_sub(unit_pages * SPARE_BYTES_PER_PAGE)
        .div_ceil(GRANULE_BYTES)
}

/// Bytes that the largest directory of a unit takes in an image.
pub const fn directory_room(unit_pages: u32) -> u64 {
    let entries = (unit_pages * EXTENTS_PER_PAGE) as u64 * size_of::<ExtentEntry>() as u64;
    (size_of::<UnitHeader>() as u64 + entries).next_multiple_of(GRANULE_BYTES as u64)
}

/// The start of a unit's directory in an image. All zero: erased.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct UnitHeader {
    /// Sequence number of the first extent.
    pub seq_base: U64,
    /// Its number within the block.
    pub first_extent: U32,
    /// How many there are.
    pub extents: U16,
    /// 0.
    pub reserved: U16,
    /// The block's erase count at the program; a directory of an earlier life is void.
    pub epoch: U32,
    /// The unit that it belongs to, by its number in the core.
    pub unit: U32,
    /// Syncs with programs before them that the core had made at the program, from 1.
    pub sync_period: U32,
    /// Of the fields before and of all entries.
    pub crc: U32,
}

/// What a directory says of an extent.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ExtentEntry {
    /// Whose page.
    pub lpn: U32,
    /// The program's sequence number, less the header's.
    pub seq_offset: U32,
    /// How long it is.
    pub bytes: U16,
    /// The number of its [`Form`].
    pub form: U16,
    /// Of the bytes kept.
    pub data_crc: U32,
}

const _: () = assert!(size_of::<UnitHeader>() == 32 && size_of::<ExtentEntry>() == 16);

/// A directory that was read from an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// The number within the block of the first extent.
    pub first_extent: u32,
    /// The block's erase count at the program.
    pub epoch: u32,
    /// The sync period of the program.
    pub sync_period: u32,
    /// Each extent with the checksum of what is kept of it.
    pub extents: Vec<(Oob, Content, u32)>,
}

/// What lies where a directory may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing was written.
    Blank,
    /// A directory.
    Sound(Directory),
    /// Something that is none of this unit's.
    Damaged,
}

impl Directory {
    /// The directory as an image has it; `unit` is the unit's number in the core.
    pub fn encode(&self, unit: u32) -> Vec<u8> {
        let seq_base = self.extents.first().map_or(0, |(oob, ..)| oob.seq);
        let mut header = UnitHeader {
            seq_base: seq_base.into(),
            first_extent: self.first_extent.into(),
            extents: (self.extents.len() as u16).into(),
            reserved: 0.into(),
            epoch: self.epoch.into(),
            unit: unit.into(),
            sync_period: self.sync_period.into(),
            crc: 0.into(),
        };
        let entry = |(oob, content, data_crc): &(Oob, Content, u32)| ExtentEntry {
            lpn: oob.lpn.into(),
            seq_offset: u32::try_from(oob.seq - seq_base)
                .expect("a unit is open for less than 2^32 programs")
                .into(),
            bytes: content.bytes.into(),
            form: (content.form as u16).into(),
            data_crc: (*data_crc).into(),
        };
        let entries: Vec<ExtentEntry> = self.extents.iter().map(entry).collect();
        header.crc = checksum(&header, entries.as_bytes()).into();
        [header.as_bytes(), entries.as_bytes()].concat()
    }

    /// Reads the directory of unit number `unit` of a core, of `unit_pages` pages, from the bytes
    /// that are there for it.
    pub fn decode(bytes: &[u8], unit: u32, unit_pages: u32) -> Found {
        let Ok((header, rest)) = UnitHeader::ref_from_prefix(bytes) else {
            return Found::Damaged;
        };
        if header.as_bytes().iter().all(|byte| *byte == 0) {
            return Found::Blank;
        }
        let count = usize::from(header.extents.get());
        let Ok((entries, _)) = <[ExtentEntry]>::ref_from_prefix_with_elems(rest, count) else {
            return Found::Damaged;
        };
        let sound = header.unit == unit && header.crc == checksum(header, entries.as_bytes());
        let decoded = decode_entries(header.seq_base.get(), entries, unit_pages);
        match decoded.filter(|_| sound) {
            Some(extents) => Found::Sound(Directory {
                first_extent: header.first_extent.get(),
                epoch: header.epoch.get(),
                sync_period: header.sync_period.get(),
                extents,
            }),
            None => Found::Damaged,
        }
    }
}

/// The extents of a directory, if they fit the unit.
fn decode_entries(
    seq_base: u64,
    entries: &[ExtentEntry],
    unit_pages: u32,
) -> Option<Vec<(Oob, Content, u32)>> {
    let count = entries.len() as u32;
    let mut left =
        (unit_pages * PAGE_GRANULES).checked_sub(directory_granules(unit_pages, count))?;
    if count > unit_pages * EXTENTS_PER_PAGE {
        return None;
    }
    let decode = |entry: &ExtentEntry| {
        let content = Content {
            bytes: entry.bytes.get(),
            form: Form::of_number(entry.form.get())?,
        };
        let oob = Oob {
            lpn: entry.lpn.get(),
            seq: seq_base.checked_add(entry.seq_offset.get().into())?,
        };
        let in_range = (1..=PAGE_BYTES).contains(&content.bytes.into()) && oob.lpn <= LPN_MAX;
        left = left.checked_sub(content.granules())?;
        in_range.then_some((oob, content, entry.data_crc.get()))
    };
    entries.iter().map(decode).collect()
}

fn checksum(header: &UnitHeader, entries: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    let bytes = header.as_bytes();
    digest.update(&bytes[..bytes.len() - 4]);
    digest.update(entries);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(extents: u32) -> Directory {
        let extent = |i: u32| {
            let oob = Oob {
                lpn: i * 7,
                seq: 1 << 40 | u64::from(i),
            };
            let content = Content {
                bytes: 100 + i as u16,
                form: Form::Packed,
            };
            (oob, content, i)
        };
        Directory {
            first_extent: 12,
            epoch: 3,
            sync_period: 9,
            extents: (0..extents).map(extent).collect(),
        }
    }

    #[test]
    fn a_directory_comes_back_and_no_other_does() {
        let directory = directory(9);
        let mut bytes = directory.encode(77);
        bytes.resize(directory_room(4) as usize, 0);
        assert_eq!(
            Directory::decode(&bytes, 77, 4),
            Found::Sound(directory.clone())
        );
        assert_eq!(Directory::decode(&bytes, 78, 4), Found::Damaged);
        assert_eq!(Directory::decode(&[0; 1088], 77, 4), Found::Blank);
        // Nine extents of two granules fit a page, but for their number.
        assert!(matches!(Directory::decode(&bytes, 77, 1), Found::Sound(_)));
        for bit in 0..(32 + 9 * 16) * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                Directory::decode(&bytes, 77, 4),
                Found::Damaged,
                "bit {bit}"
            );
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn extents_that_a_unit_has_no_room_for_are_refused_whatever_their_checksum() {
        let mut whole = directory(5);
        for (_, content, _) in &mut whole.extents {
            *content = Content::RAW;
        }
        assert_eq!(Directory::decode(&whole.encode(1), 1, 4), Found::Damaged);
        whole.extents.pop();
        assert!(matches!(
            Directory::decode(&whole.encode(1), 1, 4),
            Found::Sound(_)
        ));
    }

    #[test]
    fn whole_pages_need_no_granules_for_their_directory() {
        for unit_pages in 1..=UNIT_PAGES_MAX {
            assert_eq!(directory_granules(unit_pages, unit_pages), 0);
        }
        assert_eq!(directory_granules(4, 14), 0);
        assert_eq!(directory_granules(4, 15), 1);
    }
}
