//! What the cache is used for, and why it was not.

use wharf_runtime::sync::{AtomicU8, AtomicU64, Ordering};

/// What is done with writes, and with what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Mode {
    /// Writes go to the cache, and to the disk later. What is read stays in the cache.
    #[default]
    WriteBack,
    /// Writes go to the disk before they are acknowledged; nothing in the cache is dirty. What is read stays in
    /// the cache.
    WriteThrough,
    /// Reads and writes go to the disk.
    Bypass,
}

/// The mode, which may be changed at any time.
pub(super) struct ModeSwitch(AtomicU8);

impl ModeSwitch {
    pub(super) fn new(mode: Mode) -> ModeSwitch {
        ModeSwitch(AtomicU8::new(mode as u8))
    }

    pub(super) fn set(&self, mode: Mode) {
        // Relaxed: requests that are under way may end in the mode before.
        self.0.store(mode as u8, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn get(&self) -> Mode {
        match self.0.load(Ordering::Relaxed) {
            0 => Mode::WriteBack,
            1 => Mode::WriteThrough,
            _ => Mode::Bypass,
        }
    }
}

/// Why sectors did not come into the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// They were part of a long sequence.
    Sequential,
    /// The mode says so.
    Mode,
    /// The drive of the cache has little room, or none.
    Level,
    /// The cache holds as many sectors as it may.
    Full,
    /// The disk does not have them durably yet.
    Unsettled,
    /// The drive of the cache failed.
    Failed,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 6] = [
        Reason::Sequential,
        Reason::Mode,
        Reason::Level,
        Reason::Full,
        Reason::Unsettled,
        Reason::Failed,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Sequential => "sequential",
            Reason::Mode => "mode",
            Reason::Level => "level",
            Reason::Full => "full",
            Reason::Unsettled => "unsettled",
            Reason::Failed => "failed",
        }
    }
}

/// Sectors that did not come into the cache, or went around it, by the reason.
#[derive(Default)]
pub(super) struct Reasons([AtomicU64; Reason::ALL.len()]);

impl Reasons {
    pub(super) fn count(&self, reason: Reason, sectors: u64) {
        // Relaxed: these are counts.
        self.0[reason as usize].fetch_add(sectors, Ordering::Relaxed);
    }

    pub(super) fn get(&self, reason: Reason) -> u64 {
        self.0[reason as usize].load(Ordering::Relaxed)
    }
}

/// A cache at a time, as [`Indexless::status`](super::Indexless::status) gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// What it is used for.
    pub mode: Mode,
    /// Sectors that it holds, as far as that is known.
    pub cached: u64,
    /// Of these, sectors that the disk has not.
    pub dirty: u64,
    /// Sectors that it may hold beside these, where that is not known yet.
    pub unlearned_max: u64,
    /// Sectors that it holds at most.
    pub limit: u64,
    /// How long ago nothing was dirty, in nanoseconds: no dirty sector is older. 0 if nothing is.
    pub dirty_age_max_ns: u64,
    /// Bytes of memory that the bitmap takes, or the index in its place.
    pub bitmap_bytes: u64,
    /// Bytes of memory that the policy takes.
    pub policy_bytes: u64,
    /// Sectors that did not come into the cache, or went around it, since it was opened, by the reason.
    pub reasons: Vec<(Reason, u64)>,
    /// Nothing leaves the cache, as the disk fails or is full.
    pub is_stuck: bool,
}
