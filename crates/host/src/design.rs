//! What a design is: the interface between whoever makes requests and a way to serve them.
//!
//! A *design* is the part that all clients share: a page cache, say. A *client* is what one CPU
//! uses of it: any number of the CPU's tasks may have requests in flight on it. There is one file
//! per design, with the same functions in the same order, so that two designs read as a diff.
//! Designs are known at compile time; nothing here is a trait object.
//!
//! The volume that a client is made with must be of the same shape for all clients of a design.

mod config;
mod error;

use std::cell::Cell;
use std::ops::AddAssign;
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_wire::dma::DmaSpace;

use crate::driver::DriverStatistics;
use crate::error::IoError;
use crate::hmb::HmbMemory;
use crate::span::Extent;
use crate::volume::Volume;

pub use config::{DesignConfig, Reclaim, Replacement, SHARES_MAX, Shares, WritePolicy};
pub use error::DesignError;

/// The part of a design that its clients share.
pub trait Design: Send + Sync + Sized + 'static {
    /// The name by which it is chosen and reported.
    const NAME: &'static str;

    /// Whether requests can be hits: a design without a cache has no hit ratio.
    const HAS_CACHE: bool = true;

    /// What one CPU uses of it.
    type Client: Client;

    /// Makes the design, with its memory in `space`.
    ///
    /// # Errors
    /// If the configuration is impossible or memory is short.
    fn new(config: &DesignConfig, space: &Arc<DmaSpace>) -> Result<Self, DesignError>;

    /// Makes client `index` (below the number of clients, each once) on `cpu`.
    ///
    /// # Errors
    /// If memory is short.
    fn client(
        self: &Arc<Self>,
        cpu: &Cpu,
        volume: Rc<Volume>,
        index: u32,
    ) -> Result<Self::Client, DesignError>;

    /// Number of CPUs of the host that work for all clients, besides the clients' own: managers of
    /// a cache, a flusher. Each has its own queue pairs.
    fn services(_config: &DesignConfig) -> u32 {
        0
    }

    /// Starts service `index` (below the number of services, each once) on its CPU. Its tasks run
    /// until the machine stops.
    ///
    /// # Errors
    /// If memory is short.
    fn serve(
        self: &Arc<Self>,
        _cpu: &Cpu,
        _volume: Rc<Volume>,
        _index: u32,
    ) -> Result<(), DesignError> {
        Ok(())
    }

    /// Pages of 4096 bytes that a client in another process needs of its own, in designs that can be
    /// [shared](crate::guest).
    fn guest_pages(_config: &DesignConfig) -> usize {
        0
    }

    /// Nodes in the trees that find cached pages, 576 bytes each, in designs that have such trees. A look from outside, which
    /// takes no virtual time and disturbs nobody.
    fn index_nodes(&self) -> Option<u64> {
        None
    }

    /// Whether it is in the operating system, and so reaches drives through what that puts before them.
    fn is_in_kernel(_config: &DesignConfig) -> bool {
        false
    }

    /// The memory that drive number `drive` is lent before clients start, if the design lends any.
    fn hmb_memory(&self, _drive: u32) -> Option<HmbMemory> {
        None
    }
}

