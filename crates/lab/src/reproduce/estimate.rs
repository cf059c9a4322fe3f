//! What several seeds say of one figure: its mean, and how far that mean may be off.
//!
//! Equal set-ups with other seeds are independent samples of a figure. The mean of `n` of them is off by
//! more than `t · s / √n` in one case of twenty, where `s` is their standard deviation and `t` the quantile of
//! Student's distribution for `n - 1` degrees of freedom. Claims are judged by that interval: what lies within
//! the noise of the seeds is not called a result.

use serde::Serialize;

use crate::result::Spread;

/// Quantiles 0.975 of Student's distribution for 1, 2, … degrees of freedom (any table of it).
const STUDENT_975: [f64; 15] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131,
];

/// The quantile for more degrees of freedom than the table has: that of the normal distribution.
const NORMAL_975: f64 = 1.960;

/// A figure over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean over the seeds.
    pub mean: f64,
    /// The lower end of the mean's 95 % confidence interval; the mean itself with one seed.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Number of seeds.
    pub seeds: u32,
}

impl Estimate {
    /// The estimate from one value for each seed.
    ///
    /// # Panics
    /// Without values.
    pub fn of(values: &[f64]) -> Estimate {
        let Spread {
            mean, deviation, ..
        } = Spread::of(values);
        // With one value the deviation is 0, whatever the quantile.
        let freedom = values.len().saturating_sub(2);
        let quantile = STUDENT_975.get(freedom).copied().unwrap_or(NORMAL_975);
        let half = quantile * deviation / (values.len() as f64).sqrt();
        Estimate {
            mean,
            low: mean - half,
            high: mean + half,
            seeds: values.len() as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_a_textbook_example() {
        // Five samples with mean 10 and standard deviation √2.5: 2.776 · 1.5811 / √5 = 1.963.
        let found = Estimate::of(&[8.0, 9.0, 10.0, 11.0, 12.0]);
        assert_eq!((found.mean, found.seeds), (10.0, 5));
        assert!((found.high - 11.963).abs() < 0.001, "{found:?}");
        assert!((found.low - 8.037).abs() < 0.001, "{found:?}");
        assert!((found.low..=found.high).contains(&8.1));
        assert!(!(found.low..=found.high).contains(&8.0));
    }

    #[test]
    fn one_seed_knows_no_noise() {
        let found = Estimate::of(&[3.0]);
        assert_eq!((found.low, found.mean, found.high), (3.0, 3.0, 3.0));
    }
}
