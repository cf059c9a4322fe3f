//! How much the cache may hold: what comes in reserves its room before it is written.

use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_runtime::sync::{AtomicU64, Ordering};

use super::bitmap::Bitmap;
use super::shared::Shared;

/// Sectors that may be cached in parts of which nothing is known.
#[derive(Default)]
pub(super) struct Unlearned(AtomicU64);

impl Unlearned {
    /// At most so many are there.
    pub(super) fn begin(&self, sectors: u64) {
        self.0.store(sectors, Ordering::Relaxed);
    }

    /// So many of them are known now.
    pub(super) fn found(&self, sectors: u64) {
        let less = |held: u64| Some(held.saturating_sub(sectors));
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// All parts are known.
    pub(super) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    pub(super) fn sectors(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Room for sectors that are on their way into the cache. Dropping it gives the room back: by then the sectors are
/// counted as cached, or did not come.
pub(super) struct Reservation {
    shared: Arc<Shared>,
    cpu: Cpu,
    client: u32,
    sectors: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.sectors > 0 {
            self.shared
                .coming
                .fetch_sub(self.sectors, Ordering::Relaxed);
            self.shared.room.wake_all(&self.cpu, self.client);
        }
    }
}

impl Shared {
    /// Reserves room for `sectors` more, for `client`, if there is any. A cache that holds nothing takes anything.
    pub(super) fn reserve(
        self: &Arc<Self>,
        cpu: &Cpu,
        client: u32,
        bitmap: &Bitmap,
        sectors: u64,
    ) -> Option<Reservation> {
        // Relaxed: one of two who reserve at a time sees the other, as both add before they look.
        let coming = self.coming.fetch_add(sectors, Ordering::Relaxed);
        let held = bitmap.totals().cached + self.unlearned.sectors() + coming;
        if held > 0 && held + sectors > self.limit {
            self.coming.fetch_sub(sectors, Ordering::Relaxed);
            return None;
        }
        Some(Reservation {
            shared: self.clone(),
            cpu: cpu.clone(),
            client,
            sectors,
        })
    }

    /// Sectors that leave at a time.
    pub(super) fn round(&self) -> u64 {
        ((self.limit as f64 * self.config.round_share) as u64).max(1)
    }

    /// Sectors that are written at a time at most.
    pub(super) fn chunk(&self) -> u64 {
        (self.limit / 4).clamp(1, super::transfer::CHUNK_PAGES as u64)
    }

    /// Whether sectors are to leave: a writer may need room for a chunk.
    pub(super) fn is_round_due(&self, bitmap: &Bitmap) -> bool {
        let cached = bitmap.totals().cached;
        let held = cached + self.unlearned.sectors();
        cached > 0 && held + self.chunk().max(self.round() / 2) > self.limit
    }
}
