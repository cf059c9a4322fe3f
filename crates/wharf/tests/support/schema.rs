//! The fields of a report, by path as `docs/report-schema.md` writes them: `rows[].latency_us.mean`.

use std::collections::BTreeSet;

use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../../docs/report-schema.md");

/// The heading of what is said of sweeps.
const SWEEPS: &str = "# The report of a sweep as JSON";

/// Those that the document has of a comparison.
pub fn documented() -> BTreeSet<String> {
    named(DOCUMENT.split(SWEEPS).next().expect("a document"))
}

/// Those that it has of a sweep.
#[allow(dead_code)] // not all tests that share this file have sweeps
pub fn documented_of_sweeps() -> BTreeSet<String> {
    named(DOCUMENT.split(SWEEPS).nth(1).expect("a heading"))
}

fn named(text: &str) -> BTreeSet<String> {
    let names = text.lines().filter_map(|line| {
        let name = line.strip_prefix("| `")?.split('`').next()?;
        name.starts_with(|c: char| c.is_ascii_lowercase())
            .then(|| name.to_string())
    });
    names.collect()
}

/// Those that a report has.
pub fn fields(report: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    gather(report, "", &mut found);
    found
}

fn gather(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let dot = if path.is_empty() { "" } else { "." };
                let path = format!("{path}{dot}{key}");
                gather(value, &path, into);
                into.insert(path);
            }
        }
        Value::Array(list) => list
            .iter()
            .for_each(|value| gather(value, &format!("{path}[]"), into)),
        _ => {}
    }
}
