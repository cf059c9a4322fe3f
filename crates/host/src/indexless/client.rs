//! One client: reads and writes through the cache.
//!
//! The walk of a read: the bitmap says where the sectors are (`bitmap.rs`). If all are cached they
//! are read from their places, under a shared lock that keeps them from leaving. Else they are locked
//! alone, the keeper reads the missing ones from the disk (`keeper.rs`), and they are written to
//! their own addresses on the drive of the cache while the request has its answer already.
//!
//! The walk of a write: the sectors are locked, those that it covers in part are read, all are
//! written to their addresses for dirty ones, and the bitmap says so. What lay at their own
//! addresses is noted, to be deallocated (rule R2 in `evict.rs`).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_runtime::wake::{Pause, Sleeper};

use super::bitmap::Stretch;
use super::gauges::{self, Touches};
use super::jobs::Want;
use super::policy::Victim;
use super::shared::{Known, Numbers, Shared};
use super::transfer::{Mover, Pages};
use super::word::{Place, Word};
use crate::design::{Client, Counters, Gauges, Statistics, Touch};
use crate::error::IoError;
use crate::span::{Extent, Span, spans};
use crate::volume::Transfer;

/// Bytes of a page of the address space.
const PAGE_BYTES: u64 = 4096;

/// Sectors that a discard takes at a time.
const DISCARD_SECTORS: u64 = 8192;

/// One client of a flash cache.
pub struct IndexlessClient(Rc<Inner>);

struct Inner {
    cpu: Cpu,
    index: u32,
    shared: Arc<Shared>,
    known: Arc<Known>,
    mover: Rc<Mover>,
    numbers: Numbers,
    counters: Counters,
    touches: Touches,
    stream: Cell<Stream>,
}

/// Reads that follow each other in address.
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    end: u64,
    sectors: u64,
}

impl IndexlessClient {
    pub(super) fn new(
        index: u32,
        shared: Arc<Shared>,
        known: Arc<Known>,
        mover: Rc<Mover>,
    ) -> IndexlessClient {
        let cpu = mover.cpu.clone();
        shared.mailboxes.serve(&cpu, index);
        IndexlessClient(Rc::new(Inner {
            cpu,
            index,
            shared,
            known,
            mover,
            numbers: Numbers::default(),
            counters: Counters::default(),
            touches: Touches::default(),
            stream: Cell::default(),
        }))
    }
}

impl Client for IndexlessClient {
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        let inner = &self.0;
        inner.counters.reads.add(1);
        let outcome = inner.read(extent, out).await;
        inner.end(outcome, false)
    }

    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        let inner = &self.0;
        inner.counters.writes.add(1);
        let outcome = inner.write(extent, data).await;
        inner.end(outcome, true)
    }

    async fn flush(&self) -> Result<(), IoError> {
        let inner = &self.0;
        inner.counters.flushes.add(1);
        let outcome = inner.flush().await;
        inner.counters.end(outcome, |()| Touch::default())
    }

    async fn discard(&self, extent: Extent) -> Result<(), IoError> {
        let inner = &self.0;
        inner.counters.discards.add(1);
        let outcome = inner.discard(extent).await;
        inner.counters.end(outcome, |()| Touch::default())
    }

    fn statistics(&self) -> Statistics {
        self.0.counters.statistics(&self.0.mover.cache)
    }

    fn gauges(&self) -> Gauges {
        let Inner {
            cpu,
            index,
            shared,
            known,
            touches,
            ..
        } = &*self.0;
        gauges::of_client((cpu, *index), shared, known, touches)
    }
}

impl Inner {
    /// Accounts the end of a read or a write.
    fn end(&self, outcome: Result<Touch, IoError>, writes: bool) -> Result<Touch, IoError> {
        if let Ok(touch) = &outcome {
            self.touches.add(touch, writes);
        }
        self.counters.end(outcome, |touch| *touch)
    }

