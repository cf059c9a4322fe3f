//! Reads through the cache.
//!
//! The walk: the bitmap says where the sectors are (`bitmap.rs`). If all are cached they
//! are read from their places, under a shared lock that keeps them from leaving. Else they are locked
//! alone, the keeper reads the missing ones from the disk (`keeper.rs`), and they are written to
//! their own addresses on the drive of the cache while the request has its answer already.
//!
//! What the drive of the cache does not give back is read from the disk, if it is clean, and is not cached any more.

use std::rc::Rc;

use wharf_runtime::range_lock::RangeGuard;

use super::bitmap::Stretch;
use super::client::{Inner, sectors_in};
use super::jobs::{Answer, Want};
use super::mode::{Mode, Reason};
use super::neighbours::Near;
use super::planted::Fault;
use super::room::Reservation;
use super::transfer::Pages;
use super::word::{Place, Word};
use crate::design::Touch;
use crate::error::{DiskFault, IoError};
use crate::span::{Extent, Span};
use crate::volume::Transfer;

impl Inner {
    pub(super) async fn read(
        self: &Rc<Self>,
        extent: Extent,
        out: &mut [u8],
    ) -> Result<Touch, IoError> {
        self.begin_request(extent, out.len()).await?;
        let refusal = self.admits_read(extent);
        let mut touch = Touch::default();
        for chunk in self.chunks(extent) {
            touch += self.read_chunk(&chunk, out, refusal).await?;
        }
        Ok(touch)
    }

