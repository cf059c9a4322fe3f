//! Pages that read as zeros from now on, and formatting: all of them.

use wharf_runtime::Op;
use wharf_wire::status::StatusCode;

use super::state::Core;
use crate::ftl::{Finished, Refusal};

/// Pages that are cleared before other work gets a turn.
const CLEAR_STEP: u32 = 1024;

impl Core {
    /// Has pages read as zeros from now on, in steps, so that a large range does not hold up the core: they
    /// are deallocated, or hold zeros if they are to be `kept`. What a sparse map does not know is stepped over.
    ///
    /// # Errors
    /// If a page stays in use by the host for too long.
    pub async fn clear(&self, first: u32, count: u32, kept: bool) -> Result<(), StatusCode> {
        let (mut finished, mut locked) = (Finished::default(), Vec::new());
        let mut outcome = Ok(());
        let (mut from, end) = (first, first + count);
        while let Some(known) = self.next_to_clear(from, end, kept) {
            let to = end.min(known.saturating_add(CLEAR_STEP));
            outcome = self.lock_frames(known..to, &mut locked).await;
            if outcome.is_err() {
                break;
            }
            self.cpu.work_n(Op::Deallocate, to - known, || {
                self.with_ftl(|ftl| match kept {
                    true => ftl.zero(from, to - from, &mut finished),
                    // From where the last step ended, so that both are one range in the log.
                    false => drop(ftl.deallocate(from, to - from, &mut finished)),
                });
            });
            self.found_by_table(to - known);
            for frame in locked.drain(..) {
                // SAFETY: the frame is locked.
                self.overwrite_frame(frame, |page| unsafe { page.clear() });
                self.unlock_frame(frame);
            }
            if self.with_ftl(|ftl| ftl.log_is_pressing()) {
                // A failure leaves them for the next flush, which will tell the host.
                let _ = self.write_log().await;
            }
            self.cpu.yield_now().await;
            from = to;
        }
        if finished.blocks_changed {
            self.space.notify_all(&self.cpu);
        }
        self.wake_collector();
        outcome
    }

    /// Begins to write a page, unless it is zeros: then it holds them from now on.
    pub fn stage_unless_zeros(
        &self,
        now_ns: u64,
        lpn: u32,
        owner: u32,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Option<u64>, Refusal> {
        let mut finished = Finished::default();
        let staged =
            self.with_ftl(|ftl| ftl.stage_unless_zeros(now_ns, lpn, owner, &mut finished, fill));
        if finished.blocks_changed {
            self.space.notify_all(&self.cpu);
            self.wake_collector();
        }
        staged
    }

    /// The first page from `from` on that there is something to do for.
    fn next_to_clear(&self, from: u32, end: u32, kept: bool) -> Option<u32> {
        // A cached page that was never on flash may be in a frame alone.
        match kept || self.may_cache() {
            true => (from < end).then_some(from),
            false => self.with_ftl(|ftl| ftl.next_known(from, end)),
        }
    }

    /// Deallocates everything, durably, and erases the flash if asked to. No I/O is under way.
    pub async fn format(&self, erase: bool) -> StatusCode {
        if let Some(disk) = &self.disk {
            let forgotten = self.forget_sectors(0, disk.sectors());
            return forgotten.err().unwrap_or(StatusCode::Success);
        }
        let pages = self.with_ftl(|ftl| ftl.plan().logical_pages);
        if let Err(status) = self.clear(0, pages, false).await {
            return status;
        }
        let status = self.make_durable().await;
        if erase && status == StatusCode::Success {
            return self.wipe().await;
        }
        status
    }

    fn close_all_units(&self) {
        let now_ns = self.flash_now();
        self.with_ftl(|ftl| ftl.close_units(now_ns));
        let end_ns = self.with_ftl(|ftl| ftl.next_end_ns());
        self.after_staging(end_ns.unwrap_or(u64::MAX));
    }

    /// Has the collector erase all that is written, and waits for it.
    async fn wipe(&self) -> StatusCode {
        // What is staged is nobody's data any more, but has a place.
        self.close_all_units();
        while !self.with_ftl(|ftl| ftl.is_at_rest()) {
            self.programmed.wait(&self.cpu).await;
        }
        self.with_ftl(|ftl| ftl.begin_wipe());
        self.wake_collector();
        while !self.with_ftl(|ftl| ftl.is_wiped()) {
            self.space.wait(&self.cpu).await;
        }
        self.with_ftl(|ftl| ftl.end_wipe());
        self.sync_media().await
    }
}
