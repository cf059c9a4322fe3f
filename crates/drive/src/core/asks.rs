//! What a core has asked others for (`peers.rs`).

use std::cell::{Cell, RefCell};

use wharf_runtime::{Notify, TaskId};
use wharf_wire::status::StatusCode;

/// Requests that a core may have under way.
const ASKS_MAX: u32 = 64;

/// Pages of one request at most.
pub const ASK_PAGES_MAX: u32 = 256;

/// Requests of all cores of a drive.
pub fn requests_max(cores: u32) -> u32 {
    cores * ASKS_MAX
}

/// Why a request failed, and at which page of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unserved {
    /// As a host would be told.
    pub status: StatusCode,
    /// The first page that failed.
    pub page: u64,
}

/// What has become of a request.
#[derive(Default)]
pub(super) struct Ask {
    /// Shares that have not been answered.
    pub(super) left: Cell<u32>,
    /// When the last one was, by the clocks of those who did.
    pub(super) at_ns: Cell<u64>,
    /// The failure of the first page that failed.
    pub(super) failed: Cell<Option<Unserved>>,
    /// Who waits.
    pub(super) task: Cell<Option<TaskId>>,
}

/// The requests of one core.
pub(super) struct Asks {
    /// The first slot of all cores' requests.
    base: u32,
    /// The first of this core's.
    first: u16,
    asks: Box<[Ask]>,
    /// Those that are free.
    pub(super) free: RefCell<Vec<u16>>,
    pub(super) freed: Notify,
}

impl Asks {
    /// Of core `index` of a drive with slots for `commands` commands.
    pub(super) fn new(commands: u32, index: u32) -> Asks {
        Asks {
            base: commands,
            first: (commands + index * ASKS_MAX) as u16,
            asks: (0..ASKS_MAX).map(|_| Ask::default()).collect(),
            free: RefCell::new((0..ASKS_MAX as u16).rev().collect()),
            freed: Notify::new(),
        }
    }

    /// A request of this core.
    #[inline]
    pub(super) fn ask(&self, index: u16) -> &Ask {
        &self.asks[index as usize]
    }

    /// Its slot.
    #[inline]
    pub(super) fn slot(&self, index: u16) -> u16 {
        self.first + index
    }

    /// The core that has a slot, and which of its requests it is.
    #[inline]
    pub(super) fn asker_of(&self, slot: u16) -> (u32, u16) {
        let nth = u32::from(slot) - self.base;
        (nth / ASKS_MAX, (nth % ASKS_MAX) as u16)
    }
}
