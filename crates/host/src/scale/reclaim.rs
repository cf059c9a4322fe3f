//! Memory: free frames, and which page to give up when there are none.
//!
//! 1. A CPU takes frames from a small stock of its own, which it fills from the free ones of its memory node, or of the next that
//!    has any.
//! 2. When there are none, it tries those that the policy names ([`Policy`](super::replacement::Policy)), of its own node first. A page that was
//!    used since the policy came by stays; so does one that is dirty, on its way, or pinned.
//! 3. If as many as two rounds bring nothing, dirty pages must be written first; the task waits for that, or does it where
//!    there is no background flusher.

use std::rc::Rc;

use wharf_runtime::sync::Ordering;

use crate::error::IoError;
use crate::kernel::accounting::Change;
use crate::key::PageKey;
use crate::scale::backing::Backing;
use crate::scale::index::Index;
use crate::scale::local::Local;
use crate::scale::replacement::Candidates;

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
            self.wait_at_most(NAP_NS).await;
        }
        let page = key.page();
        match self.shared.failures() - failures {
            // Nothing is to be written: guards have all of it.
            0 if self.shared.unwritten() == 0 => Err(IoError::NoRoom {
                page,
                pages: self.shared.frames.count(),
            }),
            0 => Err(IoError::Stuck { page }),
            failures => Err(IoError::WriteBack { failures }),
        }
    }

    /// The memory node of this CPU.
    fn home(&self) -> usize {
        self.shared.nodes.of_client(self.index)
    }

    fn take_free(&self) -> Option<u32> {
        let shared = &self.shared;
        let mut own = self.free.borrow_mut();
        shared.kernel_path.frame(&self.cpu);
        if own.is_empty() {
            let most = shared.limits.free_batch;
            shared.free.take(&self.cpu, self.home(), most, &mut own);
        }
        own.pop()
    }

    /// Frees a frame.
    pub(super) fn give_free(&self, frame: u32) {
        self.shared.kernel_path.frame(&self.cpu);
        let mut own = self.free.borrow_mut();
        own.push(frame);
        let batch = self.shared.limits.free_batch;
        if own.len() > 2 * batch || batch == 1 {
            self.shared.give_free(&self.cpu, &mut own);
        }
    }

    /// Tries frames until some are free, as many as two rounds of all at most.
    fn sweep(&self) {
        let shared = &self.shared;
        let (mut tried, mut freed) = (0, 0);
        let mut nodes = shared.nodes.from(self.home()).cycle();
        while tried < 2 * u64::from(shared.frames.count()) && freed == 0 {
            let mut candidates = Candidates::new();
            let node = nodes.next().expect("there is one");
            let (cpu, frames) = (&self.cpu, &shared.frames);
            let looked = shared
                .replacement
                .candidates(cpu, node, frames, &mut candidates);
            // One at least, lest there be no page at all.
            tried += u64::from(looked.max(1));
            candidates.retain(|frame| {
                let is_taken = frames.take(cpu, *frame);
                if is_taken {
                    self.evict(*frame);
                    freed += 1;
                }
                !is_taken
            });
            shared.replacement.keep(cpu, frames, candidates);
        }
        self.counters.evictions.add(freed);
    }

    /// Frees a frame that has been taken from its page.
    pub(super) fn evict(&self, frame: u32) {
        let (cpu, shared) = (&self.cpu, &self.shared);
        let key = shared.frames.key(frame).expect("a taken page");
        let index = shared.index_of(key.file());
        index.remove(cpu, key.page(), shared.reclaim);
        self.note(key.file(), Change::Removed);
        // From here on the page may be in another frame, with newer bytes.
        wharf_runtime::sync::interleave();
        shared.replacement.leave(cpu, &shared.frames, frame);
        shared.frames.empty(cpu, frame);
        self.give_free(frame);
    }
}
