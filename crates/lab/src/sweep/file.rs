//! A sweep as a TOML file.
//!
//! Its keys are the options of `wharf compare`, without their dashes, and `workload`. A value is what the option takes; a list of values
//! is an axis. `designs` is a list and no axis: each design is a curve. The table `set` has the keys of `--set`.
//!
//! Axes are in the order of the file, options before the table `set`.

use toml::de::{DeTable, DeValue};

use super::{Axis, SweepError};
use crate::config::nearest::nearest;

/// An option or a key of `--set` with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// An option's name without dashes, with its value. That of an option that takes none is `true` or `false`.
    Option(String, String),
    /// A key of `--set` with its value.
    Set(String, String),
}

/// A file's text, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// What is the same in all points.
    pub base: Vec<Word>,
    /// What changes.
    pub axes: Vec<Axis>,
    /// For each axis, whether it is a key of `--set`.
    is_set: Vec<bool>,
}

impl Described {
    /// The words of a combination: places of values in their axes.
    pub fn words(&self, places: &[usize]) -> Vec<Word> {
        let mut words = self.base.clone();
        for ((axis, is_set), place) in self.axes.iter().zip(&self.is_set).zip(places) {
            let (key, value) = (axis.key.clone(), axis.values[*place].clone());
            words.push(match is_set {
                true => Word::Set(key, value),
                false => Word::Option(key, value),
            });
        }
        words
    }
}

/// Takes the text of a file apart, which is called `label` where something is wrong with it. `options` are the options that
/// there are.
///
/// # Errors
/// It is not TOML; a key that is no option; a value of a kind that no option has; a list with a value twice.
pub fn describe(text: &str, label: &str, options: &[String]) -> Result<Described, SweepError> {
    let mut reader = Reader {
        text,
        label,
        options,
        found: Described {
            base: Vec::new(),
            axes: Vec::new(),
            is_set: Vec::new(),
        },
    };
    let root = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message().replace('\n', " ");
        reader.wrong(at, format!("not valid TOML: {message}"))
    })?;
    for entry in in_order(root.get_ref()) {
        reader.option(entry)?;
    }
    for entry in in_order(root.get_ref()) {
        if entry.key == SET {
            reader.settings("", &entry)?;
        }
    }
    Ok(reader.found)
}

/// The table of keys of `--set`.
const SET: &str = "set";

/// A key with its place in the text.
struct Entry<'a> {
    at: usize,
    key: &'a str,
    value: &'a DeValue<'a>,
}

/// The entries of a table as the text has them.
fn in_order<'a>(table: &'a DeTable<'a>) -> Vec<Entry<'a>> {
    let entries = table.iter().map(|(key, value)| Entry {
        at: key.span().start,
        key: key.get_ref(),
        value: value.get_ref(),
    });
    let mut entries: Vec<Entry> = entries.collect();
    entries.sort_by_key(|entry| entry.at);
    entries
}

struct Reader<'a> {
    text: &'a str,
    label: &'a str,
    options: &'a [String],
    found: Described,
}

