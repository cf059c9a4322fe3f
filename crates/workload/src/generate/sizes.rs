//! Request sizes: one, or several by weight.

use std::str::FromStr;

use super::alias::AliasTable;
use super::rng::SeededRng;
use crate::error::WorkloadError;
use crate::request::{REQUEST_BYTES_MAX, SECTOR_BYTES};

/// A distribution of request sizes.
#[derive(Debug, Clone)]
pub struct Sizes {
    sizes: Box<[u32]>,
    weights: Box<[u64]>,
    /// None if there is one size only.
    table: Option<AliasTable>,
}

fn bad(reason: String) -> WorkloadError {
    WorkloadError::BadParameter {
        parameter: "request size",
        reason,
    }
}

impl Sizes {
    /// Sizes in bytes with their weights.
    ///
    /// # Errors
    /// No size, one that is 0, over 1 GiB or not a multiple of 512, or no weight above 0.
    pub fn new(sizes: &[(u32, u64)]) -> Result<Sizes, WorkloadError> {
        for &(bytes, _) in sizes {
            if bytes == 0 || u64::from(bytes) > REQUEST_BYTES_MAX {
                return Err(bad(format!(
                    "{bytes} bytes is not between 512 bytes and 1 GiB"
                )));
            }
            if !u64::from(bytes).is_multiple_of(SECTOR_BYTES) {
                return Err(bad(format!("{bytes} bytes is not a multiple of 512")));
            }
        }
        let weights: Box<[u64]> = sizes.iter().map(|size| size.1).collect();
        let total: u128 = weights.iter().map(|&w| u128::from(w)).sum();
        if total == 0 || total > u128::from(u64::MAX) || sizes.len() > 1 << 16 {
            return Err(bad(
                "give one size, or size:weight,size:weight with weights above 0".into(),
            ));
        }
        let table = (sizes.len() > 1).then(|| AliasTable::new(&weights));
        Ok(Sizes {
            sizes: sizes.iter().map(|size| size.0).collect(),
            weights,
            table,
        })
    }

    /// One size in bytes.
    ///
    /// # Errors
    /// As [`Sizes::new`].
    pub fn fixed(bytes: u32) -> Result<Sizes, WorkloadError> {
        Sizes::new(&[(bytes, 1)])
    }

    /// Draws a size in bytes.
    #[inline]
    pub fn draw(&self, rng: &mut SeededRng) -> u32 {
        match &self.table {
            None => self.sizes[0],
            Some(table) => self.sizes[table.draw(rng)],
        }
    }

    /// Mean size in bytes.
    pub fn mean_bytes(&self) -> f64 {
        let total: f64 = self.weights.iter().map(|&w| w as f64).sum();
        let sum: f64 = self
            .sizes
            .iter()
            .zip(&self.weights)
            .map(|(&s, &w)| f64::from(s) * w as f64)
            .sum();
        sum / total
    }

    /// Largest size in bytes.
    pub fn bytes_max(&self) -> u32 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// The largest power of two, at most 4 KiB, that divides every size: what offsets are aligned to.
    /// With a single size it is that size.
    pub fn alignment_bytes(&self) -> u64 {
        if let [size] = self.sizes[..] {
            return u64::from(size);
        }
        let common = self.sizes.iter().fold(4096, |bits, size| bits | size);
        1 << common.trailing_zeros()
    }
}

impl FromStr for Sizes {
    type Err = WorkloadError;

    /// `4096`, `4k`, or `4k:70,64k:30`.
    fn from_str(text: &str) -> Result<Sizes, WorkloadError> {
        let mut sizes = Vec::new();
        for part in text.split(',') {
            let (size, weight) = part.split_once(':').unwrap_or((part, "1"));
            let weight = weight
                .trim()
                .parse()
                .map_err(|_| bad(format!("the weight \"{weight}\" is not a whole number")))?;
            sizes.push((parse_bytes(size.trim())?, weight));
        }
        Sizes::new(&sizes)
    }
}

fn parse_bytes(text: &str) -> Result<u32, WorkloadError> {
    let lower = text.to_ascii_lowercase();
    let number = lower.trim_end_matches("ib").trim_end_matches('b');
    let (digits, unit) = match number.as_bytes().last() {
        Some(b'k') => (&number[..number.len() - 1], 1u64 << 10),
        Some(b'm') => (&number[..number.len() - 1], 1 << 20),
        _ => (number, 1),
    };
    digits
        .trim()
        .parse::<u64>()
        .ok()
        .and_then(|value| value.checked_mul(unit))
        .and_then(|bytes| u32::try_from(bytes).ok())
        .ok_or_else(|| {
            bad(format!(
                "\"{text}\" is no size; write for example 4k or 4096"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_and_draw() {
        let sizes: Sizes = "4k:3,64KiB:1".parse().unwrap();
        assert_eq!(sizes.mean_bytes(), (3.0 * 4096.0 + 65536.0) / 4.0);
        assert_eq!((sizes.alignment_bytes(), sizes.bytes_max()), (4096, 65536));
        let mut rng = SeededRng::child(1, "sizes");
        let small = (0..40_000).filter(|_| sizes.draw(&mut rng) == 4096).count();
        assert!((29_500..30_500).contains(&small), "{small}");
        assert_eq!("512,4096".parse::<Sizes>().unwrap().alignment_bytes(), 512);
        assert_eq!("12288".parse::<Sizes>().unwrap().alignment_bytes(), 12_288);
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for text in [
            "", "0", "100", "4k:x", "4k:0", "9999999m", "-4096", "4k,,8k",
        ] {
            let error = text.parse::<Sizes>().unwrap_err().to_string();
            assert!(
                error.starts_with("workload parameter request size"),
                "{error}"
            );
        }
    }
}
