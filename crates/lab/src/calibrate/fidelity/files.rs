//! The model of a file system on the host beside the machine's ext4.
//!
//! 1. The model runs the operations in virtual time, one after the other. Of each kind's mean latency the
//!    client's own part is taken off, which a loop of system calls has not.
//! 2. The machine's ext4 runs the same ones, on a loop device over memory (`real_ext4.rs`): the fastest of several rounds.
//! 3. The model's drive answers at once, as memory does. What the loop device's own thread takes is in no model, so of
//!    what waits for the device, the append with its `fsync`, the prediction is a lower bound.

use wharf_drive::config::{MediaKind, Platform};
use wharf_runtime::Op;
use wharf_workload::fit::FitMode;

use super::scenario::{Flash, Scenario};
use super::{Bench, Engine, Fidelity, never, without_latency};
use crate::calibrate::CalibrateError;
use crate::calibrate::file_steps::{KINDS, STEPS, Steps};
use crate::calibrate::real_ext4::RealExt4;
use crate::designs::{self, DesignEntry};
use crate::input::{ClientRule, Input, Plan, plan};
use crate::progress::Progress;
use crate::replay::{Prepare, RunError};
use crate::result::Row;

/// The design that models it.
const DESIGN: &str = "ext4-model";

/// What the prediction is for, where it cannot be made.
const TITLE: &str = "operations on files";

/// One operation on files.
#[derive(Debug, Clone, PartialEq)]
pub struct FilePair {
    /// What is done.
    pub operation: &'static str,
    /// Nanoseconds in virtual time.
    pub predicted_ns: f64,
    /// Nanoseconds in real time.
    pub measured_ns: f64,
}

impl FilePair {
    /// How far the prediction is from the measurement, as a share of the measurement.
    pub fn error(&self) -> f64 {
        self.predicted_ns / self.measured_ns - 1.0
    }
}

impl Bench<'_> {
    /// Adds operations on files to what was found, or why there are none.
    pub(super) fn files(&self, quick: bool, found: &mut Fidelity) -> Result<(), CalibrateError> {
        let design = designs::find(DESIGN);
        let real = RealExt4::new();
        let (design, real) = match (design, real) {
            (Some(design), Ok(real)) => (design, real),
            (None, _) => {
                let why = "this program has no such design";
                found.left_out.push(format!("`{DESIGN}`, {TITLE}: {why}"));
                return Ok(());
            }
            (_, Err(why)) => {
                let why = format!("an ext4 over memory cannot be made: {why}");
                found.left_out.push(format!("`{DESIGN}`, {TITLE}: {why}"));
                return Ok(());
            }
        };
        let steps = Steps::new(if quick { 5_000 } else { 20_000 });
        let predicted = self.predict_files(design, &steps)?;
        let mut measured = real.time(&steps)?;
        for _ in 1..self.repeats {
            let again = real.time(&steps)?;
            for (least, ns) in measured.iter_mut().zip(again) {
                *least = least.min(ns);
            }
        }
        let all = STEPS.into_iter().zip(predicted).zip(measured);
        found.files = all
            .map(|((operation, predicted_ns), measured_ns)| FilePair {
                operation,
                predicted_ns,
                measured_ns,
            })
            .collect();
        Ok(())
    }

    /// Nanoseconds of each step in virtual time.
    fn predict_files(
        &self,
        design: &DesignEntry,
        steps: &Steps,
    ) -> Result<[f64; STEPS.len()], CalibrateError> {
        let scenario = Scenario {
            title: TITLE,
            clients: 1,
            hot_pages: crate::calibrate::file_steps::FILE_BYTES / 4096,
            count: steps.reads.len() as u64,
            miss_share: 0.0,
            write_share: 0.0,
            flash: Flash::Instant,
        };
        let mut setup = self.setup(&scenario, DESIGN, Engine::Virtual);
        setup.cache_bytes *= 16;
        setup.prepare = Prepare::Empty;
        let drive = &mut setup.cache_mut().drive;
        without_latency(drive);
        // A file system's metadata are whole pages; what it is on is a device, as for the model of the kernel.
        drive.media.kind = MediaKind::Ram;
        drive.firmware.platform = Platform::Device;
        let device_bytes = setup.cache().drive.namespace_pages() * 4096;
        let row = (design.run)(
            &setup,
            &of(steps, device_bytes)?.into(),
            Progress::hidden(),
            &never(),
        )?;
        let client_ns = self.calibration.costs.ops[&Op::ClientRequest].sample.ns;
        Ok(KINDS.map(|kinds| {
            let own = kinds.iter().map(|kind| latency_ns(&row, kind.name()));
            own.map(|ns| ns - client_ns).sum()
        }))
    }
}

fn of(steps: &Steps, device_bytes: u64) -> Result<Plan, RunError> {
    let input = Input::Files {
        name: TITLE.into(),
        from: steps.operations(),
        unit_bytes: 512,
    };
    let made = plan(&input, FitMode::Error, ClientRule::Stream, 1, device_bytes);
    made.map_err(|error| RunError::Memory(error.to_string()))
}

/// The mean latency of a kind of operation.
fn latency_ns(row: &Row, kind: &str) -> f64 {
    let of_kind = row.file_operations.iter().find(|of| of.operation == kind);
    of_kind.map_or(f64::NAN, |of| of.latency_us.mean * 1000.0)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::{Calibration, Options};
    use super::*;
    use crate::calibrate::Sample;
    use crate::calibrate::costs::Costs;

    /// Every operation takes 100 ns.
    fn calibration() -> Calibration {
        let mut costs = Costs::default();
        let sample = Sample {
            ns: 100.0,
            spread_ns: 0.0,
        };
        for op in Op::ALL {
            costs.set(*op, sample, "as the test wants it");
        }
        Calibration { costs }
    }

    #[test]
    fn every_step_is_predicted_and_enters_the_system_at_least_once() {
        let options = Options {
            quick: true,
            directory: PathBuf::from("."),
        };
        let calibration = calibration();
        let bench = Bench::new(&calibration, &options).unwrap();
        let design = designs::find(DESIGN).expect("it is built in");
        let steps = Steps::new(200);
        let predicted = bench.predict_files(design, &steps).unwrap();
        for (step, ns) in STEPS.into_iter().zip(predicted) {
            assert!(ns >= 100.0, "{step}: {ns} ns of {predicted:?}");
        }
        assert_eq!(bench.predict_files(design, &steps).unwrap(), predicted);
    }

    #[test]
    fn the_machines_ext4_serves_every_step_or_says_why_not() {
        match RealExt4::new() {
            Ok(real) => {
                let measured = real.time(&Steps::new(200)).unwrap();
                assert!(measured.iter().all(|ns| *ns > 0.0), "{measured:?}");
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }
}
