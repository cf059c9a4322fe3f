//! The program as its user meets it: exit codes, messages, files, streams.

#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const SAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../traces/sqlite-bank.trace.gz"
);

/// A comparison that takes no time.
const QUICK: [&str; 9] = [
    "compare",
    "uniform",
    "--requests",
    "300",
    "--footprint",
    "1m",
    "--clients",
    "2",
    "--depth=4",
];

/// A directory of a test's own, in which the program runs.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    fn wharf(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wharf"));
        command
            .args(arguments)
            .current_dir(self.path())
            .stdin(Stdio::null());
        command.output().expect("the program runs")
    }

    /// What lies in the directory.
    fn files(&self) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.path()).expect("a directory");
        entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect()
    }

    /// Runs the program, which must succeed with nothing on standard error; gives standard output.
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.wharf(arguments);
        assert_eq!(
            code_and_stderr(&output),
            (Some(0), String::new()),
            "{arguments:?}"
        );
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Runs the program, which must refuse its input in one line, print nothing and leave the
    /// directory as it is; gives the line.
    fn refused(&self, arguments: &[&str]) -> String {
        let before = self.files();
        let output = self.wharf(arguments);
        let (code, stderr) = code_and_stderr(&output);
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?} printed something");
        assert_eq!(self.files(), before, "{arguments:?} left something behind");
        let line = stderr
            .strip_prefix("wharf: ")
            .and_then(|rest| rest.strip_suffix('\n'));
        let line = line.unwrap_or_else(|| panic!("{arguments:?}: {stderr:?}"));
        assert!(
            !line.contains('\n'),
            "{arguments:?}: more than a line: {line}"
        );
        line.to_string()
    }
}

fn code_and_stderr(output: &Output) -> (Option<i32>, String) {
    (
        output.status.code(),
        String::from_utf8(output.stderr.clone()).expect("UTF-8"),
    )
}

fn with<'a>(base: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [base, more].concat()
}

#[test]
fn each_wrong_name_is_told_in_one_line() {
    let place = Place::new();
    let cases: &[(&[&str], &str)] = &[
        (
            &["compare", "unifrom"],
            "no file 'unifrom', and no workload \"unifrom\"; nearest is \"uniform\" (known: sequential, uniform, \
             zipf, webmail, online, webusers, prn_0, usr_0, src2, T1205, T2982, proj_1, mds)",
        ),
        (
            &["compare", "mds", "--bs", "8k"],
            "workload parameter request size: the profile mds has its own sizes",
        ),
        (
            &["compare", "uniform", "--theta", "0.9"],
            "workload parameter theta: only zipf has one, uniform does not",
        ),
        (
            &["compare", "no/webmail"],
            "no file 'no/webmail', and no workload \"no/webmail\"; nearest is \"webmail\" (known: sequential, \
             uniform, zipf, webmail, online, webusers, prn_0, usr_0, src2, T1205, T2982, proj_1, mds)",
        ),
        (
            &["compare", "--designs", "direct,clok"],
            "no design 'clok': there are direct, clock, scala, hardware, tri, kernel",
        ),
        (
            &["compare", "--drive", "scalla"],
            "no drive preset 'scalla', the nearest is 'scala': presets are optane, pmem, scala, \
             scala-artifact, store, tiny, tlc, and a file's name ends in .toml",
        ),
        (
            &["compare", "--drive", "none.toml"],
            "cannot read the drive file 'none.toml' (No such file or directory (os error 2)): name a file, \
             or a preset: optane, pmem, scala, scala-artifact, store, tiny, tlc",
        ),
        (
            &["compare", "--host", "defualt"],
            "no host preset 'defualt', the nearest is 'default': presets are default, write-through, and a \
             file's name ends in .toml",
        ),
        (
            &["compare", "--set", "drive.timing.raed_ns=5us"],
            "--set: unknown key 'drive.timing.raed_ns', the nearest is 'drive.timing.read_ns'",
        ),
        (
            &["compare", "--set", "drive.timing.read_ns"],
            "--set 'drive.timing.read_ns': write it as key=value, such as drive.timing.read_ns=25us",
        ),
        (
            &["compare", "--set", "drive.firmware.queues_max=0"],
            "--set: drive.firmware.queues_max = 0 must be 1 to 96",
        ),
        (
            &["compare", "--rule", "robin"],
            "--rule: no rule 'robin': use round-robin, stream, address",
        ),
        (
            &["compare", "--fit", "warp"],
            "workload parameter fit: no mode \"warp\"; nearest is \"wrap\" (error, wrap, scale)",
        ),
    ];
    for (arguments, line) in cases {
        assert_eq!(&place.refused(arguments), line);
    }
}

