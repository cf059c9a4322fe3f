//! How pages of this cache are claimed for write-back, and how transfers end.
//!
//! Any CPU may write any page back, side by side with others: a page is claimed by who takes it
//! from dirty to write-back while it has the frame's word; its tag goes from dirty to write-back in
//! one step.
//!
//! 1. Above the background threshold the flusher, on a CPU of its own, is woken and writes until it
//!    is below.
//! 2. A writer that finds more than the hard threshold dirty, or on its way, writes shares, or
//!    files, itself.

use wharf_runtime::sync::Ordering;
use wharf_wire::dma::DmaRegion;

use crate::error::IoError;
use crate::key::PageKey;
use crate::kit::backing::Backing;
use crate::kit::direct_flush::Cursor;
use crate::kit::index::{Index, Tag};
use crate::kit::pages::{Held, Pages};
use crate::kit::run::Run;
use crate::kit::transfers::{Ends, Outcome};
use crate::kit::write_back::{Claims, Reason, WriteBack, Writing};
use crate::kit::writers::DirtyPages;
use crate::scale::frame::{DIRTY, FAILED, FILLED, STUCK, WRITEBACK};
use crate::scale::pages::CpuPages;

impl<I: Index, B: Backing> Ends for CpuPages<I, B> {
    type Backing = B;

    const TELLS_FIRST: bool = false;

    fn backing(&self) -> &B {
        &self.backing
    }

    fn memory(&self) -> &DmaRegion {
        self.shared.frames.memory()
    }

    /// The transfer's pins are taken off.
    fn end_read(&self, run: &Run, ok: bool) {
        for &frame in &run.frames {
            self.change_and_wake(frame, if ok { FILLED } else { FAILED }, STUCK);
            self.let_go(frame);
        }
    }

    fn end_write(&self, file: u32, run: &Run, ok: bool) {
        let (shared, count) = (&self.shared, run.frames.len() as u64);
        let retry = &shared.retries[file as usize];
        match ok {
            true => retry.note_success(),
            false => {
                retry.note_failure(self.cpu().now());
                shared.files[file as usize].note_failures(count);
            }
        }
        for (page, &frame) in (run.first..).zip(&run.frames) {
            let dirty = (!ok).then_some(Tag::Dirty);
            self.retag(PageKey::new(file, page), dirty, Some(Tag::Writeback));
            self.change_and_wake(frame, if ok { 0 } else { DIRTY }, WRITEBACK | STUCK);
        }
        self.count(&shared.writeback, &self.writeback, -(count as i64));
        if !ok {
            self.count(&shared.dirty, &self.dirty, count as i64);
        } else if self.is_service() {
            let written = &shared.common.background_written;
            written.fetch_add(count, Ordering::Relaxed);
        } else {
            self.counters.write_backs.add(count);
        }
    }
}

impl<I: Index, B: Backing> Claims for CpuPages<I, B> {
    const WAITS_FOR_TRANSFERS: bool = true;

    fn next_to_write(&self, file: u32, from: u64, _: Reason) -> Option<(u64, u32)> {
        self.index_of(file)
            .next_tagged(self.cpu(), from, Tag::Dirty)
    }

    fn next_in_write_back(&self, file: u32, from: u64) -> Option<(u64, u32)> {
        self.index_of(file)
            .next_tagged(self.cpu(), from, Tag::Writeback)
    }

    async fn claim(
        &self,
        to: &WriteBack<Self>,
        writing: &mut Writing,
        key: PageKey,
        held: &Held<'_, Self>,
    ) -> Result<(), IoError> {
        let (cpu, shared, frame) = (self.cpu(), &self.shared, held.frame);
        loop {
            shared.frames.lock(cpu, frame);
            let state = self.state(frame);
            let is_claimed = state & (DIRTY | WRITEBACK) == DIRTY;
            if is_claimed {
                // The state before the tags: who finds the page by its new tag must wait for it.
                self.change(frame, WRITEBACK, DIRTY);
                self.retag(key, Some(Tag::Writeback), Some(Tag::Dirty));
            }
            shared.frames.unlock(frame);
            if is_claimed {
                self.count(&shared.dirty, &self.dirty, -1);
                self.count(&shared.writeback, &self.writeback, 1);
                writing.push(key.page(), frame);
                return Ok(());
            }
            if state & DIRTY == 0 || writing.reason == Reason::Background {
                return Ok(());
            }
            // Those who have the page may wait for one of the run.
            to.send(writing).await;
            self.wait_written(frame, key).await?;
        }
    }
}

impl<I: Index, B: Backing> DirtyPages for CpuPages<I, B> {
    fn in_write_back(&self) -> u64 {
        self.shared.writeback.get()
    }

    fn unwritten(&self) -> u64 {
        self.shared.unwritten()
    }

    fn unwritten_max(&self) -> u64 {
        self.shared.limits.dirty_hard
    }

    fn is_over_background(&self) -> bool {
        self.shared.is_over_background()
    }

    fn files_used(&self) -> u32 {
        self.shared.files_used()
    }

    fn cursor(&self, file: u32) -> &Cursor {
        &self.shared.files[file as usize].cursor
    }

    fn next_dirty(&self, file: u32, from: u64) -> Option<u64> {
        let found = self.next_to_write(file, from, Reason::Background);
        found.map(|(page, _)| page)
    }

    fn is_dirty(&self, file: u32) -> bool {
        self.next_dirty(file, 0).is_some()
    }

    fn is_due(&self, file: u32) -> bool {
        self.shared.retries[file as usize].is_due(self.cpu().now())
    }

    fn share_max(&self) -> u64 {
        self.shared.common.share_pages
    }

    async fn wait_for_share(&self, to: &WriteBack<Self>, outcomes: &[Outcome]) {
        let _ = to.transfers.wait_for(outcomes).await;
    }
}
