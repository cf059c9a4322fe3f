//! Pages in the drive's memory, beside those here (OmniCache, FAST 2024).
//!
//! Of both caches a page of a file is in one: here, or in the drive's, from where only the bytes that are asked for come. It goes there if a part
//! of it is wanted, and comes here if it is wanted whole, or by who goes through a file in order.
//!
//! What the drive has it shows to all: other processes see at once what was written there, so it needs no lease. A file that
//! this process has a lease to write is here alone, for the drive keeps nothing of it: that is asked for by who makes a file longer, or while the
//! drive has no page of it.
//!
//! Threads have commands side by side, and the drive may do them in any order. What any of them finds is right all the same, since each command finds
//! what the drive's cache has; a page may be in both caches then. The index (`index.rs`) has to say of each page that this process has
//! brought there that the drive may have it, else it never leaves. So pages are removed from the index *when the command is sent* that has them
//! leave, and added *when the command has ended* that brings them: one that is under way beside the other adds them behind it. Only a lease to
//! write removes those of a file when it has come, and lasts: the drive gives none while it brings pages, and a lease ends before others come.

mod index;

use std::ops::Range;

use wharf_files::{Handle, Place};
use wharf_wire::file::NearResult;

use super::frames::{Frames, PAGE};
use super::leased::Known;
use super::writes::Writes;
use super::{Cache, Missing};
use index::Ask;
pub(super) use index::Near;

/// Pages that are to leave the drive's cache.
#[derive(Debug)]
pub(in crate::files) struct Leaving {
    number: u64,
    pages: Range<u64>,
}

impl Leaving {
    /// The first byte of them, and how many there are.
    pub(in crate::files) fn bytes(&self) -> (u64, u64) {
        let Range { start, end } = self.pages;
        (start * PAGE as u64, (end - start) * PAGE as u64)
    }
}

/// The pages that some bytes lie in.
fn pages_of(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / PAGE as u64..bytes.end.div_ceil(PAGE as u64)
}

/// Whether bytes are pages that are wanted whole.
fn is_whole(bytes: &Range<u64>) -> bool {
    let (page, count) = (PAGE as u64, bytes.end - bytes.start);
    count >= 2 * page || bytes.start.is_multiple_of(page) && count >= page
}

/// How many of some bytes of a file are read by way of the drive's cache, the first of which is not here; none if they are to come here.
#[cold]
pub(super) fn near_bytes(
    near: &mut Near,
    (frames, writes): (&Frames, &Writes),
    file: &Known,
    bytes: &Range<u64>,
) -> Option<usize> {
    if writes.has(file.number) {
        return None;
    }
    let pages = pages_of(bytes);
    let ask = Ask {
        number: file.number,
        page: pages.start,
        writes: false,
        is_whole: is_whole(bytes),
        is_in_order: file.ahead.follows(pages.start)
            || bytes.start == file.near_end && bytes.start > 0,
        has_room: frames.has_room(),
    };
    if !near.is_for(ask) {
        return None;
    }
    let here = pages.clone().find(|page| frames.has((file.version, *page)));
    let end = here.map_or(bytes.end, |page| bytes.end.min(page * PAGE as u64));
    Some((end - bytes.start) as usize)
}

impl Cache {
    /// Whether this process uses it.
    pub(in crate::files) fn has_near(&self) -> bool {
        self.near.is_some()
    }

    /// Whether a write goes by way of the drive's cache.
    pub(in crate::files) fn writes_near(
        &mut self,
        handle: Handle,
        place: Place,
        count: usize,
    ) -> bool {
        let (Some(open), Place::At(offset)) = (self.open(handle), place) else {
            return false;
        };
        let Some(near) = self.near.as_mut().filter(|_| open.writes && count > 0) else {
            return false;
        };
        let Some(end) = offset.checked_add(count as u64) else {
            return false;
        };
        let (bytes, number) = (offset..end, open.number);
        let pages = pages_of(&bytes);
        if self.writes.has(number) {
            return false;
        }
        if let Some(file) = self.files.valid(open.place, number) {
            let is_here = |page: u64| self.frames.has((file.version, page));
            if end > file.bytes || pages.clone().any(is_here) {
                return false;
            }
        }
        near.is_for(Ask {
            number,
            page: pages.start,
            writes: true,
            is_whole: is_whole(&bytes),
            is_in_order: false,
            has_room: self.frames.has_room(),
        })
    }

