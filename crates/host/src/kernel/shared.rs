//! What all CPUs share: the files, their frames, lists, free memory, and the limits.

use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_runtime::sync::{AtomicU64, Ordering};
use wharf_runtime::waits::Waiters;
use wharf_wire::dma::{DmaSpace, RegisterError};

use crate::design::DesignConfig;
use crate::kernel::drive_queues::DriveQueue;
use crate::kernel::frame::{DIRTY, Frames, LOCKED, UPTODATE, WRITEBACK};
use crate::kernel::neighbour::Neighbour;
use crate::kit::common::Common;
use crate::kit::direct_flush::Balance;
use crate::kit::files::CachedFile;
use crate::kit::kernel_path::KernelPath;
use crate::kit::node_lists::NodeLists;
use crate::kit::replacement::two_lists::{BATCH, List};
use crate::kit::transfers::IN_FLIGHT_MAX;
use crate::kit::xarray::{Tag, XArray};

/// Rate of write-back before it is measured, in pages a second: 100 MB/s (`INIT_BW` in
/// mm/page-writeback.c).
const BANDWIDTH_START: u64 = (100 << 20) / 4096;

/// Thresholds, in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Dirty pages above which the flusher writes.
    pub dirty_background: u64,
    /// Dirty pages, with those on their way, above which writers wait.
    pub dirty_hard: u64,
    /// Pages that a CPU dirties between two looks at the limits.
    pub dirty_step: u64,
    /// Requests of a client under way beyond which it waits before it writes back more. Writers
    /// that flush without waiting for their writes would else have the whole of a small cache on
    /// its way: together they get a 64th of it, about what the queues of eight Optane drives (31 of
    /// 1,023 requests each, Linux' most) are of 60 GiB.
    pub in_flight_max: u32,
    /// Free frames below which the background reclaimer starts.
    pub free_low: u64,
    /// Free frames at which it stops.
    pub free_high: u64,
    /// Pages of a CPU's batch on the way to a list.
    pub list_batch: usize,
    /// Frames that a CPU takes from the free ones at once.
    pub free_batch: usize,
    /// Pages that a reclaimer looks for at a time.
    pub reclaim_batch: u32,
}

impl Limits {
    /// The kernel's rules for a cache of `frames` frames.
    ///
    /// * Between the limits: mm/page-writeback.c. A step is what the kernel calls
    ///   `ratelimit_pages`.
    /// * Low and high mark: a quarter of `min_free_kbytes` and its double (mm/page_alloc.c), at
    ///   most 1/128 of the frames. The reserve below the low mark, which the kernel keeps for
    ///   interrupts, is no part of a cache: frames are used to the last.
    /// * Batches: 15 and 31, less where all CPUs' batches together would keep a 16th of the frames.
    ///   A reclaimer looks for 32 pages (`SWAP_CLUSTER_MAX`), in a small cache for a 64th.
    pub fn new(config: &DesignConfig, balance: Balance, frames: u64) -> Limits {
        let cpus = u64::from(config.clients);
        let share = |share: f64| (frames as f64 * share) as u64;
        let dirty_hard = share(config.dirty_hard_share).max(1);
        let mut dirty_background = share(config.dirty_background_share);
        if dirty_background >= dirty_hard {
            dirty_background = dirty_hard / 2;
        }
        let free_low = ((frames * 4 * 16).isqrt() / 4 / 4).min(frames / 128);
        let batch = |most: u64| most.min(frames / (16 * cpus)).max(1) as usize;
        Limits {
            dirty_background,
            dirty_hard,
            dirty_step: (dirty_hard / (32 * cpus))
                .max(16)
                .min(dirty_hard / (4 * cpus))
                .max(1),
            in_flight_max: match balance {
                Balance::FlushFiles => (frames / (64 * cpus)).clamp(4, IN_FLIGHT_MAX.into()) as u32,
                _ => IN_FLIGHT_MAX,
            },
            free_low,
            free_high: 2 * free_low,
            list_batch: batch(BATCH as u64),
            free_batch: batch(31),
            reclaim_batch: (frames / 64).clamp(1, 32) as u32,
        }
    }

    /// Dirty pages up to which nobody is bothered.
    pub fn free_run(&self) -> u64 {
        (self.dirty_background + self.dirty_hard) / 2
    }
}

/// What a cache is made of.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Frames.
    pub frames: u32,
    /// Files.
    pub files: u32,
    /// Drives that have a queue and a CPU of their own.
    pub queues: u32,
    /// Whether writers flush when too much is dirty, instead of being throttled.
    pub writers_flush: bool,
    /// What they do then.
    pub balance: Balance,
    /// Most pages that such a writer writes before it looks again.
    pub share_pages: u64,
}

/// See the module.
pub struct Shared {
    /// What it has whatever its index and its frames are.
    pub common: Common,
    /// The files, by number.
    pub inodes: Box<[CachedFile<XArray>]>,
    /// The frames.
    pub frames: Frames,
    /// Which to give up.
    pub lru: NodeLists,
    /// Thresholds.
    pub limits: Limits,
    /// Dirty pages.
    pub dirty: AtomicU64,
    /// Pages on their way to the drive.
    pub writeback: AtomicU64,
    /// Pages that have got there.
    pub written: AtomicU64,
    /// The most that `dirty` and `writeback` together have been.
    pub dirty_peak: AtomicU64,
    /// Pages per second that write-back achieves.
    pub bandwidth: AtomicU64,
    /// Who has written lately: a bit for each CPU, modulo 64; and in the period before.
    pub writers: [AtomicU64; 2],
    /// Pages that the background reclaimer took out.
    pub background_evictions: AtomicU64,
    /// The background reclaimer, when it sleeps.
    pub reclaimer: Waiters,
    /// Whether writers flush when too much is dirty, instead of being throttled.
    pub writers_flush: bool,
    /// What each drive is to write; none where the flusher sends to the drives itself.
    pub drives: Box<[DriveQueue]>,
    /// The flusher's neighbour.
    pub neighbour: Neighbour,
}

