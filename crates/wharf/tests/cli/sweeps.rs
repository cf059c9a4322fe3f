//! Sweeps: lists of values in `wharf compare`, and `wharf sweep` in parts, killed, and put together.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::schema::{documented_of_sweeps, fields};
use crate::support::{Place, code_and_stderr, json, with};

/// A comparison on a drive of a MiB.
const TINY: [&str; 9] = [
    "compare",
    "uniform",
    "--requests=200",
    "--footprint=512k",
    "--clients=2",
    "--depth=4",
    "--drive=tiny",
    "--designs",
    "direct,clock",
];

/// The same as a file, with eight points.
const FILE: &str = r#"
workload = "uniform"
requests = 200
footprint = "512KiB"
clients = 2
depth = 4
drive = "tiny"
designs = ["direct", "clock"]
cache = ["10%", "40%"]

[set]
"drive.timing.read_ns" = ["10us", "25us"]
"#;

/// Runs `wharf sweep run` into a directory; more arguments are separated by blanks.
fn run(place: &Place, out: &str, more: &str) -> String {
    let more: Vec<&str> = more.split_whitespace().collect();
    place.ok(&with(&["sweep", "run", "s.toml", "--out", out], &more))
}

/// The report of a directory.
fn merged(place: &Place, out: &str) -> Value {
    let told = place.ok(&["sweep", "merge", out, "--json"]);
    serde_json::from_str(&told).expect("JSON")
}

/// The files of rows in a directory.
fn files(place: &Place, out: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.path().join(out)).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_rows = |path: &PathBuf| path.extension().is_some_and(|suffix| suffix == "jsonl");
    let mut files: Vec<PathBuf> = paths.filter(is_rows).collect();
    files.sort();
    files
}

/// A place with the whole sweep in the directory `whole`.
fn swept() -> (Place, Value) {
    let place = Place::new();
    place.write("s.toml", FILE);
    run(&place, "whole", "");
    let report = merged(&place, "whole");
    (place, report)
}

/// Runs a command, which must fail with this code and these words.
fn fails(place: &Place, code: i32, says: &str, arguments: &[&str]) {
    let (found, stderr) = code_and_stderr(&place.wharf(arguments));
    assert_eq!(found, Some(code), "{arguments:?}: {stderr}");
    assert!(stderr.contains(says), "{arguments:?}: {stderr}");
}

#[test]
fn rows_are_the_same_whatever_the_number_of_threads() {
    let place = Place::new();
    let lists = [
        "--cache",
        "10%,40%",
        "--set",
        "drive.timing.read_ns=10us,25us",
    ];
    for jobs in ["1", "4"] {
        let name = format!("{jobs}.json");
        place.ok(&with(
            &with(&TINY, &lists),
            &["--jobs", jobs, "--json", &name],
        ));
    }
    let read = |name: &str| fs::read_to_string(place.path().join(name)).expect("a report");
    assert_eq!(read("1.json"), read("4.json"));
    // Each row is that of a comparison with these values.
    let report = json(&place.path().join("1.json"));
    let alone = [
        "--cache",
        "40%",
        "--set",
        "drive.timing.read_ns=10us",
        "--json",
        "one.json",
    ];
    place.ok(&with(&TINY, &alone));
    let one = json(&place.path().join("one.json"));
    let row = &report["rows"][5];
    assert_eq!(
        (
            &row["axes"]["cache"],
            &row["axes"]["drive.timing.read_ns"],
            &row["design"]
        ),
        (&"40%".into(), &"10us".into(), &"clock".into())
    );
    assert_eq!(row["config_hash"], one["config_hash"]);
    assert_eq!(row["cache_bytes"], one["cache_bytes"]);
    for figure in [
        "bandwidth_mb_s",
        "iops",
        "latency_us",
        "hit_ratio",
        "cpus",
        "spread",
    ] {
        assert_eq!(row[figure], one["rows"][1][figure], "{figure}");
    }
}

#[test]
fn the_table_and_the_page_have_a_line_for_each_combination() {
    let place = Place::new();
    let told = place.ok(&with(
        &TINY,
        &["--cache", "10%,40%", "--seeds", "2", "--html", "s.html"],
    ));
    let lines: Vec<&str> = told.lines().collect();
    let heads: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(heads[..3], ["cache", "design", "MB/s"], "{told}");
    assert_eq!(
        lines.iter().filter(|line| line.starts_with("10%")).count(),
        2
    );
    assert!(
        told.contains("4 of 4 points, each of 2 seeds, simulated"),
        "{told}"
    );
    let page = fs::read_to_string(place.path().join("s.html")).expect("a page");
    assert_eq!(page.matches("<tr>").count(), 5);
    assert!(page.contains("<h2>By cache</h2>"));
}

