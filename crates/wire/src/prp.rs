//! Physical region pages: how two 64-bit pointers name all the pages of a transfer.
//!
//! A command has room for two DMA addresses, and a transfer may have 65536 pages. So:
//!
//! 1. PRP1 is the first page.
//! 2. PRP2 is not looked at for one page, is the second page for two, and is otherwise the
//!    address of a *list* with an 8-byte entry for the second and each later page.
//! 3. A list that reaches the end of its page goes on in another: the last entry of the full
//!    page is then the address of the next one, and not of data. If exactly one entry is left,
//!    it still fits there, and the list ends.
//!
//! Data pages and chained list pages are page aligned; PRP2 as a list pointer is 8-byte
//! aligned, and the list's first page ends where its memory page ends. (NVM Express also lets
//! PRP1 point into the middle of a page; transfers here are whole pages, and such a PRP1 is
//! refused.)
//!
//! Nothing here touches memory: the drive's walk gets a closure that reads, the host's builder
//! one that writes.

use crate::command::PAGE_BYTES;
use crate::status::StatusCode;

/// Bytes of a list entry.
const ENTRY_BYTES: u64 = 8;

/// Entries of a whole list page.
pub const PRP_ENTRIES_PER_PAGE: usize = PAGE_BYTES / ENTRY_BYTES as usize;

const OFFSET_MASK: u64 = PAGE_BYTES as u64 - 1;

/// Offset in its page of the entry that may be a pointer to the next list page.
const LAST_ENTRY_OFFSET: u64 = PAGE_BYTES as u64 - ENTRY_BYTES;

/// A transfer whose pages cannot be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrpError {
    /// A data page is not page aligned.
    #[error("PRP of page {page} of the transfer ({address:#x}) is not a multiple of 4096")]
    PageMisaligned {
        /// Index of the page in the transfer.
        page: u32,
        /// What stands in its place.
        address: u64,
    },
    /// PRP2 as a list pointer is not a multiple of 8, or the pointer to a chained list page is
    /// not page aligned.
    #[error(
        "pointer {address:#x} to a PRP list is not aligned (PRP2 to 8, a chained list to 4096)"
    )]
    ListMisaligned {
        /// The pointer.
        address: u64,
    },
    /// A list entry lies outside host memory.
    #[error("entry of a PRP list at {address:#x} cannot be read: no host memory is there")]
    ListUnreadable {
        /// DMA address of the entry.
        address: u64,
    },
}

impl PrpError {
    /// What the drive answers.
    pub const fn status(self) -> StatusCode {
        match self {
            PrpError::PageMisaligned { .. } | PrpError::ListMisaligned { .. } => {
                StatusCode::PrpOffsetInvalid
            }
            PrpError::ListUnreadable { .. } => StatusCode::DataTransferError,
        }
    }
}

/// The DMA addresses of a transfer's pages, in order; made by [`prp_walk`].
///
/// The first error ends it. It reads at most `pages` data entries and one pointer per list
/// page, whatever a hostile list points to.
pub struct PrpWalk<F> {
    read: F,
    prp1: u64,
    prp2: u64,
    pages: u32,
    /// Index of the page to come; `pages` at the end and after an error.
    page: u32,
    /// DMA address of the list entry to read next.
    entry_at: u64,
}

/// Walks the `pages` pages of a transfer. `read` returns the u64 at a DMA address, or an error
/// if there is no memory.
#[inline]
pub fn prp_walk<F, E>(prp1: u64, prp2: u64, pages: u32, read: F) -> PrpWalk<F>
where
    F: FnMut(u64) -> Result<u64, E>,
{
    PrpWalk {
        read,
        prp1,
        prp2,
        pages,
        page: 0,
        entry_at: prp2,
    }
}

impl<F, E> PrpWalk<F>
where
    F: FnMut(u64) -> Result<u64, E>,
{
    #[inline]
    fn address(&mut self) -> Result<u64, PrpError> {
        let address = match self.page {
            0 => self.prp1,
            1 if self.pages == 2 => self.prp2,
            _ => self.list_entry()?,
        };
        if address & OFFSET_MASK != 0 {
            return Err(PrpError::PageMisaligned {
                page: self.page,
                address,
            });
        }
        Ok(address)
    }

    fn list_entry(&mut self) -> Result<u64, PrpError> {
        if self.page == 1 && !self.prp2.is_multiple_of(ENTRY_BYTES) {
            return Err(PrpError::ListMisaligned { address: self.prp2 });
        }
        let remaining = self.pages - self.page;
        if self.entry_at & OFFSET_MASK == LAST_ENTRY_OFFSET && remaining > 1 {
            let next = self.read_entry()?;
            if next & OFFSET_MASK != 0 {
                return Err(PrpError::ListMisaligned { address: next });
            }
            self.entry_at = next;
        }
        let entry = self.read_entry()?;
        // The very last entry of the address space has no successor, and none is read.
        self.entry_at = self.entry_at.wrapping_add(ENTRY_BYTES);
        Ok(entry)
    }

    fn read_entry(&mut self) -> Result<u64, PrpError> {
        let address = self.entry_at;
        (self.read)(address).map_err(|_| PrpError::ListUnreadable { address })
    }
}

