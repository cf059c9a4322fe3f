//! Direct flush in the kernel's page cache ([`dflush`](crate::dflush) has the rules): ScaleCache without its index
//! (section 4.7 of that paper).
//!
//! What the kernel's writers are throttled by is off ([`throttle`](super::throttle)); where it would begin, in the middle
//! between the background and the hard threshold, writers write shares, or whole files, themselves. The flusher is woken as ever. Trees,
//! lists, reclaim and block requests are the kernel's.

use std::rc::Rc;

use wharf_runtime::Op;

use crate::dflush::{SLEEP_NS, Writer, balance};
use crate::kernel::block::Outcome;
use crate::kernel::local::Local;
use crate::kernel::writeback::{Reason, Writing};
use crate::kernel::xarray::{Find, Tag};

impl Writer for Local {
    fn is_over(&self) -> bool {
        self.shared.unwritten() > self.shared.limits.free_run()
    }

    fn is_over_background(&self) -> bool {
        self.shared.is_over_background()
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

    async fn clean_share(self: &Rc<Self>) -> u64 {
        let began_ns = self.cpu.now();
        let pages = self.flush_share().await;
        self.counters.flushing_ns.add(self.cpu.now() - began_ns);
        pages
    }

    async fn send_file(self: &Rc<Self>) -> u64 {
        let (cpu, shared, began_ns) = (&self.cpu, &self.shared, self.cpu.now());
        let taken = shared.turns.claim(self.files.count(), |file| {
            let inode = &shared.inodes[file as usize];
            // There is a list of the files that are dirty: no look-up tells so.
            inode
                .cursor
                .take(cpu, || !inode.tree.is_untagged(Tag::Dirty))
        });
        let Some((file, _sole)) = taken else {
            return 0;
        };
        let mut writing = Writing::of(file, Reason::Background);
        // Pages that are stuck are left out: who waits for them hears of it.
        let _ = self
            .write_tagged(&mut writing, (0, u64::MAX), |_| true)
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

impl Local {
    /// A writer looks at the thresholds, and flushes if too much is dirty.
    pub(super) async fn balance_by_flushing(self: &Rc<Self>) {
        let shared = &self.shared;
        self.dirty_step.set(shared.limits.dirty_step);
        if shared.is_over_background() {
            self.wake(&shared.flusher);
        }
        balance(self, shared.balance).await;
    }

    /// Writes the next dirty pages of the next file that has any, and waits for them; gives their number.
    async fn flush_share(self: &Rc<Self>) -> u64 {
        let (cpu, shared) = (&self.cpu, &self.shared);
        let claimed = shared.turns.claim(self.files.count(), |file| {
            let inode = &shared.inodes[file as usize];
            inode.cursor.claim(cpu, shared.share_pages, |from| {
                let find = || inode.tree.next(from, Find::Tagged(Tag::Dirty));
                cpu.work(Op::TreeLookup, find).map(|(page, _)| page)
            })
        });
        let Some((file, range)) = claimed else {
            return 0;
        };
        let mut writing = Writing::of(file, Reason::Background);
        // Pages that are stuck are left out: who waits for them hears of it.
        let _ = self.write_tagged(&mut writing, range, |_| true).await;
        self.wait_for_requests(&writing.outcomes).await;
        writing.pages
    }

    /// Waits until block requests of this CPU have ended, or are known to be late. Failures are counted, and reported by
    /// flushes.
    async fn wait_for_requests(&self, outcomes: &[Outcome]) {
        while outcomes.iter().any(|outcome| outcome.get().is_none()) {
            self.sleep(self.landed.wait(&self.cpu)).await;
        }
    }
}
