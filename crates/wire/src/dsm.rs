//! Dataset management: the list of ranges that a deallocate command points to.
//!
//! The list is an array of 16-byte entries at PRP1; 256 of them, the most a command can name,
//! fill a page exactly.

use crate::command::PAGE_BYTES;
use crate::status::StatusCode;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The most ranges of one command.
pub const RANGES_MAX: usize = 256;

/// One range of pages.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DsmRange {
    /// Context attributes: hints on coming accesses, which the drive does not use.
    pub attributes: u32,
    /// Number of pages, not 0-based; 0 is a range of nothing, and allowed.
    pub pages: u32,
    /// First page.
    pub slba: u64,
}

const _: () = assert!(size_of::<DsmRange>() == 16 && RANGES_MAX * 16 == PAGE_BYTES);

impl DsmRange {
    /// The range of `pages` pages from `slba` on.
    pub const fn new(slba: u64, pages: u32) -> DsmRange {
        DsmRange {
            attributes: 0,
            pages,
            slba,
        }
    }

    /// Refuses a range that does not lie within the first `namespace_pages` pages.
    ///
    /// # Errors
    /// [`StatusCode::LbaOutOfRange`], also if the sum of address and length overflows.
    pub const fn check(&self, namespace_pages: u64) -> Result<(), StatusCode> {
        match self.slba.checked_add(self.pages as u64) {
            Some(end) if end <= namespace_pages => Ok(()),
            _ => Err(StatusCode::LbaOutOfRange),
        }
    }
}

/// A list of ranges that cannot be written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DsmError {
    /// A command names 1 to 256 ranges.
    #[error("{0} ranges in one dataset management command: split them, a command takes 1 to 256")]
    Count(usize),
    /// The buffer cannot hold the list.
    #[error("a buffer of {bytes} bytes is too small for {ranges} ranges of 16 bytes each")]
    Buffer {
        /// Bytes of the buffer.
        bytes: usize,
        /// Ranges of the list.
        ranges: usize,
    },
}

/// Writes `ranges` to the start of `buffer` and returns how many they are, for
/// [`Command::deallocate`](crate::command::Command::deallocate).
///
/// # Errors
/// If there are none, more than 256, or more than the buffer holds; the buffer is unchanged then.
pub fn write_ranges(ranges: &[DsmRange], buffer: &mut [u8]) -> Result<u32, DsmError> {
    if ranges.is_empty() || ranges.len() > RANGES_MAX {
        return Err(DsmError::Count(ranges.len()));
    }
    let bytes = buffer.len();
    ranges
        .write_to_prefix(buffer)
        .map_err(|_| DsmError::Buffer {
            bytes,
            ranges: ranges.len(),
        })?;
    Ok(ranges.len() as u32)
}

/// The first `count` ranges of the list in `buffer`, as they stand (unchecked).
///
/// # Errors
/// If `count` is not in 1..=256 or the buffer is shorter than the list.
pub fn read_ranges(buffer: &[u8], count: u32) -> Result<impl Iterator<Item = DsmRange>, DsmError> {
    let count = count as usize;
    if count == 0 || count > RANGES_MAX {
        return Err(DsmError::Count(count));
    }
    let bytes = count * size_of::<DsmRange>();
    let list = buffer.get(..bytes).ok_or(DsmError::Buffer {
        bytes: buffer.len(),
        ranges: count,
    })?;
    let (entries, _) = list.as_chunks::<{ size_of::<DsmRange>() }>();
    Ok(entries.iter().map(|entry| zerocopy::transmute!(*entry)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_ranges(count: u32) -> Vec<DsmRange> {
        (0..count)
            .map(|i| DsmRange::new(u64::from(i) << 33 | 7, i * 3))
            .collect()
    }

    #[test]
    fn lists_of_every_length_come_back() {
        for count in 1..=256 {
            let ranges = some_ranges(count);
            let mut page = [0xee; PAGE_BYTES];
            assert_eq!(write_ranges(&ranges, &mut page), Ok(count));
            assert_eq!(
                read_ranges(&page, count).unwrap().collect::<Vec<_>>(),
                ranges
            );
            assert!(page[count as usize * 16..].iter().all(|&b| b == 0xee));
        }
    }

    #[test]
    fn a_list_may_begin_at_any_byte() {
        let ranges = some_ranges(5);
        let mut buffer = [0; 81];
        write_ranges(&ranges, &mut buffer[1..]).unwrap();
        assert!(read_ranges(&buffer[1..], 5).unwrap().eq(ranges));
    }

    #[test]
    fn bad_counts_and_short_buffers_are_refused_with_a_reason() {
        let mut page = [0; PAGE_BYTES];
        assert_eq!(write_ranges(&[], &mut page), Err(DsmError::Count(0)));
        assert_eq!(
            write_ranges(&some_ranges(257), &mut page),
            Err(DsmError::Count(257))
        );
        let short = DsmError::Buffer {
            bytes: 31,
            ranges: 2,
        };
        let mut buffer = [1; 31];
        assert_eq!(write_ranges(&some_ranges(2), &mut buffer), Err(short));
        assert_eq!(buffer, [1; 31]);
        assert_eq!(read_ranges(&page[..31], 2).err(), Some(short));
        assert_eq!(read_ranges(&page, 0).err(), Some(DsmError::Count(0)));
        assert_eq!(read_ranges(&page, 257).err(), Some(DsmError::Count(257)));
        assert_eq!(
            short.to_string(),
            "a buffer of 31 bytes is too small for 2 ranges of 16 bytes each"
        );
    }

    #[test]
    fn a_range_must_end_within_the_namespace() {
        assert_eq!(DsmRange::new(0, 100).check(100), Ok(()));
        assert_eq!(DsmRange::new(100, 0).check(100), Ok(()));
        for (slba, pages) in [(1, 100), (101, 0), (u64::MAX, 1), (u64::MAX - 1, u32::MAX)] {
            let verdict = DsmRange::new(slba, pages).check(100);
            assert_eq!(verdict, Err(StatusCode::LbaOutOfRange), "{slba} + {pages}");
        }
    }

    #[test]
    fn the_bytes_are_in_place() {
        let range = DsmRange {
            attributes: 1,
            pages: 2,
            slba: 3,
        };
        assert_eq!(
            range.as_bytes(),
            [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]
        );
    }
}
