//! What is not there for files of the drive, and says so.

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

use libc::size_t;

use crate::drive::complain;
use crate::errno::{Errno, number};
use crate::find::{Found, find};
use crate::next::hooks;

fn refused(what: &str) -> c_int {
    crate::audit::refused(what);
    complain(&format!(
        "{what} is not there for files of a drive: use `wharf mount`"
    ));
    number(Err(Errno(libc::ENOSYS)))
}

/// What liburing says of its rings where there is a drive.
fn no_ring() -> Option<c_int> {
    crate::drive::setup()?;
    refused("io_uring");
    Some(-libc::ENOSYS)
}

hooks! {
    fn bind(socket: c_int, address: *const libc::sockaddr, bytes: libc::socklen_t) -> c_int, next {
        // SAFETY: the caller's address.
        match unsafe { is_of_drive(address, bytes) } {
            false => next(socket, address, bytes),
            true => {
                crate::audit::refused("bind");
                complain("sockets have no names on a drive: use `wharf mount`");
                number(Err(Errno(libc::EPERM)))
            }
        }
    }

    fn connect(socket: c_int, address: *const libc::sockaddr, bytes: libc::socklen_t) -> c_int, next {
        // SAFETY: the caller's address.
        match unsafe { is_of_drive(address, bytes) } {
            false => next(socket, address, bytes),
            true => number(Err(Errno(libc::ECONNREFUSED))),
        }
    }

    fn chroot(path: *const c_char) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { find(libc::AT_FDCWD, path) } {
            Found::Machine => next(path),
            Found::Elsewhere(path) => next(path.as_ptr()),
            Found::Drive(_) => refused("chroot"),
        }
    }

    fn inotify_add_watch(watcher: c_int, path: *const c_char, mask: c_uint) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { find(libc::AT_FDCWD, path) } {
            Found::Machine => next(watcher, path, mask),
            Found::Elsewhere(path) => next(watcher, path.as_ptr(), mask),
            Found::Drive(_) => refused("inotify"),
        }
    }

    fn fanotify_mark(watcher: c_int, flags: c_uint, mask: u64, directory: c_int, path: *const c_char) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { find(directory, path) } {
            Found::Machine => next(watcher, flags, mask, directory, path),
            Found::Elsewhere(path) => next(watcher, flags, mask, libc::AT_FDCWD, path.as_ptr()),
            Found::Drive(_) => refused("fanotify"),
        }
    }

    fn name_to_handle_at(directory: c_int, path: *const c_char, handle: *mut c_void, mount: *mut c_int, flags: c_int) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { find(directory, path) } {
            Found::Machine => next(directory, path, handle, mount, flags),
            Found::Elsewhere(path) => next(libc::AT_FDCWD, path.as_ptr(), handle, mount, flags),
            Found::Drive(_) => number(Err(Errno(libc::EOPNOTSUPP))),
        }
    }

    // Of liburing, which calls the kernel itself. A file of the drive would be an error of each request (`EBADF`), long after programs look
    // for another way. Errors are returned, negated.
    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int, next {
        no_ring().unwrap_or_else(|| next(entries, ring, flags))
    }

    fn io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, parameters: *mut c_void) -> c_int, next {
        no_ring().unwrap_or_else(|| next(entries, ring, parameters))
    }

    fn io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void, bytes: size_t) -> c_int, next {
        no_ring().unwrap_or_else(|| next(entries, ring, parameters, memory, bytes))
    }

    fn io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_int, next {
        no_ring().unwrap_or_else(|| next(entries, parameters))
    }

    fn syscall(call: c_long, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong, e: c_ulong, f: c_ulong) -> c_long, next {
        // SAFETY: as the caller's.
        match unsafe { known(call, [a, b, c, d, e, f]) } {
            Some(answer) => answer,
            None => next(call, a, b, c, d, e, f),
        }
    }
}

/// Whether the address of a socket is a path on the drive.
///
/// # Safety
/// There are so many bytes.
unsafe fn is_of_drive(address: *const libc::sockaddr, bytes: libc::socklen_t) -> bool {
    let head = std::mem::offset_of!(libc::sockaddr_un, sun_path);
    if crate::drive::setup().is_none() || address.is_null() || (bytes as usize) <= head {
        return false;
    }
    // SAFETY: the caller's promise.
    let (family, path) = unsafe {
        let path =
            std::slice::from_raw_parts(address.cast::<u8>().add(head), bytes as usize - head);
        ((*address).sa_family, path)
    };
    let end = path
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(path.len());
    if i32::from(family) != libc::AF_UNIX || end == 0 {
        return false;
    }
    let path = std::ffi::CString::new(&path[..end]).unwrap_or_default();
    // SAFETY: a text.
    let found = unsafe { find(libc::AT_FDCWD, path.as_ptr()) };
    matches!(found, Found::Drive(_))
}

/// System calls that programs make by their number, as the functions that stand for them: those on files of the drive.
///
/// # Safety
/// As the call's.
unsafe fn known(call: c_long, [a, b, c, d, e, f]: [c_ulong; 6]) -> Option<c_long> {
    crate::drive::setup()?;
    let has = |descriptor: c_ulong| crate::table::has(descriptor as c_int);
    // SAFETY: the caller's paths and room.
    unsafe {
        let leads = |directory: c_ulong, path: c_ulong| {
            !matches!(
                find(directory as c_int, path as *const c_char),
                Found::Machine
            )
        };
        Some(match call {
            libc::SYS_io_uring_setup => refused("io_uring").into(),
            libc::SYS_statx if has(a) || leads(a, b) => {
                super::attributes::statx(a as c_int, b as _, c as c_int, d as c_uint, e as _).into()
            }
            libc::SYS_openat if leads(a, b) => {
                super::open::openat(a as c_int, b as _, c as c_int, d as _).into()
            }
            libc::SYS_renameat2 if leads(a, b) || leads(c, d) => {
                super::names::renameat2(a as c_int, b as _, c as c_int, d as _, e as c_uint).into()
            }
            libc::SYS_copy_file_range if has(a) || has(c) => super::storage::copy_file_range(
                a as c_int,
                b as _,
                c as c_int,
                d as _,
                e as size_t,
                0,
            ) as c_long,
            libc::SYS_read if has(a) => {
                super::data::read(a as c_int, b as _, c as size_t) as c_long
            }
            libc::SYS_write if has(a) => {
                super::data::write(a as c_int, b as _, c as size_t) as c_long
            }
            libc::SYS_close if has(a) => super::descriptors::close(a as c_int).into(),
            libc::SYS_close_range => {
                super::descriptors::close_range(a as c_uint, b as c_uint, c as c_int).into()
            }
            _ => {
                let made = super::libaio::known(call, [a, b, c, d, e, f])?;
                number(made.map(|count| count as c_long))
            }
        })
    }
}
