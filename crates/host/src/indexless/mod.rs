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
//! | `shared.rs` | what clients and keeper share |
//! | `transfer.rs` | pages on their way to or from the drive of the cache |
//! | `client.rs` | reads, writes, discards |
//! | `jobs.rs`, `keeper.rs` | what is asked of the CPU that has the disk |
//! | `disk.rs` | the store on the disk |
//! | `prepare.rs` | what lies on the disk before a run |
//! | `gauges.rs` | what is reported |
//! | `evict.rs` | making room, and the rules that hold through power cuts |

pub mod bitmap;
#[cfg(test)]
mod bitmap_tests;
mod client;
mod disk;
mod evict;
mod gauges;
mod jobs;
mod keeper;
pub mod part;
pub mod policy;
mod prepare;
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

use wharf_codec::Sizes;
use wharf_runtime::Lock;
use wharf_runtime::range_lock::RangeLocks;
use wharf_runtime::waits::Waiters;
use wharf_runtime::wake::Mailboxes;
use wharf_wire::dma::DmaSpace;

use crate::backing::BackingError;
use crate::buffers::Buffers;
use crate::design::{Design, DesignConfig, DesignError, Gauges, Initial, Needs, Parts, Role};
use bitmap::Bitmap;
use disk::{AllContents, Disk, Volumes};
use gauges::Published;
use jobs::Jobs;
use keeper::Keeper;
use policy::{Continuity, Fifo, ImprovedLru, Lru, Policy, Scan, ScanRules};
use settings::AddressPlan;
use shared::{Known, Numbers, Shared};
use transfer::Mover;

pub use client::IndexlessClient;
pub use settings::{IndexlessConfig, Store};

/// Share of the cache's bytes that parts of the bitmap that are not packed may take.
const RAW_SHARE: u64 = 32_768;

/// Bytes that they may take at least.
const RAW_BYTES_MIN: u64 = 1 << 20;

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
pub struct Indexless<V> {
    shared: Arc<Shared>,
    known: OnceLock<Arc<Known>>,
    contents: AllContents,
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
        let design = Self::NAME;
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
            mailboxes,
            initial: OnceLock::new(),
            sizes: OnceLock::new(),
            published: Published::default(),
        };
        Ok(Indexless {
            shared: Arc::new(shared),
            known: OnceLock::new(),
            contents: AllContents::default(),
            transfer_pages: config.transfer_pages,
            variant: PhantomData,
        })
    }

    fn addressable_bytes(own: &IndexlessConfig, home_bytes: u64) -> u64 {
        own.addressable(home_bytes / 4096) * 4096
    }

    fn shown_bytes(own: &IndexlessConfig, home_bytes: u64) -> u64 {
        let sectors = own.addressable(home_bytes / 4096);
        let plan = AddressPlan::new(sectors, AddressPlan::metadata_of(sectors));
        (plan.metadata() + plan.metadata) * 4096
    }

    fn begin_with(&self, initial: &Initial) -> bool {
        self.shared.initial.set(initial.clone()).is_ok()
    }

    fn stamps_have(&self, sizes: &Sizes) {
        let _ = self.shared.sizes.set(sizes.clone());
    }

    fn gauges(&self) -> Gauges {
        gauges::of_cache(&self.shared, self.known.get().map(|known| &**known))
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<IndexlessClient, DesignError> {
        let mover = self.mover(&parts)?;
        let known = self.known(&parts);
        Ok(IndexlessClient::new(
            parts.index,
            self.shared.clone(),
            known,
            mover,
        ))
    }

    fn serve(self: &Arc<Self>, parts: Parts) -> Result<(), DesignError> {
        let (mover, known, shared) = (self.mover(&parts)?, self.known(&parts), self.shared.clone());
        let (cpu, contents) = (parts.cpu.clone(), self.contents.clone());
        let space = shared.space.clone();
        shared.mailboxes.serve(&cpu, shared.keeper());
        parts.cpu.spawn("keeper", async move {
            let volumes = Volumes {
                cpu: &cpu,
                space: &space,
                cache: parts.devices.volume(Role::Cache),
                backing: parts.devices.volume(Role::Backing),
                contents: &contents,
                sizes: shared.sizes.get(),
            };
            let disk = begin(&volumes, &known, &shared).await;
            if let Some(initial) = shared.initial.get() {
                initial.end(&cpu);
            }
            let disk = match disk {
                Ok(disk) => disk,
                Err(error) => return keeper::refuse(&cpu, &shared, keeper::io_error(error)).await,
            };
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
}

/// A new store, with what is to lie there before anybody is served.
async fn begin(
    volumes: &Volumes<'_>,
    known: &Known,
    shared: &Shared,
) -> Result<Disk, BackingError> {
    let disk = Disk::create(volumes, &known.plan, &shared.config).await?;
    if let Some(initial) = shared.initial.get() {
        let chunk_pages = u64::from(shared.config.initial_chunk_pages);
        let sectors = known.plan.sectors;
        prepare::fill(&disk, initial, (chunk_pages, sectors)).await?;
    }
    shared.published.begin(disk.counters());
    Ok(disk)
}

impl<V: Variant> Indexless<V> {
    fn mover(&self, parts: &Parts) -> Result<Rc<Mover>, DesignError> {
        let design = V::NAME;
        let buffers = Buffers::new(&self.shared.space, self.transfer_pages)
            .map_err(|source| DesignError::Memory { design, source })?;
        Ok(Mover::start(&parts.cpu, parts.cache(), buffers))
    }

    /// What is known once there are drives.
    fn known(&self, parts: &Parts) -> Arc<Known> {
        let known = self.known.get_or_init(|| {
            let disk_sectors = parts.devices.volume(Role::Backing).pages();
            let sectors = self.shared.config.addressable(disk_sectors);
            let metadata = AddressPlan::metadata_of(sectors);
            let raw_bytes = (self.shared.limit * 4096 / RAW_SHARE).max(RAW_BYTES_MIN);
            Arc::new(Known {
                plan: AddressPlan::new(sectors, metadata),
                bitmap: Bitmap::new(sectors, raw_bytes as usize, false),
            })
        });
        known.clone()
    }
}
