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
//! With `eviction = "two-step"` pages leave either cache before it is full, those of inactive files first (section 4.2.3; `stor/cache/ages.rs`).
//! With `prefetch_pages` the drive fills its own cache ahead of who reads or writes a file in order, and only bytes that are asked for cross the link (section
//! 4.2.2).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wharf_wire::dma::DmaSpace;

use crate::design::{
    Design, DesignConfig, DesignError, FileParts, Gauges, Needs, Parts, Replacement,
};
use crate::files::{FileClient, FileError};
use crate::stor::{CacheMode, Compute, Eviction, ReadFill, Stor, StorConfig, Without};

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
        /// Which pages leave before there is no room: `clock` (none of the host's cache: `replacement` names one when one is needed; of the drive's,
        /// when it has no room, a range that was not used for `epoch_ns`), or `two-step` (in the background, of either cache: first those of files that
        /// are closed or were not used for `inactive_ns`; if still less than `low_water` is free, the ranges of up to 2 MiB that were used
        /// least lately).
        pub eviction: Eviction = Eviction::Clock;
        /// With `eviction = "two-step"`: the share of a cache below which ranges leave it. The paper has a tenth.
        pub low_water: f64 = 0.1, in 0.01..=0.5;
        /// With `eviction = "two-step"`: a file that was not used for so long is inactive. The paper has 30 s.
        pub inactive_ns: u64 = 30_000_000_000, in 0..=3_600_000_000_000;
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
        /// Most pages that the drive brings to its own cache at a time ahead of who goes through a file in order by less than a page
        /// at a time; only bytes that are asked for cross the link then. 0: pages come to the host's cache ahead. The paper has 512 (2 MiB).
        /// No more than a 32nd of the drive's cache.
        pub prefetch_pages: u32 = 0, in 0..=512;
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
            eviction: self.eviction,
            low_water: self.low_water,
            inactive_ns: self.inactive_ns,
            threads: self.threads,
            cache_files: self.cache_files,
            buffer_pages: self.buffer_pages,
            read_ahead_pages: self.read_ahead_pages,
            prefetch_pages: self.prefetch_pages,
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
