//! `FILE`: the C library's streams of files of the drive.
//!
//! The C library's own streams call the kernel from within, where nothing stands before it. But it has streams whose reading
//! and writing are the program's (`fopencookie`): streams of the drive are such, with the descriptor's number put where
//! `fileno` finds it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{FILE, off_t, size_t, ssize_t};

use crate::errno::{Errno, Outcome, last, pointer};
use crate::find::{Found, find};
use crate::next::hooks;
use crate::table;

/// The functions of a stream, as `fopencookie` takes them.
#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: unsafe extern "C" fn(*mut c_void, *mut off_t, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
}

/// Where glibc has the descriptor in a `FILE`: behind a word of flags, eleven pointers, and two more pointers.
const FILENO_OFFSET: usize = 8 + 11 * 8 + 2 * 8;

/// The standard streams as the program found them, where another one stands for each now.
static BEFORE: [AtomicPtr<FILE>; 3] = [const { AtomicPtr::new(ptr::null_mut()) }; 3];

/// The streams that stand for them; never closed, as they are needed whenever the descriptor is one of the drive again.
static OVER: [AtomicPtr<FILE>; 3] = [const { AtomicPtr::new(ptr::null_mut()) }; 3];

fn descriptor(cookie: *mut c_void) -> c_int {
    cookie as usize as c_int
}

unsafe extern "C" fn read(cookie: *mut c_void, room: *mut c_char, bytes: size_t) -> ssize_t {
    // SAFETY: the C library's buffer.
    unsafe { super::data::read(descriptor(cookie), room.cast(), bytes) }
}

unsafe extern "C" fn write(cookie: *mut c_void, data: *const c_char, bytes: size_t) -> ssize_t {
    // SAFETY: the C library's buffer. What could not be written is told by 0.
    unsafe { super::data::write(descriptor(cookie), data.cast(), bytes).max(0) }
}

unsafe extern "C" fn seek(cookie: *mut c_void, offset: *mut off_t, whence: c_int) -> c_int {
    // SAFETY: the C library's offset.
    unsafe {
        let at = super::data::lseek64(descriptor(cookie), *offset, whence);
        if at < 0 {
            return -1;
        }
        *offset = at;
        0
    }
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: the stream's own descriptor.
    unsafe { super::descriptors::close(descriptor(cookie)) }
}

/// What `open` is told for a mode of `fopen`.
fn flags(mode: &[u8]) -> Outcome<c_int> {
    let has = |letter| mode.contains(&letter);
    let both = has(b'+');
    let access = |one| if both { libc::O_RDWR } else { one };
    let mut flags = match mode.first() {
        Some(b'r') => access(libc::O_RDONLY),
        Some(b'w') => access(libc::O_WRONLY) | libc::O_CREAT | libc::O_TRUNC,
        Some(b'a') => access(libc::O_WRONLY) | libc::O_CREAT | libc::O_APPEND,
        _ => return Err(Errno(libc::EINVAL)),
    };
    if has(b'e') {
        flags |= libc::O_CLOEXEC;
    }
    if has(b'x') {
        flags |= libc::O_EXCL;
    }
    Ok(flags)
}

/// A stream over a descriptor of the drive.
///
/// # Safety
/// `mode` is a text.
unsafe fn stream(descriptor: c_int, mode: *const c_char) -> Outcome<*mut FILE> {
    let functions = Functions {
        read,
        write,
        seek,
        close,
    };
    // SAFETY: functions that work for this cookie until the stream is closed.
    let made = unsafe { fopencookie(descriptor as usize as *mut c_void, mode, functions) };
    if made.is_null() {
        return Err(last());
    }
    // SAFETY: glibc's `FILE`, whose layout is part of what programs are built against.
    unsafe {
        made.byte_add(FILENO_OFFSET)
            .cast::<c_int>()
            .write(descriptor)
    };
    Ok(made)
}

/// # Safety
/// `mode` is a text.
unsafe fn open(spot: &crate::find::Spot, mode: *const c_char) -> Outcome<*mut FILE> {
    // SAFETY: the caller's promise.
    let flags = flags(unsafe { CStr::from_ptr(mode) }.to_bytes())?;
    let descriptor = super::open::open(spot, flags, 0o666)?;
    // SAFETY: the caller's promise; the descriptor is the stream's.
    unsafe {
        stream(descriptor, mode).inspect_err(|_| {
            super::descriptors::close(descriptor);
        })
    }
}

/// A standard descriptor became one of the drive, or is none any more: the stream over it follows.
pub(crate) fn follow(descriptor: c_int) {
    let Some(number) = usize::try_from(descriptor)
        .ok()
        .filter(|number| *number < 3)
    else {
        return;
    };
    let is_replaced = !BEFORE[number].load(Ordering::Relaxed).is_null();
    // SAFETY: the C library's variables. A program that changes its standard descriptors uses no stream over them meanwhile.
    unsafe {
        match (table::has(descriptor), is_replaced) {
            (true, false) => replace(number),
            (false, true) => put_back(number),
            _ => {}
        }
    }
}

