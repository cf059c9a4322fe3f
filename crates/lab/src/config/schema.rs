//! The keys that a configuration has, their types and units.
//!
//! They are read off a serialised value of the configuration's own struct, so they are always
//! those that the program really takes. Units are the ends of the keys' names.

use std::collections::BTreeMap;

use serde::Serialize;
use toml::{Table, Value};

use super::nearest::nearest;
use super::units::{parse_bytes, parse_count, parse_duration_ns, percent};

/// Bytes of a page, the unit of keys that count pages.
const PAGE_BYTES: u64 = 4096;

/// What the number under a key counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Plain,
    Nanoseconds,
    Microseconds,
    Bytes,
    Pages,
    MegabytesPerSecond,
    Share,
}

impl Unit {
    /// The unit that the name of a number's key ends in.
    fn of_name(key: &str) -> Unit {
        let name = key.rsplit('.').next().unwrap_or(key);
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        if ends(&["_ns", "_ns_per_page"])
            || key.starts_with("cost_ns.")
            || key.starts_with("spread_ns.")
        {
            Unit::Nanoseconds
        } else if ends(&["_us"]) {
            Unit::Microseconds
        } else if ends(&["_bytes"]) || name == "bytes" {
            Unit::Bytes
        } else if ends(&["_pages"]) || name == "pages_per_block" {
            Unit::Pages
        } else if ends(&["_mb_s"]) || name == "mb_s" {
            Unit::MegabytesPerSecond
        } else if ends(&["_share", "over_provisioning", "_invalid_min"]) {
            Unit::Share
        } else {
            Unit::Plain
        }
    }
}

/// A value as it was given: from a file with its type, or from the command line as text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Given {
    /// A text without quotes.
    Text(String),
    /// A value of a simple TOML type.
    Value(Value),
    /// A value of a type that no key has, by the type's name.
    Other(&'static str),
}

impl Given {
    /// The value as its writer sees it, on one line.
    pub fn shown(&self) -> String {
        match self {
            Given::Text(text) => text.replace('\n', "\\n"),
            Given::Value(Value::String(text)) => format!("{text:?}"),
            Given::Value(value) => value.to_string(),
            Given::Other(kind) => format!("({kind})"),
        }
    }
}

/// The keys of one struct.
#[derive(Debug)]
pub(super) struct Schema {
    reference: BTreeMap<String, Value>,
}

impl Schema {
    /// The keys of `reference`, in which every optional key must have a value.
    pub fn of(reference: &impl Serialize) -> Schema {
        Schema {
            reference: leaves(reference),
        }
    }

    /// All keys, dotted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.reference.keys().map(String::as_str)
    }

    /// Those whose keys begin with `prefix`.
    #[cfg(test)]
    pub fn only(&self, prefix: &str) -> Schema {
        self.filtered(|key| key.starts_with(prefix))
    }

    /// The others.
    #[cfg(test)]
    pub fn without(&self, prefix: &str) -> Schema {
        self.filtered(|key| !key.starts_with(prefix))
    }

    #[cfg(test)]
    fn filtered(&self, is_wanted: impl Fn(&str) -> bool) -> Schema {
        let mut reference = self.reference.clone();
        reference.retain(|key, _| is_wanted(key));
        Schema { reference }
    }

    /// True if there is such a key.
    pub fn has(&self, key: &str) -> bool {
        self.reference.contains_key(key)
    }

    /// What the number under a known key counts.
    pub fn unit(&self, key: &str) -> Unit {
        match self.reference[key] {
            Value::Integer(_) | Value::Float(_) => Unit::of_name(key),
            _ => Unit::Plain,
        }
    }

    /// The first key of a table; none if there is no such table.
    pub fn first_in(&self, table: &str) -> Option<&str> {
        let inside = |key: &&str| key.strip_prefix(table).is_some_and(|k| k.starts_with('.'));
        self.keys().find(inside)
    }

    /// The known key that is nearest to `key`.
    pub fn nearest(&self, key: &str) -> &str {
        nearest(key, self.keys()).expect("a configuration has keys")
    }

    /// A reference configuration with one key given another value.
    pub fn reference_with(&self, key: &str, value: Value) -> Table {
        let mut changed = self.reference.clone();
        changed.insert(key.into(), value);
        table(changed)
    }

    /// A reference configuration without one of its keys.
    pub fn reference_without(&self, key: &str) -> Table {
        let mut changed = self.reference.clone();
        changed.remove(key);
        table(changed)
    }

    /// Brings a value to the type of its key; or says what the key takes.
    pub fn convert(&self, key: &str, given: &Given) -> Result<Value, &'static str> {
        let unit = self.unit(key);
        let value = match (&self.reference[key], given) {
            (Value::Integer(_), Given::Value(Value::Integer(n))) => whole(u64::try_from(*n).ok()),
            (Value::Integer(_), Given::Text(text) | Given::Value(Value::String(text))) => {
                whole(whole_number(text, unit))
            }
            (Value::Float(_), Given::Value(Value::Float(x))) => Some(Value::Float(*x)),
            (Value::Float(_), Given::Value(Value::Integer(n))) => Some(Value::Float(*n as f64)),
            (Value::Float(_), Given::Text(text) | Given::Value(Value::String(text))) => {
                number(text, unit).map(Value::Float)
            }
            (Value::String(_), Given::Text(text) | Given::Value(Value::String(text))) => {
                Some(Value::String(text.clone()))
            }
            (Value::Boolean(_), Given::Value(Value::Boolean(b))) => Some(Value::Boolean(*b)),
            (Value::Boolean(_), Given::Text(text)) => text.parse().ok().map(Value::Boolean),
            _ => None,
        };
        value.ok_or_else(|| self.expected(key))
    }

    fn expected(&self, key: &str) -> &'static str {
        match (&self.reference[key], self.unit(key)) {
            (Value::Integer(_), Unit::Nanoseconds) => {
                "a whole number of ns, or a time such as 18us"
            }
            (Value::Integer(_), Unit::Microseconds) => {
                "a whole number of us, or a time such as 1ms"
            }
            (Value::Integer(_), Unit::Bytes) => "a whole number of bytes, or a size such as 64KiB",
            (Value::Integer(_), Unit::Pages) => "a whole number of pages, or a size such as 128KiB",
            (Value::Integer(_), _) => "a whole number",
            (Value::Float(_), Unit::Share) => "a share such as 0.07 or 7%",
            (Value::Float(_), _) => "a number",
            (Value::Boolean(_), _) => "true or false",
            _ => "a text in quotes",
        }
    }
}

