//! `wharf compute load` and `run`: programs of users' own, on the drive and here. They are skipped where the feature `programs` is off: it is on
//! where all crates are tested together, as the drive's own tests need it.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use wharf_runtime::Seed;

use crate::file_system::with_image;
use crate::served::Serving;
use crate::support::Place;

/// The example programs.
fn example(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.join("../../examples/programs").join(name)
}

/// Has a compiler make a program out of an example; says if there is none for WebAssembly.
fn compiled(place: &Place, compiler: &str, arguments: &[&str], name: &str) -> bool {
    let mut command = Command::new(compiler);
    command.args(arguments).arg(example(name));
    let made = command.current_dir(place.path()).output();
    let is_made = made.is_ok_and(|made| made.status.success());
    if !is_made {
        println!("skipped: no {compiler} here makes WebAssembly");
    }
    is_made
}

/// A place with an image, where this build has programs.
fn place_for_programs() -> Option<Place> {
    let is_built = wharf::files::check_program(&stepping("(i64.const 1)")).is_ok();
    if !is_built {
        println!("skipped: this build has no programs (feature `programs`)");
    }
    is_built.then(with_image)
}

/// Words in lines, with none at the end of the last.
fn text() -> Vec<u8> {
    let mut rng = Seed(18).rng();
    let mut text = Vec::new();
    while text.len() < 300_000 {
        let word: Vec<u8> = (0..rng.below(30))
            .map(|_| b'a' + rng.below(6) as u8)
            .collect();
        text.extend(word);
        text.push(if rng.below(3) == 0 { b'\n' } else { b' ' });
    }
    text.extend(b"the abc end");
    text
}

#[test]
fn the_rust_example_finds_the_lines_that_rust_finds() {
    let Some(place) = place_for_programs() else {
        return;
    };
    let flags = [
        "--edition=2024",
        "--target=wasm32-unknown-unknown",
        "--crate-type=cdylib",
        "-O",
        "-Cpanic=abort",
        "-Cstrip=symbols",
        "-Clink-arg=-zstack-size=16384",
    ];
    if !compiled(&place, "rustc", &flags, "lines.rs") {
        return;
    }
    let text = text();
    place.write("text", &text);
    place.ok(&["fs", "cp", "text", "drive.img:/text"]);
    place.ok(&["compute", "load", "drive.img", "lines.wasm", "/lines.wasm"]);
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let found: Vec<&[u8]> = lines
        .filter(|line| line.windows(3).any(|part| part == b"abc"))
        .collect();
    assert!(found.len() > 300);
    let right = found.concat();
    assert!(right.len() < 128 << 10, "all of it is given back");
    for on in ["drive", "host", "auto"] {
        let out = format!("out-{on}");
        let run = [
            "compute",
            "run",
            "drive.img",
            "/lines.wasm",
            "/text",
            "--on",
            on,
        ];
        let with = |more: &[&str]| place.ok(&[&run[..], &["--argument", "abc"], more].concat());
        let said: Value = serde_json::from_str(&with(&["--json", "--out", &out])).expect("JSON");
        assert_eq!(said[0]["value"], found.len());
        assert_eq!(said[0]["bytes_made"], right.len());
        assert!(std::fs::read(place.path().join(&out)).unwrap() == right);
        // What is there already stays.
        let again = [&run[..], &["--argument", "abc", "--out", &out]].concat();
        assert_eq!(
            place.refused(&again),
            format!("{out}: File exists (os error 17)")
        );
        // All lines are too many to be given back, and fit into a file.
        let all = [&run[..], &["--argument", "a", "--out", "all"]].concat();
        let line = place.refused(&all);
        assert!(
            line.contains("more than 131072 bytes") && line.contains("--to PATH"),
            "{line}"
        );
        let to = format!("/made-{on}");
        with(&["--to", &to]);
        place.ok(&["fs", "cp", &format!("drive.img:{to}"), &to[1..]]);
        assert!(std::fs::read(place.path().join(&to[1..])).unwrap() == right);
    }
    place.ok(&["fs", "check", "drive.img"]);
}

#[test]
fn the_c_example_counts_bytes() {
    let Some(place) = place_for_programs() else {
        return;
    };
    let flags = [
        "--target=wasm32",
        "-O2",
        "-nostdlib",
        "-Wl,--no-entry",
        "-Wl,--export=wharf_input",
        "-Wl,--export=wharf_output",
        "-obytes.wasm",
    ];
    if !compiled(&place, "clang", &flags, "bytes.c") {
        return;
    }
    let text = text();
    place.write("text", &text);
    place.ok(&["fs", "cp", "text", "drive.img:/text"]);
    place.ok(&["compute", "load", "drive.img", "bytes.wasm", "/bytes.wasm"]);
    let mut counts = [0_u64; 256];
    text.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    for on in ["drive", "host", "auto"] {
        let out = format!("counts-{on}");
        let run = [
            "compute",
            "run",
            "drive.img",
            "/bytes.wasm",
            "/text",
            "--on",
            on,
        ];
        let said = place.ok(&[&run[..], &["--out", &out]].concat());
        let different = counts.iter().filter(|count| **count > 0).count();
        assert_eq!(
            said.trim(),
            format!("/text: value {different}, 2048 bytes made")
        );
        let given = std::fs::read(place.path().join(&out)).unwrap();
        let given: Vec<u64> = given
            .as_chunks()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect();
        assert_eq!(given, counts);
        let argument = [&run[..], &["--argument", "x"]].concat();
        let line = "drive.img:/text: the program refuses its argument, or takes none";
        assert_eq!(place.refused(&argument), line);
    }
}

