//! Which page leaves next: a policy, and what the cache tells it.
//!
//! As a [`Policy`](crate::kit::replacement::Policy), but for all CPUs at once. A hit sets a mark in
//! the frame's state ([`REFERENCED`](super::frame::REFERENCED), [`REUSED`](super::frame::REUSED)),
//! and takes no lock: a policy sees the marks when it comes by. Where it has to know in which order
//! pages were used, each CPU notes its uses, and tells the policy of many at a time ([`Heard`]).
//!
//! | policy | file |
//! |---|---|
//! | CLOCK: a hand goes round over the frames, without a lock | `clock.rs` |
//! | two lists, as in Linux: pages used once, and pages used again | `two_lists.rs` |
//! | all others, as they are in `wharf-policy`, behind a lock that misses take | `chosen.rs` |

pub(crate) mod chosen;
pub(crate) mod clock;
pub(crate) mod two_lists;

use smallvec::SmallVec;
use wharf_runtime::Cpu;

use crate::scale::frame::Frames;

/// Frames that a policy names at a time, at most.
const STRETCH: u32 = 32;

/// Frames in the order in which they should be tried.
pub type Candidates = SmallVec<[u32; STRETCH as usize]>;

/// How a policy hears of hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// By marks: the page was used, or used again.
    Marked,
    /// By the same marks, as a number: up to three uses.
    Counted,
    /// As `Marked`, and of each use after the first one, by [`SharedReplacement::used`].
    Told,
}

/// See the module. All of it may be called by any CPU at any time.
pub trait SharedReplacement: Send + Sync {
    /// How it hears of hits.
    fn hears(&self) -> Heard {
        Heard::Marked
    }

    /// The pages of these frames were used, in this order; a frame may have another page by now.
    fn used(&self, _cpu: &Cpu, _used: &[u32]) {}

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
