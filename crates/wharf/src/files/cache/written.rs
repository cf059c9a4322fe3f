//! What becomes of writes in a process's cache, by the [mode](WriteMode) of it.
//!
//! Written back: they are kept where the drive takes them from (`writes.rs`), and put into the pages here. In the other modes, and where that is not
//! to be had, the drive has written them first: then they are put into these pages too, or the pages are dropped. What failed, or was done in
//! part, leaves nothing of the file here ([`Cache::changed`]).

use wharf_files::{Handle, Place, Written};

use super::super::keeping::WriteMode;
use super::frames::{Frames, PAGE};
use super::leased::Known;
use super::places::Wanted;
use super::together::Part;
use super::writes::Asked;
use super::{Cache, Opened};

impl Cache {
    /// Whether the drive takes writes later.
    pub(in crate::files) fn writes_back(&self) -> bool {
        self.mode == WriteMode::WriteBack
    }

    /// The lease to write an open file that is to be asked for, if there is to be one, by who writes bytes of it up to `end`.
    pub(in crate::files) fn ask_to_write(&mut self, handle: Handle, end: u64) -> Option<Wanted> {
        let open = self.open(handle).filter(|open| open.writes)?;
        if self.stays_near(open.number) && self.bytes(handle).is_none_or(|bytes| end <= bytes) {
            return None;
        }
        self.writes.ask(open.number)
    }

    /// Whether there is a lease to write an open file.
    pub(in crate::files) fn has_lease_to_write(&self, handle: Handle) -> bool {
        let number = self.number(handle);
        number.is_some_and(|number| self.writes.has(number))
    }

    /// What was answered, 0 for an error too.
    pub(in crate::files) fn may_write(&mut self, wanted: Wanted, lease: u64) {
        self.writes.answered(wanted, lease);
        // The drive has given up what it had of it. If pages have come since the lease has ended.
        if lease != 0
            && self.writes.has(wanted.number)
            && let Some(near) = &mut self.near
        {
            near.forget(wanted.number);
        }
        if lease != 0 && !self.is_coherent() {
            // Under it nobody else changes the file. What is known from before may be old, and would be written back with what
            // is written beside it.
            self.together.note(Part::File(wanted.number));
            self.files.forget(wanted.number);
        }
    }

    /// Writes bytes of a file that the drive takes later; none if it takes a command. No command is under way.
    pub(in crate::files) fn write(
        &mut self,
        handle: Handle,
        place: Place,
        data: &[u8],
        now_ns: u64,
    ) -> Option<Written> {
        // One of no bytes changes nothing, and may be refused all the same.
        let may = |open: &Opened| open.writes && !data.is_empty();
        let open = self.open(handle).filter(may)?;
        let at = self.files.place(open.number)?;
        let file = self.files.valid(at, open.number)?;
        let asked = Asked {
            number: open.number,
            bytes: file.bytes,
            offset: match place {
                Place::At(offset) => offset,
                Place::End => file.bytes,
            },
            data,
            now_ns,
        };
        if !self.writes.write(asked, &mut self.frames, file.version) {
            return None;
        }
        self.counts.writes += 1;
        if let Some(known) = &mut file.attributes {
            (known.modified_ns, known.changed_ns) = (now_ns, now_ns);
            known.bytes = known.bytes.max(asked.offset + data.len() as u64);
        }
        put(file, &mut self.frames, asked.offset, data);
        Some(Written {
            offset: asked.offset,
            bytes: data.len() as u64,
        })
    }

    /// The drive has written bytes of a file for this process: where it was told to, or at the end, wherever that was.
    pub(in crate::files) fn written(
        &mut self,
        handle: Handle,
        at_end: bool,
        offset: u64,
        data: &[u8],
    ) {
        let Some(open) = self.open(handle) else {
            return;
        };
        if self.together.changes_file(open.number) {
            // Whichever of the two the drive did first.
            return self.files.forget(open.number);
        }
        let place = self.files.place(open.number);
        let is_coherent = self.is_coherent();
        let file = place.and_then(|place| self.files.valid(place, open.number));
        let Some(file) = file.filter(|_| !data.is_empty()) else {
            return;
        };
        // Others may have made it longer or shorter, and nothing is known of what lies between.
        let is_as_known = match at_end {
            true => offset == file.bytes,
            false => offset <= file.bytes,
        };
        if !is_coherent && !is_as_known {
            return self.files.forget(open.number);
        }
        file.attributes = None;
        match self.mode {
            WriteMode::WriteBack | WriteMode::WriteThrough => {
                put(file, &mut self.frames, offset, data);
            }
            WriteMode::WriteAround => drop_pages(file, &mut self.frames, offset, data.len()),
        }
    }
}

/// Drops the pages of bytes that were written to a file, and makes it as long as that.
fn drop_pages(file: &mut Known, frames: &mut Frames, offset: u64, bytes: usize) {
    let end = offset + bytes as u64;
    file.bytes = file.bytes.max(end);
    for page in offset / PAGE as u64..end.div_ceil(PAGE as u64) {
        frames.remove((file.version, page));
    }
}

/// Puts bytes that were written to where they are known of a file, and makes it as long as that.
fn put(file: &mut Known, frames: &mut Frames, offset: u64, data: &[u8]) {
    let (version, end_before) = (file.version, file.bytes);
    file.bytes = end_before.max(offset + data.len() as u64);
    let mut done = 0;
    while done < data.len() {
        let at = offset + done as u64;
        let (page, within) = (at / PAGE as u64, (at % PAGE as u64) as usize);
        let now = (PAGE - within).min(data.len() - done);
        // Behind the end of before are zeros.
        let is_whole = now == PAGE || within == 0 && page * PAGE as u64 >= end_before;
        let frame = match is_whole {
            true => Some(frames.put((version, page))),
            false => frames.get((version, page)),
        };
        if let Some(frame) = frame {
            frame[within..within + now].copy_from_slice(&data[done..done + now]);
            if is_whole {
                frame[now..].fill(0);
            }
        }
        done += now;
    }
}
