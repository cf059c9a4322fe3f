//! The OS clock. This file alone reads it.
//!
//! Where interleavings are checked (`--cfg loom`) it stands still, as each of them has to be the same when it is run again.

#[cfg(not(loom))]
use std::time::Instant;

/// A monotonic clock that starts at 0 when it is made.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    #[cfg(not(loom))]
    origin: Instant,
    #[cfg(loom)]
    at_ns: u64,
}

impl Clock {
    /// A clock that reads 0 now.
    #[allow(clippy::disallowed_methods)] // the one place
    pub fn start() -> Self {
        Clock {
            #[cfg(not(loom))]
            origin: Instant::now(),
            #[cfg(loom)]
            at_ns: 0,
        }
    }

    /// A clock that stands still, at `at_ns`.
    #[cfg(loom)]
    pub fn standing(at_ns: u64) -> Self {
        Clock { at_ns }
    }

    /// Nanoseconds since the start.
    #[inline]
    #[allow(clippy::disallowed_methods)] // the one place
    pub fn now_ns(&self) -> u64 {
        #[cfg(not(loom))]
        return Instant::now().duration_since(self.origin).as_nanos() as u64;
        #[cfg(loom)]
        self.at_ns
    }
}
