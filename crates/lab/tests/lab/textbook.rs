//! With one client at depth 1, `clock` hits exactly as the textbook's CLOCK does on the same pages.

use std::path::PathBuf;

use wharf_host::Clock;
use wharf_lab::input::{Input, TraceFrom};
use wharf_workload::textbook::{self, simulate};

use crate::support::{SAMPLE, drive, planned, run, setup, trace};

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

#[test]
fn real_traces() {
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
        compare(&trace(TraceFrom::File(directory.join(name))), name);
    }
}
