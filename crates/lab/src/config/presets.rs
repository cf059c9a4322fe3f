//! The presets of `configs/`, built in.

/// A named configuration that is part of the program.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// The file's text: TOML, with the source of each value in comments.
    pub text: &'static str,
}

impl Preset {
    /// What the preset stands for: the first line of its opening comment.
    pub fn summary(&self) -> &'static str {
        let first = self.text.lines().next().unwrap_or_default();
        first.trim_start_matches(['#', ' '])
    }
}

macro_rules! presets {
    ($folder:literal: $($name:literal),*) => {
        &[$(Preset {
            name: $name,
            text: include_str!(concat!("../../../../configs/", $folder, "/", $name, ".toml")),
        }),*]
    };
}

/// Drives, by name.
pub const DRIVES: &[Preset] = presets!(
    "drive": "optane", "pmem", "scala", "scala-artifact", "store", "tc-csd", "tc-csd-small", "tiny", "tlc", "hdd", "hdd-small"
);

/// Host configurations, by name.
pub const HOSTS: &[Preset] = presets!("host": "default", "write-through");

/// Cost tables, by name.
pub const COSTS: &[Preset] = presets!("costs": "default", "scalacache-host", "xeon-4socket");
