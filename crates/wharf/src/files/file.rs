//! An open file, with the traits of `std::io`.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom, Write};

use wharf_files::vfs::{Service, Target};
use wharf_files::{Attributes, By, Caller, Errno, FileError, Handle, Place, Sync, Written};

use super::drive::FileDrive;
use super::{now_ns, wait};

/// The drive, for one user.
pub(super) struct Files {
    pub(super) drive: FileDrive,
    pub(super) caller: Caller,
}

impl Files {
    /// The user, now.
    pub(super) fn by(&self) -> By<'_> {
        By {
            caller: &self.caller,
            now_ns: now_ns(),
        }
    }
}

/// An open file of a [`Mount`](super::Mount). It is closed when it is dropped.
///
/// Nothing is kept behind the program's back: a write is in the file system when it returns, and
/// durable after [`File::sync`].
pub struct File<'a> {
    files: &'a Files,
    handle: Handle,
    /// Where the next read or write begins.
    offset: u64,
    /// It may have a lock.
    pub(super) is_locked: Cell<bool>,
}

impl<'a> File<'a> {
    pub(super) fn new(files: &'a Files, handle: Handle) -> File<'a> {
        File {
            files,
            handle,
            offset: 0,
            is_locked: Cell::new(false),
        }
    }

    pub(super) fn drive(&self) -> &FileDrive {
        &self.files.drive
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle
    }

    /// Reads from byte `offset` on; gives the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// As `pread`.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let read = self.files.drive.read(now_ns(), self.handle, offset, out);
        wait(read).map(|bytes| bytes as usize)
    }

    /// Writes from byte `offset` on, or at the end if it was opened to append; gives the number of
    /// bytes.
    ///
    /// # Errors
    /// As `pwrite`.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<usize> {
        let place = Place::At(offset);
        let written = self.files.drive.write(now_ns(), self.handle, place, data);
        wait(written).map(|written| written.bytes as usize)
    }

    /// Writes at the end, wherever that is when the write takes effect; gives where that was, and
    /// the number of bytes.
    ///
    /// # Errors
    /// As `write` of a file that was opened to append; `EINVAL` for more bytes than one command
    /// moves ([`FileDrive::bytes_max`]), as others may append between two.
    pub fn append(&self, data: &[u8]) -> io::Result<Written> {
        let drive = &self.files.drive;
        if data.len() > drive.bytes_max() {
            return wait(async { Err(FileError::from(Errno::EINVAL)) });
        }
        wait(drive.write(now_ns(), self.handle, Place::End, data))
    }

    /// Its attributes.
    ///
    /// # Errors
    /// Of the drive.
    pub fn attributes(&self) -> io::Result<Attributes> {
        wait(
            self.files
                .drive
                .stat(self.files.by(), Target::Handle(self.handle)),
        )
    }

    /// Sets its size.
    ///
    /// # Errors
    /// As `ftruncate`.
    pub fn set_len(&self, bytes: u64) -> io::Result<()> {
        wait(self.files.drive.truncate_open(now_ns(), self.handle, bytes))
    }

    /// Makes its bytes and attributes durable, and all that was done to names before.
    ///
    /// # Errors
    /// As `fsync`: from then on nothing is changed any more.
    pub fn sync(&self) -> io::Result<()> {
        wait(self.files.drive.sync(self.handle, Sync::All))
    }
}

impl Read for File<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = self.read_at(self.offset, out)?;
        self.offset += bytes as u64;
        Ok(bytes)
    }
}

impl Write for File<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let place = Place::At(self.offset);
        let files = self.files;
        let written = wait(files.drive.write(now_ns(), self.handle, place, data))?;
        self.offset = written.offset + written.bytes;
        Ok(written.bytes as usize)
    }

    /// Nothing is kept back: see [`File::sync`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(offset) => (offset, 0),
            SeekFrom::Current(by) => (self.offset, by),
            SeekFrom::End(by) => (self.attributes()?.bytes, by),
        };
        let offset = from.checked_add_signed(by);
        self.offset = offset.ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.offset)
    }
}

impl Drop for File<'_> {
    fn drop(&mut self) {
        if self.is_locked.get() {
            let _ = self.unlock();
        }
        // What a file system can say of it concerns only what it gives back.
        let _ = wait(self.files.drive.close(self.handle));
    }
}
