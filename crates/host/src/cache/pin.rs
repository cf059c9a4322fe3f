//! A frame that a request holds, and what it holds it for.

use std::ops::Range;

use crate::group::Group;
use crate::span::Span;

/// Most frames that a request holds at a time.
pub const PINS_MAX: usize = 256;

/// What a request does with a frame that it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Reads its page from the drive, then copies.
    Fill,
    /// Copies a page whole; the page before had to leave first.
    Overwrite,
    /// Writes its page, which a write has changed, to the drive.
    Through,
    /// Writes its page, which is dirty, to the drive.
    Clean,
}

/// A frame that a request holds.
#[derive(Debug, Clone, Copy)]
pub struct Pin {
    /// The frame's shard.
    pub shard: u32,
    /// The frame within the shard.
    pub frame: u32,
    /// The dirty page that leaves the frame, until it is on the drive.
    pub leaving: Option<u64>,
    /// The page and what the request wants of it.
    pub span: Span,
    /// What is to be done.
    pub action: Action,
    /// The last transfer of the frame failed.
    pub failed: bool,
}

/// A page of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    pub(super) page: u64,
    pub(super) pin: u32,
}

/// Vectors that requests use one after the other.
#[derive(Default)]
pub struct Scratch {
    pub(super) pins: Vec<Pin>,
    /// Spans whose frames were given up, to be done again.
    pub(super) redo: Vec<Span>,
    /// The transfer under way: its pages, the addresses of their frames, and its runs.
    pub(super) parts: Vec<Part>,
    pub(super) addresses: Vec<u64>,
    pub(super) runs: Vec<(Group, Range<usize>)>,
    /// Pins whose transfer failed, and which the drive is done with.
    pub(super) failed: Vec<Pin>,
}

impl Scratch {
    /// True if nothing is left of a request.
    #[inline]
    pub(super) fn is_at_rest(&self) -> bool {
        self.pins.is_empty()
            && self.redo.is_empty()
            && self.runs.is_empty()
            && self.failed.is_empty()
    }
}

impl Pin {
    pub(super) fn writes_own_page(&self) -> bool {
        matches!(self.action, Action::Through | Action::Clean)
    }

    /// True if the transfer that failed was one of a page whose write was acknowledged.
    pub(super) fn writes_back(&self) -> bool {
        self.leaving.is_some() || self.action == Action::Clean
    }
}
