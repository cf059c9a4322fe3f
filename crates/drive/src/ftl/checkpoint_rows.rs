//! The sparse map in a checkpoint: rows that hold something, each with its number, the states of its
//! pages and what the checkpoint says of those that have an entry.
//!
//! A row is a number of 4-byte words: the row, its low bits (2), its high bits (2), and a word for
//! each page whose two bits are set, as in a flat map's record. Rows come in the order of their
//! numbers, and none is cut between two records.

use super::Ftl;
use super::checkpoint::ENTRIES_PER_RECORD;
use super::entry::Place;
use super::log::{Kind, word};
use super::recover::{RecoveryError, Since};
use super::sparse_map::{ROW_BYTES, ROW_PAGES};

/// Words of a row before its entries.
const ROW_WORDS: usize = ROW_BYTES as usize / 4;

impl Ftl {
    /// Adds the records of the map.
    pub(super) fn snapshot_rows(&self, records: &mut Vec<Vec<u8>>, held_before: &mut Vec<u64>) {
        let map = self.map.sparse().expect("the map is sparse");
        let mut words = Vec::new();
        for (index, row) in map.rows_from(0) {
            if words.len() + ROW_WORDS + ROW_PAGES as usize > ENTRIES_PER_RECORD {
                records.push(record_of(&words));
                words.clear();
            }
            let (low, high) = row.bits();
            words.push(index);
            words.extend([low, high].into_iter().flat_map(halves));
            for entry in map.entries(row) {
                words.push(self.entry_on_flash(*entry, held_before));
            }
        }
        if !words.is_empty() {
            records.push(record_of(&words));
        }
    }

    /// Takes the rows of a record.
    pub(super) fn load_rows(
        &mut self,
        items: &[u8],
        since: &mut Since,
        valid: &mut [u32],
        held: &mut Vec<(u32, bool)>,
    ) -> Result<(), RecoveryError> {
        let mut words = items.chunks_exact(4).map(word);
        while let Some(index) = words.next() {
            let (low, high) = (take_long(&mut words)?, take_long(&mut words)?);
            for bit in 0..ROW_PAGES {
                let state = (low >> bit & 1, high >> bit & 1);
                if state == (0, 0) {
                    continue;
                }
                let lpn = index.checked_mul(ROW_PAGES).map(|first| first + bit);
                let lpn = lpn.filter(|lpn| *lpn < self.plan.logical_pages);
                let lpn = lpn.ok_or(RecoveryError::UnknownRecord)?;
                self.recovery.map_entries += 1;
                match state {
                    (0, _) => {
                        self.mapped += 1;
                        self.set_place(lpn, Place::Zero);
                    }
                    (_, 0) => return Err(RecoveryError::UnknownRecord),
                    _ => {
                        let entry = words.next().ok_or(RecoveryError::UnknownRecord)?;
                        self.load_entry(lpn, entry, since, valid, held)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn halves(bits: u64) -> [u32; 2] {
    [bits as u32, (bits >> 32) as u32]
}

fn take_long(words: &mut impl Iterator<Item = u32>) -> Result<u64, RecoveryError> {
    match (words.next(), words.next()) {
        (Some(low), Some(high)) => Ok(u64::from(low) | u64::from(high) << 32),
        _ => Err(RecoveryError::UnknownRecord),
    }
}

fn record_of(words: &[u32]) -> Vec<u8> {
    let mut record = Kind::Rows.begin(words.len());
    words
        .iter()
        .for_each(|word| record.extend_from_slice(&word.to_le_bytes()));
    record
}
