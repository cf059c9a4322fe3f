//! Writers that keep the number of dirty pages down themselves, by the rules of
//! [`direct_flush`](crate::kit::direct_flush).
//!
//! In a program's cache the flusher writes all the time; as long as it gives the storage all it can
//! take, a writer's share would only queue behind, so the writer waits for those pages instead.

use crate::kit::direct_flush::{Balance, Cursor, SLEEP_NS};
use crate::kit::transfers::Outcome;
use crate::kit::write_back::{Claims, Reason, WriteBack, Writing};

/// A writer goes on after so many shares: the drives take no more, or others dirty pages faster.
/// Memory will say so.
const SHARES_MAX: u32 = 16;

/// What is dirty, and what a writer may take of it.
pub(crate) trait DirtyPages: Claims {
    /// Pages on their way to the drive.
    fn in_write_back(&self) -> u64;

    /// Pages that the drive does not have yet: dirty, and on their way.
    fn unwritten(&self) -> u64;

    /// As many of them are too many.
    fn unwritten_max(&self) -> u64;

    /// True if more is dirty than the background threshold allows, whatever is on its way.
    fn is_over_background(&self) -> bool;

    /// Files, from 0 on.
    fn files_used(&self) -> u32;

    /// Where the next flusher of a file looks.
    fn cursor(&self, file: u32) -> &Cursor;

    /// The first dirty page of a file from `from` on.
    fn next_dirty(&self, file: u32, from: u64) -> Option<u64>;

    /// Whether a file has dirty pages.
    fn is_dirty(&self, file: u32) -> bool;

    /// Whether the storage of a file has not just failed.
    fn is_due(&self, _file: u32) -> bool {
        true
    }

    /// Most pages of a share that are claimed, of those there are in its range.
    fn share_max(&self) -> u64 {
        u64::MAX
    }

    /// Waits for the transfers of a share. Failures are counted, and reported by flushes.
    async fn wait_for_share(&self, to: &WriteBack<Self>, outcomes: &[Outcome]);
}

impl<P: DirtyPages> WriteBack<P> {
    fn is_over(&self) -> bool {
        self.pages.unwritten() > self.pages.unwritten_max()
    }

    fn join_progress(&self) {
        self.pages.tasks().join(&self.pages.common().progress);
    }

    /// Wakes the flusher if it has work.
    pub(crate) fn wake_flusher_if_due(&self) {
        if self.pages.is_over_background() {
            self.wake_flusher();
        }
    }

    /// Wakes the flusher.
    pub(crate) fn wake_flusher(&self) {
        self.pages.tasks().wake(&self.pages.common().flusher);
    }

    /// Keeps a writer until no longer too much is dirty, or it has done its part.
    pub(crate) async fn balance(&self) {
        let balance = self.pages.common().balance;
        self.wake_flusher_if_due();
        if balance == Balance::FlushFiles {
            return self.flush_files().await;
        }
        for _ in 0..SHARES_MAX {
            if !self.is_over() {
                return;
            }
            self.pages.counters().waits.add(1);
            match balance {
                Balance::FlushUnlessBusy if self.is_storage_busy() => {
                    self.wait_for_others().await;
                    continue;
                }
                Balance::Flush | Balance::FlushFiles | Balance::FlushUnlessBusy => {}
                Balance::SleepThenFlush | Balance::Sleep => {
                    self.join_progress();
                    self.doze(SLEEP_NS).await;
                }
            }
            if balance == Balance::Sleep || self.clean_share().await == 0 {
                self.wake_flusher();
                // All that is dirty is on its way.
                self.join_progress();
                if self.is_over() {
                    self.doze(SLEEP_NS).await;
                }
            }
        }
    }

    /// As [`WriteBack::balance`] by [`Balance::FlushFiles`].
    async fn flush_files(&self) {
        if !self.is_over() {
            return;
        }
        self.pages.counters().waits.add(1);
        let mut waits = 0;
        while self.pages.is_over_background() && waits < SHARES_MAX {
            if self.send_file().await == 0 {
                // Others have the files that are left (`inode_sleep_on_writeback`).
                self.join_progress();
                let began_ns = self.pages.tasks().cpu.now();
                self.pages.tasks().wait_at_most(SLEEP_NS).await;
                self.note_flushing(began_ns);
                waits += 1;
            }
        }
    }

