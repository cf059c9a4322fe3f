//! Where results go: files that are not overwritten, standard output; what is said meanwhile; completions and man pages.

use std::fs::{read, read_to_string};

use serde_json::Value;

use crate::support::{Place, QUICK, SAMPLE, code_and_stderr, json, with};

/// `--json keep.txt` overwrote a file without a word.
#[test]
fn a_file_that_exists_was_overwritten() {
    let place = Place::new();
    place.write("keep", "something dear");
    std::fs::create_dir_all(place.path().join("pages/scala")).expect("a directory");
    place.write("pages/scala/index.html", "something dear");
    let quick = |more: &[&'static str]| with(&QUICK, more);
    let commands: [Vec<&str>; 10] = [
        quick(&["--json", "keep"]),
        quick(&["--html", "keep"]),
        vec!["mrc", SAMPLE, "--json", "keep"],
        vec!["mrc", SAMPLE, "--html", "keep"],
        vec!["bench", "f", "--size", "1m", "--json", "keep"],
        vec!["trace", "convert", SAMPLE, "keep"],
        vec!["trace", "compressibility", ".", "--output", "keep"],
        vec!["drive", "prepare", "tiny", "keep"],
        vec!["calibrate", "--quick", "--out", "keep"],
        vec!["calibrate", "--quick", "--fidelity", "keep"],
    ];
    for command in &commands {
        assert_eq!(
            place.refused(command),
            "keep exists: give another name, or --force overwrites it",
            "{command:?}"
        );
    }
    assert_eq!(
        place.refused(&["reproduce", "scala/fig11a", "--quick", "--out", "pages"]),
        "pages/scala/index.html exists: give another name, or --force overwrites it"
    );
    let kept = |name: &str| read_to_string(place.path().join(name)).expect("it is there");
    assert_eq!(kept("keep"), "something dear");
    assert_eq!(kept("pages/scala/index.html"), "something dear");
    place.ok(&["drive", "prepare", "tiny", "keep", "--force"]);
    assert!(read(place.path().join("keep")).expect("an image").len() > 1 << 20);
    place.ok(&["trace", "convert", SAMPLE, "keep", "--force"]);
    assert!(kept("keep").starts_with("# wharf trace 1\n"));
    place.ok(&quick(&["--json", "keep", "--force"]));
    assert_eq!(
        json(&place.path().join("keep"))["rows"][0]["design"],
        "direct"
    );
}

/// `--json -` made a file of that name.
#[test]
fn a_report_to_standard_output_went_to_a_file_called_dash() {
    let place = Place::new();
    let text = place.ok(&with(&QUICK, &["--json", "-", "--html", "page"]));
    let report: Value = serde_json::from_str(&text).expect("JSON and nothing else");
    assert_eq!(report["rows"].as_array().expect("rows").len(), 2);
    let page = place.ok(&with(&QUICK, &["--html", "-"]));
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(place.files().iter().eq(["page"]), "{:?}", place.files());
    assert_eq!(
        place.refused(&with(&QUICK, &["--html", "-", "--json", "-"])),
        "--json and --html are both -: give two paths"
    );
    // A trace, and what is said of it apart.
    let output = place.wharf(&["trace", "convert", SAMPLE, "-"]);
    assert!(output.stdout.starts_with(b"# wharf trace 1\n"));
    let said = "-: 61473 requests, 0 lines left out\n".to_string();
    assert_eq!(code_and_stderr(&output), (Some(0), said));
}

/// What cannot be written to its end is an error, also where it goes to a stream.
#[test]
fn a_result_that_is_cut_short_is_told() {
    let place = Place::new();
    let line = place.refused(&["trace", "convert", SAMPLE, "/dev/full"]);
    assert!(line.contains("No space left on device"), "{line}");
    for words in [
        &["trace", "convert", SAMPLE, "-"][..],
        &["mrc", SAMPLE, "--policies", "lru", "--json", "-"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_wharf"))
            .args(words)
            .stdout(full.expect("it is there"))
            .stderr(std::process::Stdio::piped())
            .spawn()
            .and_then(std::process::Child::wait_with_output);
        let (code, said) = code_and_stderr(&output.expect("it runs"));
        assert_eq!(code, Some(2), "{words:?}");
        assert!(
            said.contains("No space left on device"),
            "{words:?}: {said}"
        );
    }
}

/// `--requests` with a trace was refused, and before that ignored.
#[test]
fn the_first_requests_of_a_trace_are_replayed() {
    let place = Place::new();
    let sample = [
        "compare",
        "--requests",
        "1k",
        "--designs",
        "direct",
        "--json",
        "-",
    ];
    let report: Value = serde_json::from_str(&place.ok(&sample)).expect("JSON");
    assert_eq!(report["workload"]["requests"], 1_000);
    place.write(
        "ops.files",
        "# wharf file trace 1\n- 0 open /a c\n- 0 append /a 5000\n- 0 fsync /a\n- 1 stat /b\n",
    );
    let files = ["compare", "ops.files", "--requests", "2", "--json", "-"];
    let report: Value = serde_json::from_str(&place.ok(&files)).expect("JSON");
    assert_eq!(report["workload"]["requests"], 2);
    let curves = [
        "mrc",
        SAMPLE,
        "--requests",
        "1_000",
        "--policies",
        "lru",
        "--sizes",
        "0.5",
    ];
    let told = place.ok(&curves);
    assert!(
        told.contains("1,000 requests") || told.contains("1000 requests"),
        "{told}"
    );
}

/// A log of a long run was empty.
#[test]
fn progress_goes_to_a_log_where_it_is_wanted() {
    let place = Place::new();
    let output = place.wharf(&with(&QUICK, &["--progress", "plain"]));
    let (code, said) = code_and_stderr(&output);
    assert_eq!(code, Some(0));
    for design in ["direct", "clock"] {
        let line = format!("{design}: ended after ");
        assert!(said.lines().any(|said| said.starts_with(&line)), "{said}");
    }
    for quiet in ["auto", "none"] {
        place.ok(&with(&QUICK, &["--progress", quiet]));
    }
}

#[test]
fn shells_get_completions() {
    let place = Place::new();
    for (shell, word) in [
        ("bash", "complete -F _wharf"),
        ("zsh", "#compdef wharf"),
        ("fish", "complete -c wharf"),
    ] {
        let script = place.ok(&["completions", shell]);
        assert!(script.contains(word), "{shell}");
        for name in ["compressibility", "kernel-dflush", "read-share"] {
            assert!(script.contains(name), "no {name} for {shell}");
        }
        assert!(
            !script.contains("bench-row"),
            "{shell} has a command that is not for people"
        );
    }
    let script = place.ok(&["completions", "bash"]);
    place.write("wharf.bash", script);
    let checked = std::process::Command::new("bash")
        .args(["-n", "wharf.bash"])
        .current_dir(place.path())
        .output();
    assert!(checked.is_ok_and(|checked| checked.status.success()));
}

#[test]
fn every_command_has_a_man_page() {
    let place = Place::new();
    let said = place.ok(&["man", "pages"]);
    let page = |name: &str| read_to_string(place.path().join("pages").join(name)).expect("a page");
    let count = std::fs::read_dir(place.path().join("pages"))
        .expect("a directory")
        .count();
    assert_eq!(said, format!("pages: {count} pages\n"));
    let help = place.ok(&["--help"]);
    let commands = help.lines().filter_map(|line| line.strip_prefix("  "));
    let commands = commands.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
    let mut seen = 0;
    for command in commands.filter_map(|line| line.split(' ').next()) {
        let text = page(&format!("wharf-{command}.1"));
        assert!(text.contains(&format!(".TH wharf-{command} 1")), "{text}");
        seen += 1;
    }
    assert!(seen >= 20, "{help}");
    let stat = page("wharf-trace-stat.1");
    assert!(
        stat.contains("no\\-reuse") && stat.contains("Examples"),
        "{stat}"
    );
    let again = place.refused(&["man", "pages"]);
    assert!(
        again.ends_with("exists: give another name, or --force overwrites it"),
        "{again}"
    );
    place.ok(&["man", "pages", "--force"]);
}
