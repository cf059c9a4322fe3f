//! I/O logs as the installed fio writes them, held against what fio itself says that it did.

#![allow(missing_docs)]

use std::path::{Path, PathBuf};
use std::process::Command;

use wharf_workload::{Op, ReadOptions, Workload, WorkloadStat};

/// Pauses of the job, in µs, of which each falls between two of its requests.
const PAUSE_US: u64 = 20_000;

/// A directory of its own, which is removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        drop(std::fs::remove_dir_all(&place));
        std::fs::create_dir_all(&place).expect("the target's directory can be written");
        Place(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Runs a job on two files that is logged; the log and fio's report, or nothing without fio.
fn logged(place: &Path, more: &[&str]) -> Option<(PathBuf, String)> {
    let log = place.join("log");
    let mut fio = Command::new("fio");
    fio.current_dir(place)
        .args([
            "--name=job",
            "--rw=randrw",
            "--bs=4k",
            "--size=128k",
            "--nrfiles=2",
        ])
        .args([
            "--ioengine=sync",
            "--fsync=7",
            "--randseed=9",
            "--output-format=json",
        ])
        .arg(format!("--write_iolog={}", log.display()))
        .args(more);
    match fio.output() {
        Err(_) => {
            println!("skipped: there is no fio");
            None
        }
        Ok(ran) => {
            assert!(
                ran.status.success(),
                "{}",
                String::from_utf8_lossy(&ran.stderr)
            );
            Some((log, String::from_utf8(ran.stdout).expect("JSON is text")))
        }
    }
}

/// A number of fio's report: of `name` within the part `of`.
fn said(report: &str, of: &str, name: &str) -> u64 {
    let report: serde_json::Value = serde_json::from_str(report).expect("it is JSON");
    report["jobs"][0][of][name]
        .as_u64()
        .expect("a whole number")
}

#[test]
fn a_log_of_fio_has_the_requests_that_fio_counted() {
    let place = Place::new("fio-counted");
    let Some((log, report)) = logged(&place.0, &[]) else {
        return;
    };
    let workload = Workload::open(&log, &ReadOptions::default()).unwrap();
    let stat = WorkloadStat::of(workload, false).unwrap();
    assert_eq!((stat.info.format.as_str(), stat.info.bad_lines), ("fio", 0));
    assert_eq!(stat.streams.len(), 2, "one for each file");
    assert_eq!(stat.reads.requests, said(&report, "read", "total_ios"));
    assert_eq!(stat.writes.requests, said(&report, "write", "total_ios"));
    let bytes = said(&report, "read", "io_bytes") + said(&report, "write", "io_bytes");
    assert_eq!(stat.reads.bytes + stat.writes.bytes, bytes);
}

/// The manual does not say in what units the times of version 3 are.
#[test]
fn times_of_version_3_are_microseconds() {
    let place = Place::new("fio-times");
    let pauses = format!("--thinktime={PAUSE_US}");
    let Some((log, _)) = logged(&place.0, &["--number_ios=5", &pauses]) else {
        return;
    };
    let head = std::fs::read(&log).unwrap();
    if !head.starts_with(b"fio version 3") {
        println!("skipped: this fio writes another version");
        return;
    }
    let workload = Workload::open(&log, &ReadOptions::default()).unwrap();
    let (requests, _) = workload.materialise().unwrap();
    assert!(requests.len() >= 5 && requests.iter().all(|r| r.op != Op::Discard));
    let span_us = (requests[requests.len() - 1].time_ns - requests[0].time_ns) / 1_000;
    // Four pauses are the least; in milliseconds it would be less by a thousand.
    assert!(span_us >= 4 * PAUSE_US, "{span_us} us");
}

/// What the manual says that version 3 does not allow, and fio passes over with a message, is a bad line.
#[test]
fn a_log_that_fio_replays_has_the_requests_that_it_replays() {
    let place = Place::new("fio-replayed");
    let text = "fio version 3 iolog\n1 a add\n1 b add\n2 a open\n2 b open\n3 a write 0 8192\n4 b write 4096 4096\n\
                5 a wait 100 0\n6 a sync 0 0\n7 a read 4096 4096\n8 a close\n8 b close\n";
    let log = place.0.join("by-hand");
    std::fs::write(&log, text).unwrap();
    let stat = WorkloadStat::of(
        Workload::open(&log, &ReadOptions::default()).unwrap(),
        false,
    );
    let stat = stat.unwrap();
    assert_eq!((stat.reads.requests, stat.writes.requests), (1, 2));
    assert_eq!(stat.info.bad_lines, 1);
    let replayed = Command::new("fio")
        .current_dir(&place.0)
        .args([
            "--name=job",
            "--ioengine=sync",
            "--output-format=json",
            "--output=report",
        ])
        .arg(format!("--read_iolog={}", log.display()))
        .output();
    let Ok(replayed) = replayed else {
        println!("skipped: there is no fio");
        return;
    };
    assert!(replayed.status.success(), "{replayed:?}");
    let report = std::fs::read_to_string(place.0.join("report")).unwrap();
    let report = &report[report.find('{').expect("an object")..];
    assert_eq!(stat.reads.requests, said(report, "read", "total_ios"));
    assert_eq!(stat.writes.requests, said(report, "write", "total_ios"));
    assert_eq!(stat.writes.bytes, said(report, "write", "io_bytes"));
}
