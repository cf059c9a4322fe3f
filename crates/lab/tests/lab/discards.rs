//! Discards of traces, through whole systems.

use wharf_lab::input::ClientRule;
use wharf_lab::replay::Setup;
use wharf_runtime::Seed;
use wharf_workload::{Op, Request};

use crate::support::{listed, planned, planned_by, run_those, setup, setup_on, small};

/// Reads, writes and discards of any range, by clients that know nothing of each other: what a
/// trace of blktrace holds, and no workload of file operations.
#[test]
fn discards_amid_the_writes_of_others_are_checked_on_every_design() {
    let mut rng = Seed(17).child("discards").rng();
    let requests: Vec<Request> = (0..6_000)
        .map(|_| {
            let offset = rng.below(512) * 4096 + rng.below(8) * 512;
            match rng.below(20) {
                0 => Request::new(Op::Discard, offset, 512 * (1 + rng.below(400)) as u32),
                1..9 => Request::new(Op::Read, offset, 512 * (1 + rng.below(24)) as u32),
                _ => Request::new(Op::Write, offset, 512 * (1 + rng.below(24)) as u32),
            }
        })
        .collect();
    let discards = requests.iter().filter(|r| r.op == Op::Discard).count() as u64;
    let setup = Setup {
        clients: 4,
        depth: 4,
        cache_bytes: 512 << 10,
        ..setup_on(2, small())
    };
    let plan = planned(&listed(&requests), &setup);
    for row in &run_those(&setup, &plan, |_| true).rows {
        assert_eq!(row.discards, discards, "{}", row.design);
    }
}

/// What lies beside a discard stays.
#[test]
fn discards_are_narrowed_to_whole_sectors_and_others_widened() {
    let setup = setup(small());
    let requests = [
        Request::new(Op::Write, 100, 1000),
        Request::new(Op::Discard, 100, 1000),
        Request::new(Op::Discard, 600, 300),
        Request::new(Op::Discard, 0, 4096),
    ];
    let plan = planned_by(&listed(&requests), &setup, ClientRule::RoundRobin);
    let ranges: Vec<(u64, u32)> = plan.requests.iter().map(|r| (r.offset, r.bytes)).collect();
    assert_eq!(ranges, [(0, 1536), (512, 512), (0, 4096)]);
    assert_eq!(
        plan.notes,
        [
            "1 discards of less than a sector left out",
            "1 requests widened to whole 512-byte sectors"
        ]
    );
}
