//! The design `scala`: the host half of ScalaCache.
//!
//! Problem: a page cache on the host costs CPU time for its index and its replacement, and its locks
//! and messages grow with the number of clients.
//!
//! Idea: the drives keep the cache, in memory that the host lends them; the host only remembers
//! which pages it has asked for.
//!
//! 1. Each drive is lent its part of the cache at boot ([`frames`]).
//! 2. Each client *pins* the pages it uses and keeps them pinned: its [Queue Index](index) tells
//!    where they are. A hit is a look-up there and a copy, without a command, a lock, or a shared
//!    line.
//! 3. The pages of a request that are missing are pinned by one command for each drive. It also
//!    *unpins* the pages that CLOCK chose to leave for them ([`batch`]).
//! 4. A client holds no more frames of any firmware core than its share. So a pin never waits for
//!    another client.
//! 5. While a drive says that it collects garbage, a clean page leaves if one is near, as a dirty one would wait
//!    for the collection.
//! 6. Programs that want to use pages in place hold [guards](guard).
//!
//! A frame gets another page only when no local pin, no copy and no reference of the drive is left: an
//! unpin goes out only for a slot without local pins, and copies do not outlive the step they are
//! made in. Over several drives the pages are striped by the volume. (ScalaCache, sections 4, 5.3 to
//! 5.5.)
//!
//! # The walk of a hit and of a miss
//!
//! The drives keep this cache, in frames of memory that the host lends them at boot (`host/hmb.rs`,
//! `drive/features/pin/host_memory.rs`). A client *pins* the pages that it uses, and keeps them
//! pinned; its Queue Index remembers where they are.
//!
//! **A hit** runs on the client's CPU from end to end: no command, no lock. In a store, one within
//! a page is a plain call (`read_now`, `write_now` of `host/design.rs`), without a task.
//!
//! 1. `host/scala/serve.rs`, `held.rs`: takes the request page by page; each is used and left
//!    before the next (does not know: drives' states).
//! 2. `host/scala/index.rs`, `table.rs`: page to slot and frame: translation cache, then one line
//!    of the table; marks the slot for CLOCK (does not know: other clients, bytes).
//! 3. `host/scala/frames.rs`: read: copies, and looks at the frame's word before and after.
//!    Write: takes the word, copies, sets the dirty bit, gives it back (does not know: who holds
//!    what).
//!
//! **A miss** goes on from step 2:
//!
//! 3. `host/scala/index.rs`: a slot in the set of the page's firmware core; CLOCK says who
//!    leaves, clean pages first while the drive collects (does not know: commands).
//! 4. `host/scala/batch.rs`: gathers the request's missing pages and those that leave: one
//!    command for each drive (does not know: how commands are laid out).
//! 5. `host/pins.rs`: one page in the command itself, more on a list page (does not know: why
//!    these pages).
//! 6. `host/driver/`, `wire/queue.rs`: as for any command (does not know: what a pin is).
//! 7. `drive/features/pin/check.rs`: checks all of it, then a share to every core concerned, to
//!    all in one order (does not know: where pages are).
//! 8. `drive/features/pin/serve.rs`: unpins; admits the pins, all or none; waits in line if
//!    frames are short (does not know: other cores).
//! 9. `drive/ftl/entry.rs`, `cached.rs`: one look at the map entry: frame or below; references,
//!    CLOCK, victims (does not know: bytes, dirty bits, time).
//! 10. `drive/core/cache.rs`: a dirty victim is copied to the write buffer and its frame used at
//!     once (does not know: who pins).
//! 11. `drive/features/pin/fetch.rs`, `nand/`, `media/`, `core/hmb.rs`: the reads of all missing
//!     pages at once, each into its frame (does not know: that there is a cache).
//! * *back*: `host/scala/frames.rs`, `batch.rs`: an address counts only if it is a frame of the
//!   page's core; then the page is used as in a hit.
//!
//! `hardware` is the same without steps 1 to 3 of the hit: it pins, copies and unpins for every
//! request.

pub mod batch;
pub mod client;
pub(crate) mod config;
pub mod copied;
mod entry;
pub mod frames;
pub mod guard;
pub mod held;
pub mod home;
pub mod index;
pub mod notes;
pub mod serve;
mod shares;
mod table;

use std::sync::Arc;

use wharf_wire::dma::{DmaSpace, PAGE_BYTES};
use wharf_wire::identify::DriveFeature;
use wharf_wire::memory::SharedMemory;

use crate::design::{Design, DesignConfig, DesignError, Needs, Parts};
use crate::guest::{SharedDesign, Writers};
use crate::hmb::HmbMemory;
use crate::pins::Pins;
use client::ScalaClient;
use frames::{Frames, frames_per_core};
use held::Held;
use home::SetMap;
use index::SLOTS_MAX;

pub use config::ScalaConfig;
pub use shares::{SHARES_MAX, Shares, SharesError};

/// What the clients share: the lent frames, and how they are divided.
pub struct Scala {
    config: DesignConfig,
    own: ScalaConfig,
    space: Arc<DmaSpace>,
    frames: Arc<Frames>,
}

impl Design for Scala {
    const NAME: &'static str = "scala";

    const SUMMARY: &'static str =
        "a page cache that the drives keep in memory of the host, an index for each client";

    type Config = ScalaConfig;

    type Client = ScalaClient;

