//! A sweep as text: a line for each point, its axes first.

use std::fmt::Write as _;

use super::{Report, SweepRow};
use crate::report::format::{self, counted, grouped, number, optional, optional_percent};
use crate::report::table::aligned;

/// A figure: its heading, and its cell.
type Column = (&'static str, fn(&SweepRow) -> String);

/// The figures of a line.
pub(super) const COLUMNS: [Column; 8] = [
    ("MB/s", |row| number(row.row.bandwidth_mb_s)),
    ("IOPS", |row| grouped(row.row.iops.round() as u64)),
    ("mean\nµs", |row| number(row.row.latency_us.mean)),
    ("p99\nµs", |row| number(row.row.latency_us.p99)),
    ("hit\n%", |row| optional_percent(row.row.hit_ratio)),
    ("CPU\nµs/IO", |row| number(row.row.host_cpu_us_per_io)),
    ("cmds\n/IO", |row| number(row.row.commands_per_io)),
    ("WA", |row| optional(row.row.write_amplification)),
];

impl Report {
    /// The table, then what was run.
    pub fn table(&self) -> String {
        let heads: Vec<String> = self.heads().iter().map(|head| folded(head)).collect();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let texts = self.axes.len() + 1;
        let lines = self.rows.iter().map(|row| self.cells(row));
        let mut text = aligned(&heads, lines, texts, 2);
        let _ = write!(text, "\n{}", self.about());
        if let Some(gap) = self.gap() {
            let _ = write!(text, "\n{gap}");
        }
        text
    }

    /// What stands above the columns.
    pub(super) fn heads(&self) -> Vec<&str> {
        let axes = self.axes.iter().map(|axis| axis.axis.key.as_str());
        let figures = COLUMNS.iter().map(|column| column.0);
        axes.chain(["design"]).chain(figures).collect()
    }

    /// The cells of a row.
    pub(super) fn cells(&self, row: &SweepRow) -> Vec<String> {
        let axes = self.axes.iter();
        let mut cells: Vec<String> = axes
            .map(|axis| row.axes.get(&axis.axis.key).cloned().unwrap_or_default())
            .collect();
        cells.push(row.row.design.clone());
        cells.extend(COLUMNS.iter().map(|column| (column.1)(row)));
        cells
    }

    /// The workloads, in the order of the rows.
    pub(super) fn workloads(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.workload.as_str()) {
                names.push(&row.workload);
            }
        }
        names
    }

    /// What was run, in a sentence.
    pub(super) fn about(&self) -> String {
        let mode = self
            .rows
            .first()
            .map_or("simulated", |row| row.row.mode.as_str());
        let tables: Vec<&str> = self.cost_tables.iter().map(|t| t.name.as_str()).collect();
        let costs = match tables.is_empty() {
            true => String::new(),
            false => format!(", costs {}", tables.join(" and ")),
        };
        let seeds = self.rows.first().map_or(1, |row| row.seeds);
        let seeds = match seeds {
            1 => String::new(),
            n => format!(", each of {n} seeds"),
        };
        format!(
            "sweep {} of {}: {} of {}{seeds}, {mode}{costs}, commit {}",
            self.sweep,
            format::listed(&self.workloads()),
            self.rows.len(),
            counted(self.points as u64, "point"),
            self.commit
        )
    }
}

/// A dotted key on a line for each of its parts: columns are as wide as their values.
fn folded(head: &str) -> String {
    head.replace('.', ".\n")
}
