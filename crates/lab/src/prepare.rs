//! Drives as a run finds them: empty, holding the workload's pages, in steady state, from an image,
//! or as copies of drives that were brought to steady state once for many runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use wharf_drive::config::{FileSystemKind, NewFiles};
use wharf_drive::ftl::{Overwrite, Precondition};
use wharf_drive::{Drive, DriveConfig};
use wharf_files::block::Make;
use wharf_files::gpt::Guid;
use wharf_runtime::Seed;

use crate::input::{Plan, joined};
use crate::replay::{DeviceGroup, Prepare, RunError, Setup};

/// Builds a drive of this configuration and prepares it: the one at `index` of its group, and at
/// `number` of all.
///
/// # Errors
/// A wrong configuration, an unusable image, or no memory.
pub(crate) fn drive(
    setup: &Setup,
    config: DriveConfig,
    plan: &Plan,
    (group, index, number): (&DeviceGroup, u32, u32),
) -> Result<Drive, RunError> {
    let is_home = group.role == setup.home().role;
    match &setup.prepare {
        // What was never written is read as what was, and overwriting wears nothing out.
        Prepare::Touched | Prepare::Steady | Prepare::Stock(_) if config.as_disk().is_some() => {
            Ok(Drive::new(config)?)
        }
        Prepare::Touched if is_home => {
            Ok(Drive::new(config)?.fill(&pages_on_drive(group, plan, index))?)
        }
        Prepare::Image(path) if is_home => Ok(Drive::load(config, path)?),
        Prepare::Steady => {
            let steady = steady(steady_seed(setup.seed, number));
            Ok(Drive::new(config)?.precondition(&steady)?.0)
        }
        Prepare::Stock(stock) => stock.take(&group.drive, setup.seed, number),
        Prepare::Empty | Prepare::Touched | Prepare::Image(_) => Ok(Drive::new(config)?),
    }
}

/// A drive whose cores run a new file system: wfs, if its configuration names no other. In memory of its own it has so many bytes of
/// the cache, beside what its configuration says.
///
/// # Errors
/// As for any other.
pub(crate) fn with_files(mut config: DriveConfig, near_bytes: u64) -> Result<Drive, RunError> {
    config.file_system.get_or_insert(FileSystemKind::Wfs);
    let memory = &mut config.memory;
    memory.bytes = memory.bytes - memory.near_bytes + near_bytes;
    memory.near_bytes = near_bytes;
    Ok(Drive::new(config)?.with_new_files(NEW_FILES))
}

/// The same in all runs, so that equal runs are equal.
const NEW_FILES: NewFiles = NewFiles {
    disk: Guid([1; 16]),
    partition: Guid([2; 16]),
    make: Make {
        file_system: 1,
        hash_key: [1, 2],
        now_ns: 0,
        uid: 0,
        gid: 0,
        mode: 0o755,
    },
};

/// The seed by which drive `index` is overwritten.
fn steady_seed(seed: u64, index: u32) -> Seed {
    Seed(seed).child("prepare").index(u64::from(index))
}

/// A prepared drive by its configuration, seed and index.
type Shelf = BTreeMap<(String, u64, u32), Drive>;

/// What flash went through before it is stocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Age {
    /// Every page was written once, in order: collection begins soon and finds whole blocks of garbage where
    /// a workload overwrites what it wrote together.
    Filled,
    /// As [`Prepare::Steady`]: filled, then overwritten at random until collection is steady.
    Steady,
}

/// Drives of some age, each prepared when it is first asked for and copied from then on, so that all
/// designs start from the same flash and pay for its ageing once. Media must be in memory.
pub struct Stock {
    age: Age,
    shelf: Mutex<Shelf>,
}

impl Stock {
    /// An empty stock of drives of this age.
    pub fn new(age: Age) -> Stock {
        Stock {
            age,
            shelf: Mutex::default(),
        }
    }

    /// A copy of drive `index` of that configuration.
    ///
    /// # Errors
    /// As for a drive prepared anew.
    pub fn take(&self, config: &DriveConfig, seed: u64, index: u32) -> Result<Drive, RunError> {
        let shape = serde_json::to_string(config).expect("plain data");
        let mut shelf = self.shelf.lock().unwrap_or_else(|p| p.into_inner());
        let key = (shape, seed, index);
        if let Some(drive) = shelf.get(&key) {
            return Ok(drive.copy()?);
        }
        let new = Drive::new(config.clone())?;
        let overwritten = steady(steady_seed(seed, index));
        let precondition = match self.age {
            Age::Steady => overwritten,
            Age::Filled => Precondition {
                overwrite: Overwrite::Share(0.0),
                ..overwritten
            },
        };
        let prepared = new.precondition(&precondition)?.0;
        let copy = prepared.copy()?;
        shelf.insert(key, prepared);
        Ok(copy)
    }
}

impl fmt::Debug for Stock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shelf = self.shelf.lock().unwrap_or_else(|p| p.into_inner());
        write!(f, "Stock of {} drives ({:?})", shelf.len(), self.age)
    }
}

/// Fills the whole namespace, then overwrites it until collection is steady.
pub fn steady(seed: Seed) -> Precondition {
    Precondition {
        fill_share: 1.0,
        overwrite: Overwrite::UntilSteady,
        seed,
    }
}

/// The touched pages that lie on one drive of the volume, and those with their parity, as ranges of its own pages.
fn pages_on_drive(group: &DeviceGroup, plan: &Plan, index: u32) -> Vec<(u64, u64)> {
    let layout = group.layout();
    let mut pieces = Vec::new();
    for (first, end) in &plan.touched {
        for stretch in layout.stretches(*first, end - first) {
            let mut keepers = layout.keepers(stretch.page);
            if keepers.any(|drive| drive as u32 == index) {
                let local = layout.locate(stretch.page).1;
                pieces.push((local, local + stretch.pages));
            }
        }
    }
    // Several columns of a row have one parity.
    joined(pieces)
}
