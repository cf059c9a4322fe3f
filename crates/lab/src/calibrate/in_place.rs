//! The designs' operations, timed where they happen.
//!
//! A structure timed alone, over and over, has its lines at hand and its steps overlap; in a design it
//! has just been driven out by 4 KiB of data. So every design of this program runs for real, one
//! client over a cache that is too small, with each operation between two looks at the clock. What the looks
//! themselves take is what an operation that does nothing seems to take (`client_request`, whose work the
//! design's client does elsewhere).
//!
//! An operation that a design accounts for beside the code that does it seems to take nothing: its figure
//! stays the one of `designs.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_drive::config::MediaKind;
use wharf_host::design::Role;
use wharf_runtime::{CostTable, Op, Seed};
use wharf_workload::{Op as RequestOp, Request};

use super::CalibrateError;
use super::costs::Costs;
use super::sample::Sampler;
use super::stream::{page_request, unchecked_plan};
use crate::config::{Sets, load_drive, load_host};
use crate::designs::DESIGNS;
use crate::progress::Progress;
use crate::replay::{DeviceGroup, Engine, Prepare, Setup};
use crate::result::Row;

/// Operations that are timed so.
const OPS: &[Op] = &[
    Op::DriverSubmit,
    Op::DriverComplete,
    Op::CacheLookup,
    Op::CacheUpdate,
    Op::QueueIndexLookup,
    Op::QueueIndexUpdate,
    Op::PinListEntry,
    Op::FusionLookup,
    Op::FrameUpdate,
    Op::DriveCopy,
    Op::MessageSend,
    Op::MessageReceive,
    Op::PrivateLookup,
    Op::PrivateUpdate,
    Op::ManagerLookup,
    Op::ManagerUpdate,
    Op::TreeLookup,
    Op::TreeUpdate,
    Op::ConcurrentLookup,
    Op::ConcurrentUpdate,
    Op::ListUpdate,
    Op::TokenCompare,
];

/// Pages of the cache: 64 MiB, far beyond the second-level cache.
const CACHE_PAGES: u64 = 1 << 14;

/// Pages that are used: with these, one request in five misses once the cache is full.
const PAGES: u64 = CACHE_PAGES * 5 / 4;

/// Requests of a run.
const REQUESTS: u64 = 60_000;

/// Least number of times that an operation must have run for a figure.
const RUNS_MIN: u64 = 1_000;

/// Least figure, in nanoseconds, that is more than the uncertainty of the clock's own cost.
const NS_MIN: f64 = 2.0;

/// Times the operations in every design.
pub(super) fn measure(sampler: Sampler, costs: &mut Costs) -> Result<(), CalibrateError> {
    let (setup, requests) = (setup()?, requests());
    let plan = unchecked_plan(requests, 1, PAGES);
    let stop = Arc::new(AtomicBool::new(false));
    let mut rounds: BTreeMap<Op, Vec<f64>> = BTreeMap::new();
    for design in DESIGNS {
        for _ in 0..2 * sampler.groups + 1 {
            let row = (design.run)(&setup, &plan, Progress::hidden(), &stop)?;
            let look_ns = mean(&row, Op::ClientRequest).unwrap_or(0.0);
            for op in OPS {
                if let Some(ns) = mean(&row, *op) {
                    rounds.entry(*op).or_default().push((ns - look_ns).max(0.0));
                }
            }
        }
    }
    for (op, rounds) in rounds {
        let sample = sampler.figure(&rounds);
        if sample.ns >= NS_MIN {
            costs.set(op, sample, "timed in its place, in the designs that do it");
        }
    }
    Ok(())
}

/// Nanoseconds of an operation in a run, the looks at the clock included.
fn mean(row: &Row, op: Op) -> Option<f64> {
    let all = row.cpus.iter().flat_map(|group| &group.operations);
    let (count, busy_us) = all
        .filter(|account| account.operation == op.key())
        .fold((0, 0.0), |(count, busy_us), account| {
            (count + account.count, busy_us + account.busy_us)
        });
    (count >= RUNS_MIN).then(|| busy_us * 1000.0 / count as f64)
}

fn setup() -> Result<Setup, CalibrateError> {
    let drive = [
        "drive.firmware.cores=1",
        "drive.firmware.slowness=1.0",
        "drive.firmware.platform=software",
        "drive.geometry.blocks_per_plane=64",
    ];
    let mut drive = load_drive("scala", &Sets::parse(&drive)?)?.0;
    drive.media.kind = MediaKind::Ram;
    drive.media.verify = false;
    super::fidelity::without_latency(&mut drive);
    let sets = Sets::parse(&["design.tri.managers=1"])?;
    let host = load_host("default", &sets)?.0;
    Ok(Setup {
        devices: vec![DeviceGroup::new(Role::Cache, drive, 1, &host)],
        host,
        costs: CostTable::free(),
        cache_bytes: CACHE_PAGES * 4096,
        clients: 1,
        depth: 4,
        submission: crate::replay::Submission::default(),
        speed: None,
        seed: 1,
        engine: Engine::Real {
            client_threads: 1,
            profile: true,
        },
        prepare: Prepare::Empty,
    })
}

/// Seven reads in ten, pages at random.
fn requests() -> Vec<Request> {
    let mut rng = Seed(41).rng();
    let request = |_| {
        let page = rng.below(PAGES);
        match rng.below(10) {
            0..7 => page_request(RequestOp::Read, page),
            _ => page_request(RequestOp::Write, page),
        }
    };
    (0..REQUESTS).map(request).collect()
}
