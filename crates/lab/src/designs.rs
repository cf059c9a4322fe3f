//! The designs by name: those that are built in, and those that a program adds to them.
//!
//! A built-in design is a folder in the host half and a line here; another one is any [`Design`]
//! that a program has [registered](register), as `examples/lru_design.rs` does. Configurations,
//! `compare` and reports know both alike.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use toml::Table;
use wharf_host::clock::Clock;
use wharf_host::design::{Design, Needs, Settings};
use wharf_host::direct::Direct;
use wharf_host::ext4_model::{Ext4Model, OnKernel, OnScale};
use wharf_host::hardware::Hardware;
use wharf_host::indexless::{
    DirectDisk, FirstIn, HalfLru, Ideal, Indexless, LruBatch, OpenCas, SecondChance, Through,
};
use wharf_host::kernel::{Falcon, Kernel, KernelDflush};
use wharf_host::nova::Nova;
use wharf_host::omni::Omni;
use wharf_host::scala::Scala;
use wharf_host::scale::{DflushAlone, Scale, Whole};
use wharf_host::stor::Stor;
use wharf_host::tri::Tri;

use crate::config::Fault;
use crate::input::Plan;
use crate::progress::Progress;
use crate::replay::{RunError, Setup, row};
use crate::result::Row;

type RunRow = fn(&Setup, &Arc<Plan>, Progress, &Arc<AtomicBool>) -> Result<Row, RunError>;

/// One design as configurations and the command line know it.
#[derive(Clone, Copy)]
pub struct DesignEntry {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a few words.
    pub summary: &'static str,
    /// Its table of the configuration: `[design.TABLE]`.
    pub table: &'static str,
    /// The keys of that table, each with its meaning.
    pub keys: &'static [(&'static str, &'static str)],
    /// Whether it has a cache in a setup.
    has_cache: fn(&Setup) -> bool,
    /// What it needs in a setup.
    needs: fn(&Setup) -> Needs,
    addressable_bytes: fn(&Setup, u64) -> u64,
    shown_bytes: fn(&Setup, u64) -> u64,
    /// Runs a plan through it.
    pub run: RunRow,
    /// Its table with these values, and where nothing is said with those that it has by itself.
    pub(crate) complete: fn(Table) -> Result<Table, toml::de::Error>,
    /// Says which value of a complete table is out of its range.
    pub(crate) check: fn(&Table) -> Result<(), Fault>,
}

impl DesignEntry {
    /// The entry of a design.
    pub const fn of<D: Design>() -> DesignEntry {
        DesignEntry {
            name: D::NAME,
            summary: D::SUMMARY,
            table: D::TABLE,
            keys: D::Config::KEYS,
            has_cache: |setup| D::has_cache(&setup.host.design.of::<D>()),
            needs: |setup| D::needs(&setup.design_config(), &setup.host.design.of::<D>()),
            addressable_bytes: |setup, bytes| {
                D::addressable_bytes(&setup.host.design.of::<D>(), bytes)
            },
            shown_bytes: |setup, bytes| D::shown_bytes(&setup.host.design.of::<D>(), bytes),
            run: row::<D>,
            complete: |given| {
                let config: D::Config = given.try_into()?;
                Ok(Table::try_from(config).expect("settings are a table"))
            },
            check: |table| {
                let config: D::Config = table.clone().try_into().expect("it is complete");
                config.check().map_err(|error| Fault::Range {
                    key: format!("design.{}.{}", D::TABLE, error.key),
                    value: error.value,
                    rule: error.rule,
                })
            },
        }
    }

    /// Whether it has a cache in a setup.
    pub fn has_cache(&self, setup: &Setup) -> bool {
        (self.has_cache)(setup)
    }

    /// What it needs in a setup.
    pub fn needs(&self, setup: &Setup) -> Needs {
        (self.needs)(setup)
    }

    /// Bytes that clients can address of drives that hold all data and have `home_bytes`.
    pub fn addressable_bytes(&self, setup: &Setup, home_bytes: u64) -> u64 {
        (self.addressable_bytes)(setup, home_bytes)
    }

