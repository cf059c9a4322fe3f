//! What collection has under way.

use std::cell::Cell;

use wharf_runtime::TaskId;

/// What a collector has under way.
#[derive(Default)]
pub struct Collector {
    pub(super) task: Cell<Option<TaskId>>,
    /// Its latest batch is being read.
    pub(super) is_reading: Cell<bool>,
    /// Its pages whose programs have not ended.
    pub(super) outstanding: Cell<u32>,
    /// It waits until its batch is read and no more pages than this are outstanding.
    pub(super) waits_for: Cell<Option<u32>>,
}

impl Collector {
    pub(super) fn has_come_to(&self, outstanding: u32) -> bool {
        !self.is_reading.get() && self.outstanding.get() <= outstanding
    }
}

/// How many victims are being collected, and up to when that time has been counted.
#[derive(Default)]
pub struct Collecting {
    pub(super) victims: Cell<u32>,
    pub(super) counted_ns: Cell<u64>,
}

impl Collecting {
    /// True if pages are moved.
    pub(super) fn goes_on(&self) -> bool {
        self.victims.get() > 0
    }
}

/// A victim whose pages are on their way to flash elsewhere.
pub struct Moved {
    pub(super) victim: u32,
    /// One of its pages could not be read.
    pub(super) spoiled: bool,
}
