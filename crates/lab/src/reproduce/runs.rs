//! Makes runs, each once, however many figures show it.
//!
//! 1. A run's set-up: drive and host at the reproduction's scale, as the run says.
//! 2. Aged drives come from a stock: prepared once, copied for each run.
//! 3. The requests of one workload are made once for the runs of one volume and number of clients, which
//!    come one after another.
//! 4. A run that cannot be made leaves a gap with a reason; a run that fails is remembered as a failure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde::Serialize;
use wharf_workload::fit::FitMode;
use wharf_workload::stat::StatCounter;
use wharf_workload::workload::WorkloadInfo;

use super::Options;
use super::run::Run;
use super::setup::{self, Load};
use crate::config::ConfigError;
use crate::designs::{DESIGNS, find};
use crate::input::{Plan, plan};
use crate::prepare::Stock;
use crate::progress::Progress;
use crate::replay::{Engine, Prepare, RunError, Setup, volume_bytes};
use crate::result::Row;

const GIB: f64 = (1u64 << 30) as f64;

/// What a workload is like.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Traits {
    /// Requests, scaled up to full size.
    pub requests: f64,
    /// Their mean size in KiB.
    pub mean_kib: f64,
    /// Data that they move, in GiB, scaled up.
    pub data_gib: f64,
    /// Share of requests that do not continue the one before.
    pub randomness: f64,
    /// Mean reuse distance in GiB, scaled up.
    pub reuse_gib: f64,
}

/// What a run gave.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// The design's row.
    pub row: Row,
    /// The workload, if it is a profile or a trace in the place of one.
    pub traits: Option<Traits>,
    /// Cache in bytes.
    pub cache_bytes: u64,
}

/// Why there is no figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The reason, as part of a sentence.
    pub reason: String,
    /// True if something went wrong rather than was missing.
    pub failed: bool,
}

impl Gap {
    /// Something that is not there.
    pub fn missing(reason: impl Into<String>) -> Gap {
        Gap {
            reason: reason.into(),
            failed: false,
        }
    }
}

/// What requests depend on: the workload with its request size, how long it is, clients, and bytes of the
/// volume.
#[derive(PartialEq)]
struct Key {
    workload: (String, u32, u32),
    clients: u32,
    device_bytes: u64,
}

/// The requests of a workload for some clients on some volume.
struct Prepared {
    key: Key,
    plan: Arc<Plan>,
    traits: Option<Traits>,
}

/// All runs made so far.
pub struct Runs<'a> {
    options: &'a Options,
    stop: &'a Arc<AtomicBool>,
    prepare: Prepare,
    prepared: Option<Prepared>,
    done: BTreeMap<Run, Result<Measured, Gap>>,
}