fn whole(number: Option<u64>) -> Option<Value> {
    number
        .and_then(|n| i64::try_from(n).ok())
        .map(Value::Integer)
}

fn whole_number(text: &str, unit: Unit) -> Option<u64> {
    let per = |quantity: u64, step: u64| quantity.is_multiple_of(step).then(|| quantity / step);
    let has_unit = text.contains(|c: char| c.is_alphabetic());
    match unit {
        Unit::Nanoseconds if has_unit => parse_duration_ns(text).ok(),
        Unit::Microseconds if has_unit => per(parse_duration_ns(text).ok()?, 1000),
        Unit::Bytes if has_unit => parse_bytes(text).ok(),
        Unit::Pages if has_unit => per(parse_bytes(text).ok()?, PAGE_BYTES),
        // So many of the key's own unit.
        _ => parse_count(text).ok(),
    }
}

fn number(text: &str, unit: Unit) -> Option<f64> {
    let plain = text.replace('_', "").parse().ok();
    plain.or_else(|| (unit == Unit::Share).then(|| Some(percent(text)? / 100.0))?)
}

/// The values of a configuration by their dotted keys.
pub(super) fn leaves(config: &impl Serialize) -> BTreeMap<String, Value> {
    let table = Table::try_from(config).expect("a configuration is a table");
    let mut found = BTreeMap::new();
    collect("", table, &mut found);
    found
}

fn collect(prefix: &str, table: Table, found: &mut BTreeMap<String, Value>) {
    for (name, value) in table {
        let key = join(prefix, &name);
        match value {
            Value::Table(inner) => collect(&key, inner, found),
            value => drop(found.insert(key, value)),
        }
    }
}

/// The dotted key of `name` in the table `prefix`. A name that needs quotes keeps them: it is none
/// that a struct has.
pub(super) fn join(prefix: &str, name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = match name.chars().all(is_bare) {
        true => name.to_string(),
        false => format!("{name:?}"),
    };
    match prefix {
        "" => name,
        prefix => format!("{prefix}.{name}"),
    }
}

/// The table that has these values under these dotted keys.
pub(super) fn table(leaves: BTreeMap<String, Value>) -> Table {
    let mut root = Table::new();
    for (key, value) in leaves {
        let (path, name) = key.rsplit_once('.').unwrap_or(("", &key));
        let mut inner = &mut root;
        for part in path.split('.').filter(|part| !part.is_empty()) {
            let entry = inner
                .entry(part)
                .or_insert_with(|| Value::Table(Table::new()));
            inner = entry
                .as_table_mut()
                .expect("no key is both a value and a table");
        }
        inner.insert(name.into(), value);
    }
    root
}
