//! Write-back: dirty pages on their way to the drive.
//!
//! One flusher writes, on a CPU of its own, when more pages are dirty than the background threshold
//! allows, when memory is short, or when pages have been dirty for long. A flush, and a write that is
//! to be on the drive when it ends, write themselves.
//!
//! 1. The tree gives the next tagged page. It is locked; if it is still dirty, it goes from dirty to
//!    write-back, and the lock is given up.
//! 2. Neighbours are gathered into a run, which becomes one request. Whoever has to wait for a page
//!    sends the run first: who has that page may be waiting for one of the run.
//! 3. A flush tags what is dirty when it begins (*to write*), so that it ends although others dirty
//!    more, and then waits for everything in write-back.
//! 4. The flusher goes over the dirty files in turn, so many pages of each, and goes on in each where it
//!    stopped.
//!
//! A writer waits while its page is being written (Linux: stable pages, as drives with checksums
//! need them).

use std::rc::Rc;

use wharf_runtime::Op;
use wharf_runtime::sync::Ordering;

use crate::error::IoError;
use crate::kernel::accounting::Change;
use crate::kernel::block::Outcome;
use crate::kernel::frame::{DIRTY, WRITEBACK};
use crate::kernel::local::{Held, Local, PageLock};
use crate::kernel::xarray::{Find, Tag};
use crate::key::PageKey;
use crate::run::Run;
use crate::volume::Transfer;

/// Entries tagged before the file's lock is given up for a moment (`XA_CHECK_SCHED`).
const TAG_BATCH: u32 = 4096;

/// Pages of a file that the flusher writes before the next file's turn (`MIN_WRITEBACK_PAGES`: 4 MiB).
const CHUNK_PAGES: u64 = 1024;

/// Time between two looks at how long pages have been dirty (`dirty_writeback_centisecs`).
const PERIOD_NS: u64 = 5_000_000_000;

/// Age at which dirty pages are written without need (`dirty_expire_centisecs`).
const EXPIRE_NS: u64 = 30_000_000_000;

/// Rest of a flusher that wants to write and could not begin with a single page.
const REST_NS: u64 = 1_000_000;

/// Period for which a CPU that has dirtied pages counts as a writer (`BANDWIDTH_INTERVAL`).
const WRITERS_NS: u64 = 200_000_000;

/// Shortest time over which the rate of write-back is measured. (Linux: 200 ms; runs here are short.)
const MEASURE_NS: u64 = 1_000_000;

/// Why pages are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// To have fewer dirty ones: pages that others hold are left out.
    Background,
    /// Somebody waits for just these.
    Sync,
}

/// Pages of a file being gathered, and the requests sent.
pub(super) struct Writing {
    file: u32,
    reason: Reason,
    run: Run,
    pub(super) outcomes: Vec<Outcome>,
    pub(super) pages: u64,
    /// Where to go on.
    at: u64,
}

impl Writing {
    /// Nothing yet of `file`.
    pub(super) fn of(file: u32, reason: Reason) -> Writing {
        Writing {
            file,
            reason,
            run: Run::default(),
            outcomes: Vec::new(),
            pages: 0,
            at: 0,
        }
    }
}

/// Where the flusher is: the file whose turn it is, and for each file the page.
struct Rounds {
    turn: u32,
    cursors: Box<[u64]>,
}

impl Local {
    /// Writes the dirty pages `first..=last` of a file, and waits for them.
    ///
    /// # Errors
    /// The first error of a request; a page that the drive holds and does not answer for.
    pub(super) async fn write_and_wait(
        self: &Rc<Self>,
        file: u32,
        (first, last): (u64, u64),
    ) -> Result<(), IoError> {
        let mut next = Some(first);
        while let Some(first) = next {
            next = self.shared.tree(file).with(&self.cpu, |tree| {
                let range = (first, last);
                let (tagged, next) = tree.copy_tag(range, Tag::Dirty, Tag::ToWrite, TAG_BATCH);
                self.cpu.work_n(Op::TreeUpdate, tagged, || next)
            });
        }
        let mut writing = Writing::of(file, Reason::Sync);
        let mut outcome = self
            .write_tagged(&mut writing, (first, last), |_| true)
            .await;
        outcome = outcome.and(self.wait_written(file, (first, last)).await);
        let results = writing.outcomes.iter().filter_map(|outcome| outcome.get());
        results.fold(outcome, |outcome, result| outcome.and(result))
    }

