//! The drive's power, and the moment it goes: for tests of what survives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Never: the power stays on.
const FOREVER: u64 = u64::MAX;

/// A switch that lets a set number of media changes through and then cuts the power.
///
/// Every program, erase, and log write asks first. After the cut none takes effect. Clones are the
/// same switch.
#[derive(Debug, Clone)]
pub struct PowerSwitch {
    changes_left: Arc<AtomicU64>,
    changes: Arc<AtomicU64>,
}

impl Default for PowerSwitch {
    fn default() -> Self {
        Self::on()
    }
}

impl PowerSwitch {
    /// Power that stays on.
    pub fn on() -> PowerSwitch {
        Self::cut_after(FOREVER)
    }

    /// Power that goes after `changes` changes of the media.
    pub fn cut_after(changes: u64) -> PowerSwitch {
        PowerSwitch {
            changes_left: Arc::new(AtomicU64::new(changes)),
            changes: Arc::new(AtomicU64::new(0)),
        }
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        self.changes_left.store(0, Ordering::Relaxed);
    }

    /// True once the power is gone.
    pub fn is_cut(&self) -> bool {
        self.changes_left.load(Ordering::Relaxed) == 0
    }

    /// Media changes that took effect so far.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Asks to change the media; false if the power is gone.
    #[inline]
    pub(crate) fn allows_change(&self) -> bool {
        // Cores of one drive may share the switch across threads only when it stays on: the counts
        // are exact in virtual time, where cuts happen.
        let left = self.changes_left.load(Ordering::Relaxed);
        if left == FOREVER {
            return true;
        }
        if left == 0 {
            return false;
        }
        self.changes_left.store(left - 1, Ordering::Relaxed);
        self.changes
            .store(self.changes.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        true
    }
}
