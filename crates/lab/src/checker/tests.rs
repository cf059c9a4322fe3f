//! What reads may return, request by request.

use super::*;

struct Probe {
    checker: Checker,
}

impl Probe {
    fn new(stamp_only: bool) -> Probe {
        Probe {
            checker: Checker::new(1 << 20, stamp_only).unwrap(),
        }
    }

    fn begin(&self, bytes: u64) -> (Ticket, Vec<u8>) {
        let mut ticket = Ticket::default();
        let mut data = vec![0; self.checker.buffer_bytes(0, bytes)];
        self.checker.begin_write(0, bytes, &mut data, &mut ticket);
        (ticket, data)
    }

    fn snapshot(&self, bytes: u64) -> Snapshot {
        let mut snapshot = Snapshot::default();
        self.checker.begin_read(0, bytes, &mut snapshot);
        snapshot
    }
}

#[test]
fn a_quiet_page_has_one_value() {
    let probe = Probe::new(true);
    let zeros = [0u8; 8];
    assert!(
        probe
            .checker
            .end_read(0, 4096, &zeros, &probe.snapshot(4096))
            .is_ok()
    );
    let (ticket, data) = probe.begin(4096);
    probe.checker.end_write(0, 4096, &ticket);
    assert!(
        probe
            .checker
            .end_read(0, 4096, &data, &probe.snapshot(4096))
            .is_ok()
    );
    let stale = probe
        .checker
        .end_read(0, 4096, &zeros, &probe.snapshot(4096))
        .unwrap_err();
    assert_eq!(
        (stale.place.as_str(), stale.expected.as_str()),
        ("page 0", "version 1")
    );
    assert_eq!(stale.found, "nothing (zeros)");
}

#[test]
fn a_write_under_way_may_be_seen_or_not_until_it_ends() {
    let probe = Probe::new(true);
    let (first, old) = probe.begin(4096);
    probe.checker.end_write(0, 4096, &first);
    let before = probe.snapshot(4096);
    let (second, new) = probe.begin(4096);
    for data in [&old, &new] {
        assert!(probe.checker.end_read(0, 4096, data, &before).is_ok());
        assert!(
            probe
                .checker
                .end_read(0, 4096, data, &probe.snapshot(4096))
                .is_ok()
        );
    }
    probe.checker.end_write(0, 4096, &second);
    assert!(
        probe
            .checker
            .end_read(0, 4096, &old, &probe.snapshot(4096))
            .is_err()
    );
    assert!(
        probe
            .checker
            .end_read(0, 4096, &new, &probe.snapshot(4096))
            .is_ok()
    );
}

#[test]
fn overlapping_writes_leave_either_until_one_comes_after_both() {
    let probe = Probe::new(true);
    let (a, first) = probe.begin(4096);
    let (b, second) = probe.begin(4096);
    probe.checker.end_write(0, 4096, &b);
    probe.checker.end_write(0, 4096, &a);
    for data in [&first, &second] {
        assert!(
            probe
                .checker
                .end_read(0, 4096, data, &probe.snapshot(4096))
                .is_ok()
        );
    }
    assert!(
        probe
            .checker
            .end_read(0, 4096, &[0; 8], &probe.snapshot(4096))
            .is_err()
    );
    let (c, third) = probe.begin(4096);
    probe.checker.end_write(0, 4096, &c);
    assert!(
        probe
            .checker
            .end_read(0, 4096, &first, &probe.snapshot(4096))
            .is_err()
    );
    assert!(
        probe
            .checker
            .end_read(0, 4096, &third, &probe.snapshot(4096))
            .is_ok()
    );
}

#[test]
fn a_torn_sector_and_a_misplaced_one_are_found() {
    let probe = Probe::new(false);
    let (ticket, mut data) = probe.begin(1024);
    probe.checker.end_write(0, 1024, &ticket);
    assert!(
        probe
            .checker
            .end_read(0, 1024, &data, &probe.snapshot(1024))
            .is_ok()
    );
    let mut swapped = data.clone();
    swapped.rotate_left(512);
    let error = probe
        .checker
        .end_read(0, 1024, &swapped, &probe.snapshot(1024))
        .unwrap_err();
    assert_eq!(error.found, "version 1 of sector 1");
    data[600..608].fill(0);
    let error = probe
        .checker
        .end_read(0, 1024, &data, &probe.snapshot(1024))
        .unwrap_err();
    assert!(error.found.starts_with("a mixture"), "{error}");
}
