//! What concerns one design alone: its own table of the configuration.
//!
//! A design declares the keys that it has with [`settings!`](crate::settings), each with its
//! meaning, its value where nothing else is said, and its range. Everything else follows: the table
//! `[design.NAME]` of host configurations, `--set design.NAME.KEY=VALUE`, errors that name key and
//! range, the listing in `docs/configuration.md`, the hash.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The keys of a design's own table.
pub trait Settings:
    Default + Clone + PartialEq + std::fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// Each key with its meaning, as documents list it.
    const KEYS: &'static [(&'static str, &'static str)];

    /// Checks what no type says.
    ///
    /// # Errors
    /// The first value that is out of its range.
    fn check(&self) -> Result<(), OutOfRange>;
}

/// A value of a design's own that is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value} must be {rule}")]
pub struct OutOfRange {
    /// The key.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub rule: String,
}

impl OutOfRange {
    /// Checks one value.
    ///
    /// # Errors
    /// If it is not within `range`.
    pub fn check<T: PartialOrd + std::fmt::Display>(
        key: &'static str,
        value: T,
        range: std::ops::RangeInclusive<T>,
    ) -> Result<(), OutOfRange> {
        if range.contains(&value) {
            return Ok(());
        }
        let rule = format!("{} to {}", range.start(), range.end());
        let value = value.to_string();
        Err(OutOfRange { key, value, rule })
    }
}

/// Declares a struct of [`Settings`]:
///
/// ```
/// wharf_host::settings! {
///     /// What the design `mine` can be told.
///     pub struct MineConfig {
///         /// Pages that leave the cache at a time.
///         pub batch: u32 = 8, in 1..=256;
///         /// Whether a page that was read is kept.
///         pub keeps_reads: bool = true;
///     }
/// }
/// assert_eq!(MineConfig::default().batch, 8);
/// ```
#[macro_export]
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $(
                $(#[doc = $doc:literal])+
                pub $key:ident: $type:ty = $default:expr $(, in $range:expr)?;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, $crate::serde::Serialize, $crate::serde::Deserialize)]
        #[serde(crate = "wharf_host::serde", deny_unknown_fields, default)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $key: $type,)*
        }

        impl ::std::default::Default for $name {
            fn default() -> Self {
                $name { $($key: $default,)* }
            }
        }

        impl $crate::design::Settings for $name {
            const KEYS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($key), concat!($($doc),+)),)*];

            fn check(&self) -> ::std::result::Result<(), $crate::design::OutOfRange> {
                $($($crate::design::OutOfRange::check(stringify!($key), self.$key, $range)?;)?)*
                Ok(())
            }
        }
    };
}

settings! {
    /// Of a design that is told nothing of its own.
    pub struct NoSettings {}
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::settings! {
        /// For the tests.
        pub struct Sample {
            /// How many
            /// there are.
            pub count: u32 = 3, in 1..=9;
            /// Whether.
            pub is_so: bool = true;
        }
    }

    #[test]
    fn what_is_declared_is_what_there_is() {
        let sample = Sample::default();
        assert_eq!((sample.count, sample.is_so), (3, true));
        assert_eq!(Sample::KEYS[0], ("count", " How many there are."));
        assert_eq!(Sample::KEYS[1].0, "is_so");
        assert_eq!(NoSettings::KEYS.len(), 0);
    }

    #[test]
    fn a_value_out_of_its_range_is_named_with_the_range() {
        for count in [0, 10] {
            let wrong = Sample {
                count,
                ..Sample::default()
            };
            let error = wrong.check().unwrap_err().to_string();
            assert_eq!(error, format!("count = {count} must be 1 to 9"));
        }
        assert_eq!(Sample::default().check(), Ok(()));
    }
}
