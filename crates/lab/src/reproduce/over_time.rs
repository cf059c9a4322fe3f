//! How latency goes over a run, by its timeline.
//!
//! A part of a run has the mean of the intervals that lie in it, each by the bytes that it moved: by its requests, where all are of
//! one size.

use crate::result::Row;

/// Parts of a run whose latencies are told apart, of equal time.
pub const TENTHS: u32 = 10;

/// Mean latency in a tenth of a run, counted from 1, in microseconds.
///
/// # Errors
/// There is no timeline, or nothing was done in that time.
pub fn latency_us(row: &Row, tenth: u32) -> Result<f64, String> {
    let length_s = row.elapsed_seconds / f64::from(TENTHS);
    let from_s = length_s * f64::from(tenth - 1);
    let mean = mean_latency_us(row, (from_s, from_s + length_s));
    mean.ok_or_else(|| "nothing ended in a part of its time".into())
}

/// The standard deviation of the tenths' mean latencies, by their mean.
///
/// # Errors
/// As [`latency_us`].
pub fn spread(row: &Row) -> Result<f64, String> {
    let each: Result<Vec<f64>, String> = (1..=TENTHS).map(|tenth| latency_us(row, tenth)).collect();
    let (each, count) = (each?, f64::from(TENTHS));
    let mean = each.iter().sum::<f64>() / count;
    let variance = each.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / count;
    Ok(variance.sqrt() / mean)
}

/// The mean latency of requests that ended in some of the time of a run; none where none did.
fn mean_latency_us(row: &Row, (from_s, to_s): (f64, f64)) -> Option<f64> {
    let ends = row.timeline.iter().skip(1).map(|next| next.t_s);
    let ends = ends.chain([row.elapsed_seconds]);
    let (mut moved, mut sum) = (0.0, 0.0);
    for (point, end_s) in row.timeline.iter().zip(ends) {
        let inside_s = (end_s.min(to_s) - point.t_s.max(from_s)).max(0.0);
        let here = inside_s * point.mb_s;
        moved += here;
        sum += here * point.latency_us.map_or(0.0, |latency| latency.mean);
    }
    (moved > 0.0).then(|| sum / moved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::result::{IntervalLatency, TimelinePoint};

    /// A run of as many seconds as there are intervals, each with so many MB/s and such a latency.
    fn row(intervals: &[(f64, f64)]) -> Row {
        let mut row = sample::comparison(1).rows.swap_remove(0);
        let point = |(nth, (mb_s, latency_us)): (usize, &(f64, f64))| TimelinePoint {
            t_s: nth as f64,
            mb_s: *mb_s,
            latency_us: (*mb_s > 0.0).then_some(IntervalLatency {
                mean: *latency_us,
                p50: 0.0,
                p99: 0.0,
                p99_9: 0.0,
            }),
            hit_ratio: None,
            write_amplification: None,
            gc_share: 0.0,
            gc_moved_pages: 0,
        };
        row.timeline = intervals.iter().enumerate().map(point).collect();
        row.elapsed_seconds = intervals.len() as f64;
        row
    }

    fn is_about(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-9
    }

    #[test]
    fn a_part_has_the_mean_of_its_intervals_by_what_they_moved() {
        // Fifteen seconds: a tenth is one and a half.
        let mut intervals = [(20.0, 4.0); 15];
        (intervals[0], intervals[1]) = ((30.0, 2.0), (60.0, 8.0));
        let row = row(&intervals);
        let first = latency_us(&row, 1).unwrap();
        assert!(is_about(first, (30.0 * 2.0 + 30.0 * 8.0) / 60.0), "{first}");
        assert!(is_about(latency_us(&row, 10).unwrap(), 4.0));
    }

    #[test]
    fn the_spread_is_that_of_the_parts() {
        let half_and_half: Vec<(f64, f64)> = [[(9.0, 4.0); 15], [(9.0, 8.0); 15]].concat();
        let spread = spread(&row(&half_and_half)).unwrap();
        assert!(is_about(spread, 1.0 / 3.0), "{spread}");
        assert!(is_about(
            super::spread(&row(&[(7.0, 3.0); 25])).unwrap(),
            0.0
        ));
    }

    #[test]
    fn a_part_in_which_nothing_ended_has_no_latency() {
        let mut intervals = [(7.0, 3.0); 10];
        intervals[4] = (0.0, 0.0);
        let row = row(&intervals);
        assert!(latency_us(&row, 5).unwrap_err().contains("nothing ended"));
        assert!(spread(&row).is_err() && latency_us(&row, 6).is_ok());
    }
}
