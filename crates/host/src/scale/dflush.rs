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
//!    few dirty pages of the next file, behind a cursor that all its flushers move on, so that each has a file or
//!    a range of its own. It waits for its transfers, and looks again.
//!
//! The published code sleeps first and flushes then, and has no ranges: [`Balance`] has its rule, and
//! the kernel's, which only sleeps. In a program's cache the flusher writes all the time; as long as it gives the
//! storage all it can take, a writer's share would only queue behind, so the writer waits for those pages instead.

use std::rc::Rc;

use wharf_runtime::sync::Ordering;

use crate::scale::backing::Backing;
use crate::scale::flush::{Busy, Writing};
use crate::scale::index::{Index, Tag};
use crate::scale::local::Local;

/// Most pages of a share of the design, in as many transfers as they happen to be.
pub(super) const SHARE_PAGES: u64 = 64;

/// A writer goes on after so many shares: the drives take no more, or others dirty pages faster. Memory
/// will say so.
const SHARES_MAX: u32 = 16;

/// Sleep of who waits for others to write, in nanoseconds.
pub(super) const SLEEP_NS: u64 = 1_000_000;

/// What a writer does above the hard threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balance {
    /// It flushes.
    #[default]
    Flush,
    /// It waits while the background flusher keeps the storage busy, and flushes when not.
    FlushUnlessBusy,
    /// It sleeps, then flushes: the published code.
    SleepThenFlush,
    /// It sleeps: the kernel.
    Sleep,
}

impl<I: Index, B: Backing> Local<I, B> {
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
            match shared.balance {
                Balance::FlushUnlessBusy if shared.writeback.get() >= self.half_a_share() => {
                    self.wait_for_others().await;
                    continue;
                }
                Balance::Flush | Balance::FlushUnlessBusy => {}
                Balance::SleepThenFlush | Balance::Sleep => {
                    self.join(&shared.progress);
                    self.doze(SLEEP_NS).await;
                }
            }
            if shared.balance == Balance::Sleep || self.clean_share().await == 0 {
                self.wake(&shared.flusher);
                // All that is dirty is on its way.
                self.join(&shared.progress);
                if shared.unwritten() > shared.limits.dirty_hard {
                    self.doze(SLEEP_NS).await;
                }
            }
        }
    }

    /// So many pages on their way keep the storage busy. A writer waits for as many at a time, as waking up costs more than
    /// a write.
    fn half_a_share(&self) -> u64 {
        self.shared.share_pages.div_ceil(2)
    }

    /// Waits until others have written enough, but for [`SLEEP_NS`] at most.
    async fn wait_for_others(&self) {
        let (shared, deadline_ns) = (&self.shared, self.cpu.now() + SLEEP_NS);
        let hard = shared.limits.dirty_hard;
        let enough = hard - self.half_a_share().min(hard / 4);
        loop {
            self.join(&shared.progress);
            let left_ns = deadline_ns.saturating_sub(self.cpu.now());
            if shared.unwritten() <= enough || left_ns == 0 {
                return;
            }
            self.doze(left_ns).await;
        }
    }

    /// Sleeps as [`Local::nap`] does, for there is too much that is dirty.
    async fn doze(&self, most_ns: u64) {
        let began_ns = self.cpu.now();
        self.nap(most_ns).await;
        self.counters.throttled_ns.add(self.cpu.now() - began_ns);
    }

    /// Writes a share, for there is too much that is dirty; gives its pages.
    async fn clean_share(self: &Rc<Self>) -> u64 {
        let began_ns = self.cpu.now();
        let pages = self.flush_share().await;
        self.counters.flushing_ns.add(self.cpu.now() - began_ns);
        pages
    }

    /// Writes a share and waits for it; gives its pages.
    pub(super) async fn flush_share(self: &Rc<Self>) -> u64 {
        let writing = self.begin_share().await;
        // Failures are counted, and reported by flushes.
        let _ = self.wait_for(&writing.outcomes).await;
        writing.pages
    }

    /// Begins to write a share: the next dirty pages behind the cursor of the next file that has any.
    pub(super) async fn begin_share(self: &Rc<Self>) -> Writing {
        let Some((file, range)) = self.claim_share() else {
            return Writing::of(0);
        };
        let mut writing = Writing::of(file);
        // Pages that are stuck are left out: who waits for them hears of it.
        let _ = self
            .write_range(&mut writing, range, self.shared.share_pages, Busy::Skip)
            .await;
        writing
    }

    /// Takes the next share of the next file that has dirty pages: so flushers write different files, and
    /// different ranges where there are more flushers than files.
    fn claim_share(&self) -> Option<(u32, (u64, u64))> {
        let shared = &self.shared;
        let files = shared.files_used();
        let turn = match files {
            1 => 0,
            // Relaxed: a place to begin, which orders nothing.
            _ => shared.turn.fetch_add(1, Ordering::Relaxed),
        };
        (0..files)
            .map(|step| turn.wrapping_add(step) % files)
            .find_map(|file| Some((file, self.claim_range(file)?)))
    }

    /// Moves the cursor of a file over its next dirty pages; gives the first and the last of them.
    fn claim_range(&self, file: u32) -> Option<(u64, u64)> {
        let (cpu, share_pages) = (&self.cpu, self.shared.share_pages);
        let file = &self.shared.files[file as usize];
        loop {
            // Relaxed: a place to begin, which orders nothing.
            let at = file.cursor.load(Ordering::Relaxed);
            let next = |from| file.index.next_tagged(cpu, from, Tag::Dirty);
            let (first, _) = next(at).or_else(|| next(0))?;
            let mut last = first;
            for _ in 1..share_pages {
                match next(last + 1) {
                    Some((page, _)) => last = page,
                    None => break,
                }
            }
            file.cursor_line.write(cpu);
            let moved =
                file.cursor
                    .compare_exchange(at, last + 1, Ordering::Relaxed, Ordering::Relaxed);
            if moved.is_ok() {
                return Some((first, last));
            }
        }
    }
}
