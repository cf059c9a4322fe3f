//! What each process says of itself: pages that it is about to overwrite, frames that it is writing.
//!
//! 1. *Announcements*: pages that are going to be overwritten whole and are in no frame yet. Counted by
//!    hash of the page, so a false wait is rare and short.
//! 2. *Writers*: for each frame, how many threads have its word or are trying to take it. The word is in
//!    memory that all processes write, and one that errs may put any name there; this tells whether who is
//!    named has it ([`Versioned::free_unless`](wharf_runtime::Versioned::free_unless)). Kept where there
//!    are guests.
//!
//! Each process has notes of its own, in memory that only it and the owner can write and all can read. So
//! a guest can lie of itself alone, and when it is gone the owner strikes out what it said. It may keep its
//! notes mapped and go on: so the owner's notes tell whose are believed, those of guests with a slot.

use std::ptr::NonNull;
use std::sync::Arc;

use wharf_runtime::Holder;
use wharf_runtime::sync::{AtomicU8, AtomicU32, Ordering};
use wharf_wire::dma::{DmaRegion, DmaSpace, PAGE_BYTES, RegisterError};
use wharf_wire::memory::SharedMemory;

/// Announcement counters of a process.
const COUNTERS: usize = 4096;

/// Bytes that they take.
const COUNTER_BYTES: usize = COUNTERS * size_of::<u32>();

/// Where the writers begin. Between are, in the owner's notes, bytes that say which guests have slots.
const WRITERS: usize = COUNTER_BYTES + 64;

const _: () = assert!(Holder::GUESTS_MAX <= 64);

/// The notes of all processes.
pub struct Notes {
    /// The owner's, then the guests'.
    processes: Box<[DmaRegion]>,
    /// Which are this process's.
    own: usize,
    /// Frames that have writers noted: all, or none where there are no guests.
    frames: usize,
}

/// Pages of the notes of a process on `frames` frames.
const fn note_pages(frames: usize) -> usize {
    let bytes = match frames {
        0 => COUNTER_BYTES,
        _ => WRITERS + frames,
    };
    bytes.div_ceil(PAGE_BYTES)
}

/// Bytes of the notes of a process on `frames` frames.
pub const fn note_bytes(frames: usize) -> usize {
    note_pages(frames) * PAGE_BYTES
}

