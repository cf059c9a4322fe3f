//! What a flash cache reports of itself.
//!
//! The keeper alone knows what the store on the disk does; it leaves a copy of its counters where others may look.
//! What the bitmap takes is looked at by the first client when it ends, as that takes locks.

use wharf_runtime::Cpu;

use super::mode::Reason;
use super::places::Places;
use super::shared::{Known, Shared};
use crate::design::{Amount, Counter, Gauges, Touch};

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
        .with_level("cached_sectors", Amount::Count(totals.cached))
        .with_level("dirty_sectors", Amount::Count(totals.dirty))
        .with("disk_pages_given", Amount::Count(store.written_pages))
        .with("disk_pages_stored", Amount::Count(store.stored_pages))
        .with("disk_bytes_stored", Amount::Bytes(store.stored_bytes))
        .with("disk_bytes_moved", Amount::Bytes(store.moved_bytes))
        .with("disk_pages_asked", Amount::Count(store.read_pages))
        .with("disk_chunks_read", Amount::Count(store.read_chunks))
        .with_level("mapping_bytes", Amount::Bytes(store.mapping_bytes))
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
    let places = known.bitmap.memory_bytes(cpu) as u64;
    let policy = shared.order.memory_bytes(cpu) as u64;
    let name = match known.bitmap {
        Places::Bitmap(_) => "bitmap_bytes",
        Places::Index(_) => "index_bytes",
    };
    own.with_level(name, Amount::Bytes(places))
        .with_level("policy_bytes", Amount::Bytes(policy))
}
