//! The frames of a cache: for each a word that says what it holds, the cache line that the word is
//! on, and the bytes.
//!
//! What a word is, and how it changes, is the design's: see [`kernel`](crate::kernel::frame) and
//! [`scale`](crate::scale::frame).

use std::sync::Arc;

use wharf_runtime::{Cpu, Line};
use wharf_wire::dma::{DmaRegion, DmaSpace, RegisterError};

use crate::kit::per_frame::per_frame;
use crate::span::Span;

/// See the module. Frames are known by number.
pub struct FrameTable<W> {
    words: Box<[(W, Line)]>,
    region: DmaRegion,
}

impl<W> FrameTable<W> {
    /// `count` frames with a `word` each, and their memory in `space`.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn of(
        count: u32,
        space: &Arc<DmaSpace>,
        word: impl Fn() -> W,
    ) -> Result<FrameTable<W>, RegisterError> {
        Ok(FrameTable {
            words: per_frame(count, |_| (word(), Line::new()))?.into(),
            region: space.register(count as usize)?,
        })
    }

    /// Number of frames.
    pub fn count(&self) -> u32 {
        self.words.len() as u32
    }

    /// Bytes of a page as stored: 4096, or 8 for stamps.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.region.page_bytes()
    }

    /// Their memory.
    pub fn memory(&self) -> &DmaRegion {
        &self.region
    }

    /// The bytes of a frame, for those who have a right to it by what its word says.
    #[inline]
    pub fn pointer(&self, frame: u32) -> *mut u8 {
        self.region.page_pointer(frame as usize)
    }

    /// A frame's word, for a look.
    #[inline]
    pub(crate) fn word(&self, frame: u32) -> &W {
        &self.words[frame as usize].0
    }

    /// A frame's word, by one whose look fetches its line.
    #[inline]
    pub(crate) fn word_to_read(&self, cpu: &Cpu, frame: u32) -> &W {
        let (word, line) = &self.words[frame as usize];
        line.read(cpu);
        word
    }

    /// A frame's word, by one who changes it.
    #[inline]
    pub(crate) fn word_to_write(&self, cpu: &Cpu, frame: u32) -> &W {
        let (word, line) = &self.words[frame as usize];
        line.write(cpu);
        word
    }

    /// The frame's place in a list has changed: in the operating system what says so is on its
    /// line.
    #[inline]
    pub(crate) fn relink(&self, cpu: &Cpu, frame: u32) {
        self.words[frame as usize].1.write(cpu);
    }

    /// Copies a span of a page out of a frame.
    ///
    /// # Safety
    /// A writer may disturb the copy: the caller finds out by the frame's word, and shows it to
    /// nobody then.
    #[inline]
    pub(crate) unsafe fn copy_from(&self, frame: u32, span: &Span, out: &mut [u8]) {
        let (from, to) = (span.in_page(), &mut out[span.in_payload()]);
        assert!(from.end <= self.page_bytes() && from.len() == to.len());
        // SAFETY: both ranges are inside their memory (asserted) and apart; the rest is the
        // caller's.
        unsafe {
            let source = self.pointer(frame).add(from.start);
            std::ptr::copy_nonoverlapping(source, to.as_mut_ptr(), to.len());
        }
    }

    /// Copies a span of a page into a frame.
    ///
    /// # Safety
    /// Nobody else writes to the frame, and the drive does not read it; readers check its word.
    #[inline]
    pub(crate) unsafe fn copy_to(&self, frame: u32, span: &Span, data: &[u8]) {
        let (to, from) = (span.in_page(), &data[span.in_payload()]);
        assert!(to.end <= self.page_bytes() && from.len() == to.len());
        // SAFETY: inside the page (asserted); the rest is the caller's.
        unsafe {
            let target = self.pointer(frame).add(to.start);
            std::ptr::copy_nonoverlapping(from.as_ptr(), target, from.len());
        }
    }
}
