//! A file as the standard library has files: a position for [`Read`], [`Write`] and [`Seek`], and [`FileExt`].
//!
//! Each handle has a position of its own, which its calls move one after the other. A clone begins where the first one is.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use crate::File;

impl FileExt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(File::read_at(self, buf, offset)?)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        Ok(File::write_at(self, buf, offset)?)
    }
}

impl Read for &File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut position = self.position();
        let count = File::read_at(self, buf, *position)?;
        *position += count as u64;
        Ok(count)
    }
}

impl Write for &File {
    /// Writes all of `buf`. With [`append`](crate::OpenOptions::append) at the end of the file, else at the position.
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let mut position = self.position();
        *position = match self.appends() {
            true => self.append(buf)?,
            false => {
                self.write_all_at(buf, *position)?;
                *position + buf.len() as u64
            }
        };
        Ok(buf.len())
    }

    /// Nothing is to be done: what was written is the file's. [`File::sync_all`] makes it durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let mut position = self.position();
        let (from, by) = match to {
            SeekFrom::Start(offset) => (offset, 0),
            SeekFrom::End(by) => (self.len(), by),
            SeekFrom::Current(by) => (*position, by),
        };
        let before = || {
            let text = format!("a seek by {by} bytes from byte {from}: no such place");
            io::Error::new(ErrorKind::InvalidInput, text)
        };
        *position = from.checked_add_signed(by).ok_or_else(before)?;
        Ok(*position)
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }
}

impl Write for File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}
