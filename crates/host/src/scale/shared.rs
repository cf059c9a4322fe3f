//! What all CPUs share: the files with their indexes, the frames, free memory, and the limits of
//! dirty pages.

use std::sync::Arc;

use wharf_runtime::sync::{AtomicU32, AtomicU64, Ordering};
use wharf_runtime::{Cpu, Line, Lock};
use wharf_wire::dma::{DmaSpace, RegisterError};

use crate::design::{DesignConfig, Reclaim, Replacement};
use crate::kit::common::Common;
use crate::kit::direct_flush::Balance;
use crate::kit::files::CachedFile;
use crate::kit::index::{Index, Tag};
use crate::kit::kernel_path::KernelPath;
use crate::kit::readahead::Plan;
use crate::kit::transfers::IN_FLIGHT_MAX;
use crate::scale::frame::{DIRTY, FAILED, FILLED, Frames, WRITEBACK};
use crate::scale::replacement::SharedReplacement;
use crate::scale::replacement::chosen::ChosenPolicy;
use crate::scale::replacement::clock::Sweep;
use crate::scale::replacement::two_lists::SharedLists;
use crate::scale::retry::Retry;

/// Thresholds, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Dirty pages above which the background flusher writes.
    pub dirty_background: u64,
    /// Dirty pages, with those on their way, above which writers flush: the hard threshold. In the
    /// operating system the middle between it and the background threshold, where Linux begins to
    /// throttle (`dirty_freerun_ceiling`).
    pub dirty_hard: u64,
    /// Pages that a CPU dirties between two looks at the limits.
    pub dirty_step: u64,
    /// Dirty pages, more or fewer, that a CPU keeps to itself before it tells all.
    pub count_batch: i64,
    /// Requests of a client under way beyond which it waits before it writes back more. Writers
    /// that flush without waiting for their writes would else have the whole of a small cache on
    /// its way: together they get a 64th of it, about what the queues of eight Optane drives (31 of
    /// 1,023 requests each, Linux' most) are of 60 GiB.
    pub in_flight_max: u32,
    /// Free frames that a CPU keeps.
    pub free_batch: usize,
}

impl Limits {
    /// The limits of a cache of `frames` frames. The steps are small enough for all CPUs
    /// together to be wrong by an eighth of the hard limit at most.
    fn new(config: &DesignConfig, balance: Balance, frames: u64) -> Limits {
        let cpus = u64::from(config.clients);
        let share = |share: f64| (frames as f64 * share) as u64;
        let background = share(config.dirty_background_share);
        let hard = share(config.dirty_hard_share).max(1);
        let dirty_hard = match config.in_kernel {
            true => (background.min(hard) + hard).div_ceil(2),
            false => hard,
        };
        let step = (dirty_hard / (16 * cpus)).clamp(1, 32);
        Limits {
            dirty_background: background.min(dirty_hard / 2),
            dirty_hard,
            dirty_step: step,
            count_batch: step as i64,
            in_flight_max: match balance {
                Balance::FlushFiles => (frames / (64 * cpus)).clamp(4, IN_FLIGHT_MAX.into()) as u32,
                _ => IN_FLIGHT_MAX,
            },
            free_batch: (frames / (16 * cpus)).clamp(1, 32) as usize,
        }
    }
}

/// A number that CPUs change in batches, on a line of its own.
#[derive(Default)]
pub struct SharedCount {
    /// As an `i64`: what a CPU took away may come before what another one added.
    count: AtomicU64,
    line: Line,
}

impl SharedCount {
    /// Adds a CPU's batch.
    pub fn add(&self, cpu: &Cpu, batch: i64) {
        self.line.write(cpu);
        // Relaxed: a number that is compared with thresholds orders nothing.
        self.count.fetch_add(batch as u64, Ordering::Relaxed);
    }

    /// The number, without what CPUs still have to themselves.
    pub fn get(&self) -> u64 {
        (self.count.load(Ordering::Relaxed) as i64).max(0) as u64
    }
}

/// What a cache is made of.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Frames.
    pub frames: u32,
    /// Files at a time.
    pub files: u32,
    /// What writers do above the hard threshold.
    pub balance: Balance,
    /// Which page leaves next.
    pub replacement: Replacement,
    /// When nodes of the indexes go that have become empty.
    pub reclaim: Reclaim,
    /// Whether a service flushes in the background.
    pub has_flusher: bool,
    /// Whether the service reads ahead for the clients, which cannot leave transfers behind.
    pub has_read_ahead_thread: bool,
    /// Most pages that are read ahead at a time.
    pub window_pages: u64,
    /// Most pages that a writer above the hard threshold writes before it looks again: as many
    /// I/Os, if they lie apart, as keep what lies below busy.
    pub share_pages: u64,
}

/// Pages of a file to read ahead, for the service.
#[derive(Debug, Clone, Copy)]
pub struct ReadAheadWork {
    pub(super) file: u32,
    pub(super) plan: Plan,
}

