//! Discards: the sectors leave the cache, and the disk forgets them.
//!
//! The walk is that of a write around the cache (R5 in `evict.rs`), by zeros: long ones are cut; the sectors are locked
//! against everything; clean copies are given up durably; the disk forgets the sectors; if some were dirty the disk is
//! flushed, and their copies are given up. Else a cut amid it would bring back what is older than the last flush.

use super::bitmap::Stretch;
use super::client::Inner;
use super::jobs::Want;
use super::word::Place;
use crate::error::IoError;
use crate::span::Extent;

/// Sectors that a discard takes at a time.
const DISCARD_SECTORS: u64 = 8192;

impl Inner {
    pub(super) async fn discard(&self, extent: Extent) -> Result<(), IoError> {
        let bytes = extent.payload_bytes(self.shared.space.page_bytes());
        self.begin_request(extent, bytes).await?;
        let whole = extent.whole_pages();
        let (mut at, end) = (whole.first_page(), whole.first_page() + whole.pages());
        while at < end {
            let until = end.min((at / DISCARD_SECTORS + 1) * DISCARD_SECTORS);
            self.discard_sectors(at, until - at).await?;
            at = until;
        }
        Ok(())
    }

    async fn discard_sectors(&self, first: u64, count: u64) -> Result<(), IoError> {
        let (shared, who) = (&self.shared, (self.index, &self.numbers));
        let around = shared.lock_around(&self.cpu, who, first, count).await;
        let found = self.look(first, count as u32, false).await?;
        if found.iter().any(|stretch| stretch.place != Place::Disk) {
            self.give_up_clean(first, count, &found).await?;
        }
        let is_dirty = |stretch: &&Stretch| stretch.place == Place::Dirty;
        let dirty: Vec<_> = found.iter().filter(is_dirty).copied().collect();
        let unsettled = &shared.unsettled;
        unsettled.begin_write(&self.cpu, first, count);
        let discarded = self.ask(first, Want::Discard(count)).wait(&self.cpu).await;
        shared.changes.note(first, count);
        unsettled.end_write(&self.cpu, first, count);
        discarded?;
        if !dirty.is_empty() {
            self.ask(0, Want::Flush).wait(&self.cpu).await?;
            self.give_up_dirty(first, count, &dirty).await?;
        }
        drop(around);
        shared.room.waiters.wake_all(&self.cpu, self.index);
        Ok(())
    }
}