#[test]
fn values_with_commas_of_their_own_are_separated_by_semicolons() {
    let place = Place::new();
    let scala = [&TINY[..8], &["scala"]].concat();
    let one = place.ok(&with(&scala, &["--set", "design.scala.shares=2,1"]));
    assert!(one.contains("config"), "a comparison: {one}");
    let two = with(
        &scala,
        &["--set", "design.scala.shares=2,1;1,1", "--json", "s.json"],
    );
    place.ok(&two);
    let rows = json(&place.path().join("s.json"));
    let shares = |at: usize| rows["rows"][at]["axes"]["design.scala.shares"].clone();
    assert_eq!((shares(0), shares(1)), ("2,1".into(), "1,1".into()));
}

#[test]
fn real_time_runs_one_point_at_a_time() {
    let place = Place::new();
    let real = [
        "--real", "--jobs", "4", "--cache", "10%,40%", "--json", "s.json",
    ];
    place.ok(&with(&TINY, &real));
    let report = json(&place.path().join("s.json"));
    assert_eq!(report["rows"].as_array().map(Vec::len), Some(4));
    assert_eq!(report["rows"][0]["mode"], "measured");
}

#[test]
fn the_json_has_the_documented_fields() {
    let (_, report) = swept();
    assert_eq!(report["schema"], "wharf.sweep/1");
    let of_row = |field: &String| field.strip_prefix("rows[].").is_none();
    let found: BTreeSet<String> = fields(&report).into_iter().collect();
    let (own, documented) = (
        found.clone().into_iter().filter(of_row),
        documented_of_sweeps(),
    );
    let own: BTreeSet<String> = own.collect();
    let heads: BTreeSet<String> = documented.iter().filter(|f| of_row(f)).cloned().collect();
    assert_eq!(own, heads);
    for field in documented.iter().filter(|field| !of_row(field)) {
        assert!(found.contains(field), "{field}");
    }
    for absent in [
        "rows[].timeline",
        "rows[].latency_cdf",
        "rows[].wall_seconds",
    ] {
        assert!(!found.contains(absent), "{absent}");
    }
}

#[test]
fn shards_put_together_are_the_whole() {
    let (place, whole) = swept();
    for shard in ["1/3", "3/3"] {
        run(&place, "parts", &format!("--shard {shard}"));
    }
    let says = "points are missing";
    fails(&place, 1, says, &["sweep", "merge", "parts"]);
    run(&place, "parts", "--shard 2/3 --jobs 4");
    assert_eq!(files(&place, "parts").len(), 3);
    assert_eq!(merged(&place, "parts"), whole);
    let told = run(&place, "parts", "--resume");
    assert!(told.contains("all 8 points are in parts already"), "{told}");
    assert_eq!(files(&place, "parts").len(), 3, "nothing was run");
    fails(
        &place,
        2,
        "give --resume",
        &["sweep", "run", "s.toml", "--out", "parts", "--shard", "1/3"],
    );
    // The points are those that are listed.
    let listed = place.ok(&["sweep", "list", "s.toml"]);
    let ids = listed
        .lines()
        .map(|line| line.split(' ').next().unwrap().into());
    let ids: Vec<Value> = ids.collect();
    let rows = whole["rows"].as_array().expect("rows");
    assert_eq!(
        ids,
        rows.iter()
            .map(|row| row["point"].clone())
            .collect::<Vec<_>>()
    );
}

