//! Bytes of open files.

use std::ops::Deref;
use std::rc::Rc;

use super::path::At;
use super::permission::{Access, check};
use super::session::{OpenFile, Session};
use crate::arguments::{Allocate, By, Place, Seek, Sync, Write, Written};
use crate::attributes::Kind;
use crate::errno::{Errno, FileError};
use crate::file_system::FileSystem;
use crate::flags::Handle;
use crate::limits::FILE_BYTES_MAX;
use crate::payload::{In, Out};

impl<P: Deref<Target: FileSystem>> Session<P> {
    /// Reads from byte `offset` on, as far as the file goes; gives the number of bytes.
    ///
    /// # Errors
    /// `EBADF` (also if it was not opened for reading), `EISDIR`, `EINVAL` (an offset of 2^63 or
    /// more), `EIO`.
    pub async fn read(
        &self,
        now_ns: u64,
        handle: Handle,
        offset: u64,
        out: impl Into<Out<'_>>,
    ) -> Result<u64, FileError> {
        let out = out.into();
        let open = self.open_file(handle)?;
        if !open.flags.read {
            return Err(Errno::EBADF.into());
        }
        check_range(offset, out.len())?;
        self.fs.read(open.number, offset, out, now_ns).await
    }

    /// Writes, at the end if the file was opened to append; less than all if there is no room for
    /// more, or the caller's limit is reached.
    ///
    /// # Errors
    /// `EBADF` (also if it was not opened for writing), `EINVAL` (an offset of 2^63 or more),
    /// `EFBIG`, `ENOSPC`, `EIO`.
    pub async fn write(
        &self,
        now_ns: u64,
        handle: Handle,
        place: Place,
        data: impl Into<In<'_>>,
    ) -> Result<Written, FileError> {
        let data = data.into();
        let open = self.writable(handle)?;
        let place = match place {
            _ if open.flags.append => Place::End,
            place => place,
        };
        if let Place::At(offset) = place {
            check_range(offset, data.len())?;
        }
        let write = Write {
            place,
            end_max: open.file_bytes_max,
        };
        let by = open.by(now_ns);
        self.fs.write(by, open.number, write, data).await
    }

    /// Sets the size of an open file.
    ///
    /// # Errors
    /// `EINVAL` (2^63 or more), `EBADF`, `EINVAL` (not opened for writing), `EFBIG`.
    pub async fn truncate_open(
        &self,
        now_ns: u64,
        handle: Handle,
        bytes: u64,
    ) -> Result<(), FileError> {
        check_range(0, bytes)?;
        let open = self.open_file(handle)?;
        if open.is_directory || !open.flags.write {
            return Err(Errno::EINVAL.into());
        }
        self.set_size(open.by(now_ns), open.file_bytes_max, open.number, bytes)
            .await
    }

    /// Sets the size of what a path names.
    ///
    /// # Errors
    /// `EINVAL` (2^63 or more), those of a walk, `EISDIR`, `EACCES`, `EFBIG`.
    pub async fn truncate(&self, now_ns: u64, at: At<'_>, bytes: u64) -> Result<(), FileError> {
        check_range(0, bytes)?;
        self.again(async || {
            let file = self.resolve(at, true).await?;
            match file.kind {
                Kind::File => {}
                Kind::Directory => return Err(Errno::EISDIR.into()),
                Kind::Symlink | Kind::Special(_) => return Err(Errno::EINVAL.into()),
            }
            check(&self.caller, &file, Access::WRITE)?;
            let (by, most) = (self.by(now_ns), self.file_bytes_max);
            self.set_size(by, most, file.number, bytes).await
        })
        .await
    }

    async fn set_size(
        &self,
        by: By<'_>,
        most: u64,
        number: u64,
        bytes: u64,
    ) -> Result<(), FileError> {
        self.check_grows(number, bytes, most).await?;
        self.fs.truncate(by, number, bytes).await
    }

    /// Refuses to make a file longer than `most`, the caller's limit.
    async fn check_grows(&self, number: u64, bytes: u64, most: u64) -> Result<(), FileError> {
        let is_long = bytes > most;
        match is_long && bytes > self.fs.attributes(number).await?.bytes {
            true => Err(Errno::EFBIG.into()),
            false => Ok(()),
        }
    }

    /// Gives storage to a range of an open file, or takes it.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (no bytes; an offset of 2^63 or more), `EBADF` (not opened for
    /// writing), `EFBIG`, `ENOSPC`, `EOPNOTSUPP`.
    pub async fn allocate(
        &self,
        now_ns: u64,
        handle: Handle,
        offset: u64,
        bytes: u64,
        what: Allocate,
    ) -> Result<(), FileError> {
        self.open_file(handle)?;
        if bytes == 0 || offset.max(bytes) > FILE_BYTES_MAX {
            return Err(Errno::EINVAL.into());
        }
        let open = self.writable(handle)?;
        let end = offset + bytes;
        if end > FILE_BYTES_MAX {
            return Err(Errno::EFBIG.into());
        }
        if matches!(what, Allocate::Extend | Allocate::Zero) {
            self.check_grows(open.number, end, open.file_bytes_max)
                .await?;
        }
        let by = open.by(now_ns);
        self.fs.allocate(by, open.number, offset, bytes, what).await
    }

    /// The first byte from `offset` on that is data, or a hole.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (a directory), `ENXIO` (at or beyond the end; no more data).
    pub async fn seek(&self, handle: Handle, offset: u64, what: Seek) -> Result<u64, FileError> {
        let open = self.open_file(handle)?;
        match open.is_directory {
            true => Err(Errno::EINVAL.into()),
            false => self.fs.seek(open.number, offset, what).await,
        }
    }

    /// Makes an open file or directory durable.
    ///
    /// # Errors
    /// `EBADF`, `EIO`.
    pub async fn sync(&self, handle: Handle, what: Sync) -> Result<(), FileError> {
        let open = self.open_file(handle)?;
        self.fs.sync(open.number, what).await
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// `EIO`.
    pub async fn sync_all(&self) -> Result<(), FileError> {
        self.fs.sync_all().await
    }

    pub(super) fn writable(&self, handle: Handle) -> Result<Rc<OpenFile>, Errno> {
        let open = self.open_file(handle)?;
        match open.flags.write {
            true => Ok(open),
            false => Err(Errno::EBADF),
        }
    }
}

/// Refuses a range that no file can have.
///
/// # Errors
/// `EINVAL`.
pub fn check_range(offset: u64, bytes: u64) -> Result<(), Errno> {
    match offset > FILE_BYTES_MAX || bytes > FILE_BYTES_MAX - offset {
        true => Err(Errno::EINVAL),
        false => Ok(()),
    }
}
