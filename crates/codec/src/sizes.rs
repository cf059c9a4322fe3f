//! Sizes of stamps, drawn from a table.

use crate::{PAGE_BYTES, Table};

/// What stamps compress to: a pure function of the stamp, so that a page has one size at every
/// look, through collection, power cuts and recovery, without anything being remembered.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    /// Bytes of a page by quantile: of [`STEPS`] equal shares of all pages, where each begins.
    quantiles: Vec<u16>,
    /// How many times smaller a chunk of many pages is than these on their own.
    chunk_gain: f64,
    seed: u64,
}

/// Shares into which a table is cut.
const STEPS: usize = 4096;

impl Sizes {
    /// Sizes as in `table`; the seed decides which stamp has which.
    pub fn new(table: &Table, seed: u64) -> Sizes {
        let quantiles = (0..STEPS).map(|step| {
            let bytes = table.quantile((step as f64 + 0.5) / STEPS as f64);
            bytes.clamp(1, PAGE_BYTES) as u16
        });
        Sizes {
            quantiles: quantiles.collect(),
            chunk_gain: table.chunk_gain(),
            seed,
        }
    }

    /// Bytes of a page with this stamp after compression: 0 of the page of zeros, whose stamp is
    /// 0, and [`PAGE_BYTES`] of one that does not compress.
    #[inline]
    pub fn page_bytes(&self, stamp: u64) -> u32 {
        if stamp == 0 {
            return 0;
        }
        let mut hash = stamp ^ self.seed;
        // SplitMix64's finish: stamps that follow each other have unlike sizes.
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        u32::from(self.quantiles[(hash % STEPS as u64) as usize])
    }

    /// Bytes of a chunk of pages with these stamps, at most those that the pages have together;
    /// at least 1 if there is a page that is not zeros.
    pub fn chunk_bytes(&self, stamps: impl IntoIterator<Item = u64>) -> u32 {
        let mut pages = 0;
        let mut bytes = 0;
        for stamp in stamps {
            pages += 1;
            bytes += self.page_bytes(stamp);
        }
        let smaller = (f64::from(bytes) / self.chunk_gain).ceil() as u32;
        smaller.min(pages * PAGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableName;

    fn sizes(name: &str, seed: u64) -> Sizes {
        let table = name.parse::<TableName>().unwrap().load().unwrap();
        Sizes::new(&table, seed)
    }

    #[test]
    fn sizes_are_distributed_as_the_table_says() {
        let table = "system".parse::<TableName>().unwrap().load().unwrap();
        let sizes = Sizes::new(&table, 3);
        let stamps = 1..=200_000u64;
        let sum: u64 = stamps
            .clone()
            .map(|s| u64::from(sizes.page_bytes(s << 32)))
            .sum();
        let mean = sum as f64 / 200_000.0;
        assert!((mean / table.mean_bytes() - 1.0).abs() < 0.01, "{mean}");
        let raw = stamps
            .filter(|s| sizes.page_bytes(s << 32) == PAGE_BYTES)
            .count();
        let share = raw as f64 / 200_000.0;
        assert!((share - table.raw_share()).abs() < 0.01, "{share}");
    }

    #[test]
    fn a_stamp_has_one_size_and_seeds_differ() {
        let (one, same, other) = (sizes("system", 1), sizes("system", 1), sizes("system", 2));
        let stamps = || (1..1000u64).map(|s| s << 32 | 1);
        assert!(stamps().all(|s| one.page_bytes(s) == same.page_bytes(s)));
        assert!(stamps().any(|s| one.page_bytes(s) != other.page_bytes(s)));
        assert_eq!(one.page_bytes(0), 0);
    }

    #[test]
    fn a_ratio_is_what_pages_have_on_average() {
        let sizes = sizes("ratio=2.0,spread=0.5", 9);
        let of = |s: u64| f64::from(sizes.page_bytes(s));
        let mean = (1..=100_000u64).map(of).sum::<f64>() / 100_000.0;
        assert!((mean - 2048.0).abs() < 20.0, "{mean}");
        // To the bucket of 64 bytes.
        assert!((1..=100_000u64).all(|s| (960.0..=3136.0).contains(&of(s))));
    }

    #[test]
    fn chunks_are_never_larger_than_their_pages() {
        let incompressible = sizes("ratio=1.0", 1);
        assert_eq!(incompressible.chunk_bytes([5, 6, 0, 7]), 3 * PAGE_BYTES);
        assert_eq!(incompressible.chunk_bytes([0, 0]), 0);
    }
}
