//! Reading, writing, offsets.

use std::ffi::{c_int, c_void};

use libc::{off_t, size_t, ssize_t};
use wharf_files::vfs::{Service, Target};
use wharf_files::{Attributes, Place, Seek, Sync, block_on};

use crate::drive::{handle, kept, with};
use crate::errno::{Errno, Outcome, number};
use crate::next::hooks;
use crate::table::{self, Open};

/// Most bytes that one call moves (Linux: `MAX_RW_COUNT`).
const BYTES_MAX: usize = 0x7fff_f000;

fn offset(offset: off_t) -> Outcome<u64> {
    u64::try_from(offset).map_err(|_| Errno(libc::EINVAL))
}

/// Reads from byte `offset` on.
pub(crate) fn read_at(open: &Open, offset: u64, out: &mut [u8]) -> Outcome<usize> {
    super::memory::before_read(open)?;
    read_from_drive(open, offset, out)
}

/// The same, as the drive has it.
pub(crate) fn read_from_drive(open: &Open, offset: u64, out: &mut [u8]) -> Outcome<usize> {
    let page = open.page();
    let flags = page.flags();
    if flags & libc::O_PATH != 0 || flags & libc::O_ACCMODE == libc::O_WRONLY {
        return Err(Errno(libc::EBADF));
    }
    if page.is_directory() {
        return Err(Errno(libc::EISDIR));
    }
    let kept = kept(open, |drive, handle| drive.read_kept(handle, offset, out));
    if let Some(bytes) = kept {
        return Ok(bytes);
    }
    with(|drive, by| {
        let read = drive.read(by.now_ns, handle(drive, by, open)?, offset, out);
        Ok(block_on(read)? as usize)
    })
}

/// Writes at a place, or at the end if the flags say so; gives where it ended, and how many bytes there were.
pub(crate) fn write_at(
    open: &Open,
    offset: u64,
    data: &[u8],
    at_end: bool,
) -> Outcome<(u64, usize)> {
    super::memory::before_read(open)?;
    let (end, bytes) = write_to_drive(open, offset, data, at_end)?;
    super::memory::after_write(open, end, &data[..bytes]);
    Ok((end, bytes))
}

/// The same, to the drive alone.
pub(crate) fn write_to_drive(
    open: &Open,
    offset: u64,
    data: &[u8],
    at_end: bool,
) -> Outcome<(u64, usize)> {
    let page = open.page();
    let flags = page.flags();
    if flags & libc::O_PATH != 0 || flags & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(Errno(libc::EBADF));
    }
    let at_end = at_end || flags & libc::O_APPEND != 0;
    if flags & (libc::O_SYNC | libc::O_DSYNC) == 0 {
        let place = if at_end {
            Place::End
        } else {
            Place::At(offset)
        };
        let written = kept(open, |drive, handle| drive.write_kept(handle, place, data));
        if let Some(written) = written {
            return Ok((written.offset + written.bytes, written.bytes as usize));
        }
    }
    with(|drive, by| {
        let handle = handle(drive, by, open)?;
        let (mut done, mut end) = (0, offset);
        loop {
            let place = if at_end {
                Place::End
            } else {
                Place::At(offset + done as u64)
            };
            let written = match block_on(drive.write(by.now_ns, handle, place, &data[done..])) {
                Ok(written) => written,
                Err(error) if done == 0 => return Err(error.into()),
                Err(_) => break,
            };
            done += written.bytes as usize;
            end = written.offset + written.bytes;
            if written.bytes == 0 || done >= data.len() {
                break;
            }
        }
        match flags & (libc::O_SYNC | libc::O_DSYNC) {
            0 => {}
            libc::O_DSYNC => block_on(drive.sync(handle, Sync::Data))?,
            _ => block_on(drive.sync(handle, Sync::All))?,
        }
        Ok((end, done))
    })
}

/// Reads at the offset that all holders of the descriptor share.
pub(crate) fn read_next(open: &Open, out: &mut [u8]) -> Outcome<usize> {
    let held = open.page().hold();
    let bytes = read_at(open, held.get(), out)?;
    held.set(held.get() + bytes as u64);
    Ok(bytes)
}

/// Writes at that offset.
pub(crate) fn write_next(open: &Open, data: &[u8]) -> Outcome<usize> {
    let held = open.page().hold();
    let (end, bytes) = write_at(open, held.get(), data, false)?;
    if bytes > 0 {
        held.set(end);
    }
    Ok(bytes)
}

/// Sets that offset.
pub(crate) fn seek(open: &Open, offset: off_t, whence: c_int) -> Outcome<u64> {
    let page = open.page();
    if page.flags() & libc::O_PATH != 0 {
        return Err(Errno(libc::EBADF));
    }
    let held = page.hold();
    let invalid = Errno(libc::EINVAL);
    let to = match whence {
        libc::SEEK_SET => u64::try_from(offset).map_err(|_| invalid)?,
        libc::SEEK_CUR => held.get().checked_add_signed(offset).ok_or(invalid)?,
        libc::SEEK_END => bytes(open)?.checked_add_signed(offset).ok_or(invalid)?,
        libc::SEEK_DATA | libc::SEEK_HOLE => {
            let from = u64::try_from(offset).map_err(|_| Errno(libc::ENXIO))?;
            let what = if whence == libc::SEEK_DATA {
                Seek::Data
            } else {
                Seek::Hole
            };
            find(open, from, what)?
        }
        _ => return Err(invalid),
    };
    if to > i64::MAX as u64 {
        return Err(invalid);
    }
    held.set(to);
    Ok(to)
}

