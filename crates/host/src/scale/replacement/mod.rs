//! Which page leaves next: a policy, and what the cache tells it.
//!
//! As a [`Replacement`](crate::kit::replacement::Replacement), but for all CPUs at once, which
//! share no lock. A hit sets a mark in the frame's state ([`REFERENCED`](super::frame::REFERENCED),
//! [`REUSED`](super::frame::REUSED)), and no more: no policy hears of it at once, so that hits
//! write nothing that CPUs share. A policy sees the marks when it comes by.
//!
//! | policy | file |
//! |---|---|
//! | CLOCK: a hand goes round over the frames | `clock.rs` |
//! | two lists, as in Linux: pages used once, and pages used again | `lru.rs` |

pub(crate) mod clock;
pub(crate) mod lru;

use smallvec::SmallVec;
use wharf_runtime::Cpu;

use crate::scale::frame::Frames;

/// Frames that a policy names at a time, at most.
const STRETCH: u32 = 32;

/// Frames in the order in which they should be tried.
pub type Candidates = SmallVec<[u32; STRETCH as usize]>;

/// See the module. All of it may be called by any CPU at any time.
pub trait SharedReplacement: Send + Sync {
    /// A frame has got a page.
    fn insert(&self, cpu: &Cpu, frames: &Frames, frame: u32);

    /// A page has left its frame, for whatever reason.
    fn remove(&self, cpu: &Cpu, frames: &Frames, frame: u32);

    /// Puts the frames to try next into `out`, which is empty, in order, and of a memory node where
    /// each has its own; gives how many it looked at, more than none if there are pages. Whoever
    /// calls again gets others. A page that was used is left out now and then: its marks are taken
    /// off, and so it has another chance.
    fn victims(&self, cpu: &Cpu, node: usize, frames: &Frames, out: &mut Candidates) -> u32;

    /// Takes back those of the candidates that have not left.
    fn keep(&self, _cpu: &Cpu, _frames: &Frames, _stayed: Candidates) {}

    /// Checks the policy when nobody uses the cache, which has so many pages.
    ///
    /// # Panics
    /// If something is in disorder.
    fn verify(&self, cpu: &Cpu, frames: &Frames, pages: u64);
}
