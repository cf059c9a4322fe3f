//! Frames: the state of a page in memory, the references to it, and the bytes.
//!
//! Everything that several CPUs touch is an atomic; what costs in real life is that they share the
//! line it is on, for which each frame has a [`Line`](wharf_runtime::Line).
//!
//! * A *reference* keeps a frame from being given to another page. The cache has one for as long as
//!   the page is in it; whoever looks a page up takes one ([`Frames::get`]) and gives it back
//!   ([`Frames::put`]). Only [`Frames::freeze`], which asks for the cache's to be the last one,
//!   takes the frame away.
//! * The *page lock* ([`LOCKED`]) is held by who fills the frame from the drive, writes into it,
//!   begins its write-back, or takes it out of the cache.
//! * The frame's [`Versioned`] word is odd while bytes are copied into it, so that a reader, who
//!   takes no page lock, never returns half of a write. (Linux lets such reads be torn.)

use std::sync::Arc;

use wharf_runtime::sync::{AtomicU32, AtomicU64, Ordering};
use wharf_runtime::{Cpu, Versioned};
use wharf_wire::dma::{DmaSpace, RegisterError};

use crate::key::PageKey;
use crate::kit::frames::FrameTable;
use crate::span::Span;

/// Somebody has the page lock.
pub const LOCKED: u32 = 1;
/// The bytes are the page's.
pub const UPTODATE: u32 = 1 << 1;
/// The drive does not have the bytes.
pub const DIRTY: u32 = 1 << 2;
/// The drive reads the bytes.
pub const WRITEBACK: u32 = 1 << 3;
/// Touched once since it entered its list.
pub const REFERENCED: u32 = 1 << 4;
/// On, or on its way to, the list of active pages.
pub const ACTIVE: u32 = 1 << 5;
/// To be taken first when its write-back has ended.
pub const RECLAIM: u32 = 1 << 6;
/// A read of this page starts the next read-ahead.
pub const READAHEAD: u32 = 1 << 7;
/// The drive has not answered in time: nobody should wait for the page.
pub const STUCK: u32 = 1 << 8;
/// Somebody waits for a change of the flags.
pub const WAITERS: u32 = 1 << 9;
/// Brought by reading ahead; no request has touched it yet.
const UNTOUCHED: u32 = 1 << 10;

/// No page: not a key, see [`FILES_MAX`](crate::key::FILES_MAX).
const NO_PAGE: u64 = u64::MAX;

/// The page of a frame, and its state.
pub struct PageWord {
    flags: AtomicU32,
    references: AtomicU32,
    page: AtomicU64,
    version: Versioned,
}

/// All frames, by number.
pub type Frames = FrameTable<PageWord>;