/// What one CPU uses of a design. Requests of several tasks may be in flight.
///
/// An extent lies within the volume. A payload has exactly as many bytes as the extent; where pages
/// are stamps, 8 for each touched page.
#[allow(async_fn_in_trait)] // the futures stay on their CPU: no Send is wanted
pub trait Client: 'static {
    /// Reads.
    ///
    /// # Errors
    /// A wrong extent or payload; an error of the drive. The payload is undefined then.
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError>;

    /// Writes. Durable after the next flush.
    ///
    /// # Errors
    /// As for a read; each page of the extent then holds its old or its new content.
    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError>;

    /// Reads, if what is asked for lies within a page that the client can use at once: an ordinary
    /// function, without a task or a command. False if it does not, and then nothing was done;
    /// [`Client::read`] is the way.
    #[inline]
    fn read_now(&self, _extent: Extent, _out: &mut [u8]) -> bool {
        false
    }

    /// As [`Client::read_now`], for a write.
    #[inline]
    fn write_now(&self, _extent: Extent, _data: &[u8]) -> bool {
        false
    }

    /// Makes durable every write, of any client, that was acknowledged before.
    ///
    /// # Errors
    /// If a page could not be written, now or since this client's last flush.
    async fn flush(&self) -> Result<(), IoError>;

    /// Makes durable every write within `extent`, of any client, that was acknowledged before: `fsync` where
    /// the extent is a file. Designs that do not know which writes these are flush all.
    ///
    /// # Errors
    /// As for [`Client::flush`]; an extent beyond the volume.
    async fn flush_extent(&self, _extent: Extent) -> Result<(), IoError> {
        self.flush().await
    }

    /// The pages that `extent` covers whole are forgotten, as when a file is deleted or cut: until they are
    /// written again they hold anything. A cache may drop them, also if they are dirty, without writing them.
    ///
    /// # Errors
    /// An extent beyond the volume; a page that the drive holds and does not answer for.
    async fn discard(&self, _extent: Extent) -> Result<(), IoError> {
        Ok(())
    }

    /// Gives back what the client holds of the drives. It has no request in flight, and gets none
    /// after that.
    ///
    /// # Errors
    /// If the drives do not take it back.
    async fn release(&self) -> Result<(), IoError> {
        Ok(())
    }

    /// Brings near what a request for `extent`, which comes soon, is going to look at. A hint, for those
    /// who know the future: nothing changes but how long the processor waits for memory.
    #[inline]
    fn prefetch(&self, _extent: Extent, _approach: Approach) {}

    /// Bytes of the index of cached pages that the client has for itself, in designs whose clients have one.
    fn index_bytes(&self) -> Option<u64> {
        None
    }

    /// What this client did so far.
    fn statistics(&self) -> Statistics;
}

/// How soon a request comes that [`Client::prefetch`] tells of. A cache finds a page by several looks
/// into memory, each at a place that the one before has named: so a request is told of at every
/// approach in turn, a few requests apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approach {
    /// Nothing of it was brought near yet.
    Far,
    /// It is one of the next, and what was asked for at first has arrived.
    Near,
}

/// How a request was served: 4 KiB pages that it touched, and how many were in the host's memory.
///
/// A page is a *hit* if an earlier request touched it and it has stayed since, or is on its way for that
/// request. A page that reading ahead brought is none when it is touched for the first time: however well
/// a cache guesses, it has no more hits than one that keeps everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Touch {
    /// Pages touched.
    pub pages: u64,
    /// Of these, hits.
    pub hits: u64,
    /// Of these, brought by reading ahead and touched for the first time.
    pub read_ahead_hits: u64,
}

impl Touch {
    /// Of `pages` pages that were all there.
    #[inline(always)]
    pub fn all_hits(pages: u64) -> Touch {
        Touch {
            pages,
            hits: pages,
            read_ahead_hits: 0,
        }
    }

    /// Of a page that was there; `is_first` if reading ahead had brought it and nobody has touched it before.
    #[inline(always)]
    pub(crate) fn found(is_first: bool) -> Touch {
        Touch {
            pages: 1,
            hits: u64::from(!is_first),
            read_ahead_hits: u64::from(is_first),
        }
    }

    /// Of `pages` pages of which none was there.
    #[inline(always)]
    pub fn no_hits(pages: u64) -> Touch {
        Touch {
            pages,
            ..Touch::default()
        }
    }
}

impl AddAssign for Touch {
    #[inline]
    fn add_assign(&mut self, more: Touch) {
        self.pages += more.pages;
        self.hits += more.hits;
        self.read_ahead_hits += more.read_ahead_hits;
    }
}

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

    /// How far it has grown.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.get()
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

/// Refuses a request that does not fit the volume or its payload.
#[inline]
pub(crate) fn check_request(
    volume: &Volume,
    page_bytes: usize,
    extent: Extent,
    payload_bytes: usize,
) -> Result<(), IoError> {
    if extent.offset.checked_add(extent.bytes).is_none() {
        return Err(IoError::OutOfRange {
            first: extent.first_page(),
            pages: extent.bytes / 4096,
            volume_pages: volume.pages(),
        });
    }
    volume.check(extent.first_page(), extent.pages())?;
    let expected = extent.payload_bytes(page_bytes);
    if expected != payload_bytes {
        return Err(IoError::Payload {
            expected,
            found: payload_bytes,
        });
    }
    Ok(())
}
