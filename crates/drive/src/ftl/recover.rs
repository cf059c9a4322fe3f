//! Power-on: map and blocks from what lies on flash.
//!
//! 1. If the log begins with a checkpoint, map and blocks are as they were then, but for what names
//!    a block that was erased since.
//! 2. Every page written since (without a checkpoint, every page) says which logical page it holds
//!    and its sequence number; of several copies the newest counts.
//! 3. The log says which pages were deallocated, and when; older copies do not count.
//! 4. A partly written block is gone on with; as many were open before, so no space is lost.

use super::entry::{PAGES_MAX, Place};
use super::log::{Kind, Trim, decode_trims};
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
    /// Pages that were deallocated and then written again, which had not ended: copies older than
    /// the number do not count.
    pub held: Vec<(u32, u64)>,
    /// Pages whose entry names a block that was erased since.
    pub outdated: Vec<u32>,
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
        for (lpn, seq) in &since.held {
            self.recover_trim(*lpn, *seq, &mut valid);
        }
        // Older copies of these may lie on flash where the scan did not look.
        let hidden = since
            .held
            .iter()
            .map(|(lpn, _)| *lpn)
            .chain(since.outdated.iter().copied());
        for lpn in hidden {
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
        self.recover_packer(valid.iter().map(|valid| u64::from(*valid)).sum());
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
                self.map.prefetch(lpn as usize);
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
                // Deallocated at the checkpoint, after this was written.
                Place::Trimmed if oob.seq < since.seq => continue,
                Place::Unmapped | Place::Trimmed => self.mapped += 1,
                Place::Frame(_) => unreachable!("nothing is under way at power-on"),
            }
            valid[block as usize] += self.weight(ppn);
            self.set_place(oob.lpn, Place::Flash(ppn));
        }
        Ok(())
    }

    fn recover_trims(&mut self, log: &[Vec<u8>], valid: &mut [u32]) -> Result<(), RecoveryError> {
        for record in log {
            let Some((Kind::Trims, items)) = Kind::parse(record) else {
                return Err(RecoveryError::UnknownRecord);
            };
            for Trim { first, count, seq } in decode_trims(items) {
                let end = first
                    .checked_add(count)
                    .filter(|end| *end <= self.plan.logical_pages)
                    .ok_or(RecoveryError::UnknownRecord)?;
                self.seq = self.seq.max(seq);
                self.recovery.trimmed_pages += u64::from(count);
                for lpn in first..end {
                    self.recover_trim(lpn, seq, valid);
                }
            }
        }
        Ok(())
    }

    fn recover_trim(&mut self, lpn: u32, seq: u64, valid: &mut [u32]) {
        let Place::Flash(ppn) = self.place(lpn) else {
            return;
        };
        self.recovery.oob_reads += 1;
        // An entry of the checkpoint may name a page that is lost by now: it was older as well.
        if self.media.oob(ppn).is_none_or(|oob| oob.seq < seq) {
            valid[self.block_of(ppn) as usize] -= self.weight(ppn);
            self.mapped -= 1;
            self.set_place(lpn, Place::Trimmed);
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
        if full || !self.frontiers.reopen(&self.blocks, block, written) {
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
