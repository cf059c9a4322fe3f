//! The frames that the drives are lent, as all clients use them.
//!
//! 1. A page is copied out under its frame's word, a sequence lock ([`wharf_runtime::Versioned`]): readers change
//!    nothing. A page is copied in with the word taken; then its dirty bit is set.
//! 2. The drive tells where a page is by an address; it is believed only if the frame is one of
//!    the page's core.
//! 3. A client that overwrites a missing page whole does not have it fetched: until the client has
//!    written, the frame holds zeros, which nobody else may see. So such pages are *announced* before
//!    the command goes out. The drive tells who pins such a frame meanwhile that it is *blank*, and who is told
//!    so waits until the frame is dirty or the announcement has gone. Others need not: an announcement
//!    alone says nothing of a frame that has content.
//! 4. Clients in several processes use the same frames: all that is said here is in memory that they
//!    share, and words tell which process writes. One that errs may write anything there. So nobody
//!    trusts a word for ever: who finds one in its way [mends](Frames::mend) it if who is named does not
//!    have it, by that one's own [notes](super::notes), and waits no longer than for a drive.
//!
//! In virtual time the lines of words and of dirty bits contend as their layout has it: 16 words to
//! a line.

use std::sync::Arc;

use wharf_runtime::{Cpu, Holder, Line, Op, Versioned, prefetch};
use wharf_wire::dma::{DmaRegion, DmaSpace, PAGE_BYTES, RegisterError};
use wharf_wire::host_memory::{FrameTable, frame_table_pages};
use wharf_wire::memory::SharedMemory;
use wharf_wire::pin::split_address;

use super::notes::{Notes, note_bytes};
use crate::guest::Writers;
use crate::hmb::{HmbFrames, HmbMemory};

/// Words of a frame table in a cache line.
const WORDS_PER_LINE: usize = 16;

/// Dirty bits in a cache line.
const BITS_PER_LINE: usize = 512;

struct DriveFrames {
    hmb: HmbFrames,
    table: FrameTable,
    word_lines: Box<[Line]>,
    dirty_lines: Box<[Line]>,
}

impl DriveFrames {
    fn new(hmb: HmbFrames) -> DriveFrames {
        let frames = hmb.frames.pages();
        let lines = |per_line: usize| (0..frames.div_ceil(per_line)).map(|_| Line::new());
        DriveFrames {
            table: hmb.table.frame_table(frames),
            hmb,
            word_lines: lines(WORDS_PER_LINE).collect(),
            dirty_lines: lines(BITS_PER_LINE).collect(),
        }
    }
}

fn memory_of(region: &DmaRegion) -> Arc<SharedMemory> {
    let memory = region.shared();
    memory.expect("made in a space that can be shared").clone()
}

/// What the drive has told of a pinned page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinned {
    /// Its frame.
    pub frame: u32,
    /// The frame held zeros when the drive answered: another client is about to overwrite the page.
    pub is_blank: bool,
}