    /// Cuts a request into chunks of pages.
    fn check(&self, extent: Extent, payload_bytes: usize) -> Result<(), IoError> {
        let page_bytes = self.shared.space.page_bytes();
        let sectors = self.known.plan.sectors;
        let end = extent.offset.checked_add(extent.bytes);
        if end.is_none_or(|end| end > sectors * PAGE_BYTES) {
            return Err(IoError::OutOfRange {
                first: extent.first_page(),
                pages: extent.pages(),
                volume_pages: sectors,
            });
        }
        let expected = extent.payload_bytes(page_bytes);
        match expected == payload_bytes {
            true => Ok(()),
            false => Err(IoError::Payload {
                expected,
                found: payload_bytes,
            }),
        }
    }

    fn chunks(&self, extent: Extent) -> Vec<Vec<Span>> {
        let all: Vec<Span> = spans(extent, self.shared.space.page_bytes()).collect();
        let pages_max = self.mover.pages_max().min(self.shared.chunk() as usize);
        let chunks = all.chunks(pages_max);
        chunks.map(<[Span]>::to_vec).collect()
    }

    async fn read(self: &Rc<Self>, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        self.check(extent, out.len())?;
        let stays = self.is_admitted(extent);
        let mut touch = Touch::default();
        for chunk in self.chunks(extent) {
            touch += self.read_chunk(&chunk, out, stays).await?;
        }
        Ok(touch)
    }

    async fn write(self: &Rc<Self>, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        self.check(extent, data.len())?;
        let mut touch = Touch::default();
        for chunk in self.chunks(extent) {
            touch += self.write_chunk(&chunk, data).await?;
        }
        Ok(touch)
    }

    /// Whether what is read is brought into the cache: not where much was read in order.
    fn is_admitted(&self, extent: Extent) -> bool {
        let (first, pages) = (extent.first_page(), extent.pages());
        let before = self.stream.get();
        let sectors = match before.end == first {
            true => before.sectors + pages,
            false => pages,
        };
        let end = first + pages;
        self.stream.set(Stream { end, sectors });
        let cutoff = self.shared.config.sequential_cutoff_bytes;
        cutoff == 0 || sectors * PAGE_BYTES <= cutoff
    }

    /// Where sectors are; parts that are not known are learned first.
    async fn look(&self, first: u64, count: u32, warms: bool) -> Result<Vec<Stretch>, IoError> {
        let bitmap = &self.known.bitmap;
        loop {
            let mut found = Vec::new();
            let looked = match warms {
                true => bitmap.access(&self.cpu, first, count, &mut found),
                false => bitmap.look(&self.cpu, first, count, &mut found),
            };
            match looked {
                Ok(()) => return Ok(found),
                Err(unknown) => {
                    let jobs = &self.shared.jobs;
                    let answer = jobs.leave(&self.cpu, self.index, unknown.0, Want::Learn);
                    answer.wait(&self.cpu).await?;
                }
            }
        }
    }

    async fn lock(
        &self,
        first: u64,
        count: u64,
        is_shared: bool,
    ) -> wharf_runtime::range_lock::RangeGuard {
        let locker = self.numbers.locker(self.index, is_shared);
        let guard = self
            .shared
            .locks
            .lock_as(&self.cpu, locker, first, count)
            .await;
        self.counters.waits.add(guard.waits);
        guard
    }

    async fn read_chunk(
        self: &Rc<Self>,
        chunk: &[Span],
        out: &mut [u8],
        stays: bool,
    ) -> Result<Touch, IoError> {
        let (first, count) = (chunk[0].page, chunk.len());
        let shared = self.lock(first, count as u64, true).await;
        let found = self.look(first, count as u32, true).await?;
        let is_hit = found.iter().all(|stretch| stretch.place != Place::Disk);
        if is_hit {
            let mut pages = self.mover.take(count).await;
            pages.keep(shared);
            self.begin_reads(&pages, first, &found).await;
            pages.end().await?;
            self.deliver(&mut pages, chunk, out);
            self.shared.touched(&self.cpu, first, count as u32);
            return Ok(Touch::all_hits(count as u64));
        }
        drop(shared);
        let alone = self.lock(first, count as u64, false).await;
        let found = self.look(first, count as u32, false).await?;
        let mut pages = self.mover.take(count).await;
        pages.keep(alone);
        self.begin_reads(&pages, first, &found).await;
        let missing = self.read_missing(&mut pages, first, &found).await?;
        self.deliver(&mut pages, chunk, out);
        let missed: u64 = missing.iter().map(|stretch| u64::from(stretch.count)).sum();
        if stays && missed > 0 {
            let inner = self.clone();
            self.cpu.spawn("fill", async move {
                inner.fill(pages, first, missing).await;
            });
        }
        Ok(Touch {
            pages: count as u64,
            hits: count as u64 - missed,
            read_ahead_hits: 0,
        })
    }

