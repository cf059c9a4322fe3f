//! Pages used in place.

use std::ffi::c_void;
use std::mem::{align_of, size_of};

use wharf::page_cache::PageGuard;

use crate::error::{Failure, known, status};
use crate::file::{bytes_mut, wharf_file};

/// Bytes of a page.
pub const WHARF_PAGE_BYTES: usize = 4096;

/// Words that hold a guard.
const GUARD_WORDS: usize = 8;

/// A page that stays in memory, and where it is, from wharf_pin to wharf_unpin. It stays on the thread that
/// pinned it; its file stays open.
#[repr(C)]
#[derive(Debug)]
pub struct wharf_page {
    /// The 4096 bytes of the page; writes to the file by any thread change them. Bytes beyond the end of the file are
    /// zeros. NULL if nothing is pinned.
    pub data: *const u8,
    /// The byte of the file at which it begins.
    pub offset: u64,
    /// The library's own.
    pub hidden: [u64; 8],
}

type Guard = PageGuard<'static>;

const _: () = assert!(size_of::<Guard>() <= GUARD_WORDS * 8 && align_of::<Guard>() <= 8);

impl wharf_page {
    /// Nothing pinned.
    fn none() -> wharf_page {
        wharf_page {
            data: std::ptr::null(),
            offset: 0,
            hidden: [0; GUARD_WORDS],
        }
    }

    fn guard(&self) -> *const Guard {
        self.hidden.as_ptr().cast()
    }
}

/// Keeps the page that byte `offset` lies in, in memory, to be used in place. Pages in use do not leave, so that they
/// may not fill the cache. 0, or -1 and then `page->data` is NULL.
///
/// `file` is NULL or open, and stays open until the page is given back. `page` is NULL or may be written, and holds no
/// pinned page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_pin(
    file: *const wharf_file,
    offset: u64,
    page: *mut wharf_page,
) -> i32 {
    let pin = || {
        if page.is_null() {
            return Err(Failure::argument("the place for the page is NULL"));
        }
        // SAFETY: the caller's promise; what was there needs no end.
        unsafe { page.write(wharf_page::none()) };
        // SAFETY: the caller's promise, which makes the file outlive the guard.
        let file: &'static wharf_file = unsafe { known(file, "the file") }?;
        let guard: Guard = file.0.pin(offset)?;
        let mut pinned = wharf_page::none();
        (pinned.data, pinned.offset) = (guard.pointer(), guard.offset());
        // SAFETY: room and alignment are checked above.
        unsafe {
            pinned.hidden.as_mut_ptr().cast::<Guard>().write(guard);
            page.write(pinned);
        }
        Ok(())
    };
    status(pin())
}

/// Copies `count` bytes of the page, from byte `from` of it on: those of one moment, whoever writes. 0, or -1.
///
/// `page` is NULL or was filled by `wharf_pin` on this thread; `out` has room for `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_page_read(
    page: *const wharf_page,
    from: usize,
    out: *mut c_void,
    count: usize,
) -> i32 {
    let read = || {
        // SAFETY: the caller's promise.
        let page = unsafe { known(page, "the page") }?;
        if page.data.is_null() {
            return Err(Failure::argument("no page is pinned"));
        }
        if from > WHARF_PAGE_BYTES || count > WHARF_PAGE_BYTES - from {
            let text = format!("{count} bytes from byte {from} on do not lie within a page");
            return Err(Failure::argument(text));
        }
        // SAFETY: the caller's promise; `data` says that there is a guard.
        unsafe { (*page.guard()).read(from, bytes_mut(out, count)?) };
        Ok(())
    };
    status(read())
}

/// Gives the page back. NULL, and a page that is not pinned, are nothing.
///
/// `page` is NULL or was filled by `wharf_pin` on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_unpin(page: *mut wharf_page) {
    // SAFETY: the caller's promise.
    let Some(page) = (unsafe { page.as_mut() }) else {
        return;
    };
    if !page.data.is_null() {
        page.data = std::ptr::null();
        // SAFETY: `data` said that there is a guard, and no longer does.
        unsafe { page.hidden.as_mut_ptr().cast::<Guard>().drop_in_place() };
    }
}
