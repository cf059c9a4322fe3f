//! The real kernel as a design: requests go to a file by `pread` and `pwrite`. It runs under the same
//! client as every design, so that only what serves the requests differs.

use std::cell::RefCell;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_host::design::{
    Client, Design, DesignConfig, DesignError, Devices, NoSettings, Parts, Statistics, Touch,
};
use wharf_host::error::IoError;
use wharf_host::span::Extent;
use wharf_wire::dma::DmaSpace;

use super::system::ScratchFile;
use crate::input::Plan;
use crate::progress::Progress;
use crate::replay::{RunError, Setup, row};
use crate::result::Row;

thread_local! {
    /// The file that the next [`RealKernel`] made on this thread serves: designs are made from a
    /// configuration that has no room for one.
    static FILE: RefCell<Option<Arc<ScratchFile>>> = const { RefCell::new(None) };
}

/// Serves a plan from `file`.
pub(super) fn run(
    file: &Arc<ScratchFile>,
    setup: &Setup,
    plan: &Arc<Plan>,
) -> Result<Row, RunError> {
    FILE.set(Some(file.clone()));
    let stop = Arc::new(AtomicBool::new(false));
    let row = row::<RealKernel>(setup, plan, Progress::hidden(), &stop);
    FILE.set(None);
    row
}

/// The machine's kernel.
struct RealKernel {
    file: Arc<ScratchFile>,
}

impl Design for RealKernel {
    const NAME: &'static str = "real kernel";

    const SUMMARY: &'static str = "the page cache of this machine's operating system";

    type Config = NoSettings;

    type Client = RealKernelClient;

    fn new(_: &DesignConfig, _: &NoSettings, _: &Arc<DmaSpace>) -> Result<RealKernel, DesignError> {
        let file = FILE.with_borrow(Option::clone);
        Ok(RealKernel {
            file: file.expect("the caller has named a file"),
        })
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<RealKernelClient, DesignError> {
        Ok(RealKernelClient {
            file: self.file.clone(),
            _devices: parts.devices,
        })
    }
}

struct RealKernelClient {
    file: Arc<ScratchFile>,
    /// Keeps the queues to the drive in being, which sleeps.
    _devices: Devices,
}

/// What a failed call becomes: the file is shorter than the scenario, or the device is faulty.
fn outcome(extent: Extent, result: std::io::Result<()>) -> Result<Touch, IoError> {
    let pages = extent.pages();
    match result {
        Ok(()) => Ok(Touch::all_hits(pages)),
        Err(_) => Err(IoError::OutOfRange {
            first: extent.first_page(),
            pages,
            volume_pages: 0,
        }),
    }
}

impl Client for RealKernelClient {
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        outcome(extent, self.file.cached.read_exact_at(out, extent.offset))
    }

    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        outcome(extent, self.file.cached.write_all_at(data, extent.offset))
    }

    async fn flush(&self) -> Result<(), IoError> {
        Ok(())
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }
}
