//! What one CPU has of the cache: the sum of its parts.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Cpu;

use crate::design::Statistics;
use crate::kit::backing::Backing;
use crate::kit::direct_flush::WriterCounters;
use crate::kit::index::Index;
use crate::kit::memory::Memory;
use crate::kit::reading::{Brings, Reading};
use crate::kit::stride::Stride;
use crate::kit::transfers::Transfers;
use crate::kit::write_back::WriteBack;
use crate::scale::frame::Frames;
use crate::scale::hints::Hints;
use crate::scale::pages::CpuPages;
use crate::scale::shared::Shared;

/// See the module.
pub struct Local<I: Index, B: Backing> {
    pub(super) pages: Rc<CpuPages<I, B>>,
    pub(super) transfers: Rc<Transfers<CpuPages<I, B>>>,
    pub(super) write_back: Rc<WriteBack<CpuPages<I, B>>>,
    pub(super) memory: Rc<Memory<CpuPages<I, B>>>,
    pub(super) reading: Reading<CpuPages<I, B>>,
    /// What it remembers of readers of each file in steps.
    strides: RefCell<Vec<Stride>>,
    /// What it remembers of where pages are.
    pub(super) hints: Hints,
    /// Pages dirtied since the last look at the limits.
    pub(super) dirtied: Cell<u64>,
}

impl<I: Index, B: Backing> Local<I, B> {
    /// The part of CPU `index`, which gets its tasks.
    pub fn start(cpu: &Cpu, shared: Arc<Shared<I>>, backing: Rc<B>, index: u32) -> Rc<Local<I, B>> {
        let (files, window_pages) = (shared.files.len(), shared.window_pages);
        let in_flight_max = shared.limits.in_flight_max;
        let pages = CpuPages::start(cpu, shared, backing, index);
        let transfers = Transfers::new(&pages, in_flight_max);
        let write_back = WriteBack::new(&pages, &transfers);
        let stride = |_| Stride::new(pages.ahead_pages_max().min(window_pages));
        Rc::new(Local {
            memory: Memory::new(&write_back),
            reading: Reading::new(&pages, &transfers, files, window_pages),
            strides: RefCell::new((0..files).map(stride).collect()),
            hints: Hints::new(pages.shared.frames.count()),
            dirtied: Cell::new(0),
            pages,
            transfers,
            write_back,
        })
    }

    #[inline(always)]
    pub(super) fn cpu(&self) -> &Cpu {
        self.pages.cpu()
    }

    #[inline(always)]
    pub(super) fn shared(&self) -> &Shared<I> {
        &self.pages.shared
    }

    pub(crate) fn counters(&self) -> &WriterCounters {
        &self.pages.counters
    }

    /// Does `f` with what is remembered of readers of a file in steps.
    pub(super) fn stride<R>(&self, file: u32, f: impl FnOnce(&mut Stride) -> R) -> R {
        f(&mut self.strides.borrow_mut()[file as usize])
    }

    /// The frames of the cache.
    #[inline(always)]
    pub fn frames(&self) -> &Frames {
        &self.shared().frames
    }

    /// Waits until no transfer of this CPU is under way. A CPU that runs only while its program
    /// waits ends every call so: what others wait for is never left with one that does not run.
    pub async fn land(&self) {
        self.transfers.land().await;
    }

    /// Gives what this CPU has to the others, for it ends.
    pub fn retire(&self) {
        self.pages.retire();
    }

    /// What the CPU did so far.
    pub fn statistics(&self) -> Statistics {
        self.counters().own()
    }
}
