//! Writes into the cache.
//!
//! The walk: there is room, or it is waited for; the sectors are locked, those that the write covers in part are read, all
//! are written to their addresses for dirty ones, and the bitmap says so. What lay at their own addresses is stale then,
//! and noted. What does not come into the cache goes around it (`around.rs`).

use std::rc::Rc;

use wharf_runtime::sync::Ordering;
use wharf_wire::status::StatusCode;

use super::bitmap::Stretch;
use super::client::{Inner, sectors_in};
use super::mode::Reason;
use super::neighbours::Near;
use super::transfer::Pages;
use super::word::Place;
use crate::design::Touch;
use crate::error::{DiskFault, IoError};
use crate::span::{Extent, Span};
use crate::volume::Transfer;

impl Inner {
    pub(super) async fn write(
        self: &Rc<Self>,
        extent: Extent,
        data: &[u8],
    ) -> Result<Touch, IoError> {
        self.begin_request(extent, data.len()).await?;
        let refusal = self.admits_write(extent);
        let mut touch = Touch::default();
        for chunk in self.chunks(extent) {
            touch += self.write_chunk(&chunk, data, refusal).await?;
        }
        Ok(touch)
    }

    async fn write_chunk(
        self: &Rc<Self>,
        chunk: &[Span],
        data: &[u8],
        refusal: Option<Reason>,
    ) -> Result<Touch, IoError> {
        let (first, count) = (chunk[0].page, chunk.len());
        // Without a lock: the keeper takes locks to make room.
        let found = self.look(first, count as u32, false).await?;
        let refusal = match refusal {
            // What is dirty is cheaper to write where it is.
            Some(Reason::Sequential) if sectors_in(&found, Place::Dirty) > 0 => None,
            refusal => refusal,
        };
        let refusal = refusal.or_else(|| self.shared.refusal(&self.mover));
        if let Some(reason) = refusal {
            return self.write_around(chunk, data, reason).await;
        }
        let Some(reserved) = self.wait_for_room(sectors_in(&found, Place::Disk)).await else {
            return self.write_around(chunk, data, Reason::Full).await;
        };
        let written = self.write_into(chunk, data).await;
        drop(reserved);
        self.wake_keeper_if_due();
        match written {
            Err(error) if is_out_of_space(&error) => {
                self.write_around(chunk, data, Reason::Level).await
            }
            written => written,
        }
    }

    async fn write_into(self: &Rc<Self>, chunk: &[Span], data: &[u8]) -> Result<Touch, IoError> {
        let (first, count) = (chunk[0].page, chunk.len());
        let alone = self.lock(first, count as u64, false).await;
        let found = self.look(first, count as u32, false).await?;
        // Relaxed: see `Keeper::note_level`.
        let is_disk_full = self.shared.is_disk_full.load(Ordering::Relaxed);
        if is_disk_full && sectors_in(&found, Place::Dirty) < count as u64 {
            return Err(DiskFault::Full.into());
        }
        let mut pages = self.mover.take(count).await;
        self.gather(&mut pages, chunk, data, &found).await?;
        pages.keep(alone);
        let lies = self.known.plan.dirty(first);
        pages.begin(Transfer::Write, lies, 0..count).await;
        if let Err(error) = pages.end().await {
            self.forget_written(&found).await;
            return Err(error);
        }
        self.note_written(first, count as u32, &found);
        drop(pages);
        Ok(touch_of(&found, count))
    }

    /// Puts what is to be written into pages, whole ones.
    pub(super) async fn gather(
        &self,
        pages: &mut Pages,
        chunk: &[Span],
        data: &[u8],
        found: &[Stretch],
    ) -> Result<(), IoError> {
        self.read_edges(pages, chunk, found).await?;
        for (at, span) in chunk.iter().enumerate() {
            let from = &data[span.in_payload()];
            pages.with(at, |page| page[span.in_page()].copy_from_slice(from));
        }
        Ok(())
    }

    /// Reads the pages that a write covers in part.
    async fn read_edges(
        &self,
        pages: &mut Pages,
        chunk: &[Span],
        found: &[Stretch],
    ) -> Result<(), IoError> {
        let place = |page: u64| {
            let has = |stretch: &&Stretch| page < stretch.first + u64::from(stretch.count);
            found.iter().find(has).expect("all were looked at").place
        };
        for (at, span) in chunk.iter().enumerate().filter(|(_, span)| !span.whole) {
            let stretch = Stretch {
                first: span.page,
                count: 1,
                place: place(span.page),
            };
            let first = span.page - at as u64;
            self.begin_reads(pages, first, &[stretch]).await;
            self.read_missing(pages, first, &[stretch], &Near::default())
                .await?;
        }
        Ok(())
    }

    /// The sectors are in the cache and dirty now. Clean copies of them are stale.
    fn note_written(&self, first: u64, count: u32, found: &[Stretch]) {
        let clean = found.iter().filter(|stretch| stretch.place == Place::Clean);
        clean.for_each(|stretch| self.shared.note_stale(&self.cpu, *stretch));
        let bitmap = &self.known.bitmap;
        let written = |word| self.shared.written(word);
        let changed = bitmap.change(&self.cpu, first, count, written);
        changed.expect("it was looked at");
        self.shared.touched(&self.cpu, first, count);
        self.shared.note_dirty(self.cpu.now(), bitmap);
    }

    /// After a write that failed: no dirty copy stays of what had none.
    async fn forget_written(&self, found: &[Stretch]) {
        let had_none = found.iter().filter(|stretch| stretch.place != Place::Dirty);
        let range = |stretch: &Stretch| {
            let lies = self.known.plan.dirty(stretch.first);
            (lies, u64::from(stretch.count))
        };
        let ranges: Vec<_> = had_none.map(range).collect();
        // If that fails, nobody relies on it.
        let _ = self.shared.trims.give_up(&self.mover, &ranges).await;
    }
}

/// How a request of `count` pages that were found so was served.
pub(super) fn touch_of(found: &[Stretch], count: usize) -> Touch {
    Touch {
        pages: count as u64,
        hits: count as u64 - sectors_in(found, Place::Disk),
        read_ahead_hits: 0,
    }
}

/// Whether a drive has no room for what was to be written.
fn is_out_of_space(error: &IoError) -> bool {
    let IoError::Status { status, .. } = error else {
        return false;
    };
    status.code() == Some(StatusCode::CapacityExceeded)
}
