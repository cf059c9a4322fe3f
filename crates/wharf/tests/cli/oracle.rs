//! `wharf trace convert --to oracleGeneral`: traces for libCacheSim, which is the judge of them, and names that ask for a compression.

use serde_json::Value;

use crate::support::{Place, SAMPLE, libcachesim, traces};

/// Misses of converted traces by libCacheSim's reader. LRU asks nothing of what comes next, and Belady nothing else.
const MISSES: &str = r#"
import json, sys
import libcachesim
path, sizes = sys.argv[1], [int(size) for size in sys.argv[2:]]
rows = []
for name, kind in {"lru": libcachesim.LRU, "belady": libcachesim.Belady}.items():
    for size in sizes:
        reader = libcachesim.TraceReader(path, libcachesim.TraceType.ORACLE_GENERAL_TRACE)
        misses, _ = kind(size * 4096).process_trace(reader)
        rows.append([name, size, reader.get_num_of_req(), misses])
print(json.dumps(rows))
"#;

#[test]
fn libcachesim_hits_as_often_of_a_converted_trace() {
    let Some(python) = libcachesim() else {
        return;
    };
    let place = Place::new();
    let mut cases = vec![(SAMPLE.to_string(), ["50", "800"])];
    if let Some(folder) = traces() {
        let named = |name: &str| folder.join(name).to_str().expect("letters").to_string();
        cases.push((named("umass/fin1.trace"), ["312", "3115"]));
        // Of many devices.
        cases.push((named("mqsim/tpcc-small.trace"), ["200", "5000"]));
    }
    for (trace, sizes) in cases {
        for out in ["plain", "packed.oracleGeneral.zst"] {
            let to = ["--to", "oracleGeneral", "--force"];
            place.ok(&[&["trace", "convert", &trace, out], &to[..]].concat());
            let path = place.path().join(out);
            let told =
                python(&[&["-c", MISSES, path.to_str().expect("letters")], &sizes[..]].concat());
            let rows: Vec<(String, u64, u64, f64)> = serde_json::from_str(&told).expect("JSON");
            let sizes = sizes.join(",");
            let words = [
                "mrc",
                &trace,
                "--policies",
                "lru,belady",
                "--sizes",
                &sizes,
                "--json",
            ];
            let curves: Value = serde_json::from_str(&place.ok(&words)).expect("JSON");
            for (policy, pages, uses, misses) in rows {
                assert_eq!(curves["page_touches"], uses, "{trace}");
                let all = curves["rows"].as_array().expect("rows");
                let row = all
                    .iter()
                    .find(|row| row["policy"] == *policy && row["cache_pages"] == pages);
                let hits = row.expect("a row")["hit_ratio"].as_f64().expect("a number");
                let sum = hits + misses;
                assert!(
                    (sum - 1.0).abs() < 1e-9,
                    "{trace}, {policy}, {pages}: {hits}, {misses}"
                );
            }
        }
    }
}

/// Our own reader takes each record for the page that it was made of.
#[test]
fn a_converted_trace_has_the_same_curves() {
    let place = Place::new();
    let text = "# wharf trace 1\n0 W 0 12288 3\n5 R 4096 1 8\n6 F 0 4096 3\n- W 8191 2 3\n7 D 0 4096 3\n9 R 4096 4096 8\n";
    place.write("t", text);
    let said = place.ok(&["trace", "convert", "t", "o.gz", "--to", "oracleGeneral"]);
    assert_eq!(
        said,
        "o.gz: 6 requests as 7 uses of pages of 4 KiB, 2 flushes and discards left out, 0 lines left out\n"
    );
    let rows = |trace: &str| {
        let told = place.ok(&["mrc", trace, "--sizes", "1,2,3", "--json"]);
        let curves: Value = serde_json::from_str(&told).expect("JSON");
        (curves["page_touches"].clone(), curves["rows"].clone())
    };
    assert_eq!(rows("t"), rows("o.gz"));
    assert_eq!(place.files().len(), 2, "and nothing beside them");
}

#[test]
fn a_trace_that_cannot_be_converted_leaves_nothing() {
    let place = Place::new();
    place.write("f", "# wharf trace 1\n0 F 0 4096\n");
    let convert = |file: &str, out: &str| {
        place.refused(&["trace", "convert", file, out, "--to", "oracleGeneral"])
    };
    assert_eq!(
        convert("f", "o"),
        "f holds no requests (no reads and writes)"
    );
    assert!(convert(SAMPLE, "/dev/full").contains("No space left on device"));
    let line = convert(SAMPLE, "o.xz");
    assert!(
        line.starts_with("o.xz would not be compressed so"),
        "{line}"
    );
    let line = place.refused(&["trace", "convert", SAMPLE, "o.csv.gz"]);
    assert!(line.starts_with("o.csv.gz would not be CSV"), "{line}");
    assert_eq!(place.files().len(), 1);
}
