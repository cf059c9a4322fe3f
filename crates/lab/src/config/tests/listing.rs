//! `docs/configuration.md` lists exactly the keys that there are, with their units.

use wharf_drive::DriveConfig;
use wharf_runtime::CostTable;

use super::super::HostConfig;
use super::super::kinds::Kind;
use super::super::schema::{Schema, Unit};
use super::super::sets::DESIGN;
use crate::designs::built_in;

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
    let host = Schema::of(&HostConfig::reference());
    check("Host keys", &host.without(DESIGN));
    check("Design keys", &host.only(DESIGN));
    check("Cost table keys", &Schema::of(&CostTable::reference()));
}

/// The listing of what concerns one design alone, as the designs declare it.
fn design_keys() -> String {
    let schema = Schema::of(&HostConfig::reference());
    let mut text = String::new();
    let mut tables = std::collections::BTreeSet::new();
    for entry in built_in() {
        if entry.keys.is_empty() || !tables.insert(entry.table) {
            continue;
        }
        let family = built_in().filter(|other| other.table == entry.table);
        let names: Vec<String> = family.map(|other| format!("`{}`", other.name)).collect();
        text += &format!("Of {}:\n\n", names.join(", "));
        text += "| key | unit | meaning |\n|---|---|---|\n";
        for (key, meaning) in entry.keys {
            let key = format!("design.{}.{key}", entry.table);
            let unit = documented(schema.unit(&key));
            text += &format!("| `{key}` | {unit} | {} |\n", meaning.trim()).replace("|  |", "| |");
        }
        text += "\n";
    }
    text
}

#[test]
fn the_document_has_the_keys_of_designs_as_they_declare_them() {
    let (begin, end) = ("<!-- design keys -->\n", "<!-- end -->");
    let (before, rest) = DOCUMENT.split_once(begin).expect("where it begins");
    let (listed, after) = rest.split_once(end).expect("where it ends");
    let made = format!("\n{}", design_keys());
    if std::env::var_os("WHARF_DOCS").is_some_and(|word| word == "write") {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let text = format!("{before}{begin}{made}{end}{after}");
        return std::fs::write(file, text).expect("the tree can be written");
    }
    assert_eq!(listed, made, "write it with WHARF_DOCS=write");
}

#[test]
fn the_document_names_every_preset() {
    let presets = super::super::DRIVES.iter().chain(super::super::HOSTS);
    for preset in presets {
        let row = format!("| `{}` |", preset.name);
        assert!(DOCUMENT.contains(&row), "{row}");
    }
}
