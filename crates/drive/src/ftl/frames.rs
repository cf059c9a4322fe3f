//! Frames: pages of device memory that hold data on its way to flash.
//!
//! Every program goes through a frame, a host write as well as a page that collection moves. While
//! it is there the map entry names the frame, and the frame keeps what the entry held before: the
//! *old* physical page, which stays valid until the new one is on flash. So a power cut at any time
//! finds the old page or the new one.
//!
//! A page written again while its frame is still under way gets a second frame that follows the
//! first: frames of one logical page form a chain from oldest to newest, the oldest holds the old
//! page, the map names the newest. Programs of a chain may end in any order.

use super::entry::NONE;

/// Instead of an old page: zeros that are allocated, and are to be found after a power cut.
pub const OLD_ZEROS: u32 = NONE - 1;

/// One frame's account.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// The logical page.
    pub lpn: u32,
    /// Where it is going.
    pub ppn: u32,
    /// The flash page it replaces; [`NONE`] if there is none or an older frame holds it, [`OLD_ZEROS`]
    /// if it replaces zeros that are on no flash.
    pub old: u32,
    /// The next older frame of the same page that is under way.
    pub older: u32,
    /// The next newer frame of the same page.
    pub newer: u32,
    /// Who waits for it: a worker's number, a collector's with its mark, or [`NONE`].
    pub owner: u32,
    /// The program's sequence number.
    pub seq: u64,
    /// Overtaken or deallocated: what it programs is garbage.
    pub dead: bool,
}

/// Whose frames are meant: collection must never wait for host writes to make progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A host write.
    Host,
    /// A page moved by collection.
    Gc,
}

/// How many of a core's frames are for collection: a quarter, and at least one.
pub(crate) fn gc_frames(frames: u32) -> u32 {
    (frames / 4).max(1)
}

/// All frames of a core.
#[derive(Debug)]
pub struct Frames {
    frames: Vec<Frame>,
    data: Vec<u8>,
    page_bytes: usize,
    free_host: Vec<u32>,
    free_gc: Vec<u32>,
    gc_first: u32,
}

impl Frames {
    /// `count` frames, some of them for collection.
    pub fn new(count: u32, page_bytes: usize) -> Frames {
        let count = count.max(2);
        let gc_first = count - gc_frames(count);
        let none = Frame {
            lpn: NONE,
            ppn: NONE,
            old: NONE,
            older: NONE,
            newer: NONE,
            owner: NONE,
            seq: 0,
            dead: false,
        };
        Frames {
            frames: vec![none; count as usize],
            data: vec![0; count as usize * page_bytes],
            page_bytes,
            free_host: (0..gc_first).rev().collect(),
            free_gc: (gc_first..count).rev().collect(),
            gc_first,
        }
    }

    /// Frames that are collection's.
    pub fn gc_count(&self) -> u32 {
        self.frames.len() as u32 - self.gc_first
    }

    /// Bytes of a frame.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Takes a free frame.
    #[inline]
    pub fn take(&mut self, origin: Origin) -> Option<u32> {
        match origin {
            Origin::Host => self.free_host.pop(),
            Origin::Gc => self.free_gc.pop(),
        }
    }

    /// True if a frame is free.
    #[inline]
    pub fn has_free(&self, origin: Origin) -> bool {
        match origin {
            Origin::Host => !self.free_host.is_empty(),
            Origin::Gc => !self.free_gc.is_empty(),
        }
    }

    /// Gives a frame back.
    #[inline]
    pub fn release(&mut self, frame: u32) {
        self.frames[frame as usize].lpn = NONE;
        if frame >= self.gc_first {
            self.free_gc.push(frame)
        } else {
            self.free_host.push(frame)
        }
    }

    /// The frame's account.
    #[inline]
    pub fn get(&self, frame: u32) -> &Frame {
        &self.frames[frame as usize]
    }

    /// The frame's account, to change.
    #[inline]
    pub fn get_mut(&mut self, frame: u32) -> &mut Frame {
        &mut self.frames[frame as usize]
    }

    /// The frame's bytes.
    #[inline]
    pub fn data(&self, frame: u32) -> &[u8] {
        &self.data[frame as usize * self.page_bytes..][..self.page_bytes]
    }

    /// The frame's bytes, to fill.
    #[inline]
    pub fn data_mut(&mut self, frame: u32) -> &mut [u8] {
        &mut self.data[frame as usize * self.page_bytes..][..self.page_bytes]
    }

    /// The oldest sequence number under way, if any.
    pub fn oldest_seq(&self) -> Option<u64> {
        self.frames
            .iter()
            .filter(|f| f.lpn != NONE)
            .map(|f| f.seq)
            .min()
    }

    /// The oldest sequence number under way in frames of this origin, if any.
    pub fn oldest_seq_of(&self, origin: Origin) -> Option<u64> {
        let (host, gc) = self.frames.split_at(self.gc_first as usize);
        let own = match origin {
            Origin::Host => host,
            Origin::Gc => gc,
        };
        own.iter().filter(|f| f.lpn != NONE).map(|f| f.seq).min()
    }

    /// The oldest frame of the chain that `frame` belongs to.
    pub fn oldest_of(&self, mut frame: u32) -> u32 {
        while self.frames[frame as usize].older != NONE {
            frame = self.frames[frame as usize].older;
        }
        frame
    }

    /// Every frame with a page that is under way, with its account.
    pub fn under_way(&self) -> impl Iterator<Item = (u32, &Frame)> {
        (0..).zip(&self.frames).filter(|(_, f)| f.lpn != NONE)
    }

    /// True if a page of `first .. end` stays valid because the frame that replaces it is under way.
    pub fn any_replaces(&self, pages: std::ops::Range<u32>) -> bool {
        self.frames
            .iter()
            .any(|f| f.lpn != NONE && pages.contains(&f.old))
    }

    /// Ends the chain below `frame`: every older frame is dead. Returns the old page they stood for.
    pub fn settle_older(&mut self, frame: u32) -> u32 {
        let mut holder = frame;
        while self.frames[holder as usize].older != NONE {
            holder = std::mem::replace(&mut self.frames[holder as usize].older, NONE);
            self.frames[holder as usize].dead = true;
        }
        std::mem::replace(&mut self.frames[holder as usize].old, NONE)
    }
}