    fn note_flushing(&self, began_ns: u64) {
        let took_ns = self.pages.tasks().cpu.now() - began_ns;
        self.pages.counters().flushing_ns.add(took_ns);
    }

    /// Sleeps for so long at most, for there is too much that is dirty.
    async fn doze(&self, most_ns: u64) {
        let tasks = self.pages.tasks();
        let began_ns = tasks.cpu.now();
        tasks.wait_at_most(most_ns).await;
        let took_ns = tasks.cpu.now() - began_ns;
        self.pages.counters().throttled_ns.add(took_ns);
    }

    /// So many pages on their way keep the storage busy. A writer waits for as many at a time, as
    /// waking up costs more than a write.
    fn half_a_share(&self) -> u64 {
        self.pages.common().share_pages.div_ceil(2)
    }

    fn is_storage_busy(&self) -> bool {
        self.pages.in_write_back() >= self.half_a_share()
    }

    /// Waits until others have written enough, but for [`SLEEP_NS`] at most.
    async fn wait_for_others(&self) {
        let (pages, cpu) = (&*self.pages, &self.pages.tasks().cpu);
        let (deadline_ns, hard) = (cpu.now() + SLEEP_NS, pages.unwritten_max());
        let enough = hard - self.half_a_share().min(hard / 4);
        loop {
            self.join_progress();
            let left_ns = deadline_ns.saturating_sub(cpu.now());
            if pages.unwritten() <= enough || left_ns == 0 {
                return;
            }
            self.doze(left_ns).await;
        }
    }

    async fn clean_share(&self) -> u64 {
        let began_ns = self.pages.tasks().cpu.now();
        let pages = self.flush_share().await;
        self.note_flushing(began_ns);
        pages
    }

    /// Begins to write all dirty pages of the next file that nobody else flushes; gives their
    /// number, 0 if there is no such file.
    async fn send_file(&self) -> u64 {
        let (pages, cpu) = (&*self.pages, &self.pages.tasks().cpu);
        let began_ns = cpu.now();
        let taken = pages.common().turns.claim(pages.files_used(), |file| {
            let is_dirty = || pages.is_dirty(file);
            let is_due = pages.is_due(file);
            is_due
                .then(|| pages.cursor(file).take(cpu, is_dirty))
                .flatten()
        });
        let Some((file, _sole)) = taken else {
            return 0;
        };
        let mut writing = Writing::of(file, Reason::Background);
        // Pages that are stuck are left out: who waits for them hears of it.
        let _ = self
            .write_range(&mut writing, (0, u64::MAX), |_| true)
            .await;
        self.note_flushing(began_ns);
        writing.claimed
    }

    /// Writes a share and waits for it; gives its pages.
    pub(crate) async fn flush_share(&self) -> u64 {
        let writing = self.begin_share().await;
        if writing.claimed > 0 {
            self.pages.wait_for_share(self, &writing.outcomes).await;
        }
        writing.claimed
    }

    /// Begins to write a share: the next dirty pages behind the cursor of the next file that has
    /// any. So flushers write different files, and different ranges where there are more flushers
    /// than files. Files whose storage has just failed rest.
    pub(crate) async fn begin_share(&self) -> Writing {
        let (pages, cpu) = (&*self.pages, &self.pages.tasks().cpu);
        let share_pages = pages.common().share_pages;
        let claimed = pages.common().turns.claim(pages.files_used(), |file| {
            let next = |from| pages.next_dirty(file, from);
            let is_due = pages.is_due(file);
            is_due
                .then(|| pages.cursor(file).claim(cpu, share_pages, next))
                .flatten()
        });
        let Some((file, range)) = claimed else {
            return Writing::of(0, Reason::Background);
        };
        let mut writing = Writing::of(file, Reason::Background);
        let most = pages.share_max();
        // As for files.
        let _ = self
            .write_range(&mut writing, range, |writing| writing.claimed < most)
            .await;
        writing
    }
}
