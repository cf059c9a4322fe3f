//! Requests as the pages they touch.
//!
//! A request is an [`Extent`] of bytes, anywhere. Caches and drives deal in pages of 4096 bytes:
//! [`spans`] gives the touched pages in order, and for each which of its bytes the request
//! covers and where in the payload they are.
//!
//! With *stamps* a page has 8 bytes that name its last write, and the payload has 8 bytes for each
//! touched page. A request that covers a page in part takes or replaces all 8; whether the page is
//! covered whole, and so need not be read before it is written, is told from the extent all
//! the same.

use std::ops::Range;

use wharf_wire::dma::PAGE_BYTES;

const PAGE: u64 = PAGE_BYTES as u64;

/// A run of bytes of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Number of bytes. Offset and bytes add up to less than 2^64.
    pub bytes: u64,
}

impl Extent {
    /// The `bytes` bytes from `offset` on.
    pub fn new(offset: u64, bytes: u64) -> Extent {
        Extent { offset, bytes }
    }

    /// `pages` whole pages from page `first` on.
    pub fn of_pages(first: u64, pages: u64) -> Extent {
        Extent::new(first * PAGE, pages * PAGE)
    }

    /// The first page it touches, if it touches any.
    #[inline]
    pub fn first_page(&self) -> u64 {
        self.offset / PAGE
    }

    /// Number of pages that it touches.
    #[inline]
    pub fn pages(&self) -> u64 {
        if self.bytes == 0 {
            return 0;
        }
        (self.offset + (self.bytes - 1)) / PAGE - self.first_page() + 1
    }

    /// The pages that it covers whole.
    pub fn whole_pages(&self) -> Extent {
        let first = self.offset.div_ceil(PAGE);
        let end = (self.offset + self.bytes) / PAGE;
        Extent::of_pages(first, end.saturating_sub(first))
    }

    /// Bytes of the payload, when a page has `page_bytes` bytes (4096, or 8 for stamps).
    #[inline]
    pub fn payload_bytes(&self, page_bytes: usize) -> usize {
        if page_bytes == PAGE_BYTES {
            self.bytes as usize
        } else {
            self.pages() as usize * page_bytes
        }
    }
}

/// One touched page of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// The page.
    pub page: u64,
    /// Where the span begins in the payload.
    pub payload: usize,
    /// First byte within the page as stored.
    pub from: u16,
    /// Bytes within the page as stored.
    pub len: u16,
    /// Whether the request covers the page whole.
    pub whole: bool,
}

impl Span {
    /// An extent that lies within one page, where pages are stored as they are.
    #[inline(always)]
    pub fn within_page(extent: Extent) -> Option<Span> {
        let from = extent.offset % PAGE;
        let fits = (1..=PAGE - from).contains(&extent.bytes);
        fits.then_some(Span {
            page: extent.first_page(),
            payload: 0,
            from: from as u16,
            len: extent.bytes as u16,
            whole: extent.bytes == PAGE,
        })
    }

    /// The bytes within the page as stored.
    #[inline]
    pub fn in_page(&self) -> Range<usize> {
        usize::from(self.from)..usize::from(self.from) + usize::from(self.len)
    }

    /// The bytes within the payload.
    #[inline]
    pub fn in_payload(&self) -> Range<usize> {
        self.payload..self.payload + usize::from(self.len)
    }
}

/// The touched pages of a request, in order. See [`spans`].
#[derive(Debug, Clone)]
pub struct Spans {
    at: u64,
    end: u64,
    payload: usize,
    stamp_bytes: Option<u16>,
}

/// The pages that `extent` touches, when a page has `page_bytes` bytes as stored.
#[inline]
pub fn spans(extent: Extent, page_bytes: usize) -> Spans {
    Spans {
        at: extent.offset,
        end: extent.offset + extent.bytes,
        payload: 0,
        stamp_bytes: (page_bytes != PAGE_BYTES).then_some(page_bytes as u16),
    }
}

impl Iterator for Spans {
    type Item = Span;

    #[inline]
    fn next(&mut self) -> Option<Span> {
        if self.at >= self.end {
            return None;
        }
        let page = self.at / PAGE;
        let from = self.at % PAGE;
        let len = (self.end - self.at).min(PAGE - from);
        let (stored_from, stored_len) = match self.stamp_bytes {
            None => (from as u16, len as u16),
            Some(bytes) => (0, bytes),
        };
        let span = Span {
            page,
            payload: self.payload,
            from: stored_from,
            len: stored_len,
            whole: len == PAGE,
        };
        self.at += len;
        self.payload += usize::from(stored_len);
        Some(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf_runtime::Seed;
    use wharf_wire::dma::STAMP_BYTES;

    #[test]
    fn spans_cover_every_byte_once_and_in_order() {
        let mut rng = Seed(11).rng();
        for _ in 0..2_000 {
            let extent = Extent::new(rng.below(20_000), rng.below(30_000));
            let mut at = extent.offset;
            let mut count = 0;
            for span in spans(extent, PAGE_BYTES) {
                assert_eq!(span.page * PAGE + u64::from(span.from), at);
                assert_eq!(span.payload as u64, at - extent.offset);
                assert_eq!(span.whole, usize::from(span.len) == PAGE_BYTES);
                assert!(span.len > 0 && span.in_page().end <= PAGE_BYTES);
                at += u64::from(span.len);
                count += 1;
            }
            let only = spans(extent, PAGE_BYTES).next().filter(|_| count == 1);
            assert_eq!(Span::within_page(extent), only);
            assert_eq!(at, extent.offset + extent.bytes);
            assert_eq!(count, extent.pages());
            assert_eq!(extent.payload_bytes(PAGE_BYTES) as u64, extent.bytes);
        }
    }

    #[test]
    fn stamps_take_eight_bytes_a_page_and_know_which_are_whole() {
        let extent = Extent::new(4000, 4096 + 96 + 1);
        let all: Vec<Span> = spans(extent, STAMP_BYTES).collect();
        assert_eq!(all.len(), 3);
        assert_eq!(extent.payload_bytes(STAMP_BYTES), 24);
        for (i, (span, whole)) in all.iter().zip([false, true, false]).enumerate() {
            assert_eq!((span.page, span.whole), (i as u64, whole));
            assert_eq!(span.in_page(), 0..8);
            assert_eq!(span.in_payload(), i * 8..i * 8 + 8);
        }
    }

    #[test]
    fn an_empty_request_touches_nothing() {
        assert_eq!(spans(Extent::new(5, 0), PAGE_BYTES).count(), 0);
        assert_eq!(Extent::new(4096, 0).pages(), 0);
        assert_eq!(Extent::of_pages(3, 2), Extent::new(12288, 8192));
    }
}
