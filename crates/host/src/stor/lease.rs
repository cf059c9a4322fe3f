//! Leases: what a client keeps of a file, it is told of before others change it (section 6.7 of `docs/command-set.md`).

use wharf_files::{Attributes, Errno, Handle};
use wharf_wire::command::Command;
use wharf_wire::dma::{DmaRegion, RegisterError};
use wharf_wire::file::{FileAttributes, NearResult};
use zerocopy::{FromZeros, IntoBytes};

use super::convert::{self, file_handle};
use super::design::LEASE_PAGES;
use super::pages::PAGE;
use super::placement::About;
use super::{Stor, StorClient};
use crate::files::FileError;
use crate::volume::NAMESPACE;

/// What was answered when a lease was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Leased {
    /// The number that the word has as long as the lease lasts; 0 if there is none.
    pub lease: u64,
    /// The file's attributes, after the lease was given.
    pub attributes: Attributes,
}

impl Stor {
    /// Memory for the words of leases, one page of them, and behind it the [write area](wharf_wire::file::write_area) and the
    /// [lock area](wharf_wire::file::lock_area). A client that another process serves has it once.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn lease_pages(&self) -> Result<DmaRegion, RegisterError> {
        self.space().register_whole(LEASE_PAGES)
    }
}

impl StorClient {
    /// Asks for a lease of an open file, told by the word at address `word`.
    ///
    /// # Errors
    /// As [`StorClient::stat`].
    pub async fn lease(&self, handle: Handle, word: u64) -> Result<Leased, FileError> {
        let mut found = FileAttributes::new_zeroed();
        let bytes = size_of::<FileAttributes>();
        let command = Command::lease_file(NAMESPACE, file_handle(handle), word, bytes as u32);
        let mut buffer = self.inner.buffer(bytes).await;
        let lease = buffer.send(self.about_open(handle), command).await?;
        buffer.get(found.as_mut_bytes());
        Ok(Leased {
            lease,
            attributes: convert::attributes(&found)?,
        })
    }

    /// Asks for a lease to write an open file, told by the word at address `word` of the write area; gives its number, or 0 if
    /// there is none.
    ///
    /// # Errors
    /// As [`StorClient::stat`]; `EBADF` if it is not open for writing.
    pub async fn lease_writes(&self, handle: Handle, word: u64) -> Result<u64, FileError> {
        let bytes = size_of::<FileAttributes>();
        let command = Command::lease_writes(NAMESPACE, file_handle(handle), word, bytes as u32);
        let mut buffer = self.inner.buffer(bytes).await;
        buffer.send(self.about_open(handle), command).await
    }

    /// Asks for a lease of the locks of an open file, told by the word at address `word` of the lock area; gives its number, or 0 if
    /// there is none.
    ///
    /// # Errors
    /// As [`StorClient::stat`].
    pub async fn lease_locks(&self, handle: Handle, word: u64) -> Result<u64, FileError> {
        let bytes = size_of::<FileAttributes>();
        let command = Command::lease_locks(NAMESPACE, file_handle(handle), word, bytes as u32);
        let mut buffer = self.inner.buffer(bytes).await;
        buffer.send(self.about_open(handle), command).await
    }

    /// Asks for a lease of all names, told by the word at address `word`; gives its number, or 0 if there is none.
    ///
    /// # Errors
    /// `EIO`.
    pub async fn lease_names(&self, word: u64) -> Result<u64, FileError> {
        let bytes = size_of::<FileAttributes>();
        let command = Command::lease_names(NAMESPACE, word, bytes as u32);
        self.inner
            .buffer(bytes)
            .await
            .send(About::File(0), command)
            .await
    }

    /// Reads up to `bytes` bytes, at most those of one command, from the beginning of a page on. `each` is given them page by
    /// page, the last one as far as the file goes; gives their number. They leave the cache in the drive's memory if it `takes`.
    ///
    /// # Errors
    /// As [`StorClient::read`].
    pub async fn read_pages(
        &self,
        handle: Handle,
        (offset, bytes): (u64, usize),
        takes: bool,
        mut each: impl FnMut(usize, &[u8]),
    ) -> Result<usize, FileError> {
        let bytes = bytes.min(self.inner.bytes_max);
        let file = file_handle(handle);
        let read = match takes {
            true => Command::read_near(NAMESPACE, file, offset, bytes as u32).taking(),
            false => Command::read_file(NAMESPACE, file, offset, bytes as u32),
        };
        let mut buffer = self.inner.buffer(bytes).await;
        let about = About::Read(self.number(handle));
        let result = buffer.send(about, read).await?;
        let count = match takes {
            true => NearResult::from_raw(result).bytes as usize,
            false => result as usize,
        };
        if count > bytes {
            return Err(Errno::EIO.into());
        }
        for (nth, at) in (0..count).step_by(PAGE).enumerate() {
            buffer.look(nth, (count - at).min(PAGE), |page| each(nth, page));
        }
        Ok(count)
    }
}
