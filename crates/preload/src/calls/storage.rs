//! Sizes, storage, making durable, copies between descriptors.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::{loff_t, off_t, size_t, ssize_t};
use wharf_files::vfs::Service;
use wharf_files::{Allocate, Sync, block_on};

use super::data::{read_at, read_next, write_at, write_next};
use crate::drive::{handle, with};
use crate::errno::{Errno, Outcome, last, number, set, zero};
use crate::find::{Found, Spot, find};
use crate::next::hooks;
use crate::table::{self, Open, Ref};

/// Bytes that a copy between descriptors moves at once.
const COPY_BYTES: usize = 256 << 10;

/// Makes a file durable.
pub(crate) fn make_durable(open: &Open, data_only: bool) -> Outcome<()> {
    let what = if data_only { Sync::Data } else { Sync::All };
    with(|drive, by| Ok(block_on(drive.sync(handle(drive, by, open)?, what))?))
}

fn make_all_durable() -> Outcome<()> {
    with(|drive, _| Ok(block_on(drive.sync_all())?))
}

/// Sets the size of an open file.
pub(crate) fn set_bytes(open: &Open, bytes: off_t) -> Outcome<()> {
    let bytes = u64::try_from(bytes).map_err(|_| Errno(libc::EINVAL))?;
    if open.page().flags() & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(Errno(libc::EINVAL));
    }
    super::memory::before_read(open)?;
    with(|drive, by| {
        Ok(block_on(drive.truncate_open(
            by.now_ns,
            handle(drive, by, open)?,
            bytes,
        ))?)
    })?;
    super::memory::after_truncation(open, bytes);
    Ok(())
}

fn set_bytes_of(spot: Spot, bytes: off_t) -> Outcome<()> {
    let bytes = u64::try_from(bytes).map_err(|_| Errno(libc::EINVAL))?;
    with(|drive, by| {
        Ok(block_on(drive.truncate(
            by,
            spot.at_to_change(drive, by)?,
            bytes,
        ))?)
    })?;
    super::memory::after_truncation_of(spot, bytes);
    Ok(())
}

fn allocate(open: &Open, mode: c_int, offset: off_t, bytes: off_t) -> Outcome<()> {
    let keeps = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
    let what = match mode & !libc::FALLOC_FL_KEEP_SIZE {
        0 if keeps => Allocate::KeepSize,
        0 => Allocate::Extend,
        libc::FALLOC_FL_PUNCH_HOLE if keeps => Allocate::Punch,
        libc::FALLOC_FL_ZERO_RANGE if keeps => Allocate::ZeroKeepSize,
        libc::FALLOC_FL_ZERO_RANGE => Allocate::Zero,
        _ => return Err(Errno(libc::EOPNOTSUPP)),
    };
    if offset < 0 || bytes <= 0 {
        return Err(Errno(libc::EINVAL));
    }
    if open.page().flags() & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(Errno(libc::EBADF));
    }
    let (offset, bytes) = (offset as u64, bytes as u64);
    super::memory::before_read(open)?;
    with(|drive, by| {
        let handle = handle(drive, by, open)?;
        Ok(block_on(
            drive.allocate(by.now_ns, handle, offset, bytes, what),
        )?)
    })?;
    super::memory::after_change(open, offset, bytes)
}

/// One end of a copy: a file of the drive, or a descriptor of the kernel's.
enum End {
    Drive(Ref),
    Kernel(c_int),
}

impl End {
    fn of(descriptor: c_int) -> End {
        table::get(descriptor).map_or(End::Kernel(descriptor), End::Drive)
    }

    fn read(&self, at: Option<i64>, out: &mut [u8]) -> Outcome<usize> {
        match (self, at) {
            (End::Drive(open), None) => read_next(open, out),
            (End::Drive(open), Some(at)) => read_at(open, at as u64, out),
            // SAFETY: a buffer of that size.
            (End::Kernel(descriptor), None) => kernel(unsafe {
                super::data::read(*descriptor, out.as_mut_ptr().cast::<c_void>(), out.len())
            }),
            // SAFETY: a buffer of that size.
            (End::Kernel(descriptor), Some(at)) => kernel(unsafe {
                super::data::pread64(
                    *descriptor,
                    out.as_mut_ptr().cast::<c_void>(),
                    out.len(),
                    at,
                )
            }),
        }
    }

