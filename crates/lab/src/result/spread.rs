//! Figures of runs that differ by their seed alone: their mean, and how far they lie apart.
//!
//! One run is one draw: the order of things that happen at the same time, and where a generator's requests go, are
//! chances of its seed. A difference between two designs means something if it is larger than the spread of either.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Row, WALL_CLOCK_FIELDS, ratio};

/// Mean and spread of a figure over some runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of single runs about it, as estimated from these; 0 of one run.
    pub deviation: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Spread {
    /// Of these values, at least one.
    ///
    /// # Panics
    /// If there is none.
    pub fn of(values: &[f64]) -> Spread {
        assert!(!values.is_empty(), "a spread is of something");
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Spread {
            mean,
            deviation: ratio(squares, count - 1.0).sqrt(),
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// The deviation as a share of the mean; 0 of a mean of 0.
    pub fn relative(&self) -> f64 {
        ratio(self.deviation, self.mean.abs())
    }
}

impl Row {
    /// The row of several runs of one design, by their seeds in order: every figure is the mean of theirs, and
    /// [`Row::spread`] tells how far they lie apart. What is no figure, and the courses of distribution and time, are of the
    /// first run.
    ///
    /// # Panics
    /// If there is none.
    pub fn over_seeds(rows: &[Row]) -> Row {
        let (first, rest) = rows.split_first().expect("a run");
        if rest.is_empty() {
            return first.clone();
        }
        let value = |row: &Row| serde_json::to_value(row).expect("plain data");
        let all: Vec<Value> = rows.iter().map(value).collect();
        let mut spread = BTreeMap::new();
        let mean = mean(&all.iter().collect::<Vec<_>>(), "", &mut spread);
        let row: Row = serde_json::from_value(mean).expect("the shape of a row");
        Row {
            complete: rows.iter().all(|row| row.complete),
            spread,
            ..row
        }
    }
}

/// The mean of values of one shape, those of numbers noted in `spread` under their path.
fn mean(values: &[&Value], path: &str, spread: &mut BTreeMap<String, Spread>) -> Value {
    if let Some(numbers) = values
        .iter()
        .map(|v| v.as_f64())
        .collect::<Option<Vec<_>>>()
    {
        let of_all = Spread::of(&numbers);
        if !path.ends_with(']') && !WALL_CLOCK_FIELDS.contains(&&*format!("rows[].{path}")) {
            spread.insert(path.to_string(), of_all);
        }
        let are_counts = values.iter().all(|value| value.is_u64());
        return match are_counts {
            true => Value::from(of_all.mean.round() as u64),
            false => Value::from(of_all.mean),
        };
    }
    if let Some(objects) = values
        .iter()
        .map(|v| v.as_object())
        .collect::<Option<Vec<_>>>()
    {
        return Value::Object(mean_of_objects(&objects, path, spread));
    }
    if let Some(lists) = values
        .iter()
        .map(|v| v.as_array())
        .collect::<Option<Vec<_>>>()
        && lists.iter().all(|list| list.len() == lists[0].len())
        && !["latency_cdf", "timeline"].contains(&path)
    {
        // What is in a list has no name to be found by.
        let mut unnamed = BTreeMap::new();
        let at = |index: usize| {
            let items: Vec<&Value> = lists.iter().map(|list| &list[index]).collect();
            mean(&items, "[]", &mut unnamed)
        };
        return Value::Array((0..lists[0].len()).map(at).collect());
    }
    values[0].clone()
}

fn mean_of_objects(
    objects: &[&Map<String, Value>],
    path: &str,
    spread: &mut BTreeMap<String, Spread>,
) -> Map<String, Value> {
    let mut all = objects[0].clone();
    for (key, value) in &mut all {
        let fields: Option<Vec<&Value>> = objects.iter().map(|object| object.get(key)).collect();
        let path = match path {
            "" => key.clone(),
            path => format!("{path}.{key}"),
        };
        if let Some(fields) = fields {
            *value = mean(&fields, &path, spread);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn a_spread_is_that_of_a_textbook() {
        let spread = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((spread.mean, spread.least, spread.most), (5.0, 2.0, 9.0));
        assert!((spread.deviation - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert!((spread.relative() - spread.deviation / 5.0).abs() < 1e-12);
        assert_eq!(Spread::of(&[3.0]).deviation, 0.0);
        assert_eq!(Spread::of(&[0.0, 0.0]).relative(), 0.0);
    }

    #[test]
    fn a_row_over_seeds_has_the_mean_of_every_figure_and_its_spread() {
        let one = sample::comparison(3).rows.remove(2);
        let mut other = one.clone();
        other.bandwidth_mb_s *= 3.0;
        other.latency_us.p99 += 10.0;
        other.requests += 3;
        other.cpus[0].busy_share = 0.0;
        other.timeline.truncate(1);
        (other.complete, other.wall_seconds) = (false, 9.0);
        let row = Row::over_seeds(&[one.clone(), other]);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9 * b.abs().max(1.0);
        assert!(near(row.bandwidth_mb_s, 2.0 * one.bandwidth_mb_s));
        assert!(near(row.latency_us.p99, one.latency_us.p99 + 5.0));
        assert!(near(row.cpus[0].busy_share, one.cpus[0].busy_share / 2.0));
        assert_eq!((row.requests, row.complete), (one.requests + 2, false));
        assert_eq!(row.timeline, one.timeline, "of the first run");
        let p99 = row.spread["latency_us.p99"];
        assert!(near(p99.deviation, 50f64.sqrt()), "{p99:?}");
        assert_eq!(row.spread["iops"].deviation, 0.0);
        assert!(!row.spread.contains_key("wall_seconds"), "no two are alike");
        assert_eq!(Row::over_seeds(std::slice::from_ref(&one)), one);
    }
}
