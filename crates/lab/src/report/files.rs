//! Operations on files by kind, in a table of their own: for the terminal and for the page.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::format::{grouped, number};
use super::html::Escaped;
use super::table::aligned;
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
    let lines = lines(rows);
    if lines.is_empty() {
        return String::new();
    }
    let cells = lines.into_iter().map(Vec::from);
    format!("\n{}", aligned(&HEADS, cells, 2, 2))
}

/// As a section of the page; empty without operations on files.
pub(super) fn section(rows: &[Row]) -> String {
    let lines = lines(rows);
    if lines.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<section class=\"long\">\n<h2>Operations on files</h2>\n<table class=\"figures\">\n<thead><tr>",
    );
    for head in HEADS {
        let _ = write!(text, "<th>{}</th>", Escaped(head.replace('\n', " ")));
    }
    text += "</tr></thead>\n<tbody>\n";
    for line in lines {
        text += "<tr>";
        for cell in line {
            let _ = write!(text, "<td>{}</td>", Escaped(cell));
        }
        text += "</tr>\n";
    }
    text + "</tbody>\n</table>\n</section>\n"
}