/// # Safety
/// Nobody uses the standard stream meanwhile.
unsafe fn replace(number: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut made = OVER[number].load(Ordering::Relaxed);
        if made.is_null() {
            let mode = if number == 0 { c"r" } else { c"w" };
            let Ok(new) = stream(number as c_int, mode.as_ptr()) else {
                return;
            };
            if number == 2 {
                libc::setvbuf(new, ptr::null_mut(), libc::_IONBF, 0);
            }
            OVER[number].store(new, Ordering::Relaxed);
            made = new;
        }
        let variable = variable(number);
        // What is in it was written for the descriptor before.
        libc::fflush(*variable);
        BEFORE[number].store(*variable, Ordering::Relaxed);
        *variable = made;
    }
}

/// # Safety
/// Nobody uses the standard stream meanwhile.
unsafe fn put_back(number: usize) {
    // SAFETY: the caller's promise.
    unsafe { *variable(number) = BEFORE[number].swap(ptr::null_mut(), Ordering::Relaxed) };
}

fn variable(number: usize) -> *mut *mut FILE {
    match number {
        0 => &raw mut stdin,
        1 => &raw mut stdout,
        _ => &raw mut stderr,
    }
}

/// Before a standard descriptor gets another meaning: what is in the stream of the drive over it goes there.
pub(crate) fn before_change(descriptor: c_int) {
    let number = usize::try_from(descriptor)
        .ok()
        .filter(|number| *number < 3);
    if let Some(number) = number
        && !BEFORE[number].load(Ordering::Relaxed).is_null()
    {
        // SAFETY: a stream that is never closed.
        unsafe { libc::fflush(OVER[number].load(Ordering::Relaxed)) };
    }
}

/// Which standard stream it is, by its address.
fn standard(stream: *mut FILE) -> Option<usize> {
    // SAFETY: the C library's variables.
    let all = unsafe { [stdin, stdout, stderr] };
    all.iter().position(|one| *one == stream)
}

/// The stream that stands for `stream`: itself, but for a standard one that was known before the program began.
fn now(stream: *mut FILE) -> *mut FILE {
    if BEFORE[1].load(Ordering::Relaxed) == stream && !stream.is_null() {
        // SAFETY: the C library's variable.
        return unsafe { stdout };
    }
    if BEFORE[2].load(Ordering::Relaxed) == stream && !stream.is_null() {
        // SAFETY: the C library's variable.
        return unsafe { stderr };
    }
    if BEFORE[0].load(Ordering::Relaxed) == stream && !stream.is_null() {
        // SAFETY: the C library's variable.
        return unsafe { stdin };
    }
    stream
}

hooks! {
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE, next {
        // SAFETY: the caller's texts.
        unsafe {
            match find(libc::AT_FDCWD, path) {
                Found::Machine => next(path, mode),
                Found::Elsewhere(path) => next(path.as_ptr(), mode),
                Found::Drive(spot) => pointer(open(&spot, mode)),
            }
        }
    }

    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE, next {
        // SAFETY: as the caller's.
        unsafe { fopen64(path, mode) }
    }

    fn fdopen(descriptor: c_int, mode: *const c_char) -> *mut FILE, next {
        match table::has(descriptor) {
            false => next(descriptor, mode),
            // SAFETY: the caller's text.
            true => pointer(unsafe { stream(descriptor, mode) }),
        }
    }

    fn freopen64(path: *const c_char, mode: *const c_char, given: *mut FILE) -> *mut FILE, next {
        // SAFETY: the caller's texts and stream.
        unsafe {
            if path.is_null() {
                return next(path, mode, given);
            }
            match find(libc::AT_FDCWD, path) {
                Found::Machine => next(path, mode, now(given)),
                Found::Elsewhere(path) => next(path.as_ptr(), mode, now(given)),
                Found::Drive(spot) => {
                    let made = open(&spot, mode);
                    if let (Ok(made), Some(number)) = (&made, standard(given)) {
                        // The descriptor has to have the standard number, and the variable to lead to it.
                        libc::fflush(given);
                        let descriptor = libc::fileno(*made);
                        super::descriptors::dup2(descriptor, number as c_int);
                        libc::fclose(*made);
                        return [stdin, stdout, stderr][number];
                    }
                    if made.is_ok() {
                        libc::fclose(given);
                    }
                    pointer(made)
                }
            }
        }
    }

    fn freopen(path: *const c_char, mode: *const c_char, given: *mut FILE) -> *mut FILE, next {
        // SAFETY: as the caller's.
        unsafe { freopen64(path, mode, given) }
    }

    // What C++ has of the standard streams is from before this library looked.

    fn fwrite(data: *const c_void, bytes: size_t, count: size_t, stream: *mut FILE) -> size_t, next {
        next(data, bytes, count, now(stream))
    }

    fn putc(letter: c_int, stream: *mut FILE) -> c_int, next {
        next(letter, now(stream))
    }

    fn fputc(letter: c_int, stream: *mut FILE) -> c_int, next {
        next(letter, now(stream))
    }

    fn fflush(stream: *mut FILE) -> c_int, next {
        next(now(stream))
    }

    fn getc(stream: *mut FILE) -> c_int, next {
        next(now(stream))
    }

    fn ungetc(letter: c_int, stream: *mut FILE) -> c_int, next {
        next(letter, now(stream))
    }

    fn fread(room: *mut c_void, bytes: size_t, count: size_t, stream: *mut FILE) -> size_t, next {
        next(room, bytes, count, now(stream))
    }
}
