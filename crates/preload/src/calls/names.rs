//! Directories made and removed, links, renames.

use std::ffi::{c_char, c_int, c_uint};

use libc::{dev_t, mode_t, size_t, ssize_t};
use wharf_files::vfs::Service;
use wharf_files::{Rename, Special, block_on};

use super::open::masked;
use crate::drive::with;
use crate::errno::{Errno, Outcome, number, zero};
use crate::find::{Found, Spot, find, text_of};
use crate::next::hooks;

fn make_directory(spot: &Spot, mode: mode_t) -> Outcome<()> {
    with(|drive, by| {
        Ok(block_on(drive.mkdir(by, spot.at_to_change(drive, by)?, masked(mode))).map(drop)?)
    })
}

fn remove_name(spot: &Spot, is_directory: bool) -> Outcome<()> {
    with(|drive, by| {
        let at = spot.at_to_change(drive, by)?;
        let removed = match is_directory {
            true => block_on(drive.rmdir(by, at)),
            false => block_on(drive.unlink(by, at)),
        };
        Ok(removed?)
    })
}

fn make_special(spot: &Spot, mode: mode_t, device: dev_t) -> Outcome<()> {
    let special = match mode & libc::S_IFMT {
        libc::S_IFIFO => Special::Fifo,
        libc::S_IFSOCK => Special::Socket,
        libc::S_IFCHR => Special::CharDevice,
        libc::S_IFBLK => Special::BlockDevice,
        0 | libc::S_IFREG => {
            let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_CLOEXEC;
            return super::open::make(spot, flags, mode, crate::page::Use::File).map(drop);
        }
        _ => return Err(Errno(libc::EINVAL)),
    };
    with(|drive, by| {
        let made = drive.mknod(
            by,
            spot.at_to_change(drive, by)?,
            special,
            device as u32,
            masked(mode),
        );
        Ok(block_on(made).map(drop)?)
    })
}

/// What two paths of a call lead to: both to the drive, or both to the machine's own files.
enum Two {
    Drive(Spot, Spot),
    Machine(Option<std::ffi::CString>, Option<std::ffi::CString>),
}

/// # Safety
/// The paths are texts, or null.
unsafe fn find_two(from: (c_int, *const c_char), to: (c_int, *const c_char)) -> Outcome<Two> {
    // SAFETY: the caller's promise.
    match unsafe { (find(from.0, from.1), find(to.0, to.1)) } {
        (Found::Drive(from), Found::Drive(to)) => Ok(Two::Drive(from, to)),
        // SAFETY: the caller's promise.
        (Found::Drive(_), Found::Machine) => Err(unsafe { not_here(to.1) }),
        // SAFETY: the caller's promise.
        (Found::Machine, Found::Drive(_)) => Err(unsafe { not_here(from.1) }),
        (Found::Drive(_), _) | (_, Found::Drive(_)) => Err(Errno(libc::EXDEV)),
        (from, to) => Ok(Two::Machine(elsewhere(from), elsewhere(to))),
    }
}

/// Why a path that does not lead to the drive cannot be the other one of a path that does.
///
/// # Safety
/// The path is a text, or null.
unsafe fn not_here(path: *const c_char) -> Errno {
    // SAFETY: the caller's promise.
    match unsafe { text_of(path) } {
        Err(errno) => errno,
        Ok(b"") => Errno(libc::ENOENT),
        Ok(_) => Errno(libc::EXDEV),
    }
}

fn elsewhere(found: Found) -> Option<std::ffi::CString> {
    match found {
        Found::Elsewhere(path) => Some(path),
        Found::Machine | Found::Drive(_) => None,
    }
}

fn text(path: &Option<std::ffi::CString>, given: *const c_char) -> *const c_char {
    path.as_ref().map_or(given, |path| path.as_ptr())
}

