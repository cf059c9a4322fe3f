//! Planes serve in order, let reads of the host go first, and let the others have their share.

use super::*;

fn timing(channel_ns_per_page: u64) -> Timing {
    Timing {
        read_ns: 18_000,
        program_ns: 35_000,
        erase_ns: 2_000_000,
        channel_ns_per_page,
    }
}

/// What ended by `now_ns`, in order.
fn ended(nand: &mut Nand, now_ns: u64) -> Vec<u32> {
    std::iter::from_fn(|| nand.end_one(now_ns)).collect()
}

/// When each of all operations ends, in order.
fn ends(nand: &mut Nand) -> Vec<(u64, u32)> {
    let mut ends = Vec::new();
    while let Some(at_ns) = nand.next_event_ns() {
        ends.extend(nand.end_one(at_ns).map(|what| (at_ns, what)));
    }
    ends
}

#[test]
fn one_plane_serves_in_order_and_planes_work_at_once() {
    let mut nand = Nand::new(&timing(0), 0.0, 2, 1);
    assert_eq!(nand.read(0, 0), 18_000);
    assert_eq!(nand.read(0, 1), 18_000);
    nand.program(0, 0, 7);
    nand.erase(60_000, 0, 8);
    assert_eq!(nand.read(60_000, 0), 2_078_000);
    assert_eq!(ends(&mut nand), [(53_000, 7), (2_060_000, 8)]);
    assert_eq!(
        nand.busy_ns(),
        18_000 + 18_000 + 35_000 + 2_000_000 + 18_000
    );
}

#[test]
fn transfers_share_the_channel_and_overlap_the_array_time() {
    let mut nand = Nand::new(&timing(5_000), 1.0, 3, 1);
    // Two reads sense at once and leave one after the other.
    assert_eq!(nand.read(0, 0), 23_000);
    assert_eq!(nand.read(0, 1), 28_000);
    // A program's transfer fits before them.
    nand.program(0, 2, 7);
    // The first plane holds its page until 23 us, and then senses again.
    assert_eq!(nand.read(0, 0), 23_000 + 18_000 + 5_000);
    assert_eq!(ends(&mut nand), [(40_000, 7)]);
}

#[test]
fn operations_end_in_order_of_time_then_of_issue() {
    let mut nand = Nand::new(&timing(0), 0.75, 3, 1);
    for (plane, what) in [(1, 1), (0, 2), (2, 3), (0, 4)] {
        nand.program(0, plane, what);
    }
    assert_eq!(ended(&mut nand, 34_999), []);
    assert_eq!(ended(&mut nand, 35_000), [1, 2, 3]);
    assert_eq!(ended(&mut nand, 70_000), [4]);
    assert!(nand.is_empty() && nand.next_event_ns().is_none());
}

#[test]
fn a_read_waits_for_what_has_begun_and_not_for_the_line() {
    let mut nand = Nand::new(&timing(0), 1.0, 1, 1);
    (1..=100).for_each(|what| nand.program(0, 0, what));
    assert_eq!(nand.backlog_ns(0, 0), 3_500_000);
    assert_eq!(nand.read(40_000, 0), 70_000 + 18_000);
    // It comes while the first is served, which it follows.
    assert_eq!(nand.read(71_000, 0), 70_000 + 36_000);
    let ends = ends(&mut nand);
    assert_eq!(
        ends[..3],
        [(35_000, 1), (70_000, 2), (70_000 + 36_000 + 35_000, 3)]
    );
    assert_eq!(ends.len(), 100);
}

#[test]
fn without_a_share_reads_wait_in_the_order_in_which_all_came() {
    let mut nand = Nand::new(&timing(0), 0.0, 1, 1);
    (1..=10).for_each(|what| nand.program(0, 0, what));
    assert_eq!(nand.read(0, 0), 10 * 35_000 + 18_000);
}

#[test]
fn programs_get_their_share_however_many_reads_come() {
    let mut nand = Nand::new(&timing(0), 0.75, 1, 1);
    let (mut programs, reads) = (0, 1_000);
    (0..1_000).for_each(|what| nand.program(0, 0, what));
    // One read is served, the next waits; another one comes when the first is done.
    let (mut now_ns, mut next_ns) = (nand.read(0, 0), nand.read(0, 0));
    for _ in 2..reads {
        (now_ns, next_ns) = (next_ns, nand.read(now_ns, 0));
        programs += ended(&mut nand, now_ns).len() as u64;
    }
    let share = f64::from(reads) * 18_000.0 / now_ns as f64;
    assert!((share - 0.75).abs() < 0.01, "reads had {share} of the time");
    assert!(
        (programs * 35_000).abs_diff(now_ns / 4) < 70_000,
        "{programs} in {now_ns}"
    );
}

#[test]
fn reads_of_collection_go_before_programs_and_after_reads_of_the_host() {
    let mut nand = Nand::new(&timing(0), 1.0, 1, 1);
    assert_eq!(nand.run_max(), 1);
    (1..=3).for_each(|what| nand.program(0, 0, what));
    nand.read_run(0, 0, 1, 9);
    assert_eq!(nand.read(0, 0), 35_000 + 18_000);
    let ends = ends(&mut nand);
    assert_eq!(ends, [(35_000, 1), (71_000, 9), (106_000, 2), (141_000, 3)]);
}
