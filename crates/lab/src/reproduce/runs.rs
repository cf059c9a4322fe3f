//! Makes runs, each once with each seed, however many figures show it.
//!
//! 1. A run's set-up: drive and host at the reproduction's scale, as the run says.
//! 2. Aged drives come from a stock: prepared once, copied for each run.
//! 3. Runs know nothing of each other: several are made at a time. They are begun in order, all with one seed, then with the next, so that a reproduction that is stopped has whole seeds but for the last.
//! 4. The requests of one workload are made once a seed and thread for the runs of one volume and number of clients,
//!    which come one after another.
//! 5. A run that cannot be made leaves a gap with a reason; a run that fails is remembered as a failure.
//! 6. Results are put together in the order of the runs, so that they do not depend on which ended first.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use serde::Serialize;
use wharf_host::design::Role;
use wharf_runtime::worker::side_by_side;
use wharf_workload::files::{FileOp, FileOpKind};
use wharf_workload::fit::FitMode;
use wharf_workload::request::PAGE_BYTES;
use wharf_workload::stat::StatCounter;
use wharf_workload::workload::WorkloadInfo;

use super::Options;
use super::run::{Run, Start};
use super::setup::{self, Load};
use crate::config::ConfigError;
use crate::designs::{built_in, find};
use crate::input::{ClientRule, Plan, plan};
use crate::prepare::{Age, Stock};
use crate::progress::{Bars, Progress};
use crate::replay::{DeviceGroup, Engine, Prepare, RunError, Setup};
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
    /// The workload, if it is a profile or a trace in the place of one: as it is with the first seed.
    pub traits: Option<Traits>,
    /// Share of reads and writes that are not of whole pages, where requests are of files.
    pub unaligned: Option<f64>,
    /// Cache in bytes.
    pub cache_bytes: u64,
    /// Requests of a client that are in flight for each that is served: 1, unless it serves them in turn.
    pub in_line: u32,
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

/// A workload with its request size, and how long it is.
type Named = (String, u32, u32);

/// What requests depend on.
#[derive(PartialEq)]
struct Key {
    workload: Named,
    rule: ClientRule,
    clients: u32,
    device_bytes: u64,
    seed: u64,
}

/// The requests of a workload for some clients on some volume.
struct Prepared {
    key: Key,
    plan: Arc<Plan>,
}

/// All runs made so far.
pub struct Runs<'a> {
    options: &'a Options,
    stop: &'a Arc<AtomicBool>,
    /// What each seed gave, in their order, or the first gap.
    done: BTreeMap<Run, Result<Vec<Measured>, Gap>>,
}

impl<'a> Runs<'a> {
    /// No runs yet. Once `stop` is set, no further ones are made.
    pub fn new(options: &'a Options, stop: &'a Arc<AtomicBool>) -> Runs<'a> {
        Runs {
            options,
            stop,
            done: BTreeMap::new(),
        }
    }

    /// What a run gave with each seed, or why it gave nothing.
    ///
    /// # Errors
    /// The gap.
    pub fn get(&self, run: &Run) -> Result<&[Measured], Gap> {
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

    /// Number of runs that gave something, each seed counted.
    pub fn count(&self) -> usize {
        let measured = self.done.values().filter_map(|result| result.as_ref().ok());
        measured.map(Vec::len).sum()
    }

    /// Takes a run's results as they are given.
    #[cfg(test)]
    pub(super) fn put(&mut self, run: Run, result: Result<Vec<Measured>, Gap>) {
        self.done.insert(run, result);
    }

    /// Makes every one of these runs with every seed, as many at a time as the options say.
    pub fn make(&mut self, runs: impl IntoIterator<Item = Run>) {
        let (runs, threads): (Vec<Run>, _) = (runs.into_iter().collect(), self.options.jobs);
        let bench = Bench::new(self.options, self.stop, threads, &runs);
        let count = runs.len() * self.options.seeds as usize;
        let made = side_by_side(count, threads, |number, thread| bench.make(number, thread));
        let traits = bench.traits.into_inner().unwrap_or_else(|p| p.into_inner());
        for (number, result) in made.into_iter().enumerate() {
            let run = &runs[number % runs.len()];
            let Some(result) = result else {
                continue;
            };
            let known = traits.get(&named(run)).copied().flatten();
            let result = result.map(|measured| Measured {
                traits: known,
                ..measured
            });
            self.keep(run, result);
        }
    }

    /// Adds what one more seed gave; a gap stays.
    fn keep(&mut self, run: &Run, result: Result<Measured, Gap>) {
        let kept = self.done.entry(run.clone()).or_insert(Ok(Vec::new()));
        match (kept.as_mut(), result) {
            (Ok(all), Ok(one)) => all.push(one),
            (Ok(_), Err(gap)) => *kept = Err(gap),
            (Err(_), _) => {}
        }
    }
}

