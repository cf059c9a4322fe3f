//! The one grammar of quantities, for options, `--set` and files: counts (`200_000`, `1.5M`), sizes (`4GiB`), shares (`0.7`, `70%`) and
//! times (`30us`, `10s`).
//!
//! Digits may be grouped by `_`; a unit may stand apart and in any case. Everything is exact: what does not come to a whole number of
//! things, bytes or nanoseconds is refused.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text that is not the quantity it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a size.
    #[error(
        "'{0}' is not a size: write a whole number of bytes, or one such as 64KiB, 1.5GiB, 4g (GB and the like are powers of 1000)"
    )]
    Size(String),
    /// Not a count.
    #[error(
        "'{0}' is not a count: write a whole number, or one such as 1_000, 200k, 1.5M (powers of 1000)"
    )]
    Count(String),
    /// Not a share of a whole, which may be none of it.
    #[error("'{0}' is not a share: write a number from 0 to 1 such as 0.7, or 70%")]
    Fraction(String),
    /// Not a share.
    #[error("'{0}' is not a share: write one above 0% and up to 100%, such as 18.75%")]
    Share(String),
    /// Neither a share nor a size.
    #[error(
        "'{0}' is neither a share nor a size: write one such as 18.75% (above 0%, up to 100%), or 4GiB"
    )]
    ShareOrSize(String),
    /// Not a time.
    #[error(
        "'{0}' is not a time: write a number with its unit (ns, us, ms, s, min, h), such as 18us"
    )]
    Time(String),
}

const COUNTS: &[(&str, u64)] = &[
    ("", 1),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("t", 1_000_000_000_000),
];

const SIZES: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("ki", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mi", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gi", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("ti", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
    ("p", 1 << 50),
    ("pi", 1 << 50),
    ("pib", 1 << 50),
    ("pb", 1_000_000_000_000_000),
];

const TIMES: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a whole number of things: `k`, `M`, `G` and `T` are powers of 1000.
pub fn parse_count(text: &str) -> Result<u64, UnitError> {
    scaled(text, COUNTS).ok_or_else(|| UnitError::Count(text.into()))
}

/// Reads a share from 0 to 1, which `70%` is too.
pub fn parse_share(text: &str) -> Result<f64, UnitError> {
    let share = match text.trim_end().ends_with('%') {
        true => percent(text).map(|percent| percent / 100.0),
        false => decimal(text),
    };
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| UnitError::Fraction(text.into()))
}

/// Reads a size in bytes. Without a unit it is bytes; `K`, `Ki`, `KiB` and so on are powers of 1024,
/// `KB` and so on powers of 1000; upper and lower case are the same.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    scaled(text, SIZES).ok_or_else(|| UnitError::Size(text.into()))
}

/// Reads a time in nanoseconds. A unit is needed, except for 0.
pub fn parse_duration_ns(text: &str) -> Result<u64, UnitError> {
    match text.trim() {
        "0" => Ok(0),
        trimmed => scaled(trimmed, TIMES).ok_or_else(|| UnitError::Time(text.into())),
    }
}

/// Reads a share above 0, such as `18.75%` or `0.1875`, as a number of percent up to 100.
pub fn parse_percent(text: &str) -> Result<f64, UnitError> {
    percent(text)
        .or_else(|| decimal(text).map(|share| share * 100.0))
        .filter(|percent| *percent > 0.0 && *percent <= 100.0)
        .ok_or_else(|| UnitError::Share(text.into()))
}

/// Reads a share (`18.75%`, `0.1875`) or a size (`4GiB`). A number without a unit is a share if it has a decimal point.
pub fn parse_share_or_bytes(text: &str) -> Result<ShareOrBytes, UnitError> {
    if text.trim_end().ends_with('%') || (text.contains('.') && decimal(text).is_some()) {
        return parse_percent(text).map(ShareOrBytes::Percent);
    }
    scaled(text, SIZES)
        .map(ShareOrBytes::Bytes)
        .ok_or_else(|| UnitError::ShareOrSize(text.into()))
}

/// The number before a `%`, of any value but negative ones.
pub(super) fn percent(text: &str) -> Option<f64> {
    decimal(text.trim().strip_suffix('%')?)
}

/// A number without a sign, an exponent or a name such as `inf`.
fn decimal(text: &str) -> Option<f64> {
    let number = text.trim().replace('_', "");
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    number.parse().ok().filter(|_| plain)
}

/// A share of something, or a size of its own. Written and read as text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ShareOrBytes {
    /// Percent of a whole that is known later.
    Percent(f64),
    /// Bytes.
    Bytes(u64),
}

impl ShareOrBytes {
    /// The bytes that this is of a whole of `whole_bytes`, rounded down.
    pub fn of(self, whole_bytes: u64) -> u64 {
        match self {
            ShareOrBytes::Percent(percent) => (whole_bytes as f64 * (percent / 100.0)) as u64,
            ShareOrBytes::Bytes(bytes) => bytes,
        }
    }
}

