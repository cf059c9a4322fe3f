//! Pages that read as zeros from now on, and formatting: all of them.

use wharf_runtime::Op;
use wharf_wire::status::StatusCode;

use super::state::Core;
use crate::ftl::Finished;

/// Pages that are deallocated before other work gets a turn.
const DEALLOCATE_STEP: u32 = 1024;

impl Core {
    /// Deallocates in steps, so that a large range does not hold up the core.
    ///
    /// # Errors
    /// If a page stays in use by the host for too long.
    pub async fn deallocate(&self, first: u32, count: u32) -> Result<(), StatusCode> {
        let (mut finished, mut locked) = (Finished::default(), Vec::new());
        let mut outcome = Ok(());
        for from in (first..first + count).step_by(DEALLOCATE_STEP as usize) {
            let pages = DEALLOCATE_STEP.min(first + count - from);
            outcome = self.lock_frames(from..from + pages, &mut locked).await;
            if outcome.is_err() {
                break;
            }
            self.cpu.work_n(Op::Deallocate, pages, || {
                self.with_ftl(|ftl| ftl.deallocate(from, pages, &mut finished));
            });
            self.found_by_table(pages);
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
        }
        if finished.blocks_changed {
            self.space.notify_all(&self.cpu);
        }
        self.wake_collector();
        outcome
    }

    /// Deallocates everything, durably, and erases the flash if asked to. No I/O is under way.
    pub async fn format(&self, erase: bool) -> StatusCode {
        if let Some(disk) = &self.disk {
            let forgotten = self.forget_sectors(0, disk.sectors());
            return forgotten.err().unwrap_or(StatusCode::Success);
        }
        let pages = self.with_ftl(|ftl| ftl.plan().logical_pages);
        if let Err(status) = self.deallocate(0, pages).await {
            return status;
        }
        let status = self.make_durable().await;
        if erase && status == StatusCode::Success {
            return self.wipe().await;
        }
        status
    }

    /// Has the collector erase all that is written, and waits for it.
    async fn wipe(&self) -> StatusCode {
        self.with_ftl(|ftl| ftl.begin_wipe());
        self.wake_collector();
        while !self.with_ftl(|ftl| ftl.is_wiped()) {
            self.space.wait(&self.cpu).await;
        }
        self.with_ftl(|ftl| ftl.end_wipe());
        self.sync_media()
    }
}
