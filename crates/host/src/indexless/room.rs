//! How much the cache may hold: what comes in reserves its room before it is written.

use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_runtime::sync::{AtomicU64, Ordering};
use wharf_runtime::waits::Waiters;
use wharf_runtime::wake::Mailboxes;

use super::places::Places;
use super::transfer::CHUNK_PAGES;

/// See the module.
pub(super) struct Room {
    /// Sectors that are cached at most.
    pub(super) limit: u64,
    /// Sectors that leave at a time.
    pub(super) round: u64,
    /// Sectors on their way into the cache.
    coming: AtomicU64,
    /// Sectors that may be cached in parts of which nothing is known.
    unlearned: AtomicU64,
    /// Who waits until there is room.
    pub(super) waiters: Waiters,
}

/// Room for sectors that are on their way into the cache. Dropping it gives the room back: by then the sectors are
/// counted as cached, or did not come.
pub(super) struct Reservation {
    room: Arc<Room>,
    cpu: Cpu,
    client: u32,
    sectors: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.sectors > 0 {
            self.room.coming.fetch_sub(self.sectors, Ordering::Relaxed);
            self.room.waiters.wake_all(&self.cpu, self.client);
        }
    }
}

impl Room {
    pub(super) fn new(limit: u64, round_share: f64, mailboxes: &Arc<Mailboxes>) -> Room {
        Room {
            limit,
            round: ((limit as f64 * round_share) as u64).max(1),
            coming: AtomicU64::new(0),
            unlearned: AtomicU64::new(0),
            waiters: Waiters::new(mailboxes.clone()),
        }
    }

    /// Reserves room for `sectors` more, for `client`, if there is any. A cache that holds nothing takes anything.
    pub(super) fn reserve(
        self: &Arc<Self>,
        cpu: &Cpu,
        client: u32,
        bitmap: &Places,
        sectors: u64,
    ) -> Option<Reservation> {
        // Relaxed: one of two who reserve at a time sees the other, as both add before they look.
        let coming = self.coming.fetch_add(sectors, Ordering::Relaxed);
        let held = bitmap.totals().cached + self.unlearned() + coming;
        if sectors > 0 && held > 0 && held + sectors > self.limit {
            self.coming.fetch_sub(sectors, Ordering::Relaxed);
            return None;
        }
        Some(Reservation {
            room: self.clone(),
            cpu: cpu.clone(),
            client,
            sectors,
        })
    }

    /// As [`Room::reserve`], where there is so much room that nothing has to leave for it.
    pub(super) fn reserve_spare(
        self: &Arc<Self>,
        cpu: &Cpu,
        client: u32,
        bitmap: &Places,
        sectors: u64,
    ) -> Option<Reservation> {
        let coming = self.coming.load(Ordering::Relaxed);
        let held = bitmap.totals().cached + self.unlearned() + coming;
        let is_spare = held + sectors + self.chunk().max(self.round / 2) <= self.limit;
        match is_spare {
            true => self.reserve(cpu, client, bitmap, sectors),
            false => None,
        }
    }

    /// Sectors that are written at a time at most.
    pub(super) fn chunk(&self) -> u64 {
        (self.limit / 4).clamp(1, CHUNK_PAGES as u64)
    }

    /// Whether sectors are to leave: a writer may need room for a chunk.
    pub(super) fn is_round_due(&self, bitmap: &Places) -> bool {
        let cached = bitmap.totals().cached;
        let held = cached + self.unlearned();
        cached > 0 && held + self.chunk().max(self.round / 2) > self.limit
    }

    /// Sectors that may be cached where that is not known.
    pub(super) fn unlearned(&self) -> u64 {
        self.unlearned.load(Ordering::Relaxed)
    }

    /// At most so many are there.
    pub(super) fn begin_learning(&self, sectors: u64) {
        self.unlearned.store(sectors, Ordering::Relaxed);
    }

    /// So many of them are known now.
    pub(super) fn learned(&self, sectors: u64) {
        let less = |held: u64| Some(held.saturating_sub(sectors));
        let _ = self
            .unlearned
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// All parts are known.
    pub(super) fn end_learning(&self) {
        self.unlearned.store(0, Ordering::Relaxed);
    }
}
