//! What the store on the disk did, for others than the keeper.
//!
//! The keeper alone knows it; it leaves a copy of its counters where others may look.

use std::sync::Mutex;

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
