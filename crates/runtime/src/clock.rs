//! The OS clock. This file alone reads it.

use std::time::Instant;

/// A monotonic clock that starts at 0 when it is made.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that reads 0 now.
    #[allow(clippy::disallowed_methods)] // the one place
    pub fn start() -> Self {
        Clock {
            origin: Instant::now(),
        }
    }

    /// Nanoseconds since the start.
    #[inline]
    #[allow(clippy::disallowed_methods)] // the one place
    pub fn now_ns(&self) -> u64 {
        Instant::now().duration_since(self.origin).as_nanos() as u64
    }
}
