//! `glob`: the C library's own, which takes its functions for directories from whoever calls it.

use std::ffi::{c_char, c_int, c_void};

use libc::{DIR, dirent64, size_t, stat as Stat};

use super::{attributes, directories};
use crate::drive::setup;
use crate::next::hooks;

/// "The functions are in the structure" (`GLOB_ALTDIRFUNC`).
const HAS_FUNCTIONS: c_int = 1 << 9;

/// `glob_t`, as glibc has it.
#[repr(C)]
pub struct Glob {
    count: size_t,
    paths: *mut *mut c_char,
    offset: size_t,
    flags: c_int,
    functions: Functions,
}

/// What it lists directories by.
#[derive(Clone, Copy)]
#[repr(C)]
struct Functions {
    close: *const c_void,
    read: *const c_void,
    open: *const c_void,
    lstat: *const c_void,
    stat: *const c_void,
}

/// This library's, which know the drive.
fn own() -> Functions {
    let close: unsafe extern "C" fn(*mut DIR) -> c_int = directories::closedir;
    let read: unsafe extern "C" fn(*mut DIR) -> *mut dirent64 = directories::readdir64;
    let open: unsafe extern "C" fn(*const c_char) -> *mut DIR = directories::opendir;
    let lstat: unsafe extern "C" fn(*const c_char, *mut Stat) -> c_int = attributes::lstat64;
    let stat: unsafe extern "C" fn(*const c_char, *mut Stat) -> c_int = attributes::stat64;
    Functions {
        close: close as *const c_void,
        read: read as *const c_void,
        open: open as *const c_void,
        lstat: lstat as *const c_void,
        stat: stat as *const c_void,
    }
}

/// What is told of a directory that cannot be read.
type OnError = Option<unsafe extern "C" fn(*const c_char, c_int) -> c_int>;

/// Has `search` use this library's functions, unless the program gave its own.
///
/// # Safety
/// `found` is the caller's structure.
unsafe fn with_own(
    flags: c_int,
    found: *mut Glob,
    search: impl Fn(c_int, *mut Glob) -> c_int,
) -> c_int {
    if flags & HAS_FUNCTIONS != 0 || setup().is_none() {
        return search(flags, found);
    }
    // SAFETY: the caller's promise. What the functions were need not be anything: they are bytes that are put back.
    unsafe {
        let functions = &raw mut (*found).functions;
        let before = functions.cast::<std::mem::MaybeUninit<Functions>>().read();
        functions.write(own());
        let said = search(flags | HAS_FUNCTIONS, found);
        functions
            .cast::<std::mem::MaybeUninit<Functions>>()
            .write(before);
        (*found).flags &= !HAS_FUNCTIONS;
        said
    }
}

hooks! {
    fn glob(pattern: *const c_char, flags: c_int, on_error: OnError, found: *mut Glob) -> c_int, next {
        // SAFETY: the caller's structure.
        unsafe { with_own(flags, found, |flags, found| next(pattern, flags, on_error, found)) }
    }

    fn glob64(pattern: *const c_char, flags: c_int, on_error: OnError, found: *mut Glob) -> c_int, next {
        // SAFETY: the caller's structure.
        unsafe { with_own(flags, found, |flags, found| next(pattern, flags, on_error, found)) }
    }
}
