//! From a preset's name or a file, with what `--set` changes, to a checked configuration.
//!
//! 1. Find the text: a built-in preset, or a file.
//! 2. Take it apart into dotted keys; a file that names a base is laid over that preset. (So is a preset that does: a
//!    table of costs with some that others have published.)
//! 3. Lay the `--set`s over that, the last one of a key last.
//! 4. Bring each value to its key's type, and try it alone in a valid configuration, so that a
//!    refusal can be put down to its line.
//! 5. Put all together, and check what no value can be checked for alone.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use toml::Value;

use super::document::{Document, unknown};
use super::error::ConfigError;
use super::kinds::{Fault, Kind};
use super::nearest::nearest;
use super::presets::Preset;
use super::schema::{Given, Schema, table};
use super::sets::{SET, Setting, shown};

/// Where a configuration came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// The preset's name, or the file.
    pub source: String,
    /// The preset that a file builds on.
    pub base: Option<String>,
    /// What was changed on the command line, as `key=value`, in its order.
    pub sets: Vec<String>,
}

impl std::fmt::Display for Provenance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.source)?;
        if let Some(base) = &self.base {
            write!(f, " (on {base})")?;
        }
        match self.sets.is_empty() {
            true => Ok(()),
            false => write!(f, " with {}", self.sets.join(", ")),
        }
    }
}

/// A value, with where it was given and how its key is called there.
struct Placed {
    given: Given,
    place: String,
    shown_key: String,
}

type Layers = BTreeMap<String, Placed>;

/// Loads a preset, or a file whose name ends in `.toml` or has a `/`, with `sets` laid over it.
pub(super) fn load<T: Kind>(name: &str, sets: &[Setting]) -> Result<(T, Provenance), ConfigError> {
    let schema = Schema::of(&T::reference());
    let mut layers = Layers::new();
    let is_file = name.ends_with(".toml") || name.contains(['/', '\\']);
    let (label, base) = if is_file {
        let base = read_file::<T>(name, &schema, &mut layers)?;
        (name.to_string(), base)
    } else {
        let preset = find_preset::<T>(name)?;
        let label = format!("{} preset {name}", T::WHAT);
        let base = read_over_base::<T>(preset.text, &label, name, &schema, &mut layers)?;
        (label, base)
    };
    for set in sets {
        add_set::<T>(set, &schema, &mut layers)?;
    }
    let config = build::<T>(&label, &schema, layers)?;
    let provenance = Provenance {
        source: name.into(),
        base,
        sets: sets.iter().map(Setting::to_string).collect(),
    };
    Ok((config, provenance))
}

fn preset_names<T: Kind>() -> String {
    let names: Vec<&str> = T::PRESETS.iter().map(|preset| preset.name).collect();
    names.join(", ")
}

fn find_preset<T: Kind>(name: &str) -> Result<&'static Preset, ConfigError> {
    let found = T::PRESETS.iter().find(|preset| preset.name == name);
    found.ok_or_else(|| ConfigError::UnknownPreset {
        what: T::WHAT,
        name: name.into(),
        nearest: nearest(name, T::PRESETS.iter().map(|preset| preset.name)).expect("presets"),
        presets: preset_names::<T>(),
    })
}

/// Reads a text of settings into `layers`; returns its base, with the place where it is named.
fn read_text<T: Kind>(
    text: &str,
    label: &str,
    schema: &Schema,
    layers: &mut Layers,
) -> Result<Option<(String, String)>, ConfigError> {
    T::check_text(text).map_err(|message| ConfigError::Contradiction {
        source_name: label.into(),
        message,
    })?;
    let document = Document::parse(text, label, schema)?;
    for (key, given, place) in document.settings {
        let shown_key = key.clone();
        let placed = Placed {
            given,
            place,
            shown_key,
        };
        layers.insert(key, placed);
    }
    Ok(document.base)
}

/// Reads a user's file over the preset it builds on, if it names one; returns that name.
fn read_file<T: Kind>(
    path: &str,
    schema: &Schema,
    layers: &mut Layers,
) -> Result<Option<String>, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|cause| ConfigError::Unreadable {
        what: T::WHAT,
        path: path.into(),
        cause: cause.to_string(),
        presets: preset_names::<T>(),
    })?;
    // A changed preset must not go by the preset's name.
    let stem = Path::new(path).file_stem().unwrap_or_default();
    read_over_base::<T>(&text, path, &stem.to_string_lossy(), schema, layers)
}