    async fn read_chunk(
        self: &Rc<Self>,
        chunk: &[Span],
        out: &mut [u8],
        refusal: Option<Reason>,
    ) -> Result<Touch, IoError> {
        let (first, count) = (chunk[0].page, chunk.len());
        let shared = self.lock(first, count as u64, true).await;
        let found = self.look_to_read(first, count as u32, true).await?;
        if sectors_in(&found, Place::Disk) == 0 {
            let mut pages = self.mover.take(count).await;
            pages.keep(shared);
            self.begin_reads(&pages, first, &found).await;
            if pages.end().await.is_ok() {
                self.deliver(&mut pages, chunk, out);
                self.shared.touched(&self.cpu, first, count as u32);
                if self.shared.mode.get() != Mode::WriteBack {
                    self.wake_keeper_if_due();
                }
                return Ok(Touch::all_hits(count as u64));
            }
        } else {
            drop(shared);
        }
        let alone = self.lock(first, count as u64, false).await;
        let found = self.look_to_read(first, count as u32, false).await?;
        let mut pages = self.mover.take(count).await;
        self.begin_reads(&pages, first, &found).await;
        let near = self.begin_neighbours(refusal);
        let missing = match self.read_missing(&mut pages, first, &found, &near).await {
            Ok(missing) => missing,
            Err(_) if sectors_in(&found, Place::Disk) < count as u64 => {
                drop(pages);
                pages = self.read_apart(chunk, &found).await?;
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        self.deliver(&mut pages, chunk, out);
        let missed = sectors_in(&missing, Place::Disk);
        self.begin_fill(pages, alone, first, missing, refusal);
        self.fill_neighbours(near);
        Ok(Touch {
            pages: count as u64,
            hits: count as u64 - missed,
            read_ahead_hits: 0,
        })
    }

    /// Where sectors are read from: where the cache is not used, clean ones from the disk, too.
    async fn look_to_read(
        &self,
        first: u64,
        count: u32,
        warms: bool,
    ) -> Result<Vec<Stretch>, IoError> {
        let mut found = self.look(first, count, warms).await?;
        if self.shared.mode.get() == Mode::Bypass {
            let clean = found.iter_mut().filter(|one| one.place == Place::Clean);
            clean.for_each(|stretch| stretch.place = Place::Disk);
        }
        Ok(found)
    }

    /// Begins to read what is cached of a chunk.
    pub(super) async fn begin_reads(&self, pages: &Pages, first: u64, found: &[Stretch]) {
        for stretch in found {
            let at = (stretch.first - first) as usize;
            let which = at..at + stretch.count as usize;
            let lies = match stretch.place {
                Place::Disk => continue,
                Place::Clean => self.known.plan.clean(stretch.first),
                Place::Dirty => self.known.plan.dirty(stretch.first),
            };
            pages.begin(Transfer::Read, lies, which).await;
        }
    }

    /// Has the missing sectors read from the disk while the others are on their way, and waits for all.
    pub(super) async fn read_missing(
        &self,
        pages: &mut Pages,
        first: u64,
        found: &[Stretch],
        near: &Near,
    ) -> Result<Vec<Stretch>, IoError> {
        let is_missing = |stretch: &&Stretch| stretch.place == Place::Disk;
        let missing: Vec<Stretch> = found.iter().filter(is_missing).copied().collect();
        let leave = |stretch: &Stretch| {
            let seen = self.see(near, stretch);
            (self.ask_to_read(stretch, near.most), seen)
        };
        let answers: Vec<_> = missing.iter().map(leave).collect();
        // All of them, also after an error: nothing is left behind.
        let mut outcome = pages.end().await;
        for (stretch, (answer, seen)) in missing.iter().zip(answers) {
            match answer.wait(&self.cpu).await {
                Ok(given) => {
                    let wanted = self.part_neighbours(near, stretch, seen, &given);
                    self.put(pages, (stretch.first - first) as usize, wanted);
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome.map(|()| missing)
    }

    /// Has sectors read from the disk, and so many neighbours at most.
    fn ask_to_read(&self, stretch: &Stretch, neighbours: u32) -> Answer {
        let pages = stretch.count;
        self.ask(stretch.first, Want::Read { pages, neighbours })
    }

    /// Puts data into pages from page `at` on.
    pub(super) fn put(&self, pages: &mut Pages, at: usize, data: &[u8]) {
        let page_bytes = self.shared.space.page_bytes();
        for (page, bytes) in (at..).zip(data.chunks(page_bytes)) {
            pages.with(page, |to| to.copy_from_slice(bytes));
        }
    }

    /// Reads a chunk of which the drive of the cache did not give everything back: sector by sector, clean ones from
    /// the disk. They are locked alone.
    async fn read_apart(
        self: &Rc<Self>,
        chunk: &[Span],
        found: &[Stretch],
    ) -> Result<Pages, IoError> {
        let first = chunk[0].page;
        let mut all = self.mover.take(chunk.len()).await;
        for stretch in found {
            if stretch.place == Place::Dirty {
                self.read_dirty(&mut all, first, stretch).await?;
                continue;
            }
            let given = self.ask_to_read(stretch, 0).wait(&self.cpu).await?;
            self.put(&mut all, (stretch.first - first) as usize, &given.data);
            if stretch.place == Place::Clean {
                let sectors = u64::from(stretch.count);
                self.shared.reasons.count(Reason::Failed, sectors);
                self.forget_clean(stretch).await;
            }
        }
        Ok(all)
    }

    /// Reads dirty sectors one by one, so that an error names the one that is lost.
    async fn read_dirty(
        self: &Rc<Self>,
        all: &mut Pages,
        first: u64,
        stretch: &Stretch,
    ) -> Result<(), IoError> {
        for sector in stretch.first..stretch.first + u64::from(stretch.count) {
            let mut page = self.mover.take(1).await;
            let lies = self.known.plan.dirty(sector);
            page.begin(Transfer::Read, lies, 0..1).await;
            match page.end().await {
                Ok(()) => {
                    let mut data = vec![0; self.shared.space.page_bytes()];
                    page.with(0, |from| data.copy_from_slice(from));
                    self.put(all, (sector - first) as usize, &data);
                }
                Err(error) if error.is_timeout() => return Err(error),
                Err(_) => return Err(DiskFault::Lost { page: sector }.into()),
            }
        }
        Ok(())
    }

    /// Clean sectors, which are locked alone, are not cached any more.
    pub(super) async fn forget_clean(&self, stretch: &Stretch) {
        let changed = self
            .known
            .bitmap
            .change(&self.cpu, stretch.first, stretch.count, |_| Word::ABSENT);
        changed.expect("it was looked at");
        self.shared
            .forgotten(&self.cpu, stretch.first, stretch.count);
        let lies = self.known.plan.clean(stretch.first);
        let range = (lies, stretch.count.into());
        // If that fails, nobody relies on it.
        let _ = self.shared.trims.give_up(&self.mover, &[range]).await;
    }

    /// Copies a chunk to whoever asked for it.
    fn deliver(&self, pages: &mut Pages, chunk: &[Span], out: &mut [u8]) {
        for (at, span) in chunk.iter().enumerate() {
            let to = &mut out[span.in_payload()];
            pages.with(at, |page| to.copy_from_slice(&page[span.in_page()]));
        }
    }

    /// Brings what was missing into the cache, beside what else there is to do, if it is to come in. `alone` has kept others
    /// away from before it was read (R3).
    fn begin_fill(
        self: &Rc<Self>,
        mut pages: Pages,
        alone: RangeGuard,
        first: u64,
        missing: Vec<Stretch>,
        refusal: Option<Reason>,
    ) {
        let sectors = sectors_in(&missing, Place::Disk);
        if sectors == 0 {
            return;
        }
        let planted = &self.shared.planted;
        let is_unsettled = |one: &Stretch| {
            let unsettled = &self.shared.unsettled;
            unsettled.overlaps(&self.cpu, one.first, one.count.into())
                && !planted.is(Fault::FillUnsettled)
        };
        let (client, bitmap) = (self.index, &self.known.bitmap);
        let refusal = refusal.or_else(|| self.shared.refusal(&self.mover));
        let refusal = refusal.or(match missing.iter().any(is_unsettled) {
            true => Some(Reason::Unsettled),
            false => None,
        });
        let reserved = match refusal {
            Some(reason) => Err(reason),
            None => {
                let reserved = self.shared.room.reserve(&self.cpu, client, bitmap, sectors);
                reserved.ok_or(Reason::Full)
            }
        };
        self.wake_keeper_if_due();
        match reserved {
            Err(reason) => self.shared.reasons.count(reason, sectors),
            Ok(reserved) => {
                if !planted.is(Fault::FillUnlocked) {
                    pages.keep(alone);
                }
                let inner = self.clone();
                self.cpu.spawn("fill", async move {
                    let heat = inner.shared.config.insert_heat;
                    inner.fill(pages, first, missing, (reserved, heat)).await;
                });
            }
        }
    }

    /// Writes what was missing to the drive of the cache. If that fails, nothing of it stays there.
    pub(super) async fn fill(
        &self,
        pages: Pages,
        first: u64,
        missing: Vec<Stretch>,
        (reserved, heat): (Reservation, u8),
    ) {
        for stretch in &missing {
            let at = (stretch.first - first) as usize;
            let which = at..at + stretch.count as usize;
            let lies = self.known.plan.clean(stretch.first);
            pages.begin(Transfer::Write, lies, which).await;
        }
        let filled = pages.end().await.is_ok();
        for stretch in &missing {
            if filled {
                let come = |_| Word::clean(heat);
                let bitmap = &self.known.bitmap;
                let changed = bitmap.change(&self.cpu, stretch.first, stretch.count, come);
                changed.expect("it was looked at");
                self.shared.touched(&self.cpu, stretch.first, stretch.count);
            } else {
                let sectors = u64::from(stretch.count);
                self.shared.reasons.count(Reason::Failed, sectors);
                self.forget_clean(stretch).await;
            }
        }
        drop(reserved);
        drop(pages);
        self.wake_keeper_if_due();
    }
}
