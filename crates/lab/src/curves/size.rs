//! How the sizes of caches are written.

use std::str::FromStr;

use super::PAGE;
use crate::config::{parse_bytes, parse_count, parse_percent};

/// A size of a cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// A share of the pages that are used.
    Share(f64),
    /// So many pages.
    Pages(u64),
}

/// A size that has no meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no size of a cache: give a share of the pages that are used (5%, 0.05), pages (20000), or bytes with a unit (64MiB)"
)]
pub struct SizeError(String);

impl Size {
    /// What is taken if nothing is said.
    pub const DEFAULT: &'static str = "0.1%,0.2%,0.5%,1%,2%,5%,10%,20%,40%,60%,80%";

    /// How many pages that is, of so many that are used: one at least.
    pub fn pages(self, distinct: u64) -> u64 {
        match self {
            Size::Share(share) => ((distinct as f64 * share) as u64).max(1),
            Size::Pages(pages) => pages,
        }
    }
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Size, SizeError> {
        let wrong = || SizeError(text.to_string());
        let has_unit = text.contains(|c: char| c.is_alphabetic());
        if text.ends_with('%') || (text.contains('.') && !has_unit) {
            let percent = parse_percent(text).map_err(|_| wrong())?;
            return Ok(Size::Share(percent / 100.0));
        }
        let pages = match has_unit {
            true => parse_bytes(text).map(|bytes| bytes / PAGE),
            false => parse_count(text),
        };
        let pages = pages.map_err(|_| wrong())?;
        match pages {
            0 => Err(wrong()),
            pages => Ok(Size::Pages(pages)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shares_pages_or_bytes() {
        let size = |text: &str| text.parse::<Size>();
        assert_eq!(size("5%"), Ok(Size::Share(0.05)));
        assert_eq!(size("0.1 %").unwrap().pages(26_000), 26);
        assert_eq!(size("0.1%").unwrap().pages(10), 1);
        assert_eq!(size("0.05"), Ok(Size::Share(0.05)));
        assert_eq!(size("20000"), Ok(Size::Pages(20_000)));
        assert_eq!(size("20_000"), Ok(Size::Pages(20_000)));
        assert_eq!(size("64MiB"), Ok(Size::Pages(16_384)));
        for wrong in ["", "0", "0%", "101%", "-1%", "nan%", "1KiB", "x", "5%%"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        for known in Size::DEFAULT.split(',') {
            assert!(size(known).is_ok());
        }
    }
}
