//! Files and directories with names that nobody has: the C library makes them from within.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicU64, Ordering};

use super::names::mkdir;
use super::open::open64;
use crate::errno::{Errno, Outcome, last, number, pointer};
use crate::find::{Found, find};
use crate::next::hooks;

/// How often another name is tried.
const TRIES_MAX: u32 = 10_000;

const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A number that other processes and calls hardly have. By SplitMix64 (Steele, Lea, Flood 2014).
fn another() -> u64 {
    let seed = wharf::files::now_ns() ^ u64::from(std::process::id()).rotate_left(40);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut z = seed.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Whether a template leads to the drive.
///
/// # Safety
/// A text.
unsafe fn is_drives(template: *const c_char) -> bool {
    // SAFETY: the caller's promise.
    matches!(unsafe { find(libc::AT_FDCWD, template) }, Found::Drive(_))
}

/// Puts letters in the place of the six `X` before the last `suffix` bytes, until what `make` makes is new.
///
/// # Safety
/// A text that may be written.
unsafe fn make(
    template: *mut c_char,
    suffix: c_int,
    make: impl Fn(*const c_char) -> c_int,
) -> Outcome<c_int> {
    // SAFETY: the caller's promise.
    let length = unsafe { CStr::from_ptr(template) }.to_bytes().len();
    let begin = usize::try_from(suffix)
        .ok()
        .and_then(|suffix| length.checked_sub(6 + suffix));
    let begin = begin.ok_or(Errno(libc::EINVAL))?;
    // SAFETY: inside the text.
    let letters = unsafe { std::slice::from_raw_parts_mut(template.add(begin).cast::<u8>(), 6) };
    if letters != b"XXXXXX" {
        return Err(Errno(libc::EINVAL));
    }
    for _ in 0..TRIES_MAX {
        let mut value = another();
        for letter in letters.iter_mut() {
            *letter = LETTERS[(value % 62) as usize];
            value /= 62;
        }
        let made = make(template);
        if made >= 0 || last() != Errno(libc::EEXIST) {
            return if made >= 0 { Ok(made) } else { Err(last()) };
        }
    }
    Err(Errno(libc::EEXIST))
}

/// # Safety
/// A text that may be written.
unsafe fn make_file(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
    let flags = flags & !libc::O_ACCMODE | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    // SAFETY: the caller's promise.
    number(unsafe { make(template, suffix, |path| open64(path, flags, 0o600)) })
}

hooks! {
    fn mkstemp64(template: *mut c_char) -> c_int, next {
        // SAFETY: the caller's text.
        match unsafe { is_drives(template) } {
            false => next(template),
            // SAFETY: the caller's text.
            true => unsafe { make_file(template, 0, 0) },
        }
    }

    fn mkstemp(template: *mut c_char) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { mkstemp64(template) }
    }

    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int, next {
        // SAFETY: the caller's text.
        match unsafe { is_drives(template) } {
            false => next(template, flags),
            // SAFETY: the caller's text.
            true => unsafe { make_file(template, 0, flags) },
        }
    }

    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { mkostemp64(template, flags) }
    }

    fn mkstemps64(template: *mut c_char, suffix: c_int) -> c_int, next {
        // SAFETY: the caller's text.
        match unsafe { is_drives(template) } {
            false => next(template, suffix),
            // SAFETY: the caller's text.
            true => unsafe { make_file(template, suffix, 0) },
        }
    }

    fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { mkstemps64(template, suffix) }
    }

    fn mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int, next {
        // SAFETY: the caller's text.
        match unsafe { is_drives(template) } {
            false => next(template, suffix, flags),
            // SAFETY: the caller's text.
            true => unsafe { make_file(template, suffix, flags) },
        }
    }

    fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { mkostemps64(template, suffix, flags) }
    }

    fn mkdtemp(template: *mut c_char) -> *mut c_char, next {
        // SAFETY: the caller's text.
        match unsafe { is_drives(template) } {
            false => next(template),
            // SAFETY: the caller's text.
            true => pointer(unsafe { make(template, 0, |path| mkdir(path, 0o700)) }.map(|_| template)),
        }
    }

    fn mktemp(template: *mut c_char) -> *mut c_char, next {
        // SAFETY: the caller's text.
        if !unsafe { is_drives(template) } {
            return next(template);
        }
        // SAFETY: the same text.
        let is_new = |path| match unsafe { super::attributes::access(path, libc::F_OK) } {
            0 => {
                crate::errno::set(Errno(libc::EEXIST));
                -1
            }
            _ => 0,
        };
        // SAFETY: the caller's text.
        if unsafe { make(template, 0, is_new) }.is_err() && !template.is_null() {
            // SAFETY: as the C library tells of it: the text is empty.
            unsafe { template.write(0) };
        }
        template
    }
}
