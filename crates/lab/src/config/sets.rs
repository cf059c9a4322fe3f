//! What `--set key=value` changes.

use std::fmt;

use wharf_drive::DriveConfig;

use super::error::ConfigError;
use super::host::HostConfig;
use super::kinds::Kind;
use super::nearest::nearest;
use super::schema::{Given, Schema};

/// How the command line is named as a place.
pub(super) const SET: &str = "--set";

/// How keys of one design alone begin, in the host's configuration and on the command line.
pub(super) const DESIGN: &str = "design.";

/// How keys of the drives behind the role `backing` begin on the command line.
const BACKING: &str = "backing";

/// One `key=value`, without the key's `drive.` or `host.`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub(super) key: String,
    pub(super) value: String,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// The changes of a command line, sorted by what they change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sets {
    /// Changes of the drive.
    pub drive: Vec<Setting>,
    /// Changes of the drives behind the role `backing`.
    pub backing: Vec<Setting>,
    /// Changes of the host.
    pub host: Vec<Setting>,
}

impl Sets {
    /// Sorts arguments such as `drive.timing.read_ns=25us`, `host.cache=4GiB` and
    /// `design.tri.managers=4`. Whether the keys exist within a drive or a host shows when that is
    /// loaded.
    pub fn parse<S: AsRef<str>>(arguments: &[S]) -> Result<Sets, ConfigError> {
        let mut sets = Sets::default();
        for argument in arguments.iter().map(AsRef::as_ref) {
            let Some((key, value)) = argument.split_once('=') else {
                return Err(ConfigError::NotAnAssignment(argument.into()));
            };
            let (key, value) = (key.trim(), value.trim().to_string());
            let (target, rest) = match key.split_once('.') {
                _ if key.starts_with(DESIGN) => (&mut sets.host, key),
                Some((DriveConfig::WHAT, rest)) => (&mut sets.drive, rest),
                Some((BACKING, rest)) => (&mut sets.backing, rest),
                Some((HostConfig::WHAT, rest)) if !rest.starts_with(DESIGN) => {
                    (&mut sets.host, rest)
                }
                _ => return Err(unknown(key)),
            };
            let key = rest.to_string();
            target.push(Setting { key, value });
        }
        Ok(sets)
    }

    /// True if each is a value that its key takes as it stands, whatever the others are.
    pub(crate) fn are_values(&self) -> bool {
        let mut drives = self.drive.iter().chain(&self.backing);
        drives.all(takes::<DriveConfig>) && self.host.iter().all(takes::<HostConfig>)
    }

    /// The changes of the drives behind the role `backing`, as those of a drive.
    #[must_use]
    pub fn of_backing(&self) -> Sets {
        Sets {
            drive: self.backing.clone(),
            ..Sets::default()
        }
    }
}

/// True if the key exists and takes the value.
fn takes<T: Kind>(set: &Setting) -> bool {
    let schema = Schema::of(&T::reference());
    let value = || {
        schema
            .convert(&set.key, &Given::Text(set.value.clone()))
            .ok()
    };
    let fits = |value| schema.reference_with(&set.key, value).try_into::<T>();
    schema.has(&set.key) && value().is_some_and(|value| fits(value).is_ok())
}

/// A key of a configuration as the command line has it.
pub(super) fn shown(what: &str, key: &str) -> String {
    match key.starts_with(DESIGN) {
        true => key.into(),
        false => format!("{what}.{key}"),
    }
}

fn unknown(key: &str) -> ConfigError {
    let drive = Schema::of(&DriveConfig::reference());
    let host = Schema::of(&HostConfig::reference());
    let drive = drive.keys().map(|key| shown(DriveConfig::WHAT, key));
    let host = host.keys().map(|key| shown(HostConfig::WHAT, key));
    let all: Vec<String> = drive.chain(host).collect();
    ConfigError::UnknownKey {
        place: SET.into(),
        key: key.into(),
        nearest: nearest(key, all.iter().map(String::as_str))
            .expect("there are keys")
            .into(),
    }
}
