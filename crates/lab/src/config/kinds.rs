//! The three things that are configured: drives, hosts, costs.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use wharf_drive::DriveConfig;
use wharf_drive::config::{
    ConfigError as DriveError, DriveKind, FileSystemKind, LinkKind, MediaKind, TokenCheck,
};
use wharf_runtime::CostTable;
use wharf_runtime::op::CostTableError;

use super::host::HostConfig;
use super::presets::{COSTS, DRIVES, HOSTS, Preset};

/// A struct with presets, loaded by the steps of `load.rs`.
pub(super) trait Kind: Serialize + DeserializeOwned {
    /// What it is, and how its keys begin on the command line.
    const WHAT: &'static str;
    /// Its presets.
    const PRESETS: &'static [Preset];

    /// A valid configuration in which every optional key has a value.
    fn reference() -> Self;

    /// Says what is wrong with a whole text before its keys are looked at.
    fn check_text(_text: &str) -> Result<(), String> {
        Ok(())
    }

    /// Says what is wrong with the keys that a text changes of its base, of all keys.
    fn check_changes<'a>(
        _is_changed: impl Fn(&str) -> bool,
        _keys: impl Iterator<Item = &'a str>,
    ) -> Option<String> {
        None
    }

    /// Says why a key has no meaning beside these values, if it has none.
    fn check_key(_key: &str, _values: &BTreeMap<String, toml::Value>) -> Result<(), String> {
        Ok(())
    }

    /// Says what is wrong with values that have the right types.
    fn check(&self) -> Result<(), Fault>;
}

/// What is wrong with a configuration.
pub(crate) enum Fault {
    /// One value is out of its range.
    Range {
        key: String,
        value: String,
        rule: String,
    },
    /// Some values do not go together.
    Whole(String),
}

fn parse_preset<T: DeserializeOwned>(presets: &[Preset], name: &str) -> T {
    let preset = presets.iter().find(|preset| preset.name == name);
    toml::from_str(preset.expect("built in").text).expect("tested")
}

impl Kind for DriveConfig {
    const WHAT: &'static str = "drive";
    const PRESETS: &'static [Preset] = DRIVES;

    fn reference() -> Self {
        let mut config: DriveConfig = parse_preset(DRIVES, "tiny");
        config.media.path = Some("drive.img".into());
        // Keys that are left out where they say nothing.
        config.geometry.unit_pages = 1;
        config.compression.codec = wharf_codec::Codec::Zlib;
        config.ftl.power_loss_protection = true;
        // What the flash holds, seven eighths of it for data.
        config.ftl.shown_bytes = config.namespace_pages() * 4096;
        config.ftl.metadata_bytes = config.ftl.shown_bytes / 8;
        config.ftl.metadata_reserve_share = 0.01;
        config.ftl.elide_zeros = true;
        config.file_system = Some(FileSystemKind::Wfs);
        config.media.kind = MediaKind::Ram;
        config.firmware.token_check = TokenCheck::Every;
        config.link.kind = LinkKind::Cxl;
        config.link.load_ns = 1;
        config.memory.latency_ns = 1;
        config.memory.protected = true;
        config.persistent_memory.load_ns = 1;
        config.kind = Some(DriveKind::Flash);
        config.disk = parse_preset::<DriveConfig>(DRIVES, "hdd-small").disk;
        config
    }

    /// A disk has no flash, and flash is no disk.
    fn check_key(key: &str, values: &BTreeMap<String, toml::Value>) -> Result<(), String> {
        let kind = values.get("kind").and_then(toml::Value::as_str);
        let (is_disk, part) = (kind == Some("disk"), key.split('.').next().unwrap_or(key));
        match (part, is_disk) {
            (
                "geometry" | "timing" | "ftl" | "compression" | "file_system" | "memory"
                | "persistent_memory",
                true,
            ) => Err(format!("{key} is of flash, and kind is \"disk\"")),
            ("disk", false) => Err(format!("{key} is of disks, and kind is not \"disk\"")),
            _ => Ok(()),
        }
    }

    fn check(&self) -> Result<(), Fault> {
        self.plan().map(drop).map_err(|error| match error {
            DriveError::Range { key, value, rule } => Fault::Range {
                key: key.into(),
                value,
                rule: rule.into(),
            },
            other => Fault::Whole(other.to_string().trim_start_matches("drive: ").into()),
        })
    }
}

impl Kind for HostConfig {
    const WHAT: &'static str = "host";
    const PRESETS: &'static [Preset] = HOSTS;

    fn reference() -> Self {
        parse_preset(HOSTS, "default")
    }

    fn check(&self) -> Result<(), Fault> {
        HostConfig::check(self).map_err(|error| Fault::Range {
            key: error.key,
            value: error.value,
            rule: error.rule,
        })
    }
}

impl Kind for CostTable {
    const WHAT: &'static str = "costs";
    const PRESETS: &'static [Preset] = COSTS;

    fn reference() -> Self {
        CostTable::free()
    }

    fn check_text(text: &str) -> Result<(), String> {
        CostTable::check_version(text).map_err(|error| error.to_string())
    }

    /// A table with costs of two machines says which, and a cost has its own spread, not that of another one.
    fn check_changes<'a>(
        is_changed: impl Fn(&str) -> bool,
        mut keys: impl Iterator<Item = &'a str>,
    ) -> Option<String> {
        let labels = ["name", "machine", "date", "commit"];
        if let Some(label) = labels.into_iter().find(|label| !is_changed(label)) {
            return Some(format!(
                "costs of another machine need a {label} of their own"
            ));
        }
        let of_cost = |key: &str| Some(format!("spread_ns.{}", key.strip_prefix("cost_ns.")?));
        keys.find_map(|key| {
            let spread = of_cost(key)?;
            let is_alone = is_changed(key) && !is_changed(&spread);
            is_alone.then(|| {
                format!("{key} is changed and {spread} is not: give it, 0 if it is not known")
            })
        })
    }

    fn check(&self) -> Result<(), Fault> {
        CostTable::check(self).map_err(|error| match error {
            CostTableError::OutOfRange {
                what, op, value, ..
            } => Fault::Range {
                key: format!("{what}.{op}"),
                value: value.to_string(),
                rule: "a number of nanoseconds between 0 and 1e9".into(),
            },
            other => Fault::Whole(other.to_string()),
        })
    }
}
