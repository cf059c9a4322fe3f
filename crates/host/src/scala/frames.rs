//! The frames that the drives are lent, as all clients use them.
//!
//! 1. A page is copied out under its frame's word, a sequence lock ([`wharf_runtime::Versioned`]): readers change
//!    nothing. A page is copied in with the word taken; then its dirty bit is set.
//! 2. The drive tells where a page is by an address; it is believed only if the frame is one of
//!    the page's core.
//! 3. A client that overwrites a missing page whole does not have it fetched: until the client has
//!    written, the frame holds zeros, which nobody else may see. So such pages are *announced* before
//!    the command goes out, and whoever gets a page from the drive first waits until its announcement
//!    has gone.
//! 4. Clients in several processes use the same frames: all that is said here is in memory that they
//!    share, and words tell which process writes.
//!
//! In virtual time the lines of words and of dirty bits contend as their layout has it: 16 words to
//! a line.

use std::sync::Arc;

use wharf_runtime::{Cpu, Holder, Line, Op, Versioned, prefetch};
use wharf_wire::dma::{DmaRegion, DmaSpace, PAGE_BYTES, RegisterError};
use wharf_wire::host_memory::{FrameTable, frame_table_pages};
use wharf_wire::memory::SharedMemory;

use super::announce::{Announcements, announcement_bytes};
use crate::lend::{LentFrames, LentMemory};
use crate::payload::{From, Into, Payload};
use crate::span::Span;

/// Words of a frame table in a cache line.
const WORDS_PER_LINE: usize = 16;

/// Dirty bits in a cache line.
const BITS_PER_LINE: usize = 512;

struct DriveFrames {
    lent: LentFrames,
    table: FrameTable,
    word_lines: Box<[Line]>,
    dirty_lines: Box<[Line]>,
}

impl DriveFrames {
    fn new(lent: LentFrames) -> DriveFrames {
        let frames = lent.frames.pages();
        let lines = |per_line: usize| (0..frames.div_ceil(per_line)).map(|_| Line::new());
        DriveFrames {
            table: lent.table.frame_table(frames),
            lent,
            word_lines: lines(WORDS_PER_LINE).collect(),
            dirty_lines: lines(BITS_PER_LINE).collect(),
        }
    }
}

fn memory_of(region: &DmaRegion) -> Arc<SharedMemory> {
    let memory = region.shared();
    memory.expect("made in a space that can be shared").clone()
}

/// See the module.
pub struct Frames {
    drives: Box<[DriveFrames]>,
    announced: Announcements,
    holder: Holder,
    page_bytes: usize,
}

