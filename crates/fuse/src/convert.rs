//! Attributes, times, errors and flags as FUSE has them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Config, FileAttr, FileType, INodeNo, MountOption, SessionACL, TimeOrNow};
use wharf_files::vfs::SetTime;
use wharf_files::{Allocate, Attributes, FileError, Kind, OpenFlags, Rename, Special};

use crate::options::MountOptions;

/// FUSE's number of the root.
const ROOT: u64 = 1;

/// Numbers of the file system and FUSE's, in which the root is 1. What has the number 1 in the file
/// system, and is not its root, changes places with it.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    /// The root of the file system.
    pub root: u64,
}

impl Numbers {
    /// The file system's number, or FUSE's: it is the same change both ways.
    fn swap(self, number: u64) -> u64 {
        match number {
            ROOT => self.root,
            number if number == self.root => ROOT,
            number => number,
        }
    }

    /// The file system's number.
    pub fn own(self, number: INodeNo) -> u64 {
        self.swap(number.0)
    }

    /// FUSE's number.
    pub fn shown(self, number: u64) -> INodeNo {
        INodeNo(self.swap(number))
    }
}

/// How FUSE is to mount it.
pub fn config(options: &MountOptions) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.source.clone()),
        MountOption::Subtype("wharf".into()),
        MountOption::NoDev,
        MountOption::NoAtime,
    ];
    if options.is_read_only {
        config.mount_options.push(MountOption::RO);
    }
    if options.allows_other {
        config.acl = SessionACL::All;
    }
    config
}

/// The number of an error.
pub fn errno(error: FileError) -> fuser::Errno {
    fuser::Errno::from_i32(error.errno().number())
}

fn time(ns: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(ns)
}

/// Nanoseconds since 1970; 0 for times before it.
pub fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// What a time is to be.
pub fn set_time(time: Option<TimeOrNow>) -> SetTime {
    match time {
        None => SetTime::Omit,
        Some(TimeOrNow::Now) => SetTime::Now,
        Some(TimeOrNow::SpecificTime(time)) => SetTime::At(nanoseconds(time)),
    }
}

/// A kind.
pub fn kind(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Special(Special::Fifo) => FileType::NamedPipe,
        Kind::Special(Special::Socket) => FileType::Socket,
        Kind::Special(Special::CharDevice) => FileType::CharDevice,
        Kind::Special(Special::BlockDevice) => FileType::BlockDevice,
    }
}

/// What is no file, by the bits of a mode.
pub fn special(mode: u32) -> Option<Special> {
    use rustix::fs::FileType;
    match FileType::from_raw_mode(mode) {
        FileType::Fifo => Some(Special::Fifo),
        FileType::Socket => Some(Special::Socket),
        FileType::CharacterDevice => Some(Special::CharDevice),
        FileType::BlockDevice => Some(Special::BlockDevice),
        _ => None,
    }
}

/// Attributes.
pub fn attributes(numbers: Numbers, of: &Attributes) -> FileAttr {
    FileAttr {
        ino: numbers.shown(of.number),
        size: of.bytes,
        blocks: of.stored_bytes.div_ceil(512),
        atime: time(of.accessed_ns),
        mtime: time(of.modified_ns),
        ctime: time(of.changed_ns),
        crtime: UNIX_EPOCH,
        kind: kind(of.kind),
        perm: of.mode,
        nlink: of.links,
        uid: of.owner.uid,
        gid: of.owner.gid,
        rdev: of.device,
        blksize: 4096,
        flags: 0,
    }
}

/// The attributes of nothing: its number is 0.
pub fn nothing() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// How a file is opened. `O_EXCL` and `O_CREAT` come with the question to make one.
pub fn open_flags(flags: i32) -> OpenFlags {
    let has = |flag: rustix::fs::OFlags| flags & flag.bits() as i32 != 0;
    let access = flags & rustix::fs::OFlags::RWMODE.bits() as i32;
    let is = |wanted: rustix::fs::OFlags| access == wanted.bits() as i32;
    OpenFlags {
        read: !is(rustix::fs::OFlags::WRONLY),
        write: !is(rustix::fs::OFlags::RDONLY),
        truncate: has(rustix::fs::OFlags::TRUNC),
        append: has(rustix::fs::OFlags::APPEND),
        directory: has(rustix::fs::OFlags::DIRECTORY),
        ..OpenFlags::default()
    }
}

/// How something is renamed; nothing if that cannot be.
pub fn rename(flags: fuser::RenameFlags) -> Option<Rename> {
    match flags.bits() {
        0 => Some(Rename::Replace),
        1 => Some(Rename::NoReplace),
        2 => Some(Rename::Exchange),
        _ => None,
    }
}

/// What is done with storage, by the mode of `fallocate`; nothing if that cannot be.
pub fn allocate(mode: i32) -> Option<Allocate> {
    match mode {
        0 => Some(Allocate::Extend),
        1 => Some(Allocate::KeepSize),
        3 => Some(Allocate::Punch),
        0x10 => Some(Allocate::Zero),
        0x11 => Some(Allocate::ZeroKeepSize),
        _ => None,
    }
}
