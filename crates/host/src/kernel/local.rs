//! What one CPU has of the kernel: its batches, its free frames, and how its tasks, which stand for
//! threads, wait for pages.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::sync::Ordering;
use wharf_runtime::{Cpu, Notify, Op};

use crate::design::Counters;
use crate::error::IoError;
use crate::errseq::ErrSeqCursor;
use crate::kernel::accounting::Change;
use crate::kernel::frame::{DIRTY, LOCKED, STUCK, WAITERS};
use crate::kernel::shared::{Inode, Shared};
use crate::kernel::xarray::Tag;
use crate::key::PageKey;
use crate::parts_of_volume::Parts;
use crate::readahead::{ReadAhead, WINDOW_PAGES};
use crate::volume::Volume;
use crate::waits::{TimedWait, Waiters};
use crate::wake::{Pause, Sleeper};

/// Frames on their way to or between the lists.
#[derive(Default)]
pub struct Batches {
    /// New in the cache, on no list yet.
    pub add: Vec<u32>,
    /// Touched a second time, with the page that they held then.
    pub activate: Vec<(u32, Option<PageKey>)>,
}

/// See the module.
pub struct Local {
    pub(super) cpu: Cpu,
    pub(super) shared: Arc<Shared>,
    pub(super) volume: Rc<Volume>,
    /// How the volume is divided.
    pub(super) files: Parts,
    /// The client, or as many as there are clients for the service.
    pub(super) index: u32,
    pub(super) is_service: bool,
    pub(crate) counters: Counters,
    pub(super) batches: RefCell<Batches>,
    /// Free frames of this CPU.
    pub(super) free: RefCell<Vec<u32>>,
    /// What this CPU remembers of its readers of each file.
    ahead: RefCell<Vec<ReadAhead>>,
    /// Pages dirtied since the last look at the limits.
    pub(super) dirtied: Cell<u64>,
    /// Pages after which to look again.
    pub(super) dirty_step: Cell<u64>,
    /// Until when the pages that the CPU dirtied are paid for.
    pub(super) paid_until_ns: Cell<u64>,
    /// Failed write-backs of each file that a flush of this client has reported.
    pub(super) told: Box<[ErrSeqCursor]>,
    /// Block requests under way, and who waits for fewer.
    pub(super) in_flight: Cell<u32>,
    pub(super) landed: Notify,
    /// When the rate of write-back was measured last, and the pages written by then.
    pub(super) measured: Cell<(u64, u64)>,
}

impl Local {
    /// The part of CPU `index`, which gets its tasks.
    pub fn start(cpu: &Cpu, shared: Arc<Shared>, volume: Rc<Volume>, index: u32) -> Rc<Local> {
        shared.mailboxes.serve(cpu, index);
        Rc::new(Local {
            cpu: cpu.clone(),
            is_service: index >= shared.clients,
            told: shared.inodes.iter().map(Inode::told).collect(),
            ahead: RefCell::new(
                shared
                    .inodes
                    .iter()
                    .map(|_| ReadAhead::new(WINDOW_PAGES))
                    .collect(),
            ),
            files: Parts::new(shared.inodes.len() as u32, volume.pages()),
            shared,
            volume,
            index,
            counters: Counters::default(),
            batches: RefCell::default(),
            free: RefCell::default(),
            dirtied: Cell::new(0),
            dirty_step: Cell::new(1),
            paid_until_ns: Cell::new(0),
            in_flight: Cell::new(0),
            landed: Notify::new(),
            measured: Cell::default(),
        })
    }

    pub(super) fn sleeper(&self) -> Sleeper {
        Sleeper {
            client: self.index,
            task: self.cpu.current(),
        }
    }

    /// Sleeps as a thread does: another one runs meanwhile, and the switch costs both times.
    pub(super) async fn sleep(&self, until: impl Future<Output = ()>) {
        self.cpu.work(Op::ContextSwitch, || ());
        until.await;
        self.cpu.work(Op::ContextSwitch, || ());
    }

    /// Sleeps until something is woken on `waiters`, but for `most_ns` at most. The caller has
    /// [joined](Waiters::join) and looked at its condition.
    pub(super) async fn wait_at_most(&self, most_ns: u64) {
        let deadline_ns = self.cpu.now() + most_ns;
        self.sleep(TimedWait::until(&self.cpu, deadline_ns)).await;
    }

    /// Enters the running task among those who are woken by `waiters`.
    pub(super) fn join(&self, waiters: &Waiters) {
        waiters.join(&self.cpu, self.sleeper());
    }

