//! What reads may return, request by request.

use super::*;

struct Probe {
    checker: Checker,
}

impl Probe {
    fn new(stamp_only: bool) -> Probe {
        Probe {
            checker: Checker::new(1 << 20, stamp_only, stamp_only).unwrap(),
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

#[test]
fn a_discarded_page_holds_anything_until_it_is_written() {
    let probe = Probe::new(true);
    let garbage = [7u8; 8];
    let read = |data: &[u8], snapshot: &Snapshot| probe.checker.end_read(0, 4096, data, snapshot);
    let discard = |run: &dyn Fn()| {
        let mut ticket = Ticket::default();
        probe.checker.begin_discard(0, 8192, &mut ticket);
        run();
        probe.checker.end_discard(0, 8192, &ticket);
    };
    let write = || {
        let (ticket, data) = probe.begin(4096);
        probe.checker.end_write(0, 4096, &ticket);
        data
    };
    let before = probe.snapshot(4096);
    assert!(read(&garbage, &before).is_err());
    discard(&|| {
        assert!(read(&garbage, &probe.snapshot(4096)).is_ok());
    });
    assert!(
        read(&garbage, &before).is_ok(),
        "it was discarded meanwhile"
    );
    assert!(read(&garbage, &probe.snapshot(4096)).is_ok());
    let data = write();
    assert!(read(&garbage, &probe.snapshot(4096)).is_err());
    assert!(read(&data, &probe.snapshot(4096)).is_ok());
    // A write during a discard may be lost, one after it not.
    discard(&|| drop(write()));
    assert!(read(&garbage, &probe.snapshot(4096)).is_ok());
    let data = write();
    assert!(read(&garbage, &probe.snapshot(4096)).is_err());
    assert!(read(&data, &probe.snapshot(4096)).is_ok());
}

#[test]
fn a_write_that_a_discard_overtakes_is_uncertain() {
    let probe = Probe::new(true);
    let garbage = [7u8; 8];
    let read = |data: &[u8]| {
        let snapshot = probe.snapshot(4096);
        probe.checker.end_read(0, 4096, data, &snapshot)
    };
    let (write, _) = probe.begin(4096);
    let mut discard = Ticket::default();
    probe.checker.begin_discard(0, 4096, &mut discard);
    probe.checker.end_discard(0, 4096, &discard);
    probe.checker.end_write(0, 4096, &write);
    assert!(read(&garbage).is_ok());
    let (write, data) = probe.begin(4096);
    probe.checker.end_write(0, 4096, &write);
    assert!(read(&data).is_ok() && read(&garbage).is_err());
}

#[test]
fn pages_that_a_discard_covers_in_part_stay() {
    let probe = Probe::new(false);
    let (write, data) = probe.begin(8192);
    probe.checker.end_write(0, 8192, &write);
    let mut discard = Ticket::default();
    probe.checker.begin_discard(512, 8192 - 512, &mut discard);
    probe.checker.end_discard(512, 8192 - 512, &discard);
    let mut found = data;
    let check = |found: &[u8]| {
        let snapshot = probe.snapshot(8192);
        probe.checker.end_read(0, 8192, found, &snapshot)
    };
    found[4096..].fill(9);
    assert!(check(&found).is_ok());
    found[4095] ^= 1;
    assert!(check(&found).is_err());
}
