//! The files that a comparison writes.

use serde_json::Value;

use crate::schema;
use crate::support::{Place, QUICK, json, with};

#[test]
fn the_json_file_has_the_documented_fields_and_a_row_for_each_design() {
    let place = Place::new();
    place.ok(&with(
        &QUICK,
        &["--json", "r.json", "--seed", "18446744073709551615"],
    ));
    let report = json(&place.path().join("r.json"));
    let documented = schema::documented();
    let mut found = schema::fields(&report);
    // File operations: flushes among them.
    let files = "compare varmail --requests 300 --footprint 16m --designs scale --json f.json";
    place.ok(&files.split(' ').collect::<Vec<_>>());
    found.append(&mut schema::fields(&json(&place.path().join("f.json"))));
    let files =
        "compare varmail --requests 300 --footprint 16m --designs scale --view files --json v.json";
    place.ok(&files.split(' ').collect::<Vec<_>>());
    found.append(&mut schema::fields(&json(&place.path().join("v.json"))));
    // A drive that compresses, and a disk.
    for drive in ["tc-csd-small", "hdd-small"] {
        let line = format!(
            "{} --designs direct --drive {drive} --json d.json --force",
            QUICK.join(" ")
        );
        place.ok(&line.split(' ').collect::<Vec<_>>());
        found.append(&mut schema::fields(&json(&place.path().join("d.json"))));
    }
    // A preset's parameters are named by the drive, not by the format.
    found.retain(|field| {
        !field.contains(".parameters.")
            && !field.contains(".spread.")
            && !field.contains(".gauges.")
    });
    let undocumented: Vec<_> = found.difference(&documented).collect();
    assert!(undocumented.is_empty(), "{undocumented:?}");
    let for_other_runs = [
        "workload.source.path",
        "workload.source.format",
        "rows[].drift_us",
        // A test of `wharf bench` has these.
        "rows[].rounds.",
        "rows[].gc_affected.latency_us.",
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
    assert_eq!(report["schema"], "wharf.compare/3");
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
fn what_designs_report_of_themselves_is_printed_where_asked_for_and_in_every_report() {
    let place = Place::new();
    let tri = [
        "--designs",
        "tri,scala",
        "--gauges",
        "--json",
        "r.json",
        "--html",
        "r.html",
    ];
    let text = place.ok(&with(&QUICK, &tri));
    assert!(text.contains("reported by designs:"), "{text}");
    let names = [
        "manager_asks",
        "manager_held",
        "manager_poll",
        "manager_queue",
        "manager_wait",
    ];
    let report = json(&place.path().join("r.json"));
    let page = std::fs::read_to_string(place.path().join("r.html")).expect("a page");
    for name in names {
        let gauge = &report["rows"][0]["gauges"][name];
        assert!(
            gauge["value"].as_f64().is_some_and(|value| value > 0.0),
            "{name}: {gauge}"
        );
        assert!(text.contains(name), "{name}: {text}");
        assert!(page.contains(&name.replace('_', " ")), "{name}");
    }
    assert_eq!(report["rows"][1]["gauges"]["index_bytes"]["unit"], "bytes");
}