/// See the module.
pub struct Shared<I> {
    /// What it has whatever its index and its frames are.
    pub common: Common,
    /// Places for files, by number. A place that is given to another file has no pages then.
    pub files: Box<[CachedFile<I>]>,
    /// When write-backs of theirs that failed are tried again.
    pub(super) retries: Box<[Retry]>,
    /// Of these, so many have had a file.
    files_used: AtomicU32,
    /// The frames.
    pub frames: Frames,
    /// Which page leaves next.
    pub(super) replacement: Box<dyn SharedReplacement>,
    /// Thresholds.
    pub limits: Limits,
    /// Dirty pages.
    pub dirty: SharedCount,
    /// Pages on their way to the drive.
    pub(super) writeback: SharedCount,
    /// Whether a service flushes in the background.
    pub(super) has_flusher: bool,
    /// Whether the service reads ahead for the clients.
    pub(super) has_read_ahead_thread: bool,
    /// What it is to read.
    pub(super) read_ahead_work: Lock<Vec<ReadAheadWork>>,
    /// Most pages that are read ahead at a time.
    pub(super) window_pages: u64,
    /// When nodes of the indexes go that have become empty.
    pub(super) reclaim: Reclaim,
}

impl<I: Index> Shared<I> {
    /// A cache of this shape.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(
        config: &DesignConfig,
        shape: &Shape,
        space: &Arc<DmaSpace>,
    ) -> Result<Shared<I>, RegisterError> {
        let kernel_path = KernelPath::new(config.in_kernel, config.file_system);
        let balance = (shape.balance, shape.share_pages);
        let common = Common::new(config, (shape.frames, 1), kernel_path, balance)?;
        let replacement: Box<dyn SharedReplacement> = match shape.replacement {
            Replacement::Clock => Box::new(Sweep::new(shape.frames)),
            Replacement::TwoLists => Box::new(SharedLists::new(common.nodes, config.clients + 1)?),
            other => Box::new(ChosenPolicy::new(other, common.nodes)?),
        };
        Ok(Shared {
            common,
            files: (0..shape.files).map(|_| CachedFile::default()).collect(),
            retries: (0..shape.files).map(|_| Retry::default()).collect(),
            files_used: AtomicU32::new(1),
            frames: Frames::new(shape.frames, space)?,
            replacement,
            limits: Limits::new(config, shape.balance, shape.frames.into()),
            dirty: SharedCount::default(),
            writeback: SharedCount::default(),
            has_flusher: shape.has_flusher,
            has_read_ahead_thread: shape.has_read_ahead_thread,
            read_ahead_work: Lock::new(Vec::new()),
            window_pages: shape.window_pages,
            reclaim: shape.reclaim,
        })
    }

    /// The index of a file.
    #[inline(always)]
    pub fn index_of(&self, file: u32) -> &I {
        &self.files[file as usize].index
    }

    /// The number of places that have had a file, from 0 on.
    pub fn files_used(&self) -> u32 {
        // Relaxed: a file that has just been opened has nothing to flush.
        self.files_used.load(Ordering::Relaxed)
    }

    /// Says that place `file` is in use.
    pub fn use_file(&self, file: u32) {
        self.retries[file as usize].note_success();
        self.files_used.fetch_max(file + 1, Ordering::Relaxed);
    }

    /// Write-backs of a file that failed.
    pub fn failures_of(&self, file: u32) -> u64 {
        self.files[file as usize].failures()
    }

    /// Write-backs that failed, of any file.
    pub fn failures(&self) -> u64 {
        (0..self.files_used())
            .map(|file| self.failures_of(file))
            .sum()
    }

    /// Pages that the drive does not have yet: dirty, and on their way.
    pub fn unwritten(&self) -> u64 {
        self.dirty.get() + self.writeback.get()
    }

    /// True if the background flusher has work.
    pub fn is_over_background(&self) -> bool {
        self.dirty.get() > self.limits.dirty_background
    }

    /// Checks everything, when no request is under way; gives the number of dirty pages.
    ///
    /// # Panics
    /// If something is in disorder.
    pub fn verify(&self, cpu: &Cpu) -> u64 {
        assert_eq!(
            self.common.page_waits.sleepers(cpu),
            0,
            "nobody waits at rest"
        );
        let (mut dirty, mut pages) = (0, 0);
        for frame in 0..self.frames.count() {
            let state = self.frames.state(frame);
            let Some(key) = self.frames.key(frame) else {
                assert_eq!(state & (FILLED | DIRTY | WRITEBACK), 0, "a free frame");
                continue;
            };
            pages += 1;
            // What is read ahead may still be on its way, with its reader's pin.
            let most_pins = u32::from(state & (FILLED | FAILED) == 0);
            assert!(self.frames.pins(frame) <= most_pins, "pins are taken off");
            assert_eq!(state & WRITEBACK, 0, "no write-back at rest");
            let (index, page) = (self.index_of(key.file()), key.page());
            assert_eq!(index.get(cpu, page), Some(frame), "the index knows it");
            let is_dirty = state & DIRTY != 0;
            dirty += u64::from(is_dirty);
            assert_eq!(index.has_tag(cpu, page, Tag::Dirty), is_dirty);
            assert!(!index.has_tag(cpu, page, Tag::Writeback));
        }
        let indexed: u64 = self.files.iter().map(|file| file.index.verify(cpu)).sum();
        assert_eq!(indexed, pages, "no other pages");
        self.replacement.verify(cpu, &self.frames, pages);
        dirty
    }
}
