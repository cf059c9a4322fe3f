//! What programs do is recorded: by all threads and processes, and in whatever way they end.

#![allow(missing_docs)]

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::process::Command;

use support::{Drive, compiled, text};
use wharf::files::{gather, now_ns};

/// The parts of a program's recording as one trace: lines without times, with threads numbered in the order in which they come.
fn recorded(drive: &Drive, command: &mut Command) -> (Vec<String>, u64) {
    let place = tempfile::tempdir().unwrap();
    let parts = place.path().join("parts");
    std::fs::create_dir(&parts).unwrap();
    let told = drive
        .command(command)
        .env("WHARF_RECORD", format!("{}:{}", now_ns(), parts.display()))
        .output()
        .unwrap();
    assert!(told.status.success(), "{told:?}");
    assert_eq!(
        (text(&told.stdout), text(&told.stderr)),
        ("done\n".into(), String::new())
    );
    let path = place.path().join("trace");
    let summary = gather(&parts, &File::create_new(&path).unwrap()).unwrap();
    let trace = std::fs::read_to_string(&path).unwrap();
    let (mut lines, mut threads, mut before) = (Vec::new(), BTreeMap::new(), 0);
    for line in trace.lines() {
        let mut words = line.splitn(3, ' ');
        let time: u64 = words.next().unwrap().parse().unwrap();
        assert!(time >= before, "{trace}");
        before = time;
        let next = threads.len();
        let thread = threads.entry(words.next().unwrap()).or_insert(next);
        lines.push(format!("{thread} {}", words.next().unwrap()));
    }
    assert_eq!(lines.len() as u64, summary.operations);
    (lines, summary.left_out)
}

#[test]
fn known_operations_are_a_known_trace_whatever_is_kept() {
    let program = compiled("recorded.c");
    for keeping in ["0", "67108864", "67108864,write-through", "omni:1048576"] {
        let drive = Drive::keeping(keeping);
        let (mut lines, left_out) = recorded(&drive, Command::new(program.path()).arg("/where"));
        // The way to programs and directories is the C library's own.
        lines.retain(|line| line != "0 stat /");
        let expected = [
            "0 mkdir /a",
            "0 open /a/with%20blank ct",
            "0 write /a/with%20blank 0 20000",
            "0 read /a/with%20blank 4090 10",
            "0 read /a/with%20blank 4090 10",
            "0 write /a/with%20blank 5 10",
            "0 truncate /a/with%20blank 12345",
            "0 stat /none",
            "1 open /threads c",
            "1 append /threads 3000",
            "1 append /threads 3000",
            "1 fsync /threads",
            "1 close /threads",
            "2 open /a/with%20blank -",
            "2 read /a/with%20blank 7 7",
            "3 open /a/with%20blank -",
            "3 read /a/with%20blank 40 100",
            "0 rename /a/with%20blank /a/b",
            "0 close /a/with%20blank",
            "0 remove /a/b",
        ];
        assert_eq!(lines, expected, "{keeping}");
        assert_eq!(left_out, 1, "{keeping}");
        drive.check();
    }
}
