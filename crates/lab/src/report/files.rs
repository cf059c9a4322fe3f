//! Operations on files by kind, in a table of their own: for the terminal and for the page.

use std::collections::BTreeSet;

use super::figures;
use super::format::{grouped, number};
use crate::result::{FileOperation, Row};

const HEADS: [&str; 8] = [
    "operation",
    "design",
    "count",
    "failed",
    "ops/s",
    "mean\nµs",
    "p50\nµs",
    "p99\nµs",
];

/// A line for each kind and design, the designs of a kind together; empty without operations on files.
fn lines(rows: &[Row]) -> Vec<[String; 8]> {
    let all = rows.iter().flat_map(|row| &row.file_operations);
    let mut seen = BTreeSet::new();
    let kinds: Vec<&str> = all
        .map(|operation| &*operation.operation)
        .filter(|kind| seen.insert(*kind))
        .collect();
    let mut lines = Vec::new();
    for kind in kinds {
        for row in rows {
            let mut of_kind = row.file_operations.iter();
            lines.extend(
                of_kind
                    .find(|operation| operation.operation == kind)
                    .map(|operation| line(row, operation)),
            );
        }
    }
    lines
}

fn line(row: &Row, operation: &FileOperation) -> [String; 8] {
    let latency = operation.latency_us;
    [
        operation.operation.clone(),
        row.design.clone(),
        grouped(operation.count),
        grouped(operation.failed),
        grouped(operation.per_second.round() as u64),
        number(latency.mean),
        number(latency.p50),
        number(latency.p99),
    ]
}

/// As text, after an empty line; empty without operations on files.
pub(super) fn table(rows: &[Row]) -> String {
    figures::table(&HEADS, lines(rows), (2, 2))
}

/// As a section of the page; empty without operations on files.
pub(super) fn section(rows: &[Row]) -> String {
    figures::section("Operations on files", &HEADS, lines(rows))
}
