//! Operations on open files.

use wharf_files::{Allocate, DirectoryEntry, Errno, Handle, Seek, Sync};
use wharf_wire::command::Command;
use wharf_wire::file::{HandleOperation, entries};

use super::StorClient;
use super::convert::{self, file_handle};
use super::placement::About;
use crate::files::FileError;
use crate::volume::NAMESPACE;

/// Bytes of a listing that is asked for at once.
const LISTING_BYTES: usize = 16 << 10;

impl StorClient {
    pub(super) fn about_open(&self, handle: Handle) -> About {
        About::File(self.number(handle))
    }

    /// Reads from byte `offset` on, as far as the file goes; gives the number of bytes.
    ///
    /// # Errors
    /// As [`Session::read`](wharf_files::vfs::Session::read).
    pub async fn read(
        &self,
        handle: Handle,
        offset: u64,
        out: &mut [u8],
    ) -> Result<u64, FileError> {
        let about = About::Read(self.number(handle));
        let mut done = 0;
        loop {
            let rest = &mut out[done..];
            let bytes = rest.len().min(self.inner.bytes_max);
            let at = offset.saturating_add(done as u64);
            let read = Command::read_file(NAMESPACE, file_handle(handle), at, bytes as u32);
            let mut buffer = self.inner.buffer(bytes).await;
            let count = buffer.send(about, read).await? as usize;
            if count > bytes {
                return Err(Errno::EIO.into());
            }
            buffer.get(&mut rest[..count]);
            done += count;
            if count < bytes || done == out.len() {
                return Ok(done as u64);
            }
        }
    }

    /// Writes, at the end if the file was opened to append; less than all if there is no room for more, or the caller's limit
    /// is reached. Gives the number of bytes.
    ///
    /// # Errors
    /// As [`Session::write`](wharf_files::vfs::Session::write), if nothing was written.
    pub async fn write(&self, handle: Handle, offset: u64, data: &[u8]) -> Result<u64, FileError> {
        let mut done = 0;
        loop {
            let rest = &data[done..];
            let bytes = rest.len().min(self.inner.bytes_max);
            let at = offset.saturating_add(done as u64);
            let write = Command::write_file(NAMESPACE, file_handle(handle), at, bytes as u32);
            match self.write_some(handle, write, &rest[..bytes]).await {
                Ok(count) => {
                    done += count as usize;
                    if (count as usize) < bytes || done >= data.len() {
                        return Ok(done as u64);
                    }
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => return Ok(done as u64),
            }
        }
    }

    pub(super) async fn write_some(
        &self,
        handle: Handle,
        write: Command,
        data: &[u8],
    ) -> Result<u64, FileError> {
        let mut buffer = self.inner.buffer(data.len()).await;
        buffer.put(data);
        buffer.send(self.about_open(handle), write).await
    }

    /// Writes at the end, in one step with finding it; gives where that was.
    ///
    /// # Errors
    /// As for a write; `ENOSPC` if not all was written; `EINVAL` for more bytes than a command has.
    pub async fn append(&self, handle: Handle, data: &[u8]) -> Result<u64, FileError> {
        if data.len() > self.inner.bytes_max {
            return Err(Errno::EINVAL.into());
        }
        let append = Command::append_file(NAMESPACE, file_handle(handle), data.len() as u32);
        self.write_some(handle, append, data).await
    }

    /// Makes an open file or directory durable.
    ///
    /// # Errors
    /// `EBADF`, `EIO`.
    pub async fn sync(&self, handle: Handle, what: Sync) -> Result<(), FileError> {
        let data_only = what == Sync::Data;
        let sync = Command::sync_file(NAMESPACE, file_handle(handle), 0, u64::MAX, data_only);
        self.inner
            .send(self.about_open(handle), sync)
            .await
            .map(drop)
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// `EIO`.
    pub async fn sync_all(&self) -> Result<(), FileError> {
        let sync = Command::sync_files(NAMESPACE);
        self.inner.send(About::File(0), sync).await.map(drop)
    }

    /// Ends the use of the file system: closes all that this host has open, for any caller, and leaves nothing to be
    /// replayed.
    ///
    /// # Errors
    /// `EIO`.
    pub async fn leave(&self) -> Result<(), FileError> {
        let leave = Command::leave_files(NAMESPACE);
        self.inner.send(About::File(0), leave).await.map(drop)
    }

    /// Most bytes that one command moves.
    pub fn bytes_max(&self) -> usize {
        self.inner.bytes_max
    }

    /// Sets the size of an open file.
    ///
    /// # Errors
    /// As [`Session::truncate_open`](wharf_files::vfs::Session::truncate_open).
    pub async fn truncate_open(&self, handle: Handle, bytes: u64) -> Result<(), FileError> {
        let cut = HandleOperation::Truncate;
        self.operate(handle, cut, bytes, 0).await.map(drop)
    }

    /// Gives storage to a range of an open file, or takes it.
    ///
    /// # Errors
    /// As [`Session::allocate`](wharf_files::vfs::Session::allocate).
    pub async fn allocate(
        &self,
        handle: Handle,
        offset: u64,
        bytes: u64,
        what: Allocate,
    ) -> Result<(), FileError> {
        let what = convert::allocation(what);
        self.operate(handle, what, offset, bytes).await.map(drop)
    }

    /// The first byte from `offset` on that is data, or a hole.
    ///
    /// # Errors
    /// As [`Session::seek`](wharf_files::vfs::Session::seek).
    pub async fn seek(&self, handle: Handle, offset: u64, what: Seek) -> Result<u64, FileError> {
        let what = match what {
            Seek::Data => HandleOperation::SeekData,
            Seek::Hole => HandleOperation::SeekHole,
        };
        self.operate(handle, what, offset, 0).await
    }

    async fn operate(
        &self,
        handle: Handle,
        what: HandleOperation,
        offset: u64,
        bytes: u64,
    ) -> Result<u64, FileError> {
        let handle_of = file_handle(handle);
        let command = Command::handle_operation(NAMESPACE, handle_of, what, offset, bytes);
        self.inner.send(self.about_open(handle), command).await
    }

    /// Adds up to `most` entries of an open directory to `entries`, those behind `cookie`. True if there are no more.
    ///
    /// # Errors
    /// As [`Session::list`](wharf_files::vfs::Session::list).
    pub async fn list(
        &self,
        handle: Handle,
        cookie: u64,
        most: usize,
        found: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError> {
        let bytes = LISTING_BYTES.min(self.inner.bytes_max);
        let list = Command::read_directory(NAMESPACE, file_handle(handle), cookie, bytes as u32);
        let mut buffer = self.inner.buffer(bytes).await;
        let count = buffer.send(self.about_open(handle), list).await? as usize;
        let mut listing = vec![0; count.min(bytes)];
        buffer.get(&mut listing);
        let (rows, is_end) = entries(&listing);
        let mut rows = rows.peekable();
        for _ in 0..most {
            let Some((row, name)) = rows.next() else {
                break;
            };
            found.push(DirectoryEntry {
                cookie: row.cookie,
                number: row.number,
                kind: convert::kind(row.kind)?,
                name: name.into(),
            });
        }
        Ok(is_end && rows.peek().is_none())
    }

    /// Gives a handle back.
    ///
    /// # Errors
    /// `EBADF`. After any other error it is closed all the same.
    pub async fn close(&self, handle: Handle) -> Result<(), FileError> {
        let close = Command::close_file(NAMESPACE, file_handle(handle));
        self.inner
            .send(self.about_open(handle), close)
            .await
            .map(drop)
    }
}
