//! Sizes and holes of files of the cache, what is known of them, and making them durable.

use wharf_files::vfs::Target;
use wharf_files::{Allocate, Attributes, Kind, SetAttributes, Sync};
use wharf_runtime::rw_gate::Entry;

use super::backing::as_file_error;
use super::data::PAGE;
use super::opened::{ALL, OpenFile};
use super::thread::Cached;
use crate::error::IoError;
use crate::files::FileError;
use crate::span::Extent;

impl Cached {
    /// Has the drive have pages, the first and the last one of which are given, of which the cache has newer ones, which it keeps.
    pub(super) async fn write_pages(&self, slot: u32, pages: (u64, u64)) -> Result<(), FileError> {
        let written = self.local.write_and_wait(slot, pages).await;
        written.map_err(as_file_error)
    }

    /// Has the drive have the pages of an extent, and the cache have them no longer. For one who is alone in the file.
    pub(super) async fn drop_pages(&self, slot: u32, extent: Extent) -> Result<(), FileError> {
        if extent.bytes == 0 {
            return Ok(());
        }
        let first = extent.first_page();
        let range = (first, first + extent.pages() - 1);
        self.write_pages(slot, range).await?;
        // Whoever syncs the file is not kept out, and may have a pin on a page.
        let dropped = self.local.expel(slot, range).await;
        dropped.map_err(as_file_error)
    }

    /// The same for the page that the end of a file, at `bytes`, lies within.
    pub(super) async fn drop_tail(&self, slot: u32, bytes: u64) -> Result<(), FileError> {
        match bytes % PAGE {
            0 => Ok(()),
            _ => self.drop_pages(slot, Extent::new(bytes, 1)).await,
        }
    }

    /// Sets the size.
    pub(super) async fn cut(&self, file: &OpenFile, bytes: u64) -> Result<(), FileError> {
        self.enter(file.slot, Entry::Alone).await;
        let cut = self.cut_alone(file, bytes).await;
        self.leave(file.slot, Entry::Alone);
        cut
    }

    async fn cut_alone(&self, file: &OpenFile, bytes: u64) -> Result<(), FileError> {
        let node = self.node(file.slot);
        let is_shorter = bytes < node.bytes();
        if is_shorter {
            // The drive makes zeros of the rest of the page.
            self.drop_tail(file.slot, bytes).await?;
            node.set_bytes(bytes);
            node.set_extent(bytes);
            self.local.cut(file.slot, bytes.div_ceil(PAGE)).await;
        }
        let cut = self.client.truncate_open(file.handle, bytes).await;
        match cut {
            Ok(()) => node.set_all(bytes),
            Err(_) if is_shorter => {
                // What was cut off here is lost; what the drive has is there still.
                let found = self.client.stat(Target::Handle(file.handle)).await;
                node.set_all(found.map_or(bytes, |found| found.bytes));
            }
            Err(_) => {}
        }
        cut
    }

    /// Makes a hole.
    pub(super) async fn punch(&self, file: &OpenFile, extent: Extent) -> Result<(), FileError> {
        self.enter(file.slot, Entry::Alone).await;
        let punched = self.punch_alone(file, extent).await;
        self.leave(file.slot, Entry::Alone);
        punched
    }

    async fn punch_alone(&self, file: &OpenFile, extent: Extent) -> Result<(), FileError> {
        let Extent { offset, bytes } = extent;
        let end = offset.saturating_add(bytes);
        let end = end.min(self.node(file.slot).bytes());
        if offset < end {
            let there = Extent::new(offset, end - offset);
            self.drop_pages(file.slot, there).await?;
        }
        let punch = self
            .client
            .allocate(file.handle, offset, bytes, Allocate::Punch);
        punch.await
    }

    /// Has the drive have the pages that a file has now, once each at most: what comes behind its end meanwhile is not waited for. So this
    /// ends beside one who goes on writing.
    async fn write_file(&self, slot: u32) -> Result<(), IoError> {
        let last = self.node(slot).extent().div_ceil(PAGE).max(1) - 1;
        self.local.write_and_wait(slot, (0, last)).await
    }

    /// Makes a file durable. Of its pages in the drive's cache those are written that are dirty when the command comes.
    pub(super) async fn sync(&self, file: &OpenFile, what: Sync) -> Result<(), FileError> {
        let failures = || self.process.shared.failures_of(file.slot);
        let written = self.write_file(file.slot);
        let written = file.told.report(failures, written).await;
        self.local.counters().flushes.add(1);
        written.map_err(as_file_error)?;
        self.client.sync(file.handle, what).await
    }

    /// Writes back the pages of all files, also of those that were closed.
    pub(super) async fn write_back_all(&self) -> Result<(), FileError> {
        let mut outcome = Ok(());
        for slot in 0..self.process.shared.files_used() {
            outcome = outcome.and(self.write_file(slot).await);
        }
        outcome.map_err(as_file_error)
    }

    /// What is known of an open file.
    pub(super) async fn attributes(&self, file: &OpenFile) -> Result<Attributes, FileError> {
        let mut found = self.client.stat(Target::Handle(file.handle)).await?;
        found.bytes = self.node(file.slot).bytes();
        Ok(found)
    }

    /// What is known of what a path names.
    pub(super) async fn stat(&self, path: &[u8], follow: bool) -> Result<Attributes, FileError> {
        let target = Target::Path(path.into(), follow);
        let mut given_up = self.with_table(|table| table.given_up());
        loop {
            let mut found = self.client.stat(target).await?;
            let (bytes, now) = self.with_table(|table| {
                let slot = table.find_live(found.number);
                // One that is just being opened is as the drive has it.
                let node = slot.map(|slot| self.node(slot));
                let node = node.filter(|node| node.is_checked());
                let bytes = node.map(|node| node.bytes());
                (bytes, table.given_up())
            });
            let is_file = found.kind == Kind::File;
            if !is_file || bytes.is_some() || given_up == now {
                found.bytes = bytes.filter(|_| is_file).unwrap_or(found.bytes);
                return Ok(found);
            }
            // It may be this file that the drive has been told more of since it was asked.
            given_up = now;
        }
    }

    /// Before attributes of what a path names are set: where times are, what is dirty is written first, as that would change them.
    pub(super) async fn settle(&self, path: &[u8], set: &SetAttributes) -> Result<(), FileError> {
        if set.accessed_ns.is_none() && set.modified_ns.is_none() {
            return Ok(());
        }
        let found = self.client.stat(Target::Path(path.into(), true)).await?;
        let live = self.with_table(|table| table.find_live(found.number));
        match live {
            Some(slot) => {
                let written = self.local.write_and_wait(slot, ALL).await;
                written.map_err(as_file_error)
            }
            None => Ok(()),
        }
    }
}
