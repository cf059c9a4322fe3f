//! All frames: their words, their bytes, and what touching them costs.
//!
//! [`FrameWord`] has the protocol; here each of its steps is told to the line that the word lies
//! on, and bytes are copied.

use std::sync::Arc;

use wharf_runtime::{Cpu, Op};
use wharf_wire::dma::{DmaSpace, RegisterError};

use crate::key::PageKey;
use crate::kit::frames::FrameTable;
use crate::scale::frame_word::{FrameWord, mark_of_use, may_go, pins};
use crate::span::Span;

pub use crate::scale::frame_word::{
    Copied, DIRTY, FAILED, FILLED, READAHEAD, REFERENCED, REUSED, STUCK, TAKEN, UNTOUCHED, WAITERS,
    WRITEBACK, takes_guards,
};

/// All frames, by number.
pub type Frames = FrameTable<FrameWord>;

impl FrameTable<FrameWord> {
    /// `count` free frames, with their memory in `space`.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(count: u32, space: &Arc<DmaSpace>) -> Result<Frames, RegisterError> {
        Frames::of(count, space, FrameWord::free)
    }

    /// The state of a frame.
    #[inline]
    pub fn state(&self, frame: u32) -> u32 {
        self.word(frame).state()
    }

    /// True if the frame has one of `flags`.
    #[inline]
    pub fn is(&self, frame: u32, flags: u32) -> bool {
        self.state(frame) & flags != 0
    }

    /// The page that a frame holds.
    #[inline]
    pub fn key(&self, frame: u32) -> Option<PageKey> {
        self.word(frame).key()
    }

    /// Pins of a frame, for checks.
    pub fn pins(&self, frame: u32) -> u32 {
        pins(self.state(frame))
    }

    /// See [`FrameWord::change`].
    #[inline]
    pub fn change(&self, cpu: &Cpu, frame: u32, set: u32, clear: u32) -> u32 {
        self.word_to_write(cpu, frame).change(set, clear)
    }

    /// See [`FrameWord::try_pin`].
    #[inline]
    pub fn try_pin(&self, cpu: &Cpu, frame: u32, key: PageKey) -> bool {
        self.word_to_write(cpu, frame).try_pin(key)
    }

    /// See [`FrameWord::pin_again`].
    pub fn pin_again(&self, cpu: &Cpu, frame: u32) {
        self.word_to_write(cpu, frame).pin_again();
    }

    /// See [`FrameWord::unpin`].
    #[inline]
    pub fn unpin(&self, cpu: &Cpu, frame: u32) {
        self.word_to_write(cpu, frame).unpin();
    }

    /// See [`FrameWord::begin`].
    pub fn begin(&self, cpu: &Cpu, frame: u32, key: PageKey, flags: u32) {
        self.word_to_write(cpu, frame).begin(key, flags);
    }

    /// See [`FrameWord::take`].
    pub fn take(&self, cpu: &Cpu, frame: u32) -> bool {
        self.word_to_write(cpu, frame).take()
    }

    /// Marks the page of a frame as used, whose state was `state` a moment ago. Writes nothing if
    /// it is marked. True for the first use of a page that was read ahead.
    #[inline]
    pub fn mark_used(&self, cpu: &Cpu, frame: u32, state: u32) -> bool {
        let mark = mark_of_use(state);
        // A page that nobody has touched is not marked as used: see `UNTOUCHED`.
        mark != 0 && self.change(cpu, frame, mark, UNTOUCHED) & UNTOUCHED != 0
    }

    /// The same, where both marks are a number of uses, three at most.
    #[inline]
    pub fn count_use(&self, cpu: &Cpu, frame: u32, state: u32) -> bool {
        let (set, clear) = match state & (REFERENCED | REUSED) {
            0 => (REFERENCED, UNTOUCHED),
            REFERENCED => (REUSED, REFERENCED | UNTOUCHED),
            REUSED => (REFERENCED, UNTOUCHED),
            _ => return false,
        };
        self.change(cpu, frame, set, clear) & UNTOUCHED != 0
    }

    /// That number; it is none from now on.
    pub fn take_uses(&self, cpu: &Cpu, frame: u32) -> u8 {
        let number = |state: u32| match state & (REFERENCED | REUSED) {
            0 => 0,
            REFERENCED => 1,
            REUSED => 2,
            _ => 3,
        };
        match number(self.state(frame)) {
            0 => 0,
            _ => number(self.change(cpu, frame, 0, REFERENCED | REUSED)),
        }
    }

    /// True if the page of a frame may go, as far as its state says.
    pub fn may_go(&self, frame: u32) -> bool {
        may_go(self.state(frame))
    }

    /// See [`FrameWord::cancel`].
    pub fn cancel(&self, cpu: &Cpu, frame: u32) {
        self.word_to_write(cpu, frame).cancel();
    }

    /// See [`FrameWord::empty`].
    pub fn empty(&self, cpu: &Cpu, frame: u32) {
        self.word_to_write(cpu, frame).empty();
    }

    /// Takes the word of a frame that the caller has pinned: nobody else changes its bytes, or
    /// marks it as dirty or in write-back, until it is [unlocked](Frames::unlock). Nobody sleeps
    /// with it.
    #[inline]
    pub fn lock(&self, cpu: &Cpu, frame: u32) {
        self.word_to_write(cpu, frame).lock();
    }

    /// Gives the word back.
    #[inline]
    pub fn unlock(&self, frame: u32) {
        self.word(frame).unlock();
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
        frame: u32,
        key: PageKey,
        span: &Span,
        out: &mut [u8],
    ) -> Copied {
        self.word_to_read(cpu, frame).read(key, || {
            // SAFETY: the word says whether a writer disturbed it, and then it is done again before
            // anyone sees it.
            cpu.work(Op::CopyPage, || unsafe { self.copy_from(frame, span, out) });
        })
    }

    /// Copies a span into a frame whose word the caller has, and which the drive does not read.
    #[inline]
    pub fn copy_in(&self, cpu: &Cpu, frame: u32, span: &Span, data: &[u8]) {
        debug_assert!(!self.is(frame, WRITEBACK), "the drive reads the page");
        // SAFETY: the word keeps other writers away, and readers check it.
        cpu.work(Op::CopyPage, || unsafe { self.copy_to(frame, span, data) });
    }
}
