//! The designs `kernel`, the page cache of Linux over NVMe drives as the papers compare with it;
//! `falcon`, the same with a queue and a CPU for the write-back of each drive; and `kernel-dflush`,
//! the same with ScaleCache's direct flush.
//!
//! Problem: what does the page cache that everyone has cost, and where does it stop to scale?
//!
//! Idea: its structure, rebuilt with real bytes: what is a lock there is a
//! [`Lock`](wharf_runtime::Lock) here, what is an atomic on a shared line has a
//! [`Line`](wharf_runtime::Line), so that contention arises as there; what only takes time (system
//! call, block layer, interrupt, context switch) is charged as an operation, at the cost that was
//! measured of the machine's own kernel. The sources followed are those of Linux 6.x; ScalaCache,
//! sections 2.2 and 3.1, and ScaleCache, section 2, describe the same from outside. The volume is
//! one file, as when a block device is opened, or several of equal size.
//!
//! 1. A request enters the kernel and goes page by page: look-up in the file's tree without a lock,
//!    a reference to the page, the copy, the reference back.
//! 2. A missing page takes a frame, by reclaim if none is free, and enters the tree under the
//!    file's lock. It is read with those that are read ahead; the task sleeps until the interrupt.
//! 3. A write copies under the page lock and marks the page as dirty, in the tree too. Too many
//!    dirty pages wake the flusher, and slow the writers down.
//!
//! It is put together of the [`kit`](crate::kit). Its choices:
//!
//! | file | choice | Linux |
//! |---|---|---|
//! | [`frame`] | frames: page flags, references, a page lock, bytes | include/linux/page-flags.h |
//! | `pages.rs` | what a CPU knows of pages: flags, and the [tree](crate::kit::xarray) of each file, under its lock | mm/filemap.c, lib/xarray.c |
//! | `client.rs` | reads and writes | mm/filemap.c |
//! | `cpu_lists.rs`, `reclaim.rs` | batches of a CPU; which page leaves, by [two lists](crate::kit::replacement::two_lists) | mm/swap.c, mm/vmscan.c |
//! | `write_back.rs` | a page is claimed under its lock; block requests and their ends | mm/page-writeback.c, block/ |
//! | `flusher.rs`, `throttle.rs` | who writes back; who waits | fs/fs-writeback.c, mm/page-writeback.c |
//! | `services.rs`, [`neighbour`] | the reclaimer, and who ends half of the flusher's requests | kernel/irq/matrix.c, block/blk-mq.c |
//! | [`drive_queues`] | `falcon`: a queue and a CPU for each drive | |
//! | `truncate.rs` | pages that leave with their file | mm/truncate.c |
//! | [`shared`], `local.rs` | what all CPUs share, what each has: the sum | |
//!
//! Writers of `kernel-dflush` flush as those of ScaleCache ([`writers`](crate::kit::direct_flush)),
//! without its index (section 4.7 of that paper): what the kernel's writers are throttled by is
//! off, and where it would begin they write shares, or files. The flusher is woken as ever.
//!
//! The tasks of a client stand for threads. Not modelled: torn reads (a reader may see half of a
//! write under way in Linux; here the copy is repeated), folios larger than a page, shadow
//! entries, the loss of a page whose write-back failed (here it stays dirty).

mod client;
mod cpu_lists;
pub mod drive_queues;
mod flusher;
pub mod frame;
mod local;
pub mod neighbour;
mod pages;
mod reclaim;
mod services;
pub mod shared;
mod throttle;
mod truncate;
mod write_back;

use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::sync::Ordering;
use wharf_wire::dma::DmaSpace;

use crate::design::{
    Amount, Client, Design, DesignConfig, DesignError, Gauges, Needs, Parts, Statistics, Touch,
    WritePolicy,
};
use crate::dflush::{Balance, SHARE_PAGES};
use crate::error::IoError;
use crate::kernel::flusher::Flusher;
use crate::kernel::local::Local;
use crate::kernel::shared::{Shape, Shared};
use crate::span::Extent;

