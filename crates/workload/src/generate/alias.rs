//! Walker's alias method in integers: draws one of n outcomes by given weights, in constant time
//! and one random number.

use super::rng::SeededRng;

/// An alias table. Built from integers by integer steps, it is the same on every machine.
#[derive(Debug, Clone)]
pub struct AliasTable {
    /// Threshold on 32 random bits for keeping the column, and the outcome else.
    columns: Box<[(u32, u32)]>,
}

impl AliasTable {
    /// A table of outcomes `0..weights.len()`. The weights are rounded to 2^-32 of a column each.
    ///
    /// # Panics
    /// If there are no weights, more than 2^24, or all are 0.
    pub fn new(weights: &[u64]) -> AliasTable {
        let n = weights.len();
        let total: u128 = weights.iter().map(|&w| u128::from(w)).sum();
        assert!(
            n > 0 && n <= 1 << 24 && total > 0,
            "weights that can be drawn from"
        );
        // Each weight in units of which one column holds 2^32.
        let one = 1u64 << 32;
        let mut share: Vec<u64> = weights
            .iter()
            .map(|&w| (u128::from(w) * n as u128 * u128::from(one) / total) as u64)
            .collect();
        // What rounding down lost goes to the largest.
        let lost = n as u64 * one - share.iter().sum::<u64>();
        let largest = (0..n).max_by_key(|&i| weights[i]).unwrap_or(0);
        share[largest] += lost;
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..n).partition(|&i| share[i] < one);
        let mut columns: Vec<(u32, u32)> = (0..n as u32).map(|i| (u32::MAX, i)).collect();
        while let (Some(&giver), Some(taker)) = (large.last(), small.pop()) {
            columns[taker] = (share[taker] as u32, giver as u32);
            share[giver] -= one - share[taker];
            if share[giver] < one {
                large.pop();
                small.push(giver);
            }
        }
        AliasTable {
            columns: columns.into_boxed_slice(),
        }
    }

    /// Draws an outcome.
    #[inline]
    pub fn draw(&self, rng: &mut SeededRng) -> usize {
        let bits = rng.bits();
        // High half: the column. Low half: keep it or take its alias.
        let column = (((bits >> 32) * self.columns.len() as u64) >> 32) as usize;
        let (keep, alias) = self.columns[column];
        if (bits as u32) < keep {
            column
        } else {
            alias as usize
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_by_their_weights() {
        let weights = [1, 0, 5, 94, 900];
        let table = AliasTable::new(&weights);
        let mut rng = SeededRng::child(5, "alias");
        let mut counts = [0u64; 5];
        for _ in 0..1_000_000 {
            counts[table.draw(&mut rng)] += 1;
        }
        for (count, weight) in counts.iter().zip(weights) {
            let expected = weight * 1000;
            let spread = 5.0 * (expected as f64).sqrt() + 1.0;
            assert!(count.abs_diff(expected) as f64 <= spread, "{counts:?}");
        }
    }

    #[test]
    fn a_single_outcome_is_always_drawn() {
        let table = AliasTable::new(&[3]);
        let mut rng = SeededRng::child(5, "alias");
        assert!((0..100).all(|_| table.draw(&mut rng) == 0));
    }
}
