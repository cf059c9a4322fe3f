//! One file: its size, which of its pages there are, and who may go in.
//!
//! Reads, and writes that change nothing but bytes of pages that are there, go in together. What changes the size or which
//! pages there are goes in alone: appends, writes beyond the end or into a page that is not there, truncation. Who cannot
//! go in stands in line, and is let in by whoever leaves: nobody overtakes.
//!
//! A page that is not there reads as zeros, whatever the storage holds. Bytes of a page behind the end of the file are zeros.

use wharf_runtime::rw_gate::RwGate;
use wharf_wire::dma::PAGE_BYTES;

use crate::span::Extent;

/// Where a write begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    Offset(u64),
    End,
}

const PAGE: u64 = PAGE_BYTES as u64;

/// Which pages of a file there are.
#[derive(Debug, Clone, Default)]
pub(super) struct Pages(Vec<u64>);

impl Pages {
    /// Whether there is page `page`.
    pub(super) fn has(&self, page: u64) -> bool {
        let word = self.0.get((page / 64) as usize);
        word.is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// The page behind the run of pages from `first` to before `end` that are there, or not, as the first one.
    pub(super) fn run_end(&self, first: u64, end: u64) -> u64 {
        let there = self.has(first);
        let mut at = first + 1;
        while at < end {
            let word = self.0.get((at / 64) as usize).copied().unwrap_or(0);
            let whole = if there { u64::MAX } else { 0 };
            if at.is_multiple_of(64) && word == whole {
                at += 64;
            } else if self.has(at) == there {
                at += 1;
            } else {
                return at;
            }
        }
        end
    }

    /// Pages from `first` to before `end` are there.
    pub(super) fn add(&mut self, first: u64, end: u64) {
        let words = end.div_ceil(64) as usize;
        if self.0.len() < words {
            self.0.resize(words, 0);
        }
        for page in first..end {
            self.0[(page / 64) as usize] |= 1 << (page % 64);
        }
    }

    /// Pages from `first` to before `end` are gone.
    pub(super) fn remove(&mut self, first: u64, end: u64) {
        let end = end.min(self.0.len() as u64 * 64);
        for page in first..end {
            self.0[(page / 64) as usize] &= !(1 << (page % 64));
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// What is known of a file, behind its gate.
pub(super) struct State {
    /// Bytes up to its end.
    pub(super) bytes: u64,
    pub(super) pages: Pages,
    /// The part of the volume that it has, if it has one.
    pub(super) region: Option<u32>,
    /// Whether its storage was given back for good.
    pub(super) is_gone: bool,
    pub(super) accessed_ns: u64,
    pub(super) modified_ns: u64,
    pub(super) changed_ns: u64,
}

impl State {
    /// Whether an extent lies within the file, in pages that are there.
    pub(super) fn is_there(&self, extent: Extent) -> bool {
        let end = extent.offset.checked_add(extent.bytes);
        let (first, pages) = (extent.first_page(), extent.pages());
        end.is_some_and(|end| end <= self.bytes)
            && pages > 0
            && self.pages.has(first)
            && self.pages.run_end(first, first + pages) == first + pages
    }

    /// Bytes changed.
    pub(super) fn touch(&mut self, now_ns: u64) {
        (self.modified_ns, self.changed_ns) = (now_ns, now_ns);
    }
}

/// A file: what is known of it, and who is inside.
pub(super) type Node = RwGate<State>;

/// A file of `bytes` bytes of which no page is there.
pub(super) fn new(bytes: u64, now_ns: u64) -> Node {
    RwGate::new(State {
        bytes,
        pages: Pages::default(),
        region: None,
        is_gone: false,
        accessed_ns: now_ns,
        modified_ns: now_ns,
        changed_ns: now_ns,
    })
}

/// A file of `bytes` bytes that are all there, in a region.
pub(super) fn filled(bytes: u64, region: Option<u32>) -> Node {
    let mut node = new(bytes, 0);
    let state = node.get_mut();
    state.region = region;
    state.pages.add(0, bytes.div_ceil(PAGE));
    node
}

/// The page of a byte.
pub(super) fn page_of(byte: u64) -> u64 {
    byte / PAGE
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use wharf_runtime::Seed;

    #[test]
    fn pages_are_those_that_were_added_and_not_removed() {
        let mut rng = Seed(3).rng();
        let (mut pages, mut model) = (Pages::default(), vec![false; 500]);
        for _ in 0..2_000 {
            let first = rng.below(500);
            let end = (first + 1 + rng.below(130)).min(500);
            let is_added = rng.chance(1, 2);
            match is_added {
                true => pages.add(first, end),
                false => pages.remove(first, end),
            }
            model[first as usize..end as usize].fill(is_added);
            let there = model.iter().filter(|there| **there).count();
            assert_eq!(pages.count(), there as u64);
            let at = rng.below(500);
            assert_eq!(pages.has(at), model[at as usize]);
            let same = |page: &bool| *page == model[at as usize];
            let run = model[at as usize..]
                .iter()
                .take_while(|page| same(page))
                .count();
            assert_eq!(pages.run_end(at, 500), at + run as u64);
        }
        assert!(!pages.has(1 << 40));
    }
}
