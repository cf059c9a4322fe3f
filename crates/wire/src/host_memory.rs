//! Memory that the host lends to a drive: feature 0Dh, its descriptors, and the frame table.
//!
//! The drive keeps cached pages in the host memory buffer; a page of it is a *frame*. As in NVM Express the
//! feature names a list of descriptors. Ours also carry the address by which the host wants to be
//! told of frames (ScalaCache, section 5.6), and a *frame table* beside each chunk:
//!
//! 1. a word for each frame ([`Versioned`]): the host takes it to write to the frame, and either side
//!    can tell whether what it copied out is whole;
//! 2. a bit for each frame ([`DirtyBits`]): the host sets it while it has the word, the drive clears it
//!    when it is about to copy the frame. So the drive learns of every write at the latest at the next
//!    flush, and a write to a frame that is already dirty changes nothing that others look at.

use std::ptr::NonNull;
use std::sync::Arc;

use wharf_runtime::{DirtyBits, Versioned};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::bits::bit_fields;
use crate::command::{Command, PAGE_BYTES};
use crate::features::FeatureId;

/// Most descriptors of a list: as many as fill 32 pages.
pub const DESCRIPTORS_MAX: u32 = 4096;

bit_fields! {
    /// Set features: host memory.
    mod host_memory_fields {
        EHM = 11 [0:0];
        HSIZE = 12 [31:0];
        HMDLLA = 13 [31:0];
        HMDLUA = 14 [31:0];
        HMDLEC = 15 [31:0];
    }
}

/// One chunk of the host memory buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HostMemoryDescriptor {
    /// DMA address of the first frame, a multiple of 4096.
    pub badd: u64,
    /// Number of frames.
    pub bsize: u32,
    pub(crate) reserved: u32,
    /// What the host calls the first frame; the next is 4096 further. Bits 11:0 and 63 are 0.
    pub vadd: u64,
    /// DMA address of the chunk's frame table, in a region of whole pages; a multiple of 4096.
    pub table: u64,
}

const _: () = assert!(size_of::<HostMemoryDescriptor>() == 32);

impl HostMemoryDescriptor {
    /// A chunk of `frames` frames.
    pub const fn new(badd: u64, frames: u32, vadd: u64, table: u64) -> HostMemoryDescriptor {
        HostMemoryDescriptor {
            badd,
            bsize: frames,
            reserved: 0,
            vadd,
            table,
        }
    }
}

impl Command {
    /// Lends the drive `frames` frames, in chunks that the `entries` descriptors at `list` name.
    pub const fn lend_host_memory(frames: u32, list: u64, entries: u32) -> Command {
        Command::set_feature(FeatureId::HostMemory, 0)
            .with(host_memory_fields::EHM, 1)
            .with(host_memory_fields::HSIZE, frames)
            .with(host_memory_fields::HMDLLA, list as u32)
            .with(host_memory_fields::HMDLUA, (list >> 32) as u32)
            .with(host_memory_fields::HMDLEC, entries)
    }

    /// Takes all the host memory buffer back. The drive writes back what is dirty first.
    pub const fn take_host_memory_back() -> Command {
        Command::set_feature(FeatureId::HostMemory, 0)
    }

    /// Whether the command lends memory, or takes it back.
    pub const fn lends_host_memory(&self) -> bool {
        self.field(host_memory_fields::EHM) != 0
    }

    /// Frames lent.
    pub const fn host_memory_frames(&self) -> u32 {
        self.field(host_memory_fields::HSIZE)
    }

    /// DMA address of the descriptor list and number of its entries.
    pub const fn host_memory_list(&self) -> (u64, u32) {
        let low = self.field(host_memory_fields::HMDLLA) as u64;
        let high = self.field(host_memory_fields::HMDLUA) as u64;
        (low | high << 32, self.field(host_memory_fields::HMDLEC))
    }
}

/// Bytes of the words of a table for `frames` frames: a multiple of 64.
const fn word_bytes(frames: usize) -> usize {
    (frames * size_of::<Versioned>()).next_multiple_of(64)
}

/// Whole pages that a table for `frames` frames takes.
pub const fn frame_table_pages(frames: usize) -> usize {
    (word_bytes(frames) + frames.div_ceil(64) * 8).div_ceil(PAGE_BYTES)
}