impl<'a> Runs<'a> {
    /// No runs yet. Once `stop` is set, no further ones are made.
    pub fn new(options: &'a Options, stop: &'a Arc<AtomicBool>) -> Runs<'a> {
        Runs {
            options,
            stop,
            prepare: match options.age {
                Some(age) => Prepare::Stock(Arc::new(Stock::new(age))),
                None => Prepare::Touched,
            },
            prepared: None,
            done: BTreeMap::new(),
        }
    }

    /// What a run gave, or why it gave nothing.
    ///
    /// # Errors
    /// The gap.
    pub fn get(&self, run: &Run) -> Result<&Measured, Gap> {
        match self.done.get(run) {
            Some(Ok(measured)) => Ok(measured),
            Some(Err(gap)) => Err(gap.clone()),
            None => Err(Gap::missing("not run: interrupted before")),
        }
    }

    /// All that failed.
    pub fn failures(&self) -> impl Iterator<Item = (&Run, &Gap)> {
        let gaps = self.done.iter();
        gaps.filter_map(|(run, result)| Some((run, result.as_ref().err().filter(|g| g.failed)?)))
    }

    /// All that gave something.
    pub fn measured(&self) -> impl Iterator<Item = (&Run, &Measured)> {
        let all = self.done.iter();
        all.filter_map(|(run, result)| Some((run, result.as_ref().ok()?)))
    }

    /// Takes a run's result as it is given.
    #[cfg(test)]
    pub(super) fn put(&mut self, run: Run, result: Result<Measured, Gap>) {
        self.done.insert(run, result);
    }

    /// Makes every one of these runs.
    pub fn make(&mut self, runs: impl IntoIterator<Item = Run>) {
        let runs: Vec<Run> = runs.into_iter().collect();
        let count = runs.len();
        for (index, run) in runs.into_iter().enumerate() {
            if self.stop.load(Relaxed) {
                return;
            }
            let label = format!("{:>3}/{count} {} {}", index + 1, run.design, run.workload);
            let result = self.run(&run, &label);
            // A run that was interrupted covers only a part of its workload.
            if !self.stop.load(Relaxed) {
                self.done.insert(run, result);
            }
        }
    }

    fn run(&mut self, run: &Run, label: &str) -> Result<Measured, Gap> {
        let design = find(run.design)
            .ok_or_else(|| Gap::missing(format!("design '{}' is not built in", run.design)))?;
        let setup = self.setup(run)?;
        let fits = setup.host.check_drives(setup.drives);
        fits.map_err(|error| Gap::missing(error.to_string()))?;
        let device_bytes = volume_bytes(&setup.drive, setup.drives, &setup.host);
        let (plan, traits) = self.plan(run, device_bytes)?;
        let one_drive_bytes = setup.drive.namespace_pages() * 4096;
        let setup = Setup {
            cache_bytes: setup
                .host
                .cache_bytes(plan.footprint_pages * 4096, one_drive_bytes),
            ..setup
        };
        let progress = Progress::start(label, Some(plan.requests.len() as u64));
        let row = (design.run)(&setup, &plan, progress, self.stop).map_err(|error| {
            // A failing run stops its clients by the flag that a signal sets; the next run goes on. An
            // interrupted run is no error.
            self.stop.store(false, Relaxed);
            gap_of(error)
        })?;
        Ok(Measured {
            row,
            traits,
            cache_bytes: setup.cache_bytes,
        })
    }

    fn setup(&self, run: &Run) -> Result<Setup, Gap> {
        let scale = self.options.scale;
        let drive = setup::drive(scale, run).map_err(|e| config_gap(&e))?;
        let host = setup::host(scale, run).map_err(|e| config_gap(&e))?;
        Ok(Setup {
            drive,
            drives: run.drives,
            host,
            costs: self.options.costs.clone(),
            cache_bytes: 0,
            clients: run.clients,
            depth: setup::depth(run),
            speed: None,
            seed: self.options.seed,
            engine: Engine::Virtual,
            prepare: self.prepare.clone(),
        })
    }

    fn plan(&mut self, run: &Run, device_bytes: u64) -> Result<(Arc<Plan>, Option<Traits>), Gap> {
        let key = Key {
            workload: (run.workload.clone(), run.request_kib, run.stretch),
            clients: run.clients,
            device_bytes,
        };
        if let Some(ready) = self.prepared.as_ref().filter(|ready| ready.key == key) {
            return Ok((ready.plan.clone(), ready.traits));
        }
        let load = match &self.options.trace {
            Some(trace) => Load {
                input: trace.clone(),
                fit: FitMode::Wrap,
            },
            None => setup::load(self.options.scale, run, self.options.seed, device_bytes)?,
        };
        let rule = setup::rule(run.subject);
        let plan = plan(&load.input, load.fit, rule, run.clients, device_bytes);
        let plan = Arc::new(plan.map_err(|e| Gap {
            reason: e.to_string(),
            failed: true,
        })?);
        // A workload's traits are the same for all clients and drives; they take long to find.
        let known = self
            .prepared
            .take()
            .filter(|ready| ready.key.workload == key.workload);
        let traits = known.map_or_else(|| self.traits(run, &plan), |ready| ready.traits);
        self.prepared = Some(Prepared {
            key,
            plan: plan.clone(),
            traits,
        });
        Ok((plan, traits))
    }

    /// The workload's traits, as large as they would be at full size, where a paper has them. A trace is as it is.
    fn traits(&self, run: &Run, plan: &Plan) -> Option<Traits> {
        let profile = setup::profile(run);
        if profile.is_none() && self.options.trace.is_none() {
            return None;
        }
        let mut counter = StatCounter::new(true);
        plan.requests
            .iter()
            .for_each(|request| counter.add(request));
        let requests = plan.requests.len() as f64;
        let name = plan.name.clone();
        let stat = counter.finish(WorkloadInfo::made(
            name,
            "plan",
            plan.requests.len() as u64,
            None,
        ));
        let whole = profile.filter(|_| self.options.trace.is_none());
        let up = whole.map_or(1.0, |profile| profile.table.requests as f64 / requests);
        let mean_kib = stat.all().mean_bytes() / 1024.0;
        let reuse_bytes = stat.reuse.as_ref().map_or(0.0, |r| r.mean_distance_bytes);
        Some(Traits {
            requests: requests * up,
            mean_kib,
            data_gib: requests * up * mean_kib * 1024.0 / GIB,
            randomness: stat.randomness(),
            reuse_gib: reuse_bytes * up / GIB,
        })
    }
}

/// A configuration that this build cannot have, such as a key of a design that is missing.
fn config_gap(error: &ConfigError) -> Gap {
    match error {
        ConfigError::UnknownKey { key, .. } => Gap::missing(format!("this build has no '{key}'")),
        other => Gap::missing(other.to_string()),
    }
}

/// A run that could not be made is a gap; one that went wrong is a failure.
fn gap_of(error: RunError) -> Gap {
    let failed = !matches!(error, RunError::Design(_) | RunError::Drive(_));
    Gap {
        reason: error.to_string(),
        failed,
    }
}

/// The names of the designs that are built in.
pub fn designs_built_in() -> Vec<&'static str> {
    DESIGNS.iter().map(|design| design.name).collect()
}