impl Notes {
    /// The notes of a process and its `guests` guests on `frames` frames: nothing yet.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(space: &Arc<DmaSpace>, frames: usize, guests: u32) -> Result<Notes, RegisterError> {
        if guests == 0 {
            return Ok(Notes {
                processes: Box::new([space.register_whole(note_pages(0))?]),
                own: 0,
                frames: 0,
            });
        }
        let bytes = note_bytes(frames);
        let own = SharedMemory::create_to_tell(bytes)?;
        let of_guests = (0..guests).map(|_| SharedMemory::create(bytes));
        let memories = std::iter::once(Ok(own)).chain(of_guests);
        let region = |memory: Result<_, _>| Ok(region(&Arc::new(memory?), frames));
        Ok(Notes {
            processes: memories.map(region).collect::<Result<_, RegisterError>>()?,
            own: 0,
            frames,
        })
    }

    /// The same, as guest number `guest` sees them in `memories`.
    ///
    /// # Panics
    /// If there is no such guest.
    pub fn attach(memories: &[Arc<SharedMemory>], frames: usize, guest: u32) -> Notes {
        let own = 1 + guest as usize;
        assert!(own < memories.len(), "guests are numbered from 0");
        Notes {
            processes: memories
                .iter()
                .map(|memory| region(memory, frames))
                .collect(),
            own,
            frames,
        }
    }

    /// The memories, the owner's first, if other processes can be given them.
    pub fn shared(&self) -> Option<impl Iterator<Item = &Arc<SharedMemory>>> {
        let memories = || self.processes.iter().filter_map(DmaRegion::shared);
        self.are_kept().then(memories)
    }

    /// Bytes of the notes.
    pub fn bytes(&self) -> usize {
        self.processes.len() * note_bytes(self.frames)
    }

    /// Whether writers are noted.
    #[inline(always)]
    pub fn are_kept(&self) -> bool {
        self.frames > 0
    }

    /// Byte `offset` of the notes of a process.
    #[inline(always)]
    fn at(&self, process: usize, offset: usize) -> NonNull<u8> {
        let first = self.processes[process].page_pointer(0);
        // SAFETY: inside the region, whose pages are next to each other: callers ask for what it has.
        unsafe { NonNull::new_unchecked(first.add(offset)) }
    }

    fn counter(&self, process: usize, index: usize) -> &AtomicU32 {
        assert!(index < COUNTERS, "no such counter");
        let at = self.at(process, index * size_of::<u32>());
        // SAFETY: one of the counters; an atomic, for which any bytes are valid.
        unsafe { at.cast().as_ref() }
    }

    #[inline(always)]
    fn writers(&self, process: usize, frame: usize) -> &AtomicU8 {
        assert!(frame < self.frames, "frame {frame} of {}", self.frames);
        // SAFETY: one of the bytes behind the counters; an atomic, for which any byte is valid.
        unsafe { self.at(process, WRITERS + frame).cast().as_ref() }
    }

    /// Whether a guest has a slot.
    fn slot(&self, guest: u32) -> &AtomicU8 {
        assert!(
            self.are_kept() && guest < Holder::GUESTS_MAX,
            "no such slot"
        );
        let at = self.at(0, COUNTER_BYTES + guest as usize);
        // SAFETY: one of the bytes between counters and writers; an atomic, for which any byte is valid.
        unsafe { at.cast().as_ref() }
    }

    /// Whether what a process says is believed.
    fn is_believed(&self, process: usize) -> bool {
        // Acquire: partner of the release in `admit`.
        process == 0 || self.slot(process as u32 - 1).load(Ordering::Acquire) != 0
    }

    /// Announces that a page is going to be overwritten. To be called before the command is sent: who
    /// finds the page in a frame afterwards finds the announcement too.
    pub fn announce(&self, page: u64) {
        let counter = self.counter(self.own, counter_of(page));
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the announcement back: the page is written, or not in a frame.
    pub fn retract(&self, page: u64) {
        // Release: partner of the acquire in `is_announced`, for what was written to the page.
        let counter = self.counter(self.own, counter_of(page));
        counter.fetch_sub(1, Ordering::Release);
    }

    /// Whether somebody is overwriting the page. To be asked after the drive has answered.
    pub fn is_announced(&self, page: u64) -> bool {
        let index = counter_of(page);
        // Acquire: partner of the release in `retract`.
        let announced = |process| {
            self.counter(process, index).load(Ordering::Acquire) > 0 && self.is_believed(process)
        };
        (0..self.processes.len()).any(announced)
    }

    /// Notes that a thread of this process is going to take the word of a frame.
    #[inline(always)]
    pub fn begin_write(&self, frame: usize) {
        if self.are_kept() {
            // Relaxed: who finds the word taken sees this, by the exchange that took it.
            self.writers(self.own, frame)
                .fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Strikes that out: the thread has not got the word, or has given it back.
    #[inline(always)]
    pub fn end_write(&self, frame: usize) {
        if self.are_kept() {
            // Release: partner of the acquire in `has_word`. Who sees it sees the word given back.
            self.writers(self.own, frame)
                .fetch_sub(1, Ordering::Release);
        }
    }

    /// Whether `holder` has the word of a frame, or is about to take it. Drives keep no notes: they mend
    /// words that name them by themselves.
    pub fn has_word(&self, holder: Holder, frame: usize) -> bool {
        let process = match (holder, holder.guest_number()) {
            (Holder::OWNER, _) => 0,
            (_, Some(guest)) => 1 + guest as usize,
            (_, None) => return true,
        };
        // Acquire: partner of the release in `end_write`.
        process < self.processes.len()
            && self.is_believed(process)
            && self.writers(process, frame).load(Ordering::Acquire) > 0
    }

    /// From now on guest number `guest` is believed, who has said nothing yet. For the owner.
    pub fn admit(&self, guest: u32) {
        self.strike_out(guest);
        // Release: partner of the acquire in `is_believed`, for what was struck out.
        self.slot(guest).store(1, Ordering::Release);
    }

    /// Strikes out all that guest number `guest` has said, and will: it is gone. For the owner.
    pub fn forget(&self, guest: u32) {
        self.slot(guest).store(0, Ordering::Release);
        self.strike_out(guest);
    }

    fn strike_out(&self, guest: u32) {
        let process = 1 + guest as usize;
        for index in 0..COUNTERS {
            // Release: as in `retract`.
            self.counter(process, index).store(0, Ordering::Release);
        }
        for frame in 0..self.frames {
            self.writers(process, frame).store(0, Ordering::Release);
        }
    }
}

fn region(memory: &Arc<SharedMemory>, frames: usize) -> DmaRegion {
    DmaRegion::of_owner(memory, note_pages(frames), PAGE_BYTES)
}

/// The counter of a page.
fn counter_of(page: u64) -> usize {
    let hash = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
    hash as usize % COUNTERS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The notes of an owner, as each of its two guests sees them too.
    fn three() -> (Notes, [Notes; 2]) {
        let owner = Notes::new(&DmaSpace::shareable(PAGE_BYTES), 10, 2).unwrap();
        let handed = |guest: u32| -> Vec<_> {
            let memories = owner.shared().unwrap().enumerate();
            let open = |(process, memory): (usize, &Arc<SharedMemory>)| match process {
                _ if process == 1 + guest as usize => {
                    SharedMemory::open(memory.descriptor().unwrap(), note_bytes(10))
                }
                _ => {
                    let file = memory.descriptor_to_read().unwrap();
                    SharedMemory::open_to_read(file, note_bytes(10))
                }
            };
            memories
                .map(|memory| Arc::new(open(memory).unwrap()))
                .collect()
        };
        let guests = [0, 1].map(|guest| Notes::attach(&handed(guest), 10, guest));
        (0..2).for_each(|guest| owner.admit(guest));
        (owner, guests)
    }

    #[test]
    fn announcements_are_counted() {
        let notes = Notes::new(&DmaSpace::new(8), 10, 0).unwrap();
        notes.announce(7);
        notes.announce(7);
        notes.retract(7);
        assert!(notes.is_announced(7) && !notes.is_announced(8));
        notes.retract(7);
        assert!(!notes.is_announced(7));
    }

    #[test]
    fn all_see_what_a_guest_says_until_it_is_forgotten() {
        let (owner, guests) = three();
        guests[1].announce(7);
        owner.announce(9);
        assert!(owner.is_announced(7) && guests[0].is_announced(7) && guests[1].is_announced(9));
        guests[1].begin_write(9);
        let has_it = |frame| [&owner, &guests[0]].map(|n| n.has_word(Holder::guest(1), frame));
        assert_eq!((has_it(9), has_it(8)), ([true; 2], [false; 2]));
        owner.forget(1);
        assert!(!guests[0].is_announced(7) && guests[0].is_announced(9));
        assert_eq!(has_it(9), [false; 2]);
        // One that is gone and goes on to say things.
        guests[1].announce(7);
        guests[1].begin_write(9);
        assert!(!guests[0].is_announced(7) && has_it(9) == [false; 2]);
        owner.admit(1);
        assert!(!guests[0].is_announced(7) && has_it(9) == [false; 2]);
        guests[1].begin_write(9);
        assert_eq!(has_it(9), [true; 2]);
    }

    #[test]
    fn writers_are_counted_by_process() {
        let (owner, guests) = three();
        owner.begin_write(3);
        owner.begin_write(3);
        owner.end_write(3);
        for notes in [&owner, &guests[0], &guests[1]] {
            assert!(notes.has_word(Holder::OWNER, 3));
            assert!(!notes.has_word(Holder::guest(0), 3) && !notes.has_word(Holder::guest(9), 3));
            assert!(notes.has_word(Holder::DRIVE, 3), "it is not known here");
        }
        owner.end_write(3);
        assert!(!guests[0].has_word(Holder::OWNER, 3));
    }
}
