//! Medians with the least, and how many times the first way's time the others take.

use std::fmt;

/// See the module.
pub struct Table {
    ways: Vec<String>,
    operations: Vec<&'static str>,
    /// Nanoseconds of each round, by operation and way.
    times: Vec<Vec<Vec<f64>>>,
}

impl Table {
    /// An empty one.
    pub fn new(ways: Vec<String>, operations: Vec<&'static str>) -> Table {
        Table {
            times: vec![vec![Vec::new(); ways.len()]; operations.len()],
            ways,
            operations,
        }
    }

    /// Notes a round.
    pub fn note(&mut self, operation: usize, way: usize, ns: f64) {
        self.times[operation][way].push(ns);
    }
}

/// Median and least; nothing of what could not be done.
fn summary(times: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some((*sorted.get(sorted.len() / 2)?, *sorted.first()?))
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, cells: Vec<String>| {
            writeln!(f, "| {} |", cells.join(" | "))
        };
        let mut head = vec!["ns: median (least)".to_string()];
        head.extend(self.ways.iter().cloned());
        let rule = vec!["---".to_string(); head.len()];
        line(f, head)?;
        line(f, rule.clone())?;
        for (name, ways) in self.operations.iter().zip(&self.times) {
            let cell = |times: &Vec<f64>| match summary(times) {
                Some((median, least)) => format!("{median:.0} ({least:.0})"),
                None => "–".into(),
            };
            let mut cells = vec![name.to_string()];
            cells.extend(ways.iter().map(cell));
            line(f, cells)?;
        }
        writeln!(f)?;
        let mut head = vec![format!("times {}", self.ways[0])];
        head.extend(self.ways[1..].iter().cloned());
        line(f, head)?;
        line(f, rule[1..].to_vec())?;
        for (name, ways) in self.operations.iter().zip(&self.times) {
            let first = summary(&ways[0]);
            let cell = |times: &Vec<f64>| match (first, summary(times)) {
                (Some((first, _)), Some((median, _))) => format!("{:.2}", median / first),
                _ => "–".into(),
            };
            let mut cells = vec![name.to_string()];
            cells.extend(ways[1..].iter().map(cell));
            line(f, cells)?;
        }
        Ok(())
    }
}