impl Reader<'_> {
    /// What is wrong at a place.
    fn wrong(&self, at: usize, message: String) -> SweepError {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        SweepError::File {
            place: format!("{}:{line}", self.label),
            message,
        }
    }

    fn option(&mut self, entry: Entry) -> Result<(), SweepError> {
        let key = entry.key;
        match entry.value {
            _ if key == SET => Ok(()),
            _ if !self.options.iter().any(|option| option == key) => {
                let known = self.options.iter().map(String::as_str).chain([SET]);
                let nearest = nearest(key, known).expect("there are options");
                Err(self.wrong(
                    entry.at,
                    format!("unknown key '{key}', the nearest is '{nearest}'"),
                ))
            }
            DeValue::Array(_) if key == "designs" => {
                let names = self.values(&entry)?;
                self.found
                    .base
                    .push(Word::Option(key.into(), names.join(",")));
                Ok(())
            }
            _ => self.add(key.into(), &entry, false),
        }
    }

    /// The keys of the table `set`, whose names begin with `prefix`.
    fn settings(&mut self, prefix: &str, entry: &Entry) -> Result<(), SweepError> {
        let DeValue::Table(table) = entry.value else {
            return Err(self.wrong(
                entry.at,
                "set is a table: write its keys below [set], such as \"drive.timing.read_ns\" = [\"10us\", \"25us\"]".into(),
            ));
        };
        for entry in in_order(table) {
            let key = format!("{prefix}{}", entry.key);
            match entry.value {
                DeValue::Table(_) => self.settings(&format!("{key}."), &entry)?,
                _ => self.add(key, &entry, true)?,
            }
        }
        Ok(())
    }

    /// Adds a value, or an axis.
    fn add(&mut self, key: String, entry: &Entry, is_set: bool) -> Result<(), SweepError> {
        let mut values = self.values(entry)?;
        if matches!(entry.value, DeValue::Array(_)) {
            let axis = Axis::new(&key, values);
            let axis = axis.map_err(|error| self.wrong(entry.at, error.to_string()))?;
            self.found.axes.push(axis);
            self.found.is_set.push(is_set);
            return Ok(());
        }
        let value = values.remove(0);
        self.found.base.push(match is_set {
            true => Word::Set(key, value),
            false => Word::Option(key, value),
        });
        Ok(())
    }

    /// A value, or those of a list, as texts.
    fn values(&self, entry: &Entry) -> Result<Vec<String>, SweepError> {
        let one = |value: &DeValue| {
            scalar(value).ok_or_else(|| {
                let message = format!(
                    "{} takes a text, a number, true or false, or a list of such",
                    entry.key
                );
                self.wrong(entry.at, message)
            })
        };
        match entry.value {
            DeValue::Array(values) => values.iter().map(|value| one(value.get_ref())).collect(),
            value => Ok(vec![one(value)?]),
        }
    }
}

/// A value as it would be written on the command line.
fn scalar(value: &DeValue) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Integer(number) => {
            let whole = i128::from_str_radix(number.as_str(), number.radix()).ok()?;
            Some(whole.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().replace('_', "")),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Described, String> {
        let options = ["workload", "designs", "cache", "clients", "overlay"].map(String::from);
        describe(text, "s.toml", &options).map_err(|error| error.to_string())
    }

    const TEXT: &str = r#"
workload = "zipf"
overlay = true
designs = ["clock", "scala"]
clients = [2, 1_0]
cache = ["1%", "5%"]

[set]
"drive.timing.read_ns" = ["10us", "25us"]
design.scala.shares = ["4,2,1", "1,1"]
drive.ftl.over_provisioning = 0.1
"#;

    #[test]
    fn lists_are_axes_in_the_order_of_the_file() {
        let found = read(TEXT).unwrap();
        let axes: Vec<(&str, Vec<&str>)> = found
            .axes
            .iter()
            .map(|a| {
                (
                    a.key.as_str(),
                    a.values.iter().map(String::as_str).collect(),
                )
            })
            .collect();
        assert_eq!(
            axes,
            [
                ("clients", vec!["2", "10"]),
                ("cache", vec!["1%", "5%"]),
                ("drive.timing.read_ns", vec!["10us", "25us"]),
                ("design.scala.shares", vec!["4,2,1", "1,1"]),
            ]
        );
        let option = |key: &str, value: &str| Word::Option(key.into(), value.into());
        let set = |key: &str, value: &str| Word::Set(key.into(), value.into());
        assert_eq!(
            found.words(&[1, 0, 1, 0]),
            [
                option("workload", "zipf"),
                option("overlay", "true"),
                option("designs", "clock,scala"),
                set("drive.ftl.over_provisioning", "0.1"),
                option("clients", "10"),
                option("cache", "1%"),
                set("drive.timing.read_ns", "25us"),
                set("design.scala.shares", "4,2,1"),
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, says) in [
            (
                "cahce = 3",
                "s.toml:1: unknown key 'cahce', the nearest is 'cache'",
            ),
            (
                "\nseet = 3",
                "s.toml:2: unknown key 'seet', the nearest is 'set'",
            ),
            ("cache = ", "s.toml:1: not valid TOML"),
            ("cache = [[1]]", "s.toml:1: cache takes a text, a number"),
            (
                "cache = 2026-01-01",
                "s.toml:1: cache takes a text, a number",
            ),
            ("cache = []", "s.toml:1: cache has a value that is empty"),
            ("cache = [\"1%\", \"1%\"]", "s.toml:1: cache has 1% twice"),
            ("[cache]\na = 1", "s.toml:1: cache takes a text"),
            ("set = 3", "s.toml:1: set is a table"),
            ("cache = 1\ncache = 2", "s.toml:2: not valid TOML"),
            (
                "clients = 0x1ffffffffffffffffffffffffffffffffff",
                "clients takes",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
