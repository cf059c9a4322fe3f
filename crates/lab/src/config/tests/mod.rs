//! Tests of loading.

mod errors;
mod files;
mod listing;
mod presets;

use super::{ConfigError, Sets};

fn sets(arguments: &[&str]) -> Sets {
    Sets::parse(arguments).unwrap()
}

/// The error's text, which must be one line.
fn text<T: std::fmt::Debug>(result: Result<T, ConfigError>) -> String {
    let text = result.unwrap_err().to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}
