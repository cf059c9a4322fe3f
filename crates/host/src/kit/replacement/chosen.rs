//! A policy that the configuration names.

use wharf_policy::{Kind, Look, Named, Policy, Victim};

use wharf_wire::dma::RegisterError;

use super::two_lists::TwoLists;
use crate::design::Replacement;
use crate::kit::per_frame::has_room;

/// See the module.
#[allow(clippy::large_enum_variant)] // there is one for each cache, or a few
pub enum Chosen {
    /// One of `wharf-policy`.
    Named(Named),
    /// As in Linux.
    TwoLists(TwoLists),
}

impl Chosen {
    /// The policy of this name, for so many frames.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(replacement: Replacement, frames: u32) -> Result<Chosen, RegisterError> {
        // A policy makes its lists as if there were memory: so it is asked for before.
        has_room(u64::from(frames) * replacement.bytes_per_page())?;
        let kind = match replacement {
            Replacement::Clock => Kind::Clock,
            Replacement::TwoLists => return Ok(Chosen::TwoLists(TwoLists::new(0..frames)?)),
            Replacement::Fifo => Kind::Fifo,
            Replacement::Lru => Kind::Lru,
            Replacement::TwoQ => Kind::TwoQ,
            Replacement::Arc => Kind::Arc,
            Replacement::Lirs => Kind::Lirs,
            Replacement::Sieve => Kind::Sieve,
            Replacement::S3Fifo => Kind::S3Fifo,
            Replacement::WTinyLfu => Kind::WTinyLfu,
        };
        let policy = Named::new(kind, frames).expect("a policy for caches");
        Ok(Chosen::Named(policy))
    }

    /// See [`Policy::hears_uses`].
    #[inline]
    pub fn hears_uses(&self) -> bool {
        match self {
            Chosen::Named(policy) => policy.hears_uses(),
            Chosen::TwoLists(lists) => lists.hears_uses(),
        }
    }

    /// See [`Policy::hit`].
    #[inline]
    pub fn hit(&mut self, frame: u32) {
        match self {
            Chosen::Named(policy) => policy.hit(frame),
            Chosen::TwoLists(lists) => lists.hit(frame),
        }
    }

    /// See [`Policy::evict`].
    #[inline]
    pub fn evict(&mut self, coming: Option<u64>, look: impl FnMut(u32) -> Look) -> Victim {
        match self {
            Chosen::Named(policy) => policy.evict(coming, look),
            Chosen::TwoLists(lists) => lists.evict(coming, look),
        }
    }

    /// See [`Policy::insert`].
    #[inline]
    pub fn insert(&mut self, frame: u32, key: u64) {
        match self {
            Chosen::Named(policy) => policy.insert(frame, key),
            Chosen::TwoLists(lists) => lists.insert(frame, key),
        }
    }

    /// See [`Policy::remove`].
    #[inline]
    pub fn remove(&mut self, frame: u32) {
        match self {
            Chosen::Named(policy) => policy.remove(frame),
            Chosen::TwoLists(lists) => Policy::remove(lists, frame),
        }
    }

    /// See [`Policy::bytes`].
    pub fn bytes(&self) -> usize {
        match self {
            Chosen::Named(policy) => policy.bytes(),
            Chosen::TwoLists(lists) => lists.bytes(),
        }
    }
}
