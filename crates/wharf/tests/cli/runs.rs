//! What a comparison prints, in both engines, to its end and interrupted.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Place, QUICK, code_and_stderr, json, with};

/// The designs that cache pages of a drive, by one word.
#[test]
fn all_designs_have_a_word() {
    let place = Place::new();
    let arguments = [&QUICK[..], &["--designs", "all", "--json", "all.json"]].concat();
    place.ok(&arguments);
    let rows = json(&place.path().join("all.json"))["rows"].clone();
    let names: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["design"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "direct",
            "clock",
            "kernel",
            "falcon",
            "kernel-dflush",
            "scale",
            "scale-dflush",
            "tri",
            "hardware",
            "scala"
        ]
    );
}

#[test]
fn standard_output_is_the_table_and_standard_error_is_silent() {
    let place = Place::new();
    let table = place.ok(&QUICK);
    for word in ["direct", "clock", "simulated", "seed       1,"] {
        assert!(table.contains(word), "no {word} in\n{table}");
    }
    assert!(
        !table.contains('\x1b') && !table.contains('\r'),
        "no terminal, no controls"
    );
    // A reader that goes away is no error.
    let mut child = Command::new(env!("CARGO_BIN_EXE_wharf"))
        .args(QUICK)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code_and_stderr(&output), (Some(0), String::new()));
}

#[test]
fn real_time_runs_and_says_so() {
    let place = Place::new();
    let table = place.ok(&with(&QUICK, &["--real", "--profile"]));
    assert!(table.contains("measured"), "{table}");
}

#[test]
fn help_names_every_option_and_exit_code() {
    let place = Place::new();
    let help = place.ok(&["--help"]);
    for word in ["compare", "trace", "drive", "130"] {
        assert!(help.contains(word), "{help}");
    }
    let compare = place.ok(&["compare", "--help"]);
    let options = [
        "--designs",
        "--cache",
        "--clients",
        "--depth",
        "--drive ",
        "--drives",
        "--backing ",
        "--backing-drives",
        "--host",
        "--costs",
        "--set",
        "--seed",
        "--seeds",
        "--jobs",
        "--prepare",
        "--real",
        "--threads",
        "--profile",
        "--speed",
        "--rule",
        "--fit",
        "--requests",
        "--footprint",
        "--bs",
        "--read-share",
        "--theta",
        "--files",
        "--loops",
        "--writers",
        "--fsync-every",
        "--view",
        "--format",
        "--bad-lines",
        "--blkparse-action",
        "--columns",
        "--block-size",
        "--volume",
        "--overlay",
        "--gauges",
        "--json",
        "--html",
        "--force",
        "--progress",
    ];
    for option in options {
        assert!(
            compare.contains(option),
            "no {option} in the help of compare"
        );
    }
    let listed = compare
        .lines()
        .filter(|line| line.starts_with("      --"))
        .count();
    assert_eq!(
        listed,
        options.len(),
        "an option that this test does not know:\n{compare}"
    );
    for (command, options) in [
        (
            &["run", "--help"][..],
            &[
                "--drive ",
                "--cache ",
                "--cache-mode ",
                "--coherence ",
                "--drive-cache ",
                "--audit",
                "--record ",
                "write-back",
                "write-through",
                "write-around",
                "OLD DATA",
            ][..],
        ),
        (&["mount", "--help"], &["--cache-mode ", "--coherence "]),
        (&["compute", "--help"], &["--on ", "auto", "--json"]),
        (
            &["trace", "stat", "--help"][..],
            &["--json", "--no-reuse", "--format"][..],
        ),
        (&["trace", "convert", "--help"], &["--to", "--format"]),
        (
            &["mrc", "--help"],
            &["--policies", "--sizes", "--sample", "--json", "--html"],
        ),
        (&["drive", "show", "--help"], &["--set"]),
        (
            &["drive", "prepare", "--help"],
            &["--fill", "--overwrite", "--seed", "--set"],
        ),
    ] {
        let help = place.ok(command);
        assert!(options.iter().all(|option| help.contains(option)), "{help}");
    }
}

