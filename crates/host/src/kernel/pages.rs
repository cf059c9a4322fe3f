//! The pages of the cache as one CPU has them: flags, references, page locks, tags.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::sync::Ordering;
use wharf_runtime::{Cpu, Op};

use crate::error::IoError;
use crate::kernel::cpu_lists::CpuLists;
use crate::kernel::frame::{DIRTY, LOCKED, STUCK, WAITERS, WRITEBACK};
use crate::kernel::shared::Shared;
use crate::key::PageKey;
use crate::kit::accounting::Change;
use crate::kit::backing::VolumeFiles;
use crate::kit::common::Common;
use crate::kit::direct_flush::WriterCounters;
use crate::kit::kernel_path::KernelPath;
use crate::kit::memory::Stock;
use crate::kit::pages::Pages;
use crate::kit::tasks::Tasks;
use crate::kit::xarray::Tag;
use crate::parts_of_volume::VolumeParts;
use crate::volume::Volume;

/// See the module.
pub(super) struct CpuPages {
    pub(super) tasks: Tasks,
    pub(super) shared: Arc<Shared>,
    /// The block layer is paid for when requests are made and when they end, here and not below.
    pub(super) backing: VolumeFiles,
    pub(super) counters: WriterCounters,
    pub(super) lists: CpuLists,
    /// Free frames of this CPU.
    pub(super) stock: Stock,
    /// When the rate of write-back was measured last, and the pages written by then.
    pub(super) measured: Cell<(u64, u64)>,
}

impl Pages for CpuPages {
    const WAITERS: u32 = WAITERS;
    const STUCK: u32 = STUCK;
    const WRITEBACK: u32 = WRITEBACK;

    #[inline]
    fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    fn common(&self) -> &Common {
        &self.shared.common
    }

    fn counters(&self) -> &WriterCounters {
        &self.counters
    }

    #[inline]
    fn state(&self, frame: u32) -> u32 {
        self.shared.frames.flags(frame)
    }

    #[inline]
    fn change(&self, frame: u32, set: u32, clear: u32) -> u32 {
        let frames = &self.shared.frames;
        debug_assert!(set == 0 || clear == 0, "one atomic operation");
        match set {
            0 => frames.clear(self.cpu(), frame, clear),
            _ => frames.set(self.cpu(), frame, set),
        }
    }

    #[inline]
    fn look_up(&self, key: PageKey) -> Option<u32> {
        let tree = self.shared.tree(key.file());
        let found = self.cpu().work(Op::TreeLookup, || tree.load(key.page()));
        found.map(|frame| frame as u32)
    }

    #[inline]
    fn hold(&self, frame: u32, key: PageKey) -> bool {
        self.shared.frames.get(self.cpu(), frame, key)
    }

    #[inline]
    fn let_go(&self, frame: u32) {
        self.shared.frames.put(self.cpu(), frame);
    }

    fn stuck(&self, key: PageKey) -> IoError {
        IoError::Stuck {
            page: self.files().in_volume(key.file(), key.page()),
        }
    }
}

impl CpuPages {
    /// A request enters by a system call, unless it comes from within.
    #[inline]
    pub(super) fn enter(&self) {
        self.tasks.kernel_path.request(self.cpu());
    }

    /// The part of CPU `index`.
    pub(super) fn start(
        cpu: &Cpu,
        shared: Arc<Shared>,
        volume: Rc<Volume>,
        index: u32,
    ) -> Rc<CpuPages> {
        let common = &shared.common;
        Rc::new(CpuPages {
            tasks: Tasks::start(cpu, &common.mailboxes, index, common.kernel_path),
            backing: VolumeFiles {
                files: VolumeParts::new(shared.inodes.len() as u32, volume.pages()),
                volume,
                kernel_path: KernelPath::new(false, false),
            },
            counters: WriterCounters::default(),
            lists: CpuLists::new(cpu, &shared),
            stock: Stock::new(shared.limits.free_batch, 0),
            measured: Cell::default(),
            shared,
        })
    }

    #[inline]
    pub(super) fn cpu(&self) -> &Cpu {
        &self.tasks.cpu
    }

    /// How the volume is divided.
    #[inline]
    pub(super) fn files(&self) -> &VolumeParts {
        &self.backing.files
    }

    pub(super) fn volume(&self) -> &Volume {
        &self.backing.volume
    }

    /// Waits until a frame has none of `flags`.
    ///
    /// # Errors
    /// If the drive holds the page and does not answer.
    pub(super) async fn wait_page(
        &self,
        frame: u32,
        flags: u32,
        key: PageKey,
    ) -> Result<(), IoError> {
        self.wait_while(frame, key, |state| state & flags != 0)
            .await
    }

    /// Takes the page lock of a frame if it is free.
    pub(super) fn try_lock_page(&self, frame: u32) -> Option<PageLock<'_>> {
        let is_locked = self.shared.frames.try_lock(self.cpu(), frame);
        is_locked.then(|| PageLock { pages: self, frame })
    }

    /// Takes the page lock of a frame to which the caller has a reference.
    ///
    /// # Errors
    /// If the drive holds the page and does not answer.
    pub(super) async fn lock_page(
        &self,
        frame: u32,
        key: PageKey,
    ) -> Result<PageLock<'_>, IoError> {
        loop {
            if let Some(lock) = self.try_lock_page(frame) {
                return Ok(lock);
            }
            self.wait_page(frame, LOCKED, key).await?;
        }
    }

    /// The page of a frame, which cannot leave it now, is dirty.
    pub(super) fn mark_dirty(&self, frame: u32, key: PageKey) {
        let shared = &self.shared;
        // The look before spares the line.
        if self.is(frame, DIRTY) || self.change(frame, DIRTY, 0) & DIRTY != 0 {
            return;
        }
        shared.dirty.fetch_add(1, Ordering::Relaxed);
        shared
            .dirty_peak
            .fetch_max(shared.unwritten(), Ordering::Relaxed);
        let tree = shared.tree(key.file());
        tree.change(self.cpu(), Change::Dirtied, 1, |tree| {
            let set = || tree.set_tag(key.page(), Tag::Dirty, true);
            self.cpu().work(Op::TreeUpdate, set);
        });
    }
}

/// A page lock; dropping it unlocks.
pub(super) struct PageLock<'a> {
    pages: &'a CpuPages,
    pub(super) frame: u32,
}

impl<'a> PageLock<'a> {
    /// Takes charge of a frame that is locked.
    pub(super) fn of(pages: &'a CpuPages, frame: u32) -> PageLock<'a> {
        PageLock { pages, frame }
    }

    /// Leaves the page locked: a block request unlocks it when it ends.
    pub(super) fn hand_over(self) {
        std::mem::forget(self);
    }
}

impl Drop for PageLock<'_> {
    fn drop(&mut self) {
        self.pages.change_and_wake(self.frame, 0, LOCKED);
    }
}
