//! Mapping sectors in memory: as many groups as there is memory for, those that were used last.
//!
//! A group that was changed stays until [`MappingCache::write_back`] has made it durable, which comes after
//! its chunks are.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::BackingError;
use super::chunks::Row;
use super::mapping;
use super::media::MetadataStore;

/// Sectors of the metadata store before the mapping: the owner's record.
pub const MAPPING_START: u64 = 1;

#[derive(Debug)]
struct Group {
    rows: Vec<Row>,
    is_dirty: bool,
    used: u64,
}

/// See the [module](self).
pub struct MappingCache<M> {
    store: M,
    groups_max: usize,
    /// Granules of all zones.
    granules: u64,
    groups: RefCell<BTreeMap<u64, Group>>,
    /// Groups by when they were used.
    by_use: RefCell<BTreeMap<u64, u64>>,
    uses: Cell<u64>,
    /// Counts what makes a sector that was read meanwhile out of date.
    changes: Cell<u64>,
    dirty: Cell<usize>,
    /// Rows of all groups.
    rows: Cell<usize>,
}

impl<M: MetadataStore> MappingCache<M> {
    /// An empty cache of `groups_max` groups, whose chunks lie within so many granules.
    pub fn new(store: M, groups_max: usize, granules: u64) -> MappingCache<M> {
        MappingCache {
            store,
            groups_max: groups_max.max(1),
            granules,
            groups: RefCell::default(),
            by_use: RefCell::default(),
            uses: Cell::new(0),
            changes: Cell::new(0),
            dirty: Cell::new(0),
            rows: Cell::new(0),
        }
    }

    /// Bytes that groups and rows take.
    pub fn memory_bytes(&self) -> usize {
        let of_group = size_of::<Group>() + 4 * size_of::<u64>();
        self.groups() * of_group + self.rows.get() * size_of::<Row>()
    }

    /// What it is written to.
    pub fn store(&self) -> &M {
        &self.store
    }

    /// Groups in memory.
    pub fn groups(&self) -> usize {
        self.groups.borrow().len()
    }

    /// Groups that must be written back before there is room for others.
    pub fn is_pressing(&self) -> bool {
        self.dirty.get() * 2 > self.groups_max
    }

    /// The rows of a group.
    ///
    /// # Errors
    /// A sector that cannot be read, or is damaged.
    pub async fn rows(&self, group: u64) -> Result<Vec<Row>, BackingError> {
        loop {
            if let Some(rows) = self.look_up(group) {
                return Ok(rows);
            }
            let changes = self.changes.get();
            let mut sector = vec![0; super::format::SECTOR_BYTES];
            self.store.read(MAPPING_START + group, &mut sector).await?;
            if changes != self.changes.get() {
                // It may have been changed, written and thrown out since.
                continue;
            }
            let rows = mapping::decode(group, &sector);
            let rows = rows
                .ok()
                .filter(|rows| rows.iter().all(|row| row.granule < self.granules))
                .ok_or(BackingError::DamagedMapping { group })?;
            self.insert(group, rows.clone(), false);
            return Ok(rows);
        }
    }

    fn look_up(&self, group: u64) -> Option<Vec<Row>> {
        let mut groups = self.groups.borrow_mut();
        let found = groups.get_mut(&group)?;
        self.touch(group, found);
        Some(found.rows.clone())
    }

    fn touch(&self, group: u64, found: &mut Group) {
        let now = self.uses.get() + 1;
        self.uses.set(now);
        let mut by_use = self.by_use.borrow_mut();
        by_use.remove(&found.used);
        by_use.insert(now, group);
        found.used = now;
    }

    fn insert(&self, group: u64, rows: Vec<Row>, is_dirty: bool) {
        let mut groups = self.groups.borrow_mut();
        let mut held = Group {
            rows,
            is_dirty,
            used: 0,
        };
        self.touch(group, &mut held);
        self.rows.set(self.rows.get() + held.rows.len());
        if let Some(before) = groups.insert(group, held) {
            self.by_use.borrow_mut().remove(&before.used);
            self.rows.set(self.rows.get() - before.rows.len());
            self.dirty
                .set(self.dirty.get() - usize::from(before.is_dirty));
        }
        self.dirty.set(self.dirty.get() + usize::from(is_dirty));
        while groups.len() > self.groups_max {
            let by_use = self.by_use.borrow();
            let oldest = by_use.iter().find(|(_, group)| !groups[group].is_dirty);
            let Some((used, group)) = oldest.map(|(used, group)| (*used, *group)) else {
                break;
            };
            drop(by_use);
            self.by_use.borrow_mut().remove(&used);
            if let Some(left) = groups.remove(&group) {
                self.rows.set(self.rows.get() - left.rows.len());
            }
        }
    }

    /// Changes the rows of a group.
    pub fn set(&self, group: u64, rows: Vec<Row>) {
        self.changes.set(self.changes.get() + 1);
        self.insert(group, rows, true);
    }

    /// Writes what was changed, and makes it durable. The chunks that it names are.
    ///
    /// # Errors
    /// If the store fails: what is not durable is still to be written.
    pub async fn write_back(&self) -> Result<(), BackingError> {
        let changed: Vec<(u64, Vec<Row>)> = {
            let groups = self.groups.borrow();
            let dirty = groups.iter().filter(|(_, group)| group.is_dirty);
            dirty
                .map(|(number, group)| (*number, group.rows.clone()))
                .collect()
        };
        for (group, rows) in &changed {
            let sector = mapping::encode(*group, rows);
            self.store.write(MAPPING_START + group, &sector).await?;
        }
        self.store.flush().await?;
        let mut groups = self.groups.borrow_mut();
        for (number, _) in &changed {
            let group = groups.get_mut(number).expect("what is changed stays");
            self.dirty
                .set(self.dirty.get() - usize::from(group.is_dirty));
            group.is_dirty = false;
        }
        Ok(())
    }
}