    /// Whether it is better to send a write to the drive than to keep it: the drive has pages of the file, which it would have to give up.
    pub(super) fn stays_near(&self, number: u64) -> bool {
        self.near.as_ref().is_some_and(|near| near.has_file(number))
    }

    /// Whether pages that are missing are to be taken from the drive, which may have some of them. If so, the index has them no more.
    pub(in crate::files) fn takes(&mut self, missing: &Missing) -> bool {
        let Some(near) = &mut self.near else {
            return false;
        };
        let is_near = near.has_any(missing.number, &missing.range());
        if is_near {
            near.remove(missing.number, &missing.range());
        }
        is_near
    }

    /// They have not come.
    pub(in crate::files) fn took_not(&mut self, missing: &Missing) {
        if let Some(near) = &mut self.near {
            near.add(missing.number, &missing.range());
        }
    }

    /// What went by way of the drive's cache has ended.
    pub(in crate::files) fn note_near(
        &mut self,
        handle: Handle,
        bytes: Range<u64>,
        (result, writes): (NearResult, bool),
    ) {
        let (Some(open), Some(near)) = (self.open(handle), &mut self.near) else {
            return;
        };
        self.counts.near_hits += u64::from(result.hits);
        match writes {
            true => self.counts.near_writes += 1,
            false => {
                self.counts.near_reads += 1;
                if let Some(file) = self.files.valid(open.place, open.number) {
                    file.near_end = bytes.end;
                }
            }
        }
        if result.kept > 0 {
            near.add(open.number, &pages_of(&bytes));
        }
        if result.is_full {
            near.note_full();
        }
    }

    /// What is to leave the drive's cache before something goes there: pages, and a handle of their file.
    pub(in crate::files) fn next_leaving(&mut self) -> Option<(Handle, Leaving)> {
        let has_room = self.frames.has_room();
        let near = self
            .near
            .as_mut()
            .filter(|near| near.is_full() && !has_room)?;
        let (number, pages) = near.victim()?;
        near.remove(number, &pages);
        let handle = self.handle_of(number)?;
        if let Some(near) = &mut self.near {
            near.begin_leaving(number);
        }
        Some((handle, Leaving { number, pages }))
    }

    /// They have left, or could not.
    pub(in crate::files) fn left(&mut self, leaving: &Leaving, has_left: bool) {
        if let Some(near) = &mut self.near {
            near.end_leaving(leaving.number);
            if !has_left {
                near.add(leaving.number, &leaving.pages);
                near.note_full();
            }
        }
    }

    /// A handle is closed; gives whether the drive is to give up what it has of the file before: no other one is open.
    pub(in crate::files) fn leaves_near(&mut self, handle: Handle) -> bool {
        let Some(open) = self.open(handle) else {
            return false;
        };
        // Of threads that close two handles of the file one is last.
        self.closed(handle);
        let is_last = self.handle_of(open.number).is_none();
        let Some(near) = self.near.as_mut().filter(|_| is_last) else {
            return false;
        };
        // Pages that another thread has leave may be there still, and its command may come behind that which closes the handle.
        let leaves = near.has_file(open.number) || near.is_leaving(open.number);
        near.forget(open.number);
        leaves
    }

    /// A handle of a file, if it is open.
    fn handle_of(&self, number: u64) -> Option<Handle> {
        let mut all = (0..).zip(&self.opened);
        let (index, open) = all.find(|(_, open)| open.is_file && open.number == number)?;
        Some(Handle {
            index,
            generation: open.generation,
        })
    }
}
