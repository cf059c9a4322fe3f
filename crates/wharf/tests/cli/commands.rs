//! The other commands: traces, presets, calibration.

use serde_json::Value;

use crate::support::{Place, SAMPLE, code_and_stderr, json, with};

#[test]
fn a_trace_goes_there_and_back() {
    let place = Place::new();
    let stat = |file: &str| {
        let text = place.ok(&["trace", "stat", file, "--json"]);
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    let table = place.ok(&["trace", "stat", SAMPLE]);
    assert!(
        table.contains("61,473") || table.contains("61473"),
        "{table}"
    );
    let said = place.ok(&["trace", "convert", SAMPLE, "plain.trace"]);
    assert_eq!(said, "plain.trace: 61473 requests, 0 lines left out\n");
    place.ok(&["trace", "convert", "plain.trace", "msr.csv", "--to", "msr"]);
    place.ok(&["trace", "convert", "msr.csv", "back.trace"]);
    let original = stat(SAMPLE);
    for copy in ["plain.trace", "msr.csv", "back.trace"] {
        let stat = stat(copy);
        for (key, value) in original.as_object().expect("an object") {
            if key != "info" {
                assert_eq!(&stat[key], value, "{key} of {copy}");
            }
        }
    }
    let exists = place.refused(&["trace", "convert", SAMPLE, "plain.trace"]);
    assert_eq!(
        exists,
        "plain.trace exists: give another name, or --force overwrites it"
    );
    let to = place.refused(&["trace", "convert", SAMPLE, "new.trace", "--to", "vscsi"]);
    assert!(to.contains("vscsi"), "{to}");
}

#[test]
fn every_preset_can_be_shown() {
    let place = Place::new();
    let list = place.ok(&["drive", "list"]);
    assert!(list.lines().count() >= 6);
    for preset in list.lines().filter_map(|line| line.split(' ').next()) {
        assert!(
            place.ok(&["drive", "show", preset]).contains("namespace "),
            "{preset}"
        );
    }
}

#[test]
fn a_calibrated_table_can_be_used_and_one_of_another_version_cannot() {
    if std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        return assert!(
            Place::new()
                .refused(&["calibrate"])
                .contains("one processor")
        );
    }
    let place = Place::new();
    let output = place.wharf(&["calibrate", "--quick", "--out", "here.toml"]);
    if String::from_utf8_lossy(&output.stderr).contains("the machine is too busy") {
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        return println!("two threads hardly ever ran at once");
    }
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.is_empty(), "the table is in its file");
    let compare = ["compare", "uniform", "--requests", "2000", "--clients", "2"];
    let output = place.wharf(&with(&compare, &["--costs", "here.toml"]));
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(place.path().join("here.toml")).expect("a table");
    let version = format!("version = {}", wharf_runtime::op::COST_TABLE_VERSION);
    place.write("old.toml", text.replace(&version, "version = 1"));
    assert_eq!(
        place.refused(&with(&compare, &["--costs", "old.toml"])),
        "old.toml: a cost table of version 1, where this program reads version 13: measure again with \
         `wharf calibrate --out FILE`"
    );
}

#[test]
fn a_calibration_that_cannot_be_written_is_found_before_anything_is_timed() {
    let place = Place::new();
    for option in ["--out", "--fidelity"] {
        assert_eq!(
            place.refused(&["calibrate", option, "no/such/file"]),
            format!(
                "cannot write {option} no/such/file: No such file or directory (os error 2): give another path"
            )
        );
    }
    let line = place.refused(&["calibrate", "--dir", "no/such"]);
    assert!(line.starts_with("cannot use a file in no/such: "), "{line}");
}

/// A trace could not be piped in: `-` was the name of a workload that nobody knows.
#[test]
fn a_trace_on_standard_input_was_no_trace() {
    let place = Place::new();
    place.write(
        "plain.trace",
        "# wharf trace 1\n0 W 0 8192\n1 D 0 4096\n2 R 4096 4096\n",
    );
    let copy = std::fs::copy(SAMPLE, place.path().join("sample.gz"));
    copy.expect("a copy");
    for (file, requests) in [("plain.trace", "2"), ("sample.gz", "61,473")] {
        let piped = |arguments: &[&str]| {
            let stdin = std::fs::File::open(place.path().join(file)).expect("the file");
            let output = place.wharf_reading(arguments, stdin.into());
            assert_eq!(code_and_stderr(&output), (Some(0), String::new()), "{file}");
            String::from_utf8(output.stdout).expect("UTF-8")
        };
        let said = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.starts_with("trace "));
            lines.map(str::to_owned).collect()
        };
        let stat = piped(&["trace", "stat", "-"]);
        assert!(
            stat.contains(&format!("requests      {requests}\n")),
            "{stat}"
        );
        assert_eq!(said(&stat), said(&place.ok(&["trace", "stat", file])));
    }
    let stdin = || std::fs::File::open(place.path().join("plain.trace")).expect("the file");
    let compare = [
        "compare",
        "-",
        "--drive",
        "tiny",
        "--clients",
        "1",
        "--json",
        "r.json",
    ];
    let output = place.wharf_reading(&compare, stdin().into());
    assert_eq!(code_and_stderr(&output), (Some(0), String::new()));
    let report = json(&place.path().join("r.json"));
    assert_eq!(report["workload"]["requests"], 3);
    assert_eq!(report["workload"]["source"]["path"], "standard input");
    // Nothing there is an error, as in a file.
    let empty = place.refused(&["compare", "-"]);
    assert!(empty.contains("standard input"), "{empty}");
}

/// Each name that an option takes is in a list, with what it is.
#[test]
fn what_there_is_can_be_listed() {
    let place = Place::new();
    let names = |command: &str| -> Vec<String> {
        let told = place.ok(&[command]);
        let lines = told.lines().map(|line| {
            let (name, about) = line.split_once("  ").expect("a name and what it is");
            assert!(about.trim().len() > 10, "{line}");
            name.to_string()
        });
        lines.collect()
    };
    let all = |list: &str| list.split(", ").map(String::from).collect::<Vec<_>>();
    let unknown = |arguments: &[&str]| place.refused(arguments);
    let designs = unknown(&["compare", "uniform", "--designs", "nothing"]);
    for name in names("designs") {
        assert!(designs.contains(&name), "{name}: {designs}");
    }
    let workloads = unknown(&["compare", "nothing"]);
    for name in names("workloads") {
        assert!(workloads.contains(&name), "{name}: {workloads}");
    }
    let policies = place.wharf(&["mrc", SAMPLE, "--policies", "nothing"]);
    let policies = String::from_utf8_lossy(&policies.stderr).into_owned();
    let told = policies
        .split("the policies are ")
        .nth(1)
        .expect("it says them");
    let told = told.lines().next().expect("a line");
    let told: Vec<String> = all(told)
        .iter()
        .map(|name| name.trim().to_string())
        .collect();
    assert_eq!(names("policies"), told);
}
