//! Randomness of the generators: xoshiro256++ by name, seeded from a `u64`; each part of a
//! generator has a child of its own by name, so that one part's draws never shift another's.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A deterministic random number generator; the same numbers on every machine.
#[derive(Debug, Clone)]
pub struct SeededRng(Xoshiro256PlusPlus);

impl SeededRng {
    /// The child `name` of the generator with this seed.
    pub fn child(seed: u64, name: &str) -> SeededRng {
        SeededRng(Xoshiro256PlusPlus::seed_from_u64(seed ^ fnv1a(name)))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, which is not 0: the high half of a product, off from uniform by less
    /// than `bound` / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// True with the probability `threshold` / 2^64 (see [`probability`]).
    #[inline]
    pub fn chance(&mut self, threshold: u64) -> bool {
        self.bits() < threshold
    }
}

/// A probability from 0 to 1 as a threshold for [`SeededRng::chance`]. 1 becomes 1 − 2^−64.
pub fn probability(p: f64) -> u64 {
    // Multiplying by a power of two is exact, and the cast saturates.
    (p * 18_446_744_073_709_551_616.0) as u64
}

/// FNV-1a, 64 bits.
fn fnv1a(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_fixed_for_ever() {
        let mut rng = SeededRng::child(1, "offsets");
        assert_eq!([rng.bits(), rng.bits()], RNG_GOLDEN);
        assert_ne!(SeededRng::child(1, "ops").bits(), RNG_GOLDEN[0]);
    }

    const RNG_GOLDEN: [u64; 2] = [1_532_809_765_626_931_744, 13_366_247_502_962_100_756];

    #[test]
    fn chances_come_out() {
        let mut rng = SeededRng::child(3, "test");
        let hits = (0..100_000)
            .filter(|_| rng.chance(probability(0.3)))
            .count();
        assert!((29_500..30_500).contains(&hits), "{hits}");
        assert!(!rng.chance(probability(0.0)));
        assert!((0..1000).all(|_| rng.below(7) < 7));
    }
}
