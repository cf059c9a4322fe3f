//! Direct flush in this cache ([`dflush`](crate::dflush) has the rules).
//!
//! 1. Above the background threshold the flusher, on a CPU of its own, is woken and writes until it is
//!    below.
//! 2. A writer that finds more than the hard threshold dirty, or on its way, writes shares, or files, itself.
//!
//! In a program's cache the flusher writes all the time; as long as it gives the
//! storage all it can take, a writer's share would only queue behind, so the writer waits for those pages instead.

use std::rc::Rc;

use crate::dflush::{SLEEP_NS, Writer, balance};
use crate::scale::backing::Backing;
use crate::scale::flush::{Busy, Writing};
use crate::scale::index::{Index, Tag};
use crate::scale::local::Local;

impl<I: Index, B: Backing> Writer for Local<I, B> {
    fn is_over(&self) -> bool {
        self.shared.unwritten() > self.shared.limits.dirty_hard
    }

    fn is_over_background(&self) -> bool {
        self.shared.is_over_background()
    }

    fn is_storage_busy(&self) -> bool {
        self.shared.writeback.get() >= self.half_a_share()
    }

    fn note_wait(&self) {
        self.counters.waits.add(1);
    }

    fn wake_flusher(&self) {
        self.wake(&self.shared.flusher);
    }

    fn join_progress(&self) {
        self.join(&self.shared.progress);
    }

    async fn doze(&self, most_ns: u64) {
        let began_ns = self.cpu.now();
        self.wait_at_most(most_ns).await;
        self.counters.throttled_ns.add(self.cpu.now() - began_ns);
    }

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

    async fn clean_share(self: &Rc<Self>) -> u64 {
        let began_ns = self.cpu.now();
        let pages = self.flush_share().await;
        self.counters.flushing_ns.add(self.cpu.now() - began_ns);
        pages
    }

    async fn send_file(self: &Rc<Self>) -> u64 {
        let (cpu, shared, began_ns) = (&self.cpu, &self.shared, self.cpu.now());
        let taken = shared.turns.claim(shared.files_used(), |file| {
            let file = &shared.files[file as usize];
            let is_dirty = || file.index.next_tagged(cpu, 0, Tag::Dirty).is_some();
            let is_due = file.retry.is_due(cpu.now());
            is_due.then(|| file.cursor.take(cpu, is_dirty)).flatten()
        });
        let Some((file, _sole)) = taken else {
            return 0;
        };
        let mut writing = Writing::of(file);
        // Pages that are stuck are left out: who waits for them hears of it.
        let _ = self
            .write_range(&mut writing, (0, u64::MAX), u64::MAX, Busy::Skip)
            .await;
        self.counters.flushing_ns.add(self.cpu.now() - began_ns);
        writing.pages
    }

    async fn wait_for_flushers(&self) {
        let began_ns = self.cpu.now();
        self.wait_at_most(SLEEP_NS).await;
        self.counters.flushing_ns.add(self.cpu.now() - began_ns);
    }
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
        balance(self, shared.balance).await;
    }

    /// So many pages on their way keep the storage busy. A writer waits for as many at a time, as waking up costs more than
    /// a write.
    fn half_a_share(&self) -> u64 {
        self.shared.share_pages.div_ceil(2)
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
    /// different ranges where there are more flushers than files. Files whose storage has just
    /// failed rest.
    fn claim_share(&self) -> Option<(u32, (u64, u64))> {
        let shared = &self.shared;
        shared.turns.claim(shared.files_used(), |file| {
            let file = &shared.files[file as usize];
            if !file.retry.is_due(self.cpu.now()) {
                return None;
            }
            file.cursor.claim(&self.cpu, shared.share_pages, |from| {
                let found = file.index.next_tagged(&self.cpu, from, Tag::Dirty);
                found.map(|(page, _)| page)
            })
        })
    }
}
