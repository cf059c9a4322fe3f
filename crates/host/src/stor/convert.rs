//! Words of file systems as those of commands, and back.

use wharf_files::vfs::{At, SetTime, Start};
use wharf_files::{
    Allocate, Attributes, Errno, Handle, Kind, OpenFlags, Owner, Rename, SetXattr, Special, StatFs,
};
use wharf_wire::file::{
    FileAttributes, FileHandle, FileKind, FileSystemStatus, HandleOperation, OpenMode, RenameMode,
    Start as WireStart, StartKind, TIME_NOW, TIME_STAYS, XattrMode,
};

pub(super) fn file_handle(handle: Handle) -> FileHandle {
    FileHandle {
        index: handle.index,
        generation: handle.generation,
    }
}

pub(super) fn handle(raw: u64) -> Handle {
    let FileHandle { index, generation } = FileHandle::from_raw(raw);
    Handle { index, generation }
}

/// Where a path begins, and the path.
pub(super) fn place<'a>(at: &At<'a>) -> (WireStart, &'a [u8]) {
    let start = match at.from {
        Start::Root => WireStart::ROOT,
        Start::Handle(handle) => WireStart {
            kind: StartKind::Handle,
            value: file_handle(handle).raw(),
        },
        Start::Number(value) => WireStart {
            kind: StartKind::Number,
            value,
        },
    };
    (start, at.path)
}

pub(super) fn open_mode(flags: OpenFlags) -> OpenMode {
    OpenMode {
        read: flags.read,
        write: flags.write,
        create: flags.create,
        exclusive: flags.exclusive,
        truncate: flags.truncate,
        append: flags.append,
        directory: flags.directory,
        no_follow: flags.no_follow,
    }
}

/// What a kind of file is; an error if the drive says what nobody knows.
pub(super) fn kind(raw: u16) -> Result<Kind, Errno> {
    Ok(match FileKind::from_raw(raw).ok_or(Errno::EIO)? {
        FileKind::File => Kind::File,
        FileKind::Directory => Kind::Directory,
        FileKind::Symlink => Kind::Symlink,
        FileKind::Fifo => Kind::Special(Special::Fifo),
        FileKind::Socket => Kind::Special(Special::Socket),
        FileKind::CharDevice => Kind::Special(Special::CharDevice),
        FileKind::BlockDevice => Kind::Special(Special::BlockDevice),
    })
}

pub(super) fn special(special: Special) -> FileKind {
    match special {
        Special::Fifo => FileKind::Fifo,
        Special::Socket => FileKind::Socket,
        Special::CharDevice => FileKind::CharDevice,
        Special::BlockDevice => FileKind::BlockDevice,
    }
}

pub(super) fn attributes(of: &FileAttributes) -> Result<Attributes, Errno> {
    Ok(Attributes {
        number: of.number,
        kind: kind(of.kind)?,
        mode: of.mode,
        owner: Owner {
            uid: of.uid,
            gid: of.gid,
        },
        links: of.links,
        bytes: of.bytes,
        device: of.device,
        stored_bytes: of.stored_bytes,
        accessed_ns: of.accessed_ns,
        modified_ns: of.modified_ns,
        changed_ns: of.changed_ns,
    })
}

pub(super) fn stat_fs(of: &FileSystemStatus) -> StatFs {
    StatFs {
        pages: of.pages,
        pages_free: of.pages_free,
        files: of.files,
        files_free: of.files_free,
        file_bytes_max: of.file_bytes_max,
        links_max: of.links_max,
        id: of.id,
    }
}

pub(super) fn rename(how: Rename) -> RenameMode {
    match how {
        Rename::Replace => RenameMode::Replace,
        Rename::NoReplace => RenameMode::NoReplace,
        Rename::Exchange => RenameMode::Exchange,
    }
}

pub(super) fn set_xattr(how: SetXattr) -> XattrMode {
    match how {
        SetXattr::Put => XattrMode::Put,
        SetXattr::Create => XattrMode::Create,
        SetXattr::Replace => XattrMode::Replace,
    }
}

pub(super) fn allocation(what: Allocate) -> HandleOperation {
    match what {
        Allocate::Extend => HandleOperation::Allocate,
        Allocate::KeepSize => HandleOperation::AllocateKeepSize,
        Allocate::Punch => HandleOperation::Punch,
        Allocate::Zero => HandleOperation::Zero,
        Allocate::ZeroKeepSize => HandleOperation::ZeroKeepSize,
    }
}

pub(super) fn time(set: SetTime) -> u64 {
    match set {
        SetTime::Omit => TIME_STAYS,
        SetTime::Now => TIME_NOW,
        // These two are words of the command set: a nanosecond earlier is as good.
        SetTime::At(time_ns) => time_ns.min(TIME_NOW - 1),
    }
}
