//! Direct flush: who keeps the number of dirty pages down (ScaleCache, section 3.3).
//!
//! Problem: one flusher uses one of many drives at a time, and writers that sleep until it has caught
//! up use none.
//!
//! Idea: writers flush.
//!
//! 1. Above the background threshold the flusher, on a CPU of its own, is woken and writes until it is
//!    below.
//! 2. A writer that finds more than the hard threshold dirty, or on its way, writes a *share* itself: the next
//!    few dirty pages behind a cursor that all flushers move on, so that each has a range of its
//!    own, also in a single large file. It waits for its transfers, and looks again.
//!
//! The published code sleeps first and flushes then, and has no ranges: [`Balance`] has its rule, and
//! the kernel's, which only sleeps.

use std::rc::Rc;

use wharf_runtime::sync::Ordering;

use crate::scale::flush::{Busy, Writing};
use crate::scale::index::{Index, Tag};
use crate::scale::local::Local;
use crate::wake::Pause;

/// Most pages of a share, in as many transfers as they happen to be.
const SHARE_PAGES: u64 = 64;

/// A writer goes on after so many shares: the drives take no more, or others dirty pages faster. Memory
/// will say so.
const SHARES_MAX: u32 = 16;

/// Sleep of writers that wait for others to write, in nanoseconds.
const SLEEP_NS: u64 = 1_000_000;

/// What a writer does above the hard threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balance {
    /// It flushes.
    #[default]
    Flush,
    /// It sleeps, then flushes: the published code.
    SleepThenFlush,
    /// It sleeps: the kernel.
    Sleep,
}

impl<I: Index> Local<I> {
    /// The task has dirtied a page: sometimes looks at the thresholds.
    #[inline]
    pub(super) async fn balance_dirty(self: &Rc<Self>) {
        let dirtied = self.dirtied.get() + 1;
        self.dirtied.set(dirtied);
        if dirtied >= self.shared.limits.dirty_step {
            self.dirtied.set(0);
            self.balance().await;
        }
    }

    async fn balance(self: &Rc<Self>) {
        let shared = &self.shared;
        if shared.is_over_background() {
            self.wake(&shared.flusher);
        }
        for _ in 0..SHARES_MAX {
            if shared.unwritten() <= shared.limits.dirty_hard {
                return;
            }
            self.counters.waits.add(1);
            if shared.balance != Balance::Flush {
                self.join(&shared.progress);
                self.nap(SLEEP_NS).await;
            }
            if shared.balance == Balance::Sleep || self.flush_share().await == 0 {
                self.wake(&shared.flusher);
                // All that is dirty is on its way.
                self.join(&shared.progress);
                if shared.unwritten() > shared.limits.dirty_hard {
                    self.nap(SLEEP_NS).await;
                }
            }
        }
    }

    /// Writes the share behind the cursor and waits for it; gives its pages.
    async fn flush_share(self: &Rc<Self>) -> u64 {
        let Some(range) = self.claim_share() else {
            return 0;
        };
        let mut writing = Writing::default();
        // Pages that are stuck are left out: who waits for them hears of it. Failures are counted, and
        // reported by flushes.
        let _ = self
            .write_range(&mut writing, range, SHARE_PAGES, Busy::Skip)
            .await;
        let _ = self.wait_for(&writing.outcomes).await;
        writing.pages
    }

    /// Moves the cursor over the next dirty pages; gives the first and the last of them.
    fn claim_share(&self) -> Option<(u64, u64)> {
        let (cpu, shared) = (&self.cpu, &self.shared);
        loop {
            // Relaxed: a place to begin, which orders nothing.
            let at = shared.cursor.load(Ordering::Relaxed);
            let next = |from| shared.index.next_tagged(cpu, from, Tag::Dirty);
            let (first, _) = next(at).or_else(|| next(0))?;
            let mut last = first;
            for _ in 1..SHARE_PAGES {
                match next(last + 1) {
                    Some((page, _)) => last = page,
                    None => break,
                }
            }
            shared.cursor_line.write(cpu);
            let moved =
                shared
                    .cursor
                    .compare_exchange(at, last + 1, Ordering::Relaxed, Ordering::Relaxed);
            if moved.is_ok() {
                return Some((first, last));
            }
        }
    }

    /// The background flusher, for as long as the CPU runs.
    pub(super) async fn flush_in_background(self: Rc<Self>) {
        let shared = &self.shared;
        loop {
            self.join(&shared.flusher);
            let all = shared.memory_short.swap(false, Ordering::Relaxed);
            if !all && !shared.is_over_background() {
                Pause::default().await;
                continue;
            }
            if self.begin_share().await == 0 {
                self.join(&shared.progress);
                self.nap(SLEEP_NS).await;
            }
        }
    }

    /// Begins to write the share behind the cursor; gives its pages.
    async fn begin_share(self: &Rc<Self>) -> u64 {
        let Some(range) = self.claim_share() else {
            return 0;
        };
        let mut writing = Writing::default();
        // As in `flush_share`.
        let _ = self
            .write_range(&mut writing, range, SHARE_PAGES, Busy::Skip)
            .await;
        writing.pages
    }
}
