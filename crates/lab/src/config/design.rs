//! The tables `[design.NAME]` of a host's configuration: what concerns one design, or one family,
//! alone.
//!
//! Which keys there are each design says itself ([`Settings`](wharf_host::design::Settings)). A
//! table has them all, always: what a file leaves out is what the design has by itself, so that a
//! design that is added breaks no file.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use toml::Table;
use wharf_host::design::Design;

use super::kinds::Fault;
use crate::designs;

/// The tables of all designs, by name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DesignTables(BTreeMap<String, Table>);

impl Default for DesignTables {
    /// What every design has by itself.
    fn default() -> Self {
        DesignTables::complete(BTreeMap::new()).expect("designs have valid settings")
    }
}

impl DesignTables {
    /// What concerns design `D` alone.
    pub fn of<D: Design>(&self) -> D::Config {
        match self.0.get(D::TABLE) {
            Some(table) => table.clone().try_into().expect("it was checked"),
            // One that nobody has registered.
            None => D::Config::default(),
        }
    }

    /// Tells design `D`, and its family, something else.
    pub fn set<D: Design>(&mut self, own: &D::Config) {
        let table = Table::try_from(own).expect("settings are a table");
        self.0.insert(D::TABLE.into(), table);
    }

    /// These values, with what every other key has by itself.
    fn complete(mut given: BTreeMap<String, Table>) -> Result<DesignTables, String> {
        let mut all = BTreeMap::new();
        for entry in designs::all() {
            if all.contains_key(entry.table) {
                continue;
            }
            let table = given.remove(entry.table).unwrap_or_default();
            let table = (entry.complete)(table).map_err(|error| error.message().to_string())?;
            all.insert(entry.table.to_string(), table);
        }
        match given.keys().next() {
            None => Ok(DesignTables(all)),
            Some(name) => Err(format!("no design has the table '{name}'")),
        }
    }

    /// Checks every value.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let known = designs::all().into_iter();
        let mut tables = known.filter_map(|entry| Some((entry, self.0.get(entry.table)?)));
        tables.try_for_each(|(entry, table)| (entry.check)(table))
    }
}

impl<'de> Deserialize<'de> for DesignTables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = BTreeMap::deserialize(deserializer)?;
        DesignTables::complete(given).map_err(serde::de::Error::custom)
    }
}
