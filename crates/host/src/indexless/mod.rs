//! `indexless`: a cache on the flash of a drive that compresses, without an index (Hao et al.).
//!
//! The drive of the cache shows more addresses than it has flash, at least twice as many as the disk
//! behind it has: a sector of the disk lies at its own address, so that no index has to say where.
//! Four bits for each sector say what is cached.
//!
//! | file | idea |
//! |---|---|
//! | `word.rs` | four bits of a sector |
//! | `part/` | the words of 8192 sectors, in several forms |
//! | `shard.rs`, `bitmap.rs` | all parts, behind locks |
//! | `policy/` | which sectors leave |
//! | `settings.rs` | what the design is told; where what lies on the drive |
//! | `opening.rs` | made anew or opened again; where the disk is |
//! | `shared.rs` | what clients and keeper share |
//! | `transfer.rs` | pages on their way to or from the drive of the cache |
//! | `client.rs` | reads, writes, discards |
//! | `jobs.rs`, `keeper.rs` | what is asked of the CPU that has the disk |
//! | `disk.rs` | the store on the disk |
//! | `evict.rs` | making room, and the rules that hold through power cuts |

pub mod bitmap;
#[cfg(test)]
mod bitmap_tests;
mod client;
mod disk;
mod evict;
mod jobs;
mod keeper;
mod opening;
pub mod part;
pub mod policy;
mod settings;
mod shard;
mod shared;
mod stretch;
mod transfer;
pub mod word;

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use wharf_runtime::Lock;
use wharf_runtime::range_lock::RangeLocks;
use wharf_runtime::waits::Waiters;
use wharf_runtime::wake::Mailboxes;
use wharf_wire::dma::DmaSpace;

use crate::backing::Contents;
use crate::buffers::Buffers;
use crate::design::{Design, DesignConfig, DesignError, Needs, Parts, Role};
use bitmap::Bitmap;
use disk::{Disk, Volumes};
use jobs::Jobs;
use keeper::Keeper;
use opening::Opening;
use policy::{Continuity, Fifo, ImprovedLru, Lru, Policy, Scan, ScanRules};
use settings::AddressPlan;
use shared::{Known, Numbers, Shared};
use transfer::Mover;

pub use client::IndexlessClient;
pub use opening::{BackingDrives, Disks, OpenError, Start};
pub use settings::{IndexlessConfig, Store};

/// Share of the cache's bytes that parts of the bitmap that are not packed may take.
const RAW_SHARE: u64 = 32_768;

/// Bytes that they may take at least.
const RAW_BYTES_MIN: u64 = 1 << 20;

/// Sectors of metadata beside those of the mapping.
const METADATA_SECTORS: u64 = 16;

/// Which policy a flash cache has.
pub trait Variant: Send + Sync + 'static {
    /// The design's name.
    const NAME: &'static str;
    /// What it is.
    const SUMMARY: &'static str;
    /// Whether the policy is told of every touch.
    const LISTENS: bool;

    /// The policy.
    fn policy(rules: ScanRules) -> Box<dyn Policy>;
}

