//! `stat` and its family, access, owners, permission bits, times, space.

use std::ffi::{CString, c_char, c_int, c_uint};

use libc::{
    gid_t, mode_t, stat as Stat, statfs as StatFs, statvfs as StatVfs, timespec, timeval, uid_t,
    utimbuf,
};
use wharf_files::vfs::{Access, Service, SetTime, Target};
use wharf_files::{Attributes, block_on};

use crate::convert::{self, set_time};
use crate::drive::{handle, server, with};
use crate::errno::{Errno, Outcome, zero};
use crate::find::{Found, Spot, find};
use crate::next::hooks;
use crate::page::FileId;
use crate::table::{self, Ref};

/// What a call with a directory, a path and flags is about.
enum About {
    Path(Spot, bool),
    Open(Ref),
    Machine,
    Elsewhere(CString),
}

impl About {
    /// # Safety
    /// `path` is null or a text.
    unsafe fn new(directory: c_int, path: *const c_char, flags: c_int) -> About {
        // SAFETY: the caller's promise.
        let is_empty = path.is_null() || unsafe { *path } == 0;
        if is_empty && flags & libc::AT_EMPTY_PATH != 0 {
            let open = match directory {
                libc::AT_FDCWD => crate::find::working(),
                _ => table::get(directory),
            };
            return open.map_or(About::Machine, About::Open);
        }
        // SAFETY: the caller's promise.
        match unsafe { find(directory, path) } {
            Found::Machine => About::Machine,
            Found::Elsewhere(path) => About::Elsewhere(path),
            Found::Drive(spot) => About::Path(spot, flags & libc::AT_SYMLINK_NOFOLLOW == 0),
        }
    }

    /// Does something with what it is about.
    fn with<T>(
        &self,
        mut f: impl FnMut(&crate::drive::Drive, wharf_files::By<'_>, Target<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        with(|drive, by| {
            let target = match self {
                About::Path(spot, follows) => Target::Path(spot.at(drive, by)?, *follows),
                About::Open(open) => Target::Handle(handle(drive, by, open)?),
                About::Machine | About::Elsewhere(_) => return Err(Errno(libc::EINVAL)),
            };
            f(drive, by, target)
        })
    }

    fn attributes(&self) -> Outcome<Attributes> {
        self.with(|drive, by, target| Ok(block_on(drive.stat(by, target))?))
    }

    /// The same, and which server says so.
    fn shown(&self) -> Outcome<(Attributes, u32)> {
        self.with(|drive, by, target| Ok((block_on(drive.stat(by, target))?, server(drive))))
    }

    fn chmod(&self, mode: mode_t) -> Outcome<()> {
        self.with(|drive, by, target| {
            Ok(block_on(drive.chmod(by, target, (mode & 0o7777) as u16))?)
        })
    }

    fn chown(&self, uid: uid_t, gid: gid_t) -> Outcome<()> {
        let given = |id: u32| (id != u32::MAX).then_some(id);
        self.with(|drive, by, target| {
            Ok(block_on(drive.chown(by, target, given(uid), given(gid)))?)
        })
    }

    fn set_times(&self, accessed: SetTime, modified: SetTime) -> Outcome<()> {
        self.with(|drive, by, target| {
            Ok(block_on(drive.set_times(by, target, accessed, modified))?)
        })
    }

    fn access(&self, mode: c_int) -> Outcome<()> {
        if mode & !(libc::R_OK | libc::W_OK | libc::X_OK) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        if mode == libc::F_OK {
            return self.attributes().map(drop);
        }
        let asked = [
            (libc::R_OK, Access::READ),
            (libc::W_OK, Access::WRITE),
            (libc::X_OK, Access::EXECUTE),
        ];
        let asked = asked.into_iter().filter(|(bit, _)| mode & bit != 0);
        let access = asked.fold(Access::NONE, |all, (_, one)| all.and(one));
        self.with(|drive, by, target| Ok(block_on(drive.access(by, target, access))?))
    }
}

/// Attributes of an open file.
pub(crate) fn of_open(open: &Ref) -> Outcome<Attributes> {
    super::data::attributes(open)
}

/// The same, and which server says so; a directory that was open when another one served the drive is of this one.
fn shown(open: &Ref) -> Outcome<(Attributes, u32)> {
    match open.page().is_directory() {
        true => About::Open(open.clone()).shown(),
        false => Ok((of_open(open)?, open.page().server())),
    }
}

/// Attributes of what a path of the drive names.
pub(crate) fn of_spot(spot: Spot, follows: bool) -> Outcome<Attributes> {
    About::Path(spot, follows).attributes()
}