    /// Begins to write the pages of a range that have the reason's tag, as long as `more`, which is told how
    /// many were sent, says so.
    pub(super) async fn write_tagged(
        self: &Rc<Self>,
        writing: &mut Writing,
        (first, last): (u64, u64),
        more: impl Fn(u64) -> bool,
    ) -> Result<(), IoError> {
        let tag = match writing.reason {
            Reason::Sync => Tag::ToWrite,
            Reason::Background => Tag::Dirty,
        };
        let tree = self.shared.tree(writing.file);
        let mut outcome = Ok(());
        writing.at = first;
        while more(writing.pages) {
            // The flusher works for long without a wait; whom it meets at locks must not be in its past.
            self.cpu.pace().await;
            let find = || tree.next(writing.at, Find::Tagged(tag));
            let found = self.cpu.work(Op::TreeLookup, find);
            let Some((page, frame)) = found.filter(|(page, _)| *page <= last) else {
                break;
            };
            writing.at = page + 1;
            if !writing.run.takes(page) {
                self.send(writing).await;
            }
            let key = PageKey::new(writing.file, page);
            if self.shared.frames.get(&self.cpu, frame as u32, key) {
                let held = Held {
                    local: self,
                    frame: frame as u32,
                };
                // The others are tried all the same: the more is on the drive, the better.
                outcome = outcome.and(self.begin(writing, key, &held).await);
            }
            self.measure();
        }
        self.send(writing).await;
        outcome
    }

    async fn send(self: &Rc<Self>, writing: &mut Writing) {
        if !writing.run.frames.is_empty() {
            writing.pages += writing.run.frames.len() as u64;
            if writing.reason == Reason::Background && !self.shared.drives.is_empty() {
                return self.hand_over(writing.file, &mut writing.run).await;
            }
            writing
                .outcomes
                .push(self.submit(Transfer::Write, writing.file, &mut writing.run));
            self.wait_for_room().await;
        }
    }

    /// Takes one page from dirty to write-back, if it is to be written, and adds it to the run.
    async fn begin(
        self: &Rc<Self>,
        writing: &mut Writing,
        key: PageKey,
        held: &Held<'_>,
    ) -> Result<(), IoError> {
        let (shared, frame, reason) = (&self.shared, held.frame, writing.reason);
        let lock = if shared.frames.try_lock(&self.cpu, frame) {
            PageLock { local: self, frame }
        } else if reason == Reason::Background {
            return Ok(());
        } else {
            self.send(writing).await;
            self.lock_page(frame, key).await?
        };
        if shared.frames.is(frame, WRITEBACK) {
            if reason == Reason::Background {
                return Ok(());
            }
            self.send(writing).await;
            self.wait_page(frame, WRITEBACK, key).await?;
        }
        let is_dirty = shared.frames.is(frame, DIRTY);
        if is_dirty {
            // First the one, then the other: the page is never without a mark.
            shared.frames.set(&self.cpu, frame, WRITEBACK);
            shared.frames.clear(&self.cpu, frame, DIRTY);
            shared.writeback.fetch_add(1, Ordering::Relaxed);
            shared.dirty.fetch_sub(1, Ordering::Relaxed);
        }
        let (page, sent) = (key.page(), u32::from(is_dirty));
        let tree = shared.tree(key.file());
        tree.change(&self.cpu, Change::Sent, sent, |tree| {
            self.cpu.work(Op::TreeUpdate, || {
                tree.set_tag(page, Tag::Writeback, is_dirty);
                tree.set_tag(page, Tag::Dirty, false);
                tree.set_tag(page, Tag::ToWrite, false);
            });
        });
        drop(lock);
        if is_dirty {
            writing.run.push(page, frame);
        }
        Ok(())
    }

    /// Waits for the pages of a range that are in write-back now, whoever writes them.
    async fn wait_written(&self, file: u32, (first, last): (u64, u64)) -> Result<(), IoError> {
        let tree = self.shared.tree(file);
        let (mut at, mut outcome) = (first, Ok(()));
        loop {
            let find = || tree.next(at, Find::Tagged(Tag::Writeback));
            let found = self.cpu.work(Op::TreeLookup, find);
            let Some((page, frame)) = found.filter(|(page, _)| *page <= last) else {
                return outcome;
            };
            at = page + 1;
            let (frame, key) = (frame as u32, PageKey::new(file, page));
            if self.shared.frames.get(&self.cpu, frame, key) {
                let _held = Held { local: self, frame };
                outcome = outcome.and(self.wait_page(frame, WRITEBACK, key).await);
            }
        }
    }

