//! Configuration: presets, files, `--set`, and one hash over all of it.
//!
//! A drive, a host and a cost table are each a struct whose every field has a value in every
//! preset: nothing is left to a hidden default. A preset is a TOML file in `configs/`, built into
//! the program; a user's file is either as complete, or names a preset as its `base` and says what
//! is different. `docs/configuration.md` lists all keys.
//!
//! | file | what |
//! |---|---|
//! | `units.rs` | sizes, shares and times as people write them |
//! | `host.rs` | the host's configuration |
//! | `design.rs` | in it: what concerns one design alone |
//! | `presets.rs` | the built-in files |
//! | `schema.rs` | the keys that exist, with types and units |
//! | `nearest.rs` | what a mistyped name may have meant |
//! | `document.rs` | a file, key by key, with lines |
//! | `sets.rs` | `--set` |
//! | `kinds.rs` | drive, host and costs as things to load |
//! | `load.rs` | putting it all together |
//! | `hash.rs` | the configuration's hash |

mod design;
mod document;
mod error;
mod hash;
mod host;
mod kinds;
mod load;
pub(crate) mod nearest;
mod presets;
mod schema;
mod sets;
#[cfg(test)]
mod tests;
pub mod units;

use wharf_drive::DriveConfig;
use wharf_runtime::CostTable;

pub use design::DesignTables;
pub use error::ConfigError;
pub use hash::{ConfigHash, config_hash, file_hash, text_hash};
pub use host::{ArrayLayout, CacheOf, HostConfig, HostRangeError, IdleConfig};
pub(crate) use kinds::Fault;
pub use load::Provenance;
pub use presets::{COSTS, DRIVES, HOSTS, Preset};
pub use sets::{Sets, Setting};
pub use units::{
    ShareOrBytes, UnitError, parse_bytes, parse_duration_ns, parse_percent, parse_share_or_bytes,
};
pub use wharf_host::design::WritePolicy;

/// Loads a drive by its preset's name, or from a file (its name ends in `.toml` or has a `/`),
/// with the drive's part of `sets` laid over it. The result can be built: its plan was checked.
pub fn load_drive(
    preset_or_path: &str,
    sets: &Sets,
) -> Result<(DriveConfig, Provenance), ConfigError> {
    load::load(preset_or_path, &sets.drive)
}

/// Loads a host configuration as [`load_drive`] loads a drive, with the host's part of `sets`.
pub fn load_host(
    preset_or_path: &str,
    sets: &Sets,
) -> Result<(HostConfig, Provenance), ConfigError> {
    load::load(preset_or_path, &sets.host)
}

/// Loads a cost table by its preset's name or from a file. Costs are measured, so no `--set`
/// changes them, and a file is complete.
pub fn load_costs(preset_or_path: &str) -> Result<(CostTable, Provenance), ConfigError> {
    load::load(preset_or_path, &[])
}
