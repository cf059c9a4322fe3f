//! What the controller keeps of the events that it tells of.

use std::collections::VecDeque;

use wharf_wire::command::Command;
use wharf_wire::space::{SpaceLevel, SpaceThresholds};

/// What is kept of events.
#[derive(Default)]
pub(super) struct Events {
    /// Requests that wait for one.
    pub(super) requests: VecDeque<Command>,
    pub(super) thresholds: SpaceThresholds,
    /// The level that the host was told last.
    pub(super) told: Option<SpaceLevel>,
    /// The host has not read the log page since it was told.
    pub(super) is_masked: bool,
}

impl Events {
    /// True if a request of this identifier waits.
    pub fn holds(&self, cid: u16) -> bool {
        self.requests.iter().any(|request| request.cid == cid)
    }
}