impl Frames {
    /// `frames` frames to lend to each of `drives` drives, for this process and `guests` others.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(
        space: &Arc<DmaSpace>,
        drives: u32,
        frames: u32,
        guests: u32,
    ) -> Result<Frames, RegisterError> {
        let of_drive = |_| LentFrames::new(space, frames).map(DriveFrames::new);
        Ok(Frames {
            drives: (0..drives).map(of_drive).collect::<Result<_, _>>()?,
            announced: Announcements::new(space, guests)?,
            holder: Holder::OWNER,
            page_bytes: space.page_bytes(),
        })
    }

    /// The frames of another process, as its guest number `guest` of `guests` sees them.
    ///
    /// # Panics
    /// If the memories are not as [`Frames::shared_bytes`] has it.
    pub fn attach(
        memories: &[Arc<SharedMemory>],
        drives: u32,
        frames: u32,
        guests: u32,
        guest: u32,
    ) -> Frames {
        let (announced, of_drives) = memories.split_last().expect("counters come last");
        let of_drive = |memories: &[Arc<SharedMemory>]| {
            let table_pages = frame_table_pages(frames as usize);
            DriveFrames::new(LentFrames::attach(
                DmaRegion::of_owner(&memories[0], frames as usize, PAGE_BYTES),
                DmaRegion::of_owner(&memories[1], table_pages, PAGE_BYTES),
            ))
        };
        assert!(of_drives.len() == 2 * drives as usize, "frames and table");
        Frames {
            drives: of_drives.chunks(2).map(of_drive).collect(),
            announced: Announcements::attach(announced, guests, guest),
            holder: Holder::guest(guest),
            page_bytes: PAGE_BYTES,
        }
    }

    /// Bytes of the memories that processes share: for each drive frames and frame table, then the
    /// announcements.
    pub fn shared_bytes(drives: u32, frames: u32, guests: u32) -> Vec<usize> {
        let table_bytes = frame_table_pages(frames as usize) * PAGE_BYTES;
        let of_drive = [frames as usize * PAGE_BYTES, table_bytes];
        let mut bytes = of_drive.repeat(drives as usize);
        bytes.push(announcement_bytes(1 + guests as usize));
        bytes
    }

    /// These memories.
    ///
    /// # Panics
    /// If the frames are not in a space that can be shared.
    pub fn shared_memory(&self) -> Vec<Arc<SharedMemory>> {
        let of_drive = |drive: &DriveFrames| [&drive.lent.frames, &drive.lent.table].map(memory_of);
        let mut memories: Vec<_> = self.drives.iter().flat_map(of_drive).collect();
        let announced = self.announced.shared();
        memories.push(
            announced
                .expect("made in a space that can be shared")
                .clone(),
        );
        memories
    }

    /// The announcements of pages that are going to be overwritten.
    pub fn announcements(&self) -> &Announcements {
        &self.announced
    }

    /// Frames of each drive.
    pub fn per_drive(&self) -> u32 {
        self.drives[0].lent.frames.pages() as u32
    }

    /// Bytes of a page as stored.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Bytes of all that keeps book of the frames.
    pub fn bookkeeping_bytes(&self) -> usize {
        let of_drive = |drive: &DriveFrames| {
            drive.lent.table.pages() * PAGE_BYTES
                + size_of_val(&*drive.word_lines)
                + size_of_val(&*drive.dirty_lines)
        };
        self.drives.iter().map(of_drive).sum::<usize>() + self.announced.bytes()
    }

    /// What a drive is told of its memory.
    pub fn memory(&self, drive: u32) -> Option<LentMemory> {
        self.drives[drive as usize].lent.memory()
    }

    /// The frame that the drive names by `address`, if it is one of firmware core `core` of
    /// `cores`.
    pub fn frame_at(&self, address: u64, core: u32, cores: u32) -> Option<u32> {
        let each = u64::from(frames_per_core(self.per_drive(), cores));
        let frame = address / PAGE_BYTES as u64;
        let first = |core: u32| u64::from(core) * each;
        let is_of_core = (first(core)..first(core + 1)).contains(&frame);
        (address.is_multiple_of(PAGE_BYTES as u64) && is_of_core).then_some(frame as u32)
    }

    /// The word of a frame, about to be changed.
    #[inline(always)]
    pub fn word_to_write(&self, cpu: &Cpu, drive: usize, frame: u32) -> &Versioned {
        let drive = &self.drives[drive];
        drive.word_lines[frame as usize / WORDS_PER_LINE].write(cpu);
        drive.table.word(frame as usize)
    }

    /// Notes that a frame was written. The word must still be this client's: else a flush could miss
    /// what it has seen the end of.
    #[inline(always)]
    pub fn set_dirty(&self, cpu: &Cpu, drive: usize, frame: u32) {
        let drive = &self.drives[drive];
        let line = &drive.dirty_lines[frame as usize / BITS_PER_LINE];
        match drive.table.set_dirty(frame as usize) {
            true => line.write(cpu),
            false => line.read(cpu),
        }
    }

    /// Whether a frame was written since the drive last copied it.
    pub fn is_dirty(&self, drive: usize, frame: u32) -> bool {
        self.drives[drive].table.is_dirty(frame as usize)
    }

    /// Brings a frame's word and its first bytes near.
    #[inline]
    pub fn prefetch(&self, drive: usize, frame: u32) {
        let of = &self.drives[drive];
        prefetch(&of.word_lines[frame as usize / WORDS_PER_LINE]);
        prefetch(of.table.word(frame as usize));
        prefetch(self.pointer(drive, frame));
    }

    /// The bytes of a frame.
    #[inline(always)]
    pub fn pointer(&self, drive: usize, frame: u32) -> *mut u8 {
        self.drives[drive].lent.frames.page_pointer(frame as usize)
    }

    /// Copies bytes from `from` on out of a frame that this client has pinned; false if a writer
    /// disturbed it, and then what was copied is worthless.
    #[inline(always)]
    pub fn copy_out(
        &self,
        cpu: &Cpu,
        drive: usize,
        frame: u32,
        from: usize,
        out: &mut [u8],
    ) -> bool {
        self.drives[drive].word_lines[frame as usize / WORDS_PER_LINE].read(cpu);
        let word = self.drives[drive].table.word(frame as usize);
        let Some(version) = word.begin_read() else {
            return false;
        };
        self.copy_out_alone(cpu, drive, frame, from, out);
        word.end_read(version)
    }

    /// As [`Frames::copy_out`], while this client itself has the word.
    #[inline(always)]
    pub fn copy_out_alone(&self, cpu: &Cpu, drive: usize, frame: u32, from: usize, out: &mut [u8]) {
        assert!(from + out.len() <= self.page_bytes, "bytes of one page");
        let page = self.pointer(drive, frame);
        cpu.work(Op::CopyPage, || {
            // SAFETY: inside the page. A writer may interfere; then the copy is thrown away.
            unsafe {
                page.add(from)
                    .copy_to_nonoverlapping(out.as_mut_ptr(), out.len())
            }
        });
    }

    /// Copies `data` into a frame that this client has pinned, from byte `from` on, and marks it;
    /// false if another writer has it.
    #[inline]
    pub fn copy_in(&self, cpu: &Cpu, drive: usize, frame: u32, from: usize, data: &[u8]) -> bool {
        let word = self.word_to_write(cpu, drive, frame);
        if !word.try_lock_as(self.holder) {
            return false;
        }
        self.copy_in_alone(cpu, drive, frame, from, data);
        self.set_dirty(cpu, drive, frame);
        word.unlock();
        true
    }

    /// As [`Frames::copy_in`], while this client itself has the word and marks the frame afterwards.
    #[inline(always)]
    pub fn copy_in_alone(&self, cpu: &Cpu, drive: usize, frame: u32, from: usize, data: &[u8]) {
        assert!(from + data.len() <= self.page_bytes, "bytes of one page");
        let page = self.pointer(drive, frame);
        cpu.work(Op::CopyPage, || {
            // SAFETY: inside the page, and the word is ours: nobody else writes.
            unsafe {
                page.add(from)
                    .copy_from_nonoverlapping(data.as_ptr(), data.len())
            }
        });
    }

    /// This process, as words name it.
    #[inline(always)]
    pub fn holder(&self) -> Holder {
        self.holder
    }

    /// Announces that a page is going to be overwritten. To be called before the command is sent: who
    /// finds the page in a frame afterwards finds the announcement too.
    pub fn announce(&self, page: u64) {
        self.announced.announce(page);
    }

    /// Takes the announcement back: the page is written, or not in a frame.
    pub fn retract(&self, page: u64) {
        self.announced.retract(page);
    }

    /// Whether somebody is overwriting the page. To be asked after the drive has answered.
    pub fn is_announced(&self, page: u64) -> bool {
        self.announced.is_announced(page)
    }
}

