//! The interface itself.

use std::sync::Arc;

use wharf_codec::Sizes;
use wharf_wire::dma::DmaSpace;

use crate::files::{FileClient, FileError};
use crate::hmb::HmbMemory;

use super::{
    Client, DesignConfig, DesignError, FileParts, Gauges, Initial, Needs, Parts, Settings,
};

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

    /// Bytes of addresses that the drives of [`Role::Cache`](super::Role::Cache) must show before such drives, if that is more than they may
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
