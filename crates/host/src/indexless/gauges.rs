//! What a flash cache reports of itself.
//!
//! The keeper alone knows what the store on the disk does; it leaves a copy of its counters where others may look.
//! What the bitmap takes is looked at by the first client when it ends, as that takes locks.

use std::sync::Mutex;

use wharf_runtime::Cpu;

use super::mode::Reason;
use super::shared::{Known, Shared};
use crate::design::{Amount, Counter, Gauges, Touch};

/// What the store on the disk did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StoreCounters {
    /// Pages that it was given to write.
    pub(super) written_pages: u64,
    /// Pages that it wrote for them: all of the units that they are in.
    pub(super) stored_pages: u64,
    /// Bytes that went to the disk, with headers and padding.
    pub(super) stored_bytes: u64,
    /// Of these, bytes that collection moved.
    pub(super) moved_bytes: u64,
    /// Pages that it was asked to read.
    pub(super) read_pages: u64,
    /// Chunks, or units, that it read for them.
    pub(super) read_chunks: u64,
    /// Bytes of memory that the mapping takes.
    pub(super) mapping_bytes: u64,
}

impl StoreCounters {
    fn since(&self, before: &StoreCounters) -> StoreCounters {
        StoreCounters {
            written_pages: self.written_pages - before.written_pages,
            stored_pages: self.stored_pages - before.stored_pages,
            stored_bytes: self.stored_bytes - before.stored_bytes,
            moved_bytes: self.moved_bytes - before.moved_bytes,
            read_pages: self.read_pages - before.read_pages,
            read_chunks: self.read_chunks - before.read_chunks,
            mapping_bytes: self.mapping_bytes,
        }
    }
}

/// Counters of the store, for others to look at: when a run began, and now.
#[derive(Default)]
pub(super) struct Published(Mutex<(StoreCounters, StoreCounters)>);

impl Published {
    fn with<R>(&self, f: impl FnOnce(&mut (StoreCounters, StoreCounters)) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(|p| p.into_inner()))
    }

    /// What was done until now is not of the run.
    pub(super) fn begin(&self, now: StoreCounters) {
        self.with(|counters| *counters = (now, now));
    }

    /// What was done until now.
    pub(super) fn publish(&self, now: StoreCounters) {
        self.with(|counters| counters.1 = now);
    }

    /// What was done since the run began.
    pub(super) fn of_run(&self) -> StoreCounters {
        self.with(|(before, now)| now.since(before))
    }
}

/// Pages that a client touched, reads apart from writes.
#[derive(Default)]
pub(super) struct Touches {
    read_pages: Counter,
    read_hits: Counter,
    write_pages: Counter,
    write_hits: Counter,
}

impl Touches {
    /// Counts a request that was served.
    pub(super) fn add(&self, touch: &Touch, writes: bool) {
        let (pages, hits) = match writes {
            true => (&self.write_pages, &self.write_hits),
            false => (&self.read_pages, &self.read_hits),
        };
        pages.add(touch.pages);
        hits.add(touch.hits);
    }

    fn gauges(&self) -> Gauges {
        Gauges::none()
            .with("read_pages", Amount::Count(self.read_pages.get()))
            .with("read_page_hits", Amount::Count(self.read_hits.get()))
            .with("write_pages", Amount::Count(self.write_pages.get()))
            .with("write_page_hits", Amount::Count(self.write_hits.get()))
    }
}

/// Of the cache as a whole, looked at from outside.
pub(super) fn of_cache(shared: &Shared, known: Option<&Known>) -> Gauges {
    let totals = known.map(|known| known.bitmap.totals()).unwrap_or_default();
    let store = shared.published.of_run();
    let reason = |reason| Amount::Count(shared.reasons.get(reason));
    Gauges::none()
        .with("cached_sectors", Amount::Count(totals.cached))
        .with("dirty_sectors", Amount::Count(totals.dirty))
        .with("disk_pages_given", Amount::Count(store.written_pages))
        .with("disk_pages_stored", Amount::Count(store.stored_pages))
        .with("disk_bytes_stored", Amount::Bytes(store.stored_bytes))
        .with("disk_bytes_moved", Amount::Bytes(store.moved_bytes))
        .with("disk_pages_asked", Amount::Count(store.read_pages))
        .with("disk_chunks_read", Amount::Count(store.read_chunks))
        .with("mapping_bytes", Amount::Bytes(store.mapping_bytes))
        .with("around_sequential", reason(Reason::Sequential))
        .with("around_mode", reason(Reason::Mode))
        .with("around_level", reason(Reason::Level))
        .with("around_full", reason(Reason::Full))
        .with("around_unsettled", reason(Reason::Unsettled))
        .with("around_failed", reason(Reason::Failed))
}

/// Of client `index`, when it has ended; the first one speaks of the memory that all share.
pub(super) fn of_client(
    (cpu, index): (&Cpu, u32),
    shared: &Shared,
    known: &Known,
    touches: &Touches,
) -> Gauges {
    let own = touches.gauges();
    if index > 0 {
        return own;
    }
    let bitmap = known.bitmap.memory_bytes(cpu) as u64;
    let policy = shared.policy.with(cpu, |policy| policy.memory_bytes()) as u64;
    own.with("bitmap_bytes", Amount::Bytes(bitmap))
        .with("policy_bytes", Amount::Bytes(policy))
}
