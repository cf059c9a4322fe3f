//! The bytes of a file: a size, and the pages that were written.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::arguments::{Allocate, Seek};
use crate::errno::Errno;
use crate::limits::PAGE_BYTES;

/// The bytes of a file. What is not in `pages` is zeros.
#[derive(Debug, Clone, Default)]
pub(super) struct Bytes {
    pub(super) size: u64,
    /// Pages that are data, each of 4096 bytes. Those behind the end of the file are zeros.
    pages: BTreeMap<u64, Vec<u8>>,
    /// Holes that have storage.
    reserved: BTreeSet<u64>,
}

/// What of a range of bytes lies in each page: the page, and bytes of it.
fn by_page(offset: u64, bytes: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
    let end = offset + bytes;
    (offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).map(move |page| {
        let start = page * PAGE_BYTES;
        let from = offset.max(start) - start;
        let to = end.min(start.saturating_add(PAGE_BYTES)) - start;
        (page, from as usize..to as usize)
    })
}

impl Bytes {
    /// Reads as far as there is something.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> u64 {
        let bytes = (out.len() as u64).min(self.size.saturating_sub(offset));
        let mut rest = &mut out[..bytes as usize];
        for (page, range) in by_page(offset, bytes) {
            let (part, behind) = rest.split_at_mut(range.len());
            match self.pages.get(&page) {
                Some(data) => part.copy_from_slice(&data[range]),
                None => part.fill(0),
            }
            rest = behind;
        }
        bytes
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        let mut rest = data;
        for (page, range) in by_page(offset, data.len() as u64) {
            let (part, behind) = rest.split_at(range.len());
            self.reserved.remove(&page);
            let kept = self
                .pages
                .entry(page)
                .or_insert_with(|| vec![0; PAGE_BYTES as usize]);
            kept[range].copy_from_slice(part);
            rest = behind;
        }
        self.size = self.size.max(offset + data.len() as u64);
    }

    pub(super) fn truncate(&mut self, bytes: u64) {
        if bytes < self.size {
            self.pages.split_off(&bytes.div_ceil(PAGE_BYTES));
            self.reserved.split_off(&bytes.div_ceil(PAGE_BYTES));
            if let Some(last) = self.pages.get_mut(&(bytes / PAGE_BYTES)) {
                last[(bytes % PAGE_BYTES) as usize..].fill(0);
            }
        }
        self.size = bytes;
    }

    pub(super) fn allocate(&mut self, offset: u64, bytes: u64, what: Allocate) {
        for (page, range) in by_page(offset, bytes) {
            let is_whole = range.len() as u64 == PAGE_BYTES;
            let is_zeroed = !matches!(what, Allocate::Extend | Allocate::KeepSize);
            if is_zeroed && is_whole {
                self.pages.remove(&page);
                self.reserved.remove(&page);
            } else if is_zeroed && let Some(data) = self.pages.get_mut(&page) {
                data[range].fill(0);
            }
            if what != Allocate::Punch && !self.pages.contains_key(&page) {
                self.reserved.insert(page);
            }
        }
        if matches!(what, Allocate::Extend | Allocate::Zero) {
            self.size = self.size.max(offset + bytes);
        }
    }

    pub(super) fn seek(&self, offset: u64, what: Seek) -> Result<u64, Errno> {
        if offset >= self.size {
            return Err(Errno::ENXIO);
        }
        let page = offset / PAGE_BYTES;
        let found = match what {
            Seek::Data => {
                let (found, _) = self.pages.range(page..).next().ok_or(Errno::ENXIO)?;
                *found
            }
            Seek::Hole => {
                let mut found = page;
                while self.pages.contains_key(&found) {
                    found += 1;
                }
                found
            }
        };
        let found = (found * PAGE_BYTES).max(offset);
        match what {
            Seek::Data if found >= self.size => Err(Errno::ENXIO),
            Seek::Data => Ok(found),
            Seek::Hole => Ok(found.min(self.size)),
        }
    }

    pub(super) fn stored_bytes(&self) -> u64 {
        (self.pages.len() + self.reserved.len()) as u64 * PAGE_BYTES
    }
}
