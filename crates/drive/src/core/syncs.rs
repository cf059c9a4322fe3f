//! Which syncs of a core's media have begun, ended and failed (`durable.rs` makes them).

use std::cell::Cell;

use wharf_runtime::Notify;

/// Syncs of the media, by their numbers: one after the other.
pub(super) struct Syncs {
    pub(super) begun: Cell<u64>,
    pub(super) ended: Cell<u64>,
    /// The latest that failed.
    pub(super) failed: Cell<u64>,
    pub(super) ends: Notify,
}

impl Syncs {
    pub(super) fn new() -> Syncs {
        Syncs {
            begun: Cell::new(0),
            ended: Cell::new(0),
            failed: Cell::new(0),
            ends: Notify::new(),
        }
    }
}
