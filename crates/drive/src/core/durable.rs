//! Durability: what a flush acknowledges has survived.

use wharf_wire::status::StatusCode;

use super::state::Core;
use crate::media::MediaError;

impl Core {
    /// Waits until every write acknowledged so far is on flash, then logs deallocations.
    pub async fn make_durable(&self) -> StatusCode {
        let seq = self.with_ftl(|ftl| ftl.seq());
        if !self.with_ftl(|ftl| ftl.is_settled(seq)) {
            self.hasten();
        }
        while !self.with_ftl(|ftl| ftl.is_settled(seq)) {
            self.programmed.wait(&self.cpu).await;
        }
        self.make_deallocations_durable().await
    }

    /// Logs the deallocations so far, to survive a crash of the host's machine too.
    pub async fn make_deallocations_durable(&self) -> StatusCode {
        match self.write_log().await {
            StatusCode::Success => self.sync_media(),
            failure => failure,
        }
    }

    /// Logs the deallocations since the last time.
    pub async fn write_log(&self) -> StatusCode {
        if !self.with_ftl(|ftl| ftl.log_is_due()) {
            return StatusCode::Success;
        }
        if self.with_ftl(|ftl| ftl.log_is_full()) {
            return self.checkpoint().await;
        }
        if self.log_write_ns > 0 {
            self.cpu
                .sleep_until(self.cpu.now() + self.log_write_ns)
                .await;
        }
        let written = self.with_ftl(|ftl| ftl.write_log());
        self.after_log_write(written)
    }

    /// What a write of the log came to; the power may have gone with it.
    pub(super) fn after_log_write(&self, written: Result<(), MediaError>) -> StatusCode {
        if self.power.is_cut() {
            self.cpu.halt();
        }
        if written.is_ok() {
            StatusCode::Success
        } else {
            StatusCode::WriteFault
        }
    }

    /// Has the media survive a crash of the machine that they are on.
    pub fn sync_media(&self) -> StatusCode {
        match self.with_ftl(|ftl| ftl.sync_media()) {
            Ok(()) => StatusCode::Success,
            Err(_) => StatusCode::WriteFault,
        }
    }
}
