//! Why a page cannot be written now, and how long a command waits for that.

use crate::ftl::Refusal;

/// The host is writing to a frame.
#[derive(Debug)]
pub struct Busy;

/// Why a page cannot be written now.
#[derive(Debug, Clone, Copy)]
pub enum Stuck {
    /// The host is writing to it.
    Busy,
    /// The write buffer or the flash has no room.
    Refused(Refusal),
}

/// How long a command has been kept waiting by pages that the host is writing. What it waits for besides does
/// not count: memory may be lent, and pages pinned and written, while it waits for room.
#[derive(Default)]
pub struct Patience {
    /// When it ends; `None` until a page is found to be busy.
    pub(super) ends_ns: Option<u64>,
}
