//! `wharf bench`, as its user meets it.

#![allow(missing_docs)]

#[path = "support/schema.rs"]
mod schema;
mod support;

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;

use support::Place;
use wharf_lab::report::json;
use wharf_lab::result::{Comparison, Mode};

const SMALL: [&str; 6] = ["--size", "4m", "--memory", "1m", "--rounds", "2"];

impl Place {
    /// Runs a bench, which must succeed in silence; gives its table and its report.
    fn bench(&self, arguments: &[&str]) -> (String, Comparison) {
        // That of the bench before, if there was one.
        let _ = std::fs::remove_file(self.path("report"));
        let text = self.ok(&[&["--json", "report"], arguments].concat());
        (text, json::read(&self.path("report")).expect("a report"))
    }

    /// The file under test, behind the bench's back.
    fn open(&self) -> std::fs::File {
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(self.path("f"));
        file.expect("the file")
    }

    fn change_byte(&self, at: u64) {
        let file = self.open();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("a byte");
        file.write_all_at(&[byte[0] ^ 1], at).expect("a byte");
        file.sync_all().expect("it is there");
    }
}

#[test]
fn every_row_does_the_whole_job_in_every_round() {
    for (rw, words) in [
        ("randread", vec!["--threads", "2"]),
        (
            "randwrite",
            vec!["--numjobs=2", "--iodepth=4", "--fsync=64"],
        ),
        ("randrw", vec!["--rwmixread=70", "--bs=8k", "--iodepth=2"]),
        ("read", vec!["--bs=16k"]),
        (
            "write",
            vec!["--bs", "64k", "--io-size=1m", "--end_fsync=0"],
        ),
        ("rw", vec!["--threads=3", "--io-size", "2m"]),
    ] {
        let place = Place::of("bench");
        let (text, report) = place.bench(&[&["f", "--rw", rw], &SMALL[..], &words].concat());
        let names: Vec<&str> = report.rows.iter().map(|row| &*row.design).collect();
        assert_eq!(names, ["scale", "direct", "kernel", "kernel-mmap"], "{rw}");
        for row in &report.rows {
            assert!(row.complete && row.mode == Mode::Measured, "{rw}");
            assert_eq!(row.requests, report.workload.requests, "{rw}");
            assert_eq!(row.reads, row.verified_reads);
            assert!(row.latency_us.p50 > 0.0 && row.latency_us.p50 <= row.latency_us.max);
            let rounds = row.rounds.as_ref().expect("rounds");
            let places: Vec<(u32, u32)> = rounds.runs.iter().map(|r| (r.round, r.place)).collect();
            let place = names.iter().position(|name| *name == row.design);
            let place = place.expect("a name") as u32;
            assert_eq!(
                places,
                [(0, place), (1, 3 - place)],
                "forwards, then backwards"
            );
            let flushes: u64 = rounds.runs.iter().map(|run| run.flushes).sum();
            assert_eq!(flushes > 0, rw == "randwrite", "{rw}: --fsync");
            assert!(text.contains(&row.design));
        }
        assert!(report.rows[0].hit_ratio.is_some(), "our cache tells");
        assert_eq!(report.workload.footprint_bytes, 4 << 20);
    }
}

#[test]
fn the_json_file_has_the_documented_fields_of_rounds() {
    let place = Place::of("bench");
    place.bench(&[&["f", "--rw=randwrite"], &SMALL[..]].concat());
    let text = std::fs::read_to_string(place.path("report")).expect("a report");
    let report = serde_json::from_str(&text).expect("JSON");
    let of_rounds = |mut fields: BTreeSet<String>| {
        fields.retain(|field| field.starts_with("rows[].rounds."));
        fields
    };
    let documented = of_rounds(schema::documented());
    assert!(documented.contains("rows[].rounds.runs[].iops"));
    assert_eq!(of_rounds(schema::fields(&report)), documented);
}

#[test]
fn rows_get_equal_requests_and_equal_seeds_repeat_them() {
    let place = Place::of("bench");
    let words = [&["f", "--rw=randrw"], &SMALL[..]].concat();
    let counts = |report: &Comparison| -> Vec<(u64, u64)> {
        report
            .rows
            .iter()
            .map(|row| (row.reads, row.writes))
            .collect()
    };
    let first = counts(&place.bench(&words).1);
    assert!(first.iter().all(|count| *count == first[0]), "{first:?}");
    assert_eq!(counts(&place.bench(&words).1), first);
    let other = counts(&place.bench(&[&words[..], &["--seed=2"]].concat()).1);
    assert_ne!(other, first);
}

#[test]
fn a_byte_that_changed_between_two_benches_is_found() {
    let place = Place::of("bench");
    let words = [
        &["f", "--rw=randwrite", "--designs=scale,kernel"],
        &SMALL[..],
    ]
    .concat();
    place.bench(&words);
    place.bench(&words);
    place.change_byte(5 * 4096 + 1000);
    let said = "f: page 5: expected version";
    place.fails(1, said, &words);
    place.fails(1, "1 of its 512 words changed", &words);
}

#[test]
fn a_page_in_the_place_of_another_is_found() {
    let place = Place::of("bench");
    let words = [&["f", "--rw=randread", "--designs=scale"], &SMALL[..]].concat();
    place.bench(&words);
    let file = place.open();
    let mut page = [0; 4096];
    file.read_exact_at(&mut page, 9 * 4096).expect("a page");
    file.write_all_at(&page, 7 * 4096).expect("a page");
    place.fails(
        1,
        "page 7: expected version 0, found page 9, version 0",
        &words,
    );
}

