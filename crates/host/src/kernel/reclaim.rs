//! Which pages leave for others (mm/vmscan.c), and how pages enter.
//!
//! 1. When few frames are free, the background reclaimer (Linux: kswapd) is woken. When none is,
//!    the task that needs one reclaims: up to 32 pages at a time from the tail of the inactive
//!    list, more and more of the list as long as that does not help (Linux: priorities), from one
//!    node's lists after the other's, its own first.
//! 2. A dirty page, or one on its way to the drive, is put on the active list; it comes back to the
//!    tail when it has been written. Reclaim itself writes nothing (Linux since 6.11).

use wharf_runtime::Op;

use crate::error::IoError;
use crate::kernel::frame::{ACTIVE, DIRTY, READAHEAD, RECLAIM, WRITEBACK};
use crate::kernel::pages::{CpuPages, PageLock};
use crate::key::PageKey;
use crate::kit::accounting::Change;
use crate::kit::memory::{Reclaims, Stock};
use crate::kit::pages::{Held, Pages};
use crate::kit::reading::Brings;
use crate::kit::replacement::two_lists::List;

/// Parts of the lists looked at first: one in 2^12 (`DEF_PRIORITY`).
const FIRST_PRIORITY: u32 = 12;

/// What became of a page that reclaim looked at.
enum Verdict {
    Freed,
    Keep,
    Activate,
}

impl Reclaims for CpuPages {
    fn stock(&self) -> &Stock {
        &self.stock
    }

    fn refilled(&self) {
        if self.shared.common.free.count() < self.shared.limits.free_low {
            self.tasks.wake(&self.shared.reclaimer);
        }
    }

    fn reclaim(&self) {
        self.reclaim_batch();
    }

    fn failures(&self) -> u64 {
        self.shared.failures()
    }

    fn no_frame(&self, key: PageKey) -> IoError {
        self.stuck(key)
    }
}

impl Brings for CpuPages {
    fn pages_of(&self, file: u32) -> u64 {
        self.files().pages_of(file)
    }

    fn is_cached(&self, file: u32, page: u64) -> bool {
        self.shared.tree(file).load(page).is_some()
    }

    /// The page lock keeps it.
    fn bring(&self, frame: u32, key: PageKey, untouched: bool) -> bool {
        let Some((held, lock)) = self.insert(frame, key) else {
            return false;
        };
        if untouched {
            self.shared.frames.mark_untouched(frame);
        }
        drop(held);
        lock.hand_over();
        true
    }

    fn mark(&self, frame: u32) {
        self.change(frame, READAHEAD, 0);
    }

    fn frames(&self) -> u32 {
        self.shared.frames.count()
    }
}

impl CpuPages {
    /// Gives `frame`, which is free, to a page: locked, with a reference of the caller's. Nothing
    /// if the page has one; the frame is free again then.
    pub(super) fn insert(
        &self,
        frame: u32,
        key: PageKey,
    ) -> Option<(Held<'_, CpuPages>, PageLock<'_>)> {
        let shared = &self.shared;
        let tree = shared.tree(key.file());
        let is_new = tree.change(self.cpu(), Change::Added, 1, |tree| {
            self.cpu().work(Op::TreeUpdate, || {
                let is_new = tree.load(key.page()).is_none();
                if is_new {
                    shared.frames.begin(self.cpu(), frame, key);
                    tree.insert(key.page(), frame.into());
                }
                is_new
            })
        });
        if !is_new {
            self.give_free(frame);
            return None;
        }
        self.lists.enter(frame);
        Some((Held::of(self, frame), PageLock::of(self, frame)))
    }

    /// Looks for a batch of pages to give up; gives how many it has freed.
    pub(super) fn reclaim_batch(&self) -> u32 {
        let wanted = self.shared.limits.reclaim_batch;
        self.lists.drain_batches();
        let nodes = self.shared.lru.nodes();
        let mut freed = 0;
        for priority in (0..=FIRST_PRIORITY).rev() {
            let mut inactive = 0;
            for node in nodes.from(self.home()) {
                if freed < wanted {
                    inactive += self.shrink_node(node, priority, wanted, &mut freed);
                }
            }
            if freed > 0 || inactive == 0 && priority < FIRST_PRIORITY {
                break;
            }
        }
        if freed > 0 {
            self.counters.evictions.add(freed.into());
            self.stock.give_all(&self.tasks, &self.shared.common.free);
            self.tasks.wake(&self.shared.common.progress);
        }
        freed
    }

    /// Looks for pages to give up on the lists of a node, until `wanted` are freed in all. Gives
    /// how many were inactive.
    fn shrink_node(&self, node: usize, priority: u32, wanted: u32, freed: &mut u32) -> u32 {
        let inactive = self.shared.lru.with(self.cpu(), node, |lru| {
            self.lists.refill_inactive(lru);
            lru.len(List::Inactive)
        });
        let mut scan = (inactive >> priority).max(wanted.min(inactive));
        while scan > 0 && *freed < wanted {
            let batch = self.lists.isolate(node, scan.min(wanted));
            if batch.is_empty() {
                break;
            }
            scan -= batch.len() as u32;
            *freed += self.shrink(batch);
        }
        inactive
    }

    /// Frees those of `batch` that can be, and puts the others back. Gives how many it freed.
    fn shrink(&self, mut batch: Vec<u32>) -> u32 {
        let mut freed = 0;
        batch.retain(|frame| match self.judge(*frame) {
            Verdict::Freed => {
                self.give_free(*frame);
                freed += 1;
                false
            }
            Verdict::Keep => true,
            Verdict::Activate => {
                self.change(*frame, ACTIVE, 0);
                true
            }
        });
        self.lists.put(&batch);
        freed
    }

    /// Takes the page of an isolated frame out of the cache, if that is possible.
    fn judge(&self, frame: u32) -> Verdict {
        let shared = &self.shared;
        let Some(lock) = self.try_lock_page(frame) else {
            return Verdict::Keep;
        };
        let flags = self.state(frame);
        if flags & (DIRTY | WRITEBACK) != 0 {
            self.change(frame, RECLAIM, 0);
            return Verdict::Activate;
        }
        if flags & ACTIVE != 0 {
            return Verdict::Activate;
        }
        if !shared.frames.freeze(self.cpu(), frame) {
            return Verdict::Keep;
        }
        let key = shared.frames.key(frame).expect("a cached page");
        let tree = shared.tree(key.file());
        tree.change(self.cpu(), Change::Removed, 1, |tree| {
            self.cpu().work(Op::TreeUpdate, || tree.remove(key.page()));
        });
        // Nobody waits for the lock: who does has a reference.
        lock.hand_over();
        shared.frames.end(self.cpu(), frame);
        Verdict::Freed
    }

    /// Takes a mark of the read-ahead off a frame; true if there was one.
    #[inline]
    pub(super) fn take_mark(&self, frame: u32) -> bool {
        self.is(frame, READAHEAD) && self.change(frame, 0, READAHEAD) & READAHEAD != 0
    }
}
