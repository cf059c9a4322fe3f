//! Extended attributes.

use std::ffi::{c_char, c_int, c_void};

use libc::{size_t, ssize_t};
use wharf_files::vfs::{Service, Target};
use wharf_files::{By, SetXattr, block_on};

use crate::drive::{Drive, handle, with};
use crate::errno::{Errno, Outcome, number, zero};
use crate::find::{Found, Spot, find, text_of};
use crate::next::hooks;
use crate::table::{self, Ref};

/// What a call is about: a path, whose link at the end is followed or not, or what is open.
enum About {
    Path(Spot, bool),
    Open(Ref),
}

impl About {
    fn with<T>(&self, mut f: impl FnMut(&Drive, By<'_>, Target<'_>) -> Outcome<T>) -> Outcome<T> {
        with(|drive, by| {
            let target = match self {
                About::Path(spot, follows) => Target::Path(spot.at(drive, by)?, *follows),
                About::Open(open) => Target::Handle(handle(drive, by, open)?),
            };
            f(drive, by, target)
        })
    }

    /// # Safety
    /// `name` is a text, or null.
    unsafe fn get(&self, name: *const c_char) -> Outcome<Vec<u8>> {
        // SAFETY: the caller's promise.
        let name = unsafe { text_of(name) }?;
        self.with(|drive, by, target| Ok(block_on(drive.xattr(by, target, name))?))
    }

    /// # Safety
    /// `name` is a text, or null.
    unsafe fn set(&self, name: *const c_char, value: &[u8], flags: c_int) -> Outcome<()> {
        // SAFETY: the caller's promise.
        let name = unsafe { text_of(name) }?;
        let how = match flags {
            0 => SetXattr::Put,
            libc::XATTR_CREATE => SetXattr::Create,
            libc::XATTR_REPLACE => SetXattr::Replace,
            _ => return Err(Errno(libc::EINVAL)),
        };
        self.with(|drive, by, target| Ok(block_on(drive.set_xattr(by, target, name, value, how))?))
    }

    fn list(&self) -> Outcome<Vec<u8>> {
        let names = self.with(|drive, by, target| Ok(block_on(drive.xattrs(by, target))?))?;
        Ok(names
            .iter()
            .flat_map(|name| [&name[..], b"\0"].concat())
            .collect())
    }

    /// # Safety
    /// `name` is a text, or null.
    unsafe fn remove(&self, name: *const c_char) -> Outcome<()> {
        // SAFETY: the caller's promise.
        let name = unsafe { text_of(name) }?;
        self.with(|drive, by, target| Ok(block_on(drive.remove_xattr(by, target, name))?))
    }
}

/// # Safety
/// There is so much room.
unsafe fn give(found: Outcome<Vec<u8>>, room: *mut c_void, bytes: size_t) -> ssize_t {
    number(found.and_then(|value| {
        if bytes > 0 {
            if value.len() > bytes {
                return Err(Errno(libc::ERANGE));
            }
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), room.cast(), value.len()) };
        }
        Ok(value.len() as ssize_t)
    }))
}

/// The four calls by path, for one that follows links and one that does not.
macro_rules! by_path {
    ($get:ident $set:ident $list:ident $remove:ident $follows:literal) => {
        hooks! {
            fn $get(path: *const c_char, name: *const c_char, room: *mut c_void, bytes: size_t) -> ssize_t, next {
                // SAFETY: the caller's texts and room.
                unsafe {
                    match find(libc::AT_FDCWD, path) {
                        Found::Machine => next(path, name, room, bytes),
                        Found::Elsewhere(path) => next(path.as_ptr(), name, room, bytes),
                        Found::Drive(spot) => give(About::Path(spot, $follows).get(name), room, bytes),
                    }
                }
            }

            fn $set(path: *const c_char, name: *const c_char, value: *const c_void, bytes: size_t, flags: c_int) -> c_int, next {
                // SAFETY: the caller's texts and value.
                unsafe {
                    match find(libc::AT_FDCWD, path) {
                        Found::Machine => next(path, name, value, bytes, flags),
                        Found::Elsewhere(path) => next(path.as_ptr(), name, value, bytes, flags),
                        Found::Drive(spot) => {
                            let value = super::data::data(value, bytes);
                            zero(About::Path(spot, $follows).set(name, value, flags))
                        }
                    }
                }
            }

            fn $list(path: *const c_char, room: *mut c_char, bytes: size_t) -> ssize_t, next {
                // SAFETY: the caller's path and room.
                unsafe {
                    match find(libc::AT_FDCWD, path) {
                        Found::Machine => next(path, room, bytes),
                        Found::Elsewhere(path) => next(path.as_ptr(), room, bytes),
                        Found::Drive(spot) => give(About::Path(spot, $follows).list(), room.cast(), bytes),
                    }
                }
            }

            fn $remove(path: *const c_char, name: *const c_char) -> c_int, next {
                // SAFETY: the caller's texts.
                unsafe {
                    match find(libc::AT_FDCWD, path) {
                        Found::Machine => next(path, name),
                        Found::Elsewhere(path) => next(path.as_ptr(), name),
                        Found::Drive(spot) => zero(About::Path(spot, $follows).remove(name)),
                    }
                }
            }
        }
    };
}

by_path!(getxattr setxattr listxattr removexattr true);
by_path!(lgetxattr lsetxattr llistxattr lremovexattr false);

hooks! {
    fn fgetxattr(descriptor: c_int, name: *const c_char, room: *mut c_void, bytes: size_t) -> ssize_t, next {
        match table::get(descriptor) {
            None => next(descriptor, name, room, bytes),
            // SAFETY: the caller's text and room.
            Some(open) => unsafe { give(About::Open(open).get(name), room, bytes) },
        }
    }

    fn fsetxattr(descriptor: c_int, name: *const c_char, value: *const c_void, bytes: size_t, flags: c_int) -> c_int, next {
        match table::get(descriptor) {
            None => next(descriptor, name, value, bytes, flags),
            // SAFETY: the caller's text and value.
            Some(open) => unsafe {
                let value = super::data::data(value, bytes);
                zero(About::Open(open).set(name, value, flags))
            },
        }
    }

    fn flistxattr(descriptor: c_int, room: *mut c_char, bytes: size_t) -> ssize_t, next {
        match table::get(descriptor) {
            None => next(descriptor, room, bytes),
            // SAFETY: the caller's room.
            Some(open) => unsafe { give(About::Open(open).list(), room.cast(), bytes) },
        }
    }

    fn fremovexattr(descriptor: c_int, name: *const c_char) -> c_int, next {
        match table::get(descriptor) {
            None => next(descriptor, name),
            // SAFETY: the caller's text.
            Some(open) => zero(unsafe { About::Open(open).remove(name) }),
        }
    }
}