/// See the module.
pub struct Frames {
    drives: Box<[DriveFrames]>,
    notes: Notes,
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
        let of_drive = |_| HmbFrames::new(space, frames).map(DriveFrames::new);
        Ok(Frames {
            drives: (0..drives).map(of_drive).collect::<Result<_, _>>()?,
            notes: Notes::new(space, drives as usize * frames as usize, guests)?,
            holder: Holder::OWNER,
            page_bytes: space.page_bytes(),
        })
    }

    /// The frames of another process, as its guest number `guest` sees them.
    ///
    /// # Panics
    /// If the memories are not as [`Frames::shared_parts`] has it.
    pub fn attach(memories: &[Arc<SharedMemory>], drives: u32, frames: u32, guest: u32) -> Frames {
        let (of_drives, notes) = memories.split_at(2 * drives as usize);
        let of_drive = |memories: &[Arc<SharedMemory>]| {
            let table_pages = frame_table_pages(frames as usize);
            DriveFrames::new(HmbFrames::attach(
                DmaRegion::of_owner(&memories[0], frames as usize, PAGE_BYTES),
                DmaRegion::of_owner(&memories[1], table_pages, PAGE_BYTES),
            ))
        };
        Frames {
            drives: of_drives.chunks(2).map(of_drive).collect(),
            notes: Notes::attach(notes, drives as usize * frames as usize, guest),
            holder: Holder::guest(guest),
            page_bytes: PAGE_BYTES,
        }
    }

    /// The memories that processes share, by their bytes and writers: for each drive frames and frame
    /// table, then the notes of each process.
    pub fn shared_parts(drives: u32, frames: u32, guests: u32) -> Vec<(usize, Writers)> {
        let table_bytes = frame_table_pages(frames as usize) * PAGE_BYTES;
        let of_drive =
            [frames as usize * PAGE_BYTES, table_bytes].map(|bytes| (bytes, Writers::All));
        let note_bytes = note_bytes(drives as usize * frames as usize);
        let writers = std::iter::once(Writers::Owner).chain((0..guests).map(Writers::Guest));
        let mut parts = of_drive.repeat(drives as usize);
        parts.extend(writers.map(|writers| (note_bytes, writers)));
        parts
    }

    /// These memories.
    ///
    /// # Panics
    /// If the frames are not in a space that can be shared.
    pub fn shared_memory(&self) -> Vec<Arc<SharedMemory>> {
        let of_drive = |drive: &DriveFrames| [&drive.hmb.frames, &drive.hmb.table].map(memory_of);
        let mut memories: Vec<_> = self.drives.iter().flat_map(of_drive).collect();
        let notes = self.notes.shared();
        memories.extend(notes.expect("there are guests").cloned());
        memories
    }

    /// Frames of each drive.
    pub fn per_drive(&self) -> u32 {
        self.drives[0].hmb.frames.pages() as u32
    }

    /// Bytes of a page as stored.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Bytes of all that keeps book of the frames.
    pub fn bookkeeping_bytes(&self) -> usize {
        let of_drive = |drive: &DriveFrames| {
            drive.hmb.table.pages() * PAGE_BYTES
                + size_of_val(&*drive.word_lines)
                + size_of_val(&*drive.dirty_lines)
        };
        self.drives.iter().map(of_drive).sum::<usize>() + self.notes.bytes()
    }

    /// What a drive is told of its memory.
    pub fn memory(&self, drive: u32) -> Option<HmbMemory> {
        self.drives[drive as usize].hmb.memory()
    }

    /// The frame that the drive has told of, if it is one of firmware core `core` of `cores`, and whether
    /// it is blank.
    pub fn frame_at(&self, told: u64, core: u32, cores: u32) -> Option<Pinned> {
        let (address, is_blank) = split_address(told);
        let each = u64::from(frames_per_core(self.per_drive(), cores));
        let frame = address / PAGE_BYTES as u64;
        let first = |core: u32| u64::from(core) * each;
        let is_of_core = (first(core)..first(core + 1)).contains(&frame);
        let pinned = Pinned {
            frame: frame as u32,
            is_blank,
        };
        (address.is_multiple_of(PAGE_BYTES as u64) && is_of_core).then_some(pinned)
    }

    /// The word of a frame.
    #[inline(always)]
    fn word(&self, drive: usize, frame: u32) -> &Versioned {
        self.drives[drive].table.word(frame as usize)
    }

    /// The number of a frame among those of all drives.
    #[inline(always)]
    fn number(&self, drive: usize, frame: u32) -> usize {
        drive * self.per_drive() as usize + frame as usize
    }

    /// Takes the word of a frame that this client has pinned, to write; false if somebody has it.
    #[inline(always)]
    pub fn try_take(&self, cpu: &Cpu, drive: usize, frame: u32) -> bool {
        self.drives[drive].word_lines[frame as usize / WORDS_PER_LINE].write(cpu);
        let number = self.number(drive, frame);
        // First: who finds the word taken looks here whether it is.
        self.notes.begin_write(number);
        let is_taken = self.word(drive, frame).try_lock_as(self.holder);
        if !is_taken {
            self.notes.end_write(number);
        }
        is_taken
    }

    /// Gives the word back.
    #[inline(always)]
    pub fn give_back(&self, drive: usize, frame: u32) {
        self.word(drive, frame).unlock();
        self.notes.end_write(self.number(drive, frame));
    }

    /// Whether other processes can write to frames and words.
    pub fn are_shared(&self) -> bool {
        self.notes.are_kept()
    }

    /// Frees the word of a frame if it names somebody who does not have it; true if it did. To be called
    /// by who finds it in the way.
    pub fn mend(&self, drive: usize, frame: u32) -> bool {
        self.notes.are_kept() && self.mend_but(drive, frame, None)
    }

    /// Mends all words but those that name guest number `but`, which are for the drives to free. True if
    /// there was one to mend.
    pub fn mend_all(&self, but: Option<u32>) -> bool {
        let mut any = false;
        if self.notes.are_kept() {
            for drive in 0..self.drives.len() {
                for frame in 0..self.per_drive() {
                    any |= self.mend_but(drive, frame, but);
                }
            }
        }
        any
    }

    fn mend_but(&self, drive: usize, frame: u32, but: Option<u32>) -> bool {
        let number = self.number(drive, frame);
        self.word(drive, frame).free_unless(|holder| {
            let is_exempt = but.is_some() && holder.guest_number() == but;
            is_exempt || self.notes.has_word(holder, number)
        })
    }

    /// Whether the word of a frame names the drive, which other processes may have written. Who waits for
    /// that has the drive look.
    pub fn is_drives(&self, drive: usize, frame: u32) -> bool {
        self.notes.are_kept() && self.word(drive, frame).is_held_by(Holder::DRIVE)
    }

    /// From now on guest number `guest` is believed.
    pub fn admit(&self, guest: u32) {
        self.notes.admit(guest);
    }

    /// Strikes out what guest number `guest` has said: it is gone.
    pub fn forget(&self, guest: u32) {
        self.notes.forget(guest);
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
        self.drives[drive].hmb.frames.page_pointer(frame as usize)
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
        if !self.try_take(cpu, drive, frame) {
            return false;
        }
        self.copy_in_alone(cpu, drive, frame, from, data);
        self.set_dirty(cpu, drive, frame);
        self.give_back(drive, frame);
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

    /// Announces that a page is going to be overwritten. To be called before the command is sent: who
    /// finds the page in a frame afterwards finds the announcement too.
    pub fn announce(&self, page: u64) {
        self.notes.announce(page);
    }

    /// Takes the announcement back: the page is written, or not in a frame.
    pub fn retract(&self, page: u64) {
        self.notes.retract(page);
    }

    /// Whether somebody is still to overwrite a page, whose frame the drive has told to be blank.
    pub fn awaits_overwrite(&self, page: u64, drive: usize, frame: u32) -> bool {
        !self.is_dirty(drive, frame) && self.notes.is_announced(page)
    }
}

