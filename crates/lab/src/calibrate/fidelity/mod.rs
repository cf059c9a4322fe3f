//! Predictions beside measurements: how far virtual time is off on this machine.
//!
//! Each design serves the same requests twice: in virtual time with the costs just measured here,
//! and for real, by the same code on polling threads. The difference is what operations do not
//! account for.
//!
//! 1. A run is the requests that fill the caches (`Scenario::warm_up`), and then those that count. It is made
//!    with and without the latter; the difference of the two is the figure. So filling counts for
//!    nothing, in either engine.
//! 2. Both halves of a comparison have the same drive: data in RAM, no checksums, all of it software on one
//!    processor as fast as the host's. Reads are not checked: the check would be measured too (`compare` and the tests check
//!    these designs).
//! 3. Only set-ups that have a processor for every busy thread are run (`scenario.rs`): where all
//!    requests hit, the drive's thread sleeps and two clients have two processors to themselves. The manager of
//!    `tri` shares its processor with the drive.
//! 4. The `kernel` design is a model of what this program does not run, so what stands beside it is the
//!    real kernel: the same requests by `pread` and `pwrite` on a file (`kernel.rs`). Its drive takes as
//!    long as an uncached read of the real device.
//! 5. So it is with the model of a file system on the host: what stands beside it is the machine's ext4 (`files.rs`).

mod document;
mod files;
mod kernel;
mod scenario;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_drive::DriveConfig;
use wharf_drive::config::MediaKind;
use wharf_host::design::Role;
use wharf_runtime::CostTable;
use wharf_workload::Request;

use super::stream::unchecked_plan;
use super::{CalibrateError, Calibration, Options};
use crate::config::{HostConfig, Sets, load_drive, load_host};
use crate::designs::{DESIGNS, DesignEntry};
use crate::input::Plan;
use crate::progress::Progress;
use crate::replay::{DeviceGroup, Engine, Prepare, RunError, Setup};
use crate::result::Row;
pub use files::FilePair;
use scenario::{Flash, Scenario};

/// How fast requests were served.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Requests a second, of all clients.
    pub requests_per_s: f64,
    /// Mean latency, in microseconds.
    pub mean_latency_us: f64,
}

/// One design in one scenario.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The scenario's title.
    pub scenario: &'static str,
    /// The design, or what it is a model of.
    pub design: String,
    /// Clients.
    pub clients: u32,
    /// In virtual time.
    pub predicted: Speed,
    /// In real time.
    pub measured: Speed,
}

impl Pair {
    /// How far the prediction is from the measurement, as a share of the measurement: requests a
    /// second, then latency.
    pub fn errors(&self) -> (f64, f64) {
        let error = |predicted: f64, measured: f64| predicted / measured - 1.0;
        (
            error(self.predicted.requests_per_s, self.measured.requests_per_s),
            error(
                self.predicted.mean_latency_us,
                self.measured.mean_latency_us,
            ),
        )
    }
}

/// All comparisons.
#[derive(Debug, Clone, Default)]
pub struct Fidelity {
    /// In the order they were made.
    pub pairs: Vec<Pair>,
    /// Operations on files.
    pub files: Vec<FilePair>,
    /// What was not run, and why.
    pub left_out: Vec<String>,
}

/// Runs every design in every scenario. `on_step` hears what is run.
///
/// # Errors
/// A run that fails, or a file for the real kernel that cannot be made.
pub fn measure(
    calibration: &Calibration,
    options: &Options,
    on_step: impl Fn(&str),
) -> Result<Fidelity, CalibrateError> {
    let bench = Bench::new(calibration, options)?;
    let mut found = Fidelity::default();
    for scenario in scenario::all(options.quick) {
        for design in DESIGNS {
            if let Some(why) = scenario.leaves_out(design.name, bench.processors) {
                let line = format!("`{}`, {}: {why}", design.name, scenario.title);
                found.left_out.push(line);
                continue;
            }
            on_step(&format!("{}: {}", scenario.title, design.name));
            let pair = match design.name {
                kernel::DESIGN => bench.kernel(&scenario, design, options),
                _ => bench.design(&scenario, design),
            };
            match pair {
                Ok(pair) => found.pairs.push(pair),
                Err(CalibrateError::TooBusy) => found.left_out.push(format!(
                    "`{}`, {}: other programs disturbed every run",
                    design.name, scenario.title
                )),
                Err(error) => return Err(error),
            }
        }
    }
    if crate::designs::find(kernel::DESIGN).is_none() {
        let line = "the real kernel: this program has no design `kernel` to predict it";
        found.left_out.push(line.into());
    }
    on_step("operations on files: the model of a file system on the host, and the machine's ext4");
    bench.files(options.quick, &mut found)?;
    Ok(found)
}

/// What all comparisons share.
struct Bench<'a> {
    calibration: &'a Calibration,
    costs: CostTable,
    drive: DriveConfig,
    host: HostConfig,
    processors: usize,
    repeats: usize,
}