/// A program whose step is `body`.
fn stepping(body: &str) -> Vec<u8> {
    let text = format!(
        r#"(module
            (memory (export "memory") 1)
            (global (export "wharf_input") i32 (i32.const 1024))
            (global (export "wharf_output") i32 (i32.const 16384))
            (func (export "wharf_step") (param i32 i32) (result i64) {body}))"#
    );
    wat::parse_str(&text).expect("the text has a meaning")
}

#[test]
fn programs_that_misbehave_are_stopped_with_a_reason_and_the_drive_goes_on() {
    let Some(place) = place_for_programs() else {
        return;
    };
    place.write("text", "abc");
    place.ok(&["fs", "cp", "text", "drive.img:/text"]);
    let cases = [
        (
            "(loop $on (br $on)) unreachable",
            "the program takes more than 67108864 instructions for a piece of 8192 bytes",
        ),
        ("unreachable", "the program failed"),
        (
            "(i64.const 4)",
            "the program says that it took or made what it cannot have, or nothing at all",
        ),
        (
            "(i64.const -1)",
            "its bytes have no meaning for the function",
        ),
    ];
    for (nth, (body, reason)) in cases.iter().enumerate() {
        place.write("program", stepping(body));
        let path = format!("/program-{nth}");
        place.ok(&["compute", "load", "drive.img", "program", &path]);
        for on in ["drive", "host", "auto"] {
            let run = ["compute", "run", "drive.img", &path, "/text", "--on", on];
            assert_eq!(place.refused(&run), format!("drive.img:/text: {reason}"));
            // Nothing is left of what could not be made.
            let to = [&run[..], &["--to", "/made"]].concat();
            assert_eq!(place.refused(&to), format!("drive.img:/text: {reason}"));
        }
    }
    for on in ["drive", "host", "auto"] {
        let run = ["compute", "run", "drive.img", "/text", "/text", "--on", on];
        let line = "drive.img:/text: the file is no program that can run here";
        assert_eq!(place.refused(&run), line);
        let sum = ["compute", "checksum", "drive.img", "/text", "--on", on];
        assert_eq!(place.ok(&sum).trim(), "364b3fb7  /text");
    }
    let line = place.refused(&["compute", "load", "drive.img", "text", "/text-2"]);
    assert!(line.starts_with("text: unexpected end"), "{line}");
    let mut imports =
        String::from(r#"(module (import "wasi_snapshot_preview1" "fd_write" (func)) "#);
    imports += r#"(memory (export "memory") 1))"#;
    place.write("wasi", wat::parse_str(&imports).unwrap());
    let line = place.refused(&["compute", "load", "drive.img", "wasi", "/wasi"]);
    assert_eq!(
        line,
        "wasi: it imports wasi_snapshot_preview1.fd_write, and programs have no imports"
    );
    let listed = place.ok(&["fs", "ls", "drive.img"]);
    assert!(
        !listed.contains("made") && !listed.contains("wasi"),
        "{listed}"
    );
    place.ok(&["fs", "check", "drive.img"]);
}

/// Its program would have run for hours, and takes more than half of the memory for vectors.
#[test]
fn the_program_of_a_killed_process_ends_and_others_have_the_memory() {
    let Some(place) = place_for_programs() else {
        return;
    };
    place.write("text", vec![b'a'; 1_000_000]);
    place.ok(&["fs", "cp", "text", "drive.img:/text"]);
    let slow = "(local $left i32) (local.set $left (i32.const 3000000))
        (loop $on (br_if $on (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (i64.const 1)";
    let fast = "(i64.extend_i32_u (local.get 0))";
    for (name, body) in [("slow", slow), ("fast", fast)] {
        place.write(name, stepping(body));
        place.ok(&["compute", "load", "drive.img", name, &format!("/{name}")]);
    }
    let serving = Serving::start(&place, &[]);
    for _ in 0..3 {
        let mut running = Command::new(env!("CARGO_BIN_EXE_wharf"))
            .args(["compute", "run", "drive.sock", "/slow", "/text"])
            .current_dir(place.path())
            .spawn()
            .unwrap();
        #[allow(clippy::disallowed_methods)] // It is to be amid its program.
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(running.try_wait().unwrap().is_none(), "it ended by itself");
        running.kill().unwrap();
        running.wait().unwrap();
        let run = ["compute", "run", "drive.sock", "/fast", "/text"];
        assert_eq!(place.ok(&run).trim(), "/text: value 0, 0 bytes made");
    }
    serving.end();
}
