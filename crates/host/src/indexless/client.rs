//! One client: how its requests are checked, cut and admitted. `read.rs`, `write.rs`, `around.rs` and `discard.rs`
//! have the walk of each.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_runtime::range_lock::RangeGuard;
use wharf_runtime::sync::Ordering;
use wharf_runtime::wake::{Pause, Sleeper};

use super::bitmap::Stretch;
use super::gauges::{self, Touches};
use super::jobs::{Answer, Want};
use super::mode::{Mode, Reason};
use super::opening::OpenError;
use super::room::Reservation;
use super::shared::{Known, Numbers, Shared};
use super::transfer::Mover;
use super::word::Place;
use crate::design::{Client, Counters, Gauges, Statistics, Touch};
use crate::error::IoError;
use crate::span::{Extent, Span, spans};

/// Bytes of a page of the address space.
const PAGE_BYTES: u64 = 4096;

/// One client of a flash cache.
pub struct IndexlessClient(Rc<Inner>);

pub(super) struct Inner {
    pub(super) cpu: Cpu,
    pub(super) index: u32,
    pub(super) shared: Arc<Shared>,
    pub(super) known: Arc<Known>,
    pub(super) mover: Rc<Mover>,
    pub(super) numbers: Numbers,
    pub(super) counters: Counters,
    touches: Touches,
    reads: Cell<Stream>,
    writes: Cell<Stream>,
    /// Sectors that may be used; 0 until the cache is open.
    sectors: Cell<u64>,
}

