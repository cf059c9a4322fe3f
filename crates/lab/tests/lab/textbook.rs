//! With one client at depth 1, `clock` hits exactly as the textbook's CLOCK does on the same pages, and no design
//! hits more often than a cache can.

use std::path::PathBuf;

use wharf_host::Clock;
use wharf_lab::input::{Input, TraceFrom};
use wharf_workload::textbook::{self, belady, infinite, simulate};

use wharf_workload::Request;

use crate::support::{SAMPLE, drive, listed, planned, run, run_all, setup, trace};

/// Real traces of different kinds, none of them long.
const TRACES: [&str; 12] = [
    "arc/OLTP.lis.zst",
    "blkparse/blkparseout_f2fs.txt",
    "cloudphysics/cloudPhysicsIO.vscsi",
    "fio/iolog_8G.log",
    "fiu/home1sample.blkparse",
    "heimdall/msr.cut.per_10k.rw_20_80.105.trace",
    "mobile/Booting_log176.txt",
    "mqsim/tpcc-small.trace",
    "msr/hm_0_part.csv",
    "systor17/systor17-traces-sample.csv.gz",
    "tencent/cloud_storage-sample.bz2",
    "umass/fin1.trace",
];

fn compare(input: &Input, what: &str) {
    let mut setup = setup(drive("scala", &[]));
    let plan = planned(input, &setup);
    for share in [0.02, 0.1875] {
        let frames = ((plan.footprint_pages as f64 * share) as u64).max(1);
        setup.cache_bytes = frames * 4096;
        let expected = simulate(
            &mut textbook::Clock::new(frames as usize),
            plan.requests.iter(),
        );
        let row = run::<Clock>(&setup, &plan);
        assert_eq!(
            row.hit_ratio,
            Some(expected.ratio()),
            "{what} with {frames} frames"
        );
    }
}

#[test]
fn the_sample_trace() {
    compare(&trace(SAMPLE), "the sample trace");
}

/// Calls `f` for each real trace that is there.
fn each_real_trace(f: impl Fn(&Input, &str)) {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let directory = std::env::var_os("WHARF_TRACES").map_or_else(beside, PathBuf::from);
    if !directory.is_dir() {
        eprintln!(
            "skipped: no reference traces at {} (set WHARF_TRACES)",
            directory.display()
        );
        return;
    }
    for name in TRACES {
        f(&trace(TraceFrom::File(directory.join(name))), name);
    }
}

#[test]
fn real_traces() {
    each_real_trace(compare);
}

/// Of how many requests of a trace all designs are tried.
const REQUESTS_MAX: usize = 20_000;

/// Runs every design over a trace; no one's hits may be above those of a bound.
fn is_bounded(input: &Input, what: &str, clients: u32, bound: impl Fn(&[Request], u64) -> f64) {
    let mut setup = setup(drive("scala", &[]));
    (setup.clients, setup.depth) = (clients, clients);
    let mut plan = planned(input, &setup);
    if plan.requests.len() > REQUESTS_MAX {
        let shorter = plan.requests[..REQUESTS_MAX].to_vec();
        plan = planned(&listed(&shorter), &setup);
    }
    let frames = (plan.footprint_pages * 3 / 16).max(1024);
    setup.cache_bytes = frames * 4096;
    let most = bound(&plan.requests, frames);
    for row in &run_all(&setup, &plan).rows {
        let hits = row.hit_ratio.unwrap_or(0.0);
        assert!(hits <= most, "{what}: {} has {hits} of {most}", row.design);
    }
}

/// What was read ahead counted as a hit when it was touched for the first time: `kernel` and `scale` had more hits on
/// real traces than a cache that keeps everything.
#[test]
fn pages_read_ahead_were_hits_above_those_of_an_infinite_cache() {
    let all = |requests: &[Request], _| infinite(requests).ratio();
    is_bounded(&trace(SAMPLE), "the sample trace", 4, all);
    each_real_trace(|input, what| is_bounded(input, what, 4, all));
}

#[test]
fn no_design_has_more_hits_than_belady() {
    let best = |requests: &[Request], frames| belady(requests, frames as usize).ratio();
    is_bounded(&trace(SAMPLE), "the sample trace", 1, best);
    each_real_trace(|input, what| is_bounded(input, what, 1, best));
}