#[test]
fn a_run_that_was_killed_is_resumed() {
    let (place, whole) = swept();
    let mut killed = Command::new(env!("CARGO_BIN_EXE_wharf"))
        .args(["sweep", "run", "s.toml", "--out", "out", "--jobs", "1"])
        .current_dir(place.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(killed.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("a line").expect("UTF-8");
    assert!(
        first.starts_with("1 of 8: direct with cache=10%"),
        "{first}"
    );
    killed.kill().expect("SIGKILL");
    killed.wait().expect("it ends");
    let told = run(&place, "out", "--resume");
    assert!(!told.contains("1 of 8"), "{told}");
    assert_eq!(files(&place, "out").len(), 2);
    assert_eq!(merged(&place, "out"), whole);
}

#[test]
fn a_line_that_was_torn_is_run_again() {
    let (place, whole) = swept();
    let path = files(&place, "whole").remove(0);
    let text = fs::read_to_string(&path).expect("rows");
    let end = text.trim_end().len();
    let last = text[..end].rfind('\n').expect("lines") + 1;
    for (cut, rest) in [
        (end, ""),
        (end - 1, ""),
        (last + 5, ""),
        (last + 5, "\n"),
        (last, "\0\0\0\n"),
    ] {
        fs::write(&path, format!("{}{rest}", &text[..cut])).expect("a file");
        let (code, stderr) = code_and_stderr(&place.wharf(&["sweep", "merge", "whole"]));
        assert_eq!(code, Some(1), "{stderr}");
        assert!(
            stderr.contains("was not written whole") && stderr.contains("1 of 8 points"),
            "{stderr}"
        );
        let (code, _) = code_and_stderr(
            &place.wharf(&["sweep", "run", "s.toml", "--out", "whole", "--resume"]),
        );
        assert_eq!(code, Some(0));
        let more = files(&place, "whole")
            .into_iter()
            .find(|other| *other != path);
        // What the torn file lacks is in another one.
        let (_, stderr) =
            code_and_stderr(&place.wharf(&["sweep", "merge", "whole", "--json", "m.json"]));
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert_eq!(json(&place.path().join("m.json")), whole);
        fs::remove_file(more.expect("a file")).expect("removed");
    }
}

/// What becomes of a text.
type Change<'a> = &'a dyn Fn(&str) -> String;

/// Writes a changed copy of the first file of rows beside it.
fn change(place: &Place, from: &str, change: Change) -> PathBuf {
    let path = files(place, from).remove(0);
    let text = fs::read_to_string(&path).expect("rows");
    let copy = path.with_file_name("rows-zz.jsonl");
    fs::write(&copy, change(&text)).expect("a file");
    copy
}

#[test]
fn lines_of_others_are_refused_and_the_same_twice_is_once() {
    let (place, whole) = swept();
    let sweep = whole["sweep"].as_str().expect("an identity");
    let commit = whole["commit"].as_str().expect("a commit");
    let first = |text: &str| text.lines().next().expect("a line").to_string() + "\n";
    let cases: [(&str, Change); 6] = [
        ("line 1: of another sweep", &|text| {
            text.replace(sweep, "0123456789abcdef")
        }),
        ("line 1: of another version of the cost table", &|text| {
            let costs = text.split("\"costs\":\"").nth(1).expect("a hash");
            text.replace(&costs[..16], "0123456789abcdef")
        }),
        ("line 1: made by commit abc of this program", &|text| {
            text.replace(&format!("\"commit\":\"{commit}\""), "\"commit\":\"abc\"")
        }),
        ("another row of point", &|text| {
            text.replace("\"requests\":200", "\"requests\":201")
        }),
        ("line 1: no row of a sweep", &|text| {
            format!("nonsense\n{text}")
        }),
        ("the sweep has no point", &|text| {
            let id = whole["rows"][0]["point"].as_str().expect("an identity");
            text.replace(id, "0123456789abcdef")
        }),
    ];
    for (says, changed) in cases {
        let copy = change(&place, "whole", changed);
        fails(&place, 2, says, &["sweep", "merge", "whole"]);
        fs::remove_file(copy).expect("removed");
    }
    change(&place, "whole", &first);
    assert_eq!(merged(&place, "whole"), whole);
}

#[test]
fn a_directory_of_something_else_is_refused() {
    let (place, _) = swept();
    let run_in = |out: &str| place.refused(&["sweep", "run", "s.toml", "--out", out]);
    place.write("s.toml", FILE.replace("40%", "50%"));
    assert_eq!(
        run_in("whole"),
        "whole: of another sweep: give --out another directory"
    );
    // The same costs by another name are other costs: who made them is said in the report.
    let costs = include_str!("../../../../configs/costs/default.toml");
    place.write(
        "c.toml",
        costs.replacen("name = \"default\"", "name = \"other\"", 1),
    );
    place.write("s.toml", format!("costs = \"c.toml\"\n{FILE}"));
    let told = run_in("whole");
    assert_eq!(
        told,
        "whole: of another version of the cost table: give --out another directory"
    );
    fs::create_dir(place.path().join("mine")).expect("a directory");
    place.write("mine/letter.txt", "dear");
    assert!(run_in("mine").starts_with("mine: no directory of a sweep, and not empty"));
    assert_eq!(
        fs::read_dir(place.path().join("mine")).expect("it").count(),
        1
    );
    for out in ["mine", "nowhere"] {
        let told = place.refused(&["sweep", "merge", out]);
        assert!(told.contains("no directory of a sweep"), "{told}");
    }
    place.write("mine/sweep.json", "{\"schema\": \"other\"}");
    assert!(
        place
            .refused(&["sweep", "merge", "mine"])
            .contains("does not describe a sweep")
    );
    assert!(run_in("s.toml/x").contains("s.toml/x"));
}

#[test]
fn mistakes_are_told_in_one_line_and_before_anything_runs() {
    let place = Place::new();
    for (more, line) in [
        (
            &["--cache", "5%,5%"][..],
            "--cache has 5% twice: give each value once",
        ),
        (
            &["--cache", "5%,"],
            "--cache has a value that is empty: give one or more values, such as 1%,5%,20%",
        ),
        (
            &["--set", "drive.timing.read_ns=5us,5000"],
            "points 1 and 3 are the same configuration (direct with 5000): leave one of them out",
        ),
        (
            &["--set", "drive.timing.read_ns=5us,x"],
            "--set: drive.timing.read_ns = x is not a whole number of ns, or a time such as 18us",
        ),
        (
            &["--set", "drive.timing.raed_ns=1,2"],
            "--set: unknown key 'drive.timing.raed_ns', the nearest is 'drive.timing.read_ns'",
        ),
        (
            &[
                "--set",
                "drive.timing.read_ns=1,2",
                "--set",
                "drive.timing.read_ns=3",
            ],
            "drive.timing.read_ns is given twice, and has a list of values: give it once",
        ),
        (
            &["--cache", "5%,x"],
            "--cache: 'x' is neither a share nor a size: write one such as 18.75% (above 0%, up to 100%), or 4GiB",
        ),
        (
            &["--cache", "5%,10%", "--gauges"],
            "--gauges is for one comparison, and this is a sweep: its --json has what designs report",
        ),
    ] {
        assert_eq!(place.refused(&with(&TINY, more)), line);
    }
    let told = place.refused(&["compare", "-", "--cache", "5%,10%"]);
    assert!(told.contains("standard input can be read once"), "{told}");
    for (text, says) in [
        (
            "cahce = 1",
            "s.toml:1: unknown key 'cahce', the nearest is 'cache'",
        ),
        ("real = true", "s.toml:1: unknown key 'real'"),
        (
            "clients = [1, 0]",
            "s.toml: invalid value '0' for '--clients <CLIENTS>'",
        ),
        ("overlay = 3", "s.toml: overlay = 3: say true or false"),
        (
            "workload = \"unifrom\"",
            "no workload \"unifrom\"; nearest is \"uniform\"",
        ),
        ("workload = \"--help\"", "no workload \"--help\""),
        ("designs = [\"clok\"]", "no design 'clok'"),
        ("[set]\ndrive.timing = 3", "'drive.timing' is a table"),
        ("cache = [", "s.toml:1: not valid TOML"),
    ] {
        place.write("s.toml", text);
        let told = place.refused(&["sweep", "run", "s.toml", "--out", "out"]);
        assert!(told.contains(says), "{text}: {told}");
    }
    assert!(
        place
            .refused(&["sweep", "list", "none.toml"])
            .contains("cannot read none.toml")
    );
    let shard = place.wharf(&["sweep", "run", "s.toml", "--out", "out", "--shard", "3/2"]);
    assert_eq!(shard.status.code(), Some(2));
}

#[test]
fn a_point_that_fails_does_not_end_the_others() {
    let place = Place::new();
    // An eighth of a page for each client is no cache for `scala`.
    place.write(
        "s.toml",
        FILE.replace("\"direct\", \"clock\"", "\"scala\", \"direct\"")
            .replace("\"10%\"", "\"4KiB\""),
    );
    let run = place.wharf(&["sweep", "run", "s.toml", "--out", "out"]);
    let (code, stderr) = code_and_stderr(&run);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(
        stderr.contains("scala with cache=4KiB") && stderr.contains("and 1 more points failed"),
        "{stderr}"
    );
    fails(
        &place,
        1,
        "2 of 8 points are missing: scala with cache=4KiB",
        &["sweep", "merge", "out"],
    );
}

#[test]
fn a_trace_is_known_by_its_contents() {
    let place = Place::new();
    let trace = |name: &str, page: u64| {
        let line = |n: u64| format!("{n} R {} 4096\n", (n * page) % 64 * 4096);
        let lines: String = (0..50).map(line).collect();
        place.write(name, format!("# wharf trace 1\n{lines}"))
    };
    trace("a.trace", 1);
    trace("b.trace", 3);
    let ids = |name: &str| {
        place.write(
            "t.toml",
            format!(
                "workload = \"{name}\"\ndrive = \"tiny\"\nclients = 2\ncache = [\"10%\", \"20%\"]"
            ),
        );
        place.ok(&["sweep", "list", "t.toml"])
    };
    let (a, b) = (ids("a.trace"), ids("b.trace"));
    assert_ne!(a, b);
    fs::create_dir(place.path().join("there")).expect("a directory");
    let copy = Path::new("there/c.trace");
    fs::copy(place.path().join("a.trace"), place.path().join(copy)).expect("a copy");
    assert_eq!(ids("there/c.trace"), a);
}