#[test]
fn what_others_have_written_is_left_alone() {
    let place = Place::of("bench");
    std::fs::write(place.path("f"), vec![7; 1 << 20]).expect("a file");
    place.fails(2, "--force overwrites it", &["f", "--size=1m"]);
    place.fails(2, "--force overwrites it", &["f", "--unlink"]);
    let there = std::fs::read(place.path("f")).expect("the file");
    assert!(there == vec![7; 1 << 20], "not a byte of it has changed");
    place.bench(&["f", "--force", "--rounds=1", "--designs=direct", "--unlink"]);
    assert!(place.path("f").exists(), "it was there before");
}

#[test]
fn the_file_is_made_kept_and_removed_as_asked() {
    let place = Place::of("bench");
    let quick = ["--rounds=1", "--designs=direct"];
    place.fails(2, "give --size", &["f"]);
    assert!(!place.path("f").exists());
    place.bench(&[&["f", "--size=2m"], &quick[..]].concat());
    let (_, again) = place.bench(&[&["f"], &quick[..]].concat());
    assert_eq!(again.drive.capacity_bytes, 2 << 20, "its size is known");
    let (_, larger) = place.bench(&[&["f", "--size=3m"], &quick[..]].concat());
    assert_eq!(larger.drive.capacity_bytes, 3 << 20);
    place.bench(&[&["g", "--size=1m", "--unlink"], &quick[..]].concat());
    assert!(!place.path("g").exists());
}

/// A file of 100 TiB took 24 GB for the versions of its pages before it was told that it does not fit, and one that the
/// file system had no room for was filled until there was none.
#[test]
fn what_memory_or_disk_cannot_hold_is_refused_before_it_begins() {
    let place = Place::of("bench");
    for (part, words) in [
        (
            "a file of this --size needs 3.0 TiB of memory",
            vec!["--size=1024t"],
        ),
        (
            "needs 1.0 TiB of memory",
            vec!["--size=1m", "--memory=1000g"],
        ),
        (
            "--threads with so many requests",
            vec!["--size=64g", "--threads=512", "--iodepth=4096", "--bs=64m"],
        ),
    ] {
        place.fails(2, part, &[&["f"], &words[..]].concat());
    }
    let free = rustix::fs::statvfs(place.path(".")).expect("a file system");
    let free_mib = (free.f_bavail * free.f_frsize) >> 20;
    // Where memory has no room for so many pages either, that is told instead.
    let size = format!("--size={}m", free_mib + (8 << 10));
    place.fails(2, "give a smaller --size", &["f", &size]);
    assert!(!place.path("f").exists(), "nothing was begun");
}

/// The terminal had medians of rounds, and the page ratios of their sums.
#[test]
fn page_terminal_and_report_have_the_same_ratio() {
    let place = Place::of("bench");
    let words = [
        "f",
        "--size=4m",
        "--rounds=3",
        "--designs=direct,scale",
        "--html=page",
    ];
    let (text, report) = place.bench(&words);
    for row in &report.rows {
        let rounds = row.rounds.as_ref().expect("rounds");
        assert_eq!(row.iops, rounds.iops_median);
    }
    let page = std::fs::read_to_string(place.path("page")).expect("a page");
    let shown = |text: &str, after: &str| {
        let before = text.split(after).next().expect("what is before it");
        let from = before.rfind([' ', '>']).expect("a word") + 1;
        before[from..].to_string()
    };
    let ratio = shown(&text, "×, p50");
    assert_eq!(shown(&page, "× the bandwidth of direct"), ratio);
    assert!(!page.contains("id=\"time\""), "no empty panel");
}

#[test]
fn mistakes_are_one_line_and_harm_nothing() {
    let place = Place::of("bench");
    for (part, words) in [
        ("--bs", vec!["f", "--size=1m", "--bs=512"]),
        ("--size", vec!["f", "--size=1000"]),
        ("is not a size", vec!["f", "--size=many"]),
        ("--memory", vec!["f", "--size=1m", "--memory=4k"]),
        ("--runtime", vec!["f", "--size=1m", "--runtime=soon"]),
        (
            "blocks for 8 threads",
            vec!["f", "--size=16k", "--threads=8"],
        ),
        ("no file and no block device", vec![".", "--size=1m"]),
        ("No such file", vec!["none/f", "--size=1m"]),
        ("--json", vec!["f", "--size=1m", "--json", "none/report"]),
    ] {
        place.fails(2, part, &words);
    }
    let usage = place.wharf(&["f", "--size=1m", "--rw=backwards"]);
    assert_eq!(usage.status.code(), Some(2));
    let left = std::fs::read_dir(place.path(".")).expect("the directory");
    assert_eq!(left.count(), 0);
}

#[test]
fn a_bench_of_a_time_ends_and_leaves_no_group_behind() {
    let place = Place::of("bench");
    let words = [
        "f",
        "--size=2m",
        "--rounds=1",
        "--time-based",
        "--runtime=50ms",
    ];
    let (text, report) = place.bench(&words);
    assert!(
        report
            .rows
            .iter()
            .all(|row| row.complete && row.requests > 0)
    );
    let kernel = report.rows[2].rounds.as_ref().expect("rounds");
    match kernel.memory_limit_bytes {
        Some(limit) => assert!(limit > 64 << 20, "the cache and the process"),
        None => assert!(text.contains("had no memory limit"), "{text}"),
    }
    for tree in ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"] {
        let ours = format!("{tree}/wharf-bench-");
        let entries = std::fs::read_dir(tree).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path().display().to_string());
        // Others' benches may run meanwhile.
        let left = paths.filter_map(|path| path.strip_prefix(&ours).map(str::to_string));
        for process in left {
            assert!(std::path::Path::new("/proc").join(process).exists());
        }
    }
}