    /// Begins to read what is cached of a chunk.
    async fn begin_reads(&self, pages: &Pages, first: u64, found: &[Stretch]) {
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
    async fn read_missing(
        &self,
        pages: &mut Pages,
        first: u64,
        found: &[Stretch],
    ) -> Result<Vec<Stretch>, IoError> {
        let is_missing = |stretch: &&Stretch| stretch.place == Place::Disk;
        let missing: Vec<Stretch> = found.iter().filter(is_missing).copied().collect();
        let leave = |stretch: &Stretch| {
            let want = Want::Read(stretch.count);
            let jobs = &self.shared.jobs;
            jobs.leave(&self.cpu, self.index, stretch.first, want)
        };
        let answers: Vec<_> = missing.iter().map(leave).collect();
        // All of them, also after an error: nothing is left behind.
        let mut outcome = pages.end().await;
        for (stretch, answer) in missing.iter().zip(answers) {
            let data = answer.wait(&self.cpu).await;
            let page_bytes = self.shared.space.page_bytes();
            match data {
                Ok(data) => {
                    let at = (stretch.first - first) as usize;
                    for (page, bytes) in (at..).zip(data.chunks(page_bytes)) {
                        pages.with(page, |to| to.copy_from_slice(bytes));
                    }
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome.map(|()| missing)
    }

    /// Copies a chunk to whoever asked for it.
    fn deliver(&self, pages: &mut Pages, chunk: &[Span], out: &mut [u8]) {
        for (at, span) in chunk.iter().enumerate() {
            let to = &mut out[span.in_payload()];
            pages.with(at, |page| to.copy_from_slice(&page[span.in_page()]));
        }
    }

    /// Writes what was missing to the drive of the cache. If that fails, nothing of it stays there.
    async fn fill(&self, pages: Pages, first: u64, missing: Vec<Stretch>) {
        let sectors: u64 = missing.iter().map(|stretch| u64::from(stretch.count)).sum();
        let bitmap = &self.known.bitmap;
        if bitmap.totals().cached + sectors > self.shared.limit {
            self.wake_keeper_if_due();
            return;
        }
        for stretch in &missing {
            let at = (stretch.first - first) as usize;
            let which = at..at + stretch.count as usize;
            let lies = self.known.plan.clean(stretch.first);
            pages.begin(Transfer::Write, lies, which).await;
        }
        let filled = pages.end().await.is_ok();
        let heat = self.shared.config.insert_heat;
        for stretch in &missing {
            if filled {
                let come = |_| Word::clean(heat);
                let changed = bitmap.change(&self.cpu, stretch.first, stretch.count, come);
                changed.expect("it was looked at");
                self.shared.touched(&self.cpu, stretch.first, stretch.count);
            } else {
                let lies = self.known.plan.clean(stretch.first);
                let cache = &self.mover.cache;
                // A drive that fails here too has no copy that anybody takes for one, until it is opened again.
                let _ = cache
                    .deallocate(&self.cpu, lies, stretch.count.into())
                    .await;
            }
        }
        drop(pages);
        self.wake_keeper_if_due();
    }

    fn wake_keeper_if_due(&self) {
        if self.shared.is_round_due(&self.known.bitmap) {
            self.shared.jobs.keeper.wake_all(&self.cpu, self.index);
        }
    }

    /// Waits until there is room for more sectors.
    async fn wait_for_room(&self, sectors: u64) {
        let bitmap = &self.known.bitmap;
        let is_full = || {
            let cached = bitmap.totals().cached;
            cached > 0 && cached + sectors > self.shared.limit
        };
        while is_full() {
            let sleeper = Sleeper {
                client: self.index,
                task: self.cpu.current(),
            };
            self.shared.room.join(&self.cpu, sleeper);
            self.shared.jobs.keeper.wake_all(&self.cpu, self.index);
            if !is_full() {
                break;
            }
            self.counters.waits.add(1);
            Pause::default().await;
        }
    }

    async fn write_chunk(self: &Rc<Self>, chunk: &[Span], data: &[u8]) -> Result<Touch, IoError> {
        let (first, count) = (chunk[0].page, chunk.len());
        // Without a lock: the keeper takes locks to make room.
        self.wait_for_room(count as u64).await;
        let alone = self.lock(first, count as u64, false).await;
        let found = self.look(first, count as u32, false).await?;
        let mut pages = self.mover.take(count).await;
        pages.keep(alone);
        self.read_edges(&mut pages, chunk, &found).await?;
        for (at, span) in chunk.iter().enumerate() {
            let from = &data[span.in_payload()];
            pages.with(at, |page| page[span.in_page()].copy_from_slice(from));
        }
        let lies = self.known.plan.dirty(first);
        pages.begin(Transfer::Write, lies, 0..count).await;
        if let Err(error) = pages.end().await {
            self.forget_written(&found).await;
            return Err(error);
        }
        self.note_written(first, count as u32, &found);
        drop(pages);
        self.wake_keeper_if_due();
        let missed = found.iter().filter(|stretch| stretch.place == Place::Disk);
        let missed: u64 = missed.map(|stretch| u64::from(stretch.count)).sum();
        Ok(Touch {
            pages: count as u64,
            hits: count as u64 - missed,
            read_ahead_hits: 0,
        })
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
            self.read_missing(pages, first, &[stretch]).await?;
        }
        Ok(())
    }

    /// The sectors are in the cache and dirty now. Clean copies of them are stale.
    fn note_written(&self, first: u64, count: u32, found: &[Stretch]) {
        let clean = found.iter().filter(|stretch| stretch.place == Place::Clean);
        let stale: Vec<Victim> = clean.map(|stretch| Victim::from(*stretch)).collect();
        if !stale.is_empty() {
            self.shared.stale.with(&self.cpu, |list| list.extend(stale));
        }
        let written = |word| self.shared.written(word);
        let changed = self.known.bitmap.change(&self.cpu, first, count, written);
        changed.expect("it was looked at");
        self.shared.touched(&self.cpu, first, count);
    }

    /// After a write that failed: no dirty copy stays of what had none.
    async fn forget_written(&self, found: &[Stretch]) {
        for stretch in found.iter().filter(|stretch| stretch.place != Place::Dirty) {
            let lies = self.known.plan.dirty(stretch.first);
            let cache = &self.mover.cache;
            let _ = cache
                .deallocate(&self.cpu, lies, stretch.count.into())
                .await;
        }
    }

    async fn flush(&self) -> Result<(), IoError> {
        // What is dirty is on the drive of the cache; what is not dirty is durable on the disk already.
        self.mover.cache.flush(&self.cpu).await
    }

    async fn discard(&self, extent: Extent) -> Result<(), IoError> {
        self.check(
            Extent::new(extent.offset, extent.bytes),
            extent.payload_bytes(self.shared.space.page_bytes()),
        )?;
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
        let who = (self.index, &self.numbers);
        let around = self.shared.lock_around(&self.cpu, who, first, count).await;
        let found = self.look(first, count as u32, false).await?;
        let cached = found.iter().filter(|stretch| stretch.place != Place::Disk);
        for stretch in cached {
            let cache = &self.mover.cache;
            let sectors = u64::from(stretch.count);
            let clean = self.known.plan.clean(stretch.first);
            cache.deallocate(&self.cpu, clean, sectors).await?;
            if stretch.place == Place::Dirty {
                let dirty = self.known.plan.dirty(stretch.first);
                cache.deallocate(&self.cpu, dirty, sectors).await?;
            }
            let gone = |_| Word::ABSENT;
            let changed = self
                .known
                .bitmap
                .change(&self.cpu, stretch.first, stretch.count, gone);
            changed.expect("it was looked at");
            self.shared
                .forgotten(&self.cpu, stretch.first, stretch.count);
        }
        let want = Want::Discard(count);
        let answer = self.shared.jobs.leave(&self.cpu, self.index, first, want);
        let outcome = answer.wait(&self.cpu).await.map(drop);
        drop(around);
        self.shared.room.wake_all(&self.cpu, self.index);
        outcome
    }
}
