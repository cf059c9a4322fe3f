//! A configuration file, read into dotted keys that remember their lines.

use toml::Value;
use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::schema::{Given, Schema, join};

/// A file's text, taken apart.
#[derive(Debug)]
pub(super) struct Document {
    /// The preset that the file builds on, with the place where it says so.
    pub base: Option<(String, String)>,
    /// Key, value and place of each setting.
    pub settings: Vec<(String, Given, String)>,
}

impl Document {
    /// Takes the text of the file `label` apart by the keys of `schema`.
    pub fn parse(text: &str, label: &str, schema: &Schema) -> Result<Document, ConfigError> {
        let mut reader = Reader {
            text,
            label,
            schema,
            found: Document {
                base: None,
                settings: Vec::new(),
            },
        };
        let root = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            place: reader.place(error.span().map_or(0, |span| span.start)),
            message: error.message().replace('\n', " "),
        })?;
        reader.read("", root.get_ref())?;
        Ok(reader.found)
    }
}

struct Reader<'a> {
    text: &'a str,
    label: &'a str,
    schema: &'a Schema,
    found: Document,
}

impl Reader<'_> {
    fn place(&self, offset: usize) -> String {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("{}:{line}", self.label)
    }

    fn read(&mut self, prefix: &str, table: &DeTable<'_>) -> Result<(), ConfigError> {
        for (name, value) in table {
            let key = join(prefix, name.get_ref());
            let place = self.place(name.span().start);
            match value.get_ref() {
                DeValue::String(base) if key == "base" => {
                    self.found.base = Some((base.to_string(), place));
                }
                other if key == "base" => {
                    return Err(ConfigError::WrongType {
                        place,
                        key,
                        value: given(other).shown(),
                        expected: "a preset's name in quotes",
                    });
                }
                value if self.schema.has(&key) => {
                    self.found.settings.push((key, given(value), place));
                }
                DeValue::Table(inner) if !inner.is_empty() => self.read(&key, inner)?,
                DeValue::Table(_) if self.schema.first_in(&key).is_some() => (),
                _ => return Err(unknown(self.schema, &place, str::to_string, &key)),
            }
        }
        Ok(())
    }
}

/// The error for a key that is not in the schema; keys are shown as `shown` says.
pub(super) fn unknown(
    schema: &Schema,
    place: &str,
    shown: impl Fn(&str) -> String,
    key: &str,
) -> ConfigError {
    let place = place.into();
    match schema.first_in(key) {
        Some(example) => ConfigError::Table {
            place,
            key: shown(key),
            example: shown(example),
        },
        None => ConfigError::UnknownKey {
            place,
            key: shown(key),
            nearest: shown(schema.nearest(key)),
        },
    }
}

fn given(value: &DeValue<'_>) -> Given {
    match value {
        DeValue::String(text) => Given::Value(Value::String(text.to_string())),
        DeValue::Boolean(flag) => Given::Value(Value::Boolean(*flag)),
        DeValue::Integer(n) => match i64::from_str_radix(n.as_str(), n.radix()) {
            Ok(n) => Given::Value(Value::Integer(n)),
            Err(_) => Given::Other("a number beyond 64 bits"),
        },
        DeValue::Float(x) => match x.as_str().replace('_', "").parse() {
            Ok(x) => Given::Value(Value::Float(x)),
            Err(_) => Given::Other("a number"),
        },
        DeValue::Datetime(_) => Given::Other("a date"),
        DeValue::Array(_) => Given::Other("an array"),
        DeValue::Table(_) => Given::Other("a table"),
    }
}
