//! `wharf compute`: answers are those of Python, which computes them from copies of the same files.

use std::process::Command;

use serde_json::Value;
use wharf_runtime::Seed;

use crate::file_system::with_image;
use crate::support::Place;

/// What Python finds: the CRC-32C by its definition, places of a word by `find`, distances in double precision.
const PYTHON: &str = r#"
import json, struct, zlib
text = open("text", "rb").read()
crc = 0xffffffff
for byte in text:
    crc ^= byte
    for _ in range(8):
        crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
places, at = [], text.find(b"aba")
while at >= 0:
    places.append(at)
    at = text.find(b"aba", at + 3)
numbers = [v[0] for v in struct.iter_unpack("<f", open("vectors", "rb").read())]
query = [v[0] for v in struct.iter_unpack("<f", open("query", "rb").read())]
dims = len(query)
vectors = [numbers[i:i + dims] for i in range(0, len(numbers), dims)]
squares = [sum((a - b) ** 2 for a, b in zip(v, query)) for v in vectors]
order = sorted(range(len(vectors)), key=lambda i: squares[i])
print(json.dumps({
    "crc32c": "%08x" % (crc ^ 0xffffffff),
    "places": places,
    "nearest": order[:8],
    "squares": [squares[i] for i in order[:8]],
    "expands": zlib.decompress(open("made.zz", "rb").read()) == text,
}))
open("python.zz", "wb").write(zlib.compress(text, 9))
"#;

fn json(place: &Place, arguments: &[&str], on: &str) -> Value {
    let arguments = [&["compute"], arguments, &["--json", "--on", on]].concat();
    serde_json::from_str(&place.ok(&arguments)).expect("JSON")
}

#[test]
fn drive_and_host_compute_what_python_does() {
    let place = with_image();
    let mut rng = Seed(6).rng();
    // Few letters: the word is everywhere, and overlaps itself.
    let text: Vec<u8> = (0..150_001)
        .map(|_| b"aab\n"[rng.below(4) as usize])
        .collect();
    place.write("text", &text);
    let mut numbers = |count: usize| -> Vec<u8> {
        let each = (0..count).map(|_| rng.below(1_000_000) as f32 / 999.0);
        each.flat_map(f32::to_le_bytes).collect()
    };
    place.write("vectors", numbers(24 * 700));
    place.write("query", numbers(24));
    for name in ["text", "vectors"] {
        place.ok(&["fs", "cp", name, &format!("drive.img:/{name}")]);
    }
    place.ok(&["compute", "compress", "drive.img", "/text", "/made.zz"]);
    place.ok(&["fs", "cp", "drive.img:/made.zz", "made.zz"]);
    let python = Command::new("python3")
        .args(["-c", PYTHON])
        .current_dir(place.path())
        .output();
    let Ok(python) = python else {
        return println!("skipped: there is no python3");
    };
    assert!(
        python.status.success(),
        "{}",
        String::from_utf8_lossy(&python.stderr)
    );
    let right: Value = serde_json::from_slice(&python.stdout).expect("JSON");
    assert_eq!(
        right["expands"], true,
        "zlib of others reads what the drive made"
    );
    for on in ["drive", "host", "auto"] {
        let found = json(&place, &["checksum", "drive.img", "/text"], on);
        assert_eq!(found[0]["crc32c"], right["crc32c"]);
        let search = ["search", "drive.img", "aba", "/text", "--places", "65536"];
        let found = json(&place, &search, on);
        assert_eq!(found[0]["places"], right["places"]);
        let nearest = [
            "nearest",
            "drive.img",
            "/vectors",
            "--query",
            "query",
            "--count",
            "8",
        ];
        let found = json(&place, &nearest, on);
        for nth in 0..8 {
            assert_eq!(found[nth]["number"], right["nearest"][nth]);
            let number = |value: &Value| value.as_f64().expect("a number");
            let (own, its) = (
                number(&found[nth]["squared_distance"]),
                number(&right["squares"][nth]),
            );
            assert!((own / its - 1.0).abs() < 1e-5, "{own} {its}");
        }
        // And what others made is read here.
        let name = format!("/back-{on}");
        place.ok(&["fs", "cp", "python.zz", &format!("drive.img:/{on}.zz")]);
        let expand = [
            "compute",
            "decompress",
            "drive.img",
            &format!("/{on}.zz"),
            &name,
            "--on",
            on,
        ];
        place.ok(&expand);
        place.ok(&["fs", "cp", &format!("drive.img:{name}"), &name[1..]]);
        assert!(std::fs::read(place.path().join(&name[1..])).unwrap() == text);
    }
    place.ok(&["fs", "check", "drive.img"]);
}

