//! What all answers have in common: who asks, and how a result becomes a reply.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::time::Duration;

use fuser::{
    FileHandle, Generation, INodeNo, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyXattr, TimeOrNow,
};
use wharf_files::vfs::{At, Opened, Session, Target};
use wharf_files::{Attributes, DirectoryEntry, Errno, FileError, FileSystem, block_on};

use crate::convert::{self, errno};
use crate::worker::{Worker, now_ns};

/// How long the kernel remembers names and attributes: not at all, so that permissions are checked
/// at each step.
pub const TTL: Duration = Duration::ZERO;

/// Entries that are asked for at a time.
pub const ENTRIES: usize = 256;

/// `.` and `..` come before all cookies.
pub const DOTS: u64 = 2;

/// Who asks, and the worker that answers.
pub struct Answering<'a, F> {
    /// The worker.
    pub worker: &'a Worker<F>,
    /// Who asks.
    pub session: Rc<Session<Rc<F>>>,
}

impl<F: FileSystem> Answering<'_, F> {
    /// What has a number of FUSE's.
    pub fn at(&self, ino: INodeNo) -> At<'static> {
        At::number(self.worker.numbers.own(ino))
    }

    /// A name in a directory of that number.
    pub fn within<'n>(&self, parent: INodeNo, name: &'n [u8]) -> At<'n> {
        At::within(self.worker.numbers.own(parent), name)
    }

    /// The same as [`Answering::at`]; of a symbolic link itself.
    pub fn target(&self, ino: INodeNo) -> Target<'static> {
        Target::Path(self.at(ino), false)
    }

    /// Its attributes.
    pub fn stat(&self, ino: INodeNo) -> Result<Attributes, FileError> {
        block_on(self.session.stat(self.target(ino)))
    }

    /// Answers with what a name leads to.
    pub fn entry(&self, reply: ReplyEntry, found: Result<Attributes, FileError>) {
        match found {
            Ok(found) => {
                let shown = convert::attributes(self.worker.numbers, &found);
                reply.entry(&TTL, &shown, Generation(0));
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Answers with attributes.
    pub fn attr(&self, reply: ReplyAttr, found: Result<Attributes, FileError>) {
        match found {
            Ok(found) => reply.attr(&TTL, &convert::attributes(self.worker.numbers, &found)),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Enters what was opened.
    pub fn enter(&self, opened: Opened) -> Result<FileHandle, FileError> {
        self.worker.enter(self.session.clone(), opened.handle)
    }

    /// Makes a file that is not there.
    pub fn make_file(&self, at: At<'_>, mode: u16) -> Result<Attributes, FileError> {
        let flags = wharf_files::OpenFlags {
            exclusive: true,
            ..wharf_files::OpenFlags::CREATE
        };
        let opened = block_on(self.session.open(now_ns(), at, flags, mode))?;
        block_on(self.session.close(opened.handle))?;
        Ok(opened.attributes)
    }

    /// The parts of a change of attributes, one after another.
    pub fn set(&self, ino: INodeNo, set: &Set) -> Result<Attributes, FileError> {
        let (session, now) = (&self.session, now_ns());
        if let Some(bytes) = set.size {
            match set.handle {
                Some(handle) => {
                    let open = self.worker.open(handle)?;
                    block_on(open.session.truncate_open(now, open.handle, bytes))?;
                }
                None => block_on(session.truncate(now, self.at(ino), bytes))?,
            }
        }
        if set.uid.is_some() || set.gid.is_some() {
            block_on(session.chown(now, self.target(ino), set.uid, set.gid))?;
        }
        if let Some(mode) = set.mode {
            block_on(session.chmod(now, self.target(ino), mode as u16 & 0o7777))?;
        }
        if set.accessed.is_some() || set.modified.is_some() {
            let (accessed, modified) = (set.accessed, set.modified);
            let (accessed, modified) = (convert::set_time(accessed), convert::set_time(modified));
            block_on(session.set_times(now, self.target(ino), accessed, modified))?;
        }
        self.stat(ino)
    }
}

/// Attributes that are to be set.
pub struct Set {
    /// Permission bits.
    pub mode: Option<u32>,
    /// The user.
    pub uid: Option<u32>,
    /// Its group.
    pub gid: Option<u32>,
    /// Bytes of a file.
    pub size: Option<u64>,
    /// Time of the last read.
    pub accessed: Option<TimeOrNow>,
    /// Time of the last change of bytes.
    pub modified: Option<TimeOrNow>,
    /// The open file that is cut, if it is.
    pub handle: Option<FileHandle>,
}

/// Answers whether something was done.
pub fn empty(reply: ReplyEmpty, done: Result<(), FileError>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

/// Answers with bytes.
pub fn data(reply: ReplyData, found: Result<Vec<u8>, FileError>) {
    match found {
        Ok(found) => reply.data(&found),
        Err(error) => reply.error(errno(error)),
    }
}

/// A value, or how long it is where the kernel only asks that.
pub fn value(reply: ReplyXattr, most: u32, found: Result<Vec<u8>, FileError>) {
    match found {
        Ok(found) if most == 0 => reply.size(found.len() as u32),
        Ok(found) if found.len() > most as usize => reply.error(errno(Errno::ERANGE.into())),
        Ok(found) => reply.data(&found),
        Err(error) => reply.error(errno(error)),
    }
}

/// Puts as many entries into an answer as go, from `offset` on. The kernel asks on from the one
/// behind the last.
pub fn fill<F: FileSystem>(
    worker: &Worker<F>,
    reply: &mut ReplyDirectory,
    ino: INodeNo,
    offset: u64,
    entries: &[DirectoryEntry],
) {
    let directory = fuser::FileType::Directory;
    for (at, name) in [(0, "."), (1, "..")] {
        // What `..` has for a number nobody looks at: the kernel knows.
        if offset <= at && reply.add(ino, at + 1, directory, name) {
            return;
        }
    }
    for entry in entries {
        let (number, kind) = (
            worker.numbers.shown(entry.number),
            convert::kind(entry.kind),
        );
        let name = OsStr::from_bytes(&entry.name);
        if reply.add(number, entry.cookie + DOTS, kind, name) {
            return;
        }
    }
}