impl Bench<'_> {
    fn new<'a>(
        calibration: &'a Calibration,
        options: &Options,
    ) -> Result<Bench<'a>, CalibrateError> {
        let drive = [
            "drive.firmware.cores=1",
            "drive.firmware.slowness=1.0",
            "drive.firmware.platform=software",
            "drive.geometry.blocks_per_plane=64",
            "drive.media.verify=false",
        ];
        // Pages may stay dirty: write-back would be a third busy thread, and is none of the scenarios.
        let host = [
            "design.tri.managers=1",
            "host.dirty_background_share=0.9",
            "host.dirty_hard_share=1.0",
        ];
        Ok(Bench {
            calibration,
            costs: calibration.table("measured", "", ""),
            drive: load_drive("scala", &Sets::parse(&drive)?)?.0,
            host: load_host("default", &Sets::parse(&host)?)?.0,
            processors: std::thread::available_parallelism().map_or(1, |n| n.get()),
            repeats: if options.quick { 3 } else { 7 },
        })
    }

    /// The machine on which a scenario runs.
    fn setup(&self, scenario: &Scenario, design: &str, engine: Engine) -> Setup {
        let (mut drive, mut host) = (self.drive.clone(), self.host.clone());
        let misses = scenario.miss_share > 0.0;
        if scenario.drive_works(design) {
            // Two busy threads, two processors: giving one away would time whoever gets it.
            host.idle.spin_passes = u32::MAX;
        }
        if scenario.flash == Flash::Instant {
            without_latency(&mut drive);
        }
        // Costs in virtual time do not depend on the media, and stamps are there at once.
        drive.media.kind = match engine {
            Engine::Virtual => MediaKind::Stamp,
            Engine::Real { .. } => MediaKind::Ram,
        };
        // Every client can hold every page, and all may be dirty: nothing is evicted, and nothing written back.
        let cache_pages = scenario.pages() * u64::from(scenario.clients);
        Setup {
            devices: vec![DeviceGroup::new(Role::Cache, drive, 1, &host)],
            host,
            costs: self.costs.clone(),
            cache_bytes: 2 * cache_pages * 4096,
            clients: scenario.clients,
            depth: 1,
            submission: crate::replay::Submission::default(),
            speed: None,
            seed: 1,
            engine,
            prepare: if misses {
                Prepare::Touched
            } else {
                Prepare::Empty
            },
        }
    }

    fn design(&self, scenario: &Scenario, design: &DesignEntry) -> Result<Pair, CalibrateError> {
        let predicted = self.predict(
            scenario,
            design,
            &self.setup(scenario, design.name, Engine::Virtual),
        )?;
        let setup = self.setup(scenario, design.name, self.real(scenario));
        let measured = self.repeat(scenario, |plan| {
            (design.run)(&setup, plan, Progress::hidden(), &never())
        })?;
        Ok(pair(scenario, design.name, predicted, measured))
    }

    fn predict(
        &self,
        scenario: &Scenario,
        design: &DesignEntry,
        setup: &Setup,
    ) -> Result<Speed, CalibrateError> {
        let run = |plan: &_| (design.run)(setup, plan, Progress::hidden(), &never());
        difference(scenario, run)?.ok_or(CalibrateError::TooBusy)
    }

    /// Every client, and every service where processors are left, has a thread of its own.
    fn real(&self, scenario: &Scenario) -> Engine {
        Engine::Real {
            client_threads: scenario.clients.max(self.processors as u32),
            profile: false,
        }
    }

    /// A measurement, of the fastest of several runs: those that neighbours disturbed least.
    fn repeat(
        &self,
        scenario: &Scenario,
        run: impl Fn(&Arc<Plan>) -> Result<Row, RunError>,
    ) -> Result<Speed, CalibrateError> {
        let fastest = |plan: &_| {
            let mut best = run(plan)?;
            for _ in 1..self.repeats {
                let row = run(plan)?;
                if row.elapsed_seconds < best.elapsed_seconds {
                    best = row;
                }
            }
            Ok(best)
        };
        difference(scenario, fastest)?.ok_or(CalibrateError::TooBusy)
    }
}

/// Takes all latencies of flash and link off a drive: what is left is the processors' work.
pub(super) fn without_latency(drive: &mut DriveConfig) {
    drive.timing.read_ns = 0;
    drive.timing.program_ns = 0;
    drive.timing.erase_ns = 0;
    drive.timing.channel_ns_per_page = 0;
    drive.link.latency_ns = 0;
    drive.link.to_host_mb_s = 0;
    drive.link.from_host_mb_s = 0;
}

/// A stop flag that nobody sets.
fn never() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

fn pair(scenario: &Scenario, design: &str, predicted: Speed, measured: Speed) -> Pair {
    Pair {
        scenario: scenario.title,
        design: design.into(),
        clients: scenario.clients,
        predicted,
        measured,
    }
}

/// What the requests that count take: a run with them, less a run without. Nothing where other programs
/// made the shorter run the longer one.
fn difference(
    scenario: &Scenario,
    run: impl Fn(&Arc<Plan>) -> Result<Row, RunError>,
) -> Result<Option<Speed>, RunError> {
    let plan =
        |requests: Vec<Request>| unchecked_plan(requests, scenario.clients, scenario.pages());
    let mut requests = scenario.warm_up();
    let before = run(&plan(requests.clone()))?;
    requests.extend(scenario.requests());
    let after = run(&plan(requests))?;
    let count = (after.requests - before.requests) as f64;
    let latency_us = |row: &Row| row.latency_us.mean * row.requests as f64;
    let elapsed_s = after.elapsed_seconds - before.elapsed_seconds;
    if elapsed_s <= 0.0 {
        return Ok(None);
    }
    Ok(Some(Speed {
        requests_per_s: count / elapsed_s,
        mean_latency_us: (latency_us(&after) - latency_us(&before)) / count,
    }))
}
