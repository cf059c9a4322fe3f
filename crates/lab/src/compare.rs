//! `wharf compare`: one workload through several designs, one report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::config::config_hash;
use crate::designs::DesignEntry;
use crate::input::Plan;
use crate::progress::Progress;
use crate::replay::{Prepare, RunError, Setup};
use crate::result::{Arrival, Comparison, CostTable, Drive, SCHEMA, Workload};

/// What is compared, and how it was asked for.
pub struct Request {
    /// Drives, host, clients, engine, seed.
    pub setup: Setup,
    /// The designs, in order.
    pub designs: Vec<&'static DesignEntry>,
    /// The requests.
    pub plan: Arc<Plan>,
    /// The cache size as it was said.
    pub cache_spec: String,
    /// The commit this program was built from.
    pub commit: String,
}

/// Runs every design in turn. After `stop` is set, what was done so far is reported.
///
/// # Errors
/// The first design that fails.
pub fn compare(request: &Request, stop: &Arc<AtomicBool>) -> Result<Comparison, RunError> {
    let mut comparison = describe(request);
    let expected = request.plan.requests.len() as u64;
    for design in &request.designs {
        let progress = Progress::start(design.name, Some(expected));
        let row = (design.run)(&request.setup, &request.plan, progress, stop)?;
        comparison.rows.push(row);
        if stop.load(Ordering::Relaxed) {
            comparison
                .notes
                .push("interrupted: rows marked incomplete cover only part of the workload".into());
            break;
        }
    }
    Ok(comparison)
}

fn describe(request: &Request) -> Comparison {
    let (setup, plan) = (&request.setup, &request.plan);
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
    Comparison {
        schema: SCHEMA.into(),
        seed: setup.seed,
        workload: Workload {
            name: plan.name.clone(),
            source: plan.source.clone(),
            requests: plan.requests.len() as u64,
            footprint_bytes: plan.footprint_pages * 4096,
            read_share: plan.read_share,
            fit: plan.fit.clone(),
            client_rule: request.plan.rule.describe().into(),
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
        drive: Drive {
            preset: setup.drive.name.clone(),
            count: setup.drives,
            capacity_bytes: setup.drive.namespace_pages() * 4096,
            parameters: parameters(setup),
        },
        cache_bytes: setup.cache_bytes,
        cache_spec: request.cache_spec.clone(),
        config_hash: config_hash(&setup.drive, &setup.host, &setup.costs).to_string(),
        cost_table: setup.engine.is_virtual().then(|| CostTable {
            name: setup.costs.name.clone(),
            machine: setup.costs.machine.clone(),
            date: setup.costs.date.clone(),
            commit: setup.costs.commit.clone(),
        }),
        commit: request.commit.clone(),
        notes,
        rows: Vec::new(),
    }
}

/// The drive's parameters that shape the figures most.
fn parameters(setup: &Setup) -> BTreeMap<String, serde_json::Value> {
    let drive = &setup.drive;
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
