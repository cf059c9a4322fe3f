//! Memory: free frames, the two lists, and reclaim.
//!
//! 1. A CPU takes frames from a small stock of its own, which it fills from the free ones of its memory node, or of the next that
//!    has any.
//! 2. When few are free, the background reclaimer (Linux: kswapd) is woken. When none is, the task
//!    that needs one reclaims: up to 32 pages at a time from the tail of the inactive list, more and more
//!    of the list as long as that does not help (Linux: priorities), from one node's lists after the other's, its own first.
//! 3. A dirty page, or one on its way to the drive, is put on the active list; it comes back to the
//!    tail when it has been written. Reclaim itself writes nothing (Linux since 6.11).
//! 4. If nothing can be had, the flusher is told to write, and the task naps until some I/O ends.

use std::rc::Rc;

use wharf_runtime::Op;
use wharf_runtime::sync::Ordering;

use crate::error::IoError;
use crate::kernel::accounting::Change;
use crate::kernel::frame::{ACTIVE, DIRTY, READAHEAD, RECLAIM, REFERENCED, WRITEBACK};
use crate::kernel::local::{Held, Local, PageLock};
use crate::kernel::lru::{List, Lru};
use crate::key::PageKey;
use crate::nodes::by_node;

/// Most pages moved from the active list to the inactive one at a time (`SWAP_CLUSTER_MAX`).
const REFILL_PAGES: u32 = 32;

/// Parts of the lists looked at first: one in 2^12 (`DEF_PRIORITY`).
const FIRST_PRIORITY: u32 = 12;

/// Longest nap before memory is looked for again: a tick of 1 kHz.
const NAP_NS: u64 = 1_000_000;

/// A task that got no frame for so long fails. (Linux kills a program then.)
const PATIENCE_NS: u64 = 10_000_000_000;

/// What became of a page that reclaim looked at.
enum Verdict {
    Freed,
    Keep,
    Activate,
}

/// What came of giving a frame to a page.
pub(super) enum Inserted<'a> {
    /// The page is in the cache, locked, with the caller's reference.
    New(Held<'a>, PageLock<'a>),
    /// It was there already; the frame is free again.
    Exists,
}

impl Local {
    /// A free frame, if one can be had without sleeping.
    pub(super) fn try_allocate(&self) -> Option<u32> {
        self.take_free().or_else(|| {
            self.reclaim();
            self.take_free()
        })
    }