impl Shared {
    /// An empty cache of this shape in `space`.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(
        config: &DesignConfig,
        shape: &Shape,
        space: &Arc<DmaSpace>,
    ) -> Result<Shared, RegisterError> {
        let (frames, services) = (shape.frames, 2 + shape.queues);
        let kernel_path = KernelPath::new(true, config.file_system);
        let balance = (shape.balance, shape.share_pages);
        let common = Common::new(config, (frames, services), kernel_path, balance)?;
        let mailboxes = &common.mailboxes;
        Ok(Shared {
            inodes: (0..shape.files).map(|_| CachedFile::default()).collect(),
            frames: Frames::new(frames, space)?,
            lru: NodeLists::new(common.nodes)?,
            limits: Limits::new(config, shape.balance, frames.into()),
            dirty: AtomicU64::new(0),
            writeback: AtomicU64::new(0),
            written: AtomicU64::new(0),
            dirty_peak: AtomicU64::new(0),
            bandwidth: AtomicU64::new(BANDWIDTH_START),
            writers: Default::default(),
            background_evictions: AtomicU64::new(0),
            reclaimer: Waiters::new(mailboxes.clone()),
            writers_flush: shape.writers_flush,
            drives: (0..shape.queues)
                .map(|_| DriveQueue::new(mailboxes.clone()))
                .collect(),
            neighbour: Neighbour::new(mailboxes.clone()),
            common,
        })
    }

    /// Pages that the drive does not have yet: dirty, and on their way. The counts are relaxed:
    /// they are compared with thresholds, and the kernel's are batched per CPU and no more exact.
    pub fn unwritten(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed) + self.writeback.load(Ordering::Relaxed)
    }

    /// The tree of a file.
    #[inline]
    pub fn tree(&self, file: u32) -> &XArray {
        &self.inodes[file as usize].index
    }

    /// Pages of a file that could not be written.
    pub fn failures_of(&self, file: u32) -> u64 {
        self.inodes[file as usize].failures()
    }

    /// Pages of any file that could not be written.
    pub fn failures(&self) -> u64 {
        (0..self.inodes.len() as u32)
            .map(|file| self.failures_of(file))
            .sum()
    }

    /// CPU `index` dirties pages.
    pub fn note_writer(&self, index: u32) {
        // Relaxed, as all of the throttle: estimates.
        self.writers[0].fetch_or(1 << (index % 64), Ordering::Relaxed);
    }

    /// CPUs that have dirtied pages in this period or the last; one at least.
    pub fn writers(&self) -> u64 {
        let bits = self.writers.each_ref().map(|w| w.load(Ordering::Relaxed));
        u64::from((bits[0] | bits[1]).count_ones()).max(1)
    }

    /// Begins another period.
    pub fn turn_writers(&self) {
        let latest = self.writers[0].swap(0, Ordering::Relaxed);
        self.writers[1].store(latest, Ordering::Relaxed);
    }

    /// True if the flusher has work.
    pub fn is_over_background(&self) -> bool {
        self.dirty.load(Ordering::Relaxed) > self.limits.dirty_background
    }

    /// Checks everything, when no request is under way.
    ///
    /// # Panics
    /// If something is in disorder.
    pub fn verify(&self, cpu: &Cpu) {
        for inode in &self.inodes {
            inode.index.with(cpu, |tree| tree.verify());
        }
        assert_eq!(
            self.common.page_waits.sleepers(cpu),
            0,
            "nobody waits at rest"
        );
        let waiting: u32 = self.drives.iter().map(DriveQueue::waiting).sum();
        assert_eq!(waiting, 0, "all pieces were taken");
        let (mut dirty, mut entries) = (0, 0);
        for frame in 0..self.frames.count() {
            let flags = self.frames.flags(frame);
            let Some(key) = self.frames.key(frame) else {
                assert_eq!(
                    (flags, self.frames.references(frame)),
                    (0, 0),
                    "a free frame"
                );
                continue;
            };
            entries += 1;
            // What is read ahead may still be on its way.
            let is_read = flags & (LOCKED | UPTODATE) == LOCKED;
            assert!(is_read || flags & LOCKED == 0, "page locks are given back");
            assert_eq!(flags & WRITEBACK, 0, "no write-back at rest");
            assert_eq!(
                self.frames.references(frame),
                1,
                "the cache's own reference"
            );
            let (tree, page) = (self.tree(key.file()), key.page());
            assert_eq!(
                tree.load(page),
                Some(frame.into()),
                "the file knows the frame"
            );
            let is_dirty = flags & DIRTY != 0;
            dirty += u64::from(is_dirty);
            tree.with(cpu, |tree| {
                assert_eq!(
                    tree.has_tag(page, Tag::Dirty),
                    is_dirty,
                    "the tag says so too"
                );
                assert!(!tree.has_tag(page, Tag::Writeback), "no write-back at rest");
            });
        }
        assert_eq!(self.unwritten(), dirty, "dirty pages counted");
        let entries_of =
            |inode: &CachedFile<XArray>| inode.index.with(cpu, |tree| tree.size().entries);
        let indexed: u64 = self.inodes.iter().map(entries_of).sum();
        assert_eq!(indexed, entries, "no other entries");
        for node in self.lru.nodes().from(0) {
            self.lru.with(cpu, node, |lru| {
                for frame in lru.iter(List::Inactive).chain(lru.iter(List::Active)) {
                    assert!(self.frames.key(frame).is_some(), "no free frame on a list");
                }
            });
        }
    }
}