    /// Bytes that the drives of the cache must show before such drives, if that is more than they may have.
    pub fn shown_bytes(&self, setup: &Setup, home_bytes: u64) -> u64 {
        (self.shown_bytes)(setup, home_bytes)
    }

    /// Whether it is a cache on drives of its own before others that hold all data.
    pub fn is_flash_cache(&self) -> bool {
        FLASH_CACHES.iter().any(|other| other.name == self.name)
    }
}

/// The designs that are built in and use drives of one kind, all for the same.
pub const DESIGNS: &[DesignEntry] = &[
    DesignEntry::of::<Direct>(),
    DesignEntry::of::<Clock>(),
    DesignEntry::of::<Scala>(),
    DesignEntry::of::<Hardware>(),
    DesignEntry::of::<Tri>(),
    DesignEntry::of::<Kernel>(),
    DesignEntry::of::<Falcon>(),
    DesignEntry::of::<KernelDflush>(),
    DesignEntry::of::<Scale<Whole>>(),
    DesignEntry::of::<Scale<DflushAlone>>(),
];

/// Those built in that are caches on drives before others, which hold all data
/// ([`Role::Backing`](wharf_host::Role)).
pub const FLASH_CACHES: &[DesignEntry] = &[
    DesignEntry::of::<Indexless<SecondChance>>(),
    DesignEntry::of::<Indexless<Ideal>>(),
    DesignEntry::of::<Indexless<HalfLru>>(),
    DesignEntry::of::<Indexless<LruBatch>>(),
    DesignEntry::of::<Indexless<FirstIn>>(),
    DesignEntry::of::<Indexless<OpenCas>>(),
    DesignEntry::of::<Indexless<Through>>(),
    DesignEntry::of::<Indexless<DirectDisk>>(),
];

/// Those built in that serve operations on files alone, in file systems of their own.
pub const FILE_DESIGNS: &[DesignEntry] = &[
    DesignEntry::of::<Ext4Model<OnKernel>>(),
    DesignEntry::of::<Ext4Model<OnScale>>(),
    DesignEntry::of::<Nova>(),
    DesignEntry::of::<Stor>(),
    DesignEntry::of::<Omni>(),
];

/// All that are built in.
pub fn built_in() -> impl Iterator<Item = &'static DesignEntry> {
    DESIGNS.iter().chain(FLASH_CACHES).chain(FILE_DESIGNS)
}

/// Those that were added.
static ADDED: Mutex<Vec<&'static DesignEntry>> = Mutex::new(Vec::new());

/// Adds a design to those that this program knows, before it loads a configuration: its table is
/// read from then on, and it is found by its name.
///
/// # Panics
/// If there is a design of its name, or its table is that of another one's family.
pub fn register<D: Design>() -> &'static DesignEntry {
    let all = all();
    assert!(
        !all.iter().any(|entry| entry.name == D::NAME),
        "there is a design '{}'",
        D::NAME
    );
    let shares = |entry: &&DesignEntry| entry.table == D::TABLE && entry.keys != D::Config::KEYS;
    assert!(
        !all.iter().copied().any(|entry| shares(&entry)),
        "the table '{}' has other keys",
        D::TABLE
    );
    let entry: &'static DesignEntry = Box::leak(Box::new(DesignEntry::of::<D>()));
    let mut added = ADDED.lock().unwrap_or_else(|p| p.into_inner());
    added.push(entry);
    entry
}

/// All designs that this program knows.
pub fn all() -> Vec<&'static DesignEntry> {
    let added = ADDED.lock().unwrap_or_else(|p| p.into_inner());
    built_in().chain(added.iter().copied()).collect()
}

/// The design of this name.
pub fn find(name: &str) -> Option<&'static DesignEntry> {
    all().into_iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn designs_of_one_table_have_the_same_keys() {
        for entry in built_in() {
            let family = built_in().filter(|other| other.table == entry.table);
            for other in family {
                assert_eq!(entry.keys, other.keys, "{} and {}", entry.name, other.name);
            }
            assert!(entry.summary.len() > 10, "{}", entry.name);
        }
    }
}
