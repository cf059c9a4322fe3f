//! Power-on: map and blocks from what lies on flash.
//!
//! 1. If the log begins with a checkpoint, map and blocks are as they were then, but for what names
//!    a block that was erased since.
//! 2. Every page written since (without a checkpoint, every page) says which logical page it holds
//!    and its sequence number; of several copies the newest counts.
//! 3. The log says which pages were deallocated or made zeros, and when; older copies do not count.
//! 4. A partly written block is gone on with; as many were open before, so no space is lost.

use std::ops::Range;

use super::entry::{PAGES_MAX, Place};
use super::log::Kind;
use super::space::PAGE_GRANULES;
use super::trims::{Trim, decode_runs, decode_trims};
use super::{Finished, Ftl};
use crate::media::{Media, MediaError};

/// Media that this drive cannot have written.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// A page names a logical page beyond the namespace.
    #[error(
        "flash page {ppn} holds logical page {lpn}, beyond the {logical_pages} of a core: \
         the image was written with another over-provisioning or number of cores"
    )]
    ForeignPage {
        /// Where it was found.
        ppn: u32,
        /// What it names.
        lpn: u32,
        /// What there is.
        logical_pages: u32,
    },
    /// The log cannot be read.
    #[error("the drive's log cannot be used: {0}")]
    Log(#[from] MediaError),
    /// The log holds something else than trims of this drive.
    #[error(
        "the drive's log holds a record of unknown form: the image was written by another version"
    )]
    UnknownRecord,
    /// A checkpoint of another drive.
    #[error(
        "the drive's log holds a checkpoint of {logical_pages} logical pages and {blocks} blocks, and a core has \
         {wanted_pages} and {wanted_blocks}: the image was written with another over-provisioning or number of cores"
    )]
    ForeignCheckpoint {
        /// Logical pages of the checkpoint.
        logical_pages: u32,
        /// Blocks of the checkpoint.
        blocks: u32,
        /// Logical pages of the core.
        wanted_pages: u32,
        /// Blocks of the core.
        wanted_blocks: u32,
    },
    /// More pages than the map can name.
    #[error(
        "a core of {pages} pages is beyond the {PAGES_MAX} that a 4-byte map entry can name: use more cores"
    )]
    TooManyPages {
        /// Pages of the core.
        pages: u32,
    },
}

/// What it took to power a core on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Map entries taken from a checkpoint; 0 without one.
    pub map_entries: u64,
    /// Out-of-band areas looked at.
    pub oob_reads: u64,
    /// Logical pages named by deallocations in the log.
    pub trimmed_pages: u64,
}

/// What recovery has to look at beyond a checkpoint.
#[derive(Debug, Default)]
pub(super) struct Since {
    /// The checkpoint's sequence number.
    pub seq: u64,
    /// For each block the first page programmed since, or `None` if it was erased since.
    pub from: Vec<Option<u32>>,
    /// Pages that held nothing or zeros and were then written, which had not ended, in the order of
    /// their numbers.
    pub held: Vec<Held>,
    /// Pages whose entry names a block that was erased since, in the order of their numbers.
    pub outdated: Vec<u32>,
}

/// A page of which copies older than `before` do not count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub lpn: u32,
    pub before: u64,
    /// It held zeros; else nothing.
    pub zeros: bool,
}

impl Since {
    /// True if a copy of a page without an entry does not count, although it was found where programs were
    /// under way at the checkpoint: the page had been deallocated.
    fn is_dead(&self, lpn: u32, seq: u64) -> bool {
        seq < self.seq
            && self
                .held
                .binary_search_by_key(&lpn, |held| held.lpn)
                .is_err()
            && self.outdated.binary_search(&lpn).is_err()
    }
}

impl Ftl {
    pub(super) fn recover(&mut self) -> Result<(), RecoveryError> {
        let pages = self.media.geometry().numbers();
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        if pages > PAGES_MAX {
            return Err(RecoveryError::TooManyPages { pages });
        }
        let log = self.media.log_read()?;
        let mut valid = vec![0u32; self.plan.blocks as usize];
        let loaded = self.load_checkpoint(&log, &mut valid)?;
        let (since, records) = loaded.unwrap_or_else(|| {
            let from = vec![None; self.plan.blocks as usize];
            (
                Since {
                    from,
                    ..Since::default()
                },
                0,
            )
        });
        for block in 0..self.plan.blocks {
            self.recover_block(block, &since, &mut valid)?;
        }
        for held in &since.held {
            self.recover_trim(held.lpn, held.before, held.zeros, &mut valid);
        }
        // Older copies of these may lie on flash where the scan did not look.
        let held = since.held.iter().map(|held| held.lpn);
        for lpn in held.chain(since.outdated.iter().copied()) {
            if self.place(lpn) == Place::Unmapped {
                self.set_place(lpn, Place::Trimmed);
            }
        }
        self.recover_trims(&log[records..], &mut valid)?;
        let mut erased = Vec::new();
        for block in 0..self.plan.blocks {
            let shrunk =
                since.from[block as usize].is_some_and(|w| w > self.media.written_pages(block));
            if shrunk {
                self.set_aside(block, valid[block as usize]);
            } else {
                self.sort_block(block, valid[block as usize], &mut erased);
            }
        }
        self.blocks.set_all_free(&erased);
        self.recover_packer(&valid);
        self.read_only = !self.has_spare_blocks();
        Ok(())
    }

