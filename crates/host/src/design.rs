//! What a design is: the interface between whoever makes requests and a way to serve them.
//!
//! Problem: a program, a replay and a benchmark are to use any design alike, and a new design is to
//! be one folder: no struct that all share has a field for it, and nobody else knows what it needs.
//!
//! Idea: a design says everything about itself by its [`Design`] impl, and whoever builds the
//! machine asks. The *design* is the part that all clients share: a page cache, say. A *client* is
//! what one CPU uses of it: any number of the CPU's tasks may have requests in flight on it.
//! Designs are known at compile time; nothing here is a trait object.
//!
//! The walk of a run:
//!
//! 1. **Told.** The host's configuration has what all designs are told ([`DesignConfig`]), and a
//!    table `[design.NAME]` for each, whose keys the design declares ([`Settings`],
//!    [`settings!`](crate::settings)).
//! 2. **Needs.** [`Design::needs`] says by these two alone which [roles](Role) of drives there must
//!    be, what the drives must be able to do, how many CPUs work for all ([`Needs`]). The machine
//!    is built from that.
//! 3. **Made.** [`Design::new`] takes memory. Drives that lend a cache are told of it
//!    ([`Design::hmb_memory`]).
//! 4. **Clients.** When the drives are ready, each client's CPU makes its client of its [`Parts`]:
//!    the CPU, a volume for each role over its own queue pairs ([`Devices`]), its number, and on
//!    whose behalf it works ([`Principal`]). Services likewise.
//! 5. **Requests.** [`Client`] has the calls. All are checked by [`check_request`]. Operations on files go to what
//!    [`Design::files`] makes of a client.
//! 6. **Told back.** What all designs count is in [`Statistics`]; what one reports beyond that are
//!    [`Gauges`], which every report shows by their names.
//!
//! A design is a file, or a folder with a table of its files on top, with the same functions in the
//! same order, so that two designs read as a diff. `docs/new-design.md` makes one from nothing.
//!
//! The volumes that a client is made with must be of the same shape for all clients of a design.

mod choices;
mod config;
mod error;
mod files;
mod gauges;
mod initial;
mod needs;
mod settings;
mod statistics;

use std::ops::AddAssign;
use std::sync::Arc;

use wharf_codec::Sizes;
use wharf_wire::dma::DmaSpace;

use crate::error::IoError;
use crate::files::{FileClient, FileError};
use crate::hmb::HmbMemory;
use crate::span::Extent;
use crate::volume::Volume;

pub use choices::{Reclaim, Replacement};
pub use config::{DesignConfig, WritePolicy};
pub use error::DesignError;
pub use files::FileParts;
pub use gauges::{Amount, Gauges};
pub use initial::Initial;
pub use needs::{Devices, Needs, Parts, Principal, Role};
pub use settings::{NoSettings, OutOfRange, Settings};
pub use statistics::{Counter, Counters, Statistics};

/// The part of a design that its clients share.
pub trait Design: Send + Sync + Sized + 'static {
    /// The name by which it is chosen and reported.
    const NAME: &'static str;

    /// What it is, in a few words.
    const SUMMARY: &'static str;

    /// The table of the configuration that it reads: `[design.TABLE]`. Variants of a design share
    /// one.
    const TABLE: &'static str = Self::NAME;

    /// Whether requests can be hits: a design without a cache has no hit ratio.
    const HAS_CACHE: bool = true;

    /// Whether it serves operations on files alone, in a file system of its own, which needs drives that keep
    /// whole pages: no requests for blocks, no stamps.
    const FILES_ALONE: bool = false;

    /// What concerns it alone: the keys of its table.
    type Config: Settings;

    /// What one CPU uses of it.
    type Client: Client;

    /// What it needs of the machine.
    fn needs(_config: &DesignConfig, _own: &Self::Config) -> Needs {
        Needs::default()
    }

    /// Makes the design, with its memory in `space`.
    ///
    /// # Errors
    /// If the configuration is impossible or memory is short.
    fn new(
        config: &DesignConfig,
        own: &Self::Config,
        space: &Arc<DmaSpace>,
    ) -> Result<Self, DesignError>;

    /// Makes a client of these parts.
    ///
    /// # Errors
    /// If memory is short.
    fn client(self: &Arc<Self>, parts: Parts) -> Result<Self::Client, DesignError>;

    /// Makes a client of files of a client. Where nothing else is said names are kept on the host, and bytes in
    /// regions of the volume ([`FilesOnBlocks`](crate::files::FilesOnBlocks)).
    ///
    /// # Errors
    /// Of the file system.
    #[allow(async_fn_in_trait)] // the futures stay on their CPU: no Send is wanted
    async fn files(
        self: &Arc<Self>,
        client: Self::Client,
        parts: FileParts,
    ) -> Result<impl FileClient, FileError> {
        Ok(parts.on_blocks(client))
    }

    /// Starts a service of these parts. Its tasks run until the machine stops.
    ///
    /// # Errors
    /// If memory is short.
    fn serve(self: &Arc<Self>, _parts: Parts) -> Result<(), DesignError> {
        Ok(())
    }

    /// The memory that drive number `drive` of the role `cache` is lent before clients start, if
    /// the design lends any.
    fn hmb_memory(&self, _drive: u32) -> Option<HmbMemory> {
        None
    }

    /// Bytes that clients can address of drives that hold all data and have `home_bytes`, where the design needs a
    /// part of them for itself.
    fn addressable_bytes(_own: &Self::Config, home_bytes: u64) -> u64 {
        home_bytes
    }

    /// Bytes of addresses that the drives of [`Role::Cache`] must show before such drives, if that is more than they may
    /// have.
    fn shown_bytes(_own: &Self::Config, _home_bytes: u64) -> u64 {
        0
    }

    /// Before services start: `initial` is to lie on the drives that hold all data. True if a service brings it
    /// there, and says when it is done.
    fn begin_with(&self, _initial: &Initial) -> bool {
        false
    }

    /// Before services start, where pages are stamps: what their data would compress to.
    fn stamps_have(&self, _sizes: &Sizes) {}

    /// What it reports of itself at a time: a look from outside, which takes no virtual time and
    /// disturbs nobody. Reports show the most of each figure, of a few hundred looks in a run.
    fn gauges(&self) -> Gauges {
        Gauges::none()
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

    /// What this client did so far.
    fn statistics(&self) -> Statistics;

    /// What it reports so far beyond that. Reports show the sum over all clients; what is of all of
    /// them is in the first one's.
    fn gauges(&self) -> Gauges {
        Gauges::none()
    }
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

/// Refuses a request that does not fit the volume or its payload.
///
/// # Errors
/// If it does not.
#[inline]
pub fn check_request(
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
