//! What clients count, in all designs.

use std::cell::Cell;

use super::touch::Touch;
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
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
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
            pub fn statistics(&self, volume: &Volume) -> Statistics {
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
    /// Of the touches, pages that the drive's own cache had when a command asked for them.
    near_hits,
    /// Of these, pages that were loaded or stored without a command.
    window_hits,
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
}

/// A number that only grows.
#[derive(Default)]
pub struct Counter(Cell<u64>);

impl Counter {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.set(self.0.get() + n);
    }

    /// What it has come to.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

impl Counters {
    /// Accounts the end of a request.
    #[inline]
    /// # Errors
    /// The request's.
    pub fn end<T>(
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