#[test]
fn each_wrong_size_or_number_is_told_in_one_line() {
    let place = Place::new();
    let size = "is not a size: write a whole number of bytes, or one such as 64KiB, 1.5GiB, 4g (GB and the like \
                are powers of 1000)";
    let cases: &[(&[&str], String)] = &[
        (&["compare", "zipf", "--footprint", "1x"], format!("--footprint: '1x' {size}")),
        (&["compare", "zipf", "--bs", "four"], format!("--bs: 'four' {size}")),
        (
            &["compare", "--cache", "much"],
            "--cache: 'much' is neither a share nor a size: write one such as 18.75% (above 0%, up to 100%), \
             or 4GiB"
                .into(),
        ),
        (&["compare", "--cache", "100"], "host: cache = 100 must be at least 4096 bytes".into()),
        (&["compare", "--speed", "0"], "--speed 0: give a factor above 0".into()),
        (&["compare", "--bad-lines", "x"], "--bad-lines x: give a share such as 1%".into()),
        (
            &["compare", "zipf", "--read-share", "1.5"],
            "workload parameter read share: 1.5 is not between 0 and 1".into(),
        ),
        (
            &["compare", "zipf", "--requests", "0"],
            "workload parameter requests: 0 requests is no workload".into(),
        ),
        (
            &["compare", "--drive", "tiny", "--clients", "8"],
            "--clients 8 needs as many queues, the drive has 4: raise drive.firmware.queues_max".into(),
        ),
    ];
    for (arguments, line) in cases {
        assert_eq!(&place.refused(arguments), line);
    }
}

#[test]
fn a_cache_larger_than_memory_is_refused() {
    let place = Place::new();
    // Where pages are stamps, less memory is needed: 8 bytes, and the account of a page.
    for (media, needed_gib) in [("stamp", 256 * 40), ("ram", 256 * (4096 + 32))] {
        let media = format!("drive.media.kind={media}");
        let line = place.refused(&with(&QUICK, &["--cache", "1024TiB", "--set", &media]));
        let expected = format!("a cache of 1024TiB needs {needed_gib} GiB of memory, and ");
        assert!(line.starts_with(&expected), "{line}");
        assert!(
            line.ends_with(" GiB are available: give a smaller --cache"),
            "{line}"
        );
    }
}