/// Frames of each firmware core of a drive that is lent `frames`; the rest stays unused.
pub fn frames_per_core(frames: u32, cores: u32) -> u32 {
    frames / cores
}

#[cfg(test)]
mod tests {
    use wharf_runtime::{CostTable, Machine, Side};

    use super::*;

    #[test]
    fn only_frames_of_the_core_are_believed() {
        let space = DmaSpace::new(8);
        let frames = Frames::new(&space, 1, 10, 0).unwrap();
        let at = |frame: u64, core| Some(frames.frame_at(frame * 4096, core, 3)?.frame);
        assert_eq!([at(0, 0), at(2, 0), at(3, 0)], [Some(0), Some(2), None]);
        assert_eq!([at(3, 1), at(5, 1), at(2, 1)], [Some(3), Some(5), None]);
        // The tenth frame is nobody's.
        assert_eq!([at(8, 2), at(9, 2)], [Some(8), None]);
        let blank = frames.frame_at(4097, 0, 1).unwrap();
        assert!(blank.frame == 1 && blank.is_blank);
        assert_eq!(frames.frame_at(4098, 0, 1), None);
        assert_eq!(frames.frame_at(u64::MAX, 0, 1), None);
    }

    /// A guest wrote any name into words. Whoever met one waited for ever.
    #[test]
    fn a_word_that_named_who_did_not_have_it_kept_its_frame_for_ever() {
        let mut machine = Machine::new(CostTable::free(), false);
        let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
        let inline = machine.inline();
        let cpu = inline.cpu(cpu);
        let space = DmaSpace::shareable(PAGE_BYTES);
        let owner = Frames::new(&space, 2, 10, 2).unwrap();
        let memories = owner.shared_memory();
        let guests = [0, 1].map(|guest| Frames::attach(&memories, 2, 10, guest));
        (0..2).for_each(|guest| owner.admit(guest));
        let word = |frame: u32| owner.word(1, frame);
        for named in 1..64 {
            let scribble = || {
                // SAFETY: an aligned word of the frame table; nobody else uses it.
                unsafe {
                    std::ptr::from_ref(word(7))
                        .cast::<u32>()
                        .cast_mut()
                        .write(named)
                }
            };
            for frames in [&owner, &guests[0], &guests[1]] {
                scribble();
                assert!(!frames.try_take(cpu, 1, 7));
                let is_drives = frames.is_drives(1, 7);
                assert!(is_drives == (named == 2) && frames.mend(1, 7) != is_drives);
                if is_drives {
                    word(7).unlock_of(Holder::DRIVE);
                }
                assert!(frames.try_take(cpu, 1, 7), "it names {named}");
                // Who has it keeps it.
                assert!(
                    [&owner, &guests[0], &guests[1]]
                        .iter()
                        .all(|f| !f.mend_all(None))
                );
                assert!(word(7).is_held_by(frames.holder));
                frames.give_back(1, 7);
            }
        }
        // What a guest that is gone has left is for the drives, until they have taken it back.
        assert!(guests[1].try_take(cpu, 0, 3));
        assert!(!owner.mend_all(Some(1)));
        owner.forget(1);
        assert!(!owner.mend_all(Some(1)) && owner.mend_all(None));
        assert!(owner.try_take(cpu, 0, 3));
    }
}