/// A view of a frame table, of either half. See the module.
pub struct FrameTable {
    words: NonNull<Versioned>,
    dirty: NonNull<DirtyBits>,
    frames: usize,
    /// Keeps the memory.
    _memory: Arc<dyn Send + Sync>,
}

// SAFETY: all of the table is atomics, and the memory lives as long as the view.
unsafe impl Send for FrameTable {}
// SAFETY: as above.
unsafe impl Sync for FrameTable {}

impl FrameTable {
    /// The table for `frames` frames at `start`, in memory that `memory` keeps.
    ///
    /// # Safety
    /// [`frame_table_pages`] whole pages from `start` on, which is a multiple of 64, are valid while
    /// `memory` lives, began as zeros, and are used as a frame table alone.
    pub(crate) unsafe fn new(
        start: NonNull<u8>,
        frames: usize,
        memory: Arc<dyn Send + Sync>,
    ) -> FrameTable {
        FrameTable {
            words: start.cast(),
            // SAFETY: inside the table, by the caller's contract.
            dirty: unsafe { start.add(word_bytes(frames)) }.cast(),
            frames,
            _memory: memory,
        }
    }

    /// Number of frames.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// The word of a frame.
    #[inline]
    pub fn word(&self, frame: usize) -> &Versioned {
        assert!(frame < self.frames, "frame {frame} of {}", self.frames);
        // SAFETY: inside the table, which outlives `self`; a word is an atomic.
        unsafe { self.words.add(frame).as_ref() }
    }

    /// The dirty bits of frames `64 * index ..`.
    #[inline]
    fn dirty_word(&self, index: usize) -> &DirtyBits {
        assert!(index < self.frames.div_ceil(64), "no such word");
        // SAFETY: as for `word`.
        unsafe { self.dirty.add(index).as_ref() }
    }

    /// True if the frame was written since its bit was cleared.
    #[inline]
    pub fn is_dirty(&self, frame: usize) -> bool {
        self.dirty_word(frame / 64).is_set(frame % 64)
    }

    /// Marks a frame as dirty; true if it was not. A writer does so while it holds the frame's word.
    #[inline]
    pub fn set_dirty(&self, frame: usize) -> bool {
        self.dirty_word(frame / 64).set(frame % 64)
    }

    /// Clears a frame's bit; true if it was set. To be called before the frame is copied: a write
    /// that comes later sets it again.
    #[inline]
    pub fn clear_dirty(&self, frame: usize) -> bool {
        self.dirty_word(frame / 64).clear(frame % 64)
    }

    /// The dirty bits of frames `64 * index ..`, to look for frames that are dirty.
    #[inline]
    pub fn dirty_bits(&self, index: usize) -> u64 {
        self.dirty_word(index).bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dma::{DmaSpace, STAMP_BYTES};

    #[test]
    fn the_feature_comes_back() {
        let command = Command::lend_host_memory(77, 0x1234_5678_9000, 3);
        assert!(command.lends_host_memory());
        assert_eq!(command.host_memory_frames(), 77);
        assert_eq!(command.host_memory_list(), (0x1234_5678_9000, 3));
        assert!(!Command::take_host_memory_back().lends_host_memory());
    }

    #[test]
    fn both_halves_see_one_table() {
        let space = DmaSpace::new(STAMP_BYTES);
        let frames = 5000;
        let region = space.register_whole(frame_table_pages(frames)).unwrap();
        let host = region.frame_table(frames);
        let drive = space.frame_table(region.address(0), frames).unwrap();
        assert!(host.set_dirty(4999) && !host.set_dirty(4999));
        assert!(drive.is_dirty(4999) && !drive.is_dirty(4998));
        assert_eq!(drive.dirty_bits(4999 / 64), 1 << (4999 % 64));
        assert!(drive.clear_dirty(4999) && !drive.clear_dirty(4999));
        assert!(host.word(17).try_lock());
        assert!(drive.word(17).is_locked() && !drive.word(16).is_locked());
        assert!(space.frame_table(region.address(0), 1 << 20).is_err());
        assert!(space.frame_table(region.address(0) + 64, 8).is_err());
    }
}
