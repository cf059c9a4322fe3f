//! What all CPUs share: the files with their indexes, the frames, free memory, and the limits of dirty pages.

use std::sync::Arc;

use wharf_runtime::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use wharf_runtime::{Cpu, Line, Lock};
use wharf_wire::dma::{DmaSpace, RegisterError};

use crate::design::{DesignConfig, Reclaim, Replacement};
use crate::dflush::{Balance, Cursor, Turns};
use crate::kernel_path::KernelPath;
use crate::nodes::{FreeFrames, Nodes};
use crate::scale::background::ReadAheadWork;
use crate::scale::frame::{DIRTY, FAILED, FILLED, Frames, WRITEBACK};
use crate::scale::index::{Index, Tag};
use crate::scale::replacement::{Policy, policy};
use crate::scale::retry::Retry;
use crate::scale::transfer::IN_FLIGHT_MAX;
use crate::waits::{PageWaits, Waiters};
use crate::wake::Mailboxes;

/// Thresholds, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Dirty pages above which the background flusher writes.
    pub dirty_background: u64,
    /// Dirty pages, with those on their way, above which writers flush: the hard threshold. In the operating system the
    /// middle between it and the background threshold, where Linux begins to throttle (`dirty_freerun_ceiling`).
    pub dirty_hard: u64,
    /// Pages that a CPU dirties between two looks at the limits.
    pub dirty_step: u64,
    /// Dirty pages, more or fewer, that a CPU keeps to itself before it tells all.
    pub count_batch: i64,
    /// Requests of a client under way beyond which it waits before it writes back more. Writers that flush without waiting for
    /// their writes would else have the whole of a small cache on its way: together they get a 64th of it, about what the queues
    /// of eight Optane drives (31 of 1,023 requests each, Linux' most) are of 60 GiB.
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
    /// Most pages that a writer above the hard threshold writes before it looks again: as many I/Os, if
    /// they lie apart, as keep what lies below busy.
    pub share_pages: u64,
}

/// A place for an open file.
#[derive(Default)]
pub struct CachedFile<I> {
    /// Page to frame.
    pub index: I,
    /// Where the next flusher looks for dirty pages.
    pub cursor: Cursor,
    /// Write-backs that failed.
    pub failures: AtomicU64,
    /// When they are tried again.
    pub retry: Retry,
}

/// See the module.
pub struct Shared<I> {
    /// Places for files, by number. A place that is given to another file has no pages then.
    pub files: Box<[CachedFile<I>]>,
    /// Of these, so many have had a file.
    files_used: AtomicU32,
    /// Whose turn it is to be flushed.
    pub turns: Turns,
    /// The frames.
    pub frames: Frames,
    /// Whose frames are whose.
    pub nodes: Nodes,
    /// Frames that no CPU has and no page.
    pub free: FreeFrames,
    /// Which page leaves next.
    pub replacement: Box<dyn Policy>,
    /// Thresholds.
    pub limits: Limits,
    /// Number of clients; the service is the CPU after them.
    pub clients: u32,
    /// Dirty pages.
    pub dirty: SharedCount,
    /// Pages on their way to the drive.
    pub writeback: SharedCount,
    /// Pages that the background flusher wrote.
    pub background_written: AtomicU64,
    /// Somebody found no frame: whatever is dirty is to be written.
    pub memory_short: AtomicBool,
    /// Who waits for pages.
    pub page_waits: PageWaits,
    /// Who waits for work to flush.
    pub flusher: Waiters,
    /// Who waits for any transfer to end.
    pub progress: Waiters,
    /// What writers do above the hard threshold.
    pub balance: Balance,
    /// Whether a service flushes in the background.
    pub has_flusher: bool,
    /// Whether the service reads ahead for the clients.
    pub has_read_ahead_thread: bool,
    /// What it is to read.
    pub read_ahead_work: Lock<Vec<ReadAheadWork>>,
    /// Most pages that are read ahead at a time.
    pub window_pages: u64,
    /// When nodes of the indexes go that have become empty.
    pub reclaim: Reclaim,
    /// What is paid to the operating system.
    pub kernel_path: KernelPath,
    /// Most pages that a writer above the hard threshold writes before it looks again.
    pub share_pages: u64,
    /// How tasks of other CPUs are woken.
    pub mailboxes: Arc<Mailboxes>,
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
        let mailboxes = Mailboxes::new(config.clients + 1);
        let nodes = Nodes::new(config.memory_nodes, shape.frames, config.clients);
        let waiters = || Waiters::new(mailboxes.clone());
        Ok(Shared {
            files: (0..shape.files).map(|_| CachedFile::default()).collect(),
            files_used: AtomicU32::new(1),
            turns: Turns::default(),
            frames: Frames::new(shape.frames, space)?,
            nodes,
            free: FreeFrames::all(nodes)?,
            replacement: policy(shape.replacement, nodes, config.clients + 1)?,
            limits: Limits::new(config, shape.balance, shape.frames.into()),
            clients: config.clients,
            dirty: SharedCount::default(),
            writeback: SharedCount::default(),
            background_written: AtomicU64::new(0),
            memory_short: AtomicBool::new(false),
            page_waits: PageWaits::default(),
            flusher: waiters(),
            progress: waiters(),
            balance: shape.balance,
            has_flusher: shape.has_flusher,
            has_read_ahead_thread: shape.has_read_ahead_thread,
            read_ahead_work: Lock::new(Vec::new()),
            window_pages: shape.window_pages,
            reclaim: shape.reclaim,
            kernel_path: KernelPath::new(config.in_kernel, config.file_system),
            share_pages: shape.share_pages,
            mailboxes,
        })
    }

    /// Most pages that one window, or one stride, reads ahead: none is to fill the cache.
    pub fn ahead_pages_max(&self) -> u64 {
        u64::from(self.frames.count() / 4).max(1)
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
        self.files[file as usize].retry.note_success();
        self.files_used.fetch_max(file + 1, Ordering::Relaxed);
    }

    /// Write-backs of a file that failed.
    pub fn failures_of(&self, file: u32) -> u64 {
        self.files[file as usize].failures.load(Ordering::Relaxed)
    }

    /// Write-backs that failed, of any file.
    pub fn failures(&self) -> u64 {
        (0..self.files_used())
            .map(|file| self.failures_of(file))
            .sum()
    }

    /// Moves all but a batch of `own` to the free frames of all; in a small cache, all.
    pub fn give_free(&self, cpu: &Cpu, own: &mut Vec<u32>) {
        let kept = match self.limits.free_batch {
            1 => 0,
            batch => batch,
        };
        self.free.give(cpu, &own[kept..]);
        own.truncate(kept);
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
        assert_eq!(self.page_waits.sleepers(cpu), 0, "nobody waits at rest");
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
