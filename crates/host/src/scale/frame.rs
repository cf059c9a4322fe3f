//! All frames: their words, their bytes, and what touching them costs.
//!
//! [`FrameWord`] has the protocol; here each of its steps is told to the line that the words lie on, and bytes are
//! copied.

use std::sync::Arc;

use wharf_runtime::{Cpu, Line, Op};
use wharf_wire::dma::{DmaRegion, DmaSpace, RegisterError};

use crate::key::PageKey;
use crate::per_frame::per_frame;
use crate::scale::frame_word::{FrameWord, mark_of_use, may_go, pins};
use crate::span::Span;

pub use crate::scale::frame_word::{
    Copied, DIRTY, FAILED, FILLED, READAHEAD, REFERENCED, REUSED, STUCK, TAKEN, UNTOUCHED, WAITERS,
    WRITEBACK, takes_guards,
};

struct Frame {
    word: FrameWord,
    line: Line,
}

/// All frames, by number.
pub struct Frames {
    all: Box<[Frame]>,
    region: DmaRegion,
}

impl Frames {
    /// `count` free frames, with their memory in `space`.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(count: u32, space: &Arc<DmaSpace>) -> Result<Frames, RegisterError> {
        let frame = |_| Frame {
            word: FrameWord::free(),
            line: Line::new(),
        };
        Ok(Frames {
            all: per_frame(count, frame)?.into(),
            region: space.register(count as usize)?,
        })
    }

    /// Number of frames.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// Bytes of a page as stored: 4096, or 8 for stamps.
    pub fn page_bytes(&self) -> usize {
        self.region.page_bytes()
    }

    /// The DMA address of a frame.
    pub fn address(&self, frame: u32) -> u64 {
        self.region.address(frame as usize)
    }

    /// The state of a frame.
    #[inline]
    pub fn state(&self, frame: u32) -> u32 {
        self.all[frame as usize].word.state()
    }

    /// True if the frame has one of `flags`.
    #[inline]
    pub fn is(&self, frame: u32, flags: u32) -> bool {
        self.state(frame) & flags != 0
    }

    /// The page that a frame holds.
    #[inline]
    pub fn key(&self, frame: u32) -> Option<PageKey> {
        self.all[frame as usize].word.key()
    }

    /// The bytes of a frame, for those who have a right to it: what a pin, a transfer or the frame's word
    /// permits.
    #[inline]
    pub fn pointer(&self, frame: u32) -> *mut u8 {
        self.region.page_pointer(frame as usize)
    }

    /// Pins of a frame, for checks.
    pub fn pins(&self, frame: u32) -> u32 {
        pins(self.state(frame))
    }

    /// The words of a frame, by one who changes them.
    #[inline]
    fn words(&self, cpu: &Cpu, frame: u32) -> &FrameWord {
        let frame = &self.all[frame as usize];
        frame.line.write(cpu);
        &frame.word
    }

    /// The frame's place in a list has changed: in the operating system what says so is on its line.
    #[inline]
    pub fn relink(&self, cpu: &Cpu, frame: u32) {
        self.all[frame as usize].line.write(cpu);
    }

    /// See [`FrameWord::change`].
    #[inline]
    pub fn change(&self, cpu: &Cpu, frame: u32, set: u32, clear: u32) -> u32 {
        self.words(cpu, frame).change(set, clear)
    }

    /// See [`FrameWord::try_pin`].
    #[inline]
    pub fn try_pin(&self, cpu: &Cpu, frame: u32, key: PageKey) -> bool {
        self.words(cpu, frame).try_pin(key)
    }

    /// See [`FrameWord::pin_again`].
    pub fn pin_again(&self, cpu: &Cpu, frame: u32) {
        self.words(cpu, frame).pin_again();
    }

    /// See [`FrameWord::unpin`].
    #[inline]
    pub fn unpin(&self, cpu: &Cpu, frame: u32) {
        self.words(cpu, frame).unpin();
    }

    /// See [`FrameWord::begin`].
    pub fn begin(&self, cpu: &Cpu, frame: u32, key: PageKey, flags: u32) {
        self.words(cpu, frame).begin(key, flags);
    }

    /// See [`FrameWord::take`].
    pub fn take(&self, cpu: &Cpu, frame: u32) -> bool {
        self.words(cpu, frame).take()
    }

    /// Marks the page of a frame as used, whose state was `state` a moment ago. Writes nothing if it is marked.
    /// True for the first use of a page that was read ahead.
    #[inline]
    pub fn mark_used(&self, cpu: &Cpu, frame: u32, state: u32) -> bool {
        let mark = mark_of_use(state);
        // A page that nobody has touched is not marked as used: see `UNTOUCHED`.
        mark != 0 && self.change(cpu, frame, mark, UNTOUCHED) & UNTOUCHED != 0
    }

    /// True if the page of a frame may go, as far as its state says.
    pub fn may_go(&self, frame: u32) -> bool {
        may_go(self.state(frame))
    }

    /// See [`FrameWord::cancel`].
    pub fn cancel(&self, cpu: &Cpu, frame: u32) {
        self.words(cpu, frame).cancel();
    }

    /// See [`FrameWord::empty`].
    pub fn empty(&self, cpu: &Cpu, frame: u32) {
        self.words(cpu, frame).empty();
    }

    /// Takes the word of a frame that the caller has pinned: nobody else changes its bytes, or marks
    /// it as dirty or in write-back, until it is [unlocked](Frames::unlock). Nobody sleeps with it.
    #[inline]
    pub fn lock(&self, cpu: &Cpu, frame: u32) {
        self.words(cpu, frame).lock();
    }

    /// Gives the word back.
    #[inline]
    pub fn unlock(&self, frame: u32) {
        self.all[frame as usize].word.unlock();
    }

    /// Fills a frame, whose word the caller has and which the drive does not read, with zeros.
    pub fn zero(&self, frame: u32) {
        debug_assert!(!self.is(frame, WRITEBACK), "the drive reads the page");
        // SAFETY: the frame's own page; the word keeps other writers away, and readers check it.
        unsafe { self.pointer(frame).write_bytes(0, self.page_bytes()) };
    }

    /// Copies a span of a page out of a frame, if it is there.
    #[inline]
    pub fn copy_out(
        &self,
        cpu: &Cpu,
        number: u32,
        key: PageKey,
        span: &Span,
        out: &mut [u8],
    ) -> Copied {
        let frame = &self.all[number as usize];
        frame.line.read(cpu);
        let (from, to) = (span.in_page(), &mut out[span.in_payload()]);
        assert!(from.end <= self.page_bytes() && from.len() == to.len());
        frame.word.read(key, || {
            cpu.work(Op::CopyPage, || {
                // SAFETY: both ranges are inside their memory (asserted) and apart. A writer may
                // disturb the copy; then it is done again before anyone sees it.
                unsafe {
                    let source = self.region.page_pointer(number as usize).add(from.start);
                    std::ptr::copy_nonoverlapping(source, to.as_mut_ptr(), to.len());
                }
            });
        })
    }

    /// Copies a span into a frame whose word the caller has, and which the drive does not read.
    #[inline]
    pub fn copy_in(&self, cpu: &Cpu, frame: u32, span: &Span, data: &[u8]) {
        debug_assert!(!self.is(frame, WRITEBACK), "the drive reads the page");
        let (to, from) = (span.in_page(), &data[span.in_payload()]);
        assert!(to.end <= self.page_bytes() && from.len() == to.len());
        cpu.work(Op::CopyPage, || {
            // SAFETY: inside the page (asserted); the word keeps other writers away, and readers
            // check it.
            unsafe {
                let target = self.region.page_pointer(frame as usize).add(to.start);
                std::ptr::copy_nonoverlapping(from.as_ptr(), target, from.len());
            }
        });
    }
}
