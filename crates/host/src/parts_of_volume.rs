//! VolumeParts of a volume as files: equal parts, one after another, for caches that have an index for each file.
//!
//! A page's file is found by one division. The last file is shorter where the parts do not come out even; with
//! more files than pages the last ones are empty.

use std::ops::Range;

use wharf_wire::dma::PAGE_BYTES;

use crate::key::PageKey;
use crate::span::Extent;

const PAGE: u64 = PAGE_BYTES as u64;

/// How a volume is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeParts {
    count: u32,
    /// Pages of the volume.
    pages: u64,
    /// Pages of every file but the last.
    file_pages: u64,
}

/// The part of a request that is in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The file.
    pub file: u32,
    /// The bytes within the file.
    pub extent: Extent,
    /// The bytes of the request's payload.
    pub payload: Range<usize>,
}

impl VolumeParts {
    /// A volume of `pages` pages as `count` files, one at least.
    pub fn new(count: u32, pages: u64) -> VolumeParts {
        let count = count.max(1);
        VolumeParts {
            count,
            pages,
            file_pages: pages.div_ceil(count.into()).max(1),
        }
    }

    /// Their number.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The file of a page of the volume, and the page there.
    #[inline]
    pub fn key(&self, page: u64) -> PageKey {
        match self.count {
            1 => PageKey::new(0, page),
            _ => PageKey::new((page / self.file_pages) as u32, page % self.file_pages),
        }
    }

    /// The first page of a file within the volume.
    #[inline]
    fn first_page(&self, file: u32) -> u64 {
        u64::from(file) * self.file_pages
    }

    /// Page `page` of a file, as a page of the volume.
    #[inline]
    pub fn in_volume(&self, file: u32, page: u64) -> u64 {
        self.first_page(file) + page
    }

    /// Pages of a file.
    #[inline]
    pub fn pages_of(&self, file: u32) -> u64 {
        let rest = self.pages.saturating_sub(self.first_page(file));
        rest.min(self.file_pages)
    }

    /// The parts of a request, in order, when a page has `page_bytes` bytes as stored.
    #[inline]
    pub fn pieces(&self, extent: Extent, page_bytes: usize) -> impl Iterator<Item = Piece> + use<> {
        let (parts, end) = (*self, extent.offset + extent.bytes);
        let (mut at, mut payload) = (extent.offset, 0);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let file = parts.key(at / PAGE).file();
            let start = parts.first_page(file) * PAGE;
            let bytes = (start + parts.file_pages * PAGE).min(end) - at;
            let extent = Extent::new(at - start, bytes);
            let from = payload;
            at += bytes;
            payload += extent.payload_bytes(page_bytes);
            Some(Piece {
                file,
                extent,
                payload: from..payload,
            })
        })
    }

    /// The files that an extent touches, with the first and the last page of it in each.
    pub fn ranges(&self, extent: Extent) -> impl Iterator<Item = (u32, (u64, u64))> + use<> {
        self.pieces(extent, PAGE_BYTES).map(|piece| {
            let first = piece.extent.first_page();
            (piece.file, (first, first + piece.extent.pages() - 1))
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::span::spans;

    #[test]
    fn every_page_is_in_one_file_and_files_come_one_after_another() {
        for (count, pages) in [(1, 10), (3, 10), (4, 8), (7, 5), (64, 1_000)] {
            let parts = VolumeParts::new(count, pages);
            let sum: u64 = (0..count).map(|file| parts.pages_of(file)).sum();
            assert_eq!(sum, pages);
            for page in 0..pages {
                let key = parts.key(page);
                assert!(key.file() < count && key.page() < parts.pages_of(key.file()));
                assert_eq!(parts.in_volume(key.file(), key.page()), page);
            }
        }
    }

    #[test]
    fn the_pieces_of_a_request_are_the_request() {
        let parts = VolumeParts::new(4, 10); // 3, 3, 3 and 1 pages
        for page_bytes in [4096, 8] {
            for (offset, bytes) in [(0, 40_960), (100, 20_000), (12_287, 2), (36_864, 4_096)] {
                let extent = Extent::new(offset, bytes);
                let whole: Vec<_> = spans(extent, page_bytes)
                    .map(|span| (parts.key(span.page), span.from, span.len, span.in_payload()))
                    .collect();
                let mut found = Vec::new();
                for piece in parts.pieces(extent, page_bytes) {
                    for span in spans(piece.extent, page_bytes) {
                        let at = span.in_payload();
                        let payload = piece.payload.start + at.start..piece.payload.start + at.end;
                        assert!(payload.end <= piece.payload.end);
                        found.push((
                            PageKey::new(piece.file, span.page),
                            span.from,
                            span.len,
                            payload,
                        ));
                    }
                }
                assert_eq!(found, whole);
            }
        }
        assert_eq!(parts.pieces(Extent::new(7, 0), 4096).next(), None);
    }

    #[test]
    fn a_range_of_files_is_given_by_its_pages() {
        let parts = VolumeParts::new(4, 10);
        let ranges: Vec<_> = parts.ranges(Extent::new(2 * PAGE + 1, 5 * PAGE)).collect();
        assert_eq!(ranges, [(0, (2, 2)), (1, (0, 2)), (2, (0, 1))]);
    }
}
