//! Writes around the cache, to the disk (R5 in `evict.rs`).
//!
//! The walk: the sectors are locked against everything, write-back too; clean copies of them are deallocated, and
//! the drive of the cache is flushed if anything was deallocated since it was last; the sectors are noted as
//! such that the disk may lose, and written to the disk. Those that were dirty stay so until then: the disk
//! is flushed, and only then their dirty copies are deallocated.

use std::rc::Rc;

use super::bitmap::Stretch;
use super::client::Inner;
use super::jobs::Want;
use super::mode::Reason;
use super::planted::Fault;
use super::word::{Place, Word};
use super::write::touch_of;
use crate::design::Touch;
use crate::error::IoError;
use crate::span::Span;

impl Inner {
    pub(super) async fn write_around(
        self: &Rc<Self>,
        chunk: &[Span],
        data: &[u8],
        reason: Reason,
    ) -> Result<Touch, IoError> {
        let (first, count) = (chunk[0].page, chunk.len());
        self.shared.reasons.count(reason, count as u64);
        let who = (self.index, &self.numbers);
        let shared = &self.shared;
        let around = shared
            .lock_around(&self.cpu, who, first, count as u64)
            .await;
        let found = self.look(first, count as u32, false).await?;
        let mut pages = self.mover.take(count).await;
        self.gather(&mut pages, chunk, data, &found).await?;
        let page_bytes = shared.space.page_bytes();
        let mut bytes = vec![0; count * page_bytes];
        for (at, to) in bytes.chunks_mut(page_bytes).enumerate() {
            pages.with(at, |page| to.copy_from_slice(page));
        }
        drop(pages);
        self.give_up_clean(first, count as u64, &found).await?;
        let is_dirty = |stretch: &&Stretch| stretch.place == Place::Dirty;
        let dirty: Vec<Stretch> = found.iter().filter(is_dirty).copied().collect();
        if shared.planted.is(Fault::AroundDirty) {
            self.give_up_dirty(first, count as u64, &dirty).await?;
        }
        let unsettled = &shared.unsettled;
        unsettled.begin_write(&self.cpu, first, count as u64);
        let written = self.ask(first, Want::Write(bytes)).wait(&self.cpu).await;
        shared.changes.note(first, count as u64);
        let is_long = unsettled.end_write(&self.cpu, first, count as u64);
        written?;
        let any_copies = !dirty.is_empty() || shared.trims.any_failed();
        if is_long || any_copies {
            self.ask(0, Want::Flush).wait(&self.cpu).await?;
        }
        if any_copies {
            self.give_up_dirty(first, count as u64, &dirty).await?;
        }
        drop(around);
        self.shared.room.waiters.wake_all(&self.cpu, self.index);
        self.wake_keeper_if_due();
        Ok(touch_of(&found, count))
    }

    /// Sectors that are locked have no clean copies any more, durably.
    ///
    /// # Errors
    /// If the drive of the cache fails: they are not cached then, and their copies may come back.
    pub(super) async fn give_up_clean(
        &self,
        first: u64,
        count: u64,
        found: &[Stretch],
    ) -> Result<(), IoError> {
        let plan = &self.known.plan;
        let (trims, planted) = (&self.shared.trims, &self.shared.planted);
        let is = |place| move |stretch: &&Stretch| stretch.place == place;
        let clean: Vec<Stretch> = found.iter().filter(is(Place::Clean)).copied().collect();
        self.forget(&clean);
        // Below dirty ones there may be some that nobody knows of.
        let is_whole = found.iter().any(|one| is(Place::Dirty)(&one)) || trims.any_failed();
        let ranges: Vec<(u64, u64)> = match is_whole {
            true => vec![(plan.clean(first), count)],
            false => (clean.iter())
                .map(|one| (plan.clean(one.first), u64::from(one.count)))
                .collect(),
        };
        trims.give_up(&self.mover, &ranges).await?;
        match planted.is(Fault::AroundClean) {
            true => Ok(()),
            false => trims.settle(&self.mover).await,
        }
    }

    /// Sectors that are locked, and that the disk has, have no dirty copies any more. Without one there is nothing to give
    /// up, unless giving up has failed before.
    pub(super) async fn give_up_dirty(
        &self,
        first: u64,
        count: u64,
        dirty: &[Stretch],
    ) -> Result<(), IoError> {
        self.forget(dirty);
        let (plan, trims) = (&self.known.plan, &self.shared.trims);
        let ranges: Vec<(u64, u64)> = match trims.any_failed() {
            true => vec![(plan.dirty(first), count)],
            false => (dirty.iter())
                .map(|one| (plan.dirty(one.first), u64::from(one.count)))
                .collect(),
        };
        trims.give_up(&self.mover, &ranges).await
    }

    /// Sectors that are locked are not cached any more.
    pub(super) fn forget(&self, stretches: &[Stretch]) {
        for stretch in stretches {
            let bitmap = &self.known.bitmap;
            let gone = |_| Word::ABSENT;
            let changed = bitmap.change(&self.cpu, stretch.first, stretch.count, gone);
            changed.expect("it was looked at");
            self.shared
                .forgotten(&self.cpu, stretch.first, stretch.count);
        }
    }
}
