//! A timed resource that serves one at a time, in order: a die, a link direction.
//!
//! "When is it done" is apart from "do it": a reservation says from when until when the resource
//! is busy; whoever reserved waits until then and acts.

/// A resource with a queue in front of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Resource {
    free_ns: u64,
    busy_ns: u64,
}

impl Resource {
    /// Takes the resource for `duration_ns` as soon as it is free, not before `from_ns`. Returns the
    /// end of the service.
    #[inline]
    pub fn reserve(&mut self, from_ns: u64, duration_ns: u64) -> u64 {
        self.free_ns = self.free_ns.max(from_ns) + duration_ns;
        self.busy_ns += duration_ns;
        self.free_ns
    }

    /// Keeps the resource occupied until `until_ns`.
    #[inline]
    pub fn extend(&mut self, until_ns: u64) {
        if until_ns > self.free_ns {
            self.busy_ns += until_ns - self.free_ns;
            self.free_ns = until_ns;
        }
    }

    /// When the resource has served all who reserved it.
    #[inline]
    pub fn free_ns(&self) -> u64 {
        self.free_ns
    }

    /// Total time of service.
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_queue_in_order() {
        let mut die = Resource::default();
        assert_eq!(die.reserve(10, 5), 15);
        assert_eq!(die.reserve(11, 5), 20);
        assert_eq!(die.reserve(100, 5), 105);
        die.extend(110);
        assert_eq!(die.reserve(0, 1), 111);
        assert_eq!(die.busy_ns(), 21);
    }
}