/// Which file a path of the drive leads to.
pub(crate) fn file_of(spot: Spot) -> Outcome<FileId> {
    let (found, server) = About::Path(spot, true).shown()?;
    Ok((server, found.number))
}

/// # Safety
/// There is room.
unsafe fn give<T>(found: Outcome<T>, room: *mut T) -> c_int {
    // SAFETY: the caller's promise.
    zero(found.map(|value| unsafe { room.write(value) }))
}

/// # Safety
/// Two times, or null.
unsafe fn two(times: *const timespec) -> Outcome<(SetTime, SetTime)> {
    if times.is_null() {
        return Ok((SetTime::Now, SetTime::Now));
    }
    // SAFETY: the caller's promise.
    unsafe { Ok((set_time(&*times)?, set_time(&*times.add(1))?)) }
}

fn timespec_of(time: timeval) -> timespec {
    timespec {
        tv_sec: time.tv_sec,
        tv_nsec: time.tv_usec.saturating_mul(1000),
    }
}

/// # Safety
/// Two times, or null.
unsafe fn two_of(times: *const timeval) -> Option<[timespec; 2]> {
    // SAFETY: the caller's promise.
    (!times.is_null()).then(|| unsafe { [timespec_of(*times), timespec_of(*times.add(1))] })
}

/// The times of what is at a path: `utimensat` itself takes no path for the directory's descriptor.
///
/// # Safety
/// A text, or null.
unsafe fn set_times_at(path: *const c_char, times: Option<[timespec; 2]>, flags: c_int) -> c_int {
    if path.is_null() {
        return zero(Err(Errno(libc::EFAULT)));
    }
    let times = times.as_ref().map_or(std::ptr::null(), |two| two.as_ptr());
    // SAFETY: the caller's promise, and the times above.
    unsafe { utimensat(libc::AT_FDCWD, path, times, flags) }
}

fn space() -> Outcome<wharf_files::StatFs> {
    with(|drive, _| Ok(block_on(drive.stat_fs())?))
}

fn statfs_of(found: &wharf_files::StatFs) -> StatFs {
    // SAFETY: all of it may be zeros.
    let mut stat: StatFs = unsafe { std::mem::zeroed() };
    stat.f_type = convert::KIND as i64;
    stat.f_bsize = 4096;
    stat.f_frsize = 4096;
    stat.f_blocks = found.pages;
    stat.f_bfree = found.pages_free;
    stat.f_bavail = found.pages_free;
    stat.f_files = found.files;
    stat.f_ffree = found.files_free;
    stat.f_namelen = 255;
    stat
}

fn statvfs_of(found: &wharf_files::StatFs) -> StatVfs {
    // SAFETY: all of it may be zeros.
    let mut stat: StatVfs = unsafe { std::mem::zeroed() };
    stat.f_bsize = 4096;
    stat.f_frsize = 4096;
    stat.f_blocks = found.pages;
    stat.f_bfree = found.pages_free;
    stat.f_bavail = found.pages_free;
    stat.f_files = found.files;
    stat.f_ffree = found.files_free;
    stat.f_favail = found.files_free;
    stat.f_fsid = found.id;
    stat.f_namemax = 255;
    stat
}

