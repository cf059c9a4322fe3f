//! What people type as values: numbers, sizes, shares, times and names, each with one grammar in every option (`wharf_lab::config::units`).
//!
//! All are value parsers of clap: what they refuse is told with the option's name before it (`usage.rs`).

use std::ffi::OsStr;
use std::ops::RangeInclusive;

use clap::builder::{PossibleValue, TypedValueParser};
use wharf_host::design::Replacement;
use wharf_lab::config::{parse_bytes, parse_count, parse_duration_ns, parse_share};
use wharf_workload::nearest;

/// Bytes: `4096`, `4k`, `4Ki`, `1.5GiB`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

/// A share from 0 to 1: `0.7`, `70%`.
pub(super) fn share(text: &str) -> Result<f64, String> {
    parse_share(text).map_err(|error| error.to_string())
}

/// Nanoseconds: `500ms`, `10s`. A number alone is seconds, as fio has it.
pub(super) fn time_ns(text: &str) -> Result<u64, String> {
    let is_number = !text.is_empty() && !text.contains(|c: char| c.is_alphabetic());
    let with_unit = if is_number {
        format!("{text}s")
    } else {
        text.into()
    };
    let wrong =
        |_| format!("'{text}' is not a time: write seconds, or a time such as 500ms, 30s, 2m");
    match parse_duration_ns(&with_unit).map_err(wrong)? {
        0 => Err("is no time at all: write one such as 500ms, 30s, 2m".into()),
        ns => Ok(ns),
    }
}

/// A whole number within `range`: `8`, `1_000`, `200k`.
pub(super) fn count<T: TryFrom<u64> + Clone + Send + Sync + 'static>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let count = parse_count(text).map_err(|error| error.to_string())?;
        let within = Some(count).filter(|count| range.contains(count));
        within
            .and_then(|count| T::try_from(count).ok())
            .ok_or_else(|| match (*range.start(), *range.end()) {
                (least, u64::MAX) => format!("{text} is too small: give {least} or more"),
                (least, most) => format!("{text} is out of range: give {least} to {most}"),
            })
    }
}

/// A policy of a cache: `clock`, `s3-fifo`.
pub(super) fn replacement(text: &str) -> Result<Replacement, String> {
    let known = Replacement::ALL.map(|(known, _)| known);
    Replacement::by_name(text).ok_or_else(|| no_such("policy", text, &known))
}

/// A name of a list, such as a design's: one that is not there is answered by the nearest that is.
#[derive(Clone)]
pub(super) struct Name {
    /// What it is a name of.
    what: &'static str,
    known: fn() -> Vec<&'static str>,
}

/// Takes the names of `known`, of `what` there are.
pub(super) fn name(what: &'static str, known: fn() -> Vec<&'static str>) -> Name {
    Name { what, known }
}

impl TypedValueParser for Name {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        let (what, known) = (self.what, (self.known)());
        let check = move |text: &str| match known.contains(&text) {
            true => Ok(text.to_string()),
            false => Err(no_such(what, text, &known)),
        };
        TypedValueParser::parse_ref(&check, command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.known)().into_iter().map(PossibleValue::new)))
    }
}

/// The line about a name that is not there: with the nearest one, unless a file was meant, and all that are there.
pub(super) fn no_such(what: &str, given: &str, known: &[&str]) -> String {
    let all = known.join(", ");
    match is_path(given) {
        true => format!("no {what} '{given}' (known: {all})"),
        false => {
            let near = nearest(given, known.iter().copied());
            format!("no {what} '{given}'; nearest is '{near}' (known: {all})")
        }
    }
}

/// Whether a text looks like the path of a file: it has a folder, or a suffix.
pub(super) fn is_path(text: &str) -> bool {
    text.contains(['/', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_within_their_range() {
        let small = count::<u32>(1..=2_000);
        assert_eq!(small("1k"), Ok(1_000));
        assert_eq!(
            small("2_001"),
            Err("2_001 is out of range: give 1 to 2000".into())
        );
        assert!(
            small("-5")
                .unwrap_err()
                .starts_with("'-5' is not a count: ")
        );
        let any = count::<u64>(1..=u64::MAX);
        assert_eq!(any("1.5M"), Ok(1_500_000));
        assert_eq!(any("0"), Err("0 is too small: give 1 or more".into()));
        let byte = count::<u8>(0..=u64::MAX);
        assert!(byte("256").is_err(), "more than its type has");
    }

    #[test]
    fn a_time_without_a_unit_is_seconds() {
        let parsed = |text| time_ns(text).ok();
        assert_eq!(parsed("30"), Some(30_000_000_000));
        assert_eq!(parsed("0.5"), Some(500_000_000));
        assert_eq!(parsed("250ms"), Some(250_000_000));
        assert_eq!(parsed("2m"), Some(120_000_000_000));
        for wrong in [
            "",
            "0",
            "0s",
            "-1",
            "s",
            "1d",
            "nan",
            "1e30",
            "99999999999h",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn no_name_is_suggested_where_a_file_was_meant() {
        let known = ["direct", "clock"];
        let all = "(known: direct, clock)";
        assert_eq!(
            no_such("design", "clok", &known),
            format!("no design 'clok'; nearest is 'clock' {all}")
        );
        for path in ["clok.csv", "my/clock", "./clok"] {
            assert_eq!(
                no_such("design", path, &known),
                format!("no design '{path}' {all}")
            );
        }
    }
}
