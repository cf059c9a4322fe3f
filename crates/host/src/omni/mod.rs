//! The design `omni` (OmniCache, FAST 2024): a cache in the host and a cache in the drive, each page in one of both.
//!
//! Problem: a cache in the host has whole pages carried over the link, also for a few bytes of each; a drive that computes and keeps
//! pages itself has little memory.
//!
//! Idea: both caches are used at once, as parts of one budget. What makes a file longer stays in the host; what is overwritten or read, and is
//! not in the host, is brought into the drive's memory, and only the bytes that are asked for cross the link.
//!
//! It is put together of what [`stor`](crate::stor) has: the commands, the cache of a process, and its way by the drive's cache
//! (`stor/cache/near/`). `caches` leaves parts of it out, so that each can be compared with the whole in the same program:
//! `host` has one cache of the whole budget, which moves whole pages; `none` has none, and sends each operation to the drive.
//!
//! `without` leaves a single part of the way by both caches out.
//!
//! Where a workload has something computed on files, `compute` says which side does: whichever is expected to be done first, if nothing else
//! is said (OmniDynamic, section 4.4; `stor/cache/compute/`).
//!
//! On a link that carries loads and stores, pages of the drive's cache are used without a command (`window`; OmniCXL, section 4.5).
//!
//! What the paper has beyond that and is not here yet: eviction of the host's cache by epochs, and reading ahead into the drive's memory.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wharf_wire::dma::DmaSpace;

use crate::design::{
    Design, DesignConfig, DesignError, FileParts, Gauges, Needs, Parts, Replacement,
};
use crate::files::{FileClient, FileError};
use crate::stor::{CacheMode, Compute, ReadFill, Stor, StorConfig, Without};

/// Which caches there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caches {
    /// One in the host and one in the drive.
    #[default]
    Both,
    /// One in the host, of the whole budget.
    Host,
    /// None.
    None,
}

crate::settings! {
    /// What the two caches are told.
    pub struct OmniConfig {
        /// Which caches there are: `both`; `host`, of the whole budget, which moves whole pages; `none`.
        pub caches: Caches = Caches::Both;
        /// The share of the cache that is in the drive's memory, where both are there. OmniCache has 4
        /// of 20 GB there.
        pub device_share: f64 = 0.2, in 0.01..=0.99;
        /// What becomes of pages in neither cache, of which a part is read, if the drive's cache has no room:
        /// `host` (they go to the host's cache, as far as that has room) or `paper` (they stay where they are,
        /// as the paper says).
        pub read_fill: ReadFill = ReadFill::Host;
        /// A range of a file that was not used for so long leaves the drive's cache when that has no room.
        /// The paper has 30 s.
        pub epoch_ns: u64 = 1_000_000_000, in 0..=3_600_000_000_000;
        /// Who computes on files, where a workload has something computed: `dynamic` (whoever is expected to be done first), `host`,
        /// `drive`, `presence` (the host if it has more of the pages than the drive's cache); `data` and `exec`: as
        /// `dynamic`, with the terms of moving data alone, and of moving and computing. Without a cache it is the drive, unless
        /// it is `host`. What the drive refuses the host computes.
        pub compute: Compute = Compute::Dynamic;
        /// A part that is left out, so that what it does is seen: `nothing`; `ranges` (a lock is of a whole file);
        /// `exclusion` (a page that comes to the host's cache stays in the drive's too); `near-io` (whole pages
        /// cross the link).
        pub without: Without = Without::Nothing;
        /// On a link that carries loads and stores (`drive.link.kind` is `cxl`): whether pages of the drive's cache are loaded
        /// and stored, and not read and written by commands (OmniCXL).
        pub window: bool = true;
        /// Clients that are threads of one process, and share its cache in the host: all, unless there are
        /// more. Nothing keeps caches of different processes in step.
        pub threads: u32 = 1_024, in 1..=1_024;
        /// Files that a cache has pages of at a time, those that are open among them.
        pub cache_files: u32 = 1_024, in 1..=65_536;
        /// Pages of memory that a client has for data and requests.
        pub buffer_pages: u32 = 512, in 32..=65_536;
        /// Most pages that come to the host at a time ahead of who goes through a file in order.
        pub read_ahead_pages: u32 = 15, in 1..=4_096;
        /// Which page leaves the cache in the host next: as `design.scale.replacement`.
        pub replacement: Replacement = Replacement::Clock;
    }
}

impl OmniConfig {
    /// The same as a file client is told.
    fn client(&self) -> StorConfig {
        StorConfig {
            cache: match self.caches {
                Caches::Both => CacheMode::Near,
                Caches::Host => CacheMode::WriteBack,
                Caches::None => CacheMode::None,
            },
            device_share: self.device_share,
            read_fill: self.read_fill,
            without: self.without,
            window: self.window,
            compute: self.compute,
            epoch_ns: self.epoch_ns,
            threads: self.threads,
            cache_files: self.cache_files,
            buffer_pages: self.buffer_pages,
            read_ahead_pages: self.read_ahead_pages,
            replacement: self.replacement,
            ..StorConfig::default()
        }
    }
}

/// See the [module](self).
pub struct Omni(Arc<Stor>);

impl Design for Omni {
    const NAME: &'static str = "omni";

    const SUMMARY: &'static str = "files in the drive, with a cache in the host and one in the drive's memory, each page in one of both (OmniCache)";

    const FILES_ALONE: bool = true;

    type Config = OmniConfig;

    type Client = <Stor as Design>::Client;

    fn has_cache(own: &OmniConfig) -> bool {
        Stor::has_cache(&own.client())
    }

    fn needs(config: &DesignConfig, own: &OmniConfig) -> Needs {
        Stor::needs(config, &own.client())
    }

    fn new(
        config: &DesignConfig,
        own: &OmniConfig,
        space: &Arc<DmaSpace>,
    ) -> Result<Omni, DesignError> {
        Stor::named(Self::NAME, config, &own.client(), space).map(|stor| Omni(Arc::new(stor)))
    }

    fn gauges(&self) -> Gauges {
        self.0.gauges()
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<Self::Client, DesignError> {
        self.0.client(parts)
    }

    async fn files(
        self: &Arc<Self>,
        client: Self::Client,
        parts: FileParts,
    ) -> Result<impl FileClient, FileError> {
        self.0.files(client, parts).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_caches_are_parts_of_one_budget() {
        let config = DesignConfig {
            cache_bytes: 100 << 20,
            ..DesignConfig::default()
        };
        let near = |caches| {
            let own = OmniConfig {
                caches,
                device_share: 0.25,
                ..OmniConfig::default()
            };
            Omni::needs(&config, &own).near_bytes
        };
        assert_eq!(near(Caches::Both), 25 << 20);
        assert_eq!((near(Caches::Host), near(Caches::None)), (0, 0));
    }
}
