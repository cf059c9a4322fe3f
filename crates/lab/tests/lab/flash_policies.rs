//! The second-chance scan of a flash cache beside LRU on real traces, without time.

use std::path::PathBuf;

use wharf_host::indexless::policy::{Lru, Policy, Scan, ScanRules};
use wharf_runtime::{CostTable, Cpu, Machine, Seed, Side};
use wharf_workload::textbook::belady;
use wharf_workload::{ReadOptions, Request, Workload};

#[path = "../../examples/flash_policies/cache.rs"]
#[allow(dead_code)] // the example shows more of it
mod cache;

use cache::Cache;

/// Traces, and the most that dirty sectors may cost in units of 32 KiB for each of theirs, with a
/// cache of a tenth and of three tenths of the pages.
const TRACES: [(&str, [f64; 2]); 4] = [
    ("umass/fin1.trace", [1.30, 1.15]),
    ("msr/rsrch_1.csv", [1.20, 1.05]),
    ("cloudphysics/cloudPhysicsIO.vscsi", [1.20, 1.05]),
    ("arc/OLTP.lis.zst", [1.0, 1.0]),
];

/// What a tenth of the sectors leaving at a time, by 5 % of the cache, brings.
fn on_trace(cpu: &Cpu, requests: &[Request], limit: u64, policy: Box<dyn Policy>) -> cache::Found {
    let sectors = requests
        .iter()
        .map(|r| r.pages().end)
        .max()
        .expect("a request");
    let round = (limit / 20).max(1);
    let mut cache = Cache::new(cpu, sectors, limit, round, 1, policy);
    requests.iter().for_each(|request| cache.request(request));
    cache.found
}

#[test]
fn the_scan_hits_as_lru_does_and_writes_runs_back() {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let directory = std::env::var_os("WHARF_TRACES").map_or_else(beside, PathBuf::from);
    if !directory.is_dir() {
        eprintln!(
            "skipped: no reference traces at {} (set WHARF_TRACES)",
            directory.display()
        );
        return;
    }
    let mut machine = Machine::new(CostTable::free(), false);
    let id = machine.add_cpu("test", Side::Host, 1.0);
    machine.spawn_main(id, "test", move |cpu| async move {
        for (name, amplification) in TRACES {
            let read = Workload::open(&directory.join(name), &ReadOptions::default());
            let (mut requests, _) = read.unwrap().materialise().unwrap();
            requests.retain(|request| request.op.moves_data());
            let mut pages: Vec<u64> = requests.iter().flat_map(|r| r.pages()).collect();
            pages.sort_unstable();
            pages.dedup();
            for (share, most) in [0.1, 0.3].into_iter().zip(amplification) {
                let limit = (pages.len() as f64 * share) as u64;
                let scan = on_trace(
                    &cpu,
                    &requests,
                    limit,
                    Box::new(Scan::new(ScanRules::default())),
                );
                let lru = on_trace(&cpu, &requests, limit, Box::new(Lru::default()));
                let paper = on_trace(
                    &cpu,
                    &requests,
                    limit,
                    Box::new(Scan::new(ScanRules::PAPER)),
                );
                let what = format!("{name}, {share} of its pages");
                let (hits, of_lru) = (scan.hit_ratio(), lru.hit_ratio());
                assert!(hits >= of_lru - 0.005, "{what}: {hits:.3}, LRU {of_lru:.3}");
                assert!(hits <= belady(&requests, limit as usize).ratio(), "{what}");
                assert!(
                    paper.hit_ratio() <= hits + 0.03,
                    "{what}: the repairs cost hits"
                );
                let written = scan.write_amplification();
                assert!(written <= most, "{what}: {written:.3} for {most}");
            }
        }
    });
    machine.run_virtual(Seed(1)).unwrap();
}
