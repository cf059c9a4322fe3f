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
//! | `raws.rs` | raw parts, looked at without |
//! | `index.rs` | an index with an entry for each sector, in its place |
//! | `places.rs`, `order.rs` | one or the other; who says which sectors leave |
//! | `policy/` | which sectors leave |
//! | `settings.rs` | what the design is told; where what lies on the drive |
//! | `opening.rs` | made anew or opened again; where the disk is |
//! | `shared.rs` | what clients and keeper share |
//! | `transfer.rs` | pages on their way to or from the drive of the cache |
//! | `mode.rs` | what the cache is used for, and why it was not |
//! | `client.rs` | a client; what comes into the cache |
//! | `read.rs`, `write.rs`, `around.rs`, `discard.rs` | its requests |
//! | `neighbours.rs`, `changes.rs` | what comes in with what was missed, and what it must not overtake |
//! | `jobs.rs`, `keeper.rs` | what is asked of the CPU that has the disk |
//! | `disk.rs` | the store on the disk |
//! | `evict.rs` | making room, and the rules that hold through power cuts |
//! | `trims.rs`, `unsettled.rs` | what is not durable yet: copies given up, writes around the cache |
//! | `room.rs` | how much the cache may hold |
//! | `label.rs` | the superblock |
//! | `recover.rs`, `heat.rs`, `close.rs` | what is cached, and how hot, after opening it again |
//! | `prepare.rs` | what lies on the disk before a run |
//! | `gauges.rs`, `published.rs` | what is reported; what the store did |
//! | `planted.rs` | faults that tests plant |

mod around;
pub mod bitmap;
#[cfg(test)]
mod bitmap_tests;
mod changes;
mod client;
mod close;
mod discard;
mod disk;
mod evict;
mod gauges;
mod heat;
pub mod index;
#[cfg(test)]
mod index_tests;
mod jobs;
mod keeper;
pub(crate) mod label;
mod mode;
mod neighbours;
mod opening;
mod order;
pub mod part;
mod places;
#[doc(hidden)]
pub mod planted;
pub mod policy;
mod prepare;
mod published;
mod raws;
mod read;
mod recover;
mod room;
mod settings;
mod shard;
mod shared;
mod stretch;
mod transfer;
mod trims;
mod unsettled;
pub mod word;
mod write;

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use wharf_codec::Sizes;
use wharf_runtime::range_lock::RangeLocks;
use wharf_runtime::sync::{AtomicBool, AtomicU64, Ordering};
use wharf_runtime::wake::Mailboxes;
use wharf_runtime::{Cpu, Lock};
use wharf_wire::dma::DmaSpace;

use crate::backing::{Contents, VolumeSectors};
use crate::buffers::Buffers;
use crate::design::{Design, DesignConfig, DesignError, Gauges, Initial, Needs, Parts, Role};
use bitmap::Bitmap;
use changes::Changes;
use disk::{Disk, Volumes};
use index::LineIndex;
use jobs::Jobs;
use keeper::Keeper;
use mode::{ModeSwitch, Reasons};
use opening::Opening;
use order::Order;
use places::Places;
use planted::Planted;
use policy::{Continuity, Fifo, ImprovedLru, Lru, Policy, Scan, ScanRules};
use published::Published;
use room::Room;
use shared::{Known, Numbers, Shared};
use transfer::Mover;
use trims::Trims;
use unsettled::Unsettled;

pub use client::IndexlessClient;
pub use label::Label;
pub use mode::{Mode, Reason, Status};
pub use opening::{BackingDrives, Disks, OpenError, Start};
pub use settings::{AddressPlan, IndexlessConfig, Store};

/// Share of the cache's bytes that parts of the bitmap that are not packed may take.
const RAW_SHARE: u64 = 32_768;

/// Bytes that they may take at least.
const RAW_BYTES_MIN: u64 = 1 << 20;

/// Which policy a flash cache has, and what says where sectors are.
pub trait Variant: Send + Sync + 'static {
    /// The design's name.
    const NAME: &'static str;
    /// What it is.
    const SUMMARY: &'static str;
    /// Whether the policy is told of every touch.
    const LISTENS: bool;
    /// What the cache is used for to begin with.
    const MODE: Mode;

    /// The policy. Without one there is an [`index`] in the place of the bitmap, and the least recently used leave.
    fn policy(rules: ScanRules) -> Option<Box<dyn Policy>>;
}

