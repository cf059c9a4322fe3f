//! Durability: what a flush acknowledges has survived.

use wharf_wire::status::StatusCode;

use super::state::Core;
use crate::media::MediaError;

/// How often a sync is looked at whether it has ended: every so often at first, less often when it
/// takes long.
const LOOKS_NS: (u64, u64) = (10_000, 500_000);

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
            StatusCode::Success => self.sync_media().await,
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

    /// Has what is on the media now survive a crash of the machine that they are on. Others go on
    /// meanwhile.
    pub async fn sync_media(&self) -> StatusCode {
        if self.cpu.is_virtual() {
            return self.sync_media_now();
        }
        let syncs = &self.syncs;
        // One that begins from now on: those under way may not cover all.
        let own = syncs.begun.get() + 1;
        while syncs.ended.get() < own {
            match syncs.begun.get() == syncs.ended.get() {
                true => self.sync_beside().await,
                false => syncs.ends.wait(&self.cpu).await,
            }
        }
        match syncs.failed.get() < own {
            true => StatusCode::Success,
            false => StatusCode::WriteFault,
        }
    }

    /// Makes the next sync.
    async fn sync_beside(&self) {
        let syncs = &self.syncs;
        let number = syncs.begun.get() + 1;
        syncs.begun.set(number);
        let synced = match self.with_ftl(|ftl| ftl.begin_sync()) {
            Ok(None) => Ok(()),
            Err(failed) => Err(failed),
            Ok(Some(syncing)) => {
                let mut look_ns = LOOKS_NS.0;
                while !syncing.is_done() {
                    self.cpu.sleep_until(self.cpu.now() + look_ns).await;
                    look_ns = (look_ns * 5 / 4).min(LOOKS_NS.1);
                }
                self.with_ftl(|ftl| ftl.end_sync(&syncing))
            }
        };
        if synced.is_err() {
            syncs.failed.set(number);
        }
        syncs.ended.set(number);
        syncs.ends.notify_all(&self.cpu);
    }

    /// As [`Core::sync_media`], before anything else goes on.
    pub fn sync_media_now(&self) -> StatusCode {
        match self.with_ftl(|ftl| ftl.sync_media()) {
            Ok(()) => StatusCode::Success,
            Err(_) => StatusCode::WriteFault,
        }
    }
}
