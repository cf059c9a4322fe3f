//! Frames: which page each holds, what state that page is in, and its bytes.
//!
//! Problem: a hit must write nothing that other CPUs read, or hits of many CPUs on one page pass its
//! line around.
//!
//! Idea: nobody counts readers. A reader copies and then looks whether the frame's
//! [`Versioned`] word is what it was; a frame that changes its bytes or its page changes its word.
//! Whoever needs a page to stay (a writer, a flusher, a program with a guard) counts itself among the
//! frame's *pins*, which are in one word with its state.
//!
//! 1. A free frame is *taken*: nobody pins it. [`Frames::begin`] gives it to a page, with a pin of
//!    whoever fills it.
//! 2. When the bytes are there, the state says [`FILLED`]; if they could not be had, [`FAILED`], and the
//!    next one who wants the page tries again.
//! 3. [`Frames::take`] succeeds on a frame that nobody fills, clean and without pins; it is out of
//!    bounds for pins then, and [`Frames::empty`] turns readers away as well.

use std::sync::Arc;

use wharf_runtime::sync::{AtomicU32, AtomicU64, Ordering};
use wharf_runtime::{Cpu, Line, Op, Versioned};
use wharf_wire::dma::{DmaRegion, DmaSpace, RegisterError};

use crate::key::PageKey;
use crate::span::Span;

/// The bytes are the page's.
pub const FILLED: u32 = 1;
/// The drive does not have the bytes.
pub const DIRTY: u32 = 1 << 1;
/// The drive reads the bytes: they must not change.
pub const WRITEBACK: u32 = 1 << 2;
/// Used since CLOCK's hand came by.
pub const REFERENCED: u32 = 1 << 3;
/// The drive has not answered in time: nobody should wait for the page.
pub const STUCK: u32 = 1 << 4;
/// Somebody waits for a change of the state.
pub const WAITERS: u32 = 1 << 5;
/// A read of this page starts the next read-ahead.
pub const READAHEAD: u32 = 1 << 6;
/// The bytes could not be read; nobody is at it.
pub const FAILED: u32 = 1 << 7;
/// Free, or being freed.
const TAKEN: u32 = 1 << 8;
/// One pin; the bits above count them.
const PIN: u32 = 1 << 9;

/// No page: not a key, see [`FILES_MAX`](crate::key::FILES_MAX).
const NO_PAGE: u64 = u64::MAX;

struct Frame {
    state: AtomicU32,
    word: Versioned,
    page: AtomicU64,
    line: Line,
}

/// What came of copying out of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copied {
    /// All of it. The state is what it was.
    Done(u32),
    /// The frame holds another page, or none.
    Moved,
    /// The page is not there yet.
    Unfilled,
}

