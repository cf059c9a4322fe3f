//! What the fuzz targets of the drive share: its configuration, a host, the input as numbers.

pub mod host;
pub mod input;
pub mod lending;

use std::sync::OnceLock;

use input::Input;
use wharf_drive::DriveConfig;
use wharf_lab::config::{Sets, load_drive};

/// The tiny preset.
pub fn tiny() -> DriveConfig {
    static TINY: OnceLock<DriveConfig> = OnceLock::new();
    TINY.get_or_init(|| load_drive("tiny", &Sets::default()).expect("a preset").0)
        .clone()
}

/// The tiny preset, with or without what changes its ways.
pub fn any_tiny(input: &mut Input) -> DriveConfig {
    let mut config = tiny();
    let flags = input.number(1);
    config.ftl.volatile_write_cache = flags & 1 != 0;
    config.ftl.checkpoint_pages = if flags & 2 != 0 { 16 } else { 0 };
    config.ftl.capacity_share = if flags & 4 != 0 { 0.5 } else { 1.0 };
    config.ftl.endurance_cycles = if flags & 8 != 0 { 6 } else { 0 };
    config.firmware.commands_max = if flags & 16 != 0 { 1 } else { 8 };
    if flags & 32 != 0 {
        config.timing.program_ns = 0;
        config.timing.read_ns = 0;
    }
    config
}
