//! Policies of a flash cache on traces, without time: hits, and what is written for each byte that is written
//! back in units of 32 KiB.
//!
//! `cargo run --release -p wharf-lab --example flash_policies -- SHARE ROUND TRACE...`: a cache of SHARE of a
//! trace's pages, from which ROUND of it leaves at a time.
//!
//! Behind it is what the bitmap takes at the end, packed, in GiB for a cached TiB, by allocation. In use it has unpacked parts
//! besides, for 1/32768 of what is cached: 0.031. The last column has the cached sectors that a policy
//! looked at for each one that left.

use std::path::Path;

use wharf_host::indexless::bitmap::Bitmap;
use wharf_host::indexless::policy::{Continuity, Fifo, ImprovedLru, Lru, Policy, Scan, ScanRules};
use wharf_runtime::{CostTable, Cpu, Machine, Seed, Side};
use wharf_workload::textbook::belady;
use wharf_workload::{ReadOptions, Request, Workload};

mod cache;
mod count;

use cache::Cache;
use count::live_bytes;

/// GiB for a cached TiB of a byte for a cached sector.
const GIB_PER_TIB: f64 = 0.25;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = || {
        arguments
            .next()
            .and_then(|a| a.parse::<f64>().ok())
            .expect("SHARE ROUND")
    };
    let (share, round) = (number(), number());
    let paths: Vec<String> = arguments.collect();
    let mut machine = Machine::new(CostTable::free(), false);
    let id = machine.add_cpu("study", Side::Host, 1.0);
    machine.spawn_main(id, "study", move |cpu| async move {
        for path in &paths {
            study(&cpu, Path::new(path), share, round);
        }
    });
    machine.run_virtual(Seed(1)).expect("nothing waits");
}

/// Bytes that are allocated for a cached sector when no part of the bitmap is unpacked; directory and groups with them.
fn packed_bytes_per_sector(cache: &Cache<'_>) -> f64 {
    let before = live_bytes();
    let packed = cache.packed();
    (live_bytes() - before) as f64 / packed.totals().cached.max(1) as f64
}

fn study(cpu: &Cpu, path: &Path, share: f64, round: f64) {
    let workload = Workload::open(path, &ReadOptions::default()).expect("a trace");
    let (requests, _) = workload.materialise().expect("a trace");
    let requests: Vec<Request> = requests.into_iter().filter(|r| r.op.moves_data()).collect();
    let mut pages: Vec<u64> = requests.iter().flat_map(|r| r.pages()).collect();
    pages.sort_unstable();
    pages.dedup();
    let limit = ((pages.len() as f64 * share) as u64).max(1);
    let round = ((limit as f64 * round) as u64).max(1);
    let sectors = pages.last().expect("a page") + 1;
    println!(
        "{}: {} pages, cache {limit}, round {round}; Belady {:.3}",
        path.display(),
        pages.len(),
        belady(&requests, limit as usize).ratio(),
    );
    let before = live_bytes();
    let empty = Bitmap::new(sectors, 0, false);
    let empty_bytes = live_bytes() - before;
    println!(
        "  bitmap of {} parts; empty, it takes {empty_bytes} bytes",
        empty.parts()
    );
    let ours = ScanRules::default();
    let scan = |rules| Box::new(Scan::new(rules)) as Box<dyn Policy>;
    let half = ScanRules {
        clean_share: 0.5,
        ..ours
    };
    let restart = ScanRules {
        resumes: false,
        ..ours
    };
    let ideal = ScanRules {
        continuity: Continuity::Exact,
        ..ours
    };
    // Name, sectors that leave at a time, heat of what comes in.
    let policies: Vec<(&str, u64, u8, Box<dyn Policy>)> = vec![
        ("lru", 1, 0, Box::new(Lru::default())),
        ("lru-batch", round, 0, Box::new(Lru::default())),
        ("fifo", round, 0, Box::new(Fifo::default())),
        (
            "paper, 0.5 %",
            (limit / 200).max(1),
            0,
            scan(ScanRules::PAPER),
        ),
        ("paper", round, 0, scan(ScanRules::PAPER)),
        ("scan", round, 1, scan(ours)),
        ("scan, half clean", round, 1, scan(half)),
        ("scan, restarts", round, 1, scan(restart)),
        ("ideal", round, 1, scan(ideal)),
        ("improved-lru", round, 1, Box::new(ImprovedLru::new(ours))),
    ];
    println!("  policy             hits  reads writes   WA32 run len  rounds  GiB/TiB  visits");
    for (name, round, insert_heat, policy) in policies {
        let mut cache = Cache::new(cpu, sectors, limit, round, insert_heat, policy);
        requests.iter().for_each(|request| cache.request(request));
        let found = &cache.found;
        let visits = match cache.visits_by_evicted() {
            Some(visits) => format!("{visits:.1}"),
            None => "-".into(),
        };
        println!(
            "  {name:<17} {:.3}  {:.3}  {:.3}  {:5.2} {:7.1} {:7}   {:.4} {visits:>7}",
            found.hit_ratio(),
            found.read_hit_ratio(),
            found.write_hit_ratio(),
            found.write_amplification(),
            found.run_sectors(),
            found.rounds,
            packed_bytes_per_sector(&cache) * GIB_PER_TIB,
        );
    }
}