impl FrameTable<PageWord> {
    /// `count` frames without a page, with their memory in `space`.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(count: u32, space: &Arc<DmaSpace>) -> Result<Frames, RegisterError> {
        Frames::of(count, space, || PageWord {
            flags: AtomicU32::new(0),
            references: AtomicU32::new(0),
            page: AtomicU64::new(NO_PAGE),
            version: Versioned::new(),
        })
    }

    /// The flags of a frame.
    #[inline]
    pub fn flags(&self, frame: u32) -> u32 {
        // Acquire: partner of the releases in `set` and `clear`.
        self.word(frame).flags.load(Ordering::Acquire)
    }

    /// True if the frame has one of `flags`.
    #[inline]
    pub fn is(&self, frame: u32, flags: u32) -> bool {
        self.flags(frame) & flags != 0
    }

    /// Sets flags; gives those there were.
    #[inline]
    pub fn set(&self, cpu: &Cpu, frame: u32, flags: u32) -> u32 {
        let frame = self.word_to_write(cpu, frame);
        // Release: partner of the acquire in `flags`; acquire: of the release of who held the lock.
        frame.flags.fetch_or(flags, Ordering::AcqRel)
    }

    /// Clears flags; gives those there were.
    #[inline]
    pub fn clear(&self, cpu: &Cpu, frame: u32, flags: u32) -> u32 {
        let frame = self.word_to_write(cpu, frame);
        // As in `set`.
        frame.flags.fetch_and(!flags, Ordering::AcqRel)
    }

    /// Marks a page that was read ahead, before its bytes are there. The mark is for our own
    /// figures: Linux has none such, and its line hears nothing of it.
    pub fn mark_untouched(&self, frame: u32) {
        // As in `set`.
        let flags = &self.word(frame).flags;
        flags.fetch_or(UNTOUCHED, Ordering::AcqRel);
    }

    /// True for the first request that touches a page that was read ahead, and whose bytes are
    /// there.
    #[inline]
    pub fn touch_first(&self, frame: u32) -> bool {
        // As in `clear`.
        let flags = &self.word(frame).flags;
        self.is(frame, UNTOUCHED) && flags.fetch_and(!UNTOUCHED, Ordering::AcqRel) & UNTOUCHED != 0
    }

    /// Takes the page lock if it is free.
    #[inline]
    pub fn try_lock(&self, cpu: &Cpu, frame: u32) -> bool {
        self.set(cpu, frame, LOCKED) & LOCKED == 0
    }

    /// The page that a frame holds.
    #[inline]
    pub fn key(&self, frame: u32) -> Option<PageKey> {
        let page = self.word(frame).page.load(Ordering::Relaxed);
        (page != NO_PAGE).then(|| PageKey::of_word(page))
    }

    /// Takes a reference to a frame if it holds the page `key`.
    #[inline]
    pub fn get(&self, cpu: &Cpu, frame: u32, key: PageKey) -> bool {
        let state = self.word_to_write(cpu, frame);
        let more = |count: u32| (count > 0).then(|| count + 1);
        // Acquire: partner of the release in `begin`.
        if state
            .references
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, more)
            .is_err()
        {
            return false;
        }
        let holds = state.page.load(Ordering::Relaxed) == key.word();
        if !holds {
            self.put(cpu, frame);
        }
        holds
    }

    /// Gives a reference back.
    #[inline]
    pub fn put(&self, cpu: &Cpu, frame: u32) {
        let state = self.word_to_write(cpu, frame);
        // Release: what was done to the frame comes before `freeze`, which acquires.
        let before = state.references.fetch_sub(1, Ordering::Release);
        assert!(before > 1, "the cache's own reference is the last one");
    }

    /// Gives a free frame to the page `key`: locked, with a reference for the cache and one for the
    /// caller.
    pub fn begin(&self, cpu: &Cpu, frame: u32, key: PageKey) {
        let state = self.word_to_write(cpu, frame);
        state.page.store(key.word(), Ordering::Relaxed);
        state.flags.store(LOCKED, Ordering::Relaxed);
        // Release: partner of the acquire in `get`.
        state.references.store(2, Ordering::Release);
    }

    /// Takes the cache's reference away if there is no other; no new one can be had then. The
    /// caller has the page lock.
    pub fn freeze(&self, cpu: &Cpu, frame: u32) -> bool {
        let references = &self.word_to_write(cpu, frame).references;
        // Acquire: partner of the release in `put`.
        references
            .compare_exchange(1, 0, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes a new frame back that did not get into the cache.
    pub fn cancel(&self, cpu: &Cpu, frame: u32) {
        self.word(frame).references.store(0, Ordering::Relaxed);
        self.end(cpu, frame);
    }

    /// A frozen frame has left the cache: it is free.
    pub fn end(&self, cpu: &Cpu, frame: u32) {
        let state = self.word_to_write(cpu, frame);
        state.page.store(NO_PAGE, Ordering::Relaxed);
        state.flags.store(0, Ordering::Relaxed);
    }

    /// References to a frame, for checks.
    pub fn references(&self, frame: u32) -> u32 {
        self.word(frame).references.load(Ordering::Relaxed)
    }

    /// Copies a span out of a frame that is up to date, and to which the caller has a reference.
    #[inline]
    pub fn copy_out(&self, frame: u32, span: &Span, out: &mut [u8]) {
        let version = &self.word(frame).version;
        loop {
            if let Some(before) = version.begin_read() {
                // SAFETY: the version says whether a writer disturbed the copy, and then it is done
                // again before anyone sees it.
                unsafe { self.copy_from(frame, span, out) };
                if version.end_read(before) {
                    return;
                }
            }
            std::hint::spin_loop();
        }
    }

    /// Copies a span into a frame of which the caller has the page lock, and which the drive does
    /// not read.
    #[inline]
    pub fn copy_in(&self, frame: u32, span: &Span, data: &[u8]) {
        let version = &self.word(frame).version;
        assert!(
            !self.is(frame, WRITEBACK) && self.is(frame, LOCKED),
            "a page to write into"
        );
        assert!(version.try_lock(), "the page lock is the writer's");
        // SAFETY: the page lock keeps other writers away, the drive neither reads nor fills it;
        // readers check the version.
        unsafe { self.copy_to(frame, span, data) };
        version.unlock();
    }
}