#[test]
fn a_trace_that_cannot_be_read_is_told_in_one_line() {
    let place = Place::new();
    place.write(
        "two.csv",
        "128166372003061629,hm,0,Read,383496192,32768,113736\n1,hm,0,Write,0,512,5\n",
    );
    place.write("empty.trace", "");
    place.write(
        "prose.txt",
        "It was a dark and stormy night;\nthe rain fell in torrents.\n",
    );
    let whole = std::fs::read(SAMPLE).expect("the sample trace");
    place.write("cut.gz", &whole[..whole.len() / 2]);
    std::fs::create_dir(place.path().join("folder")).expect("a directory");
    let known = "wharf, msr, fiu, tencent, systor17, vscsi, cloudphysics, disksim, mqsim, disksim-pages, heimdall, spc, \
                 lis, blkparse, fio, biotracer";
    for command in [&["compare"][..], &["trace", "stat"], &["trace", "convert"]] {
        let out = if command.contains(&"convert") {
            &["out.trace"][..]
        } else {
            &[]
        };
        let run = |file: &str, options: &[&str]| {
            place.refused(&[command, &[file], out, options].concat())
        };
        let forced = run("two.csv", &["--format", "fiu"]);
        assert!(
            forced.starts_with("two.csv is not in format fiu: "),
            "{forced}"
        );
        let none = run("two.csv", &["--format", "mrs"]);
        assert_eq!(
            none,
            format!("no trace format \"mrs\"; nearest is \"msr\" (known: {known})")
        );
        let prose = run("prose.txt", &[]);
        assert!(
            prose.starts_with("prose.txt is in no trace format known here ("),
            "{prose}"
        );
        assert!(prose.ends_with("force it with --format"), "{prose}");
        let empty = run("empty.trace", &[]);
        assert!(empty.contains("empty.trace"), "{empty}");
        let cut = run("cut.gz", &[]);
        assert!(
            cut.starts_with("cannot read trace cut.gz past line "),
            "{cut}"
        );
        assert!(
            cut.ends_with("the file may be cut short or damaged"),
            "{cut}"
        );
        assert_eq!(
            run("folder", &[]),
            "cannot open trace folder: it is a directory"
        );
    }
    let missing = place.refused(&["trace", "stat", "none.csv"]);
    assert_eq!(
        missing,
        "cannot open trace none.csv: No such file or directory (os error 2)"
    );
    assert_eq!(place.files().len(), 5);
}

#[test]
fn a_trace_beyond_the_drive_is_refused_unless_it_is_to_be_fitted() {
    let place = Place::new();
    place.write(
        "far.trace",
        "# wharf trace 1\n0 W 0 4096 0\n5 R 1099511627776 4096 0\n",
    );
    let base = ["compare", "far.trace", "--drive", "tiny", "--clients", "1"];
    let line = place.refused(&base);
    let beyond = "request 1 ends at byte 1099511631872, beyond the device of 720896 bytes; use a larger drive, or \
                  --fit wrap or --fit scale";
    assert_eq!(line, beyond);
    for fit in ["wrap", "scale"] {
        place.ok(&with(&base, &["--fit", fit, "--json", "fit.json"]));
        let report = json(&place.path().join("fit.json"));
        let said = report["workload"]["fit"]
            .as_str()
            .expect("it is said aloud");
        assert!(said.contains(fit) || said.contains("moved"), "{said}");
    }
    place.write("large.trace", "# wharf trace 1\n0 W 0 1048576 0\n");
    let line = place.refused(&[
        "compare",
        "large.trace",
        "--drive",
        "tiny",
        "--clients",
        "1",
        "--fit",
        "wrap",
    ]);
    let larger =
        "request 0 of 1048576 bytes is larger than the device of 720896 bytes; use a larger drive";
    assert_eq!(line, larger);
}

#[test]
fn a_report_that_cannot_be_written_is_found_before_the_run() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("folder")).expect("a directory");
    // Long runs: a late answer would take minutes.
    let long = ["compare", "zipf", "--requests", "50000000"];
    for option in ["--json", "--html"] {
        let nowhere = place.refused(&with(&long, &[option, "no/such/folder/report"]));
        let missing = "No such file or directory (os error 2): give another path";
        assert_eq!(
            nowhere,
            format!("cannot write {option} no/such/folder/report: {missing}")
        );
        let folder = place.refused(&with(&long, &[option, "folder"]));
        let directory = "Is a directory (os error 21): give another path";
        assert_eq!(folder, format!("cannot write {option} folder: {directory}"));
    }
    let both = place.refused(&with(&long, &["--json", "same", "--html", "same"]));
    assert_eq!(both, "--json and --html are both same: give two paths");
}

#[test]
fn a_failed_comparison_leaves_an_older_report_alone() {
    let place = Place::new();
    let old = place.write("old.json", "older");
    place.refused(&with(
        &QUICK,
        &["--json", "old.json", "--drive", "nonesuch"],
    ));
    assert_eq!(std::fs::read_to_string(old).expect("it is there"), "older");
}

