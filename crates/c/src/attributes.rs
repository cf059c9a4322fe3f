//! Links, owners, permission bits, times and extended attributes of files of a mount.

use std::ffi::{c_char, c_void};

use crate::error::{Failure, give, status};
use crate::file::{bytes, bytes_mut};
use crate::fs::at_path;
use crate::mount::{path, wharf_mount};

/// Gives what `from` names, a symbolic link itself, the second name `to`. 0, or -1.
///
/// `mount` is NULL or open; `from` and `to` are NULL or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_link(
    mount: *const wharf_mount,
    from: *const c_char,
    to: *const c_char,
) -> i32 {
    let link = || {
        // SAFETY: the caller's promise.
        let to = unsafe { path(to) }?.to_vec();
        // SAFETY: the caller's promise.
        unsafe { at_path(mount, from, |served, from| served.mount.link(from, to)) }
    };
    status(link())
}

/// Makes a symbolic link to `target` at a path. 0, or -1.
///
/// `mount` is NULL or open; `target` and `path` are NULL or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_symlink(
    mount: *const wharf_mount,
    target: *const c_char,
    path: *const c_char,
) -> i32 {
    let link = || {
        // SAFETY: the caller's promise.
        let target = unsafe { self::path(target) }?.to_vec();
        // SAFETY: the caller's promise.
        unsafe {
            at_path(mount, path, |served, path| {
                served.mount.symlink(target, path)
            })
        }
    };
    status(link())
}

/// Where a symbolic link leads: up to `count` bytes of it, without a zero behind them. How many there are in all, or -1.
///
/// `mount` is NULL or open; `path` is NULL or ends with a zero; `out` has room for `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_readlink(
    mount: *const wharf_mount,
    path: *const c_char,
    out: *mut c_char,
    count: usize,
) -> i64 {
    // SAFETY: the caller's promise.
    unsafe {
        let found = at_path(mount, path, |served, path| served.mount.read_link(path));
        fill(found, out.cast(), count)
    }
}

/// Sets the permission bits of what a path names. 0, or -1.
///
/// `mount` is NULL or open; `path` is NULL or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_chmod(
    mount: *const wharf_mount,
    path: *const c_char,
    mode: u32,
) -> i32 {
    // SAFETY: the caller's promise.
    status(unsafe {
        at_path(mount, path, move |served, path| {
            served.mount.chmod(path, (mode & 0o7777) as u16)
        })
    })
}

/// Gives what a path names, a symbolic link itself, to a user and a group. 0, or -1.
///
/// `mount` is NULL or open; `path` is NULL or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_chown(
    mount: *const wharf_mount,
    path: *const c_char,
    uid: u32,
    gid: u32,
) -> i32 {
    // SAFETY: the caller's promise.
    status(unsafe {
        at_path(mount, path, move |served, path| {
            served.mount.chown(path, uid, gid)
        })
    })
}

/// Sets when what a path names was read and changed last, in nanoseconds since 1970. 0, or -1.
///
/// `mount` is NULL or open; `path` is NULL or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_set_times(
    mount: *const wharf_mount,
    path: *const c_char,
    accessed_ns: u64,
    modified_ns: u64,
) -> i32 {
    // SAFETY: the caller's promise.
    status(unsafe {
        at_path(mount, path, move |served, path| {
            served.mount.set_times(path, accessed_ns, modified_ns)
        })
    })
}

/// The value of an extended attribute of what a path names: up to `count` bytes of it. How many there are in all, or -1.
///
/// `mount` is NULL or open; `path` and `name` are NULL or end with a zero; `out` has room for `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_getxattr(
    mount: *const wharf_mount,
    path: *const c_char,
    name: *const c_char,
    out: *mut c_void,
    count: usize,
) -> i64 {
    let get = || {
        // SAFETY: the caller's promise.
        let name = unsafe { self::path(name) }?.to_vec();
        // SAFETY: the caller's promise.
        unsafe {
            at_path(mount, path, move |served, path| {
                served.mount.xattr(path, &name)
            })
        }
    };
    // SAFETY: the caller's promise.
    unsafe { fill(get(), out, count) }
}

/// Sets an extended attribute of what a path names to a value of `count` bytes. 0, or -1.
///
/// `mount` is NULL or open; `path` and `name` are NULL or end with a zero; `value` has `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_setxattr(
    mount: *const wharf_mount,
    path: *const c_char,
    name: *const c_char,
    value: *const c_void,
    count: usize,
) -> i32 {
    let set = || {
        // SAFETY: the caller's promise.
        let (name, value) = unsafe { (self::path(name)?.to_vec(), bytes(value, count)?.to_vec()) };
        // SAFETY: the caller's promise.
        unsafe {
            at_path(mount, path, move |served, path| {
                served.mount.set_xattr(path, &name, &value)
            })
        }
    };
    status(set())
}

/// Takes an extended attribute of what a path names away. 0, or -1.
///
/// `mount` is NULL or open; `path` and `name` are NULL or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_removexattr(
    mount: *const wharf_mount,
    path: *const c_char,
    name: *const c_char,
) -> i32 {
    let remove = || {
        // SAFETY: the caller's promise.
        let name = unsafe { self::path(name) }?.to_vec();
        // SAFETY: the caller's promise.
        unsafe {
            at_path(mount, path, move |served, path| {
                served.mount.remove_xattr(path, &name)
            })
        }
    };
    status(remove())
}

/// The names of the extended attributes of what a path names, each with a zero behind it: up to `count` bytes of them. How
/// many there are in all, or -1.
///
/// `mount` is NULL or open; `path` is NULL or ends with a zero; `out` has room for `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_listxattr(
    mount: *const wharf_mount,
    path: *const c_char,
    out: *mut c_char,
    count: usize,
) -> i64 {
    // SAFETY: the caller's promise.
    unsafe {
        let names = at_path(mount, path, |served, path| {
            let names = served.mount.xattrs(path)?;
            let names = names.iter().map(|name| [name, &[0][..]].concat());
            Ok(names.collect::<Vec<_>>().concat())
        });
        fill(names, out.cast(), count)
    }
}

/// Copies as much of what was found as there is room for; gives how much there is.
///
/// # Safety
/// `out` has room for `count` bytes.
unsafe fn fill(found: Result<Vec<u8>, Failure>, out: *mut c_void, count: usize) -> i64 {
    let filled = found.and_then(|found| {
        // SAFETY: the caller's promise.
        let out = unsafe { bytes_mut(out, count)? };
        let fits = found.len().min(count);
        out[..fits].copy_from_slice(&found[..fits]);
        Ok(found.len() as i64)
    });
    give(filled, -1)
}
