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
pub(crate) mod client;
mod config;
mod error;
mod files;
mod gauges;
mod initial;
mod needs;
mod settings;
mod statistics;
mod touch;

use std::sync::Arc;

use wharf_codec::Sizes;
use wharf_wire::dma::DmaSpace;

use crate::files::{FileClient, FileError};
use crate::hmb::HmbMemory;

pub use choices::{Reclaim, Replacement};
pub use client::{Approach, Client, check_request};
pub use config::{DesignConfig, WritePolicy};
pub use error::DesignError;
pub use files::{FileParts, NoBlocks};
pub use gauges::{Amount, Gauges};
pub use initial::Initial;
pub use needs::{Devices, Needs, Parts, Principal, Role};
pub use settings::{NoSettings, OutOfRange, Settings};
pub use statistics::{Counter, Counters, Statistics};
pub use touch::Touch;

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

    /// Whether it has one as it is configured.
    fn has_cache(_own: &Self::Config) -> bool {
        Self::HAS_CACHE
    }

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
