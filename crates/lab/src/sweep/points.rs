//! The points of a sweep, in their order, with their identities.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Axis, SweepError};
use crate::config::{ConfigHash, text_hash};
use crate::result::CostTable;

/// A combination of values, as the caller understood it.
#[derive(Debug, Clone)]
pub struct Combination {
    /// A value of each axis.
    pub values: Vec<String>,
    /// The designs that are run with them.
    pub designs: Vec<String>,
    /// Hash of drives, host and costs.
    pub config: ConfigHash,
    /// The costs that virtual time charges; none in real time.
    pub costs: Option<CostTable>,
    /// Hash of these costs, their labels included.
    pub costs_hash: ConfigHash,
    /// All else that its results depend on: options and the contents of files that they name, in a form that is the same on
    /// every machine.
    pub rest: String,
}

/// A run of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Its identity: 16 hexadecimal digits.
    pub id: String,
    /// The number of its combination, from 0.
    pub combination: usize,
    /// A value of each axis.
    pub values: Vec<String>,
    /// The design.
    pub design: String,
}

/// A sweep as a list of points.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// Its identity: a hash of its axes and points.
    pub id: String,
    /// Hash of all cost tables.
    pub costs: String,
    /// The cost tables, each once.
    pub cost_tables: Vec<CostTable>,
    /// The commit of the program that runs it.
    pub commit: String,
    /// What changes.
    pub axes: Vec<Axis>,
    /// All points, in order.
    pub points: Vec<Point>,
}

impl Sweep {
    /// The points of these combinations, which come in their order.
    ///
    /// # Errors
    /// Two points are the same.
    pub fn new(
        axes: Vec<Axis>,
        combinations: &[Combination],
        commit: &str,
    ) -> Result<Sweep, SweepError> {
        let points = points(combinations)?;
        let mut tables = BTreeMap::new();
        for combination in combinations {
            let hash = combination.costs_hash.to_string();
            if let Some(costs) = &combination.costs {
                tables.entry(hash).or_insert(costs);
            }
        }
        let costs: Vec<&str> = tables.keys().map(String::as_str).collect();
        let ids = points.iter().map(|point| point.id.as_str());
        let keys = axes.iter().map(|axis| axis.key.as_str());
        let all: Vec<&str> = keys.chain(ids).collect();
        Ok(Sweep {
            id: text_hash(&all.join("\n")).to_string(),
            costs: text_hash(&costs.join("\n")).to_string(),
            cost_tables: tables.into_values().cloned().collect(),
            commit: commit.into(),
            axes,
            points,
        })
    }

    /// The values of a point in words: `cache=5%, drive.timing.read_ns=25us`.
    pub fn describe(&self, point: &Point) -> String {
        let pairs = self.axes.iter().zip(&point.values);
        let pairs: Vec<String> = pairs
            .map(|(axis, value)| format!("{}={value}", axis.key))
            .collect();
        in_words(&point.design, &pairs)
    }

    /// The points of a shard, in their order. They are dealt out by their identities, which is as good as at random: shards
    /// have as many, of all designs and values.
    pub fn shard(&self, shard: Shard) -> Vec<usize> {
        let mut by_id: Vec<usize> = (0..self.points.len()).collect();
        by_id.sort_by_key(|at| &self.points[*at].id);
        let own = by_id.into_iter().skip(shard.index as usize - 1);
        let mut own: Vec<usize> = own.step_by(shard.count as usize).collect();
        own.sort_unstable();
        own
    }
}

fn in_words(design: &str, values: &[String]) -> String {
    match values.is_empty() {
        true => design.into(),
        false => format!("{design} with {}", values.join(", ")),
    }
}

fn points(combinations: &[Combination]) -> Result<Vec<Point>, SweepError> {
    let mut points: Vec<Point> = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (number, combination) in combinations.iter().enumerate() {
        for design in &combination.designs {
            let (config, rest) = (combination.config, &combination.rest);
            let id = text_hash(&format!("design={design}\nconfig={config}\n{rest}")).to_string();
            if let Some(first) = seen.insert(id.clone(), points.len() + 1) {
                return Err(SweepError::SamePoint {
                    first,
                    second: points.len() + 1,
                    words: in_words(design, &combination.values),
                });
            }
            points.push(Point {
                id,
                combination: number,
                values: combination.values.clone(),
                design: design.clone(),
            });
        }
    }
    Ok(points)
}

/// One of several equal parts of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which one, from 1.
    pub index: u32,
    /// How many there are.
    pub count: u32,
}

impl Shard {
    /// All points.
    pub const WHOLE: Shard = Shard { index: 1, count: 1 };
}

impl FromStr for Shard {
    type Err = SweepError;

    fn from_str(text: &str) -> Result<Shard, SweepError> {
        let parts = text.split_once('/');
        let numbers = parts.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((index, count)) if 0 < index && index <= count => Ok(Shard { index, count }),
            _ => Err(SweepError::Shard(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sweep over as many values of one axis, with two designs.
    fn sweep(values: usize) -> Sweep {
        let values: Vec<String> = (0..values).map(|value| value.to_string()).collect();
        let combinations: Vec<Combination> = values.iter().map(combination).collect();
        let axis = Axis::new("clients", values).unwrap();
        Sweep::new(vec![axis], &combinations, "c0ffee").unwrap()
    }

    fn combination(value: &String) -> Combination {
        Combination {
            values: vec![value.clone()],
            designs: vec!["clock".into(), "scala".into()],
            config: ConfigHash(7),
            costs: Some(CostTable {
                name: "default".into(),
                machine: "m".into(),
                date: "2026-01-01".into(),
                commit: "c".into(),
            }),
            costs_hash: ConfigHash(9),
            rest: format!("clients={value}"),
        }
    }

    #[test]
    fn points_have_a_fixed_order_and_identity() {
        let sweep = sweep(3);
        let told: Vec<String> = sweep.points.iter().map(|p| sweep.describe(p)).collect();
        assert_eq!(
            told[..3],
            [
                "clock with clients=0",
                "scala with clients=0",
                "clock with clients=1"
            ]
        );
        assert_eq!(sweep.points[0].id, "4381a9f329eb408d");
        assert_eq!(sweep.points[1].id.len(), 16);
        assert_ne!(sweep.points[0].id, sweep.points[1].id);
    }

    #[test]
    fn the_same_configuration_twice_is_refused() {
        let twice = [combination(&"1".into()), combination(&"1".into())];
        let axis = Axis::new("clients", vec!["1".into(), "01".into()]).unwrap();
        let error = Sweep::new(vec![axis], &twice, "c").unwrap_err().to_string();
        assert!(error.starts_with("points 1 and 3 are the same"), "{error}");
    }

    #[test]
    fn shards_are_disjoint_equal_and_whole() {
        let sweep = sweep(10);
        for count in [1, 3, 20, 33] {
            let shards = (1..=count).map(|index| sweep.shard(Shard { index, count }));
            let shards: Vec<Vec<usize>> = shards.collect();
            let mut all: Vec<usize> = shards.concat();
            all.sort_unstable();
            assert_eq!(all, (0..20).collect::<Vec<_>>(), "{count}");
            let sizes = shards.iter().map(Vec::len);
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
        }
    }

    #[test]
    fn a_shard_is_one_of_some() {
        assert_eq!(
            "2/8".parse::<Shard>().unwrap(),
            Shard { index: 2, count: 8 }
        );
        for wrong in [
            "",
            "1",
            "0/3",
            "4/3",
            "a/3",
            "1/0",
            "-1/3",
            "1/3/3",
            "1/5000000000",
        ] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
