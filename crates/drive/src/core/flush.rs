//! Durability: what a flush acknowledges has survived.

use wharf_wire::status::StatusCode;

use super::Core;
use crate::media::MediaError;

impl Core {
    /// Serves a flush.
    pub(super) async fn flush(&self) -> StatusCode {
        let status = self.write_all_back().await;
        if status == StatusCode::Success {
            self.with_ftl(|ftl| ftl.counters_mut().flushes += 1);
        }
        status
    }

    /// Waits until every write acknowledged so far is on flash, then logs deallocations.
    pub(super) async fn make_durable(&self) -> StatusCode {
        let seq = self.with_ftl(|ftl| ftl.seq());
        while !self.with_ftl(|ftl| ftl.is_settled(seq)) {
            self.programmed.wait(&self.cpu).await;
        }
        self.make_deallocations_durable().await
    }

    /// Logs the deallocations so far, to survive a crash of the host's machine too.
    pub(super) async fn make_deallocations_durable(&self) -> StatusCode {
        match self.write_log().await {
            StatusCode::Success => self.sync_media(),
            failure => failure,
        }
    }

    /// Logs the deallocations since the last time.
    pub(super) async fn write_log(&self) -> StatusCode {
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

    pub(super) fn sync_media(&self) -> StatusCode {
        match self.with_ftl(|ftl| ftl.sync_media()) {
            Ok(()) => StatusCode::Success,
            Err(_) => StatusCode::WriteFault,
        }
    }

    /// Deallocates everything, durably, and erases the flash if asked to. No I/O is under way.
    pub(super) async fn format(&self, erase: bool) -> StatusCode {
        let pages = self.with_ftl(|ftl| ftl.plan().logical_pages);
        if let Err(status) = self.deallocate_range(0, pages).await {
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

    /// Turning the cache off makes what it holds durable first.
    pub(super) async fn set_write_cache(&self, on: bool) -> StatusCode {
        self.volatile_write_cache.set(on);
        if on {
            StatusCode::Success
        } else {
            self.write_all_back().await
        }
    }
}
