//! Files of a mount, as the system's own calls have them: descriptors, paths, `errno`.

use std::ffi::{CString, c_char, c_void};

use wharf::files::{Attributes, Kind, OpenFlags, Rename, Special};

use crate::error::{Failure, give, known, status};
use crate::file::{bytes, bytes_mut};
use crate::mount::{Served, path, wharf_mount};

/// What wharf_fs_stat tells, each as `struct stat` has it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct wharf_stat {
    /// Which file it is.
    pub number: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Bytes of storage that it takes.
    pub stored_bytes: u64,
    /// Time of the last read, in nanoseconds since 1970; not every read sets it.
    pub accessed_ns: u64,
    /// Time of the last change of its bytes.
    pub modified_ns: u64,
    /// Time of the last change of its attributes.
    pub changed_ns: u64,
    /// Its kind and its permission bits, as `st_mode`.
    pub mode: u32,
    /// How many names it has.
    pub links: u32,
    /// Whose it is.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Rename: it fails (EEXIST) if there is something of the new name.
pub const WHARF_NO_REPLACE: u32 = 1;
/// Rename: both names change places.
pub const WHARF_EXCHANGE: u32 = 2;

/// Called for each entry of a directory: `context`, the name, the number of the file, and its kind as `st_mode` has it.
/// Not 0 ends the list.
pub type wharf_each_entry =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, u64, u32) -> i32>;

fn kind(kind: Kind) -> u32 {
    match kind {
        Kind::File => libc::S_IFREG,
        Kind::Directory => libc::S_IFDIR,
        Kind::Symlink => libc::S_IFLNK,
        Kind::Special(Special::Fifo) => libc::S_IFIFO,
        Kind::Special(Special::Socket) => libc::S_IFSOCK,
        Kind::Special(Special::CharDevice) => libc::S_IFCHR,
        Kind::Special(Special::BlockDevice) => libc::S_IFBLK,
    }
}

impl From<Attributes> for wharf_stat {
    fn from(of: Attributes) -> wharf_stat {
        wharf_stat {
            number: of.number,
            bytes: of.bytes,
            stored_bytes: of.stored_bytes,
            accessed_ns: of.accessed_ns,
            modified_ns: of.modified_ns,
            changed_ns: of.changed_ns,
            mode: kind(of.kind) | u32::from(of.mode),
            links: of.links,
            uid: of.owner.uid,
            gid: of.owner.gid,
        }
    }
}

/// Flags of `open` that mean something here; others are an error.
const OPEN_FLAGS: i32 = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_DIRECTORY
    | libc::O_NOFOLLOW
    | libc::O_CLOEXEC;

fn open_flags(flags: i32) -> Result<OpenFlags, Failure> {
    let access = flags & libc::O_ACCMODE;
    if flags & !OPEN_FLAGS != 0 || access == libc::O_ACCMODE {
        return Err(Failure::argument(format!("unknown flags in {flags:#o}")));
    }
    let has = |flag| flags & flag != 0;
    Ok(OpenFlags {
        read: access != libc::O_WRONLY,
        write: access != libc::O_RDONLY,
        create: has(libc::O_CREAT),
        exclusive: has(libc::O_EXCL),
        truncate: has(libc::O_TRUNC),
        append: has(libc::O_APPEND),
        directory: has(libc::O_DIRECTORY),
        no_follow: has(libc::O_NOFOLLOW),
    })
}

/// Does something with a path of a mount.
///
/// # Safety
/// `mount` is null or open; `name` is null or ends with a zero.
pub(crate) unsafe fn at_path<T: Send + 'static>(
    mount: *const wharf_mount,
    name: *const c_char,
    what: impl for<'a, 'm> FnOnce(&'a Served<'m>, &[u8]) -> std::io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    // SAFETY: the caller's promise.
    let (mount, name) = unsafe { (known(mount, "the mount")?, path(name)?.to_vec()) };
    mount.ask(move |served| what(served, &name))
}