hooks! {
    fn fstatat64(directory: c_int, path: *const c_char, room: *mut Stat, flags: c_int) -> c_int, next {
        // SAFETY: the caller's path and room.
        unsafe {
            match About::new(directory, path, flags) {
                About::Machine => next(directory, path, room, flags),
                About::Elsewhere(path) => next(libc::AT_FDCWD, path.as_ptr(), room, flags),
                about => give(about.shown().map(|(found, server)| convert::stat(&found, server)), room),
            }
        }
    }

    fn fstatat(directory: c_int, path: *const c_char, room: *mut Stat, flags: c_int) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fstatat64(directory, path, room, flags) }
    }

    fn stat64(path: *const c_char, room: *mut Stat) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fstatat64(libc::AT_FDCWD, path, room, 0) }
    }

    fn stat(path: *const c_char, room: *mut Stat) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fstatat64(libc::AT_FDCWD, path, room, 0) }
    }

    fn lstat64(path: *const c_char, room: *mut Stat) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fstatat64(libc::AT_FDCWD, path, room, libc::AT_SYMLINK_NOFOLLOW) }
    }

    fn lstat(path: *const c_char, room: *mut Stat) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fstatat64(libc::AT_FDCWD, path, room, libc::AT_SYMLINK_NOFOLLOW) }
    }

    fn fstat64(descriptor: c_int, room: *mut Stat) -> c_int, next {
        match table::get(descriptor) {
            None => next(descriptor, room),
            // SAFETY: the caller's room.
            Some(open) => unsafe { give(shown(&open).map(|(found, server)| convert::stat(&found, server)), room) },
        }
    }

    fn fstat(descriptor: c_int, room: *mut Stat) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fstat64(descriptor, room) }
    }

    fn __xstat(_version: c_int, path: *const c_char, room: *mut Stat) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fstatat64(libc::AT_FDCWD, path, room, 0) }
    }

    fn __xstat64(_version: c_int, path: *const c_char, room: *mut Stat) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fstatat64(libc::AT_FDCWD, path, room, 0) }
    }

    fn __lxstat(_version: c_int, path: *const c_char, room: *mut Stat) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fstatat64(libc::AT_FDCWD, path, room, libc::AT_SYMLINK_NOFOLLOW) }
    }

    fn __lxstat64(_version: c_int, path: *const c_char, room: *mut Stat) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fstatat64(libc::AT_FDCWD, path, room, libc::AT_SYMLINK_NOFOLLOW) }
    }

    fn __fxstat(_version: c_int, descriptor: c_int, room: *mut Stat) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fstat64(descriptor, room) }
    }

    fn __fxstat64(_version: c_int, descriptor: c_int, room: *mut Stat) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fstat64(descriptor, room) }
    }

    fn __fxstatat(_version: c_int, directory: c_int, path: *const c_char, room: *mut Stat, flags: c_int) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fstatat64(directory, path, room, flags) }
    }

    fn __fxstatat64(_version: c_int, directory: c_int, path: *const c_char, room: *mut Stat, flags: c_int) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fstatat64(directory, path, room, flags) }
    }

    fn statx(directory: c_int, path: *const c_char, flags: c_int, mask: c_uint, room: *mut libc::statx) -> c_int, next {
        // SAFETY: the caller's path and room.
        unsafe {
            match About::new(directory, path, flags) {
                About::Machine => next(directory, path, flags, mask, room),
                About::Elsewhere(path) => next(libc::AT_FDCWD, path.as_ptr(), flags, mask, room),
                about => give(about.shown().map(|(found, server)| convert::statx(&found, server)), room),
            }
        }
    }

    fn faccessat(directory: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { About::new(directory, path, flags) } {
            About::Machine => next(directory, path, mode, flags),
            About::Elsewhere(path) => next(libc::AT_FDCWD, path.as_ptr(), mode, flags),
            about => zero(about.access(mode)),
        }
    }

    fn access(path: *const c_char, mode: c_int) -> c_int, next {
        // SAFETY: as the caller's.
        match unsafe { About::new(libc::AT_FDCWD, path, 0) } {
            About::Machine => next(path, mode),
            About::Elsewhere(path) => next(path.as_ptr(), mode),
            about => zero(about.access(mode)),
        }
    }

    fn euidaccess(path: *const c_char, mode: c_int) -> c_int, next {
        // SAFETY: as the caller's.
        match unsafe { About::new(libc::AT_FDCWD, path, 0) } {
            About::Machine => next(path, mode),
            About::Elsewhere(path) => next(path.as_ptr(), mode),
            about => zero(about.access(mode)),
        }
    }

    fn eaccess(path: *const c_char, mode: c_int) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { euidaccess(path, mode) }
    }

    fn fchmodat(directory: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { About::new(directory, path, flags) } {
            About::Machine => next(directory, path, mode, flags),
            About::Elsewhere(path) => next(libc::AT_FDCWD, path.as_ptr(), mode, flags),
            about => zero(about.chmod(mode)),
        }
    }

    fn chmod(path: *const c_char, mode: mode_t) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fchmodat(libc::AT_FDCWD, path, mode, 0) }
    }

    fn lchmod(path: *const c_char, mode: mode_t) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fchmodat(libc::AT_FDCWD, path, mode, libc::AT_SYMLINK_NOFOLLOW) }
    }

    fn fchmod(descriptor: c_int, mode: mode_t) -> c_int, next {
        match table::get(descriptor) {
            None => next(descriptor, mode),
            Some(open) => zero(About::Open(open).chmod(mode)),
        }
    }

    fn fchownat(directory: c_int, path: *const c_char, uid: uid_t, gid: gid_t, flags: c_int) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { About::new(directory, path, flags) } {
            About::Machine => next(directory, path, uid, gid, flags),
            About::Elsewhere(path) => next(libc::AT_FDCWD, path.as_ptr(), uid, gid, flags),
            about => zero(about.chown(uid, gid)),
        }
    }

    fn chown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fchownat(libc::AT_FDCWD, path, uid, gid, 0) }
    }

    fn lchown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fchownat(libc::AT_FDCWD, path, uid, gid, libc::AT_SYMLINK_NOFOLLOW) }
    }

    fn fchown(descriptor: c_int, uid: uid_t, gid: gid_t) -> c_int, next {
        match table::get(descriptor) {
            None => next(descriptor, uid, gid),
            Some(open) => zero(About::Open(open).chown(uid, gid)),
        }
    }

    fn utimensat(directory: c_int, path: *const c_char, times: *const timespec, flags: c_int) -> c_int, next {
        if path.is_null() {
            // SAFETY: as the caller's: the C library's `futimens` does the same.
            return unsafe { futimens(directory, times) };
        }
        // SAFETY: the caller's path and times.
        unsafe {
            match About::new(directory, path, flags) {
                About::Machine => next(directory, path, times, flags),
                About::Elsewhere(path) => next(libc::AT_FDCWD, path.as_ptr(), times, flags),
                about => zero(two(times).and_then(|(a, m)| about.set_times(a, m))),
            }
        }
    }

    fn futimens(descriptor: c_int, times: *const timespec) -> c_int, next {
        match table::get(descriptor) {
            None => next(descriptor, times),
            // SAFETY: the caller's times.
            Some(open) => zero(unsafe { two(times) }.and_then(|(a, m)| About::Open(open).set_times(a, m))),
        }
    }

    fn utimes(path: *const c_char, times: *const timeval) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { set_times_at(path, two_of(times), 0) }
    }

    fn lutimes(path: *const c_char, times: *const timeval) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { set_times_at(path, two_of(times), libc::AT_SYMLINK_NOFOLLOW) }
    }

    fn futimes(descriptor: c_int, times: *const timeval) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe {
            let times = two_of(times);
            futimens(descriptor, times.as_ref().map_or(std::ptr::null(), |two| two.as_ptr()))
        }
    }

    fn futimesat(directory: c_int, path: *const c_char, times: *const timeval) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe {
            let times = two_of(times);
            utimensat(directory, path, times.as_ref().map_or(std::ptr::null(), |two| two.as_ptr()), 0)
        }
    }

    fn utime(path: *const c_char, times: *const utimbuf) -> c_int, next {
        let of = |tv_sec| timespec { tv_sec, tv_nsec: 0 };
        // SAFETY: as the caller's.
        unsafe {
            let times = times.as_ref().map(|times| [of(times.actime), of(times.modtime)]);
            set_times_at(path, times, 0)
        }
    }

    fn statfs64(path: *const c_char, room: *mut StatFs) -> c_int, next {
        // SAFETY: the caller's path and room.
        unsafe {
            match find(libc::AT_FDCWD, path) {
                Found::Machine => next(path, room),
                Found::Elsewhere(path) => next(path.as_ptr(), room),
                Found::Drive(spot) => give(of_spot(spot, true).and_then(|_| Ok(statfs_of(&space()?))), room),
            }
        }
    }

    fn statfs(path: *const c_char, room: *mut StatFs) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { statfs64(path, room) }
    }

    fn fstatfs64(descriptor: c_int, room: *mut StatFs) -> c_int, next {
        match table::has(descriptor) {
            false => next(descriptor, room),
            // SAFETY: the caller's room.
            true => unsafe { give(space().map(|found| statfs_of(&found)), room) },
        }
    }

    fn fstatfs(descriptor: c_int, room: *mut StatFs) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fstatfs64(descriptor, room) }
    }

    fn statvfs64(path: *const c_char, room: *mut StatVfs) -> c_int, next {
        // SAFETY: the caller's path and room.
        unsafe {
            match find(libc::AT_FDCWD, path) {
                Found::Machine => next(path, room),
                Found::Elsewhere(path) => next(path.as_ptr(), room),
                Found::Drive(spot) => give(of_spot(spot, true).and_then(|_| Ok(statvfs_of(&space()?))), room),
            }
        }
    }

    fn statvfs(path: *const c_char, room: *mut StatVfs) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { statvfs64(path, room) }
    }

    fn fstatvfs64(descriptor: c_int, room: *mut StatVfs) -> c_int, next {
        match table::has(descriptor) {
            false => next(descriptor, room),
            // SAFETY: the caller's room.
            true => unsafe { give(space().map(|found| statvfs_of(&found)), room) },
        }
    }

    fn fstatvfs(descriptor: c_int, room: *mut StatVfs) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fstatvfs64(descriptor, room) }
    }
}