macro_rules! variants {
    ($($(#[$doc:meta])* $name:ident, $key:literal, $summary:literal, $listens:literal, $policy:expr;)*) => {
        $(
            $(#[$doc])*
            pub struct $name;

            impl Variant for $name {
                const NAME: &'static str = $key;
                const SUMMARY: &'static str = $summary;
                const LISTENS: bool = $listens;

                fn policy(rules: ScanRules) -> Box<dyn Policy> {
                    let policy: fn(ScanRules) -> Box<dyn Policy> = $policy;
                    policy(rules)
                }
            }
        )*
    };
}

variants! {
    /// The second-chance scan.
    SecondChance, "indexless", "a flash cache before a disk, without an index: a second-chance scan", false,
        |rules| Box::new(Scan::new(rules));
    /// The same with exact ranks.
    Ideal, "ideal", "the flash cache with a list of all runs of dirty sectors", false,
        |rules| Box::new(Scan::new(ScanRules { continuity: Continuity::Exact, ..rules }));
    /// Half by LRU.
    HalfLru, "improved-lru", "the flash cache: half of a round by LRU, half by continuity", true,
        |rules| Box::new(ImprovedLru::new(rules));
    /// Least recently used, a round at a time, in the order of addresses.
    LruBatch, "lru", "the flash cache: the least recently used sectors leave, a round at a time", true,
        |_| Box::new(Lru::default());
    /// First in, first out.
    FirstIn, "fifo", "the flash cache: the sectors that came first leave, a round at a time", true,
        |_| Box::new(Fifo::default());
}

/// A flash cache before a disk. See the [module](self).
pub struct Indexless<V, D = BackingDrives> {
    shared: Arc<Shared>,
    known: OnceLock<Arc<Known>>,
    start: Start,
    disks: D,
    /// What metadata sectors hold, of drives in stamp mode.
    metadata: Arc<Contents>,
    transfer_pages: u32,
    variant: PhantomData<V>,
}

impl<V: Variant> Design for Indexless<V> {
    const NAME: &'static str = V::NAME;

    const SUMMARY: &'static str = V::SUMMARY;

    const TABLE: &'static str = "indexless";

    type Config = IndexlessConfig;

    type Client = IndexlessClient;

    fn needs(_: &DesignConfig, _: &IndexlessConfig) -> Needs {
        Needs {
            roles: &[Role::Cache, Role::Backing],
            services: 1,
            ..Needs::default()
        }
    }

    fn new(
        config: &DesignConfig,
        own: &IndexlessConfig,
        space: &Arc<DmaSpace>,
    ) -> Result<Self, DesignError> {
        Indexless::over(
            config,
            own,
            space,
            Start::default(),
            BackingDrives::default(),
        )
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<IndexlessClient, DesignError> {
        self.make_client(parts)
    }

    fn serve(self: &Arc<Self>, parts: Parts) -> Result<(), DesignError> {
        self.start_keeper(parts)
    }
}

impl<V: Variant, D: Disks> Indexless<V, D> {
    /// A cache that begins as `start` says, before the disk that `disks` gives.
    ///
    /// Its clients are made by [`Indexless::make_client`], its keeper, which needs a CPU of its own with queue pairs
    /// of its own, by [`Indexless::start_keeper`]. [`IndexlessClient::opened`] tells when it is open.
    ///
    /// # Errors
    /// As [`Design::new`].
    pub fn over(
        config: &DesignConfig,
        own: &IndexlessConfig,
        space: &Arc<DmaSpace>,
        start: Start,
        disks: D,
    ) -> Result<Self, DesignError> {
        let design = V::NAME;
        let limit = config.cache_bytes / 4096;
        if config.clients == 0 {
            return Err(DesignError::NoClients { design });
        }
        if config.transfer_pages == 0 {
            return Err(DesignError::NoTransferPages { design });
        }
        if limit == 0 {
            let bytes = config.cache_bytes;
            return Err(DesignError::CacheTooSmall { design, bytes });
        }
        let mailboxes = Mailboxes::new(config.clients + 1);
        let shared = Shared {
            space: space.clone(),
            config: own.clone(),
            limit,
            clients: config.clients,
            locks: Arc::new(RangeLocks::new(mailboxes.clone())),
            leaving: Arc::new(RangeLocks::new(mailboxes.clone())),
            jobs: Jobs::new(&mailboxes),
            policy: Lock::new(V::policy(own.rules())),
            policy_listens: V::LISTENS,
            stale: Lock::new(Vec::new()),
            room: Waiters::new(mailboxes.clone()),
            opening: Opening::default(),
            opened: Waiters::new(mailboxes.clone()),
            mailboxes,
        };
        Ok(Indexless {
            shared: Arc::new(shared),
            known: OnceLock::new(),
            start,
            disks,
            metadata: Contents::new(),
            transfer_pages: config.transfer_pages,
            variant: PhantomData,
        })
    }

    /// A client of these parts.
    ///
    /// # Errors
    /// If memory is short.
    pub fn make_client(&self, parts: Parts) -> Result<IndexlessClient, DesignError> {
        let mover = self.mover(&parts)?;
        let known = self.known(&parts);
        Ok(IndexlessClient::new(
            parts.index,
            self.shared.clone(),
            known,
            mover,
        ))
    }

    /// Starts the keeper of these parts. Its tasks run until the machine stops.
    ///
    /// # Errors
    /// If memory is short.
    pub fn start_keeper(self: &Arc<Self>, parts: Parts) -> Result<(), DesignError> {
        let (mover, known, shared) = (self.mover(&parts)?, self.known(&parts), self.shared.clone());
        let design = self.clone();
        shared.mailboxes.serve(&parts.cpu, shared.keeper());
        parts.cpu.clone().spawn("keeper", async move {
            let cpu = parts.cpu.clone();
            let disk = match design.open(&parts, &known).await {
                Ok(disk) => disk,
                Err(error) => {
                    shared.end_opening(&cpu, Err(error));
                    return keeper::refuse(&cpu, &shared, error.into()).await;
                }
            };
            shared.end_opening(&cpu, Ok(()));
            let keeper = Keeper {
                cpu,
                shared,
                known,
                mover,
                disk,
                numbers: Numbers::default(),
                evicts: Cell::new(false),
            };
            Rc::new(keeper).run().await;
        });
        Ok(())
    }

    /// The store on the disk, made or opened.
    async fn open(&self, parts: &Parts, known: &Known) -> Result<Disk<D::Sectors>, OpenError> {
        let volumes = Volumes {
            cpu: &parts.cpu,
            space: &self.shared.space,
            cache: parts.cache(),
            metadata: &self.metadata,
        };
        let disk = self.disks.open(parts, &self.shared.space)?;
        let config = &self.shared.config;
        match self.start {
            Start::Create { names } => {
                Disk::create(&volumes, &disk, &known.plan, config, names).await?;
            }
            Start::Open { .. } => {}
        }
        Ok(Disk::open(&volumes, disk, &known.plan, config).await?)
    }

    fn mover(&self, parts: &Parts) -> Result<Rc<Mover>, DesignError> {
        let design = V::NAME;
        let buffers = Buffers::new(&self.shared.space, self.transfer_pages)
            .map_err(|source| DesignError::Memory { design, source })?;
        Ok(Mover::start(&parts.cpu, parts.cache(), buffers))
    }

    /// What is known once there are drives.
    fn known(&self, parts: &Parts) -> Arc<Known> {
        let known = self.known.get_or_init(|| {
            let sectors = self.disks.sectors(parts);
            let metadata = sectors.div_ceil(256) + METADATA_SECTORS;
            let raw_bytes = (self.shared.limit * 4096 / RAW_SHARE).max(RAW_BYTES_MIN);
            let recovers = matches!(self.start, Start::Open { .. });
            Arc::new(Known {
                plan: AddressPlan::new(sectors, metadata),
                bitmap: Bitmap::new(sectors, raw_bytes as usize, recovers),
            })
        });
        known.clone()
    }
}
