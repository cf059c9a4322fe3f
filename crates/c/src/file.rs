//! Files.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;

use wharf::page_cache::{Advice, File, OpenOptions};

use crate::cache::wharf_cache;
use crate::error::{Failure, give, handle, known, status};

/// An open file. Any number of threads may use it side by side.
pub struct wharf_file(pub(crate) File);

/// Make the file, empty, if there is none.
pub const WHARF_CREATE: u32 = 1;
/// Writes fail, and the file need not be writable.
pub const WHARF_READ_ONLY: u32 = 2;

/// Advice: the program reads it soon; what is missing is read now, as far as there is memory.
pub const WHARF_WILL_NEED: u32 = 0;
/// Advice: the program has done with it; clean pages go.
pub const WHARF_DONT_NEED: u32 = 1;

/// The bytes at `data`; no bytes may be anywhere.
///
/// # Safety
/// There are `count` bytes to read, unless `data` is null.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, count: usize) -> Result<&'a [u8], Failure> {
    match (data.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::argument("the bytes are NULL")),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts(data.cast(), count) }),
    }
}

/// As [`bytes`], to write to. What a program hands in need not be initialised: its bytes are only written here.
///
/// # Safety
/// There are `count` bytes to write, unless `out` is null.
pub(crate) unsafe fn bytes_mut<'a>(
    out: *mut c_void,
    count: usize,
) -> Result<&'a mut [u8], Failure> {
    match (out.is_null(), count) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Failure::argument("the place for bytes is NULL")),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(out.cast(), count) }),
    }
}

/// Opens a file or a block device; `flags` is 0, WHARF_CREATE or WHARF_READ_ONLY. NULL if it cannot. A file that is
/// open already, by whatever path, is the same file.
///
/// `cache` is NULL or a cache; `path` is NULL or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_open(
    cache: *mut wharf_cache,
    path: *const c_char,
    flags: u32,
) -> *mut wharf_file {
    let open = || {
        // SAFETY: the caller's promise.
        let cache = unsafe { known(cache, "the cache") }?;
        if path.is_null() {
            return Err(Failure::argument("the path is NULL"));
        }
        if flags & !(WHARF_CREATE | WHARF_READ_ONLY) != 0 {
            return Err(Failure::argument(format!("unknown flags in {flags:#x}")));
        }
        // SAFETY: the caller's promise.
        let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
        let writes = flags & WHARF_READ_ONLY == 0;
        let mut options = OpenOptions::new();
        options.read(true).write(writes);
        options.create(flags & WHARF_CREATE != 0);
        Ok(wharf_file(options.open(&cache.0, path)?))
    };
    handle(open())
}

/// Another handle of the same file. NULL if `file` is.
///
/// `file` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_dup(file: *const wharf_file) -> *mut wharf_file {
    // SAFETY: the caller's promise.
    handle(unsafe { known(file, "the file") }.map(|file| wharf_file(file.0.clone())))
}

/// Makes everything durable and ends the handle, also if it fails. 0, or -1 if something could not be written.
///
/// `file` is NULL or open, has no pages in use, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_close(file: *mut wharf_file) -> i32 {
    if file.is_null() {
        return status(Err(Failure::argument("the file is NULL")));
    }
    // SAFETY: the caller's promise.
    let file = unsafe { Box::from_raw(file) };
    status(file.0.close())
}

/// The length in bytes, with what was written and not yet synced; 0 if `file` is NULL.
///
/// `file` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_length(file: *const wharf_file) -> u64 {
    // SAFETY: the caller's promise.
    give(
        unsafe { known(file, "the file") }.map(|file| file.0.len()),
        0,
    )
}

/// Reads up to `count` bytes from byte `offset` on. How many there were, fewer only at the end of the file; or -1.
///
/// `file` is NULL or open; `out` has room for `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_read_at(
    file: *const wharf_file,
    out: *mut c_void,
    count: usize,
    offset: u64,
) -> i64 {
    let read = || {
        // SAFETY: the caller's promise.
        let (file, out) = unsafe { (known(file, "the file")?, bytes_mut(out, count)?) };
        Ok::<_, Failure>(file.0.read_at(out, offset)? as i64)
    };
    give(read(), -1)
}

/// Writes `count` bytes from byte `offset` on, all of them; the file grows if need be. 0, or -1, and then each page of
/// the range is old or new. Durable after the next wharf_sync.
///
/// `file` is NULL or open; `data` has `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_write_at(
    file: *const wharf_file,
    data: *const c_void,
    count: usize,
    offset: u64,
) -> i32 {
    let write = || {
        // SAFETY: the caller's promise.
        let (file, data) = unsafe { (known(file, "the file")?, bytes(data, count)?) };
        Ok::<_, Failure>(file.0.write_all_at(data, offset)?)
    };
    status(write())
}

/// Makes durable what was written before, by any thread, and the length. 0, or -1 if a page could not be written, now
/// or since this handle's last sync; it stays dirty, and the next sync tries it again.
///
/// `file` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_sync(file: *const wharf_file) -> i32 {
    // SAFETY: the caller's promise.
    let file = unsafe { known(file, "the file") };
    status(file.and_then(|file| Ok(file.0.sync_all()?)))
}

/// As wharf_sync, but times of the file need not be durable.
///
/// `file` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_sync_data(file: *const wharf_file) -> i32 {
    // SAFETY: the caller's promise.
    let file = unsafe { known(file, "the file") };
    status(file.and_then(|file| Ok(file.0.sync_data()?)))
}

/// As wharf_sync, of `bytes` bytes from byte `offset` on: what was written elsewhere may stay dirty.
///
/// `file` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_sync_range(file: *const wharf_file, offset: u64, bytes: u64) -> i32 {
    // SAFETY: the caller's promise.
    let file = unsafe { known(file, "the file") };
    status(file.and_then(|file| Ok(file.0.sync_range(offset, bytes)?)))
}

/// Cuts the file to `bytes` bytes, or makes it longer, with zeros. 0, or -1.
///
/// `file` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_truncate(file: *const wharf_file, bytes: u64) -> i32 {
    // SAFETY: the caller's promise.
    let file = unsafe { known(file, "the file") };
    status(file.and_then(|file| Ok(file.0.set_len(bytes)?)))
}

/// Says what the program is going to do with `bytes` bytes from byte `offset` on: WHARF_WILL_NEED or WHARF_DONT_NEED.
/// 0, or -1.
///
/// `file` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_advise(
    file: *const wharf_file,
    offset: u64,
    bytes: u64,
    advice: u32,
) -> i32 {
    let advise = || {
        // SAFETY: the caller's promise.
        let file = unsafe { known(file, "the file") }?;
        let advice = match advice {
            WHARF_WILL_NEED => Advice::WillNeed,
            WHARF_DONT_NEED => Advice::DontNeed,
            other => return Err(Failure::argument(format!("{other} is no advice"))),
        };
        Ok(file.0.advise(offset, bytes, advice)?)
    };
    status(advise())
}
