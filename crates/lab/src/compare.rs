//! `wharf compare`: one workload through several designs, one report.
//!
//! Runs know nothing of each other. In virtual time, and where drives have no file, several are made at a time, and the
//! report is the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use wharf_drive::DriveConfig;
use wharf_drive::config::DiskConfig;
use wharf_host::design::Role;
use wharf_runtime::worker::side_by_side;
use wharf_workload::textbook::belady;

use crate::config::ConfigHash;
use crate::designs::DesignEntry;
use crate::input::Plan;
use crate::progress::Bars;
use crate::replay::{DeviceGroup, Prepare, RunError, Setup};
use crate::result::{Arrival, Comparison, CostTable, Drive, Row, SCHEMA, Workload};

/// What is compared, and how it was asked for.
pub struct Request {
    /// Drives, host, clients, engine, seed.
    pub setup: Setup,
    /// The designs, in order.
    pub designs: Vec<&'static DesignEntry>,
    /// The requests, for each seed from that of the setup on: at least one.
    pub plans: Vec<Arc<Plan>>,
    /// The cache size as it was said.
    pub cache_spec: String,
    /// The commit this program was built from.
    pub commit: String,
    /// Most runs that are made at a time.
    pub jobs: usize,
}

impl Request {
    /// Runs that are made at a time.
    pub fn threads(&self) -> usize {
        let groups = &self.setup.devices;
        let has_file = groups.iter().any(|group| group.drive.media.path.is_some());
        if !self.setup.engine.is_virtual() || has_file {
            return 1;
        }
        self.jobs.min(self.plans.len() * self.designs.len()).max(1)
    }

    /// Makes run `number`, counted by designs and then by seeds; nothing if it is stopped before, but for the first.
    fn make(
        &self,
        number: usize,
        bars: &Bars,
        stop: &Arc<AtomicBool>,
    ) -> Option<Result<Row, RunError>> {
        if number > 0 && stop.load(Ordering::Relaxed) {
            return None;
        }
        let (design, seed) = (number / self.plans.len(), number % self.plans.len());
        let made = self.with_seed(self.designs[design], seed, bars, stop);
        // The first failure is the report: no other run counts any more.
        if made.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        Some(made)
    }

    /// Runs a design with the seed of this number.
    fn with_seed(
        &self,
        design: &DesignEntry,
        seed: usize,
        bars: &Bars,
        stop: &Arc<AtomicBool>,
    ) -> Result<Row, RunError> {
        let plan = &self.plans[seed];
        let setup = Setup {
            seed: self.setup.seed.wrapping_add(seed as u64),
            ..self.setup.clone()
        };
        let progress = bars.start(design.name, plan.request_count());
        (design.run)(&setup, plan, progress, stop)
    }

    /// Runs a design with every seed, one after another; nothing if it is stopped before the last one.
    pub(crate) fn over_seeds(
        &self,
        design: &DesignEntry,
        bars: &Bars,
        stop: &Arc<AtomicBool>,
    ) -> Result<Option<Row>, RunError> {
        let mut rows = Vec::new();
        for seed in 0..self.plans.len() {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            rows.push(self.with_seed(design, seed, bars, stop)?);
        }
        Ok(Some(Row::over_seeds(&rows)))
    }

    /// Hash of drives, host and costs.
    pub(crate) fn config_hash(&self) -> ConfigHash {
        self.setup.config_hash()
    }
}

/// Runs every design with every seed. After `stop` is set, what was done so far is reported.
///
/// # Errors
/// The first run that fails.
pub fn compare(request: &Request, stop: &Arc<AtomicBool>) -> Result<Comparison, RunError> {
    let (runs, seeds) = (
        request.plans.len() * request.designs.len(),
        request.plans.len(),
    );
    let bars = Bars::of(runs as u64);
    let made = side_by_side(runs, request.threads(), |number, _| {
        request.make(number, &bars, stop)
    });
    let mut rows: Vec<Vec<Row>> = request.designs.iter().map(|_| Vec::new()).collect();
    for (number, run) in made.into_iter().enumerate() {
        if let Some(row) = run.transpose()? {
            rows[number / seeds].push(row);
        }
    }
    let mut comparison = describe(request);
    for rows in rows.iter().filter(|rows| !rows.is_empty()) {
        let mut row = Row::over_seeds(rows);
        row.complete &= rows.len() == seeds;
        comparison.rows.push(row);
    }
    if stop.load(Ordering::Relaxed) {
        comparison
            .warnings
            .push("interrupted: rows marked incomplete cover only part of the workload".into());
    }
    Ok(comparison)
}

