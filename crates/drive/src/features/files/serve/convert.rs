//! Words of commands as those of file systems, and back.

use wharf_files::vfs::SetTime;
use wharf_files::{Attributes, Kind, OpenFlags, Rename, SetXattr, Special};
use wharf_wire::file::{
    FileAttributes, FileKind, OpenMode, RenameMode, TIME_NOW, TIME_STAYS, XattrMode,
};

/// How a file is opened.
pub(super) fn open_flags(mode: OpenMode) -> OpenFlags {
    OpenFlags {
        read: mode.read,
        write: mode.write,
        create: mode.create,
        exclusive: mode.exclusive,
        truncate: mode.truncate,
        append: mode.append,
        directory: mode.directory,
        no_follow: mode.no_follow,
    }
}

/// What a file is.
pub(super) fn file_kind(kind: Kind) -> FileKind {
    match kind {
        Kind::File => FileKind::File,
        Kind::Directory => FileKind::Directory,
        Kind::Symlink => FileKind::Symlink,
        Kind::Special(Special::Fifo) => FileKind::Fifo,
        Kind::Special(Special::Socket) => FileKind::Socket,
        Kind::Special(Special::CharDevice) => FileKind::CharDevice,
        Kind::Special(Special::BlockDevice) => FileKind::BlockDevice,
    }
}

/// The special file of a kind, if it is one.
pub(super) fn special(raw: u16) -> Option<Special> {
    match FileKind::from_raw(raw)? {
        FileKind::Fifo => Some(Special::Fifo),
        FileKind::Socket => Some(Special::Socket),
        FileKind::CharDevice => Some(Special::CharDevice),
        FileKind::BlockDevice => Some(Special::BlockDevice),
        FileKind::File | FileKind::Directory | FileKind::Symlink => None,
    }
}

/// Attributes, for the host.
pub(super) fn attributes(of: &Attributes) -> FileAttributes {
    FileAttributes {
        number: of.number,
        bytes: of.bytes,
        stored_bytes: of.stored_bytes,
        accessed_ns: of.accessed_ns,
        modified_ns: of.modified_ns,
        changed_ns: of.changed_ns,
        kind: file_kind(of.kind).raw(),
        mode: of.mode,
        links: of.links,
        uid: of.owner.uid,
        gid: of.owner.gid,
        device: of.device,
        reserved: [0; 60],
    }
}

/// What becomes of a name that is taken.
pub(super) fn rename(mode: RenameMode) -> Rename {
    match mode {
        RenameMode::Replace => Rename::Replace,
        RenameMode::NoReplace => Rename::NoReplace,
        RenameMode::Exchange => Rename::Exchange,
    }
}

/// What becomes of an extended attribute that is there.
pub(super) fn set_xattr(mode: XattrMode) -> SetXattr {
    match mode {
        XattrMode::Put => SetXattr::Put,
        XattrMode::Create => SetXattr::Create,
        XattrMode::Replace => SetXattr::Replace,
    }
}

/// What a time is set to.
pub(super) fn time(raw: u64) -> SetTime {
    match raw {
        TIME_STAYS => SetTime::Omit,
        TIME_NOW => SetTime::Now,
        time_ns => SetTime::At(time_ns),
    }
}
