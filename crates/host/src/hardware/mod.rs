//! The design `hardware`: the drive half of ScalaCache alone.
//!
//! The drives keep the cache, as in [`scala`](crate::scala), but the host remembers nothing: each
//! request pins its pages by command, copies, and gives them back by command. So every request goes to
//! the drives, hit or miss, which is what the Queue Index of `scala` saves.
//!
//! 1. A request takes a *permit* for each page, of the set of the page's firmware core, before its pins
//!    go out. A client has as many as its share of the core's frames: so no pin waits for another
//!    client, and a long request goes in parts.
//! 2. One command for each drive pins; pages to be overwritten whole have one of their own and
//!    are announced first ([`Frames`]).
//! 3. The unpins go out when the request has what it wants; nobody waits for their end, at
//!    which the permits come back.
//!
//! Whether a page was in a frame the drive alone knows: this design reports no hits. (ScalaCache,
//! section 5.3, "hardware-only design".)

mod requests;

use std::rc::Rc;
use std::sync::Arc;

use wharf_wire::dma::DmaSpace;
use wharf_wire::identify::DriveFeature;

use crate::design::{Client, Design, DesignConfig, DesignError, Needs, Parts, Statistics, Touch};
use crate::error::IoError;
use crate::hardware::requests::Inner;
use crate::hmb::HmbMemory;
use crate::payload::{From, Into};
use crate::scala::config::ScalaConfig;
use crate::scala::frames::Frames;
use crate::scala::home::SetMap;
use crate::scala::{lend, shares};
use crate::span::Extent;

/// What the clients share: the lent frames.
pub struct Hardware {
    config: DesignConfig,
    own: ScalaConfig,
    space: Arc<DmaSpace>,
    frames: Arc<Frames>,
}

impl Design for Hardware {
    const NAME: &'static str = "hardware";

    const SUMMARY: &'static str =
        "the same without an index on the host: every request pins its pages by command";

    const TABLE: &'static str = "scala";

    type Config = ScalaConfig;

    type Client = HardwareClient;

    fn needs(_: &DesignConfig, _: &ScalaConfig) -> Needs {
        Needs {
            features: &[DriveFeature::Pin],
            bytes_per_page: 32,
            ..Needs::default()
        }
    }

    fn new(
        config: &DesignConfig,
        own: &ScalaConfig,
        space: &Arc<DmaSpace>,
    ) -> Result<Hardware, DesignError> {
        own.check_clients(config.clients)?;
        config.check_striped(Self::NAME)?;
        Ok(Hardware {
            config: *config,
            own: own.clone(),
            space: space.clone(),
            frames: lend(Self::NAME, config, space)?,
        })
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<HardwareClient, DesignError> {
        let (cpu, volume) = (&parts.cpu, parts.cache());
        let map = SetMap::new(&volume);
        let told = (&self.config, &self.own);
        let permits = shares(Self::NAME, told, &self.frames, &map, parts.index)?;
        let design = Self::NAME;
        let (memory, policy) = ((self.frames.clone(), &self.space), self.config.write_policy);
        let inner = Inner::start(cpu, volume, map, permits, memory, policy);
        let inner = inner.map_err(|source| DesignError::Memory { design, source })?;
        Ok(HardwareClient(inner))
    }

    fn hmb_memory(&self, drive: u32) -> Option<HmbMemory> {
        self.frames.memory(drive)
    }
}

/// One client.
pub struct HardwareClient(Rc<Inner>);

impl Client for HardwareClient {
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        let inner = &*self.0;
        inner.counters.reads.add(1);
        inner
            .counters
            .end(inner.serve(extent, Into(out)).await, |touch| *touch)
    }

    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        let inner = &*self.0;
        inner.counters.writes.add(1);
        inner
            .counters
            .end(inner.serve(extent, From(data)).await, |touch| *touch)
    }

    async fn flush(&self) -> Result<(), IoError> {
        let inner = &*self.0;
        inner.counters.flushes.add(1);
        inner
            .counters
            .end(inner.volume.flush(&inner.cpu).await, |()| Touch::default())
    }

    fn statistics(&self) -> Statistics {
        self.0.counters.statistics(&self.0.volume)
    }
}