/// Requests that follow each other in address.
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
            reads: Cell::default(),
            writes: Cell::default(),
            sectors: Cell::new(0),
        }))
    }

    /// Waits until the cache is open, and gives the number of sectors that it has. Requests wait, too; what they fail
    /// with says less.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub async fn opened(&self) -> Result<u64, OpenError> {
        let inner = &self.0;
        inner.shared.opening.wait(&inner.cpu, inner.index).await
    }

    /// Writes all that is dirty to the disk, and waits for that. What is written meanwhile is written to the disk, too, unless
    /// it comes faster than the disk takes it.
    ///
    /// # Errors
    /// If something cannot be written; it stays in the cache.
    pub async fn drain(&self) -> Result<(), IoError> {
        let inner = &self.0;
        inner.begin().await?;
        inner.ask(0, Want::Drain).wait(&inner.cpu).await.map(drop)
    }

    /// Notes what is to be known when the cache is opened again: how hot its sectors are, and how many there are. No client
    /// has a request under way, or makes one after that. A cache that is not closed loses that, and nothing else.
    ///
    /// # Errors
    /// If a device fails.
    pub async fn close(&self) -> Result<(), IoError> {
        let inner = &self.0;
        inner.begin().await?;
        inner.flush().await?;
        inner.ask(0, Want::Close).wait(&inner.cpu).await.map(drop)
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
        let inner = &*self.0;
        let own = (&inner.cpu, inner.index);
        gauges::of_client(own, &inner.shared, &inner.known, &inner.touches)
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

    /// Waits for the cache to be open, once.
    pub(super) async fn begin(&self) -> Result<(), IoError> {
        if self.sectors.get() == 0 {
            let sectors = self.shared.opening.wait(&self.cpu, self.index).await?;
            self.sectors.set(sectors);
        }
        Ok(())
    }

    /// The same, and refuses a request that does not fit the disk or its payload. (`design::check_request` does so for a
    /// volume; the disk may have fewer pages than the volume it is on, or be on none.)
    pub(super) async fn begin_request(
        &self,
        extent: Extent,
        payload_bytes: usize,
    ) -> Result<(), IoError> {
        self.begin().await?;
        let sectors = self.sectors.get();
        let end = extent.offset.checked_add(extent.bytes);
        if end.is_none_or(|end| end > sectors * PAGE_BYTES) {
            return Err(IoError::OutOfRange {
                first: extent.first_page(),
                pages: extent.bytes / PAGE_BYTES,
                volume_pages: sectors,
            });
        }
        let expected = extent.payload_bytes(self.shared.space.page_bytes());
        match expected == payload_bytes {
            true => Ok(()),
            false => Err(IoError::Payload {
                expected,
                found: payload_bytes,
            }),
        }
    }

    /// Cuts a request into chunks of pages.
    pub(super) fn chunks(&self, extent: Extent) -> Vec<Vec<Span>> {
        let all: Vec<Span> = spans(extent, self.shared.space.page_bytes()).collect();
        let pages_max = self
            .mover
            .pages_max()
            .min(self.shared.room.chunk() as usize);
        let chunks = all.chunks(pages_max);
        chunks.map(<[Span]>::to_vec).collect()
    }

    /// Whether what is read comes into the cache: not where much was read in order.
    pub(super) fn admits_read(&self, extent: Extent) -> Option<Reason> {
        self.is_sequence(&self.reads, extent)
    }

    /// Whether what is written comes into the cache: not where much was written in order, and only where that is what the
    /// cache is used for.
    pub(super) fn admits_write(&self, extent: Extent) -> Option<Reason> {
        let sequence = self.is_sequence(&self.writes, extent);
        match self.shared.mode.get() {
            Mode::WriteBack => sequence,
            _ => Some(Reason::Mode),
        }
    }

    fn is_sequence(&self, stream: &Cell<Stream>, extent: Extent) -> Option<Reason> {
        let (first, pages) = (extent.first_page(), extent.pages());
        let before = stream.get();
        let sectors = match before.end == first {
            true => before.sectors + pages,
            false => pages,
        };
        let end = first + pages;
        stream.set(Stream { end, sectors });
        let cutoff = self.shared.config.sequential_cutoff_bytes;
        (cutoff > 0 && sectors * PAGE_BYTES > cutoff).then_some(Reason::Sequential)
    }

    /// Leaves a job with the keeper.
    pub(super) fn ask(&self, first: u64, want: Want) -> Answer {
        self.shared.jobs.leave(&self.cpu, self.index, first, want)
    }

    /// Where sectors are; parts that are not known are learned first.
    pub(super) async fn look(
        &self,
        first: u64,
        count: u32,
        warms: bool,
    ) -> Result<Vec<Stretch>, IoError> {
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
                    self.ask(unknown.0, Want::Learn).wait(&self.cpu).await?;
                }
            }
        }
    }

    pub(super) async fn lock(&self, first: u64, count: u64, is_shared: bool) -> RangeGuard {
        let locker = self.numbers.locker(self.index, is_shared);
        let guard = self
            .shared
            .locks
            .lock_as(&self.cpu, locker, first, count)
            .await;
        self.counters.waits.add(guard.waits);
        guard
    }

    pub(super) fn wake_keeper_if_due(&self) {
        let bitmap = &self.known.bitmap;
        let must_drain = self.shared.mode.get() != Mode::WriteBack && bitmap.totals().dirty > 0;
        let is_tight = self.shared.note_space(&self.mover);
        if must_drain || is_tight || self.shared.room.is_round_due(bitmap) {
            self.shared.jobs.keeper.wake_all(&self.cpu, self.index);
        }
    }

    /// Waits until there is room for `sectors` more; `None` if there will be none, as nothing can leave.
    pub(super) async fn wait_for_room(&self, sectors: u64) -> Option<Reservation> {
        loop {
            let (shared, bitmap) = (&self.shared, &self.known.bitmap);
            let reserve = || shared.room.reserve(&self.cpu, self.index, bitmap, sectors);
            if let Some(reserved) = reserve() {
                return Some(reserved);
            }
            let sleeper = Sleeper {
                client: self.index,
                task: self.cpu.current(),
            };
            shared.room.waiters.join(&self.cpu, sleeper);
            shared.jobs.keeper.wake_all(&self.cpu, self.index);
            if let Some(reserved) = reserve() {
                return Some(reserved);
            }
            // Relaxed: the keeper wakes all after it has changed it.
            if shared.is_stuck.load(Ordering::Relaxed) {
                return None;
            }
            self.counters.waits.add(1);
            Pause::default().await;
        }
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.begin().await?;
        // R6. What is dirty is on the drive of the cache; what was evicted is durable on the disk already.
        let disk = match self.shared.unsettled.is_empty() {
            true => None,
            false => Some(self.ask(0, Want::Flush)),
        };
        let flushed = self.shared.trims.flush(&self.mover).await;
        self.wake_keeper_if_due();
        match disk {
            Some(disk) => flushed.and(disk.wait(&self.cpu).await.map(drop)),
            None => flushed,
        }
    }
}

/// Sectors among stretches that are in one place.
pub(super) fn sectors_in(found: &[Stretch], place: Place) -> u64 {
    let those = found.iter().filter(|stretch| stretch.place == place);
    those.map(|stretch| u64::from(stretch.count)).sum()
}
