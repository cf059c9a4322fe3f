//! What one CPU has of the kernel: the sum of its parts. Its tasks stand for threads.

use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Cpu;

use crate::errseq::ErrSeqCursor;
use crate::kernel::frame::Frames;
use crate::kernel::pages::CpuPages;
use crate::kernel::shared::Shared;
use crate::kernel::throttle::Throttle;
use crate::kit::direct_flush::WriterCounters;
use crate::kit::files::CachedFile;
use crate::kit::memory::Memory;
use crate::kit::readahead::WINDOW_PAGES;
use crate::kit::reading::Reading;
use crate::kit::transfers::Transfers;
use crate::kit::write_back::WriteBack;
use crate::volume::Volume;

/// See the module.
pub(super) struct Local {
    pub(super) pages: Rc<CpuPages>,
    pub(super) transfers: Rc<Transfers<CpuPages>>,
    pub(super) write_back: Rc<WriteBack<CpuPages>>,
    pub(super) memory: Rc<Memory<CpuPages>>,
    pub(super) reading: Reading<CpuPages>,
    pub(super) throttle: Throttle,
    /// Failed write-backs of each file that a flush of this client has reported.
    pub(super) told: Box<[ErrSeqCursor]>,
}

impl Local {
    /// The part of CPU `index`, which gets its tasks.
    pub(super) fn start(
        cpu: &Cpu,
        shared: Arc<Shared>,
        volume: Rc<Volume>,
        index: u32,
    ) -> Rc<Local> {
        let (files, in_flight_max) = (shared.inodes.len(), shared.limits.in_flight_max);
        let told = shared.inodes.iter().map(CachedFile::told).collect();
        let pages = CpuPages::start(cpu, shared, volume, index);
        let transfers = Transfers::new(&pages, in_flight_max);
        let write_back = WriteBack::new(&pages, &transfers);
        Rc::new(Local {
            memory: Memory::new(&write_back),
            reading: Reading::new(&pages, &transfers, files, WINDOW_PAGES),
            throttle: Throttle::new(&pages),
            told,
            pages,
            transfers,
            write_back,
        })
    }

    #[inline]
    pub(super) fn cpu(&self) -> &Cpu {
        self.pages.cpu()
    }

    #[inline]
    pub(super) fn frames(&self) -> &Frames {
        &self.pages.shared.frames
    }

    /// A request enters by a system call, unless it comes from within.
    #[inline]
    pub(super) fn enter(&self) {
        self.pages.enter();
    }

    pub(super) fn counters(&self) -> &WriterCounters {
        &self.pages.counters
    }
}
