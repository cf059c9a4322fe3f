//! How well dirty sectors lie side by side: entries of equal size, or exact.

use super::Victim;

/// An entry of the table: so many dirty sectors that follow each other in address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// The first of its sectors (`FirstLBA_dc`).
    pub(super) first: u64,
    /// Sectors that it stands for (`Size_dc`).
    pub(super) sectors: u64,
    /// Of these, how many have the next sector in it too (`Cont_dc`).
    pub(super) pairs: u64,
}

/// The table: dirty sectors of one heat in ascending order, cut into entries of equal size.
///
/// It takes 24 bytes for each entry, however many sectors there are, and the sectors of an entry
/// are found again by a walk from its first. (Hao et al., section III-A, steps 1, 3 and 4.)
#[derive(Debug)]
pub(super) struct Table {
    entry_sectors: u64,
    entries: Vec<Entry>,
    /// The entry that is being filled; it has no sector at first.
    open: Entry,
    /// The sector behind the last one that was added.
    end: u64,
}

/// An entry without sectors.
const EMPTY: Entry = Entry {
    first: 0,
    sectors: 0,
    pairs: 0,
};

impl Table {
    /// A table with entries of so many sectors, at least one.
    pub(super) fn new(entry_sectors: u64) -> Table {
        Table {
            entry_sectors: entry_sectors.max(1),
            entries: Vec::new(),
            open: EMPTY,
            end: u64::MAX,
        }
    }

    /// Adds a run of sectors behind all that were added before.
    pub(super) fn add(&mut self, first: u64, count: u64) {
        let (mut first, mut left) = (first, count);
        while left > 0 {
            if self.open.sectors == 0 {
                self.open = Entry { first, ..EMPTY };
            } else if self.end == first {
                self.open.pairs += 1;
            }
            let taken = left.min(self.entry_sectors - self.open.sectors);
            self.open.sectors += taken;
            self.open.pairs += taken - 1;
            (first, left) = (first + taken, left - taken);
            self.end = first;
            if self.open.sectors == self.entry_sectors {
                self.entries.push(self.open);
                self.open = EMPTY;
            }
        }
    }

    /// Sectors that were added.
    pub(super) fn sectors(&self) -> u64 {
        self.entries.len() as u64 * self.entry_sectors + self.open.sectors
    }

    /// The entries with the most pairs, until they have `budget` sectors; of equal ones those
    /// with the lowest address.
    pub(super) fn best(mut self, budget: u64) -> Vec<Entry> {
        if self.open.sectors > 0 {
            self.entries.push(self.open);
        }
        self.entries
            .sort_by_key(|e| (std::cmp::Reverse(e.pairs), e.first));
        let mut sum = 0;
        self.entries.retain(|entry| {
            let wanted = sum < budget;
            sum += entry.sectors;
            wanted
        });
        self.entries
    }

    /// Bytes that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}

/// Every run of dirty sectors of one heat, for exact ranks: what the table approximates.
#[derive(Debug, Default)]
pub(super) struct Exact(Vec<Victim>);

impl Exact {
    /// Adds a run of sectors behind all that were added before.
    pub(super) fn add(&mut self, first: u64, count: u64) {
        match self.0.last_mut() {
            Some(last) if last.first + u64::from(last.count) == first => {
                last.count += count as u32;
            }
            _ => self.0.push(Victim {
                first,
                count: count as u32,
            }),
        }
    }

    /// Sectors that were added.
    pub(super) fn sectors(&self) -> u64 {
        self.0.iter().map(|run| u64::from(run.count)).sum()
    }

    /// The longest runs, until they have `budget` sectors; the last is cut to it.
    pub(super) fn best(mut self, budget: u64) -> Vec<Victim> {
        self.0
            .sort_by_key(|run| (std::cmp::Reverse(run.count), run.first));
        let mut left = budget;
        self.0.retain_mut(|run| {
            run.count = u64::from(run.count).min(left) as u32;
            left -= u64::from(run.count);
            run.count > 0
        });
        self.0
    }

    /// Bytes that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Victim>()
    }
}