/// Opens a file. `flags` are O_RDONLY, O_WRONLY or O_RDWR of fcntl.h, with O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY,
/// O_NOFOLLOW; one that is made has the permission bits `mode`, without any mask. A descriptor of this mount, the least
/// that is free, or -1.
///
/// `mount` is NULL or open; `path` is NULL or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_open(
    mount: *const wharf_mount,
    path: *const c_char,
    flags: i32,
    mode: u32,
) -> i32 {
    let opened = open_flags(flags).and_then(|flags| {
        let mode = (mode & 0o7777) as u16;
        // SAFETY: the caller's promise.
        unsafe {
            at_path(mount, path, move |served, path| {
                served.enter(served.mount.open_file(path, flags, mode)?)
            })
        }
    });
    give(opened, -1)
}

/// Closes a descriptor. Nothing is made durable by it. 0, or -1.
///
/// `mount` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_close(mount: *const wharf_mount, descriptor: i32) -> i32 {
    // SAFETY: the caller's promise.
    let mount = unsafe { known(mount, "the mount") };
    status(mount.and_then(|mount| mount.ask(move |served| served.leave(descriptor).map(drop))))
}

/// Reads up to `count` bytes from byte `offset` on. How many there were, fewer only at the end of the file; or -1.
///
/// `mount` is NULL or open; `out` has room for `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_pread(
    mount: *const wharf_mount,
    descriptor: i32,
    out: *mut c_void,
    count: usize,
    offset: u64,
) -> i64 {
    let read = || {
        // SAFETY: the caller's promise.
        let (mount, out) = unsafe { (known(mount, "the mount")?, bytes_mut(out, count)?) };
        let found = mount.ask(move |served| {
            served.with(descriptor, |file| {
                // No more than the file has: a program may ask for more than there is memory.
                let left = file.attributes()?.bytes.saturating_sub(offset);
                let mut found = vec![0; count.min(usize::try_from(left).unwrap_or(usize::MAX))];
                let bytes = file.read_at(offset, &mut found)?;
                found.truncate(bytes);
                Ok(found)
            })
        })?;
        out[..found.len()].copy_from_slice(&found);
        Ok::<_, Failure>(found.len() as i64)
    };
    give(read(), -1)
}

/// Writes `count` bytes from byte `offset` on, or at the end if it was opened with O_APPEND. How many, fewer only if there
/// is no room for more; or -1.
///
/// `mount` is NULL or open; `data` has `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_pwrite(
    mount: *const wharf_mount,
    descriptor: i32,
    data: *const c_void,
    count: usize,
    offset: u64,
) -> i64 {
    let write = || {
        // SAFETY: the caller's promise.
        let (mount, data) = unsafe { (known(mount, "the mount")?, bytes(data, count)?.to_vec()) };
        mount.ask(move |served| {
            served.with(descriptor, |file| Ok(file.write_at(offset, &data)? as i64))
        })
    };
    give(write(), -1)
}

/// Writes `count` bytes, at most 1 MiB, at the end of the file, wherever that is then. Byte where they begin, or -1: ENOSPC if
/// there was room for some of them alone, which are there then.
///
/// `mount` is NULL or open; `data` has `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_append(
    mount: *const wharf_mount,
    descriptor: i32,
    data: *const c_void,
    count: usize,
) -> i64 {
    let append = || {
        // SAFETY: the caller's promise.
        let (mount, data) = unsafe { (known(mount, "the mount")?, bytes(data, count)?.to_vec()) };
        mount.ask(move |served| {
            served.with(descriptor, |file| Ok(file.append(&data)?.offset as i64))
        })
    };
    give(append(), -1)
}

/// Makes a file's bytes and attributes durable, and all that was done to names before. 0, or -1: then nothing is changed
/// any more.
///
/// `mount` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_fsync(mount: *const wharf_mount, descriptor: i32) -> i32 {
    // SAFETY: the caller's promise.
    let mount = unsafe { known(mount, "the mount") };
    status(
        mount
            .and_then(|mount| mount.ask(move |served| served.with(descriptor, |file| file.sync()))),
    )
}

/// Sets the length of an open file. 0, or -1.
///
/// `mount` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_truncate(
    mount: *const wharf_mount,
    descriptor: i32,
    bytes: u64,
) -> i32 {
    // SAFETY: the caller's promise.
    let mount = unsafe { known(mount, "the mount") };
    status(mount.and_then(|mount| {
        mount.ask(move |served| served.with(descriptor, |file| file.set_len(bytes)))
    }))
}

