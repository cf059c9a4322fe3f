//! What clients count, in all designs.

use std::cell::Cell;

use super::Touch;
use crate::driver::DriverStatistics;
use crate::error::IoError;
use crate::volume::Volume;

macro_rules! statistics {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a client did.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Statistics {
            $($(#[$doc])* pub $name: u64,)*
            /// What its drivers did.
            pub driver: DriverStatistics,
        }

        impl Statistics {
            /// Adds what another client did.
            pub fn merge(&mut self, other: &Statistics) {
                $(self.$name += other.$name;)*
                self.driver.merge(&other.driver);
            }

            /// What was done since `earlier`, a reading of the same client.
            #[must_use]
            pub fn since(&self, earlier: &Statistics) -> Statistics {
                Statistics {
                    $($name: self.$name - earlier.$name,)*
                    driver: self.driver.since(&earlier.driver),
                }
            }
        }

        /// A client's counters while it runs.
        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        impl Counters {
            /// Their values, without what any driver did.
            pub(crate) fn own(&self) -> Statistics {
                Statistics {
                    $($name: self.$name.0.get(),)*
                    driver: DriverStatistics::default(),
                }
            }

            /// Their values, with what the drivers of `volume` did.
            pub(crate) fn statistics(&self, volume: &Volume) -> Statistics {
                let mut statistics = self.own();
                volume.statistics().for_each(|driver| statistics.driver.merge(&driver));
                statistics
            }
        }
    };
}

statistics! {
    /// Read requests.
    reads,
    /// Write requests.
    writes,
    /// Flush requests.
    flushes,
    /// Discard requests of designs that know them.
    discards,
    /// Pages that requests touched.
    touches,
    /// Of these, [hits](Touch): found in the host's memory, without a command to a drive.
    hits,
    /// Of the touches, first ones of pages that reading ahead had brought.
    read_ahead_hits,
    /// Pages that left the cache for others.
    evictions,
    /// Pages written to the drive after their write was acknowledged.
    write_backs,
    /// Times that a request waited for another one.
    waits,
    /// Requests that failed.
    failures,
    /// Nanoseconds in which requests slept because too much was dirty.
    throttled_ns,
    /// Nanoseconds in which requests wrote back dirty pages themselves, since too much was dirty.
    flushing_ns,
    /// Nanoseconds of virtual time in which all CPUs waited for locks of indexes, in the first client's account; 0 in designs
    /// whose index has none.
    index_wait_ns,
    /// Nanoseconds of virtual time in which all CPUs were in the driver of an array in the operating system, in the first client's
    /// account.
    array_driver_ns,
    /// Nanoseconds in which a client's CPU had nothing to do but wait for other CPUs of the host that
    /// work for it: managers of a cache.
    manager_wait_ns,
    /// Pages that managers were asked for.
    manager_asks,
    /// Nanoseconds in which these requests, and then their answers, were on their way or waited to be
    /// taken; 0 where operations are not timed, as is the next.
    manager_queue_ns,
    /// Nanoseconds that managers had them, from taking the request to giving the answer.
    manager_held_ns,
    /// Nanoseconds in which managers had nothing to do but poll queue pairs with commands under way; 0
    /// in real time, where nobody times empty polls.
    manager_poll_ns,
}

/// A number that only grows.
#[derive(Default)]
pub(crate) struct Counter(Cell<u64>);

impl Counter {
    /// Adds `n`.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.set(self.0.get() + n);
    }
}

impl Counters {
    /// Accounts the end of a request.
    #[inline]
    pub(crate) fn end<T>(
        &self,
        outcome: Result<T, IoError>,
        touch: impl Fn(&T) -> Touch,
    ) -> Result<T, IoError> {
        match &outcome {
            Ok(value) => {
                let touch = touch(value);
                self.touches.add(touch.pages);
                self.hits.add(touch.hits);
                self.read_ahead_hits.add(touch.read_ahead_hits);
            }
            Err(_) => self.failures.add(1),
        }
        outcome
    }
}