impl fmt::Display for ShareOrBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShareOrBytes::Percent(percent) => write!(f, "{percent}%"),
            ShareOrBytes::Bytes(bytes) => write!(f, "{bytes}"),
        }
    }
}

impl FromStr for ShareOrBytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_share_or_bytes(text)
    }
}

impl Serialize for ShareOrBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ShareOrBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A decimal number times its unit, if both are known and the product is whole.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
        .unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start().to_lowercase());
    let factor = units.iter().find(|(name, _)| **name == unit)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let starts = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    if !starts(whole) || !starts(fraction) || fraction.contains('.') {
        return None;
    }
    let digits = format!("{whole}{fraction}").replace('_', "");
    let decimals = fraction.bytes().filter(u8::is_ascii_digit).count() as u32;
    let scale = 10u128.checked_pow(decimals)?;
    let product = digits
        .parse::<u128>()
        .ok()?
        .checked_mul(u128::from(factor))?;
    let exact = product.is_multiple_of(scale);
    u64::try_from(product / scale).ok().filter(|_| exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("65_536", 65_536),
            ("64KiB", 65_536),
            ("64 kib", 65_536),
            ("4Ki", 4096),
            ("1_0.5 Mi", 21 << 19),
            ("100PiB", 100 << 50),
            ("4g", 4 << 30),
            ("4GiB", 4 << 30),
            ("4GB", 4_000_000_000),
            ("1.5M", 3 << 19),
            ("2t", 2 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "KiB",
            "-1",
            "1.",
            ".5k",
            "1..5k",
            "1.5",
            "4x",
            "4GiBs",
            "16777216t",
            "16384p",
            "_",
            "1e3",
            "18446744073709551616",
            "0.1k",
            "4 096",
        ] {
            assert_eq!(parse_bytes(text), Err(UnitError::Size(text.into())));
        }
    }

    #[test]
    fn counts() {
        for (text, count) in [
            ("0", 0),
            ("1_000", 1_000),
            ("1k", 1_000),
            ("1.5 M", 1_500_000),
            ("2g", 2_000_000_000),
        ] {
            assert_eq!(parse_count(text), Ok(count), "{text}");
        }
        for text in [
            "",
            "-5",
            "+5",
            "1.5",
            "1KiB",
            "1e3",
            "k",
            "0x10",
            "99999999t",
        ] {
            assert_eq!(parse_count(text), Err(UnitError::Count(text.into())));
        }
    }

    #[test]
    fn times() {
        for (text, ns) in [
            ("0", 0),
            ("900ns", 900),
            ("18us", 18_000),
            ("18 µs", 18_000),
            ("3.5ms", 3_500_000),
            ("30s", 30_000_000_000),
            ("2min", 120_000_000_000),
            ("2m", 120_000_000_000),
            ("1.5h", 5_400_000_000_000),
        ] {
            assert_eq!(parse_duration_ns(text), Ok(ns), "{text}");
        }
        for text in ["5", "", "us", "1.5ns", "-3us", "3 hours", "600000000000s"] {
            assert_eq!(parse_duration_ns(text), Err(UnitError::Time(text.into())));
        }
    }

    #[test]
    fn shares() {
        let share = parse_share_or_bytes("18.75%").unwrap();
        assert_eq!(share, ShareOrBytes::Percent(18.75));
        assert_eq!(share.of(64 << 30), 12 << 30);
        assert_eq!(share.to_string(), "18.75%");
        assert_eq!("7%".parse::<ShareOrBytes>().unwrap().to_string(), "7%");
        let size = parse_share_or_bytes("4GiB").unwrap();
        assert_eq!(
            (size.of(1), size.to_string()),
            (4 << 30, "4294967296".into())
        );
        assert_eq!(parse_percent("100%"), Ok(100.0));
        assert_eq!(parse_percent("0.25"), Ok(25.0));
        assert_eq!("0.25".parse(), Ok(ShareOrBytes::Percent(25.0)));
        assert_eq!("1".parse(), Ok(ShareOrBytes::Bytes(1)));
        for (text, share) in [
            ("70%", 0.7),
            ("0.7", 0.7),
            ("0", 0.0),
            ("1", 1.0),
            ("0%", 0.0),
        ] {
            assert_eq!(parse_share(text), Ok(share), "{text}");
        }
        for text in [
            "", "1.1", "101%", "-0.1", "nan", "inf", "70", "1e-1", "0.5%%", ".",
        ] {
            assert_eq!(parse_share(text), Err(UnitError::Fraction(text.into())));
        }
        for text in ["0%", "101%", "%", "-1%", "inf%", "nan%", "1e1%", "5%%"] {
            assert_eq!(
                parse_share_or_bytes(text),
                Err(UnitError::Share(text.into()))
            );
        }
        assert_eq!(
            parse_share_or_bytes("lots").unwrap_err().to_string(),
            "'lots' is neither a share nor a size: write one such as 18.75% (above 0%, up to 100%), or 4GiB"
        );
    }
}