impl<F, E> Iterator for PrpWalk<F>
where
    F: FnMut(u64) -> Result<u64, E>,
{
    type Item = Result<u64, PrpError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.page == self.pages {
            return None;
        }
        let address = self.address();
        self.page = if address.is_ok() {
            self.page + 1
        } else {
            self.pages
        };
        Some(address)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.pages - self.page) as usize;
        (left.min(1), Some(left))
    }
}

/// Fills `addresses` with the pages of a transfer, checking all of them before any is used: a
/// malformed command must change nothing.
///
/// # Errors
/// The first fault found; `addresses` is empty then.
#[inline]
pub fn prp_collect<E>(
    prp1: u64,
    prp2: u64,
    pages: u32,
    read: impl FnMut(u64) -> Result<u64, E>,
    addresses: &mut Vec<u64>,
) -> Result<(), PrpError> {
    addresses.clear();
    addresses.reserve(pages as usize);
    for address in prp_walk(prp1, prp2, pages, read) {
        match address {
            Ok(address) => addresses.push(address),
            Err(error) => {
                addresses.clear();
                return Err(error);
            }
        }
    }
    Ok(())
}

/// List pages that a transfer of `pages` pages needs, when its list begins at the start of a
/// page.
///
/// `n` chained pages hold 511 entries each and one more in the last; the list has one entry
/// fewer than the transfer has pages.
#[inline]
pub const fn prp_list_pages(pages: usize) -> usize {
    if pages <= 2 {
        0
    } else {
        (pages - 2).div_ceil(PRP_ENTRIES_PER_PAGE - 1)
    }
}

/// A transfer that cannot be described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrpBuildError {
    /// There is no page.
    #[error("a transfer needs at least one page")]
    Empty,
    /// A page or list page is not page aligned.
    #[error("DMA address {address:#x} is not a multiple of 4096: transfers go by whole pages")]
    Misaligned {
        /// The address.
        address: u64,
    },
    /// The list does not fit the list pages.
    #[error("a transfer of {pages} pages needs {needed} list pages, {given} were given")]
    ListPages {
        /// Pages of the transfer.
        pages: usize,
        /// [`prp_list_pages`] of them.
        needed: usize,
        /// List pages there are.
        given: usize,
    },
}

/// PRP1 and PRP2 for the transfer of `pages`, with the list, if it takes one, written to
/// `list_pages` (of which it uses the first [`prp_list_pages`]) through `write(address, value)`.
///
/// # Errors
/// As [`PrpBuildError`] says; nothing has been written then.
#[inline]
pub fn prp_for(
    pages: &[u64],
    list_pages: &[u64],
    write: impl FnMut(u64, u64),
) -> Result<(u64, u64), PrpBuildError> {
    let misaligned = |address: &&u64| **address & OFFSET_MASK != 0;
    if let Some(&address) = pages.iter().find(misaligned) {
        return Err(PrpBuildError::Misaligned { address });
    }
    match *pages {
        [] => Err(PrpBuildError::Empty),
        [first] => Ok((first, 0)),
        [first, second] => Ok((first, second)),
        [first, ref rest @ ..] => {
            let needed = prp_list_pages(pages.len());
            let used = list_pages.get(..needed).ok_or(PrpBuildError::ListPages {
                pages: pages.len(),
                needed,
                given: list_pages.len(),
            })?;
            if let Some(&address) = used.iter().find(misaligned) {
                return Err(PrpBuildError::Misaligned { address });
            }
            write_list(rest, used, write);
            Ok((first, used[0]))
        }
    }
}

/// Writes `entries` to `list_pages`, which are as many as they need.
fn write_list(mut entries: &[u64], list_pages: &[u64], mut write: impl FnMut(u64, u64)) {
    let mut next_pages = list_pages[1..].iter();
    for &list_page in list_pages {
        let next = next_pages.next();
        let room = PRP_ENTRIES_PER_PAGE - usize::from(next.is_some());
        let (here, later) = entries.split_at(room.min(entries.len()));
        for (at, &entry) in (list_page..).step_by(ENTRY_BYTES as usize).zip(here) {
            write(at, entry);
        }
        if let Some(&next) = next {
            write(list_page + LAST_ENTRY_OFFSET, next);
        }
        entries = later;
    }
    assert!(entries.is_empty(), "the list pages hold the whole list");
}

#[cfg(test)]
mod tests;
