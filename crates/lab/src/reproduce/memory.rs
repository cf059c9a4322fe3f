//! What a bitmap and an index take for so many cached sectors, by count: in the small caches of runs a bitmap has all of its
//! parts unpacked, so that runs tell nothing of large ones.
//!
//! 1. Sectors come into a cache of 32 GiB before 1 TiB at places drawn at random, singly or in runs.
//! 2. Both are asked what they take (`lab/tests/memory.rs` holds them to an allocator's count).

use std::sync::mpsc;

use wharf_host::indexless::bitmap::Bitmap;
use wharf_host::indexless::index::LineIndex;
use wharf_host::indexless::part::SECTORS;
use wharf_host::indexless::word::Word;
use wharf_runtime::{CostTable, Cpu, Machine, Seed, Side};

use super::Options;
use super::outcome::{Finding, FoundPanel, FoundSeries};
use super::subject::Subject;

/// The figure that has the counts.
const FIGURE: &str = "memory";

/// Parts of the bitmap: 1 TiB.
const PARTS: u64 = 32_768;

/// Of so many sectors one is cached.
const SPARSE: u64 = 32;

/// Names and lengths of runs.
const RUNS: [(&str, u64); 3] = [
    ("single sectors", 1),
    ("runs of 8 sectors", 8),
    ("runs of 64 sectors", 64),
];

/// GiB for a cached TiB of a byte for a cached sector.
const GIB: f64 = 0.25;

/// Adds the counts to the figure that has them, if it is there.
pub(super) fn count(findings: &mut [Finding], options: &Options) {
    let is_ours = |finding: &&mut Finding| {
        finding.ground.subject == Subject::Indexless && finding.name == FIGURE
    };
    let parts = match options.scale.requests_max {
        // Tests.
        Some(_) => PARTS / 256,
        None => PARTS,
    };
    for finding in findings.iter_mut().filter(is_ours) {
        finding.panels.push(counted(options.seed, parts));
    }
}

fn counted(seed: u64, parts: u64) -> FoundPanel {
    let (sender, receiver) = mpsc::channel();
    let mut machine = Machine::new(CostTable::free(), false);
    let id = machine.add_cpu("count", Side::Host, 1.0);
    machine.spawn_main(id, "count", move |cpu| async move {
        let each = RUNS.map(|(_, run)| bytes_per_sector(&cpu, parts, run, seed));
        sender.send(each).expect("somebody listens");
    });
    machine.run_virtual(Seed(seed)).expect("nothing waits");
    let each = receiver.recv().expect("all were counted");
    let series = |name: &str, of: fn(&(f64, f64)) -> f64| FoundSeries {
        name: name.into(),
        values: each.iter().map(|both| Some(of(both) * GIB)).collect(),
    };
    FoundPanel {
        title: format!(
            "Counted, without a run: 1 of {SPARSE} sectors cached of {} GiB, host memory, GiB for a cached TiB",
            (parts * u64::from(SECTORS)) >> 18
        ),
        points: RUNS.map(|(name, _)| name.into()).to_vec(),
        series: vec![
            series("bitmap", |both| both.0),
            series("index", |both| both.1),
        ],
        marks: Vec::new(),
    }
}

/// Bytes for a cached sector: of the bitmap, of the index.
fn bytes_per_sector(cpu: &Cpu, parts: u64, run: u64, seed: u64) -> (f64, f64) {
    let (in_part, runs) = (u64::from(SECTORS), u64::from(SECTORS) / SPARSE / run);
    let cached = parts * in_part / SPARSE;
    let bitmap = Bitmap::new(parts * in_part, cached as usize * 4096 / 32_768, false);
    let index = LineIndex::new(cached);
    index.begin(cpu, parts * in_part, false);
    let mut rng = Seed(seed).child("memory").rng();
    for part in 0..parts {
        // Part by part, so that each is unpacked once; within it anywhere.
        for _ in 0..runs {
            let first = part * in_part + rng.below(in_part - run + 1);
            let word = Word::clean(rng.below(4) as u8);
            let came = bitmap.change(cpu, first, run as u32, |_| word);
            let came = came.and_then(|()| index.change(cpu, first, run as u32, |_| word));
            came.expect("all is known");
        }
    }
    let each = |bytes: usize, sectors: u64| bytes as f64 / sectors as f64;
    (
        each(bitmap.memory_bytes(cpu), bitmap.totals().cached),
        // It has room for as many as there are draws; some meet.
        each(index.memory_bytes(cpu), cached),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bitmap_takes_less_the_longer_runs_are_and_an_index_does_not() {
        let panel = counted(1, 4096);
        let value = |series: usize, point: usize| panel.series[series].values[point].unwrap();
        assert!(value(0, 0) > 1.2 * value(0, 1) && value(0, 1) > value(0, 2));
        for point in 0..RUNS.len() {
            assert!((8.9..9.1).contains(&value(1, point)), "{}", value(1, point));
            assert!(value(0, point) < value(1, point) / 9.0);
        }
    }
}
