//! What a loss of power leaves of the cache, where the drive's memory is protected ([`kept`](crate::kept)): each page that was written near
//! and that the media do not have.
//!
//! Such a page is of no use if its file is gone. So
//!
//! 1. before a page becomes dirty, its file's name and length are made durable, unless they are ([`Near::secure`]). From then on the number
//!    is this file's, whatever the journal brings back, for as long as the cache has the file open;
//! 2. a page is dirty until what was written back is durable, and not only written;
//! 3. what takes bytes away, which a loss of power may undo, has them written back before;
//! 4. when the power is gone, what memory has then is kept before anything changes it, and at power-on it goes to the files that are still
//!    there, as far as they go ([`Near::restore`]).

use wharf_files::{By, Errno, FileError, FileSystem, Sync};

use super::{Near, PAGE};
use crate::features::files::lines::FileSystemOfDrive;
use crate::features::files::writers::write_bytes;
use crate::kept::{KeptPage, Protection};

impl Near {
    fn protection(&self) -> Option<&Protection> {
        self.memory.as_ref()?.protection()
    }

    /// Whether what is dirty is there after a loss of power.
    pub(super) fn is_protected(&self) -> bool {
        self.protection().is_some()
    }

    /// Has a file be there after a loss of power, with its `size` bytes, if pages of it are protected. For one who is inside.
    pub(super) async fn secure(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        size: u64,
    ) -> Result<(), FileError> {
        let durable = self.durable.borrow().get(&number).copied();
        if !self.is_protected() || durable.is_some_and(|durable| durable >= size) {
            return Ok(());
        }
        fs.sync(number, Sync::All).await?;
        self.durable.borrow_mut().insert(number, size);
        Ok(())
    }

    /// From this byte on, a file may be what it is for now only.
    pub(super) fn durable_until(&self, number: u64, bytes: u64) {
        if let Some(durable) = self.durable.borrow_mut().get_mut(&number) {
            *durable = bytes.min(*durable);
        }
    }

    /// Keeps what memory has, if the power has gone since anybody looked. For one who is about to change it.
    #[inline]
    pub(super) fn keep_if_cut(&self) {
        if self.protection().is_some_and(Protection::is_cut) {
            self.keep();
        }
    }

    /// Keeps what memory has: once, and not before what was kept the last time is durable.
    pub(super) fn keep(&self) {
        let Some(protection) = self.protection() else {
            return;
        };
        if !self.may_keep.replace(false) || std::thread::panicking() {
            return;
        }
        self.collect();
        let writers = self.writers.borrow();
        let copy = |(number, page, memory)| {
            let writer = &writers[&number];
            KeptPage {
                number,
                page,
                bytes: self.with_page(memory, |page| page.into()),
                caller: (*writer.caller).clone(),
                changed_ns: writer.changed_ns,
            }
        };
        let unwritten = self.blocks.borrow().unwritten();
        protection.keep(unwritten.into_iter().map(copy).collect());
    }

    /// The power is back: what was kept goes to the files. `is_new` if there are none of those that it is of.
    ///
    /// # Errors
    /// If it cannot be made durable: then it stays kept.
    pub(in crate::features::files) async fn restore(
        &self,
        fs: &FileSystemOfDrive,
        is_new: bool,
    ) -> Result<(), FileError> {
        let Some(protection) = self.protection() else {
            return Ok(());
        };
        let kept = match is_new {
            true => Vec::new(),
            false => protection.kept(),
        };
        for page in &kept {
            let restored = restore_page(fs, page).await;
            self.count(|counts| match restored {
                Ok(true) => counts.restored_pages += 1,
                // Its file is gone, or does not go so far any more.
                Ok(false) => {}
                Err(_) => counts.lost_pages += 1,
            });
        }
        if !kept.is_empty() {
            fs.sync_all().await?;
        }
        protection.give_up();
        self.may_keep.set(!protection.is_cut());
        Ok(())
    }
}

/// Writes a page that was kept to its file; false if there is nothing to write it to.
async fn restore_page(fs: &FileSystemOfDrive, page: &KeptPage) -> Result<bool, FileError> {
    let number = page.number;
    match fs.open(number).await {
        Ok(()) => {}
        Err(FileError::Errno(Errno::ESTALE | Errno::ENOENT)) => return Ok(false),
        Err(error) => return Err(error),
    }
    let by = By {
        caller: &page.caller,
        now_ns: page.changed_ns,
    };
    let from = page.page * PAGE;
    let size = fs.attributes(number).await.map(|found| found.bytes);
    let bytes = |size: u64| size.saturating_sub(from).min(PAGE) as usize;
    let written = match size.map(bytes) {
        Ok(0) => Ok(false),
        Ok(bytes) => {
            let written = write_bytes(fs, by, number, from, &page.bytes[..bytes]).await;
            written.map(|()| true)
        }
        Err(error) => Err(error),
    };
    fs.close(number).await?;
    written
}