/// What the threads share that make runs side by side.
struct Bench<'a> {
    options: &'a Options,
    stop: &'a Arc<AtomicBool>,
    runs: &'a [Run],
    /// The lines on the terminal.
    bars: Bars,
    /// Drives made ready, by what they hold.
    stocks: BTreeMap<Start, Prepare>,
    /// The requests that each thread made last.
    prepared: Vec<Mutex<Option<Prepared>>>,
    /// The number of the first run of each workload: the one that finds its traits, which are the same for all clients,
    /// drives and seeds, and take long to find.
    describers: BTreeMap<Named, usize>,
    traits: Mutex<BTreeMap<Named, Option<Traits>>>,
}

impl<'a> Bench<'a> {
    fn new(
        options: &'a Options,
        stop: &'a Arc<AtomicBool>,
        threads: usize,
        runs: &'a [Run],
    ) -> Bench<'a> {
        let mut describers = BTreeMap::new();
        for (number, run) in runs.iter().enumerate() {
            if let Entry::Vacant(first) = describers.entry(named(run)) {
                first.insert(number);
            }
        }
        Bench {
            options,
            stop,
            runs,
            bars: Bars::of(runs.len() as u64 * u64::from(options.seeds)),
            stocks: Start::ALL.map(|start| (start, prepare(start))).into(),
            prepared: (0..threads).map(|_| Mutex::new(None)).collect(),
            describers,
            traits: Mutex::default(),
        }
    }

    /// Makes run `number`, counted by seeds and then by runs, on a thread; nothing if it is stopped.
    fn make(&self, number: usize, thread: usize) -> Option<Result<Measured, Gap>> {
        if self.stop.load(Relaxed) {
            return None;
        }
        let (seed, index) = (number / self.runs.len(), number % self.runs.len());
        let run = &self.runs[index];
        let seed_of_run = self.options.seed + seed as u64;
        let result = self.run(run, seed_of_run, number, thread);
        // A run that was interrupted covers only a part of its workload.
        (!self.stop.load(Relaxed)).then_some(result)
    }

    fn run(&self, run: &Run, seed: u64, number: usize, thread: usize) -> Result<Measured, Gap> {
        let design = find(run.design)
            .ok_or_else(|| Gap::missing(format!("design '{}' is not built in", run.design)))?;
        let mut setup = self.setup(run, seed)?;
        setup.show_enough(&[design]);
        let fits = setup.host.check_drives(setup.cache().drives);
        fits.map_err(|error| Gap::missing(error.to_string()))?;
        let device_bytes = setup.addressable_bytes(&[design]);
        let plan = self.plan(run, seed, device_bytes, thread)?;
        if self.describers.get(&named(run)) == Some(&number) {
            let traits = self.traits(run, &plan);
            let mut known = self.traits.lock().unwrap_or_else(|p| p.into_inner());
            known.insert(named(run), traits);
        }
        let one_drive_bytes = setup.cache().drive.namespace_pages() * 4096;
        let setup = Setup {
            cache_bytes: setup
                .host
                .cache_bytes(plan.footprint_pages * 4096, one_drive_bytes),
            ..setup
        };
        let progress = self.progress(run, &plan, number);
        let row = (design.run)(&setup, &plan, progress, self.stop).map_err(gap_of)?;
        Ok(Measured {
            row,
            traits: None,
            unaligned: plan.files.as_ref().and_then(|files| unaligned(&files.ops)),
            cache_bytes: setup.cache_bytes,
            in_line: setup.depth / setup.tasks(),
        })
    }

    fn progress(&self, run: &Run, plan: &Plan, number: usize) -> Progress {
        let count = self.runs.len() * self.options.seeds as usize;
        let label = format!("{:>4}/{count} {} {}", number + 1, run.design, run.workload);
        self.bars.start(&label, plan.request_count())
    }

    fn setup(&self, run: &Run, seed: u64) -> Result<Setup, Gap> {
        let scale = self.options.scale;
        let drive = setup::drive(scale, run).map_err(|e| config_gap(&e))?;
        let host = setup::host(scale, run).map_err(|e| config_gap(&e))?;
        let mut devices = vec![DeviceGroup::new(Role::Cache, drive, run.drives, &host)];
        let backing = setup::backing(scale, run).map_err(|e| config_gap(&e))?;
        devices.extend(backing.map(|disk| DeviceGroup::new(Role::Backing, disk, 1, &host)));
        Ok(Setup {
            devices,
            host,
            costs: self.options.costs.clone(),
            cache_bytes: 0,
            clients: run.clients,
            depth: setup::depth(run),
            submission: setup::submission(run),
            speed: None,
            seed,
            engine: Engine::Virtual,
            prepare: self.stocks[&self.options.start.unwrap_or(run.start)].clone(),
        })
    }

    fn plan(
        &self,
        run: &Run,
        seed: u64,
        device_bytes: u64,
        thread: usize,
    ) -> Result<Arc<Plan>, Gap> {
        let key = Key {
            workload: named(run),
            rule: run.rule,
            clients: run.clients,
            device_bytes,
            seed,
        };
        let mut prepared = self.prepared[thread]
            .lock()
            .unwrap_or_else(|p| p.into_inner());
        if let Some(ready) = prepared.as_ref().filter(|ready| ready.key == key) {
            return Ok(ready.plan.clone());
        }
        let load = match &self.options.trace {
            Some(trace) => Load {
                input: trace.clone(),
                fit: FitMode::Wrap,
            },
            None => setup::load(self.options.scale, run, seed, device_bytes)?,
        };
        let plan = plan(&load.input, load.fit, run.rule, run.clients, device_bytes);
        let plan = Arc::new(plan.map_err(|e| Gap {
            reason: e.to_string(),
            failed: true,
        })?);
        *prepared = Some(Prepared {
            key,
            plan: plan.clone(),
        });
        Ok(plan)
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

/// Of reads and writes of files, the share that begins or ends within a page; none if there is none.
fn unaligned(ops: &[FileOp]) -> Option<f64> {
    use FileOpKind::{Append, CrcWrite, Nearest, Read, Write};
    let moves = ops
        .iter()
        .filter(|op| matches!(op.kind, Append | CrcWrite | Nearest | Read | Write));
    let (mut all, mut within) = (0u64, 0u64);
    for op in moves {
        all += 1;
        within += u64::from(op.offset % PAGE_BYTES != 0 || op.bytes % PAGE_BYTES != 0);
    }
    (all > 0).then(|| within as f64 / all as f64)
}

/// How drives come to what they hold at the start.
fn prepare(start: Start) -> Prepare {
    let stock = |age| Prepare::Stock(Arc::new(Stock::new(age)));
    match start {
        Start::Touched => Prepare::Touched,
        Start::Filled => stock(Age::Filled),
        Start::Steady => stock(Age::Steady),
    }
}

fn named(run: &Run) -> Named {
    (run.workload.clone(), run.request_kib, run.stretch)
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
    built_in().map(|design| design.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(kind: FileOpKind, offset: u64, bytes: u64) -> FileOp {
        FileOp {
            offset,
            bytes,
            ..FileOp::new(0, kind, 0)
        }
    }

    #[test]
    fn requests_that_begin_or_end_within_a_page_are_counted_and_nothing_else_is() {
        use FileOpKind::{Append, Fsync, Read, Truncate, Write};
        let ops = [
            op(Read, 0, 8192),
            op(Read, 4096, 512),
            op(Write, 512, 4096),
            op(Append, 8192, 4096),
            op(Truncate, 5, 0),
            op(Fsync, 0, 77),
        ];
        assert_eq!(unaligned(&ops), Some(0.5));
        assert_eq!(unaligned(&ops[4..]), None);
    }
}
