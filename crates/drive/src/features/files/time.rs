//! What time it is for files: the clock of the drive's cores, from where a host has set it.

use std::cell::Cell;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Clock {
    /// What is added to the clock of the cores, in nanoseconds since 1970.
    epoch_ns: Cell<u64>,
    is_set: Cell<bool>,
}

impl Clock {
    /// The time, when it is `clock_ns` by the drive's clock.
    pub(super) fn now_ns(&self, clock_ns: u64) -> u64 {
        self.epoch_ns.get().saturating_add(clock_ns)
    }

    /// From now on, when it is `clock_ns` by the drive's clock, it is `now_ns` for files.
    pub(super) fn set(&self, clock_ns: u64, now_ns: u64) {
        self.epoch_ns.set(now_ns.saturating_sub(clock_ns));
        self.is_set.set(true);
    }

    /// Whether that has been said.
    pub(super) fn is_set(&self) -> bool {
        self.is_set.get()
    }
}
