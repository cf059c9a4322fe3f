//! All rows of a sweep as plain data, and as JSON in the format of `docs/report-schema.md`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Axis, Sweep, SweepRow, Unit};
use crate::result::CostTable;

/// Name and version of the format.
pub const SCHEMA: &str = "wharf.sweep/1";

/// A sweep with what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The sweep's identity.
    pub sweep: String,
    /// The commit that Wharf was built from.
    pub commit: String,
    /// The costs of CPU work in virtual time.
    pub cost_tables: Vec<CostTable>,
    /// What changes.
    pub axes: Vec<ReportAxis>,
    /// The designs, in order.
    pub designs: Vec<String>,
    /// How many points there are.
    pub points: usize,
    /// Those without a row, each in words.
    pub missing: Vec<String>,
    /// What came of the others, in their order.
    pub rows: Vec<SweepRow>,
}

/// An axis with its values as numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportAxis {
    /// The axis.
    #[serde(flatten)]
    pub axis: Axis,
    /// What the values count; none if they are words, or of several units.
    pub unit: Option<Unit>,
    /// The values as numbers, shares between 0 and 1, times in nanoseconds; empty without a unit.
    pub numbers: Vec<f64>,
}

impl Report {
    /// The report of these rows, by their points' identities. Rows of other points are left out.
    pub fn new(sweep: &Sweep, mut rows: BTreeMap<String, SweepRow>) -> Report {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        let mut designs: Vec<String> = Vec::new();
        for point in &sweep.points {
            if !designs.contains(&point.design) {
                designs.push(point.design.clone());
            }
            match rows.remove(&point.id) {
                Some(row) => found.push(row),
                None => missing.push(sweep.describe(point)),
            }
        }
        let axes = sweep.axes.iter().map(|axis| {
            let (unit, numbers) = axis.numbers().unzip();
            ReportAxis {
                axis: axis.clone(),
                unit,
                numbers: numbers.unwrap_or_default(),
            }
        });
        Report {
            schema: SCHEMA,
            sweep: sweep.id.clone(),
            commit: sweep.commit.clone(),
            cost_tables: sweep.cost_tables.clone(),
            axes: axes.collect(),
            designs,
            points: sweep.points.len(),
            missing,
            rows: found,
        }
    }

    /// The report as JSON text, indented, with a line feed at its end: equal reports give equal bytes.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data with string keys");
        text.push('\n');
        text
    }

    /// The first points without a row, in a sentence; none if all have one.
    pub fn gap(&self) -> Option<String> {
        const SHOWN: usize = 3;
        let missing = &self.missing;
        let first = missing.get(..missing.len().min(SHOWN))?.join("; ");
        let more = match missing.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let (count, points) = (missing.len(), self.points);
        (count > 0).then(|| format!("{count} of {points} points are missing: {first}{more}"))
    }
}
