//! Power-on: map and blocks from what lies on flash.
//!
//! 1. Every written page says which logical page it holds and its sequence number; of several copies
//!    the newest counts.
//! 2. The log says which pages were deallocated, and when; older copies do not count.
//! 3. A partly written block is gone on with; as many were open before, so no space is lost.

use super::entry::{PAGES_MAX, Place};
use super::log::decode_trims;
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
    /// More pages than the map can name.
    #[error(
        "a core of {pages} pages is beyond the {PAGES_MAX} that a 4-byte map entry can name: use more cores"
    )]
    TooManyPages {
        /// Pages of the core.
        pages: u32,
    },
}

impl Ftl {
    pub(super) fn recover(&mut self) -> Result<(), RecoveryError> {
        let pages = self.media.geometry().pages();
        if pages > PAGES_MAX {
            return Err(RecoveryError::TooManyPages { pages });
        }
        let mut valid = vec![0u32; self.plan.blocks as usize];
        for block in 0..self.plan.blocks {
            self.recover_block(block, &mut valid)?;
        }
        self.recover_trims(&mut valid)?;
        for block in 0..self.plan.blocks {
            self.sort_block(block, valid[block as usize]);
        }
        Ok(())
    }

    fn recover_block(&mut self, block: u32, valid: &mut [u32]) -> Result<(), RecoveryError> {
        let first = block * self.plan.pages_per_block;
        for ppn in first..first + self.media.written_pages(block) {
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
            if let Place::Flash(other) = self.place(oob.lpn) {
                if self.media.oob(other).is_some_and(|o| o.seq > oob.seq) {
                    continue;
                }
                valid[self.block_of(other) as usize] -= 1;
            } else {
                self.mapped += 1;
            }
            valid[block as usize] += 1;
            self.set_place(oob.lpn, Place::Flash(ppn));
        }
        Ok(())
    }

    fn recover_trims(&mut self, valid: &mut [u32]) -> Result<(), RecoveryError> {
        for record in self.media.log_read()? {
            let trims = decode_trims(&record).ok_or(RecoveryError::UnknownRecord)?;
            for trim in trims {
                let end = trim
                    .first
                    .checked_add(trim.count)
                    .filter(|end| *end <= self.plan.logical_pages);
                let end = end.ok_or(RecoveryError::UnknownRecord)?;
                self.seq = self.seq.max(trim.seq);
                for lpn in trim.first..end {
                    self.recover_trim(lpn, trim.seq, valid);
                }
            }
        }
        Ok(())
    }

    fn recover_trim(&mut self, lpn: u32, seq: u64, valid: &mut [u32]) {
        let Place::Flash(ppn) = self.place(lpn) else {
            return;
        };
        if self.media.oob(ppn).is_some_and(|oob| oob.seq < seq) {
            valid[self.block_of(ppn) as usize] -= 1;
            self.mapped -= 1;
            self.set_place(lpn, Place::Trimmed);
        }
    }

    fn sort_block(&mut self, block: u32, valid: u32) {
        let (written, wear) = (
            self.media.written_pages(block),
            self.media.erase_count(block),
        );
        if written == 0 && self.config.endurance_cycles > 0 && wear >= self.config.endurance_cycles
        {
            self.blocks.set_state(block, super::BlockState::Retired);
            return;
        }
        if written == 0 {
            self.blocks.set_free(block, wear);
            return;
        }
        (0..valid).for_each(|_| self.blocks.validate(block));
        let full = written == self.plan.pages_per_block;
        if full || !self.frontiers.reopen(&self.blocks, block, written) {
            self.blocks.close(block, self.seq);
        }
    }

    /// Ends all operations under way as if their time had come: for tests and orderly shutdown.
    pub fn finish_all(&mut self) {
        self.finish_due(u64::MAX, &mut Finished::default());
    }
}
