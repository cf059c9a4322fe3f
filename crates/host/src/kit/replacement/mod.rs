//! Which page leaves next.
//!
//! Policies are those of `wharf-policy`, which know frames by number, and ask the cache of the frames that they look at. The mark of a use is the
//! cache's, in whatever word it has for a frame: so a hit sets a bit that is near, and no policy hears of it at once, unless it has to.
//!
//! | policy | where | users |
//! |---|---|---|
//! | by name | [`chosen()`] | shards of `clock`; `scale` and what is made of it, behind [`scale::replacement`](crate::scale::replacement) |
//! | CLOCK | `wharf-policy` | sets of `scala`, private caches of `tri`: as their papers have it |
//! | second chance: a queue of those that may go | [`second_chance`] | managers of `tri` |
//! | two lists, as in Linux | [`two_lists`] | `kernel`, `falcon`; others, if they are told so |

pub mod chosen;
pub mod second_chance;
pub mod two_lists;

pub use chosen::chosen;
pub use wharf_policy::{AnyPolicy, Clock, Look, Policy, Victim};