#[test]
fn an_unusable_image_is_told_in_one_line_and_left_alone() {
    let place = Place::new();
    let tiny = ["--drive", "tiny", "--clients", "1"];
    let base = with(
        &[
            "compare",
            "uniform",
            "--requests",
            "50",
            "--footprint",
            "512k",
        ],
        &tiny,
    );
    place.ok(&["drive", "prepare", "tiny", "good.img"]);
    place.ok(&with(&base, &["--prepare", "good.img"]));
    let good = std::fs::read(place.path().join("good.img")).expect("an image");
    place.write("cut.img", &good[..good.len() / 2]);
    place.write("head.img", &good[..40]);
    let mut damaged = good.clone();
    damaged[17] ^= 1;
    place.write("damaged.img", &damaged);
    place.write("other.img", "not an image at all");
    let cases = [
        (
            "cut.img",
            "cut.img is truncated, 8415232 bytes of 16830464: restore it from a copy or create it anew",
        ),
        ("head.img", "head.img is truncated, 40 bytes of "),
        (
            "damaged.img",
            "the header of damaged.img is damaged: restore it from a copy or create it anew",
        ),
        ("other.img", "other.img is no"),
        ("none.img", "none.img"),
    ];
    for (image, what) in cases {
        let line = place.refused(&with(&base, &["--prepare", image]));
        assert!(line.contains(what), "{line}");
    }
    let other = place.refused(&with(&QUICK, &["--prepare", "good.img"]));
    assert!(
        other.contains("good.img has cores = 2, and the configuration "),
        "{other}"
    );
    let exists = place.refused(&["drive", "prepare", "tiny", "good.img"]);
    assert_eq!(exists, "good.img exists: remove it or give another name");
    assert!(std::fs::read(place.path().join("good.img")).expect("it is there") == good);
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("a report");
    serde_json::from_str(&text).expect("JSON")
}

/// All fields by path as the documentation writes them: `rows[].latency_us.mean`.
fn fields(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                fields(value, &path, into);
                into.insert(path);
            }
        }
        Value::Array(list) => list
            .iter()
            .for_each(|value| fields(value, &format!("{path}[]"), into)),
        _ => {}
    }
}

