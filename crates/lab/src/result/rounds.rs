//! What rows that took turns on real storage showed: the spread of their rounds, and what limited their memory.

use serde::{Deserialize, Serialize};

/// The rounds of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rounds {
    /// The median round's I/Os a second, its flushes included.
    pub iops_median: f64,
    /// The slowest round's.
    pub iops_least: f64,
    /// The fastest round's.
    pub iops_most: f64,
    /// The median round's final flush in seconds.
    pub flush_seconds_median: f64,
    /// What limited memory for the file's pages: an option, a control group, nothing.
    pub memory_limited_by: String,
    /// The limit in bytes, with what the process had for itself where a control group limits; `None` for none.
    pub memory_limit_bytes: Option<u64>,
    /// The most memory that a process of the row had, in bytes.
    pub memory_peak_bytes: u64,
    /// Each round.
    pub runs: Vec<Round>,
}

/// One round of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Which one, from 0 on.
    pub round: u32,
    /// The row's place in it: odd rounds go backwards.
    pub place: u32,
    /// Requests completed.
    pub requests: u64,
    /// Flushes amid the requests.
    pub flushes: u64,
    /// From the first request to the end of the final flush.
    pub elapsed_seconds: f64,
    /// Of these, the final flush.
    pub flush_seconds: f64,
    /// Requests by `elapsed_seconds`.
    pub iops: f64,
    /// Share of 4 KiB page touches served by the cache; `None` where it does not tell.
    pub hit_ratio: Option<f64>,
}

impl Rounds {
    /// Sums up at least one round.
    pub fn new(
        runs: Vec<Round>,
        memory_limited_by: String,
        memory_limit_bytes: Option<u64>,
        memory_peak_bytes: u64,
    ) -> Rounds {
        let sorted = |of: fn(&Round) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let (iops, flushes) = (sorted(|run| run.iops), sorted(|run| run.flush_seconds));
        Rounds {
            iops_median: median(&iops),
            iops_least: iops[0],
            iops_most: iops[iops.len() - 1],
            flush_seconds_median: median(&flushes),
            memory_limited_by,
            memory_limit_bytes,
            memory_peak_bytes,
            runs,
        }
    }
}

/// The middle of sorted figures; of two in the middle, between them.
fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(iops: &[f64]) -> Rounds {
        let run = |(round, iops): (u32, &f64)| Round {
            round,
            place: 0,
            requests: 10,
            flushes: 0,
            elapsed_seconds: 10.0 / iops,
            flush_seconds: 1.0 / iops,
            iops: *iops,
            hit_ratio: None,
        };
        let runs = (0..).zip(iops).map(run).collect();
        Rounds::new(runs, "nothing".into(), None, 0)
    }

    #[test]
    fn rounds_give_their_median_and_both_ends() {
        let odd = rounds(&[30.0, 10.0, 20.0]);
        assert_eq!(
            (odd.iops_median, odd.iops_least, odd.iops_most),
            (20.0, 10.0, 30.0)
        );
        assert_eq!(odd.flush_seconds_median, 0.05);
        assert_eq!(rounds(&[30.0, 10.0]).iops_median, 20.0);
        assert_eq!(rounds(&[7.0]).iops_median, 7.0);
    }
}
