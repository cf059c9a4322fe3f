//! Which tables a store has open: those that were used last, as LevelDB's table cache has them (`db/table_cache.cc`).

use std::collections::BTreeMap;

/// Tables that are open at most: `max_open_files` of 1000, less those for other files (`kNumNonTableCacheFiles`, `db/db_impl.cc`).
pub(super) const TABLES_MAX: usize = 990;

/// Files of open tables, by when they were used last.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenTables {
    uses: u64,
    by_use: BTreeMap<u64, u32>,
    last_use: BTreeMap<u32, u64>,
}

impl OpenTables {
    /// A table is used. Tells whether it is opened for that, and the one that is closed in its place.
    pub(super) fn touch(&mut self, file: u32) -> (bool, Option<u32>) {
        self.uses += 1;
        self.by_use.insert(self.uses, file);
        if let Some(before) = self.last_use.insert(file, self.uses) {
            self.by_use.remove(&before);
            return (false, None);
        }
        let is_full = self.last_use.len() > TABLES_MAX;
        let left = is_full.then(|| self.by_use.pop_first()).flatten();
        let left = left.map(|(_, file)| file);
        if let Some(file) = left {
            self.last_use.remove(&file);
        }
        (true, left)
    }

    /// A table goes. Tells whether it was open.
    pub(super) fn close(&mut self, file: u32) -> bool {
        let last = self.last_use.remove(&file);
        last.is_some_and(|last| self.by_use.remove(&last).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_that_was_used_least_lately_makes_room() {
        let mut open = OpenTables::default();
        let most = TABLES_MAX as u32;
        for file in 0..most {
            assert_eq!(open.touch(file), (true, None));
        }
        assert_eq!(open.touch(0), (false, None));
        assert_eq!(open.touch(most), (true, Some(1)));
        assert!(open.close(2) && !open.close(2) && !open.close(1));
        assert_eq!(open.touch(1), (true, None));
        assert_eq!(open.touch(2), (true, Some(3)));
    }
}