    /// A free frame for a page.
    ///
    /// # Errors
    /// If there was none for ten seconds.
    pub(super) async fn allocate(&self, key: PageKey) -> Result<u32, IoError> {
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
            self.shared.memory_short.store(true, Ordering::Relaxed);
            self.wake(&self.shared.flusher);
            self.counters.waits.add(1);
            self.wait_at_most(NAP_NS).await;
        }
        match self.shared.failures() - failures {
            0 => Err(self.stuck(key)),
            failures => Err(IoError::WriteBack { failures }),
        }
    }

    fn take_free(&self) -> Option<u32> {
        self.cpu.work(Op::PageAllocator, || ());
        let mut own = self.free.borrow_mut();
        if own.is_empty() {
            let shared = &self.shared;
            let most = shared.limits.free_batch;
            shared.free.take(&self.cpu, self.home(), most, &mut own);
            if shared.free.count() < shared.limits.free_low {
                self.wake(&shared.reclaimer);
            }
        }
        own.pop()
    }

    /// Frees a frame.
    pub(super) fn give_free(&self, frame: u32) {
        self.cpu.work(Op::PageAllocator, || ());
        let mut own = self.free.borrow_mut();
        own.push(frame);
        let batch = self.shared.limits.free_batch;
        if own.len() > 2 * batch || batch == 1 {
            self.spill(&mut own);
        }
    }

    fn spill(&self, own: &mut Vec<u32>) {
        self.shared.free.give(&self.cpu, own);
        own.clear();
    }

    /// Gives `frame`, which is free, to a page.
    pub(super) fn insert(&self, frame: u32, key: PageKey) -> Inserted<'_> {
        let shared = &self.shared;
        let tree = shared.tree(key.file());
        let is_new = tree.change(&self.cpu, Change::Added, 1, |tree| {
            self.cpu.work(Op::TreeUpdate, || {
                let is_new = tree.load(key.page()).is_none();
                if is_new {
                    shared.frames.begin(&self.cpu, frame, key);
                    tree.insert(key.page(), frame.into());
                }
                is_new
            })
        });
        if !is_new {
            self.give_free(frame);
            return Inserted::Exists;
        }
        let full = {
            let mut batches = self.batches.borrow_mut();
            batches.add.push(frame);
            batches.add.len() >= shared.limits.list_batch
        };
        if full {
            self.drain_batches();
        }
        Inserted::New(Held { local: self, frame }, PageLock { local: self, frame })
    }

    /// A page was used: the first time it is marked, the second time it becomes active.
    #[inline]
    pub(super) fn mark_accessed(&self, frame: u32) {
        let frames = &self.shared.frames;
        match frames.flags(frame) & (REFERENCED | ACTIVE) {
            0 | ACTIVE => drop(frames.set(&self.cpu, frame, REFERENCED)),
            REFERENCED => self.activate(frame),
            _ => {}
        }
    }

    fn activate(&self, frame: u32) {
        let frames = &self.shared.frames;
        frames.set(&self.cpu, frame, ACTIVE);
        frames.clear(&self.cpu, frame, REFERENCED);
        let full = {
            let mut batches = self.batches.borrow_mut();
            batches.activate.push((frame, frames.key(frame)));
            batches.activate.len() >= self.shared.limits.list_batch
        };
        if full {
            self.drain_batches();
        }
    }

    /// The memory node of this CPU.
    fn home(&self) -> usize {
        self.shared.lru.nodes().of_client(self.index)
    }

    /// Does `f` to frames with the lists that they are of: those of one node under one lock, as far as they follow one
    /// another.
    pub(super) fn on_lists(&self, frames: &[u32], mut f: impl FnMut(&mut Lru, u32)) {
        for (node, run) in by_node(self.shared.lru.nodes(), frames) {
            self.shared.lru.with(&self.cpu, node, |lru| {
                let each = || run.iter().for_each(|frame| f(lru, *frame));
                self.cpu.work_n(Op::ListUpdate, run.len() as u32, each);
            });
        }
    }

    /// Puts the frames of this CPU's batches on their lists.
    pub(super) fn drain_batches(&self) {
        let batches = std::mem::take(&mut *self.batches.borrow_mut());
        let frames = &self.shared.frames;
        let changed = |frame| frames.relink(&self.cpu, frame);
        self.on_lists(&batches.add, |lru, frame| {
            lru.add(frame, self.list_for(frame), changed);
        });
        let (active, keys): (Vec<u32>, Vec<_>) = batches.activate.into_iter().unzip();
        let mut keys = keys.into_iter();
        self.on_lists(&active, |lru, frame| {
            let key = keys.next().expect("one for each frame");
            if frames.key(frame) == key && lru.list_of(frame) == Some(List::Inactive) {
                lru.remove(frame, changed);
                lru.add(frame, List::Active, changed);
            }
        });
    }

    fn list_for(&self, frame: u32) -> List {
        match self.shared.frames.is(frame, ACTIVE) {
            true => List::Active,
            false => List::Inactive,
        }
    }

    /// Looks for a batch of pages to give up; gives how many it has freed.
    pub(super) fn reclaim(&self) -> u32 {
        let wanted = self.shared.limits.reclaim_batch;
        self.drain_batches();
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
            self.spill(&mut self.free.borrow_mut());
            self.wake(&self.shared.progress);
        }
        freed
    }

    /// Looks for pages to give up on the lists of a node, until `wanted` are freed in all. Gives how many were inactive.
    fn shrink_node(&self, node: usize, priority: u32, wanted: u32, freed: &mut u32) -> u32 {
        let inactive = self.shared.lru.with(&self.cpu, node, |lru| {
            self.refill_inactive(lru);
            lru.len(List::Inactive)
        });
        let mut scan = (inactive >> priority).max(wanted.min(inactive));
        while scan > 0 && *freed < wanted {
            let batch = self.isolate(node, scan.min(wanted));
            if batch.is_empty() {
                break;
            }
            scan -= batch.len() as u32;
            *freed += self.shrink(batch);
        }
        inactive
    }

    /// Moves old active pages to the inactive list if that is too short.
    fn refill_inactive(&self, lru: &mut Lru) {
        let mut moved = 0;
        let changed = |frame| self.shared.frames.relink(&self.cpu, frame);
        while moved < REFILL_PAGES && lru.inactive_is_low() {
            let Some(frame) = lru.take_oldest(List::Active, changed) else {
                break;
            };
            self.shared.frames.clear(&self.cpu, frame, ACTIVE);
            lru.add(frame, List::Inactive, changed);
            moved += 1;
        }
        self.cpu.work_n(Op::ListUpdate, moved, || ());
    }

    /// Takes up to `count` frames off the tail of a node's inactive list.
    fn isolate(&self, node: usize, count: u32) -> Vec<u32> {
        self.shared.lru.with(&self.cpu, node, |lru| {
            self.refill_inactive(lru);
            let changed = |frame| self.shared.frames.relink(&self.cpu, frame);
            let oldest = || lru.take_oldest(List::Inactive, changed);
            let batch: Vec<u32> = std::iter::repeat_with(oldest)
                .map_while(|frame| frame)
                .take(count as usize)
                .collect();
            self.cpu
                .work_n(Op::ListUpdate, batch.len() as u32, || batch)
        })
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
                self.shared.frames.set(&self.cpu, *frame, ACTIVE);
                true
            }
        });
        let changed = |frame| self.shared.frames.relink(&self.cpu, frame);
        self.on_lists(&batch, |lru, frame| {
            lru.add(frame, self.list_for(frame), changed);
        });
        freed
    }

    /// Takes the page of an isolated frame out of the cache, if that is possible.
    fn judge(&self, frame: u32) -> Verdict {
        let shared = &self.shared;
        if !shared.frames.try_lock(&self.cpu, frame) {
            return Verdict::Keep;
        }
        let lock = PageLock { local: self, frame };
        let flags = shared.frames.flags(frame);
        if flags & (DIRTY | WRITEBACK) != 0 {
            shared.frames.set(&self.cpu, frame, RECLAIM);
            return Verdict::Activate;
        }
        if flags & ACTIVE != 0 {
            return Verdict::Activate;
        }
        if !shared.frames.freeze(&self.cpu, frame) {
            return Verdict::Keep;
        }
        let key = shared.frames.key(frame).expect("a cached page");
        let tree = shared.tree(key.file());
        tree.change(&self.cpu, Change::Removed, 1, |tree| {
            self.cpu.work(Op::TreeUpdate, || tree.remove(key.page()));
        });
        // Nobody waits for the lock: who does has a reference.
        lock.hand_over();
        shared.frames.end(&self.cpu, frame);
        Verdict::Freed
    }

    /// Moves frames whose pages were to be given up, and are written now, to where they are taken
    /// next.
    pub(super) fn rotate(&self, written: &[u32]) {
        let frames = &self.shared.frames;
        let changed = |frame| frames.relink(&self.cpu, frame);
        self.on_lists(written, |lru, frame| {
            if lru.list_of(frame).is_some() {
                frames.clear(&self.cpu, frame, ACTIVE | REFERENCED);
                lru.remove(frame, changed);
                lru.add_oldest(frame, changed);
            }
        });
    }

    /// The background reclaimer: keeps some frames free, for as long as the CPU runs.
    pub(super) async fn reclaim_in_background(self: Rc<Self>) {
        let (shared, limits) = (&self.shared, self.shared.limits);
        let free = || shared.free.count();
        loop {
            self.join(&shared.reclaimer);
            if free() >= limits.free_low {
                self.sleep(wharf_runtime::wake::Pause::default()).await;
                continue;
            }
            while free() < limits.free_high {
                let freed = self.reclaim();
                let evictions = &shared.background_evictions;
                evictions.fetch_add(freed.into(), Ordering::Relaxed);
                if freed == 0 {
                    shared.memory_short.store(true, Ordering::Relaxed);
                    self.wake(&shared.flusher);
                    self.wait_at_most(NAP_NS).await;
                } else {
                    self.cpu.yield_now().await;
                }
            }
        }
    }

    /// Takes a mark of the read-ahead off a frame; true if there was one.
    #[inline]
    pub(super) fn take_mark(&self, frame: u32) -> bool {
        let frames = &self.shared.frames;
        frames.is(frame, READAHEAD) && frames.clear(&self.cpu, frame, READAHEAD) & READAHEAD != 0
    }
}