fn describe(request: &Request) -> Comparison {
    let (setup, plan) = (&request.setup, &request.plans[0]);
    let others = setup.devices.iter();
    let others = others.filter(|group| group.role != Role::Cache);
    let mut notes = plan.notes.clone();
    notes.push(match &setup.prepare {
        Prepare::Empty => {
            "drives begin empty: reads of pages not yet written touch no flash".into()
        }
        Prepare::Touched => {
            "before each run every page that the workload touches was written once".into()
        }
        Prepare::Steady => {
            "before each run the drives were filled and overwritten to steady state".into()
        }
        Prepare::Stock(stock) => format!("every run began with copies of drives from a {stock:?}"),
        Prepare::Image(path) => format!(
            "before each run the drives were loaded from {}",
            path.display()
        ),
    });
    notes.extend(bound(request));
    Comparison {
        schema: SCHEMA.into(),
        seed: setup.seed,
        seeds: request.plans.len() as u32,
        workload: Workload {
            name: plan.name.clone(),
            source: plan.source.clone(),
            requests: plan.request_count().unwrap_or(0),
            footprint_bytes: plan.footprint_pages * 4096,
            read_share: plan.read_share,
            fit: plan.fit.clone(),
            client_rule: plan.rule.describe().into(),
            clients: setup.clients,
            depth: setup.depth,
            arrival: if setup.speed.is_some() {
                Arrival::Open
            } else {
                Arrival::Closed
            },
            speed_factor: setup.speed,
            bad_lines: plan.bad_lines,
        },
        drive: drives_of(setup.cache()),
        more_drives: others.map(drives_of).collect(),
        cache_bytes: setup.cache_bytes,
        cache_spec: request.cache_spec.clone(),
        config_hash: request.config_hash().to_string(),
        cost_table: setup
            .engine
            .is_virtual()
            .then(|| CostTable::of(&setup.costs)),
        commit: request.commit.clone(),
        notes,
        warnings: Vec::new(),
        rows: Vec::new(),
    }
}

/// What no cache can exceed, where the whole workload is known and designs cache on flash.
fn bound(request: &Request) -> Option<String> {
    let (setup, plan) = (&request.setup, &request.plans[0]);
    if !request.designs.iter().any(|design| design.is_flash_cache()) || plan.requests.is_empty() {
        return None;
    }
    let moved = plan
        .requests
        .iter()
        .filter(|request| request.op.moves_data());
    let moved: Vec<_> = moved.cloned().collect();
    let best = belady(&moved, (setup.cache_bytes / 4096) as usize).ratio();
    Some(format!(
        "no cache of this size hits more than {:.1} % of page touches (Belady, requests in the order of the workload)",
        best * 100.0
    ))
}

/// The drives of a role.
fn drives_of(group: &DeviceGroup) -> Drive {
    Drive {
        role: group.role.to_string(),
        preset: group.drive.name.clone(),
        count: group.drives,
        capacity_bytes: group.drive.namespace_pages() * 4096,
        parameters: parameters(&group.drive),
    }
}

/// The drive's parameters that shape the figures most.
fn parameters(drive: &DriveConfig) -> BTreeMap<String, serde_json::Value> {
    if let Some(disk) = drive.as_disk() {
        return parameters_of_disk(drive, disk);
    }
    let pairs = [
        ("channels", json!(drive.geometry.channels)),
        ("dies_per_channel", json!(drive.geometry.dies_per_channel)),
        ("planes_per_die", json!(drive.geometry.planes_per_die)),
        ("pages_per_block", json!(drive.geometry.pages_per_block)),
        ("read_ns", json!(drive.timing.read_ns)),
        ("program_ns", json!(drive.timing.program_ns)),
        ("erase_ns", json!(drive.timing.erase_ns)),
        ("link_to_host_mb_s", json!(drive.link.to_host_mb_s)),
        ("firmware_cores", json!(drive.firmware.cores)),
        ("firmware_slowness", json!(drive.firmware.slowness)),
        ("over_provisioning", json!(drive.ftl.over_provisioning)),
        (
            "volatile_write_cache",
            json!(drive.ftl.volatile_write_cache),
        ),
        ("media", json!(drive.media.kind)),
    ];
    pairs
        .into_iter()
        .map(|(key, value)| (key.to_string(), value))
        .collect()
}

/// Those of a disk.
fn parameters_of_disk(
    drive: &DriveConfig,
    disk: &DiskConfig,
) -> BTreeMap<String, serde_json::Value> {
    let pairs = [
        ("kind", json!(drive.kind())),
        ("rotations_per_minute", json!(disk.rotations_per_minute)),
        ("heads", json!(disk.heads)),
        ("outer_mb_s", json!(disk.outer_mb_s)),
        ("inner_mb_s", json!(disk.inner_mb_s)),
        ("queue_depth", json!(disk.queue_depth)),
        ("write_cache", json!(disk.write_cache)),
        ("write_buffer_bytes", json!(disk.write_buffer_bytes)),
        ("media", json!(drive.media.kind)),
    ];
    pairs
        .into_iter()
        .map(|(key, value)| (key.to_string(), value))
        .collect()
}
