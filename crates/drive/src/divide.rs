//! Division by numbers that are powers of two in nearly every configuration.
//!
//! A division takes ten times as long as a shift, and every page passes several: by the pages of a
//! block, the blocks of a plane, the pages of a stripe, the cores.

/// `n / by`.
#[inline(always)]
pub(crate) fn quotient(n: u64, by: u32) -> u64 {
    if by.is_power_of_two() {
        n >> by.trailing_zeros()
    } else {
        n / u64::from(by)
    }
}

/// `n % by`.
#[inline(always)]
pub(crate) fn remainder(n: u64, by: u32) -> u64 {
    if by.is_power_of_two() {
        n & u64::from(by - 1)
    } else {
        n % u64::from(by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_what_the_operators_give() {
        for by in [1, 2, 3, 7, 8, 100, 512, 1 << 31, u32::MAX] {
            for n in [
                0,
                1,
                2,
                99,
                512,
                513,
                u64::from(u32::MAX),
                1 << 40,
                u64::MAX,
            ] {
                assert_eq!(quotient(n, by), n / u64::from(by));
                assert_eq!(remainder(n, by), n % u64::from(by));
            }
        }
    }
}
