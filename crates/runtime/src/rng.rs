//! One seed at the root; each part has its own child generator by name.
//!
//! The generator is Xoshiro256++ by name, so that a seed means the same numbers in every version.

#[cfg(feature = "random")]
use rand_xoshiro::Xoshiro256PlusPlus;
#[cfg(feature = "random")]
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// A seed from which named child seeds are derived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// The seed of the part called `name`: equal names give equal seeds.
    pub fn child(self, name: &str) -> Seed {
        // FNV-1a over the name, then one SplitMix64 step to spread the bits.
        let mut hash = 0xcbf2_9ce4_8422_2325u64 ^ self.0;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Seed(split_mix(hash))
    }

    /// The seed of the `index`-th of several equal parts.
    pub fn index(self, index: u64) -> Seed {
        Seed(split_mix(self.0 ^ split_mix(index.wrapping_add(1))))
    }

    /// The generator of this seed.
    #[cfg(feature = "random")]
    pub fn rng(self) -> Rng {
        Rng(Xoshiro256PlusPlus::seed_from_u64(self.0))
    }
}

fn split_mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A seeded generator (Xoshiro256++).
#[cfg(feature = "random")]
#[derive(Debug, Clone)]
pub struct Rng(Xoshiro256PlusPlus);

#[cfg(feature = "random")]
impl Rng {
    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// 32 random bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        (self.0.next_u64() >> 32) as u32
    }

    /// A number below `bound` (Lemire's multiplication; its bias, below `bound / 2^64`, is of no
    /// consequence here).
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True in `numerator` of `denominator` cases.
    #[inline]
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_give_equal_streams_and_other_names_others() {
        let draw = |seed: Seed| {
            (0..8)
                .map(|_| 0)
                .scan(seed.rng(), |r, _| Some(r.next_u64()))
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(Seed(7).child("gc")), draw(Seed(7).child("gc")));
        assert_ne!(draw(Seed(7).child("gc")), draw(Seed(7).child("ties")));
        assert_ne!(draw(Seed(7).child("gc")), draw(Seed(8).child("gc")));
        assert_ne!(draw(Seed(7).index(0)), draw(Seed(7).index(1)));
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut rng = Seed(1).rng();
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[rng.below(10) as usize] = true;
        }
        assert!(seen.iter().all(|s| *s));
    }
}
