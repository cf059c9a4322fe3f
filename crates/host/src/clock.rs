//! The design `clock`: a page cache in host memory with CLOCK or another policy, write-back or
//! write-through, over ordinary block commands.
//!
//! One cache for all clients, in shards (see [`crate::cache`]). With one client at depth 1 its hits
//! and misses are exactly those of the policy, page by page in the order of requests.

use std::rc::Rc;
use std::sync::Arc;

use wharf_wire::dma::DmaSpace;

use crate::cache::PageCache;
use crate::cache::client::CacheClient;
use crate::cache::frame::PAGES_MAX;
use crate::design::{
    Client, Design, DesignConfig, DesignError, Needs, Parts, Replacement, Statistics, Touch,
    WritePolicy,
};
use crate::error::IoError;
use crate::payload::{From, Into};
use crate::span::Extent;

crate::settings! {
    /// What the cache is told.
    pub struct ClockConfig {
        /// Which page leaves the cache next: `clock`, `two-lists` (as in Linux), `fifo`, `lru`, `2q`, `arc`, `lirs`, `sieve`, `s3-fifo` or
        /// `w-tinylfu`, as `wharf policies` tells of them.
        pub replacement: Replacement = Replacement::Clock;
    }
}

/// What the clients share: the cache.
pub struct Clock {
    cache: Arc<PageCache>,
    policy: WritePolicy,
}

impl Design for Clock {
    const NAME: &'static str = "clock";

    const SUMMARY: &'static str =
        "a page cache in host memory, CLOCK or another policy, over ordinary block commands";

    type Config = ClockConfig;

    type Client = ClockClient;

    fn needs(_: &DesignConfig, own: &ClockConfig) -> Needs {
        Needs {
            bytes_per_page: 32 + own.replacement.bytes_per_page(),
            ..Needs::default()
        }
    }

    fn new(
        config: &DesignConfig,
        own: &ClockConfig,
        space: &Arc<DmaSpace>,
    ) -> Result<Clock, DesignError> {
        let cache = PageCache::new(Self::NAME, config, own.replacement, space)?;
        Ok(Clock {
            cache: Arc::new(cache),
            policy: config.write_policy,
        })
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<ClockClient, DesignError> {
        let (design, pages) = (Self::NAME, parts.cache().pages());
        if pages > PAGES_MAX {
            let pages_max = PAGES_MAX;
            return Err(DesignError::VolumeTooLarge {
                design,
                pages,
                pages_max,
            });
        }
        let client = CacheClient::start(
            &parts.cpu,
            self.cache.clone(),
            parts.cache(),
            parts.index,
            self.policy,
        );
        Ok(ClockClient(client))
    }
}

impl Clock {
    /// The cache, for reports and checks.
    pub fn cache(&self) -> &PageCache {
        &self.cache
    }
}

/// One client.
pub struct ClockClient(Rc<CacheClient>);

impl Client for ClockClient {
    #[inline]
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        let client = &*self.0;
        client.counters().reads.add(1);
        client
            .counters()
            .end(client.serve(extent, Into(out)).await, |touch| *touch)
    }

    #[inline]
    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        let client = &*self.0;
        client.counters().writes.add(1);
        client
            .counters()
            .end(client.serve(extent, From(data)).await, |touch| *touch)
    }

    async fn flush(&self) -> Result<(), IoError> {
        let client = &*self.0;
        client.counters().flushes.add(1);
        client
            .counters()
            .end(client.flush().await, |()| Touch::default())
    }

    fn statistics(&self) -> Statistics {
        self.0.counters().statistics(self.0.volume())
    }
}