/// How the cache's write-back reaches the drives.
pub trait WriteBack: Send + Sync + 'static {
    /// The name by which the design is chosen and reported.
    const NAME: &'static str;
    /// What it is, in a few words.
    const SUMMARY: &'static str;
    /// Whether each drive has a queue and a CPU of its own.
    const HAS_DRIVE_QUEUES: bool;
    /// Whether writers flush when too much is dirty, instead of being throttled.
    const WRITERS_FLUSH: bool;
}

/// The flusher sends to all drives itself.
pub struct OneFlusher;

impl WriteBack for OneFlusher {
    const NAME: &'static str = "kernel";
    const SUMMARY: &'static str =
        "the page cache of Linux: XArray under a lock, LRU lists, one flusher";
    const HAS_DRIVE_QUEUES: bool = false;
    const WRITERS_FLUSH: bool = false;
}

/// The flusher hands over to a CPU for each drive.
pub struct PerDrive;

impl WriteBack for PerDrive {
    const NAME: &'static str = "falcon";
    const SUMMARY: &'static str =
        "the same, with a queue and a CPU for the write-back of each drive";
    const HAS_DRIVE_QUEUES: bool = true;
    const WRITERS_FLUSH: bool = false;
}

/// Writers flush beside the flusher.
pub struct ByWriters;

impl WriteBack for ByWriters {
    const NAME: &'static str = "kernel-dflush";
    const SUMMARY: &'static str =
        "the page cache of Linux whose writers flush: ScaleCache without its index";
    const HAS_DRIVE_QUEUES: bool = false;
    const WRITERS_FLUSH: bool = true;
}

/// What the clients share: the page cache.
pub struct PageCache<W: WriteBack> {
    shared: Arc<Shared>,
    policy: WritePolicy,
    write_back: PhantomData<W>,
}

/// The page cache of Linux.
pub type Kernel = PageCache<OneFlusher>;

/// The page cache of Linux over Falcon's block layer.
pub type Falcon = PageCache<PerDrive>;

/// The page cache of Linux with ScaleCache's direct flush.
pub type KernelDflush = PageCache<ByWriters>;

crate::settings! {
    /// What the page caches of an operating system are told.
    pub struct KernelConfig {
        /// What a writer does when too much is dirty, where writers flush (`kernel-dflush`): as
        /// `design.scale.dflush`. `flush-files` bounds what a client of `kernel` and `falcon` has
        /// on its way, too.
        pub dflush: Balance = Balance::Flush;
        /// Most pages that such a writer writes before it looks again.
        pub dflush_share_pages: u32 = SHARE_PAGES, in 1..=1_048_576;
    }
}

/// Drives that have a queue and a CPU of their own.
fn queues<W: WriteBack>(config: &DesignConfig) -> u32 {
    if W::HAS_DRIVE_QUEUES {
        config.drives
    } else {
        0
    }
}

impl<W: WriteBack> Design for PageCache<W> {
    const NAME: &'static str = W::NAME;

    const SUMMARY: &'static str = W::SUMMARY;

    const TABLE: &'static str = "kernel";

    type Config = KernelConfig;

    type Client = KernelClient;

    /// The flusher's CPU, those of the drives, and the flusher's neighbour, which has nothing to do
    /// for a single drive.
    fn needs(config: &DesignConfig, _: &KernelConfig) -> Needs {
        Needs {
            services: 1 + queues::<W>(config) + u32::from(config.drives > 1),
            bytes_per_page: 80,
            in_kernel: true,
            ..Needs::default()
        }
    }

    fn new(
        config: &DesignConfig,
        own: &KernelConfig,
        space: &Arc<DmaSpace>,
    ) -> Result<PageCache<W>, DesignError> {
        let design = Self::NAME;
        let shape = Shape {
            frames: config.frames(design)?,
            files: config.files(design)?,
            queues: queues::<W>(config),
            writers_flush: W::WRITERS_FLUSH,
            balance: own.dflush,
            share_pages: own.dflush_share_pages.into(),
        };
        let shared = Shared::new(config, &shape, space)
            .map_err(|source| DesignError::Memory { design, source })?;
        Ok(PageCache {
            shared: Arc::new(shared),
            policy: config.write_policy,
            write_back: PhantomData,
        })
    }

