//! Faults that tests plant, to see that they are found: each breaks a rule of `evict.rs`.

use wharf_runtime::sync::{AtomicU32, Ordering};

/// Which rule is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Fault {
    /// None.
    Nothing,
    /// R1: a clean copy counts before a dirty one.
    CleanWins,
    /// R2: dirty copies are given up with clean ones below them.
    KeepsClean,
    /// R2: the same, where the clean ones are given up without a flush in between.
    NoFlushOfClean,
    /// R3: what is brought in is not locked.
    FillUnlocked,
    /// R3: what the disk has not durably is brought in.
    FillUnsettled,
    /// R3: neighbours are brought in whatever was written meanwhile.
    NeighboursOvertake,
    /// R4: dirty copies are given up before the disk has them durably.
    NoFlushOfDisk,
    /// R5: the disk is written around clean copies that may come back.
    AroundClean,
    /// R5: dirty copies are given up before the disk is written around them.
    AroundDirty,
}

/// The fault that is planted.
pub(super) struct Planted(AtomicU32);

impl Default for Planted {
    fn default() -> Planted {
        Planted(AtomicU32::new(0))
    }
}

impl Planted {
    pub(super) fn plant(&self, fault: Fault) {
        // Relaxed: it is set before anything runs.
        self.0.store(fault as u32, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is(&self, fault: Fault) -> bool {
        self.0.load(Ordering::Relaxed) == fault as u32
    }
}
