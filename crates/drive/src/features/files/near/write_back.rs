//! Dirty pages go to their files.

use std::ops::Range;

use wharf_files::{By, Errno, FileError, FileSystem, In, Write};
use wharf_runtime::Op;

use super::{Near, PAGE, RUN_PAGES_MAX, cpu};
use crate::features::files::lines::FileSystemOfDrive;

impl Near {
    /// Has pages of a range that are dirty written to the file. For one who is inside.
    pub(super) async fn write_back(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        pages: &Range<u64>,
    ) -> Result<(), FileError> {
        loop {
            self.collect();
            let begun = self
                .blocks
                .borrow_mut()
                .begin_writing(number, pages, RUN_PAGES_MAX);
            let Some(run) = begun else {
                if !self.blocks.borrow().is_writing(number, pages) {
                    return Ok(());
                }
                // Others do so: if it fails for them, it is tried again here.
                self.changed().await;
                continue;
            };
            let mut copy = Vec::with_capacity(run.memory.len() * PAGE as usize);
            for memory in &run.memory {
                let memory = *memory;
                let take = || self.with_page(memory, |page| copy.extend_from_slice(page));
                cpu().work(Op::DriveCopy, take);
            }
            self.moved(run.memory.len() as u32).await;
            let written = self.write_run(fs, number, run.first * PAGE, &copy).await;
            let is_done = written.is_ok();
            self.blocks.borrow_mut().end_writing(number, &run, is_done);
            self.wake();
            written?;
            self.count(|counts| counts.written_pages += run.memory.len() as u64);
        }
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
        let mut done = 0;
        while done < end {
            let write = Write::at(from + done as u64);
            let data = In::Bytes(&bytes[done..end]);
            let written = fs.write(by, number, write, data).await?;
            if written.bytes == 0 {
                return Err(Errno::ENOSPC.into());
            }
            done += written.bytes as usize;
        }
        Ok(())
    }
}