    fn gauges(&self) -> Gauges {
        let nodes = self.shared.inodes.iter().map(|inode| inode.index.nodes());
        Gauges::none().with_level("index_nodes", Amount::Count(nodes.sum()))
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<KernelClient, DesignError> {
        let local = Local::start(&parts.cpu, self.shared.clone(), parts.cache(), parts.index);
        Ok(KernelClient {
            local,
            policy: self.policy,
        })
    }

    fn serve(self: &Arc<Self>, parts: Parts) -> Result<(), DesignError> {
        let (cpu, volume, index) = (&parts.cpu, parts.cache(), parts.index);
        let number = self.shared.common.clients + index;
        let local = Local::start(cpu, self.shared.clone(), volume, number);
        match index {
            0 => {
                let flusher = Flusher {
                    pages: local.pages.clone(),
                    write_back: local.write_back.clone(),
                };
                cpu.spawn("flusher", flusher.run());
                cpu.spawn("reclaimer", services::reclaim(local.pages.clone()));
            }
            drive if drive as usize <= self.shared.drives.len() => {
                let (pages, transfers) = (local.pages.clone(), local.transfers.clone());
                let serve = services::serve_drive(pages, transfers, drive as usize - 1);
                cpu.spawn("drive queue", serve);
            }
            _ => {
                let serve = services::end_for_flusher(local.pages.clone());
                cpu.spawn("flusher's interrupts", serve);
            }
        }
        Ok(())
    }
}

impl<W: WriteBack> PageCache<W> {
    /// The same for a file system in the operating system: requests come from within, and enter by no system call.
    ///
    /// # Panics
    /// If it has clients.
    #[must_use]
    pub fn from_within(mut self) -> PageCache<W> {
        let shared = Arc::get_mut(&mut self.shared).expect("it has no clients yet");
        shared.common.kernel_path = shared.common.kernel_path.from_within();
        self
    }

    /// What the CPUs share, for reports and checks.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }
}

/// One client.
pub struct KernelClient {
    local: Rc<Local>,
    policy: WritePolicy,
}

impl Client for KernelClient {
    #[inline]
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        let counters = self.local.counters();
        counters.reads.add(1);
        counters.end(self.local.read(extent, out).await, |touch| *touch)
    }

    #[inline]
    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        let counters = self.local.counters();
        counters.writes.add(1);
        let written = self.local.write(extent, data, self.policy).await;
        counters.end(written, |touch| *touch)
    }

    async fn flush(&self) -> Result<(), IoError> {
        let counters = self.local.counters();
        counters.flushes.add(1);
        let files = 0..self.local.pages.files().count();
        let all = files.map(|file| (file, (0, u64::MAX)));
        counters.end(self.local.flush(all).await, |()| Touch::default())
    }

    async fn flush_extent(&self, extent: Extent) -> Result<(), IoError> {
        let (local, counters) = (&self.local, self.local.counters());
        counters.flushes.add(1);
        let flushed = match local
            .pages
            .volume()
            .check(extent.first_page(), extent.pages())
        {
            Ok(()) => local.flush(local.pages.files().ranges(extent)).await,
            Err(error) => Err(error),
        };
        counters.end(flushed, |()| Touch::default())
    }

    async fn discard(&self, extent: Extent) -> Result<(), IoError> {
        let counters = self.local.counters();
        counters.discards.add(1);
        let discarded = self.local.pages.discard(extent.whole_pages()).await;
        counters.end(discarded, |()| Touch::default())
    }

    /// The first client's account has what the flusher and the background reclaimer did as well.
    fn statistics(&self) -> Statistics {
        let local = &self.local;
        let mut statistics = local.counters().statistics(local.pages.volume());
        if local.pages.tasks.index == 0 {
            let shared = &local.pages.shared;
            statistics.evictions += shared.background_evictions.load(Ordering::Relaxed);
            statistics.write_backs += shared.common.background_written.load(Ordering::Relaxed);
        }
        statistics
    }

    fn gauges(&self) -> Gauges {
        let local = &self.local;
        if local.pages.tasks.index > 0 {
            return local.counters().gauges();
        }
        let inodes = local.pages.shared.inodes.iter();
        let waited_ns = inodes.map(|inode| inode.index.waited_ns()).sum();
        let array_driver_ns = local.pages.volume().array_driver_ns();
        local.counters().gauges_of_all(waited_ns, array_driver_ns)
    }
}