/// Whether a page in this state may go.
#[inline]
fn may_go(state: u32) -> bool {
    state & (FILLED | FAILED) != 0 && state & (DIRTY | WRITEBACK | TAKEN) == 0 && state < PIN
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
            state: AtomicU32::new(TAKEN),
            word: Versioned::new(),
            page: AtomicU64::new(NO_PAGE),
            line: Line::new(),
        };
        Ok(Frames {
            all: (0..count).map(frame).collect(),
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
        // Acquire: partner of the releases below.
        self.all[frame as usize].state.load(Ordering::Acquire)
    }

    /// True if the frame has one of `flags`.
    #[inline]
    pub fn is(&self, frame: u32, flags: u32) -> bool {
        self.state(frame) & flags != 0
    }

    /// The page that a frame holds.
    #[inline]
    pub fn key(&self, frame: u32) -> Option<PageKey> {
        let page = self.all[frame as usize].page.load(Ordering::Relaxed);
        (page != NO_PAGE).then(|| PageKey::of_word(page))
    }

    /// The bytes of a frame, for those who have a right to it: what a pin, a transfer or the frame's word
    /// permits.
    #[inline]
    pub fn pointer(&self, frame: u32) -> *mut u8 {
        self.region.page_pointer(frame as usize)
    }

    /// Pins of a frame, for checks.
    pub fn pins(&self, frame: u32) -> u32 {
        self.state(frame) / PIN
    }

    /// Sets and clears flags in one step; gives the state there was.
    #[inline]
    pub fn change(&self, cpu: &Cpu, frame: u32, set: u32, clear: u32) -> u32 {
        self.update(cpu, frame, |state| Some((state | set) & !clear))
            .expect("it always changes")
    }

    /// Changes the state as `next` says, unless it says nothing; gives what it was.
    #[inline]
    fn update(&self, cpu: &Cpu, frame: u32, next: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        let frame = &self.all[frame as usize];
        frame.line.write(cpu);
        // Release: partner of the acquire in `state`. Acquire: of the release of who changed it last.
        frame
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next)
            .ok()
    }

    /// Pins a frame if it holds the page of `key`. The page stays then, filled or not.
    #[inline]
    pub fn try_pin(&self, cpu: &Cpu, frame: u32, key: PageKey) -> bool {
        let pinned = self.update(cpu, frame, |state| {
            (state & TAKEN == 0).then_some(state + PIN)
        });
        if pinned.is_none() {
            return false;
        }
        // The acquire above is the partner of the release in `begin`, which follows the page.
        let holds = self.all[frame as usize].page.load(Ordering::Relaxed) == key.word();
        if !holds {
            self.unpin(cpu, frame);
        }
        holds
    }

    /// Adds a pin to a frame that has one.
    pub fn pin_again(&self, cpu: &Cpu, frame: u32) {
        let frame = &self.all[frame as usize];
        frame.line.write(cpu);
        // Relaxed: the pin that there is keeps the frame.
        let before = frame.state.fetch_add(PIN, Ordering::Relaxed);
        assert!(before >= PIN, "a pinned frame");
    }

    /// Takes a pin off.
    #[inline]
    pub fn unpin(&self, cpu: &Cpu, frame: u32) {
        let frame = &self.all[frame as usize];
        frame.line.write(cpu);
        // Release: partner of the acquire in `take`: what was done to the page is done.
        let before = frame.state.fetch_sub(PIN, Ordering::Release);
        assert!(before >= PIN, "a pin is taken off once");
    }

    /// Gives a free frame to a page, with a pin of the caller, who fills it.
    pub fn begin(&self, cpu: &Cpu, frame: u32, key: PageKey) {
        let frame = &self.all[frame as usize];
        frame.line.write(cpu);
        frame.page.store(key.word(), Ordering::Relaxed);
        // Release: partner of the acquire in `try_pin` and `state`.
        frame.state.store(PIN, Ordering::Release);
    }

    /// Takes a frame whose page may go: clean, without pins, and nobody fills it. One that was used
    /// since the last time is left its page once more.
    pub fn take(&self, cpu: &Cpu, frame: u32) -> bool {
        let state = self.state(frame);
        if !may_go(state) {
            return false;
        }
        if state & REFERENCED != 0 {
            self.change(cpu, frame, 0, REFERENCED);
            return false;
        }
        self.take_now(cpu, frame)
    }

    /// As [`Frames::take`], whether the page was used or not.
    pub fn take_now(&self, cpu: &Cpu, frame: u32) -> bool {
        self.update(cpu, frame, |state| may_go(state).then_some(state | TAKEN))
            .is_some()
    }

    /// Fills a frame, whose word the caller has and which the drive does not read, with zeros.
    pub fn zero(&self, frame: u32) {
        debug_assert!(!self.is(frame, WRITEBACK), "the drive reads the page");
        // SAFETY: the frame's own page; the word keeps other writers away, and readers check it.
        unsafe { self.pointer(frame).write_bytes(0, self.page_bytes()) };
    }

    /// Takes back a frame that was begun and did not get into the index.
    pub fn cancel(&self, cpu: &Cpu, frame: u32) {
        let alone = |state: u32| (state / PIN == 1).then_some(TAKEN);
        while self.update(cpu, frame, alone).is_none() {
            // Somebody looks here for a page that has left, and leaves.
            std::hint::spin_loop();
        }
        self.empty(cpu, frame);
    }

    /// Empties a taken frame: readers that are copying from it notice.
    pub fn empty(&self, cpu: &Cpu, frame: u32) {
        let frame = &self.all[frame as usize];
        frame.line.write(cpu);
        while !frame.word.try_lock() {
            // A writer that found another page here than it looked for, and leaves.
            std::hint::spin_loop();
        }
        frame.page.store(NO_PAGE, Ordering::Relaxed);
        // Release: partner of the acquire in `state`.
        frame.state.store(TAKEN, Ordering::Release);
        frame.word.unlock();
    }

    /// Takes the word of a frame that the caller has pinned: nobody else changes its bytes, or marks
    /// it as dirty or in write-back, until it is [unlocked](Frames::unlock). Nobody sleeps with it.
    #[inline]
    pub fn lock(&self, cpu: &Cpu, frame: u32) {
        let frame = &self.all[frame as usize];
        frame.line.write(cpu);
        while !frame.word.try_lock() {
            std::hint::spin_loop();
        }
    }

    /// Gives the word back.
    #[inline]
    pub fn unlock(&self, frame: u32) {
        self.all[frame as usize].word.unlock();
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
        loop {
            let Some(version) = frame.word.begin_read() else {
                std::hint::spin_loop();
                continue;
            };
            if frame.page.load(Ordering::Relaxed) != key.word() {
                return Copied::Moved;
            }
            let state = self.state(number);
            if state & FILLED == 0 {
                return Copied::Unfilled;
            }
            cpu.work(Op::CopyPage, || {
                // SAFETY: both ranges are inside their memory (asserted) and apart. A writer may
                // disturb the copy; then it is done again before anyone sees it.
                unsafe {
                    let source = self.region.page_pointer(number as usize).add(from.start);
                    std::ptr::copy_nonoverlapping(source, to.as_mut_ptr(), to.len());
                }
            });
            if frame.word.end_read(version) {
                return Copied::Done(state);
            }
        }
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