    fn write(&self, at: Option<i64>, data: &[u8]) -> Outcome<usize> {
        match (self, at) {
            (End::Drive(open), None) => write_next(open, data),
            (End::Drive(open), Some(at)) => {
                write_at(open, at as u64, data, false).map(|(_, bytes)| bytes)
            }
            // SAFETY: a buffer of that size.
            (End::Kernel(descriptor), None) => kernel(unsafe {
                super::data::write(*descriptor, data.as_ptr().cast::<c_void>(), data.len())
            }),
            // SAFETY: a buffer of that size.
            (End::Kernel(descriptor), Some(at)) => kernel(unsafe {
                super::data::pwrite64(*descriptor, data.as_ptr().cast::<c_void>(), data.len(), at)
            }),
        }
    }
}

fn kernel(returned: ssize_t) -> Outcome<usize> {
    usize::try_from(returned).map_err(|_| last())
}

/// Copies up to `bytes` bytes; where an offset is given it is moved on, in place of that of the descriptor.
fn copy(
    from: c_int,
    mut from_at: Option<i64>,
    to: c_int,
    mut to_at: Option<i64>,
    bytes: usize,
) -> Outcome<Copied> {
    let (source, target) = (End::of(from), End::of(to));
    let mut buffer = vec![0; bytes.min(COPY_BYTES)];
    let mut done = 0;
    while done < bytes {
        let most = (bytes - done).min(buffer.len());
        let read = match source.read(from_at, &mut buffer[..most]) {
            Ok(0) => break,
            Ok(read) => read,
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        };
        let mut written = 0;
        while written < read {
            match target.write(to_at, &buffer[written..read]) {
                Ok(0) => break,
                Ok(now) => {
                    written += now;
                    to_at = to_at.map(|at| at + now as i64);
                }
                Err(errno) if done + written == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        done += written;
        from_at = from_at.map(|at| at + written as i64);
        if written < read {
            // The source's own offset has gone further than what was taken of it.
            if let (End::Drive(open), None) = (&source, from_at) {
                super::data::seek(open, -((read - written) as i64), libc::SEEK_CUR)?;
            }
            break;
        }
    }
    Ok(Copied {
        bytes: done,
        from_at,
        to_at,
    })
}

struct Copied {
    bytes: usize,
    from_at: Option<i64>,
    to_at: Option<i64>,
}

/// # Safety
/// Offsets are null or there.
unsafe fn copy_at(
    from: c_int,
    from_at: *mut loff_t,
    to: c_int,
    to_at: *mut loff_t,
    bytes: usize,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let (at, end) = unsafe { (from_at.as_mut(), to_at.as_mut()) };
    if at.as_deref().is_some_and(|at| *at < 0) || end.as_deref().is_some_and(|at| *at < 0) {
        set(Errno(libc::EINVAL));
        return -1;
    }
    let copied = copy(
        from,
        at.as_deref().copied(),
        to,
        end.as_deref().copied(),
        bytes,
    );
    number(copied.map(|copied| {
        if let (Some(at), Some(now)) = (at, copied.from_at) {
            *at = now;
        }
        if let (Some(end), Some(now)) = (end, copied.to_at) {
            *end = now;
        }
        copied.bytes as ssize_t
    }))
}

hooks! {
    fn fsync(descriptor: c_int) -> c_int, next {
        match table::get(descriptor) {
            None => next(descriptor),
            Some(open) => zero(make_durable(&open, false)),
        }
    }

    fn fdatasync(descriptor: c_int) -> c_int, next {
        match table::get(descriptor) {
            None => next(descriptor),
            Some(open) => zero(make_durable(&open, true)),
        }
    }

    fn sync_file_range(descriptor: c_int, offset: off_t, bytes: off_t, flags: c_uint) -> c_int, next {
        match table::get(descriptor) {
            None => next(descriptor, offset, bytes, flags),
            Some(open) => zero(make_durable(&open, true)),
        }
    }

    fn syncfs(descriptor: c_int) -> c_int, next {
        match table::has(descriptor) {
            false => next(descriptor),
            true => zero(make_all_durable()),
        }
    }

    fn ftruncate64(descriptor: c_int, bytes: off_t) -> c_int, next {
        match table::get(descriptor) {
            None => next(descriptor, bytes),
            Some(open) => zero(set_bytes(&open, bytes)),
        }
    }

    fn ftruncate(descriptor: c_int, bytes: off_t) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { ftruncate64(descriptor, bytes) }
    }

    fn truncate64(path: *const c_char, bytes: off_t) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { find(libc::AT_FDCWD, path) } {
            Found::Machine => next(path, bytes),
            Found::Elsewhere(path) => next(path.as_ptr(), bytes),
            Found::Drive(spot) => zero(set_bytes_of(spot, bytes)),
        }
    }

    fn truncate(path: *const c_char, bytes: off_t) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { truncate64(path, bytes) }
    }

    fn fallocate64(descriptor: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int, next {
        match table::get(descriptor) {
            None => next(descriptor, mode, offset, bytes),
            Some(open) => zero(allocate(&open, mode, offset, bytes)),
        }
    }

    fn fallocate(descriptor: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fallocate64(descriptor, mode, offset, bytes) }
    }

    fn posix_fallocate64(descriptor: c_int, offset: off_t, bytes: off_t) -> c_int, next {
        match table::get(descriptor) {
            None => next(descriptor, offset, bytes),
            Some(open) => allocate(&open, 0, offset, bytes).err().map_or(0, |errno| errno.0),
        }
    }

    fn posix_fallocate(descriptor: c_int, offset: off_t, bytes: off_t) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { posix_fallocate64(descriptor, offset, bytes) }
    }

    fn posix_fadvise64(descriptor: c_int, offset: off_t, bytes: off_t, advice: c_int) -> c_int, next {
        match table::has(descriptor) {
            false => next(descriptor, offset, bytes, advice),
            true => 0,
        }
    }

    fn posix_fadvise(descriptor: c_int, offset: off_t, bytes: off_t, advice: c_int) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { posix_fadvise64(descriptor, offset, bytes, advice) }
    }

    fn readahead(descriptor: c_int, offset: off_t, bytes: size_t) -> ssize_t, next {
        match table::has(descriptor) {
            false => next(descriptor, offset, bytes),
            true => 0,
        }
    }

    fn sendfile64(to: c_int, from: c_int, at: *mut off_t, bytes: size_t) -> ssize_t, next {
        match table::has(to) || table::has(from) {
            false => next(to, from, at, bytes),
            // SAFETY: the caller's offset.
            true => unsafe { copy_at(from, at, to, std::ptr::null_mut(), bytes) },
        }
    }

    fn sendfile(to: c_int, from: c_int, at: *mut off_t, bytes: size_t) -> ssize_t, next {
        // SAFETY: as the caller's.
        unsafe { sendfile64(to, from, at, bytes) }
    }

    fn copy_file_range(from: c_int, from_at: *mut loff_t, to: c_int, to_at: *mut loff_t, bytes: size_t, flags: c_uint) -> ssize_t, next {
        match table::has(to) || table::has(from) {
            false => next(from, from_at, to, to_at, bytes, flags),
            // SAFETY: the caller's offsets.
            true => unsafe { copy_at(from, from_at, to, to_at, bytes) },
        }
    }

    fn splice(from: c_int, from_at: *mut loff_t, to: c_int, to_at: *mut loff_t, bytes: size_t, flags: c_uint) -> ssize_t, next {
        match table::has(to) || table::has(from) {
            false => next(from, from_at, to, to_at, bytes, flags),
            // SAFETY: the caller's offsets.
            true => unsafe { copy_at(from, from_at, to, to_at, bytes.min(1 << 16)) },
        }
    }
}

/// Functions whose names are those of modules or of other functions here.
mod named {
    use super::*;

    hooks! {
        fn sync() -> (), next {
            next();
            if crate::drive::is_in_use() {
                // It tells of no errors.
                let _ = make_all_durable();
            }
        }
    }
}
