//! `--volume`: one device of a trace that has several.

use serde_json::Value;

use crate::support::{Place, SAMPLE};

const TENCENT: &str =
    "1538323200,8,8,0,1205\n1538323200,16,8,1,7\n1538323200,24,8,1,1205\n1538323201,32,8,0,2982\n";

#[test]
fn the_requests_of_a_volume_are_looked_at() {
    let place = Place::new();
    place.write("t", TENCENT);
    let requests = |words: &[&str]| {
        let told = place.ok(&[words, &["--json"]].concat());
        let told: Value = serde_json::from_str(&told).expect("JSON");
        told["requests"]
            .as_u64()
            .or(told["info"]["requests"].as_u64())
    };
    assert_eq!(requests(&["trace", "stat", "t"]), Some(4));
    assert_eq!(
        requests(&["trace", "stat", "t", "--volume", "1205"]),
        Some(2)
    );
    assert_eq!(
        requests(&["mrc", "t", "--volume", "7,2982", "--sizes", "1"]),
        Some(2)
    );
    let run = [
        "compare",
        "t",
        "--volume",
        "1205",
        "--designs",
        "direct",
        "--json",
        "-",
    ];
    let report: Value = serde_json::from_str(&place.ok(&run)).expect("JSON");
    assert_eq!(report["workload"]["requests"], 2);
    assert_eq!(
        place.refused(&["compare", "t", "--volume", "9"]),
        "t has no request of volume 9, and 4 of others: `wharf trace stat` lists them"
    );
    assert!(
        place
            .refused(&["mrc", SAMPLE, "--volume", "disk"])
            .contains("'disk' is not a count")
    );
    assert!(
        place
            .refused(&["mrc", "zipf", "--volume", "1"])
            .starts_with("--volume is for traces")
    );
}
