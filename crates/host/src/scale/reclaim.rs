//! Memory: free frames, and which page to give up when there are none.
//!
//! 1. A CPU takes frames from a small stock of its own, which it fills from the free ones of all.
//! 2. When there are none, it sweeps CLOCK's hand over some frames: the hand is moved by one addition,
//!    so that every CPU has a stretch of its own and they sweep side by side. A page that was used since
//!    the hand came by stays; so does one that is dirty, on its way, or pinned.
//! 3. If two rounds bring nothing, dirty pages must be written first; the task waits for that, or does it where
//!    there is no background flusher.

use std::rc::Rc;

use wharf_runtime::Op;
use wharf_runtime::sync::Ordering;

use crate::error::IoError;
use crate::key::PageKey;
use crate::scale::backing::Backing;
use crate::scale::index::Index;
use crate::scale::local::Local;

/// Frames that a CPU sweeps at a time.
const STRETCH: u32 = 32;

/// Longest wait before memory is looked for again, in nanoseconds.
const NAP_NS: u64 = 1_000_000;

/// A task that got no frame for so long fails, in nanoseconds.
const PATIENCE_NS: u64 = 10_000_000_000;

impl<I: Index, B: Backing> Local<I, B> {
    /// A free frame, if one can be had without sleeping.
    pub(super) fn try_allocate(&self) -> Option<u32> {
        self.take_free().or_else(|| {
            self.sweep();
            self.take_free()
        })
    }

    /// A free frame for a page.
    ///
    /// # Errors
    /// If there was none for ten seconds.
    pub(super) async fn allocate(self: &Rc<Self>, key: PageKey) -> Result<u32, IoError> {
        if let Some(frame) = self.try_allocate() {
            return Ok(frame);
        }
        let deadline_ns = self.cpu.now() + PATIENCE_NS;
        let failures = self.shared.failures();
        while self.cpu.now() < deadline_ns {
            self.join(&self.shared.progress);
            if let Some(frame) = self.try_allocate() {
                return Ok(frame);
            }
            self.counters.waits.add(1);
            if !self.shared.has_flusher && self.flush_share().await > 0 {
                continue;
            }
            self.shared.memory_short.store(true, Ordering::Relaxed);
            self.wake(&self.shared.flusher);
            self.nap(NAP_NS).await;
        }
        match self.shared.failures() - failures {
            0 => Err(IoError::Stuck { page: key.page() }),
            failures => Err(IoError::WriteBack { failures }),
        }
    }

    fn take_free(&self) -> Option<u32> {
        let shared = &self.shared;
        let mut own = self.free.borrow_mut();
        shared.toll.frame(&self.cpu);
        if own.is_empty() && !shared.is_free_empty() {
            shared.take_free(&self.cpu, &mut own);
        }
        own.pop()
    }

    /// Frees a frame.
    pub(super) fn give_free(&self, frame: u32) {
        self.shared.toll.frame(&self.cpu);
        let mut own = self.free.borrow_mut();
        own.push(frame);
        let batch = self.shared.limits.free_batch;
        if own.len() > 2 * batch || batch == 1 {
            self.shared.give_free(&self.cpu, &mut own);
        }
    }

    /// Sweeps until some frames are free, twice round at most.
    fn sweep(&self) {
        let shared = &self.shared;
        let count = shared.frames.count();
        let stretch = STRETCH.min(count);
        let (mut swept, mut freed) = (0, 0);
        while swept < 2 * u64::from(count) && freed == 0 {
            shared.hand_line.write(&self.cpu);
            // Relaxed: a place to begin, which orders nothing.
            let from = shared.hand.fetch_add(stretch.into(), Ordering::Relaxed);
            for step in from..from + u64::from(stretch) {
                freed += u64::from(self.try_evict((step % u64::from(count)) as u32));
            }
            swept += u64::from(stretch);
        }
        self.counters.evictions.add(freed);
    }

    /// Takes the page of a frame out of the cache, if it may go.
    fn try_evict(&self, frame: u32) -> bool {
        let (cpu, shared) = (&self.cpu, &self.shared);
        let taken = cpu.work(Op::ClockStep, || shared.frames.take(cpu, frame));
        if taken {
            self.evict(frame);
        }
        taken
    }

    /// Frees a frame that has been taken from its page.
    pub(super) fn evict(&self, frame: u32) {
        let (cpu, shared) = (&self.cpu, &self.shared);
        let key = shared.frames.key(frame).expect("a taken page");
        shared.index_of(key.file()).remove(cpu, key.page());
        shared.frames.empty(cpu, frame);
        self.give_free(frame);
    }
}
