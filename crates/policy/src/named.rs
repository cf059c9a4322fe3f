//! A policy that is chosen by its name while a program runs.

use crate::{
    Arc, Clock, Fifo, Kind, Lirs, Look, Lru, Policy, S3Fifo, Sieve, TinyLfu, TwoQ, Victim,
};

/// Any of the policies.
#[derive(Debug)]
#[allow(missing_docs)] // they are what they are called
pub enum Named {
    Fifo(Fifo),
    Lru(Lru),
    Clock(Clock),
    Sieve(Sieve),
    S3Fifo(S3Fifo),
    TwoQ(TwoQ),
    Arc(Arc),
    Lirs(Lirs),
    TinyLfu(TinyLfu),
}

impl Named {
    /// The policy of this name, for so many frames; none for [`Kind::Belady`], which has to know the future.
    pub fn new(kind: Kind, frames: u32) -> Option<Named> {
        Some(match kind {
            Kind::Fifo => Named::Fifo(Policy::new(frames)),
            Kind::Lru => Named::Lru(Policy::new(frames)),
            Kind::Clock => Named::Clock(Policy::new(frames)),
            Kind::Sieve => Named::Sieve(Policy::new(frames)),
            Kind::S3Fifo => Named::S3Fifo(Policy::new(frames)),
            Kind::TwoQ => Named::TwoQ(Policy::new(frames)),
            Kind::Arc => Named::Arc(Policy::new(frames)),
            Kind::Lirs => Named::Lirs(Policy::new(frames)),
            Kind::WTinyLfu => Named::TinyLfu(Policy::new(frames)),
            Kind::Belady => return None,
        })
    }
}

/// The same of whichever it is.
macro_rules! each {
    ($named:expr, $policy:ident => $what:expr) => {
        match $named {
            Named::Fifo($policy) => $what,
            Named::Lru($policy) => $what,
            Named::Clock($policy) => $what,
            Named::Sieve($policy) => $what,
            Named::S3Fifo($policy) => $what,
            Named::TwoQ($policy) => $what,
            Named::Arc($policy) => $what,
            Named::Lirs($policy) => $what,
            Named::TinyLfu($policy) => $what,
        }
    };
}

impl Named {
    /// See [`Policy::hears_uses`].
    #[inline]
    pub fn hears_uses(&self) -> bool {
        each!(self, policy => policy.hears_uses())
    }

    /// See [`Policy::hit`].
    #[inline]
    pub fn hit(&mut self, frame: u32) {
        each!(self, policy => policy.hit(frame));
    }

    /// See [`Policy::evict`].
    #[inline]
    pub fn evict(&mut self, coming: Option<u64>, look: impl FnMut(u32) -> Look) -> Victim {
        each!(self, policy => policy.evict(coming, look))
    }

    /// See [`Policy::insert`].
    #[inline]
    pub fn insert(&mut self, frame: u32, key: u64) {
        each!(self, policy => policy.insert(frame, key));
    }

    /// See [`Policy::remove`].
    #[inline]
    pub fn remove(&mut self, frame: u32) {
        each!(self, policy => policy.remove(frame));
    }

    /// See [`Policy::bytes`].
    pub fn bytes(&self) -> usize {
        each!(self, policy => policy.bytes())
    }
}
