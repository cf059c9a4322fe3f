//! Words of file systems as those of the C library.

use std::ffi::c_int;

use wharf_files::vfs::SetTime;
use wharf_files::{Attributes, Kind, OpenFlags, Special};

use crate::errno::{Errno, Outcome};

/// The kind of file system, for `statfs`: no other one has it.
pub(crate) const KIND: u64 = 0x5748_4152;

/// The device that all files of the drive are on, for `st_dev`: no other file system has it, nor the same drive of another server.
/// Programs (SQLite) note for a device and a file's number that they have it locked: the locks were those of a server.
fn device(server: u32) -> u64 {
    const MAJOR: u32 = 0x841;
    // Python takes it for a number with a sign.
    libc::makedev(MAJOR, server >> 1)
}

/// How a file is opened.
pub(crate) fn open_flags(flags: c_int) -> Outcome<OpenFlags> {
    if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let access = flags & libc::O_ACCMODE;
    let is_path = flags & libc::O_PATH != 0;
    Ok(OpenFlags {
        read: access != libc::O_WRONLY && !is_path,
        write: access != libc::O_RDONLY && !is_path,
        create: flags & libc::O_CREAT != 0 && !is_path,
        exclusive: flags & libc::O_EXCL != 0 && !is_path,
        truncate: flags & libc::O_TRUNC != 0 && !is_path,
        // A write goes to the end if the flag is set when it is called.
        append: false,
        directory: flags & libc::O_DIRECTORY != 0,
        no_follow: flags & libc::O_NOFOLLOW != 0,
    })
}

/// The bits of `st_mode` that say what it is.
pub(crate) fn kind_bits(kind: Kind) -> u32 {
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

/// `d_type` of a directory entry.
pub(crate) fn entry_type(kind: Kind) -> u8 {
    // As glibc's IFTODT has it.
    (kind_bits(kind) >> 12) as u8
}

const NS: u64 = 1_000_000_000;

/// Attributes as `struct stat`.
pub(crate) fn stat(found: &Attributes, server: u32) -> libc::stat {
    // SAFETY: all of it may be zeros.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    stat.st_dev = device(server);
    stat.st_ino = found.number;
    stat.st_mode = kind_bits(found.kind) | u32::from(found.mode);
    stat.st_nlink = found.links.into();
    stat.st_uid = found.owner.uid;
    stat.st_gid = found.owner.gid;
    stat.st_rdev = found.device.into();
    stat.st_size = size(found) as i64;
    stat.st_blksize = 4096;
    stat.st_blocks = found.stored_bytes.div_ceil(512) as i64;
    stat.st_atime = (found.accessed_ns / NS) as i64;
    stat.st_atime_nsec = (found.accessed_ns % NS) as i64;
    stat.st_mtime = (found.modified_ns / NS) as i64;
    stat.st_mtime_nsec = (found.modified_ns % NS) as i64;
    stat.st_ctime = (found.changed_ns / NS) as i64;
    stat.st_ctime_nsec = (found.changed_ns % NS) as i64;
    stat
}

/// Of a directory its storage: programs take 0 for empty.
fn size(found: &Attributes) -> u64 {
    match found.kind {
        Kind::Directory => found.stored_bytes.max(4096),
        _ => found.bytes,
    }
}

/// Attributes as `struct statx`.
pub(crate) fn statx(found: &Attributes, server: u32) -> libc::statx {
    let time = |ns: u64| {
        let mut time = zeroed_time();
        time.tv_sec = (ns / NS) as i64;
        time.tv_nsec = (ns % NS) as u32;
        time
    };
    // SAFETY: all of it may be zeros.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    stat.stx_mask = libc::STATX_BASIC_STATS;
    stat.stx_blksize = 4096;
    stat.stx_nlink = found.links;
    stat.stx_uid = found.owner.uid;
    stat.stx_gid = found.owner.gid;
    stat.stx_mode = (kind_bits(found.kind) | u32::from(found.mode)) as u16;
    stat.stx_ino = found.number;
    stat.stx_size = size(found);
    stat.stx_blocks = found.stored_bytes.div_ceil(512);
    stat.stx_atime = time(found.accessed_ns);
    stat.stx_mtime = time(found.modified_ns);
    stat.stx_ctime = time(found.changed_ns);
    stat.stx_dev_major = libc::major(device(server));
    stat.stx_dev_minor = libc::minor(device(server));
    stat
}

fn zeroed_time() -> libc::statx_timestamp {
    // SAFETY: all of it may be zeros.
    unsafe { std::mem::zeroed() }
}

/// A time to be set, as `utimensat` is given it.
pub(crate) fn set_time(time: &libc::timespec) -> Outcome<SetTime> {
    match time.tv_nsec {
        libc::UTIME_NOW => Ok(SetTime::Now),
        libc::UTIME_OMIT => Ok(SetTime::Omit),
        nanoseconds @ 0..1_000_000_000 => {
            // Before 1970 there is nothing.
            let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
            Ok(SetTime::At(
                seconds
                    .saturating_mul(NS)
                    .saturating_add(nanoseconds as u64),
            ))
        }
        _ => Err(Errno(libc::EINVAL)),
    }
}