/// Frames of each firmware core of a drive that is lent `frames`; the rest stays unused.
pub fn frames_per_core(frames: u32, cores: u32) -> u32 {
    frames / cores
}

/// What a request does with a page that is in a frame.
pub trait Copied: Payload {
    /// Copies a span; false if another client is in the way. With `alone`, this client has the
    /// frame's word.
    fn copy(
        &mut self,
        cpu: &Cpu,
        frames: &Frames,
        at: (usize, u32),
        span: &Span,
        alone: bool,
    ) -> bool;

    /// The data of a write.
    fn data(&self, _span: &Span) -> &[u8] {
        &[]
    }
}

impl Copied for Into<'_> {
    #[inline]
    fn copy(
        &mut self,
        cpu: &Cpu,
        frames: &Frames,
        at: (usize, u32),
        span: &Span,
        alone: bool,
    ) -> bool {
        let (from, out) = (usize::from(span.from), &mut self.0[span.in_payload()]);
        if alone {
            frames.copy_out_alone(cpu, at.0, at.1, from, out);
            return true;
        }
        frames.copy_out(cpu, at.0, at.1, from, out)
    }
}

impl Copied for From<'_> {
    #[inline]
    fn copy(
        &mut self,
        cpu: &Cpu,
        frames: &Frames,
        at: (usize, u32),
        span: &Span,
        alone: bool,
    ) -> bool {
        let (from, data) = (usize::from(span.from), &self.0[span.in_payload()]);
        if alone {
            frames.copy_in_alone(cpu, at.0, at.1, from, data);
            frames.set_dirty(cpu, at.0, at.1);
            return true;
        }
        frames.copy_in(cpu, at.0, at.1, from, data)
    }

    fn data(&self, span: &Span) -> &[u8] {
        &self.0[span.in_payload()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_frames_of_the_core_are_believed() {
        let space = DmaSpace::new(8);
        let frames = Frames::new(&space, 1, 10, 0).unwrap();
        let at = |frame: u64, core| frames.frame_at(frame * 4096, core, 3);
        assert_eq!([at(0, 0), at(2, 0), at(3, 0)], [Some(0), Some(2), None]);
        assert_eq!([at(3, 1), at(5, 1), at(2, 1)], [Some(3), Some(5), None]);
        // The tenth frame is nobody's.
        assert_eq!([at(8, 2), at(9, 2)], [Some(8), None]);
        assert_eq!(frames.frame_at(4097, 0, 1), None);
        assert_eq!(frames.frame_at(u64::MAX, 0, 1), None);
    }
}
