//! From latencies in nanoseconds to the figures of a report.

use hdrhistogram::{Counter, Histogram};
use serde::{Deserialize, Serialize};

/// Longest latency that is told apart, in nanoseconds: an hour.
pub(super) const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

/// Latencies of requests: how they are distributed, to three digits, and their sum to the nanosecond.
#[derive(Debug, Clone)]
pub struct Latencies {
    histogram_ns: Histogram<u64>,
    sum_ns: u128,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies {
            histogram_ns: Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("fixed bounds"),
            sum_ns: 0,
        }
    }
}

impl Latencies {
    /// Counts a request.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.histogram_ns.saturating_record(latency_ns.max(1));
        self.sum_ns += u128::from(latency_ns);
    }

    /// Adds those of other requests.
    pub fn add(&mut self, others: &Latencies) {
        let added = self.histogram_ns.add(&others.histogram_ns);
        added.expect("histograms of one kind");
        self.sum_ns += others.sum_ns;
    }

    /// Requests counted.
    pub fn count(&self) -> u64 {
        self.histogram_ns.len()
    }

    /// All latencies together.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Their distribution, at least 1 ns each.
    pub fn histogram_ns(&self) -> &Histogram<u64> {
        &self.histogram_ns
    }

    /// Their figures, the mean of their exact sum; `None` if there are none.
    pub fn summary(&self) -> Option<Latency> {
        (self.count() > 0).then(|| Latency {
            mean: self.sum_ns as f64 / self.count() as f64 / 1_000.0,
            ..latency_summary(&self.histogram_ns)
        })
    }
}

/// Mean, percentiles and maximum of a set of latencies, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p99_9: f64,
    /// The 99.99th percentile.
    pub p99_99: f64,
    /// The longest.
    pub max: f64,
}

/// Summarises a histogram of nanoseconds; all figures are 0 when it is empty.
///
/// A percentile is the upper end of the histogram's bucket, so it is too high by at most the
/// histogram's precision and never too low.
pub fn latency_summary(histogram_ns: &Histogram<u64>) -> Latency {
    if histogram_ns.is_empty() {
        return Latency::default();
    }
    let at = |quantile| quantile_us(histogram_ns, quantile);
    Latency {
        // Whole nanoseconds: more digits would be noise.
        mean: us(histogram_ns.mean().round() as u64),
        p50: at(0.5),
        p99: at(0.99),
        p99_9: at(0.999),
        p99_99: at(0.9999),
        max: us(histogram_ns.max()),
    }
}

/// The latency that a share of those in a histogram of nanoseconds does not exceed, in microseconds.
pub(super) fn quantile_us<T: Counter>(histogram_ns: &Histogram<T>, quantile: f64) -> f64 {
    us(histogram_ns
        .value_at_quantile(quantile)
        .min(histogram_ns.max()))
}

/// The shares at which a distribution is sampled, in parts per million: from, to, steps.
///
/// Each nine gets about as many steps as the one before it has room for on a page.
const CDF_STEPS_PPM: [(u64, u64, u64); 6] = [
    (0, 900_000, 72),
    (900_000, 990_000, 30),
    (990_000, 999_000, 30),
    (999_000, 999_900, 30),
    (999_900, 999_990, 15),
    (999_990, 999_999, 9),
];

/// Samples the cumulative distribution of a histogram of nanoseconds: pairs of microseconds and
/// the share of values no longer than that.
///
/// At most 188 points, dense in the tail, rising in both parts; the first is the shortest value,
/// the last is the longest with share 1. Empty for an empty histogram.
pub fn cdf_from_histogram(histogram_ns: &Histogram<u64>) -> Vec<[f64; 2]> {
    let total = histogram_ns.len();
    let mut targets = CDF_STEPS_PPM
        .iter()
        .flat_map(|&(from, to, steps)| (1..=steps).map(move |k| from + (to - from) * k / steps))
        .map(|ppm| (u128::from(total) * u128::from(ppm)).div_ceil(1_000_000) as u64)
        .peekable();

    let mut points = Vec::new();
    let mut count = 0;
    for step in histogram_ns.iter_recorded() {
        count += step.count_since_last_iteration();
        let mut reached = points.is_empty() || count == total;
        while targets.next_if(|&target| target <= count).is_some() {
            reached = true;
        }
        if reached {
            let value_ns = step.value_iterated_to().min(histogram_ns.max());
            points.push([us(value_ns), count as f64 / total as f64]);
        }
    }
    points
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram() -> Histogram<u64> {
        Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds are valid")
    }

    #[test]
    fn the_mean_is_of_the_sum_and_not_of_the_buckets() {
        let (mut some, mut others) = (Latencies::default(), Latencies::default());
        assert_eq!(some.summary(), None);
        for ns in [0, 1_000_001, 1_000_002] {
            some.record(ns);
        }
        others.record(1_000_005);
        some.add(&others);
        assert_eq!((some.count(), some.sum_ns()), (4, 3_000_008));
        let got = some.summary().expect("four");
        assert_eq!(got.mean, 750.002);
        assert!(got.max >= 1_000.005 && got.max < 1_001.1, "{got:?}");
    }

    #[test]
    fn an_empty_histogram_gives_zeros_and_no_points() {
        assert_eq!(latency_summary(&histogram()), Latency::default());
        assert!(cdf_from_histogram(&histogram()).is_empty());
    }

    #[test]
    fn percentiles_are_within_the_precision_of_the_histogram() {
        let mut h = histogram();
        for ns in 1..=100_000u64 {
            h.record(ns * 10).expect("in bounds");
        }
        let got = latency_summary(&h);
        let near = |got: f64, want: f64| got >= want && got <= want * 1.001 + 0.001;
        assert!(near(got.p50, 500.0), "{got:?}");
        assert!(near(got.p99, 990.0), "{got:?}");
        assert!(near(got.p99_9, 999.0), "{got:?}");
        assert!(near(got.p99_99, 999.9), "{got:?}");
        assert!((got.mean - 500.0).abs() < 0.5, "{got:?}");
        assert!(got.p99_99 <= got.max);
    }

    #[test]
    fn one_value_is_one_point() {
        let mut h = histogram();
        h.record_n(1_500, 1_000_000).expect("in bounds");
        assert_eq!(cdf_from_histogram(&h), vec![[1.5, 1.0]]);
        let summary = latency_summary(&h);
        assert_eq!((summary.p50, summary.max), (1.5, 1.5));
    }

    #[test]
    fn a_distribution_has_few_points_dense_in_the_tail_and_rises() {
        let mut h = histogram();
        let mut x = 1u64;
        for _ in 0..500_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Bimodal with a long tail, as a cache over flash is.
            let ns = match x >> 40 & 1023 {
                0..900 => 1_000 + (x >> 50 & 255),
                900..1020 => 60_000 + (x >> 48 & 32_767),
                _ => 1_000_000 + (x >> 44 & 0xf_ffff),
            };
            h.record(ns).expect("in bounds");
        }
        let points = cdf_from_histogram(&h);
        assert!(
            points.len() > 100 && points.len() <= 188,
            "{}",
            points.len()
        );
        assert!(
            points
                .windows(2)
                .all(|w| w[0][0] < w[1][0] && w[0][1] < w[1][1])
        );
        assert_eq!(points.last().expect("not empty")[1], 1.0);
        assert!(points.iter().filter(|p| p[1] > 0.99).count() > 40);
        // Each point is exact: the share is that of the values no longer than the point.
        for [us, share] in points {
            let below = h.count_between(0, (us * 1_000.0).round() as u64) as f64;
            assert_eq!(below / h.len() as f64, share);
        }
    }
}
