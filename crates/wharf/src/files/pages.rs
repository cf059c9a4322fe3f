//! A part of a drive's pages, as a file system wants them.

use wharf_files::Fault;
use wharf_files::pages::{PAGE_BYTES, Pages, Run};
use wharf_host::direct::Direct;

use crate::store::{Client, StoreError};

/// Pages of a drive, from one of them on. The drive runs on this thread, while somebody waits.
pub struct DrivePages {
    client: Client<Direct>,
    part: Run,
}

impl DrivePages {
    /// All pages of a drive.
    pub(super) fn whole(client: Client<Direct>) -> DrivePages {
        let part = Run::new(0, client.bytes() / PAGE_BYTES as u64);
        DrivePages { client, part }
    }

    /// A part of these pages, which must be among them.
    pub(super) fn part(self, part: Run) -> DrivePages {
        debug_assert!(part.end() <= self.part.pages);
        DrivePages {
            part: Run::new(self.part.first + part.first, part.pages),
            ..self
        }
    }

    /// Ends the drive: what was written is durable then.
    ///
    /// # Errors
    /// If a page could not be written.
    pub fn close(self) -> Result<(), StoreError> {
        self.client.close()
    }

    /// Runs, each with the drive's byte that it begins at and its range of the buffer.
    fn each(
        &self,
        runs: &[Run],
        fault: fn(u64) -> Fault,
        mut each: impl FnMut(u64, std::ops::Range<usize>) -> bool,
    ) -> Result<(), Fault> {
        let mut at = 0;
        for run in runs {
            if run.end() > self.part.pages {
                return Err(fault(run.first.max(self.part.pages)));
            }
            let bytes = run.pages as usize * PAGE_BYTES;
            let offset = (self.part.first + run.first) * PAGE_BYTES as u64;
            if !each(offset, at..at + bytes) {
                return Err(fault(run.first));
            }
            at += bytes;
        }
        Ok(())
    }
}

fn unread(page: u64) -> Fault {
    Fault::Read { page }
}

fn unwritten(page: u64) -> Fault {
    Fault::Write { page }
}

impl Pages for DrivePages {
    fn pages(&self) -> u64 {
        self.part.pages
    }

    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        self.each(runs, unread, |offset, range| {
            self.client.read_at(offset, &mut buffer[range]).is_ok()
        })
    }

    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        self.each(runs, unwritten, |offset, range| {
            self.client.write_at(offset, &bytes[range]).is_ok()
        })
    }

    async fn flush(&self) -> Result<(), Fault> {
        self.client.flush().map_err(|_| Fault::Flush)
    }

    async fn discard(&self, runs: &[Run]) -> Result<(), Fault> {
        let mut ranges = Vec::with_capacity(runs.len());
        self.each(runs, unwritten, |offset, range| {
            let pages = (range.len() / PAGE_BYTES) as u64;
            ranges.push((offset / PAGE_BYTES as u64, pages));
            true
        })?;
        let first = runs.first().map_or(0, |run| run.first);
        let done = self.client.deallocate(&ranges);
        done.map_err(|_| unwritten(first))
    }
}
