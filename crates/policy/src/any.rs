//! A policy that is chosen while a program runs.

use crate::{Look, Policy, Victim};

/// Any [`Policy`], behind a pointer: its functions are those.
pub trait AnyPolicy: Send {
    /// See [`Policy::hears_uses`].
    fn hears_uses(&self) -> bool;

    /// See [`Policy::hit`].
    fn hit(&mut self, frame: u32);

    /// See [`Policy::evict`].
    fn evict(&mut self, coming: Option<u64>, look: &mut dyn FnMut(u32) -> Look) -> Victim;

    /// See [`Policy::insert`].
    fn insert(&mut self, frame: u32, key: u64);

    /// See [`Policy::remove`].
    fn remove(&mut self, frame: u32);

    /// See [`Policy::bytes`].
    fn bytes(&self) -> usize;
}

impl<P: Policy + Send> AnyPolicy for P {
    fn hears_uses(&self) -> bool {
        Policy::hears_uses(self)
    }

    fn hit(&mut self, frame: u32) {
        Policy::hit(self, frame);
    }

    fn evict(&mut self, coming: Option<u64>, look: &mut dyn FnMut(u32) -> Look) -> Victim {
        Policy::evict(self, coming, look)
    }

    fn insert(&mut self, frame: u32, key: u64) {
        Policy::insert(self, frame, key);
    }

    fn remove(&mut self, frame: u32) {
        Policy::remove(self, frame);
    }

    fn bytes(&self) -> usize {
        Policy::bytes(self)
    }
}
