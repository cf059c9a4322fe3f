//! Distinct pages touched, counted exactly: a hash of bitmaps, each of 512 pages (2 MiB).

use rustc_hash::FxHashMap;

const PAGES: u64 = 512;

/// A set of pages, of any number of streams.
#[derive(Default)]
pub struct Footprint {
    index: FxHashMap<(u32, u64), usize>,
    bits: Vec<[u64; 8]>,
    last: Option<((u32, u64), usize)>,
    unique: u64,
}

impl Footprint {
    /// Adds a run of pages of one stream; returns how many were new.
    pub fn insert(&mut self, stream: u32, pages: std::ops::Range<u64>) -> u64 {
        let before = self.unique;
        for page in pages {
            let bits = self.chunk((stream, page / PAGES));
            let (word, bit) = (page % PAGES / 64, 1 << (page % 64));
            let is_new = bits[word as usize] & bit == 0;
            bits[word as usize] |= bit;
            self.unique += u64::from(is_new);
        }
        self.unique - before
    }

    fn chunk(&mut self, key: (u32, u64)) -> &mut [u64; 8] {
        let at = match self.last {
            Some((last, at)) if last == key => at,
            _ => {
                let next = self.bits.len();
                let at = *self.index.entry(key).or_insert(next);
                if at == next {
                    self.bits.push([0; 8]);
                }
                self.last = Some((key, at));
                at
            }
        };
        &mut self.bits[at]
    }

    /// Number of distinct pages.
    pub fn unique_pages(&self) -> u64 {
        self.unique
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_as_a_plain_set_does() {
        let mut set = std::collections::BTreeSet::new();
        let mut footprint = Footprint::default();
        let mut x = 1u64;
        for _ in 0..2000 {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let (stream, first, count) = ((x >> 60) as u32, x >> 40 & 0xfff, x >> 20 & 0x3f);
            let new = (first..first + count)
                .filter(|&page| set.insert((stream, page)))
                .count();
            assert_eq!(footprint.insert(stream, first..first + count), new as u64);
        }
        assert_eq!(footprint.unique_pages(), set.len() as u64);
    }
}