/// Fills `out`.
///
/// # Safety
/// `out` is null or may be written.
unsafe fn tell(found: Result<Attributes, Failure>, out: *mut wharf_stat) -> i32 {
    status(found.and_then(|found| {
        if out.is_null() {
            return Err(Failure::argument("the place for attributes is NULL"));
        }
        // SAFETY: the caller's promise.
        unsafe { out.write(found.into()) };
        Ok(())
    }))
}

/// The attributes of what a path names; of a symbolic link itself if `follow` is 0. 0, or -1.
///
/// `mount` is NULL or open; `path` is NULL or ends with a zero; `out` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_stat(
    mount: *const wharf_mount,
    path: *const c_char,
    follow: i32,
    out: *mut wharf_stat,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        let found = at_path(mount, path, move |served, path| {
            served.mount.stat(path, follow != 0)
        });
        tell(found, out)
    }
}

/// The attributes of an open file. 0, or -1.
///
/// `mount` is NULL or open; `out` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_fstat(
    mount: *const wharf_mount,
    descriptor: i32,
    out: *mut wharf_stat,
) -> i32 {
    // SAFETY: the caller's promise.
    let found = unsafe { known(mount, "the mount") }.and_then(|mount| {
        mount.ask(move |served| served.with(descriptor, |file| file.attributes()))
    });
    // SAFETY: the caller's promise.
    unsafe { tell(found, out) }
}

/// Makes a directory with the permission bits `mode`. 0, or -1.
///
/// `mount` is NULL or open; `path` is NULL or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_mkdir(
    mount: *const wharf_mount,
    path: *const c_char,
    mode: u32,
) -> i32 {
    // SAFETY: the caller's promise.
    status(unsafe {
        at_path(mount, path, move |served, path| {
            served.mount.mkdir(path, (mode & 0o7777) as u16)
        })
    })
}

/// Removes an empty directory. 0, or -1.
///
/// `mount` is NULL or open; `path` is NULL or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_rmdir(mount: *const wharf_mount, path: *const c_char) -> i32 {
    // SAFETY: the caller's promise.
    status(unsafe { at_path(mount, path, |served, path| served.mount.rmdir(path)) })
}

/// Removes the name of what is no directory. 0, or -1.
///
/// `mount` is NULL or open; `path` is NULL or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_unlink(mount: *const wharf_mount, path: *const c_char) -> i32 {
    // SAFETY: the caller's promise.
    status(unsafe { at_path(mount, path, |served, path| served.mount.unlink(path)) })
}

/// Gives something another name, in one step. `flags` is 0, WHARF_NO_REPLACE or WHARF_EXCHANGE. 0, or -1.
///
/// `mount` is NULL or open; `from` and `to` are NULL or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_rename(
    mount: *const wharf_mount,
    from: *const c_char,
    to: *const c_char,
    flags: u32,
) -> i32 {
    let rename = || {
        let how = match flags {
            0 => Rename::Replace,
            WHARF_NO_REPLACE => Rename::NoReplace,
            WHARF_EXCHANGE => Rename::Exchange,
            other => return Err(Failure::argument(format!("unknown flags in {other:#x}"))),
        };
        // SAFETY: the caller's promise.
        let to = unsafe { path(to) }?.to_vec();
        let done = move |served: &Served<'_>, from: &[u8]| served.mount.rename(from, to, how);
        // SAFETY: the caller's promise.
        unsafe { at_path(mount, from, done) }
    };
    status(rename())
}

/// Calls `each` for all entries of a directory, without `.` and `..`, on this thread; it may use the mount. 0 after the
/// last one; what `each` gave if that is not 0; or -1.
///
/// `mount` is NULL or open; `path` is NULL or ends with a zero; `each` can be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_fs_list(
    mount: *const wharf_mount,
    path: *const c_char,
    each: wharf_each_entry,
    context: *mut c_void,
) -> i32 {
    let list = || {
        let each = each.ok_or(Failure::argument("the function is NULL"))?;
        // SAFETY: the caller's promise.
        let entries = unsafe { at_path(mount, path, |served, path| served.mount.list(path)) }?;
        for entry in entries {
            let name = CString::new(&entry.name[..]).expect("no name has a zero");
            // SAFETY: the caller's promise.
            let done = unsafe { each(context, name.as_ptr(), entry.number, kind(entry.kind)) };
            if done != 0 {
                return Ok(done);
            }
        }
        Ok::<_, Failure>(0)
    };
    give(list(), -1)
}