#[test]
fn the_json_file_has_the_documented_fields_and_a_row_for_each_design() {
    let place = Place::new();
    place.ok(&with(
        &QUICK,
        &["--json", "r.json", "--seed", "18446744073709551615"],
    ));
    let report = json(&place.path().join("r.json"));
    let document = include_str!("../../../docs/report-schema.md");
    let documented: BTreeSet<String> = document
        .lines()
        .filter_map(|line| {
            line.strip_prefix("| `")?
                .split('`')
                .next()
                .map(String::from)
        })
        .filter(|field| field.as_bytes()[0].is_ascii_lowercase())
        .collect();
    let mut found = BTreeSet::new();
    fields(&report, "", &mut found);
    // A preset's parameters are named by the drive, not by the format.
    found.retain(|field| !field.contains(".parameters."));
    let undocumented: Vec<_> = found.difference(&documented).collect();
    assert!(undocumented.is_empty(), "{undocumented:?}");
    let for_other_runs = [
        "workload.source.path",
        "workload.source.format",
        "rows[].drift_us",
    ];
    let missing: Vec<_> = documented
        .difference(&found)
        .filter(|field| !for_other_runs.iter().any(|other| field.starts_with(other)))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    let names: Vec<_> = report["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| &row["design"])
        .collect();
    assert_eq!(names, ["direct", "clock"]);
    assert_eq!(report["schema"], "wharf.compare/1");
    assert_eq!(report["seed"], u64::MAX);
    assert_eq!(report["rows"][0]["hit_ratio"], Value::Null);
}

#[test]
fn equal_runs_give_equal_files_but_for_the_wall_clock() {
    let place = Place::new();
    let one_line = |name: &str| {
        place.ok(&with(&QUICK, &["--json", name]));
        let text = std::fs::read_to_string(place.path().join(name)).expect("a report");
        text.lines()
            .filter(|line| !line.contains("wall_seconds"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert!(one_line("a.json") == one_line("b.json"));
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    let place = Place::new();
    place.ok(&with(&QUICK, &["--html", "r.html"]));
    let page = std::fs::read_to_string(place.path().join("r.html")).expect("a page");
    assert!(page.contains("direct") && page.contains("clock") && page.ends_with("</html>\n"));
    let names_of_nothing = page.replace("http://www.w3.org/", "");
    for load in ["http://", "https://", "src=", "@import", "<link", "url("] {
        let at = names_of_nothing.find(load);
        assert!(
            at.is_none(),
            "{load}: {:?}",
            at.map(|at| &names_of_nothing[at..at + 60])
        );
    }
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
        "--host",
        "--costs",
        "--set",
        "--seed",
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
        "--format",
        "--bad-lines",
        "--blkparse-action",
        "--overlay",
        "--json",
        "--html",
    ];
    for option in options {
        assert!(
            compare.contains(option),
            "no {option} in the help of compare"
        );
    }
    let listed = compare
        .lines()
        .filter(|line| line.trim_start().starts_with("--"))
        .count();
    assert_eq!(
        listed,
        options.len(),
        "an option that this test does not know:\n{compare}"
    );
    for (command, options) in [
        (
            &["trace", "stat", "--help"][..],
            &["--json", "--no-reuse", "--format"][..],
        ),
        (&["trace", "convert", "--help"], &["--to", "--format"]),
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
        assert_eq!(report["rows"].as_array().expect("rows").len(), 1);
        assert_eq!(report["rows"][0]["complete"], false);
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
    assert_eq!(exists, "plain.trace exists: remove it or give another name");
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
        "old.toml: a cost table of version 1, where this program reads version 2: measure again with \
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

#[test]
fn reproduce_lists_its_figures() {
    let text = Place::new().ok(&["reproduce", "--list"]);
    for figure in [
        "scala/fig4a",
        "scala/table2",
        "scala/fig11a",
        "scala/fig18b",
    ] {
        assert!(text.contains(figure), "{text}");
    }
    assert!(text.contains("USENIX ATC 2024"), "{text}");
}

#[test]
fn reproduce_refuses_what_it_does_not_know_and_names_what_is_near() {
    let place = Place::new();
    let line = place.refused(&["reproduce", "scala/fig12"]);
    assert!(line.contains("the nearest is 'scala/fig12a'"), "{line}");
    let line = place.refused(&["reproduce", "scala/fig12a", "--scale=3"]);
    assert!(line.contains("--scale 3: give a power of two"), "{line}");
    let line = place.refused(&["reproduce", "scala/fig12a", "--trace=nowhere.csv"]);
    assert!(line.contains("nowhere.csv"), "{line}");
    let line = place.refused(&["reproduce", "scala/fig12a", "--costs=cheap"]);
    assert!(line.contains("cheap"), "{line}");
}

#[test]
fn reproduce_of_a_trace_writes_pages_that_a_second_run_writes_again() {
    let place = Place::new();
    let trace = place.write(
        "mine.trace",
        "# wharf trace 1\n0 W 0 8192 0\n5 R 0 4096 0\n9 R 65536 4096 0\n",
    );
    let trace = format!("--trace={}", trace.display());
    let run = |out: &str| {
        let arguments = [
            "reproduce",
            "scala/fig12a",
            "--scale=1024",
            &trace,
            "--out",
            out,
        ];
        let text = place.ok(&arguments);
        assert!(text.contains("mine.trace"), "{text}");
        let file = place.path().join(out).join("fig12a.json");
        std::fs::read_to_string(file).expect("the figure's data")
    };
    assert_eq!(run("a"), run("b"));
    let page = std::fs::read_to_string(place.path().join("a/fig12a.html")).expect("a page");
    assert!(page.contains("Every workload is the trace mine.trace"));
    assert!(place.path().join("a/index.html").exists());
}