    /// Wakes who is on `waiters`.
    pub(super) fn wake(&self, waiters: &Waiters) {
        waiters.wake_all(&self.cpu, self.index);
    }

    /// Does `f` with what is remembered of the readers of a file.
    #[inline]
    pub(super) fn ahead<R>(&self, file: u32, f: impl FnOnce(&mut ReadAhead) -> R) -> R {
        f(&mut self.ahead.borrow_mut()[file as usize])
    }

    /// The frame that holds a page, with a reference to it.
    #[inline]
    pub(super) fn find(&self, key: PageKey) -> Option<Held<'_>> {
        let tree = self.shared.tree(key.file());
        loop {
            let found = self.cpu.work(Op::TreeLookup, || tree.load(key.page()));
            let frame = found? as u32;
            // Fails if the frame is just being taken away: the tree will say so in a moment.
            if self.shared.frames.get(&self.cpu, frame, key) {
                return Some(Held { local: self, frame });
            }
            std::hint::spin_loop();
        }
    }

    /// The error for a page that the drive holds without an answer.
    pub(super) fn stuck(&self, key: PageKey) -> IoError {
        IoError::Stuck {
            page: self.files.in_volume(key.file(), key.page()),
        }
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
        let frames = &self.shared.frames;
        while frames.is(frame, flags) {
            if frames.is(frame, STUCK) {
                return Err(self.stuck(key));
            }
            if self.join_page(frame, flags) {
                self.counters.waits.add(1);
                self.sleep(Pause::default()).await;
            }
        }
        Ok(())
    }

    /// Enters the running task among those who wait for a frame, if it has one of `flags` and may be
    /// waited for; true if so.
    pub(super) fn join_page(&self, frame: u32, flags: u32) -> bool {
        let (cpu, frames) = (&self.cpu, &self.shared.frames);
        let waits = &self.shared.page_waits;
        waits.join(cpu, frame, self.sleeper(), || {
            let seen = frames.set(cpu, frame, WAITERS);
            seen & flags != 0 && seen & STUCK == 0
        })
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
            if self.shared.frames.try_lock(&self.cpu, frame) {
                return Ok(PageLock { local: self, frame });
            }
            self.wait_page(frame, LOCKED, key).await?;
        }
    }

    /// Clears flags of a frame and wakes who waits for that; gives the flags there were.
    pub(super) fn clear_and_wake(&self, frame: u32, flags: u32) -> u32 {
        let before = self.shared.frames.clear(&self.cpu, frame, flags);
        if before & WAITERS != 0 {
            self.wake_page(frame);
        }
        before
    }

    /// Wakes who waits for a frame.
    pub(super) fn wake_page(&self, frame: u32) {
        let (cpu, frames) = (&self.cpu, &self.shared.frames);
        let clear = || {
            frames.clear(cpu, frame, WAITERS);
        };
        for sleeper in self.shared.page_waits.take(cpu, frame, clear) {
            self.shared.mailboxes.wake(&self.cpu, self.index, sleeper);
        }
    }

    /// The page of a frame, which cannot leave it now, is dirty.
    pub(super) fn mark_dirty(&self, frame: u32, key: PageKey) {
        let shared = &self.shared;
        // The look before spares the line.
        if shared.frames.is(frame, DIRTY) || shared.frames.set(&self.cpu, frame, DIRTY) & DIRTY != 0
        {
            return;
        }
        shared.dirty.fetch_add(1, Ordering::Relaxed);
        shared
            .dirty_peak
            .fetch_max(shared.unwritten(), Ordering::Relaxed);
        let tree = shared.tree(key.file());
        tree.change(&self.cpu, Change::Dirtied, 1, |tree| {
            let set = || tree.set_tag(key.page(), Tag::Dirty, true);
            self.cpu.work(Op::TreeUpdate, set);
        });
    }
}

/// A reference to a frame; dropping it gives it back.
pub struct Held<'a> {
    pub(super) local: &'a Local,
    pub(super) frame: u32,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.local.shared.frames.put(&self.local.cpu, self.frame);
    }
}

/// A page lock; dropping it unlocks.
pub struct PageLock<'a> {
    pub(super) local: &'a Local,
    pub(super) frame: u32,
}

impl PageLock<'_> {
    /// Leaves the page locked: a block request unlocks it when it ends.
    pub(super) fn hand_over(self) {
        std::mem::forget(self);
    }
}

impl Drop for PageLock<'_> {
    fn drop(&mut self) {
        self.local.clear_and_wake(self.frame, LOCKED);
    }
}