#[test]
fn what_cannot_be_computed_is_said_in_a_line_and_leaves_nothing() {
    let place = with_image();
    place.write("text", "no zlib stream");
    place.ok(&["fs", "cp", "text", "drive.img:/text"]);
    for (arguments, line) in [
        (
            &["checksum", "drive.img", "/nothing"][..],
            "drive.img:/nothing: No such file or directory (os error 2)",
        ),
        (
            &["decompress", "drive.img", "/text", "/out"],
            "drive.img:/text: its bytes are no zlib stream, or a damaged one",
        ),
        (
            &["decompress", "drive.img", "/text", "/out", "--codec", "lz4"],
            "drive.img:/text: its bytes are no lz4 stream, or a damaged one",
        ),
        (
            &[
                "decompress",
                "drive.img",
                "/text",
                "/out",
                "--codec",
                "zstd",
            ],
            "drive.img:/text: its bytes are no zstd stream, or a damaged one",
        ),
        (
            &["compress", "drive.img", "/text", "/text"],
            "drive.img:/text: File exists (os error 17)",
        ),
        (
            &["search", "drive.img", "", "/text"],
            "WORD is empty: give the bytes to look for",
        ),
        (
            &["nearest", "drive.img", "/text", "--query", "text"],
            "text: a vector is 1 to 16384 numbers of 4 bytes, and these are 14 bytes",
        ),
        (
            &["checksum", "none.img", "/text"],
            "no drive image at none.img: create it first, or correct the path",
        ),
    ] {
        for on in ["drive", "host", "auto"] {
            let all = [&["compute"], arguments, &["--on", on]].concat();
            assert_eq!(place.refused(&all), line, "{all:?}");
        }
    }
    let listed = place.ok(&["fs", "ls", "drive.img"]);
    assert_eq!(listed.trim(), "text");
}

#[test]
fn each_codec_makes_what_its_own_program_reads() {
    let place = with_image();
    let text = "some words, and some more\n".repeat(9_000);
    place.write("text", &text);
    place.ok(&["fs", "cp", "text", "drive.img:/text"]);
    for (codec, program) in [("lz4", "lz4"), ("zstd", "zstd")] {
        for on in ["drive", "host", "auto"] {
            let (small, back) = (format!("/{codec}-{on}"), format!("/{codec}-{on}-back"));
            let by = |verb, from: &str, to: &str| {
                place.ok(&[
                    "compute",
                    verb,
                    "drive.img",
                    from,
                    to,
                    "--codec",
                    codec,
                    "--on",
                    on,
                ]);
            };
            by("compress", "/text", &small);
            by("decompress", &small, &back);
            for name in [&small, &back] {
                place.ok(&["fs", "cp", &format!("drive.img:{name}"), &name[1..]]);
            }
            let read = |name: &str| std::fs::read(place.path().join(&name[1..])).expect("a file");
            assert!(read(&back) == text.as_bytes());
            let expanded = Command::new(program)
                .args(["-dcq", &small[1..]])
                .current_dir(place.path())
                .output();
            match expanded {
                Ok(expanded) => assert!(expanded.stdout == text.as_bytes(), "{program}"),
                Err(_) => println!("skipped: there is no {program}"),
            }
        }
        let read = |on| std::fs::read(place.path().join(format!("{codec}-{on}"))).expect("a file");
        assert!(read("drive") == read("host"), "{codec}");
    }
    place.ok(&["fs", "check", "drive.img"]);
}