fn rename_how(flags: c_uint) -> Outcome<Rename> {
    match flags {
        0 => Ok(Rename::Replace),
        libc::RENAME_NOREPLACE => Ok(Rename::NoReplace),
        libc::RENAME_EXCHANGE => Ok(Rename::Exchange),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// Where a symbolic link leads.
pub(crate) fn read_link(spot: &Spot) -> Outcome<Vec<u8>> {
    with(|drive, by| Ok(block_on(drive.read_link(by, spot.at(drive, by)?))?))
}

/// Copies as much of a link's target as there is room for.
///
/// # Safety
/// There is so much room.
unsafe fn give(target: &[u8], room: *mut c_char, bytes: size_t) -> Outcome<ssize_t> {
    if bytes == 0 {
        return Err(Errno(libc::EINVAL));
    }
    let now = target.len().min(bytes);
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(target.as_ptr(), room.cast(), now) };
    Ok(now as ssize_t)
}

/// The path of a descriptor of the drive, if `path` is what `/proc` calls it.
unsafe fn of_proc(path: *const c_char) -> Option<Vec<u8>> {
    // SAFETY: the caller's path.
    let path = unsafe { text_of(path) }.ok()?;
    let number = path
        .strip_prefix(b"/proc/self/fd/")
        .or(path.strip_prefix(b"/dev/fd/"))?;
    let descriptor = std::str::from_utf8(number).ok()?.parse().ok()?;
    let open = crate::table::get(descriptor)?;
    Some(crate::find::place_text(open.page().path()))
}

hooks! {
    fn mkdirat(directory: c_int, path: *const c_char, mode: mode_t) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { find(directory, path) } {
            Found::Machine => next(directory, path, mode),
            Found::Elsewhere(path) => next(libc::AT_FDCWD, path.as_ptr(), mode),
            Found::Drive(spot) => zero(make_directory(&spot, mode)),
        }
    }

    fn mkdir(path: *const c_char, mode: mode_t) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { mkdirat(libc::AT_FDCWD, path, mode) }
    }

    fn mknodat(directory: c_int, path: *const c_char, mode: mode_t, device: dev_t) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { find(directory, path) } {
            Found::Machine => next(directory, path, mode, device),
            Found::Elsewhere(path) => next(libc::AT_FDCWD, path.as_ptr(), mode, device),
            Found::Drive(spot) => zero(make_special(&spot, mode, device)),
        }
    }

    fn mknod(path: *const c_char, mode: mode_t, device: dev_t) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { mknodat(libc::AT_FDCWD, path, mode, device) }
    }

    fn mkfifoat(directory: c_int, path: *const c_char, mode: mode_t) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { mknodat(directory, path, mode & 0o7777 | libc::S_IFIFO, 0) }
    }

    fn mkfifo(path: *const c_char, mode: mode_t) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { mknodat(libc::AT_FDCWD, path, mode & 0o7777 | libc::S_IFIFO, 0) }
    }

    fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { find(directory, path) } {
            Found::Machine => next(directory, path, flags),
            Found::Elsewhere(path) => next(libc::AT_FDCWD, path.as_ptr(), flags),
            Found::Drive(spot) => zero(remove_name(&spot, flags & libc::AT_REMOVEDIR != 0)),
        }
    }

    fn unlink(path: *const c_char) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { find(libc::AT_FDCWD, path) } {
            Found::Machine => next(path),
            Found::Elsewhere(path) => next(path.as_ptr()),
            Found::Drive(spot) => zero(remove_name(&spot, false)),
        }
    }

    fn rmdir(path: *const c_char) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { find(libc::AT_FDCWD, path) } {
            Found::Machine => next(path),
            Found::Elsewhere(path) => next(path.as_ptr()),
            Found::Drive(spot) => zero(remove_name(&spot, true)),
        }
    }

    fn renameat2(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_uint) -> c_int, next {
        // SAFETY: the caller's paths.
        let two = unsafe { find_two((from_at, from), (to_at, to)) };
        match two {
            Ok(Two::Machine(a, b)) => next(from_at, text(&a, from), to_at, text(&b, to), flags),
            Ok(Two::Drive(from, to)) => zero(rename_how(flags).and_then(|how| {
                with(|drive, by| Ok(block_on(drive.rename(by, from.at_to_change(drive, by)?, to.at(drive, by)?, how))?))
            })),
            Err(errno) => zero(Err(errno)),
        }
    }

    fn renameat(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { renameat2(from_at, from, to_at, to, 0) }
    }

    fn rename(from: *const c_char, to: *const c_char) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { renameat2(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
    }

    fn linkat(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_int) -> c_int, next {
        // SAFETY: the caller's paths.
        let two = unsafe { find_two((from_at, from), (to_at, to)) };
        match two {
            Ok(Two::Machine(a, b)) => next(from_at, text(&a, from), to_at, text(&b, to), flags),
            Ok(Two::Drive(from, to)) => zero(with(|drive, by| {
                let follows = flags & libc::AT_SYMLINK_FOLLOW != 0;
                let linked = drive.link(by, from.at_to_change(drive, by)?, to.at(drive, by)?, follows);
                Ok(block_on(linked).map(drop)?)
            })),
            Err(errno) => zero(Err(errno)),
        }
    }

    fn link(from: *const c_char, to: *const c_char) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { linkat(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
    }

    fn symlinkat(target: *const c_char, directory: c_int, path: *const c_char) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { find(directory, path) } {
            Found::Machine => next(target, directory, path),
            Found::Elsewhere(path) => next(target, libc::AT_FDCWD, path.as_ptr()),
            Found::Drive(spot) => zero(with(|drive, by| {
                // SAFETY: the caller's text.
                let target = unsafe { text_of(target) }?;
                Ok(block_on(drive.symlink(by, target, spot.at_to_change(drive, by)?)).map(drop)?)
            })),
        }
    }

    fn symlink(target: *const c_char, path: *const c_char) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { symlinkat(target, libc::AT_FDCWD, path) }
    }

    fn readlinkat(directory: c_int, path: *const c_char, room: *mut c_char, bytes: size_t) -> ssize_t, next {
        // SAFETY: the caller's path.
        match unsafe { find(directory, path) } {
            // SAFETY: the caller's path.
            Found::Machine => match unsafe { of_proc(path) } {
                // SAFETY: the caller's room.
                Some(text) => number(unsafe { give(&text, room, bytes) }),
                None => next(directory, path, room, bytes),
            },
            Found::Elsewhere(path) => next(libc::AT_FDCWD, path.as_ptr(), room, bytes),
            Found::Drive(spot) => number(read_link(&spot).and_then(|target| {
                // SAFETY: the caller's room.
                unsafe { give(&target, room, bytes) }
            })),
        }
    }

    fn readlink(path: *const c_char, room: *mut c_char, bytes: size_t) -> ssize_t, next {
        // SAFETY: as the caller's.
        unsafe { readlinkat(libc::AT_FDCWD, path, room, bytes) }
    }

    fn remove(path: *const c_char) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { find(libc::AT_FDCWD, path) } {
            Found::Machine => next(path),
            Found::Elsewhere(path) => next(path.as_ptr()),
            Found::Drive(spot) => zero(match remove_name(&spot, false) {
                Err(Errno(libc::EISDIR)) => remove_name(&spot, true),
                removed => removed,
            }),
        }
    }
}