    fn recover_block(
        &mut self,
        block: u32,
        since: &Since,
        valid: &mut [u32],
    ) -> Result<(), RecoveryError> {
        let first = block * self.plan.extents_per_block;
        let from = since.from[block as usize].unwrap_or(0);
        let pages = first + from..first + self.media.written_pages(block).max(from);
        self.programs_since_checkpoint += pages.len() as u64;
        for ppn in pages.clone() {
            // Entries lie anywhere in the map: fetching those of a block at once is much faster.
            if let Some(lpn) = self.media.lpn(ppn) {
                self.map.prefetch(lpn);
            }
        }
        for ppn in pages {
            self.recovery.oob_reads += 1;
            let Some(oob) = self.media.oob(ppn) else {
                continue;
            };
            if oob.lpn >= self.plan.logical_pages {
                let (lpn, logical_pages) = (oob.lpn, self.plan.logical_pages);
                return Err(RecoveryError::ForeignPage {
                    ppn,
                    lpn,
                    logical_pages,
                });
            }
            self.seq = self.seq.max(oob.seq);
            match self.place(oob.lpn) {
                Place::Flash(other) => {
                    self.recovery.oob_reads += 1;
                    if self.media.oob(other).is_some_and(|o| o.seq > oob.seq) {
                        continue;
                    }
                    valid[self.block_of(other) as usize] -= self.weight(other);
                }
                // Deallocated or zeros at the checkpoint, after this was written.
                Place::Trimmed | Place::Zero if oob.seq < since.seq => continue,
                Place::Unmapped if since.is_dead(oob.lpn, oob.seq) => continue,
                Place::Zero => self.used_granules += PAGE_GRANULES,
                Place::Unmapped | Place::Trimmed => {
                    self.mapped += 1;
                    self.used_granules += PAGE_GRANULES;
                }
                Place::Frame(_) => unreachable!("nothing is under way at power-on"),
            }
            valid[block as usize] += self.weight(ppn);
            self.set_place(oob.lpn, Place::Flash(ppn));
        }
        Ok(())
    }

    fn recover_trims(&mut self, log: &[Vec<u8>], valid: &mut [u32]) -> Result<(), RecoveryError> {
        for record in log {
            let trims: Vec<Trim> = match Kind::parse(record) {
                Some((Kind::Trims | Kind::Changes, items)) => decode_trims(items).collect(),
                Some((Kind::Runs, items)) => decode_runs(items)?,
                _ => return Err(RecoveryError::UnknownRecord),
            };
            for trim in trims {
                let end = trim.first.checked_add(trim.count);
                let end = end.filter(|end| *end <= self.plan.logical_pages);
                let end = end.ok_or(RecoveryError::UnknownRecord)?;
                self.seq = self.seq.max(trim.seq);
                self.recovery.trimmed_pages += u64::from(trim.count);
                let mut at = trim.first;
                while let Some(lpn) = self.next_changed(at..end, trim.zeros) {
                    self.recover_trim(lpn, trim.seq, trim.zeros, valid);
                    at = lpn + 1;
                }
            }
        }
        Ok(())
    }

    /// The first page of a range that a change concerns: zeros concern all of them.
    fn next_changed(&self, range: Range<u32>, zeros: bool) -> Option<u32> {
        match zeros {
            true => (!range.is_empty()).then_some(range.start),
            false => self.map.next_known(range),
        }
    }

    /// A page was deallocated, or made zeros, after all copies of a number below `seq` were written.
    fn recover_trim(&mut self, lpn: u32, seq: u64, zeros: bool, valid: &mut [u32]) {
        let place = self.place(lpn);
        if let Place::Flash(ppn) = place {
            self.recovery.oob_reads += 1;
            // An entry of the checkpoint may name a page that is lost by now: it was older as well.
            if self.media.oob(ppn).is_some_and(|oob| oob.seq >= seq) {
                return;
            }
            valid[self.block_of(ppn) as usize] -= self.weight(ppn);
            self.used_granules -= PAGE_GRANULES;
        }
        match (place.is_mapped(), zeros) {
            (true, false) => {
                self.mapped -= 1;
                self.set_place(lpn, Place::Trimmed);
            }
            (is_mapped, true) => {
                self.mapped += u32::from(!is_mapped);
                self.set_place(lpn, Place::Zero);
            }
            (false, false) => {}
        }
    }

    /// Gives a block its place; one that is to be free is added to `erased`, with its wear.
    fn sort_block(&mut self, block: u32, valid: u32, erased: &mut Vec<(u32, u32)>) {
        let (written, wear) = (
            self.media.written_slots(block),
            self.media.erase_count(block),
        );
        if written == 0 && self.config.endurance_cycles > 0 && wear >= self.config.endurance_cycles
        {
            self.blocks.set_state(block, super::BlockState::Retired);
            return;
        }
        if written == 0 {
            erased.push((block, wear));
            return;
        }
        self.blocks.validate(block, valid);
        let full = written == self.plan.slots_per_block;
        let reopens = !full && self.media.reserve(block);
        if !reopens || !self.frontiers.reopen(&self.blocks, block, written) {
            self.blocks.close(block, self.seq);
        }
    }

    /// What powering on took.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Ends all operations under way as if their time had come: for tests and orderly shutdown.
    pub fn finish_all(&mut self) {
        self.close_units(0);
        self.finish_under_way();
    }

    /// Ends all operations under way, and leaves open units open.
    pub(super) fn finish_under_way(&mut self) {
        self.finish_due(u64::MAX, &mut Finished::default());
    }
}
