//! How much memory a process takes that serves a terabyte: a program of its own, because other tests beside it
//! would take memory too.

#![allow(missing_docs)]

#[path = "nbd/client.rs"]
#[allow(dead_code)] // the other tests use more of it
mod client;

use client::*;

/// Resident memory of this process in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status
        .lines()
        .find(|l| l.starts_with("VmRSS:"))
        .expect("a line");
    line.split_whitespace()
        .nth(1)
        .expect("a number")
        .parse()
        .expect("a number")
}

/// A process that serves a terabyte had it all at once.
#[test]
fn memory_follows_what_is_written_and_goes_with_what_is_trimmed() {
    const TERABYTE: u64 = 1 << 40;
    let place = Place::memory(TERABYTE);
    let mut client = place.client(true, true);
    let before = resident_kib();
    let data = vec![5; 1 << 20];
    for index in 0..64 {
        assert_eq!(client.write(index * (TERABYTE / 64), &data, 0), 0);
    }
    let full = resident_kib();
    assert!(full - before >= 64 << 10, "{before} {full}");
    assert!(full - before < 96 << 10, "{before} {full}");
    // Reading what was never written takes nothing.
    for index in 0..64 {
        let at = index * (TERABYTE / 64) + (4 << 30);
        assert!(client.read(at, 1 << 20).iter().all(|byte| *byte == 0));
    }
    assert!(resident_kib() - before < 96 << 10);
    for index in 0..TERABYTE / (1 << 31) {
        assert_eq!(client.ask(TRIM, 0, index << 31, 1 << 31).error, 0);
    }
    assert!(
        resident_kib() < before + (16 << 10),
        "{before} {}",
        resident_kib()
    );
    assert_eq!(client.ask(STATUS, 0, 0, 1 << 31).extents, [(1 << 31, 3)]);
}
