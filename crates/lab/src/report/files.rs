//! Operations on files by kind, and what they ask of the drives, in tables of their own: for the terminal and for the page.

use std::collections::BTreeSet;

use super::figures;
use super::format::{grouped, number};
use crate::result::{DriverAccount, FileOperation, Row};

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

const DRIVE_HEADS: [&str; 6] = [
    "design",
    "operations",
    "commands\nan operation",
    "flushes\nan operation",
    "KiB to the host\nan operation",
    "KiB from the host\nan operation",
];

/// What an operation asked of the drives, in the mean over all kinds; empty without operations on files.
fn drive_lines(rows: &[Row]) -> Vec<[String; 6]> {
    let with_files = rows.iter().filter(|row| !row.file_operations.is_empty());
    let line = |row: &Row| {
        let count: u64 = row.file_operations.iter().map(|of| of.count).sum();
        let sum = |of: fn(&DriverAccount) -> u64| {
            let all: u64 = row.drivers.iter().map(of).sum();
            all as f64 / count.max(1) as f64
        };
        [
            row.design.clone(),
            grouped(count),
            number(sum(DriverAccount::commands)),
            number(sum(|did| did.flushes)),
            number(sum(|did| did.read_bytes) / 1024.0),
            number(sum(|did| did.write_bytes) / 1024.0),
        ]
    };
    with_files.map(line).collect()
}

/// As text, after an empty line; empty without operations on files.
pub(super) fn table(rows: &[Row]) -> String {
    figures::table(&HEADS, lines(rows), (2, 2))
        + &figures::table(&DRIVE_HEADS, drive_lines(rows), (1, 2))
}

/// As sections of the page; empty without operations on files.
pub(super) fn section(rows: &[Row]) -> String {
    let of_drives = figures::section(
        "What operations ask of the drives",
        &DRIVE_HEADS,
        drive_lines(rows),
    );
    figures::section("Operations on files", &HEADS, lines(rows)) + &of_drives
}
