//! How pages of this cache are claimed for write-back, and how block requests end.
//!
//! 1. The tree gives the next tagged page. It is locked; if it is still dirty, it goes from dirty
//!    to write-back, and the lock is given up.
//! 2. A flush tags what is dirty when it begins (*to write*), so that it ends although others dirty
//!    more.
//! 3. A block request is paid for when it is made, and its interrupt when it ends, perhaps on the
//!    flusher's [neighbour](super::neighbour).

use wharf_runtime::Op;
use wharf_runtime::sync::Ordering;
use wharf_wire::dma::DmaRegion;

use crate::error::IoError;
use crate::kernel::drive_queues::hand_over;
use crate::kernel::frame::{DIRTY, LOCKED, RECLAIM, STUCK, UPTODATE, WRITEBACK};
use crate::kernel::neighbour::Ended;
use crate::kernel::pages::CpuPages;
use crate::key::PageKey;
use crate::kit::accounting::Change;
use crate::kit::backing::VolumeFiles;
use crate::kit::direct_flush::Cursor;
use crate::kit::pages::{Held, Pages};
use crate::kit::run::Run;
use crate::kit::transfers::{Ends, Outcome};
use crate::kit::write_back::{Claims, Reason, WriteBack, Writing};
use crate::kit::writers::DirtyPages;
use crate::kit::xarray::{Find, Tag};
use crate::volume::Transfer;

/// Entries tagged before the file's lock is given up for a moment (`XA_CHECK_SCHED`).
const TAG_BATCH: u32 = 4096;

/// Period for which a CPU that has dirtied pages counts as a writer (`BANDWIDTH_INTERVAL`).
const WRITERS_NS: u64 = 200_000_000;

/// Shortest time over which the rate of write-back is measured. (Linux: 200 ms; runs here are
/// short.)
const MEASURE_NS: u64 = 1_000_000;

impl Ends for CpuPages {
    type Backing = VolumeFiles;

    const TELLS_FIRST: bool = true;

    fn backing(&self) -> &VolumeFiles {
        &self.backing
    }

    fn memory(&self) -> &DmaRegion {
        self.shared.frames.memory()
    }

    /// A run becomes a request for each drive, and what redundancy adds.
    fn ordered(&self, kind: Transfer, file: u32, run: &Run) -> u32 {
        let first = self.files().in_volume(file, run.first);
        let pages = run.frames.len() as u64;
        let requests = self.volume().commands_of(kind, first, pages);
        self.cpu().work_n(Op::BlockSubmit, requests, || ());
        requests
    }

    fn answered(
        &self,
        kind: Transfer,
        file: u32,
        run: Run,
        requests: u32,
        ok: bool,
    ) -> Option<Run> {
        if kind != Transfer::Read && ok && self.ends_elsewhere(file, &run) {
            let neighbour = &self.shared.neighbour;
            neighbour.push(Ended {
                file,
                run,
                requests,
            });
            self.tasks.wake(&neighbour.sleeper);
            return None;
        }
        self.cpu().work_n(Op::Interrupt, requests, || ());
        Some(run)
    }

    /// Unlocks the pages of a read. After an error they stay, without their content: the next one
    /// who wants one reads it again.
    fn end_read(&self, run: &Run, ok: bool) {
        for &frame in &run.frames {
            if ok {
                self.change(frame, UPTODATE, 0);
            }
            self.change_and_wake(frame, 0, LOCKED | STUCK);
        }
    }

    /// (Linux forgets pages that could not be written.)
    fn end_write(&self, file: u32, run: &Run, ok: bool) {
        let (shared, count) = (&self.shared, run.frames.len() as u64);
        if !ok {
            shared.inodes[file as usize].note_failures(count);
        }
        let mut rotated = Vec::new();
        for (page, &frame) in (run.first..).zip(&run.frames) {
            if !ok {
                self.mark_dirty(frame, PageKey::new(file, page));
            }
            let tree = shared.tree(file);
            tree.change(self.cpu(), Change::Written, 1, |tree| {
                let clear = || tree.set_tag(page, Tag::Writeback, false);
                self.cpu().work(Op::TreeUpdate, clear);
            });
            shared.writeback.fetch_sub(1, Ordering::Relaxed);
            let before = self.change_and_wake(frame, 0, WRITEBACK | STUCK | RECLAIM);
            if ok && before & RECLAIM != 0 {
                rotated.push(frame);
            }
        }
        if ok {
            shared.written.fetch_add(count, Ordering::Relaxed);
            let background = &shared.common.background_written;
            match self.is_service() {
                true => _ = background.fetch_add(count, Ordering::Relaxed),
                false => self.counters.write_backs.add(count),
            }
        }
        if !rotated.is_empty() {
            self.lists.rotate(&rotated);
        }
    }
}

impl Claims for CpuPages {
    const WAITS_FOR_TRANSFERS: bool = false;

    fn next_to_write(&self, file: u32, from: u64, reason: Reason) -> Option<(u64, u32)> {
        let tag = match reason {
            Reason::Sync => Tag::ToWrite,
            Reason::Background => Tag::Dirty,
        };
        self.next_tagged(file, from, tag)
    }

