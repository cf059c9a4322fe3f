//! Sectors that seem to be written: what is written stays in memory, and what lies below is as it
//! was.
//!
//! By this a store can be opened, which counts its openings up on the disk, by whoever is to change
//! nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;

use wharf_host::backing::{SECTOR_BYTES, Sectors};
use wharf_host::error::IoError;

/// See the module.
pub struct Overlay<S> {
    below: S,
    written: RefCell<BTreeMap<u64, Vec<u8>>>,
}

impl<S: Sectors> Overlay<S> {
    /// Over these sectors.
    pub fn new(below: S) -> Overlay<S> {
        Overlay {
            below,
            written: RefCell::default(),
        }
    }
}

impl<S: Sectors> Sectors for Overlay<S> {
    fn sectors(&self) -> u64 {
        self.below.sectors()
    }

    async fn read(&self, first: u64, out: &mut [u8]) -> Result<(), IoError> {
        self.below.read(first, out).await?;
        let end = first + (out.len() / SECTOR_BYTES) as u64;
        for (number, sector) in self.written.borrow().range(first..end) {
            let at = (number - first) as usize * SECTOR_BYTES;
            out[at..at + SECTOR_BYTES].copy_from_slice(sector);
        }
        Ok(())
    }

    async fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError> {
        let sectors = (first..).zip(data.chunks(SECTOR_BYTES));
        let sectors = sectors.map(|(number, sector)| (number, sector.to_vec()));
        self.written.borrow_mut().extend(sectors);
        Ok(())
    }

    async fn flush(&self) -> Result<(), IoError> {
        Ok(())
    }

    async fn written(&self) -> Result<Vec<(u64, u64)>, IoError> {
        let mut runs = self.below.written().await?;
        let holds = |runs: &[(u64, u64)], sector: u64| {
            let at = runs.partition_point(|run| run.0 + run.1 <= sector);
            runs.get(at).is_some_and(|run| run.0 <= sector)
        };
        let written = self.written.borrow();
        let own = written.keys().filter(|sector| !holds(&runs, **sector));
        let own: Vec<_> = own.map(|sector| (*sector, 1)).collect();
        runs.extend(own);
        runs.sort_unstable();
        Ok(runs)
    }

    async fn forget(&self, _: u64, _: u64) -> Result<(), IoError> {
        Ok(())
    }
}
