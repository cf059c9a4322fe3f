//! Zipf-distributed ranks, fast, and the same on every machine.
//!
//! Rank r (from 0) has the weight (r + 1)^−θ. The first 256 ranks are drawn exactly. From there on, each
//! power of two is cut into 64 runs of ranks; a run is drawn by its whole weight, and a rank uniformly
//! within it, so that a single rank's probability is off by less than θ / 128 of itself. That makes at most
//! 3840 outcomes, an alias table that stays in the cache, and two random numbers a sample.
//!
//! Logarithm and power come from the `libm` crate, plain Rust over IEEE 754 basic operations, and not from
//! the system's libm; their results enter an integer table when the generator is built. No floating point
//! is used per sample.

use super::alias::AliasTable;
use super::rng::SeededRng;

const EXACT: u64 = 256;
const RUNS_PER_OCTAVE: u64 = 64;

/// Draws ranks below `n`.
#[derive(Debug, Clone)]
pub struct Zipf {
    table: AliasTable,
    /// First rank and number of ranks of each outcome.
    runs: Box<[(u64, u64)]>,
}

impl Zipf {
    /// `n`: number of ranks, at least 1. `theta`: 0 is uniform, 0.99 the habit of benchmarks; up to 8.
    ///
    /// # Panics
    /// If `n` is 0 or `theta` out of range.
    pub fn new(n: u64, theta: f64) -> Zipf {
        assert!(
            n > 0 && (0.0..=8.0).contains(&theta),
            "zipf over {n} ranks with theta {theta}"
        );
        let mut runs: Vec<(u64, u64)> = (0..n.min(EXACT)).map(|rank| (rank, 1)).collect();
        let mut first = EXACT;
        while first < n {
            let octave = 1u64 << first.ilog2();
            let length = (octave / RUNS_PER_OCTAVE).min(n - first);
            runs.push((first, length));
            first += length;
        }
        let weights: Vec<f64> = runs
            .iter()
            .map(|&(first, length)| run_weight(first, length, theta))
            .collect();
        let total: f64 = weights.iter().sum();
        let unit = (1u64 << 62) as f64 / total;
        let weights: Vec<u64> = weights
            .iter()
            .map(|weight| (weight * unit) as u64)
            .collect();
        Zipf {
            table: AliasTable::new(&weights),
            runs: runs.into_boxed_slice(),
        }
    }

    /// Draws a rank.
    #[inline]
    pub fn draw(&self, rng: &mut SeededRng) -> u64 {
        let (first, length) = self.runs[self.table.draw(rng)];
        if length == 1 {
            first
        } else {
            first + rng.below(length)
        }
    }
}

/// Sum of k^−θ over the ranks of a run (k = rank + 1): exact for one rank, else the integral with each k at
/// the middle of its unit, which is off by less than 10^−6 of itself from rank 256 on.
fn run_weight(first: u64, length: u64, theta: f64) -> f64 {
    let k = first as f64 + 1.0;
    if length == 1 {
        return libm::pow(k, -theta);
    }
    let (from, to) = (k - 0.5, k - 0.5 + length as f64);
    if (theta - 1.0).abs() < 1e-9 {
        libm::log(to / from)
    } else {
        (libm::pow(to, 1.0 - theta) - libm::pow(from, 1.0 - theta)) / (1.0 - theta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_by_their_weights() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.4] {
            let n = 5000u64;
            let zipf = Zipf::new(n, theta);
            let mut rng = SeededRng::child(11, "zipf");
            let mut counts = vec![0u64; n as usize];
            let draws = 2_000_000u64;
            for _ in 0..draws {
                counts[zipf.draw(&mut rng) as usize] += 1;
            }
            let total: f64 = (1..=n).map(|k| (k as f64).powf(-theta)).sum();
            // Compare the sums over widening bands of ranks.
            for (from, to) in [
                (0, 1),
                (1, 10),
                (10, 100),
                (100, 300),
                (300, 1000),
                (1000, n),
            ] {
                let share: f64 = (from..to)
                    .map(|r| ((r + 1) as f64).powf(-theta))
                    .sum::<f64>()
                    / total;
                let expected = share * draws as f64;
                let got = counts[from as usize..to as usize].iter().sum::<u64>() as f64;
                assert!(
                    (got - expected).abs() < 5.0 * expected.sqrt() + 1.0,
                    "theta {theta}, ranks {from}..{to}: {got} for {expected}"
                );
            }
        }
    }

    #[test]
    fn every_size_of_n_draws_in_range_and_reaches_its_end() {
        let mut rng = SeededRng::child(2, "zipf");
        for n in [1, 2, 255, 256, 257, 300, 1023, 100_003, 1 << 40] {
            let zipf = Zipf::new(n, 0.9);
            assert!((0..2000).all(|_| zipf.draw(&mut rng) < n));
            let (first, length) = zipf.runs[zipf.runs.len() - 1];
            assert_eq!(first + length, n);
            assert!(zipf.runs.len() <= 3840);
        }
    }
}