/// The next data of a file, or the next hole.
pub(crate) fn find(open: &Open, from: u64, what: Seek) -> Outcome<u64> {
    with(|drive, by| Ok(block_on(drive.seek(handle(drive, by, open)?, from, what))?))
}

/// Bytes of a file.
pub(crate) fn bytes(open: &Open) -> Outcome<u64> {
    match kept(open, |drive, handle| drive.bytes_kept(handle)) {
        Some(bytes) => Ok(bytes),
        None => Ok(attributes(open)?.bytes),
    }
}

/// What the drive knows of a file.
pub(crate) fn attributes(open: &Open) -> Outcome<Attributes> {
    if let Some(known) = kept(open, |drive, handle| drive.attributes_kept(handle)) {
        return Ok(known);
    }
    with(|drive, by| {
        let target = Target::Handle(handle(drive, by, open)?);
        Ok(block_on(drive.stat(by, target))?)
    })
}

/// A buffer of the program that is read into.
///
/// # Safety
/// It is there, and nobody else uses it during the call.
pub(crate) unsafe fn out<'a>(buffer: *mut c_void, bytes: size_t) -> &'a mut [u8] {
    match buffer.is_null() || bytes == 0 {
        true => &mut [],
        // SAFETY: the caller's promise.
        false => unsafe { std::slice::from_raw_parts_mut(buffer.cast(), bytes.min(BYTES_MAX)) },
    }
}

/// A buffer of the program that is written from.
///
/// # Safety
/// It is there, and nobody changes it during the call.
pub(crate) unsafe fn data<'a>(buffer: *const c_void, bytes: size_t) -> &'a [u8] {
    match buffer.is_null() || bytes == 0 {
        true => &[],
        // SAFETY: the caller's promise.
        false => unsafe { std::slice::from_raw_parts(buffer.cast(), bytes.min(BYTES_MAX)) },
    }
}

fn count(outcome: Outcome<usize>) -> ssize_t {
    number(outcome.map(|bytes| bytes as ssize_t))
}

hooks! {
    fn read(descriptor: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t, next {
        match table::get(descriptor) {
            None => next(descriptor, buffer, bytes),
            // SAFETY: the caller's buffer.
            Some(open) => count(read_next(&open, unsafe { out(buffer, bytes) })),
        }
    }

    fn write(descriptor: c_int, buffer: *const c_void, bytes: size_t) -> ssize_t, next {
        match table::get(descriptor) {
            None => next(descriptor, buffer, bytes),
            // SAFETY: the caller's buffer.
            Some(open) => count(write_next(&open, unsafe { data(buffer, bytes) })),
        }
    }

    fn pread64(descriptor: c_int, buffer: *mut c_void, bytes: size_t, at: off_t) -> ssize_t, next {
        match table::get(descriptor) {
            None => next(descriptor, buffer, bytes, at),
            Some(open) => count(offset(at).and_then(|at| {
                // SAFETY: the caller's buffer.
                read_at(&open, at, unsafe { out(buffer, bytes) })
            })),
        }
    }

    fn pwrite64(descriptor: c_int, buffer: *const c_void, bytes: size_t, at: off_t) -> ssize_t, next {
        match table::get(descriptor) {
            None => next(descriptor, buffer, bytes, at),
            Some(open) => count(offset(at).and_then(|at| {
                // SAFETY: the caller's buffer.
                write_at(&open, at, unsafe { data(buffer, bytes) }, false).map(|(_, bytes)| bytes)
            })),
        }
    }

    fn pread(descriptor: c_int, buffer: *mut c_void, bytes: size_t, at: off_t) -> ssize_t, next {
        // SAFETY: as the caller's.
        unsafe { pread64(descriptor, buffer, bytes, at) }
    }

    fn pwrite(descriptor: c_int, buffer: *const c_void, bytes: size_t, at: off_t) -> ssize_t, next {
        // SAFETY: as the caller's.
        unsafe { pwrite64(descriptor, buffer, bytes, at) }
    }

    fn __read_chk(descriptor: c_int, buffer: *mut c_void, bytes: size_t, room: size_t) -> ssize_t, next {
        match table::has(descriptor) && bytes <= room {
            false => next(descriptor, buffer, bytes, room),
            // SAFETY: as the caller's.
            true => unsafe { read(descriptor, buffer, bytes) },
        }
    }

    fn __pread_chk(descriptor: c_int, buffer: *mut c_void, bytes: size_t, at: off_t, room: size_t) -> ssize_t, next {
        match table::has(descriptor) && bytes <= room {
            false => next(descriptor, buffer, bytes, at, room),
            // SAFETY: as the caller's.
            true => unsafe { pread64(descriptor, buffer, bytes, at) },
        }
    }

    fn __pread64_chk(descriptor: c_int, buffer: *mut c_void, bytes: size_t, at: off_t, room: size_t) -> ssize_t, next {
        match table::has(descriptor) && bytes <= room {
            false => next(descriptor, buffer, bytes, at, room),
            // SAFETY: as the caller's.
            true => unsafe { pread64(descriptor, buffer, bytes, at) },
        }
    }

    fn lseek64(descriptor: c_int, offset: off_t, whence: c_int) -> off_t, next {
        match table::get(descriptor) {
            None => next(descriptor, offset, whence),
            Some(open) => number(seek(&open, offset, whence).map(|at| at as off_t)),
        }
    }

    fn lseek(descriptor: c_int, offset: off_t, whence: c_int) -> off_t, next {
        // SAFETY: as the caller's.
        unsafe { lseek64(descriptor, offset, whence) }
    }
}
