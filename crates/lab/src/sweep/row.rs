//! What came of a point.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::{Point, Sweep};
use crate::compare::Request;
use crate::result::Row;

/// Fields of a row that a sweep leaves out, with nothing in them: curves within a run, and how long it took.
fn left_out() -> [(&'static str, Value); 3] {
    [
        ("latency_cdf", json!([])),
        ("timeline", json!([])),
        ("wall_seconds", json!(0.0)),
    ]
}

/// What came of a point. Written and read as one object: what is said here, then the fields of [`Row`] by their names, without
/// `latency_cdf`, `timeline` and `wall_seconds`. Equal points give equal rows on every machine.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepRow {
    /// The point's identity.
    pub point: String,
    /// The values of the axes.
    pub axes: BTreeMap<String, String>,
    /// What the workload is called.
    pub workload: String,
    /// Distinct bytes that it touches, in whole 4 KiB pages.
    pub footprint_bytes: u64,
    /// The seed.
    pub seed: u64,
    /// Runs of this seed and those that follow it: figures are means.
    pub seeds: u32,
    /// The cache, in bytes.
    pub cache_bytes: u64,
    /// Hash of drives, host and costs.
    pub config_hash: String,
    /// The design and its figures.
    pub row: Row,
}

/// What a [`SweepRow`] says before its figures.
#[derive(Serialize, Deserialize)]
struct Head {
    point: String,
    axes: BTreeMap<String, String>,
    workload: String,
    footprint_bytes: u64,
    seed: u64,
    seeds: u32,
    cache_bytes: u64,
    config_hash: String,
}

impl SweepRow {
    /// The row of a point whose run gave `row`.
    pub(super) fn new(sweep: &Sweep, point: &Point, request: &Request, mut row: Row) -> SweepRow {
        let keys = sweep.axes.iter().map(|axis| axis.key.clone());
        let plan = &request.plans[0];
        row.latency_cdf.clear();
        row.timeline.clear();
        row.wall_seconds = 0.0;
        SweepRow {
            point: point.id.clone(),
            axes: keys.zip(point.values.iter().cloned()).collect(),
            workload: plan.name.clone(),
            footprint_bytes: plan.footprint_pages * 4096,
            seed: request.setup.seed,
            seeds: request.plans.len() as u32,
            cache_bytes: request.setup.cache_bytes,
            config_hash: request.config_hash().to_string(),
            row,
        }
    }

    /// The row as a JSON object.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("plain data with string keys")
    }
}

impl Serialize for SweepRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let head = Head {
            point: self.point.clone(),
            axes: self.axes.clone(),
            workload: self.workload.clone(),
            footprint_bytes: self.footprint_bytes,
            seed: self.seed,
            seeds: self.seeds,
            cache_bytes: self.cache_bytes,
            config_hash: self.config_hash.clone(),
        };
        let mut fields = object(serde_json::to_value(head));
        let mut figures = object(serde_json::to_value(&self.row));
        for (name, _) in left_out() {
            figures.remove(name);
        }
        fields.append(&mut figures);
        fields.serialize(serializer)
    }
}

fn object(value: serde_json::Result<Value>) -> Map<String, Value> {
    match value {
        Ok(Value::Object(fields)) => fields,
        other => unreachable!("a struct of plain data is an object: {other:?}"),
    }
}

impl<'de> Deserialize<'de> for SweepRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SweepRow, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        for (name, nothing) in left_out() {
            fields.insert(name.into(), nothing);
        }
        let fields = Value::Object(fields);
        let head = Head::deserialize(&fields).map_err(D::Error::custom)?;
        Ok(SweepRow {
            point: head.point,
            axes: head.axes,
            workload: head.workload,
            footprint_bytes: head.footprint_bytes,
            seed: head.seed,
            seeds: head.seeds,
            cache_bytes: head.cache_bytes,
            config_hash: head.config_hash,
            row: Row::deserialize(&fields).map_err(D::Error::custom)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let mut row = sample::comparison(2).rows.remove(1);
        (row.timeline, row.latency_cdf, row.wall_seconds) = (Vec::new(), Vec::new(), 0.0);
        let row = SweepRow {
            point: "0123456789abcdef".into(),
            axes: BTreeMap::from([("cache".into(), "5%".into())]),
            workload: "zipf".into(),
            footprint_bytes: 1 << 20,
            seed: u64::MAX,
            seeds: 1,
            cache_bytes: 1 << 16,
            config_hash: "f".into(),
            row,
        };
        let text = serde_json::to_string(&row).unwrap();
        for absent in ["timeline", "latency_cdf", "wall_seconds"] {
            assert!(!text.contains(absent), "{absent}");
        }
        let read: SweepRow = serde_json::from_str(&text).unwrap();
        assert_eq!(read, row);
        assert_eq!(row.to_value()["axes"]["cache"], "5%");
        assert_eq!(row.to_value()["design"], row.row.design.as_str());
        assert!(serde_json::from_str::<SweepRow>("{\"point\": \"1\"}").is_err());
    }
}
