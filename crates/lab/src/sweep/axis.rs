//! What a sweep changes from run to run: a name with a list of values.
//!
//! On the command line a list is written with commas (`--cache 1%,5%,20%`). A key of `--set` whose own values may have commas
//! (`design.scala.shares=4,2,1`) keeps them, and its list has semicolons (`design.scala.shares=4,2,1;1,1,1`).

use serde::{Deserialize, Serialize};

use super::SweepError;
use crate::config::{Sets, parse_bytes, parse_duration_ns};

/// Most points of a sweep: each has its configuration loaded before the first one runs.
pub const POINTS_MAX: usize = 100_000;

/// A name with its values, in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// An option of `wharf compare` without its dashes (`cache`), or a key of `--set` (`drive.timing.read_ns`).
    pub key: String,
    /// The values as they were written.
    pub values: Vec<String>,
}

/// What the values of an axis count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A share: 5 % is 0.05.
    Share,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// Anything else.
    Plain,
}

impl Axis {
    /// An axis of these values.
    ///
    /// # Errors
    /// A value is empty, or is there twice.
    pub fn new(key: &str, values: Vec<String>) -> Result<Axis, SweepError> {
        for (index, value) in values.iter().enumerate() {
            if value.is_empty() {
                return Err(SweepError::EmptyValue(key.into()));
            }
            if values[..index].contains(value) {
                return Err(SweepError::Twice {
                    key: key.into(),
                    value: value.clone(),
                });
            }
        }
        if values.is_empty() {
            return Err(SweepError::EmptyValue(key.into()));
        }
        Ok(Axis {
            key: key.into(),
            values,
        })
    }

    /// The axis of an option whose values have no commas of their own; none if there is one value.
    ///
    /// # Errors
    /// As [`Axis::new`].
    pub fn of_option(key: &str, text: &str) -> Result<Option<Axis>, SweepError> {
        Axis::separated(key, text, ',')
    }

    /// The axis of an argument of `--set`; none if there is one value.
    ///
    /// # Errors
    /// As [`Axis::new`].
    pub fn of_set(argument: &str) -> Result<Option<Axis>, SweepError> {
        let Some((key, value)) = argument.split_once('=') else {
            // Refused with a better line when it is read.
            return Ok(None);
        };
        let separator = if has_commas(key) { ';' } else { ',' };
        Axis::separated(key.trim(), value, separator)
    }

    fn separated(key: &str, text: &str, separator: char) -> Result<Option<Axis>, SweepError> {
        if !text.contains(separator) {
            return Ok(None);
        }
        let values = text.split(separator);
        Axis::new(key, values.map(|value| value.trim().into()).collect()).map(Some)
    }

    /// The values as numbers of one unit; none if some are words, or of several units.
    pub fn numbers(&self) -> Option<(Unit, Vec<f64>)> {
        let units = [Unit::Plain, Unit::Share, Unit::Nanoseconds, Unit::Bytes];
        units.into_iter().find_map(|unit| {
            let numbers = self.values.iter().map(|value| number(value, unit));
            Some((unit, numbers.collect::<Option<Vec<f64>>>()?))
        })
    }
}

/// True if the key takes values with commas: a list, or a text.
fn has_commas(key: &str) -> bool {
    Sets::parse(&[format!("{key}=1,1")]).is_ok_and(|sets| sets.are_values())
}

fn number(text: &str, unit: Unit) -> Option<f64> {
    let plain = |text: &str| {
        let number: Option<f64> = text.replace('_', "").parse().ok();
        number.filter(|number| number.is_finite())
    };
    match unit {
        Unit::Plain => plain(text),
        Unit::Share => plain(text.strip_suffix('%')?.trim_end()).map(|percent| percent / 100.0),
        Unit::Nanoseconds => parse_duration_ns(text).ok().map(|ns| ns as f64),
        Unit::Bytes => parse_bytes(text).ok().map(|bytes| bytes as f64),
    }
}

/// Every combination of values, as the place of each in its axis: the last axis changes fastest.
///
/// # Errors
/// There are more than [`POINTS_MAX`].
pub fn combinations(axes: &[Axis]) -> Result<Vec<Vec<usize>>, SweepError> {
    let sizes = axes.iter().map(|axis| axis.values.len());
    let count = sizes.fold(1usize, usize::saturating_mul);
    if count > POINTS_MAX {
        return Err(SweepError::TooMany(count));
    }
    let combination = |mut number: usize| {
        let mut places = vec![0; axes.len()];
        for (place, axis) in places.iter_mut().zip(axes).rev() {
            *place = number % axis.values.len();
            number /= axis.values.len();
        }
        places
    };
    Ok((0..count).map(combination).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(values: &[&str]) -> Axis {
        Axis::new("k", values.iter().map(|value| value.to_string()).collect()).unwrap()
    }

    #[test]
    fn commas_separate_unless_they_are_the_values_own() {
        let values = |argument: &str| Axis::of_set(argument).unwrap().map(|axis| axis.values);
        let list = |values: &[&str]| Some(values.iter().map(|v| v.to_string()).collect::<Vec<_>>());
        assert_eq!(
            values("drive.timing.read_ns=10us, 25us"),
            list(&["10us", "25us"])
        );
        assert_eq!(
            values("design.scale.replacement=lru,clock"),
            list(&["lru", "clock"])
        );
        assert_eq!(values("drive.timing.read_ns=10us"), None);
        // Values with commas, in keys that take such today.
        assert_eq!(values("design.scala.shares=4,2,1"), None);
        assert_eq!(
            values("design.scala.shares=4,2,1; 1,1"),
            list(&["4,2,1", "1,1"])
        );
        assert_eq!(values("drive.media.path=/tmp/a,b"), None);
        // Told when they are read.
        assert_eq!(values("no.such.key=1"), None);
        assert_eq!(values("drive.timing.read_ns"), None);
    }

    #[test]
    fn an_axis_has_each_value_once() {
        for (text, says) in [
            ("1%,5%,1%", "cache has 1% twice"),
            ("1%,,5%", "cache has a value that is empty"),
            (",", "cache has a value that is empty"),
        ] {
            let error = Axis::of_option("cache", text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert!(Axis::new("cache", Vec::new()).is_err());
    }

    #[test]
    fn values_are_numbers_of_one_unit_or_words() {
        assert_eq!(
            axis(&["1%", "2.5 %"]).numbers(),
            Some((Unit::Share, vec![0.01, 0.025]))
        );
        assert_eq!(
            axis(&["4k", "1MiB"]).numbers(),
            Some((Unit::Bytes, vec![4096.0, 1048576.0]))
        );
        assert_eq!(
            axis(&["10us", "1ms"]).numbers(),
            Some((Unit::Nanoseconds, vec![1e4, 1e6]))
        );
        assert_eq!(
            axis(&["1_000", "0.5"]).numbers(),
            Some((Unit::Plain, vec![1e3, 0.5]))
        );
        for words in [&["lru", "clock"][..], &["1%", "4KiB"], &["1", "inf"]] {
            assert_eq!(axis(words).numbers(), None, "{words:?}");
        }
    }

    #[test]
    fn combinations_are_in_a_fixed_order() {
        let axes = [axis(&["a", "b"]), axis(&["1", "2", "3"])];
        let found = combinations(&axes).unwrap();
        let expected = [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]];
        assert_eq!(found, expected.map(Vec::from));
        assert_eq!(combinations(&[]).unwrap(), [Vec::<usize>::new()]);
        let long: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        let long = Axis::new("k", long).unwrap();
        assert!(combinations(&[long.clone(), long]).is_err());
    }
}