    fn needs(config: &DesignConfig, _: &ScalaConfig) -> Needs {
        Needs {
            features: &[DriveFeature::Pin],
            attached_pages: Pins::list_pages(config.drives) as usize,
            bytes_per_page: 160,
            ..Needs::default()
        }
    }

    fn new(
        config: &DesignConfig,
        own: &ScalaConfig,
        space: &Arc<DmaSpace>,
    ) -> Result<Scala, DesignError> {
        own.check_clients(config.clients)?;
        config.check_striped(Self::NAME)?;
        Ok(Scala {
            config: *config,
            own: own.clone(),
            space: space.clone(),
            frames: lend(Self::NAME, config, space)?,
        })
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<ScalaClient, DesignError> {
        let (cpu, volume) = (&parts.cpu, parts.cache());
        let map = SetMap::new(&volume);
        let told = (&self.config, &self.own);
        let slots = shares(Self::NAME, told, &self.frames, &map, parts.index)?;
        let (frames, space) = (self.frames.clone(), &self.space);
        let held = Held::start(cpu, volume, map, &slots, frames, space, told);
        let design = Self::NAME;
        let held = held.map_err(|source| DesignError::Memory { design, source })?;
        Ok(ScalaClient::new(held))
    }

    fn hmb_memory(&self, drive: u32) -> Option<HmbMemory> {
        self.frames.memory(drive)
    }
}

impl SharedDesign for Scala {
    fn shared_parts(config: &DesignConfig) -> Vec<(usize, Writers)> {
        let per_drive = config.cache_bytes / PAGE_BYTES as u64 / u64::from(config.drives.max(1));
        Frames::shared_parts(config.drives, per_drive as u32, config.guests)
    }

    fn shared_memory(&self) -> Vec<Arc<SharedMemory>> {
        self.frames.shared_memory()
    }

    fn attach(
        config: &DesignConfig,
        own: &ScalaConfig,
        space: &Arc<DmaSpace>,
        memories: &[Arc<SharedMemory>],
        guest: u32,
    ) -> Result<Scala, DesignError> {
        let per_drive = frames_per_drive(Self::NAME, config)?;
        let frames = Frames::attach(memories, config.drives, per_drive, guest);
        Ok(Scala {
            config: *config,
            own: own.clone(),
            space: space.clone(),
            frames: Arc::new(frames),
        })
    }

    fn frames_max(&self, cores: u32, index: u32) -> Result<u32, DesignError> {
        let told = (&self.config, &self.own);
        share(Self::NAME, told, &self.frames, cores, index)
    }

    fn admit(&self, guest: u32) {
        self.frames.admit(guest);
    }

    fn mend(&self, but: Option<u32>) {
        self.frames.mend_all(but);
    }

    fn forget(&self, guest: u32) {
        self.frames.forget(guest);
        // What it wrote until now.
        self.frames.mend_all(None);
    }
}

impl Scala {
    /// Bytes of all that keeps book of the frames and is shared by the clients; their indexes come
    /// on top (the gauge `index_bytes` of each client).
    pub fn bookkeeping_bytes(&self) -> usize {
        self.frames.bookkeeping_bytes()
    }
}

/// The frames of a design whose cache the drives keep.
pub(crate) fn lend(
    design: &'static str,
    config: &DesignConfig,
    space: &Arc<DmaSpace>,
) -> Result<Arc<Frames>, DesignError> {
    let per_drive = frames_per_drive(design, config)?;
    let frames = Frames::new(space, config.drives, per_drive, config.guests);
    let frames = frames.map_err(|source| DesignError::Memory { design, source })?;
    Ok(Arc::new(frames))
}

/// How many frames each drive is lent.
fn frames_per_drive(design: &'static str, config: &DesignConfig) -> Result<u32, DesignError> {
    let bytes = config.cache_bytes;
    if config.clients == 0 {
        return Err(DesignError::NoClients { design });
    }
    let per_drive = bytes / PAGE_BYTES as u64 / u64::from(config.drives);
    match per_drive {
        0 => Err(DesignError::CacheTooSmall { design, bytes }),
        _ if per_drive * u64::from(config.drives) > SLOTS_MAX => {
            Err(DesignError::CacheTooLarge { design, bytes })
        }
        _ => Ok(per_drive as u32),
    }
}

/// How many frames of each core of each drive client `index` may hold.
pub(crate) fn shares(
    design: &'static str,
    told: (&DesignConfig, &ScalaConfig),
    frames: &Frames,
    map: &SetMap,
    index: u32,
) -> Result<Vec<u32>, DesignError> {
    let share = share(design, told, frames, map.cores(), index)?;
    Ok(vec![share; (map.cores() * told.0.drives) as usize])
}

/// How many frames of each of `cores` cores of a drive client `index` may hold.
fn share(
    design: &'static str,
    (config, own): (&DesignConfig, &ScalaConfig),
    frames: &Frames,
    cores: u32,
    index: u32,
) -> Result<u32, DesignError> {
    let clients = config.clients;
    let per_drive = frames.per_drive();
    let each = frames_per_core(per_drive, cores);
    let share = own.shares.part(each, index, clients);
    if share == 0 {
        return Err(DesignError::SharesTooSmall {
            design,
            frames: per_drive,
            clients,
            cores,
            bytes_min: (u64::from(clients * cores) * u64::from(config.drives)) * PAGE_BYTES as u64,
        });
    }
    Ok(share)
}
