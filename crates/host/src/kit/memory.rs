//! Memory: frames for pages.
//!
//! 1. A CPU takes frames from a small [stock](Stock) of its own, which it fills from the free ones
//!    of its memory node, or of the next that has any.
//! 2. When there are none, it reclaims: which pages leave is the design's business ([`Reclaims`]).
//! 3. If that brings nothing, dirty pages must be written first; the task waits for that, or does
//!    it where there is no flusher.

use std::cell::RefCell;
use std::rc::Rc;

use wharf_runtime::sync::Ordering;

use crate::error::IoError;
use crate::key::PageKey;
use crate::kit::nodes::FreeFrames;
use crate::kit::tasks::Tasks;
use crate::kit::write_back::WriteBack;
use crate::kit::writers::DirtyPages;

/// Longest wait before memory is looked for again: a tick of 1 kHz.
pub(crate) const NAP_NS: u64 = 1_000_000;

/// A task that got no frame for so long fails. (Linux kills a program then.)
const PATIENCE_NS: u64 = 10_000_000_000;

/// Free frames of a CPU.
pub(crate) struct Stock {
    own: RefCell<Vec<u32>>,
    /// Frames that are taken at a time.
    batch: usize,
    /// Frames that stay when there are too many.
    keeps: usize,
}

impl Stock {
    /// None yet.
    pub(crate) fn new(batch: usize, keeps: usize) -> Stock {
        Stock {
            own: RefCell::default(),
            batch,
            keeps,
        }
    }

    /// A free frame; `refilled` is told when others were taken for it from those of all.
    fn take(
        &self,
        tasks: &Tasks,
        (free, home): (&FreeFrames, usize),
        refilled: impl FnOnce(),
    ) -> Option<u32> {
        tasks.kernel_path.frame(&tasks.cpu);
        let mut own = self.own.borrow_mut();
        if own.is_empty() {
            free.take(&tasks.cpu, home, self.batch, &mut own);
            refilled();
        }
        own.pop()
    }

    fn give(&self, tasks: &Tasks, free: &FreeFrames, frame: u32) {
        tasks.kernel_path.frame(&tasks.cpu);
        let mut own = self.own.borrow_mut();
        own.push(frame);
        if own.len() > 2 * self.batch || self.batch == 1 {
            free.give(&tasks.cpu, &own[self.keeps..]);
            own.truncate(self.keeps);
        }
    }

    /// Gives all to the other CPUs.
    pub(crate) fn give_all(&self, tasks: &Tasks, free: &FreeFrames) {
        free.give(&tasks.cpu, &self.own.take());
    }
}

/// Which pages leave when there is no free frame.
pub(crate) trait Reclaims: DirtyPages {
    /// Whether a flusher writes for those who find no frame.
    fn has_flusher(&self) -> bool {
        true
    }

    /// The CPU's free frames.
    fn stock(&self) -> &Stock;

    /// Frames were taken from those of all.
    fn refilled(&self) {}

    /// Tries to free frames, without sleeping.
    fn reclaim(&self);

    /// Write-backs of any file that failed.
    fn failures(&self) -> u64;

    /// Why there is no frame for a page, where no write-back failed.
    fn no_frame(&self, key: PageKey) -> IoError;

    /// The memory node of this CPU.
    fn home(&self) -> usize {
        self.common().nodes.of_client(self.tasks().index)
    }

    /// Frees a frame.
    fn give_free(&self, frame: u32) {
        self.stock().give(self.tasks(), &self.common().free, frame);
    }

    /// A free frame, if one can be had without sleeping.
    fn try_allocate(&self) -> Option<u32> {
        let free = (&self.common().free, self.home());
        let take = || self.stock().take(self.tasks(), free, || self.refilled());
        take().or_else(|| {
            self.reclaim();
            take()
        })
    }
}

/// The memory of a CPU. See the module.
pub(crate) struct Memory<P> {
    pages: Rc<P>,
    write_back: Rc<WriteBack<P>>,
}

impl<P: Reclaims> Memory<P> {
    /// Of a CPU with this write-back.
    pub(crate) fn new(write_back: &Rc<WriteBack<P>>) -> Rc<Memory<P>> {
        Rc::new(Memory {
            pages: write_back.pages.clone(),
            write_back: write_back.clone(),
        })
    }

    /// A free frame for a page.
    ///
    /// # Errors
    /// If there was none for ten seconds.
    pub(crate) async fn allocate(&self, key: PageKey) -> Result<u32, IoError> {
        match self.pages.try_allocate() {
            Some(frame) => Ok(frame),
            None => self.allocate_slowly(key).await,
        }
    }

    #[cold]
    async fn allocate_slowly(&self, key: PageKey) -> Result<u32, IoError> {
        let began_ns = self.pages.tasks().cpu.now();
        let allocated = self.allocate_or_wait(key).await;
        let waited_ns = self.pages.tasks().cpu.now() - began_ns;
        self.pages.counters().memory_ns.add(waited_ns);
        allocated
    }

    async fn allocate_or_wait(&self, key: PageKey) -> Result<u32, IoError> {
        let (pages, tasks, common) = (&*self.pages, self.pages.tasks(), self.pages.common());
        let deadline_ns = tasks.cpu.now() + PATIENCE_NS;
        let failures = pages.failures();
        while tasks.cpu.now() < deadline_ns {
            tasks.join(&common.progress);
            if let Some(frame) = pages.try_allocate() {
                return Ok(frame);
            }
            pages.counters().waits.add(1);
            if !pages.has_flusher() && self.write_back.flush_share().await > 0 {
                continue;
            }
            common.memory_short.store(true, Ordering::Relaxed);
            tasks.wake(&common.flusher);
            tasks.wait_at_most(NAP_NS).await;
        }
        match pages.failures() - failures {
            0 => Err(pages.no_frame(key)),
            failures => Err(IoError::WriteBack { failures }),
        }
    }
}