/// Reads a text over the preset it builds on, if it names one; returns that. It is called `name` unless it says how
/// itself.
fn read_over_base<T: Kind>(
    text: &str,
    label: &str,
    name: &str,
    schema: &Schema,
    layers: &mut Layers,
) -> Result<Option<String>, ConfigError> {
    let mut own = Layers::new();
    let Some((base, place)) = read_text::<T>(text, label, schema, &mut own)? else {
        layers.extend(own);
        return Ok(None);
    };
    let refusal = |message: String| ConfigError::BadValue {
        place: place.clone(),
        key: "base".into(),
        value: format!("\"{base}\""),
        message,
    };
    let preset = find_preset::<T>(&base).map_err(|error| refusal(error.to_string()))?;
    let has_base = read_text::<T>(preset.text, &format!("preset {base}"), schema, layers)?;
    if has_base.is_some() {
        return Err(refusal("that preset builds on another one itself".into()));
    }
    let own_keys = |key: &str| own.contains_key(key);
    if let Some(message) = T::check_changes(own_keys, schema.keys()) {
        return Err(refusal(message));
    }
    let named = Placed {
        given: Given::Text(name.into()),
        place,
        shown_key: "name".into(),
    };
    layers.insert("name".into(), named);
    layers.extend(own);
    Ok(Some(base))
}

fn add_set<T: Kind>(
    set: &Setting,
    schema: &Schema,
    layers: &mut Layers,
) -> Result<(), ConfigError> {
    let on_command_line = |key: &str| shown(T::WHAT, key);
    if !schema.has(&set.key) {
        return Err(unknown(schema, SET, on_command_line, &set.key));
    }
    let placed = Placed {
        given: Given::Text(set.value.clone()),
        place: SET.into(),
        shown_key: on_command_line(&set.key),
    };
    layers.insert(set.key.clone(), placed);
    Ok(())
}

fn build<T: Kind>(label: &str, schema: &Schema, layers: Layers) -> Result<T, ConfigError> {
    let mut values = BTreeMap::new();
    for (key, placed) in &layers {
        values.insert(key.clone(), convert::<T>(schema, key, placed)?);
    }
    for key in values.keys() {
        T::check_key(key, &values).map_err(|message| ConfigError::Contradiction {
            source_name: layers[key].place.clone(),
            message,
        })?;
    }
    check_complete::<T>(label, schema, &values)?;
    let config: T =
        table(values)
            .try_into()
            .map_err(|error: toml::de::Error| ConfigError::Contradiction {
                source_name: label.into(),
                message: error.message().replace('\n', " "),
            })?;
    match config.check() {
        Ok(()) => Ok(config),
        Err(Fault::Range { key, value, rule }) => {
            let placed = layers.get(&key);
            Err(ConfigError::Range {
                place: placed.map_or(label, |placed| &placed.place).into(),
                key: placed.map_or(&key, |placed| &placed.shown_key).clone(),
                value,
                rule,
            })
        }
        Err(Fault::Whole(message)) => Err(ConfigError::Contradiction {
            source_name: label.into(),
            message,
        }),
    }
}

/// Brings a value to its key's type, and tries it in a configuration where all else is valid.
fn convert<T: Kind>(schema: &Schema, key: &str, placed: &Placed) -> Result<Value, ConfigError> {
    let (place, shown) = (placed.place.clone(), placed.given.shown());
    let shown_key = placed.shown_key.clone();
    let value = match schema.convert(key, &placed.given) {
        Ok(value) => value,
        Err(expected) => {
            return Err(ConfigError::WrongType {
                place,
                key: shown_key,
                value: shown,
                expected,
            });
        }
    };
    match schema.reference_with(key, value.clone()).try_into::<T>() {
        Ok(_) => Ok(value),
        Err(error) => Err(ConfigError::BadValue {
            place,
            key: shown_key,
            value: shown,
            message: match value {
                Value::Integer(_) => "the number is too large".into(),
                _ => error.message().replace('\n', " "),
            },
        }),
    }
}

fn check_complete<T: Kind>(
    label: &str,
    schema: &Schema,
    values: &BTreeMap<String, Value>,
) -> Result<(), ConfigError> {
    let needed = |key: &&str| match schema.reference_without(key).try_into::<T>() {
        Ok(config) => config.check().is_err(),
        Err(_) => true,
    };
    let has_meaning = |key: &&str| T::check_key(key, values).is_ok();
    let absent = schema.keys().filter(|key| !values.contains_key(*key));
    let absent = absent.filter(has_meaning);
    let missing: Vec<&str> = absent.filter(needed).collect();
    let Some(first) = missing.first() else {
        return Ok(());
    };
    Err(ConfigError::Missing {
        file: label.into(),
        key: first.to_string(),
        others: match missing.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        },
        advice: format!(
            "give every key, or put base = \"{}\" at the top to change a preset",
            T::PRESETS[0].name
        ),
    })
}
