//! Which page leaves next.
//!
//! A policy knows frames by number, and of their pages only what it is told: that one came, that
//! one left, and, when it looks at a frame for a victim, whether that may go and was used. The mark
//! of a use is the cache's, in whatever word it has for a frame: so a hit sets a bit that is near,
//! and no policy hears of it at once.
//!
//! | policy | file | users |
//! |---|---|---|
//! | CLOCK: a hand goes round | [`clock`] | shards of `clock`, sets of `scala`, private caches of `tri` |
//! | second chance: a queue of those that may go | [`second_chance`] | managers of `tri` |
//! | two lists, as in Linux | [`two_lists`] | `kernel`, `falcon`; `scale`, if it is told so |
//!
//! [`Replacement`] is for who has its frames to itself: a shard or a list under its lock, a client.
//! What all CPUs use at once, without a lock, is another matter: see
//! [`scale::replacement`](crate::scale::replacement).

pub mod clock;
pub mod second_chance;
pub mod two_lists;

/// What is said of a frame that a policy looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// It goes.
    Goes,
    /// It was used since the last look, and its mark is off now.
    Used,
    /// It cannot go now, or has no page.
    Stays,
    /// As before, and the search is to end here.
    Ends,
}

/// What a search came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// The page of this frame goes. The policy does not know it any more; who gives the frame
    /// another page [inserts](Replacement::insert) it.
    Frame(u32),
    /// The search ended where it was told to.
    Ended,
    /// No frame can go now.
    None,
}

/// A policy. See the module.
pub trait Replacement {
    /// A policy for frames below `frames`, none of which has a page.
    fn of_frames(frames: u32) -> Self;

    /// A frame has got a page.
    fn insert(&mut self, frame: u32);

    /// A page is used, for a policy that cannot wait for its next look.
    fn touch(&mut self, _frame: u32) {}

    /// A page has left its frame, not as a victim.
    fn remove(&mut self, frame: u32);

    /// Looks for a page to give up. Also gives the number of steps.
    fn victim(&mut self, look: impl FnMut(u32) -> Look) -> (Victim, u32);
}
