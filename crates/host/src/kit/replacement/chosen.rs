//! A policy that the configuration names.

use wharf_policy::{AnyPolicy, Kind};
use wharf_wire::dma::RegisterError;

use super::two_lists::TwoLists;
use crate::design::Replacement;
use crate::kit::per_frame::has_room;

/// The policy of this name, for so many frames.
///
/// # Errors
/// If there is no memory.
pub fn chosen(replacement: Replacement, frames: u32) -> Result<Box<dyn AnyPolicy>, RegisterError> {
    // A policy makes its lists as if there were memory: so it is asked for before.
    has_room(u64::from(frames) * replacement.bytes_per_page())?;
    let kind = match replacement {
        Replacement::Clock => Kind::Clock,
        Replacement::TwoLists => return Ok(Box::new(TwoLists::new(0..frames)?)),
        Replacement::Fifo => Kind::Fifo,
        Replacement::Lru => Kind::Lru,
        Replacement::TwoQ => Kind::TwoQ,
        Replacement::Arc => Kind::Arc,
        Replacement::Lirs => Kind::Lirs,
        Replacement::Sieve => Kind::Sieve,
        Replacement::S3Fifo => Kind::S3Fifo,
        Replacement::WTinyLfu => Kind::WTinyLfu,
    };
    Ok(kind.policy(frames).expect("a policy for caches"))
}
