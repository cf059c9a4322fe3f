//! What can be wrong with a configuration, each as one line.

/// A configuration that cannot be used. Keys given on the command line are shown with their
/// `drive.` or `host.`, keys of a file without; `place` is `file:line` or `--set`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No preset of that name.
    #[error(
        "no {what} preset '{name}', the nearest is '{nearest}': presets are {presets}, and a file's name ends in .toml"
    )]
    UnknownPreset {
        /// What was to be loaded.
        what: &'static str,
        /// The name given.
        name: String,
        /// The preset with the nearest name.
        nearest: &'static str,
        /// All presets.
        presets: String,
    },
    /// A file that cannot be read.
    #[error("cannot read the {what} file '{path}' ({cause}): name a file, or a preset: {presets}")]
    Unreadable {
        /// What was to be loaded.
        what: &'static str,
        /// The file.
        path: String,
        /// The system's answer.
        cause: String,
        /// All presets.
        presets: String,
    },
    /// Not TOML.
    #[error("{place}: not valid TOML: {message}")]
    Syntax {
        /// Where.
        place: String,
        /// What the parser says.
        message: String,
    },
    /// A `--set` without a value.
    #[error("--set '{0}': write it as key=value, such as drive.timing.read_ns=25us")]
    NotAnAssignment(String),
    /// A key that does not exist.
    #[error("{place}: unknown key '{key}', the nearest is '{nearest}'")]
    UnknownKey {
        /// Where.
        place: String,
        /// The key.
        key: String,
        /// The known key that is nearest to it.
        nearest: String,
    },
    /// A group of keys where one key is needed.
    #[error("{place}: '{key}' is a table: set one of its keys, such as '{example}'")]
    Table {
        /// Where.
        place: String,
        /// The table.
        key: String,
        /// A key in it.
        example: String,
    },
    /// A file without some key.
    #[error("{file}: no value for '{key}'{others}: {advice}")]
    Missing {
        /// The file.
        file: String,
        /// The first key that is missing.
        key: String,
        /// How many more are.
        others: String,
        /// What to do.
        advice: String,
    },
    /// A value of the wrong type.
    #[error("{place}: {key} = {value} is not {expected}")]
    WrongType {
        /// Where.
        place: String,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A value of the right type that the key cannot take.
    #[error("{place}: {key} = {value}: {message}")]
    BadValue {
        /// Where.
        place: String,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// Why not.
        message: String,
    },
    /// A value out of its range.
    #[error("{place}: {key} = {value} must be {rule}")]
    Range {
        /// Where.
        place: String,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What is allowed.
        rule: String,
    },
    /// Values that do not go together.
    #[error("{source_name}: {message}")]
    Contradiction {
        /// The preset or file.
        source_name: String,
        /// Why they do not.
        message: String,
    },
}
