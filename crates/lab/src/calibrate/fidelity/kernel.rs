//! The model of the kernel's cache beside the machine's kernel.

use std::sync::Arc;

use wharf_drive::config::Platform;
use wharf_runtime::Op;

use super::scenario::{Flash, Scenario};
use super::{Bench, Engine, Pair, pair, without_latency};
use crate::calibrate::real_kernel;
use crate::calibrate::system::ScratchFile;
use crate::calibrate::{CalibrateError, Options};
use crate::designs::DesignEntry;

/// The design that models the kernel.
pub(super) const DESIGN: &str = "kernel";

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
        setup.cache_mut().drive.firmware.platform = Platform::Device;
        // The machine has memory for far more dirty pages than there are pages.
        setup.cache_bytes *= 16;
        setup.host.file_system = true;
        if scenario.flash == Flash::Modelled {
            without_latency(&mut setup.cache_mut().drive);
            setup.cache_mut().drive.timing.read_ns = self.device_ns();
        }
        let predicted = self.predict(scenario, design, &setup)?;
        let file = Arc::new(ScratchFile::new(
            &options.directory,
            scenario.pages() * 4096,
        )?);
        let setup = self.setup(scenario, DESIGN, self.real(scenario));
        let measured = self.repeat(scenario, |plan| {
            let ready = || {
                file.forget()?;
                file.load(scenario.hot_pages)
            };
            ready().map_err(|error| crate::replay::RunError::Memory(error.to_string()))?;
            real_kernel::run(&file, &setup, plan)
        });
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
