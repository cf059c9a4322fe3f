//! `docs/configuration.md` lists exactly the keys that there are, with their units.

use wharf_drive::DriveConfig;
use wharf_runtime::CostTable;

use super::super::HostConfig;
use super::super::kinds::Kind;
use super::super::schema::{Schema, Unit};

const DOCUMENT: &str = include_str!("../../../../../docs/configuration.md");

/// Key and unit of the rows of the tables below `heading`.
fn rows(heading: &str) -> Vec<(String, String)> {
    let (_, section) = DOCUMENT
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("no section '{heading}'"));
    let section = section.split("\n## ").next().unwrap();
    section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            assert!(cells[3].len() > 10, "no meaning: {line}");
            (cells[1].trim_matches('`').into(), cells[2].into())
        })
        .collect()
}

fn documented(unit: Unit) -> &'static str {
    match unit {
        Unit::Plain => "",
        Unit::Nanoseconds => "ns",
        Unit::Microseconds => "µs",
        Unit::Bytes => "bytes",
        Unit::Pages => "pages",
        Unit::MegabytesPerSecond => "MB/s",
        Unit::Share => "share",
    }
}

fn check(heading: &str, schema: &Schema) {
    let mut listed = rows(heading);
    listed.sort();
    let known: Vec<(String, String)> = schema
        .keys()
        .map(|key| (key.to_string(), documented(schema.unit(key)).to_string()))
        .map(|(key, unit)| match key.strip_prefix("spread_ns.") {
            // One row for all: there is a spread for each cost.
            Some(_) => ("spread_ns.OPERATION".into(), unit),
            None => (key, unit),
        })
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    for row in &known {
        assert!(listed.contains(row), "{heading}: not listed so: {row:?}");
    }
    for row in &listed {
        assert!(known.contains(row), "{heading}: no such key: {row:?}");
    }
    assert_eq!(
        listed.len(),
        known.len(),
        "{heading}: a key is listed twice"
    );
}

#[test]
fn the_document_lists_every_key_and_no_other() {
    check("Drive keys", &Schema::of(&DriveConfig::reference()));
    check("Host keys", &Schema::of(&HostConfig::reference()));
    check("Cost table keys", &Schema::of(&CostTable::reference()));
}

#[test]
fn the_document_names_every_preset() {
    let presets = super::super::DRIVES.iter().chain(super::super::HOSTS);
    for preset in presets {
        let row = format!("| `{}` |", preset.name);
        assert!(DOCUMENT.contains(&row), "{row}");
    }
}
