//! The checkpointer: takes a checkpoint when as many pages were programmed as recovery should have to
//! look at.
//!
//! First the time is spent, then the snapshot is made and put in place in one step: the pages of a
//! checkpoint are programmed one on each plane at a time, and queue like any other operation, so
//! that reads and writes go on between them.

use std::rc::Rc;

use wharf_wire::status::StatusCode;

use super::state::Core;
use crate::ftl::Ftl;

impl Core {
    /// The checkpointer's life.
    pub(super) async fn checkpoints(self: Rc<Self>) {
        loop {
            if self.with_ftl(|ftl| ftl.checkpoint_is_due()) {
                // A failure leaves the old log in place: recovery takes longer, nothing is lost.
                let _ = self.checkpoint().await;
            } else {
                self.checkpoint_due.wait(&self.cpu).await;
            }
        }
    }

    /// Takes a checkpoint: the log is as short as it gets.
    pub(super) async fn checkpoint(&self) -> StatusCode {
        let mut left = if self.instant {
            0
        } else {
            self.with_ftl(|ftl| ftl.checkpoint_pages())
        };
        while left > 0 {
            let now_ns = self.flash_now();
            let (pages, end_ns) = self.with_ftl(|ftl| ftl.program_checkpoint(now_ns, left));
            self.after_staging(end_ns);
            while self.with_ftl(|ftl| ftl.is_programming_checkpoint()) {
                self.programmed.wait(&self.cpu).await;
            }
            left -= pages;
        }
        if !self.cpu.is_virtual() {
            // What it names, others going on meanwhile: little is left to wait for. A failure shows below.
            self.sync_media().await;
        }
        let written = self.with_ftl(Ftl::write_checkpoint);
        self.after_log_write(written)
    }
}