macro_rules! variants {
    ($($(#[$doc:meta])* $name:ident, $key:literal, $summary:literal, $listens:literal, $mode:ident, $policy:expr;)*) => {
        $(
            $(#[$doc])*
            pub struct $name;

            impl Variant for $name {
                const NAME: &'static str = $key;
                const SUMMARY: &'static str = $summary;
                const LISTENS: bool = $listens;
                const MODE: Mode = Mode::$mode;

                fn policy(rules: ScanRules) -> Option<Box<dyn Policy>> {
                    let policy: fn(ScanRules) -> Option<Box<dyn Policy>> = $policy;
                    policy(rules)
                }
            }
        )*
    };
}

variants! {
    /// The second-chance scan.
    SecondChance, "indexless", "a flash cache before a disk, without an index: a second-chance scan", false, WriteBack,
        |rules| Some(Box::new(Scan::new(rules)));
    /// The same with exact ranks.
    Ideal, "ideal", "the flash cache with a list of all runs of dirty sectors", false, WriteBack,
        |rules| Some(Box::new(Scan::new(ScanRules { continuity: Continuity::Exact, ..rules })));
    /// Half by LRU.
    HalfLru, "improved-lru", "the flash cache: half of a round by LRU, half by continuity", true, WriteBack,
        |rules| Some(Box::new(ImprovedLru::new(rules)));
    /// Least recently used, a round at a time, in the order of addresses.
    LruBatch, "lru", "the flash cache: the least recently used sectors leave, a round at a time", true, WriteBack,
        |_| Some(Box::new(Lru::default()));
    /// First in, first out.
    FirstIn, "fifo", "the flash cache: the sectors that came first leave, a round at a time", true, WriteBack,
        |_| Some(Box::new(Fifo::default()));
    /// An index, as caches before this one have it.
    OpenCas, "opencas", "the flash cache with an index entry for each sector, as Open CAS has: LRU", true, WriteBack,
        |_| None;
    /// Writes go to the disk at once.
    Through, "through", "the flash cache with write-through: nothing in it is dirty", false, WriteThrough,
        |rules| Some(Box::new(Scan::new(rules)));
    /// No cache.
    DirectDisk, "direct-disk", "the disk behind a flash cache that is not used", false, Bypass,
        |rules| Some(Box::new(Scan::new(rules)));
}

/// A cache that is open.
struct Opened<S> {
    disk: Disk<S>,
    own: VolumeSectors,
    label: Label,
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

    fn addressable_bytes(own: &IndexlessConfig, home_bytes: u64) -> u64 {
        own.addressable(home_bytes / 4096) * 4096
    }

    fn shown_bytes(_: &IndexlessConfig, home_bytes: u64) -> u64 {
        AddressPlan::new(home_bytes / 4096).drive_sectors() * 4096
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
            clients: config.clients,
            locks: Arc::new(RangeLocks::new(mailboxes.clone())),
            leaving: Arc::new(RangeLocks::new(mailboxes.clone())),
            jobs: Jobs::new(&mailboxes),
            order: match V::policy(own.rules()) {
                Some(policy) => Order::Policy {
                    policy: Lock::new(policy),
                    listens: V::LISTENS,
                },
                None => Order::Index(LineIndex::new(limit)),
            },
            stale: Lock::new(Vec::new()),
            trims: Trims::default(),
            unsettled: Unsettled::default(),
            changes: Changes::default(),
            mode: ModeSwitch::new(V::MODE),
            reasons: Reasons::default(),
            is_disk_full: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            is_tight: AtomicBool::new(false),
            refused: AtomicU64::new(0),
            dirty_since_ns: AtomicU64::new(u64::MAX),
            planted: Planted::default(),
            room: Arc::new(Room::new(limit, own.round_share, &mailboxes)),
            opening: Opening::new(&mailboxes),
            initial: OnceLock::new(),
            sizes: OnceLock::new(),
            published: Published::default(),
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
            let opened = design.open(&parts, &known).await;
            if let Some(initial) = shared.initial.get() {
                initial.end(&cpu);
            }
            let opened = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    shared.opening.end(&cpu, shared.keeper(), Err(error));
                    return keeper::refuse(&cpu, &shared, error.into()).await;
                }
            };
            let keeper = Rc::new(Keeper {
                cpu: cpu.clone(),
                shared: shared.clone(),
                known,
                mover,
                disk: opened.disk,
                own: opened.own,
                label: Cell::new(opened.label),
                numbers: Numbers::default(),
                evicts: Cell::new(false),
                failure: Cell::new(None),
                rounds: Cell::new(0),
                snapshot_from: Cell::new(0),
                drained_to: Cell::new(0),
            });
            let usable = keeper.disk.pages().min(keeper.known.plan.sectors);
            shared.opening.end(&cpu, shared.keeper(), Ok(usable));
            if matches!(design.start, Start::Open { .. }) {
                keeper.begin_learning();
            }
            keeper.run().await;
        });
        Ok(())
    }

    /// The store on the disk, made or opened, and what is known of the cache itself.
    async fn open(&self, parts: &Parts, known: &Known) -> Result<Opened<D::Sectors>, OpenError> {
        let (shared, plan, cache) = (&self.shared, &known.plan, parts.cache());
        let (shown, needed) = (cache.pages(), plan.drive_sectors());
        if shown < needed {
            let disk = plan.sectors;
            return Err(OpenError::TooSmall {
                disk,
                needed,
                shown,
            });
        }
        let volumes = Volumes {
            cpu: &parts.cpu,
            space: &shared.space,
            cache: cache.clone(),
            metadata: &self.metadata,
            sizes: shared.sizes.get(),
        };
        let (own, page_bytes) = (volumes.own(plan)?, shared.space.page_bytes());
        let disk = self.disks.open(parts, &shared.space)?;
        let label = match self.start {
            Start::Create { names } => {
                let config = &shared.config;
                let label = Label::new(config, page_bytes, plan.sectors, names);
                opening::clear(&parts.cpu, &cache)
                    .await
                    .map_err(OpenError::Cache)?;
                Disk::create(&volumes, &disk, plan, config, names).await?;
                label
            }
            Start::Open { names } => {
                let label = Label::read(&own).await?;
                label.check(page_bytes, plan.sectors, names)?;
                label
            }
        };
        let disk = Disk::open(&volumes, disk, plan, &label.apply(&shared.config)).await?;
        shared.room.begin_learning(label.cached_max);
        let label = Label {
            epoch: label.epoch.saturating_add(1),
            is_clean: false,
            cached_max: label.cached_max.max(shared.room.limit),
            ..label
        };
        label.write(&own).await?;
        if let Some(initial) = shared.initial.get() {
            let chunk_pages = u64::from(shared.config.initial_chunk_pages);
            let sectors = plan.sectors.min(disk.pages());
            prepare::fill(&disk, initial, (chunk_pages, sectors)).await?;
        }
        shared.published.begin(disk.counters());
        Ok(Opened { disk, own, label })
    }

    /// Changes what the cache is used for, at once. Where nothing is to be dirty, what is dirty is written to the disk
    /// from the next request on.
    pub fn set_mode(&self, mode: Mode) {
        self.shared.mode.set(mode);
    }

    /// What the cache is now, for whoever is on `cpu`.
    pub fn status(&self, cpu: &Cpu) -> Status {
        let (shared, bitmap) = (&self.shared, self.known.get().map(|known| &known.bitmap));
        let totals = bitmap.map(Places::totals).unwrap_or_default();
        let since_ns = shared.dirty_since_ns.load(Ordering::Relaxed);
        Status {
            mode: shared.mode.get(),
            cached: totals.cached,
            dirty: totals.dirty,
            unlearned_max: shared.room.unlearned(),
            limit: shared.room.limit,
            dirty_age_max_ns: cpu.now().saturating_sub(since_ns),
            bitmap_bytes: bitmap.map_or(0, |bitmap| bitmap.memory_bytes(cpu) as u64),
            policy_bytes: shared.order.memory_bytes(cpu) as u64,
            reasons: Reason::ALL
                .map(|reason| (reason, shared.reasons.get(reason)))
                .to_vec(),
            is_stuck: shared.is_stuck.load(Ordering::Relaxed),
        }
    }

    /// Breaks a rule, to see that a test finds it.
    #[doc(hidden)]
    pub fn plant(&self, fault: planted::Fault) {
        self.shared.planted.plant(fault);
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
            let raw_bytes = (self.shared.room.limit * 4096 / RAW_SHARE).max(RAW_BYTES_MIN);
            let recovers = matches!(self.start, Start::Open { .. });
            Arc::new(Known {
                plan: AddressPlan::new(sectors),
                bitmap: match &self.shared.order {
                    Order::Policy { .. } => {
                        Places::Bitmap(Bitmap::new(sectors, raw_bytes as usize, recovers))
                    }
                    Order::Index(index) => {
                        index.begin(&parts.cpu, sectors, recovers);
                        Places::Index(index.clone())
                    }
                },
            })
        });
        known.clone()
    }
}
