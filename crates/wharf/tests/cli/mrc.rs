//! `wharf mrc`: curves beside libCacheSim's, and what it says of wrong input.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::schema::fields;
use crate::support::{Place, SAMPLE, libcachesim, traces};

/// Hits by libCacheSim, where Python has it. It reads our own format, and numbers pages as it comes by them.
const LIBCACHESIM: &str = r##"
import json, sys
import libcachesim
path, sizes = sys.argv[1], [int(size) for size in sys.argv[2:]]
pages, numbers = [], {}
for line in open(path):
    fields = line.split()
    if not fields or fields[0].startswith("#") or fields[1] not in "RW":
        continue
    at, size = int(fields[2]), int(fields[3])
    stream = fields[4] if len(fields) > 4 else "0"
    for page in range(at // 4096, (at + size - 1) // 4096 + 1):
        pages.append(numbers.setdefault((stream, page), len(numbers) + 1))
caches = {"fifo": libcachesim.FIFO, "lru": libcachesim.LRU, "clock": libcachesim.Clock, "sieve": libcachesim.Sieve,
          "s3-fifo": libcachesim.S3FIFO, "2q": libcachesim.TwoQ, "arc": libcachesim.ARC}
rows = []
for name, kind in caches.items():
    for size in sizes:
        cache, request, hits = kind(size), libcachesim.Request(), 0
        request.obj_size = 1
        for page in pages:
            request.obj_id = page
            hits += bool(cache.get(request))
        rows.append([name, size, hits / len(pages)])
print(json.dumps(rows))
"##;

fn curves(place: &Place, arguments: &[&str]) -> Value {
    let told = place.ok(&[&["mrc"], arguments, &["--json"]].concat());
    serde_json::from_str(&told).expect("JSON")
}

fn ratio(curves: &Value, policy: &str, pages: u64) -> f64 {
    let rows = curves["rows"].as_array().expect("rows");
    let is_it = |row: &&Value| row["policy"] == policy && row["cache_pages"] == pages;
    let row = rows.iter().find(is_it).expect("a row");
    row["hit_ratio"].as_f64().expect("a number")
}

/// What libCacheSim 0.3.5 (PyPI) hits of the trace that ships here, to six digits.
#[test]
fn the_curves_of_the_sample_are_those_of_libcachesim() {
    let place = Place::new();
    let found = curves(&place, &[SAMPLE, "--sizes", "50,200,800"]);
    assert_eq!(found["schema"], "wharf.mrc/1");
    let expected = include_str!("mrc.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let mut rows = 0;
    for line in expected {
        let fields: Vec<&str> = line.split(' ').collect();
        let [policy, pages, expected] = fields[..] else {
            panic!("{line}");
        };
        let found = ratio(&found, policy, pages.parse().unwrap());
        assert_eq!(format!("{found:.6}"), expected, "{policy}, {pages} pages");
        rows += 1;
    }
    assert_eq!(rows, 21);
}

/// The same of the reference traces, by a libCacheSim that is asked now.
#[test]
fn curves_of_reference_traces_are_those_of_libcachesim() {
    let (Some(folder), Some(python)) = (traces(), libcachesim()) else {
        return;
    };
    let place = Place::new();
    for (name, sizes) in [
        ("umass/fin1.trace", ["312", "3115", "5840"]),
        (
            "cloudphysics/cloudPhysicsIO.csv",
            ["2692", "26921", "50476"],
        ),
        ("arc/OLTP.lis.zst", ["1000", "8000", "30000"]),
    ] {
        let trace = folder.join(name);
        let trace = trace.to_str().expect("a path of letters");
        let converted = place.path().join("trace");
        let converted = converted.to_str().expect("a path of letters");
        let _ = std::fs::remove_file(converted);
        place.ok(&["trace", "convert", trace, converted]);
        let found = curves(&place, &[trace, "--sizes", &sizes.join(",")]);
        let told = python(&[&["-c", LIBCACHESIM, converted], &sizes[..]].concat());
        let rows: Vec<(String, u64, f64)> = serde_json::from_str(&told).expect("JSON");
        assert_eq!(rows.len(), 21);
        for (policy, pages, expected) in rows {
            let found = ratio(&found, &policy, pages);
            assert!(
                (found - expected).abs() < 5e-7,
                "{name}, {policy}, {pages}: {found} {expected}"
            );
        }
    }
}

#[test]
fn a_sample_is_near_the_whole() {
    let place = Place::new();
    // Four numbers of a page of 60,000, the least of which is used: a skew.
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 60_000
    };
    let mut text = String::from("# wharf trace 1\n");
    for time in 0..300_000 {
        let page = next().min(next()).min(next());
        text += &format!("{time} R {} 4096\n", page * 4096);
    }
    place.write("trace", text);
    let arguments = [
        "trace",
        "--policies",
        "lru,s3-fifo,arc",
        "--sizes",
        "5%,20%",
    ];
    let whole = curves(&place, &arguments);
    let sample = curves(&place, &[&arguments[..], &["--sample", "10%"]].concat());
    let sizes = |curves: &Value| curves["distinct_pages"].as_f64().expect("a number");
    assert!((sizes(&sample) / sizes(&whole) - 1.0).abs() < 0.05);
    assert_eq!(
        (sample["sample"].as_f64(), &sample["page_touches"]),
        (Some(0.1), &whole["page_touches"])
    );
    let rows = |curves: &Value| curves["rows"].as_array().expect("rows").clone();
    assert_eq!((rows(&whole).len(), rows(&sample).len()), (6, 6));
    for (whole, sample) in rows(&whole).iter().zip(rows(&sample)) {
        assert_eq!(whole["policy"], sample["policy"]);
        let ratio = |row: &Value| row["hit_ratio"].as_f64().expect("a number");
        let apart = (ratio(whole) - ratio(&sample)).abs();
        assert!(apart < 0.03, "{whole} {sample}");
    }
}

#[test]
fn a_table_and_a_page_say_the_same() {
    let place = Place::new();
    let arguments = [
        "mrc",
        SAMPLE,
        "--policies",
        "lru,S3FIFO",
        "--sizes",
        "10%,64KiB",
    ];
    let told = place.ok(&[
        &arguments[..],
        &["--html", "page.html", "--json", "rows.json"],
    ]
    .concat());
    let json = std::fs::read_to_string(place.path().join("rows.json")).unwrap();
    let found: Value = serde_json::from_str(&json).unwrap();
    let page = std::fs::read_to_string(place.path().join("page.html")).unwrap();
    for pages in [16, found["rows"][1]["cache_pages"].as_u64().unwrap()] {
        for policy in ["lru", "s3-fifo"] {
            let ratio = format!("{:.4}", ratio(&found, policy, pages));
            assert!(
                told.contains(&ratio) && page.contains(&format!("<td>{ratio}</td>")),
                "{ratio}"
            );
        }
    }
    // In a pipe there is no bar, and the same twice.
    assert_eq!(place.ok(&arguments), told);
}

#[test]
fn the_json_has_the_documented_fields() {
    let place = Place::new();
    let found = curves(&place, &[SAMPLE, "--policies", "lru", "--sizes", "1%"]);
    let document = include_str!("../../../../docs/curves.md");
    let section = document
        .split("## The JSON")
        .nth(1)
        .expect("it is documented");
    let section = section.split("\n## ").next().expect("a section");
    let names = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let documented: BTreeSet<String> = names.map(String::from).collect();
    let all = fields(&found).into_iter().filter(|name| name != "rows");
    assert_eq!(all.collect::<BTreeSet<_>>(), documented);
}

#[test]
fn a_workload_takes_the_place_of_a_trace() {
    let place = Place::new();
    let zipf = [
        "zipf",
        "--requests",
        "20000",
        "--policies",
        "lru",
        "--sizes",
        "10%",
    ];
    let first = curves(&place, &zipf);
    assert_eq!(
        (&first["trace"], &first["requests"]),
        (&"zipf".into(), &20_000.into())
    );
    assert_eq!(curves(&place, &zipf), first);
    assert_ne!(
        curves(&place, &[&zipf[..], &["--seed", "2"]].concat()),
        first
    );
    let error = place.refused(&["mrc", SAMPLE, "--seed", "2"]);
    assert!(error.contains("--seed is for workloads"), "{error}");
}

#[test]
fn what_has_no_meaning_is_refused() {
    let place = Place::new();
    place.write("flushes", "# wharf trace 1\n0 F 0 0\n");
    for (arguments, says) in [
        (&["--policies", "lfu"][..], "no policy 'lfu'"),
        (&["--sizes", "0"], "no size of a cache"),
        (&["--sizes", "lots"], "no size of a cache"),
        (&["--sample", "0%"], "a share such as 1%"),
        (&["--sample", "200%"], "'200%' is not a share"),
        (&["--html", "-", "--json", "-"], "both -"),
        (&["--json", "none/rows.json"], "none/rows.json"),
    ] {
        let output = place.wharf(&[&["mrc", SAMPLE], arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
    for trace in ["flushes", "nowhere"] {
        let output = place.wharf(&["mrc", trace]);
        assert_eq!(output.status.code(), Some(2), "{trace}");
    }
    assert_eq!(place.files().len(), 1);
}