/// Sends a signal to a running program.
fn interrupt(child: &std::process::Child) {
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn an_interrupted_run_prints_what_it_has() {
    for real in [&[][..], &["--real"]] {
        let place = Place::new();
        let long = [
            "compare",
            "zipf",
            "--requests=200000",
            "--footprint=64m",
            "--bs=1m",
            "--json=part.json",
        ];
        let child = Command::new(env!("CARGO_BIN_EXE_wharf"))
            .args(with(&long, real))
            .current_dir(place.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        wait_until_it_works(&child);
        interrupt(&child);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(code_and_stderr(&output), (Some(130), String::new()));
        let table = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(
            table.contains("direct") && table.contains("interrupted"),
            "{table}"
        );
        let report = json(&place.path().join("part.json"));
        // Side by side, both designs may have begun.
        let rows = report["rows"].as_array().expect("rows");
        assert!(!rows.is_empty() && rows.iter().all(|row| row["complete"] == false));
    }
}

/// Waits until a program has used a second of CPU time: by then it has caught the signal.
fn wait_until_it_works(child: &std::process::Child) {
    let path = format!("/proc/{}/stat", child.id());
    loop {
        let stat = std::fs::read_to_string(&path).expect("the program runs");
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .expect("a name in brackets")
            .split(' ')
            .collect();
        let ticks = |index: usize| fields[index].parse::<u64>().expect("ticks");
        if ticks(12) + ticks(13) > 100 {
            return;
        }
        #[allow(clippy::disallowed_methods)] // another process has no Cpu of ours
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Two benchmarks as files, on designs for blocks, with all reports.
#[test]
fn file_operations_are_compared_as_files() {
    let place = Place::new();
    for name in ["varmail", "fileserver"] {
        let (report, page) = (format!("{name}.json"), format!("{name}.html"));
        let line = format!(
            "compare {name} --view files --requests 2000 --footprint 16m --clients 2 --depth 2 \
             --designs direct,clock,kernel,scale,scala --json {report} --html {page}"
        );
        let table = place.ok(&line.split_whitespace().collect::<Vec<_>>());
        assert!(table.contains("ops/s") && table.contains("open"), "{table}");
        let report = json(&place.path().join(report));
        let rows = report["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 5);
        for row in rows {
            assert_eq!(row["verified_reads"], row["reads"]);
            assert!(row["names"].as_u64() > Some(0));
            let operations = row["file_operations"].as_array().expect("operations");
            assert!(operations.iter().any(|kind| kind["operation"] == "open"));
        }
        let page = std::fs::read_to_string(place.path().join(page)).expect("a page");
        assert!(page.contains("Operations on files"));
    }
}

#[test]
fn a_trace_of_files_is_replayed_as_files() {
    let place = Place::new();
    let text =
        "# wharf file trace 1\n- 0 open /a c\n- 0 append /a 5000\n- 0 fsync /a\n- 1 stat /b\n";
    place.write("t.files", text);
    let table = place.ok(&["compare", "t.files", "--clients", "2"]);
    for word in ["t.files", "append", "fsync", "widened to whole units"] {
        assert!(table.contains(word), "no {word} in\n{table}");
    }
    place.write("bad.files", text.replace("fsync /a", "fsync"));
    let output = place.wharf(&["compare", "bad.files"]);
    let (code, said) = code_and_stderr(&output);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("bad.files: line 4: name is missing"),
        "{said}"
    );
    let output = place.wharf(&["compare", "uniform", "--view", "files"]);
    assert!(code_and_stderr(&output).1.contains("uniform has no files"));
}

/// What a program of several processes does is recorded, and a replay does the same with all checked.
#[test]
fn a_run_without_a_mount_is_recorded_and_replayed() {
    let object = Path::new(env!("CARGO_BIN_EXE_wharf")).with_file_name("libwharf_preload.so");
    if !object.is_file() {
        println!("skipped: {} is not built", object.display());
        return;
    }
    let place = Place::new();
    place.ok(&["fs", "make", "drive.img", "--size", "64MiB"]);
    let run = |arguments: &[&str]| {
        let all = [&["run", "--drive", "drive.img=/drive"], arguments].concat();
        code_and_stderr(&place.wharf(&all))
    };
    let script = "mkdir /drive/a && head -c 5000 /dev/zero > /drive/a/old";
    let made = run(&["--", "sh", "-c", script]);
    assert_eq!(made, (Some(0), String::new()));
    // Its second process writes to what the first one has opened; the third is killed.
    let script =
        "cat /drive/a/old > /drive/new; sh -c 'echo three >> /drive/new; kill -9 $$'; exit 3";
    let (code, said) = run(&["--record", "trace", "--", "sh", "-c", script]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("wharf run: recorded to trace: "), "{said}");
    let trace = std::fs::read_to_string(place.path().join("trace")).expect("a trace");
    let words = trace
        .lines()
        .map(|line| line.splitn(3, ' ').last().unwrap());
    let words: Vec<&str> = words.filter(|words| !words.starts_with("stat")).collect();
    assert_eq!(words[..2], ["file trace 1", "/a"], "{trace}");
    assert!(trace.contains("\nfile /a/old 5000\n"), "{trace}");
    for line in [
        "open /new ct",
        "read /a/old 0 5000",
        "write /new 0 5000",
        "append /new 6",
    ] {
        assert_eq!(words.iter().filter(|it| **it == line).count(), 1, "{trace}");
    }
    let table = place.ok(&["compare", "trace", "--designs", "direct,kernel,scale"]);
    assert!(
        table.contains("append") && table.contains("all right"),
        "{table}"
    );
    // It is not written over, and there is none of what did not run.
    assert_eq!(
        run(&["--record", "trace", "--", "true"]),
        (Some(2), "wharf: trace: File exists (os error 17)\n".into())
    );
    let (code, _) = run(&["--record", "other", "--", "/none"]);
    assert_eq!(
        (code, place.path().join("other").exists()),
        (Some(2), false)
    );
}

/// A directory has some size, whatever that is.
#[test]
fn a_replay_looks_at_directories_that_have_entries() {
    let place = Place::new();
    let text = "# wharf file trace 1\n- 0 mkdir /b\n- 0 open /b/g c\n- 0 close /b/g\n- 0 stat /b\n";
    place.write("t.files", text);
    let table = place.ok(&["compare", "t.files", "--designs", "direct,kernel"]);
    assert!(table.contains("stat"), "{table}");
}