    /// Makes durable what was written to ranges of files before: the kernel's `fsync`.
    ///
    /// # Errors
    /// The first error of a request; else [`IoError::WriteBack`] if write-backs of one of the files have
    /// failed, by whomever, since this client's last flush of it.
    pub(super) async fn flush(
        self: &Rc<Self>,
        ranges: impl Iterator<Item = (u32, (u64, u64))>,
    ) -> Result<(), IoError> {
        self.cpu.work(Op::SystemCall, || ());
        let mut outcome = Ok(());
        for (file, range) in ranges {
            let failures = || self.shared.failures_of(file);
            let written = self.write_and_wait(file, range);
            let written = self.told[file as usize].report(failures, written).await;
            outcome = outcome.and(written);
        }
        outcome?;
        self.cpu.work(Op::BlockSubmit, || ());
        let mut flushed = Ok(());
        self.sleep(async { flushed = self.volume.flush(&self.cpu).await })
            .await;
        self.cpu.work(Op::Interrupt, || ());
        flushed
    }

    /// The flusher, for as long as the CPU runs.
    pub(super) async fn flush_in_background(self: Rc<Self>) {
        let shared = &self.shared;
        let (mut clean_ns, mut due_ns) = (self.cpu.now(), PERIOD_NS);
        let mut rounds = Rounds {
            turn: 0,
            cursors: vec![0; shared.inodes.len()].into(),
        };
        loop {
            self.join(&shared.flusher);
            let now_ns = self.cpu.now();
            if shared.dirty.load(Ordering::Relaxed) == 0 {
                clean_ns = now_ns;
            }
            let is_old = now_ns >= due_ns && now_ns - clean_ns >= EXPIRE_NS;
            let all = shared.memory_short.swap(false, Ordering::Relaxed) || is_old;
            if all || shared.is_over_background() {
                self.write_some(&mut rounds, all).await;
                continue;
            }
            if now_ns >= due_ns {
                due_ns = now_ns + PERIOD_NS;
            }
            self.wait_at_most(due_ns - now_ns).await;
            let written = shared.written.load(Ordering::Relaxed);
            self.measured.set((self.cpu.now(), written));
        }
    }

    /// Writes files in turn, each once, all that is dirty or down to the threshold.
    async fn write_some(self: &Rc<Self>, rounds: &mut Rounds, all: bool) {
        let (files, first) = (rounds.cursors.len() as u32, rounds.turn);
        let mut pages = 0;
        for file in (0..files).map(|step| (first + step) % files) {
            // There is a list of the files that are dirty: no look-up tells so.
            if self.shared.tree(file).is_untagged(Tag::Dirty) {
                continue;
            }
            if !all && !self.shared.is_over_background() {
                break;
            }
            rounds.turn = (file + 1) % files;
            let most = if files == 1 { u64::MAX } else { CHUNK_PAGES };
            let cursor = &mut rounds.cursors[file as usize];
            pages += self.write_chunk(file, cursor, all, most).await;
        }
        if pages == 0 {
            self.join(&self.shared.progress);
            self.wait_at_most(REST_NS).await;
        }
    }

    /// Writes a file from its cursor on and once around, about `most` pages; gives how many.
    async fn write_chunk(
        self: &Rc<Self>,
        file: u32,
        cursor: &mut u64,
        all: bool,
        most: u64,
    ) -> u64 {
        let mut writing = Writing::of(file, Reason::Background);
        let more = |sent| sent < most && (all || self.shared.is_over_background());
        let start = *cursor;
        for range in [(start, u64::MAX), (0, start)] {
            // Enough: the next round goes on where this one stopped (`writeback_index`).
            if !more(writing.pages) {
                break;
            }
            // Pages that are stuck are left out: who waits for them hears of it.
            let _ = self.write_tagged(&mut writing, range, more).await;
            *cursor = writing.at;
        }
        writing.pages
    }

    /// Keeps the estimate of how many pages a second write-back achieves.
    fn measure(&self) {
        let (since_ns, before) = self.measured.get();
        let now_ns = self.cpu.now();
        if now_ns < since_ns + MEASURE_NS {
            return;
        }
        let written = self.shared.written.load(Ordering::Relaxed);
        self.measured.set((now_ns, written));
        let rate = (written - before) * 1_000_000_000 / (now_ns - since_ns);
        let bandwidth = &self.shared.bandwidth;
        let old = bandwidth.load(Ordering::Relaxed);
        bandwidth.store((old * 7 + rate) / 8, Ordering::Relaxed);
        if now_ns / WRITERS_NS > since_ns / WRITERS_NS {
            self.shared.turn_writers();
        }
    }
}
