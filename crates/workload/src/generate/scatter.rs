//! A fixed permutation of 0..n: hot ranks become scattered blocks, each block exactly once.

/// Scatters numbers below `n`: rounds of multiplication and shift-xor, each invertible modulo a power of
/// two, repeated while the result is not below `n` (cycle walking; fewer than two rounds in the mean).
#[derive(Debug, Clone, Copy)]
pub struct Scatter {
    n: u64,
    mask: u64,
    shift: u32,
    key: u64,
}

impl Scatter {
    /// A permutation of `0..n` chosen by `key`; `n` is at least 1.
    pub fn new(n: u64, key: u64) -> Scatter {
        let bits = n.max(2).next_power_of_two().ilog2();
        let mask = u64::MAX >> (64 - bits);
        Scatter {
            n,
            mask,
            shift: bits.div_ceil(2),
            key,
        }
    }

    /// Where `rank` (below `n`) goes.
    #[inline]
    pub fn place(&self, rank: u64) -> u64 {
        let mut x = rank;
        loop {
            x = (x ^ self.key).wrapping_mul(0x9e37_79b9_7f4a_7c15) & self.mask;
            x ^= x >> self.shift;
            x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9) & self.mask;
            x ^= x >> self.shift;
            x = x.wrapping_mul(0x94d0_49bb_1331_11eb) & self.mask;
            x ^= x >> self.shift;
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_permutation() {
        for n in [1, 2, 3, 5, 64, 65, 1000, 4096, 10_007] {
            let scatter = Scatter::new(n, 77);
            let mut seen = vec![false; n as usize];
            for rank in 0..n {
                let place = scatter.place(rank) as usize;
                assert!(
                    !std::mem::replace(&mut seen[place], true),
                    "{n}: {place} twice"
                );
            }
        }
    }

    #[test]
    fn neighbours_part() {
        let n = 1_000_000;
        let scatter = Scatter::new(n, 3);
        let near = (0..1000).filter(|&r| scatter.place(r).abs_diff(scatter.place(r + 1)) < n / 100);
        assert!(near.count() < 60, "about 2 % of neighbours may stay near");
    }
}
