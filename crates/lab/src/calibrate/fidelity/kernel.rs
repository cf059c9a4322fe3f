//! The real kernel as a design: requests go to a file by `pread` and `pwrite`. It runs under the same
//! client as every design, so that only what serves the requests differs.

use std::cell::RefCell;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;

use wharf_drive::config::Platform;
use wharf_host::design::{Client, Design, DesignConfig, DesignError, Statistics, Touch};
use wharf_host::error::IoError;
use wharf_host::span::Extent;
use wharf_host::volume::Volume;
use wharf_runtime::{Cpu, Op};
use wharf_wire::dma::DmaSpace;

use super::scenario::{Flash, Scenario};
use super::{Bench, Engine, Pair, never, pair, without_latency};
use crate::calibrate::system::ScratchFile;
use crate::calibrate::{CalibrateError, Options};
use crate::designs::{DesignEntry, Runnable};
use crate::progress::Progress;
use crate::replay::row;

/// The design that models the kernel.
pub(super) const DESIGN: &str = "kernel";

thread_local! {
    /// The file that the next [`RealKernel`] made on this thread serves: designs are made from a
    /// configuration that has no room for one.
    static FILE: RefCell<Option<Arc<ScratchFile>>> = const { RefCell::new(None) };
}

impl Bench<'_> {
    /// The model beside the machine's kernel.
    pub(super) fn kernel(
        &self,
        scenario: &Scenario,
        design: &DesignEntry,
        options: &Options,
    ) -> Result<Pair, CalibrateError> {
        let mut setup = self.setup(scenario, DESIGN, Engine::Virtual);
        // What the model reads from is a device, unlike the other designs' drive.
        setup.drive.firmware.platform = Platform::Device;
        // The machine has memory for far more dirty pages than there are pages.
        setup.cache_bytes *= 16;
        if scenario.flash == Flash::Modelled {
            without_latency(&mut setup.drive);
            setup.drive.timing.read_ns = self.device_ns();
        }
        let predicted = self.predict(scenario, design, &setup)?;
        let file = Arc::new(ScratchFile::new(
            &options.directory,
            scenario.pages() * 4096,
        )?);
        FILE.set(Some(file.clone()));
        let setup = self.setup(scenario, DESIGN, self.real(scenario));
        let measured = self.repeat(scenario, |plan| {
            let ready = || {
                file.forget()?;
                file.load(scenario.hot_pages)
            };
            ready().map_err(|error| crate::replay::RunError::Memory(error.to_string()))?;
            row::<RealKernel>(&setup, plan, Progress::hidden(), &never())
        });
        FILE.set(None);
        Ok(pair(scenario, "kernel, the real one", predicted, measured?))
    }

    /// What an uncached read of the real device takes beyond the kernel's own steps, as the model
    /// has them: submission, two switches, an interrupt.
    fn device_ns(&self) -> u64 {
        let costs = &self.calibration.costs;
        let whole = costs.find_path("direct_read").map_or(0.0, |s| s.ns);
        let steps = [Op::SystemCall, Op::BlockSubmit, Op::Interrupt];
        let own: f64 = steps.iter().map(|op| costs.ops[op].sample.ns).sum();
        let switches = 2.0 * costs.ops[&Op::ContextSwitch].sample.ns;
        (whole - own - switches).max(0.0) as u64
    }
}

/// The machine's kernel.
struct RealKernel {
    file: Arc<ScratchFile>,
}

impl Design for RealKernel {
    const NAME: &'static str = "real kernel";

    type Client = RealKernelClient;

    fn new(_: &DesignConfig, _: &Arc<DmaSpace>) -> Result<RealKernel, DesignError> {
        let file = FILE.with_borrow(Option::clone);
        Ok(RealKernel {
            file: file.expect("the caller has named a file"),
        })
    }

    fn client(
        self: &Arc<Self>,
        _: &Cpu,
        volume: Rc<Volume>,
        _: u32,
    ) -> Result<RealKernelClient, DesignError> {
        Ok(RealKernelClient {
            file: self.file.clone(),
            _volume: volume,
        })
    }
}

impl Runnable for RealKernel {
    const HAS_CACHE: bool = true;
}

struct RealKernelClient {
    file: Arc<ScratchFile>,
    /// Keeps the queues to the drive in being, which sleeps.
    _volume: Rc<Volume>,
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