    fn next_in_write_back(&self, file: u32, from: u64) -> Option<(u64, u32)> {
        self.next_tagged(file, from, Tag::Writeback)
    }

    fn begin_sync(&self, file: u32, (first, last): (u64, u64)) {
        let mut next = Some(first);
        while let Some(first) = next {
            next = self.shared.tree(file).with(self.cpu(), |tree| {
                let range = (first, last);
                let (tagged, next) = tree.copy_tag(range, Tag::Dirty, Tag::ToWrite, TAG_BATCH);
                self.cpu().work_n(Op::TreeUpdate, tagged, || next)
            });
        }
    }

    async fn claim(
        &self,
        to: &WriteBack<Self>,
        writing: &mut Writing,
        key: PageKey,
        held: &Held<'_, Self>,
    ) -> Result<(), IoError> {
        let (shared, frame, reason) = (&self.shared, held.frame, writing.reason);
        let lock = match self.try_lock_page(frame) {
            Some(lock) => lock,
            None if reason == Reason::Background => return Ok(()),
            None => {
                to.send(writing).await;
                self.lock_page(frame, key).await?
            }
        };
        if self.is(frame, WRITEBACK) {
            if reason == Reason::Background {
                return Ok(());
            }
            to.send(writing).await;
            self.wait_written(frame, key).await?;
        }
        let is_dirty = self.is(frame, DIRTY);
        if is_dirty {
            // First the one, then the other: the page is never without a mark.
            self.change(frame, WRITEBACK, 0);
            self.change(frame, 0, DIRTY);
            shared.writeback.fetch_add(1, Ordering::Relaxed);
            shared.dirty.fetch_sub(1, Ordering::Relaxed);
        }
        let (page, sent) = (key.page(), u32::from(is_dirty));
        let tree = shared.tree(key.file());
        tree.change(self.cpu(), Change::Sent, sent, |tree| {
            self.cpu().work(Op::TreeUpdate, || {
                tree.set_tag(page, Tag::Writeback, is_dirty);
                tree.set_tag(page, Tag::Dirty, false);
                tree.set_tag(page, Tag::ToWrite, false);
            });
        });
        drop(lock);
        if is_dirty {
            writing.push(page, frame);
        }
        Ok(())
    }

    /// The flusher works for long without a wait; whom it meets at locks must not be in its past.
    async fn pace(&self) {
        self.cpu().pace().await;
    }

    fn note_progress(&self) {
        self.measure();
    }

    async fn hand_over(&self, file: u32, run: &mut Run, reason: Reason) -> bool {
        let queues = &self.shared.drives;
        let is_theirs = reason == Reason::Background && !queues.is_empty();
        if is_theirs {
            let progress = &self.shared.common.progress;
            let drive_of = |page| self.drive_of(file, page);
            hand_over(queues, (&self.tasks, progress), drive_of, file, run).await;
        }
        is_theirs
    }
}

impl DirtyPages for CpuPages {
    /// No writer waits while the storage is busy.
    fn in_write_back(&self) -> u64 {
        0
    }

    fn unwritten(&self) -> u64 {
        self.shared.unwritten()
    }

    /// Where Linux begins to throttle: in the middle between the background and the hard threshold.
    fn unwritten_max(&self) -> u64 {
        self.shared.limits.free_run()
    }

    fn is_over_background(&self) -> bool {
        self.shared.is_over_background()
    }

    fn files_used(&self) -> u32 {
        self.files().count()
    }

    fn cursor(&self, file: u32) -> &Cursor {
        &self.shared.inodes[file as usize].cursor
    }

    fn next_dirty(&self, file: u32, from: u64) -> Option<u64> {
        let found = self.next_tagged(file, from, Tag::Dirty);
        found.map(|(page, _)| page)
    }

    /// There is a list of the files that are dirty: no look-up tells so.
    fn is_dirty(&self, file: u32) -> bool {
        !self.shared.tree(file).is_untagged(Tag::Dirty)
    }

    async fn wait_for_share(&self, to: &WriteBack<Self>, outcomes: &[Outcome]) {
        let _ = to.transfers.wait_for_each(outcomes).await;
    }
}

impl CpuPages {
    fn next_tagged(&self, file: u32, from: u64, tag: Tag) -> Option<(u64, u32)> {
        let find = || self.shared.tree(file).next(from, Find::Tagged(tag));
        let found = self.cpu().work(Op::TreeLookup, find);
        found.map(|(page, frame)| (page, frame as u32))
    }

    fn drive_of(&self, file: u32, page: u64) -> usize {
        let page = self.files().in_volume(file, page);
        self.volume().layout().locate(page).0
    }

    /// Whether requests for such pages end on the flusher's neighbour.
    fn ends_elsewhere(&self, file: u32, run: &Run) -> bool {
        let is_flusher = self.tasks.index == self.shared.common.clients;
        is_flusher && self.shared.neighbour.is_there() && self.drive_of(file, run.first) % 2 == 1
    }

    /// Keeps the estimate of how many pages a second write-back achieves.
    fn measure(&self) {
        let (since_ns, before) = self.measured.get();
        let now_ns = self.cpu().now();
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
