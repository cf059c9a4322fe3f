//! Dirty pages go to their files. Who syncs a file has those written that are dirty when it begins, and no later ones.

use std::ops::Range;

use wharf_files::{By, FileError, FileSystem, Sync};
use wharf_runtime::Op;

use super::blocks::{Dirty, Epoch};
use super::{Near, PAGE, RUN_PAGES_MAX, cpu};
use crate::features::files::lines::FileSystemOfDrive;
use crate::features::files::writers::write_bytes;

/// A run of pages that was written to its file, or that failed.
type WrittenRun = (Dirty, Result<(), FileError>);

impl Near {
    /// Has pages of a range that are dirty written to the file, until none is. For one who is alone in the file, or keeps others from
    /// writing there: else it might not end.
    pub(super) async fn write_back(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        pages: &Range<u64>,
    ) -> Result<(), FileError> {
        self.write_back_of(fs, number, pages, Epoch::LAST).await
    }

    /// Has pages of a range that are dirty now written to the file. What becomes dirty meanwhile, again or for the first time, stays so: this
    /// ends, whatever others write. For one who is inside.
    pub(super) async fn write_back_now(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        pages: &Range<u64>,
    ) -> Result<(), FileError> {
        self.collect();
        let epoch = self.blocks.borrow_mut().end_epoch();
        self.write_back_of(fs, number, pages, epoch).await
    }

    async fn write_back_of(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        pages: &Range<u64>,
        epoch: Epoch,
    ) -> Result<(), FileError> {
        loop {
            let mut runs = Vec::new();
            while let Some(run) = self.write_next(fs, number, pages, epoch).await {
                let goes_on = run.1.is_ok();
                runs.push(run);
                // What is protected is so until the media have it for certain: once for many runs.
                if !(self.is_protected() && goes_on) {
                    break;
                }
            }
            if !runs.is_empty() {
                self.end_runs(fs, number, runs).await?;
            } else if self.blocks.borrow().is_writing(number, pages, epoch) {
                // Others do so: if it fails for them, it is tried again here.
                self.changed().await;
            } else {
                return Ok(());
            }
        }
    }

    /// Writes the next dirty pages of a range, if there are any.
    async fn write_next(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        pages: &Range<u64>,
        epoch: Epoch,
    ) -> Option<WrittenRun> {
        self.collect();
        let run = self
            .blocks
            .borrow_mut()
            .begin_writing(number, pages, RUN_PAGES_MAX, epoch)?;
        let mut copy = Vec::with_capacity(run.memory.len() * PAGE as usize);
        for memory in &run.memory {
            let memory = *memory;
            let take = || self.with_page(memory, |page| copy.extend_from_slice(page));
            cpu().work(Op::DriveCopy, take);
        }
        self.moved(run.memory.len() as u32).await;
        let written = self.write_run(fs, number, run.first * PAGE, &copy).await;
        Some((run, written))
    }

    /// Runs that were written are: if they are protected, once they are durable.
    async fn end_runs(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        runs: Vec<WrittenRun>,
    ) -> Result<(), FileError> {
        let durable = match self.is_protected() {
            true => fs.sync(number, Sync::Data).await,
            false => Ok(()),
        };
        self.keep_if_cut();
        let mut outcome = durable;
        for (run, written) in runs {
            let is_done = written.is_ok() && durable.is_ok();
            let mut blocks = self.blocks.borrow_mut();
            blocks.end_writing(number, &run, is_done);
            if is_done {
                self.count(|counts| counts.written_pages += run.memory.len() as u64);
            }
            outcome = outcome.and(written);
        }
        self.wake();
        outcome
    }

    /// Writes bytes to a file, as far as it goes.
    async fn write_run(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        from: u64,
        bytes: &[u8],
    ) -> Result<(), FileError> {
        let size = fs.attributes(number).await?.bytes;
        let end = size.saturating_sub(from).min(bytes.len() as u64) as usize;
        let writer = self.writers.borrow().get(&number).cloned();
        let writer = writer.expect("who made it dirty is known");
        let by = By {
            caller: &writer.caller,
            now_ns: writer.changed_ns,
        };
        write_bytes(fs, by, number, from, &bytes[..end]).await
    }
}
