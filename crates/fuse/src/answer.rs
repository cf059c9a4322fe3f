//! What all answers have in common: who asks, and how a result becomes a reply.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use fuser::{
    FileAttr, FileHandle, FileType, Generation, INodeNo, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyXattr, TimeOrNow,
};
use wharf_files::vfs::{At, Opened, Service, Target};
use wharf_files::{
    Attributes, By, Caller, DirectoryEntry, Errno, FileError, Handle, OpenFlags, block_on,
};

use crate::convert::{self, errno};
use crate::worker::{Worker, now_ns};

/// Entries that are asked for at a time.
pub const ENTRIES: usize = 256;

/// `.` and `..` come before all cookies.
pub const DOTS: u64 = 2;

/// Who asks, and the worker that answers.
pub struct Answering<'a, S> {
    /// The worker.
    pub worker: &'a Worker<S>,
    /// Who asks.
    pub caller: Caller,
    /// When.
    pub now_ns: u64,
}

/// What is told of a name, and how long the kernel remembers the name and its attributes.
pub struct Told {
    /// How long the name is remembered.
    pub name_ttl: Duration,
    /// How long the attributes are.
    pub ttl: Duration,
    /// The attributes.
    pub shown: FileAttr,
}

impl Told {
    /// The shorter of both, for answers that have one alone.
    pub fn least(&self) -> Duration {
        self.ttl.min(self.name_ttl)
    }
}

impl<'a, S: Service> Answering<'a, S> {
    /// For somebody who asks now.
    pub fn new(worker: &'a Worker<S>, caller: Caller) -> Answering<'a, S> {
        Answering {
            worker,
            caller,
            now_ns: now_ns(),
        }
    }

    /// The file system.
    pub fn service(&self) -> &'a S {
        &self.worker.service
    }

    /// Who asks, and when.
    pub fn by(&self) -> By<'_> {
        By {
            caller: &self.caller,
            now_ns: self.now_ns,
        }
    }

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
        block_on(self.service().stat(self.by(), self.target(ino)))
    }

    /// How long a name in a directory is remembered.
    fn name_ttl(&self, parent: INodeNo) -> Duration {
        let own = self.worker.numbers.own(parent);
        self.worker.memory.name(own, || self.stat(parent))
    }

    /// Something was moved from one directory into another.
    pub fn moved(&self, from: INodeNo, to: INodeNo) {
        let numbers = self.worker.numbers;
        let directories = [numbers.own(from), numbers.own(to)];
        let ask = |own| self.stat(numbers.shown(own));
        self.worker.memory.moved(directories, ask);
    }

    /// What is told of a name in a directory.
    pub fn tell(&self, parent: INodeNo, found: &Attributes) -> Told {
        Told {
            name_ttl: self.name_ttl(parent),
            ttl: self.worker.memory.attributes(found),
            shown: convert::attributes(self.worker.numbers, found),
        }
    }

    /// Answers with what a name leads to.
    pub fn entry(&self, reply: ReplyEntry, parent: INodeNo, found: Result<Attributes, FileError>) {
        match found {
            Ok(found) => {
                let told = self.tell(parent, &found);
                reply.entry_with_ttls(&told.ttl, &told.name_ttl, &told.shown, Generation(0));
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    /// The same for who looks a name up: that there is nothing is remembered too.
    pub fn looked_up(
        &self,
        reply: ReplyEntry,
        parent: INodeNo,
        found: Result<Attributes, FileError>,
    ) {
        let is_nothing = matches!(found, Err(FileError::Errno(Errno::ENOENT)));
        let name_ttl = match is_nothing {
            true => self.name_ttl(parent),
            false => Duration::ZERO,
        };
        match name_ttl.is_zero() {
            true => self.entry(reply, parent, found),
            // Number 0 stands for nothing.
            false => reply.entry(&name_ttl, &convert::nothing(), Generation(0)),
        }
    }

    /// Answers with attributes.
    pub fn attr(&self, reply: ReplyAttr, found: Result<Attributes, FileError>) {
        match found {
            Ok(found) => {
                let ttl = self.worker.memory.attributes(&found);
                reply.attr(&ttl, &convert::attributes(self.worker.numbers, &found));
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Makes a file that is not there.
    pub fn make_file(&self, at: At<'_>, mode: u16) -> Result<Attributes, FileError> {
        let flags = OpenFlags {
            exclusive: true,
            ..OpenFlags::CREATE
        };
        let opened = block_on(self.service().open(self.by(), at, flags, mode))?;
        block_on(self.service().close(opened.handle))?;
        Ok(opened.attributes)
    }

    /// The parts of a change of attributes, one after another.
    pub fn set(&self, ino: INodeNo, set: &Set) -> Result<Attributes, FileError> {
        let (service, by, now_ns) = (self.service(), self.by(), self.now_ns);
        if let Some(bytes) = set.size {
            match set.handle {
                Some(handle) => block_on(service.truncate_open(now_ns, own(handle), bytes))?,
                None => block_on(service.truncate(by, self.at(ino), bytes))?,
            }
        }
        if set.uid.is_some() || set.gid.is_some() {
            block_on(service.chown(by, self.target(ino), set.uid, set.gid))?;
        }
        if let Some(mode) = set.mode {
            block_on(service.chmod(by, self.target(ino), mode as u16 & 0o7777))?;
        }
        if set.accessed.is_some() || set.modified.is_some() {
            let (accessed, modified) = (set.accessed, set.modified);
            let (accessed, modified) = (convert::set_time(accessed), convert::set_time(modified));
            block_on(service.set_times(by, self.target(ino), accessed, modified))?;
        }
        self.stat(ino)
    }
}

/// FUSE's handle of what was opened.
pub fn shown(opened: Opened) -> FileHandle {
    let handle = opened.handle;
    FileHandle(u64::from(handle.generation) << 32 | u64::from(handle.index))
}

/// The file system's handle.
pub fn own(handle: FileHandle) -> Handle {
    Handle {
        index: handle.0 as u32,
        generation: (handle.0 >> 32) as u32,
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
pub fn fill<S>(
    worker: &Worker<S>,
    reply: &mut ReplyDirectory,
    ino: INodeNo,
    offset: u64,
    entries: &[DirectoryEntry],
) {
    let directory = FileType::Directory;
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
