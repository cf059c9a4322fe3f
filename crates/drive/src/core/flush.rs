//! Durability: what a flush acknowledges has survived.

use wharf_wire::status::StatusCode;

use super::Core;

impl Core {
    /// Waits until every write acknowledged so far is on flash, then logs deallocations.
    pub(super) async fn flush(&self) -> StatusCode {
        self.settle().await;
        let status = self.write_log().await;
        if status != StatusCode::Success {
            return status;
        }
        self.with_ftl(|ftl| ftl.counters_mut().flushes += 1);
        self.sync_media()
    }

    async fn settle(&self) {
        let seq = self.with_ftl(|ftl| ftl.seq());
        while !self.with_ftl(|ftl| ftl.is_settled(seq)) {
            self.programmed.wait(&self.cpu).await;
        }
    }

    /// Logs the deallocations since the last time.
    pub(super) async fn write_log(&self) -> StatusCode {
        if !self.with_ftl(|ftl| ftl.log_is_due()) {
            return StatusCode::Success;
        }
        if self.log_write_ns > 0 {
            self.cpu
                .sleep_until(self.cpu.now() + self.log_write_ns)
                .await;
        }
        let written = self.with_ftl(|ftl| ftl.write_log());
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

    /// Deallocates everything, durably.
    pub(super) async fn format(&self) -> StatusCode {
        let pages = self.with_ftl(|ftl| ftl.plan().logical_pages);
        self.deallocate_range(0, pages).await;
        self.flush().await
    }

    /// Turning the cache off makes what it holds durable first.
    pub(super) async fn set_write_cache(&self, on: bool) -> StatusCode {
        self.volatile_write_cache.set(on);
        if on {
            StatusCode::Success
        } else {
            self.flush().await
        }
    }
}
