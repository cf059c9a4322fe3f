//! The kernel's questions, each a job for the worker.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use wharf_files::vfs::{Access, At, Opened, Session, Target};
use wharf_files::{
    Attributes, DirectoryEntry, Errno, FileError, FileSystem, LIST_START, Place, Seek, SetXattr,
    Sync,
};

use crate::caller::Asker;
use crate::convert::{self, errno};
use crate::wait::wait;
use crate::worker::{Job, Worker, now_ns};

/// How long the kernel remembers names and attributes: not at all, so that permissions are checked
/// at each step.
const TTL: Duration = Duration::ZERO;

/// Entries that are asked for at a time.
const ENTRIES: usize = 256;

/// `.` and `..` come before all cookies.
const DOTS: u64 = 2;

/// See the module.
pub struct Front<F> {
    jobs: Mutex<mpsc::Sender<Job<F>>>,
}

/// Who asks, and the worker that answers.
struct Answering<'a, F> {
    worker: &'a Worker<F>,
    session: Rc<Session<Rc<F>>>,
}

impl<F: FileSystem> Answering<'_, F> {
    fn stat(&self, number: u64) -> Result<Attributes, FileError> {
        wait(self.session.stat(Target::Path(At::number(number), false)))
    }

    fn entry(&self, reply: ReplyEntry, found: Result<Attributes, FileError>) {
        match found {
            Ok(found) => {
                let shown = convert::attributes(self.worker.numbers, &found);
                reply.entry(&TTL, &shown, Generation(0));
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn attr(&self, reply: ReplyAttr, found: Result<Attributes, FileError>) {
        match found {
            Ok(found) => reply.attr(&TTL, &convert::attributes(self.worker.numbers, &found)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn enter(&self, opened: Opened) -> Result<FileHandle, FileError> {
        self.worker.enter(self.session.clone(), opened.handle)
    }

    fn make_file(&self, at: At<'_>, mode: u16) -> Result<Attributes, FileError> {
        let flags = wharf_files::OpenFlags {
            exclusive: true,
            ..wharf_files::OpenFlags::CREATE
        };
        let opened = wait(self.session.open(now_ns(), at, flags, mode))?;
        wait(self.session.close(opened.handle))?;
        Ok(opened.attributes)
    }

    /// The parts of a change of attributes, one after another.
    fn set(&self, number: u64, set: &Set) -> Result<Attributes, FileError> {
        let (session, now) = (&self.session, now_ns());
        let target = || Target::Path(At::number(number), false);
        if let Some(bytes) = set.size {
            match set.handle {
                Some(handle) => {
                    let open = self.worker.open(handle)?;
                    wait(open.session.truncate_open(now, open.handle, bytes))?;
                }
                None => wait(session.truncate(now, At::number(number), bytes))?,
            }
        }
        if set.uid.is_some() || set.gid.is_some() {
            wait(session.chown(now, target(), set.uid, set.gid))?;
        }
        if let Some(mode) = set.mode {
            wait(session.chmod(now, target(), mode as u16 & 0o7777))?;
        }
        if set.accessed.is_some() || set.modified.is_some() {
            let (accessed, modified) = (set.accessed, set.modified);
            let (accessed, modified) = (convert::set_time(accessed), convert::set_time(modified));
            wait(session.set_times(now, target(), accessed, modified))?;
        }
        self.stat(number)
    }
}

/// Attributes that are to be set.
struct Set {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    accessed: Option<TimeOrNow>,
    modified: Option<TimeOrNow>,
    handle: Option<FileHandle>,
}

fn empty(reply: ReplyEmpty, done: Result<(), FileError>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

fn data(reply: ReplyData, found: Result<Vec<u8>, FileError>) {
    match found {
        Ok(found) => reply.data(&found),
        Err(error) => reply.error(errno(error)),
    }
}

/// A value, or how long it is where the kernel only asks that.
fn value(reply: ReplyXattr, most: u32, found: Result<Vec<u8>, FileError>) {
    match found {
        Ok(found) if most == 0 => reply.size(found.len() as u32),
        Ok(found) if found.len() > most as usize => reply.error(errno(Errno::ERANGE.into())),
        Ok(found) => reply.data(&found),
        Err(error) => reply.error(errno(error)),
    }
}

impl<F: FileSystem + 'static> Front<F> {
    pub(super) fn new(jobs: mpsc::Sender<Job<F>>) -> Front<F> {
        Front {
            jobs: Mutex::new(jobs),
        }
    }

    /// Has the worker do something. If it has ended, the reply is dropped, which is an answer too.
    fn send(&self, job: impl FnOnce(&Worker<F>) + Send + 'static) {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = jobs.send(Box::new(job));
    }

    /// The same for somebody.
    fn ask(&self, request: &Request, job: impl FnOnce(&Answering<'_, F>) + Send + 'static) {
        let asker = Asker::of(request);
        self.send(move |worker| {
            let session = worker.session(asker);
            job(&Answering { worker, session });
        });
    }
}

impl<F: FileSystem + 'static> Filesystem for Front<F> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Who writes takes mode bits away in the same step. Kernels before 5.11 do that themselves.
        let _ = config.add_capabilities(InitFlags::FUSE_HANDLE_KILLPRIV_V2);
        let _ = config.add_capabilities(InitFlags::FUSE_ATOMIC_O_TRUNC);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.as_bytes().to_vec();
        self.ask(request, move |a| {
            let at = At::within(a.worker.numbers.own(parent), &name);
            a.entry(reply, wait(a.session.stat(Target::Path(at, false))));
        });
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.ask(request, move |a| {
            a.attr(reply, a.stat(a.worker.numbers.own(ino)))
        });
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = Set {
            mode,
            uid,
            gid,
            size,
            accessed,
            modified,
            handle,
        };
        self.ask(request, move |a| {
            a.attr(reply, a.set(a.worker.numbers.own(ino), &set))
        });
    }

    fn readlink(&self, request: &Request, ino: INodeNo, reply: ReplyData) {
        self.ask(request, move |a| {
            let at = At::number(a.worker.numbers.own(ino));
            data(reply, wait(a.session.read_link(at)));
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let name = name.as_bytes().to_vec();
        self.ask(request, move |a| {
            let at = At::within(a.worker.numbers.own(parent), &name);
            let bits = mode as u16 & 0o7777;
            a.entry(
                reply,
                match convert::special(mode) {
                    Some(special) => wait(a.session.mknod(now_ns(), at, special, device, bits)),
                    None => a.make_file(at, bits),
                },
            );
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let name = name.as_bytes().to_vec();
        self.ask(request, move |a| {
            let at = At::within(a.worker.numbers.own(parent), &name);
            a.entry(
                reply,
                wait(a.session.mkdir(now_ns(), at, mode as u16 & 0o7777)),
            );
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.ask(request, move |a| {
            let at = At::within(a.worker.numbers.own(parent), &name);
            empty(reply, wait(a.session.unlink(now_ns(), at)));
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.ask(request, move |a| {
            let at = At::within(a.worker.numbers.own(parent), &name);
            empty(reply, wait(a.session.rmdir(now_ns(), at)));
        });
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let name = name.as_bytes().to_vec();
        let target = target.as_os_str().as_bytes().to_vec();
        self.ask(request, move |a| {
            let at = At::within(a.worker.numbers.own(parent), &name);
            a.entry(reply, wait(a.session.symlink(now_ns(), &target, at)));
        });
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        to_parent: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (name, to_name) = (name.as_bytes().to_vec(), to_name.as_bytes().to_vec());
        self.ask(request, move |a| {
            let Some(how) = convert::rename(flags) else {
                return reply.error(errno(Errno::EINVAL.into()));
            };
            let from = At::within(a.worker.numbers.own(parent), &name);
            let to = At::within(a.worker.numbers.own(to_parent), &to_name);
            empty(reply, wait(a.session.rename(now_ns(), from, to, how)));
        });
    }

    fn link(
        &self,
        request: &Request,
        ino: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let name = name.as_bytes().to_vec();
        self.ask(request, move |a| {
            let from = At::number(a.worker.numbers.own(ino));
            let to = At::within(a.worker.numbers.own(parent), &name);
            a.entry(reply, wait(a.session.link(now_ns(), from, to, false)));
        });
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.ask(request, move |a| {
            let at = At::number(a.worker.numbers.own(ino));
            let opened = wait(
                a.session
                    .open(now_ns(), at, convert::open_flags(flags.0), 0),
            );
            match opened.and_then(|opened| a.enter(opened)) {
                Ok(handle) => reply.opened(handle, FopenFlags::empty()),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let name = name.as_bytes().to_vec();
        self.ask(request, move |a| {
            let at = At::within(a.worker.numbers.own(parent), &name);
            let flags = wharf_files::OpenFlags {
                create: true,
                exclusive: flags & rustix::fs::OFlags::EXCL.bits() as i32 != 0,
                ..convert::open_flags(flags)
            };
            let opened = wait(a.session.open(now_ns(), at, flags, mode as u16 & 0o7777));
            match opened.and_then(|opened| Ok((a.enter(opened)?, opened.attributes))) {
                Ok((handle, attributes)) => {
                    let shown = convert::attributes(a.worker.numbers, &attributes);
                    reply.created(&TTL, &shown, Generation(0), handle, FopenFlags::empty());
                }
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.send(move |worker| {
            let found = worker
                .open(handle)
                .map_err(FileError::from)
                .and_then(|open| {
                    let mut out = vec![0; size as usize];
                    let read = open.session.read(now_ns(), open.handle, offset, &mut out);
                    let bytes = wait(read)?;
                    out.truncate(bytes as usize);
                    Ok(out)
                });
            data(reply, found);
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let data = data.to_vec();
        self.send(move |worker| {
            let written = worker
                .open(handle)
                .map_err(FileError::from)
                .and_then(|open| {
                    let place = Place::At(offset);
                    wait(open.session.write(now_ns(), open.handle, place, &data))
                });
            match written {
                Ok(written) => reply.written(written.bytes as u32),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.send(move |worker| {
            let left = worker.leave(handle).map_err(FileError::from);
            empty(
                reply,
                left.and_then(|open| wait(open.session.close(open.handle))),
            );
        });
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, is_data: bool, reply: ReplyEmpty) {
        self.send(move |worker| {
            let what = if is_data { Sync::Data } else { Sync::All };
            let open = worker.open(handle).map_err(FileError::from);
            empty(
                reply,
                open.and_then(|open| wait(open.session.sync(open.handle, what))),
            );
        });
    }

    fn opendir(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.open(request, ino, flags, reply);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.send(move |worker| {
            let listed = worker
                .open(handle)
                .map_err(FileError::from)
                .and_then(|open| {
                    let mut entries = Vec::new();
                    let cookie = offset.checked_sub(DOTS).unwrap_or(LIST_START);
                    wait(
                        open.session
                            .list(open.handle, cookie, ENTRIES, &mut entries),
                    )?;
                    Ok(entries)
                });
            match listed {
                Ok(entries) => {
                    fill(worker, &mut reply, ino, offset, &entries);
                    reply.ok();
                }
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn releasedir(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.release(request, ino, handle, flags, None, false, reply);
    }

    fn fsyncdir(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        is_data: bool,
        reply: ReplyEmpty,
    ) {
        self.fsync(request, ino, handle, is_data, reply);
    }

    fn statfs(&self, request: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.ask(request, move |a| match wait(a.session.stat_fs()) {
            Ok(found) => {
                let (pages, free) = (found.pages, found.pages_free);
                let (files, files_free) = (found.files, found.files_free);
                reply.statfs(pages, free, free, files, files_free, 4096, 255, 4096);
            }
            Err(error) => reply.error(errno(error)),
        });
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let (name, value) = (name.as_bytes().to_vec(), value.to_vec());
        self.ask(request, move |a| {
            let how = match flags {
                0 => SetXattr::Put,
                1 => SetXattr::Create,
                2 => SetXattr::Replace,
                _ => return reply.error(errno(Errno::EINVAL.into())),
            };
            let target = Target::Path(At::number(a.worker.numbers.own(ino)), false);
            let set = a.session.set_xattr(now_ns(), target, &name, &value, how);
            empty(reply, wait(set));
        });
    }

    fn getxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let name = name.as_bytes().to_vec();
        self.ask(request, move |a| {
            let target = Target::Path(At::number(a.worker.numbers.own(ino)), false);
            value(reply, size, wait(a.session.xattr(target, &name)));
        });
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.ask(request, move |a| {
            let target = Target::Path(At::number(a.worker.numbers.own(ino)), false);
            let names = wait(a.session.xattrs(target)).map(|names| {
                let mut all = Vec::new();
                names.iter().for_each(|name| {
                    all.extend_from_slice(name);
                    all.push(0);
                });
                all
            });
            value(reply, size, names);
        });
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.ask(request, move |a| {
            let target = Target::Path(At::number(a.worker.numbers.own(ino)), false);
            empty(reply, wait(a.session.remove_xattr(now_ns(), target, &name)));
        });
    }

    fn access(&self, request: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        self.ask(request, move |a| {
            let mut access = Access::NONE;
            for (bit, wanted) in [(4, Access::READ), (2, Access::WRITE), (1, Access::EXECUTE)] {
                if mask.bits() & bit != 0 {
                    access = access.and(wanted);
                }
            }
            let target = Target::Path(At::number(a.worker.numbers.own(ino)), false);
            empty(reply, wait(a.session.access(target, access)));
        });
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.send(move |worker| {
            let open = worker.open(handle).map_err(FileError::from);
            let done = open.and_then(|open| {
                let what = convert::allocate(mode).ok_or(Errno::EOPNOTSUPP)?;
                wait(
                    open.session
                        .allocate(now_ns(), open.handle, offset, length, what),
                )
            });
            empty(reply, done);
        });
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        const SEEK_DATA: i32 = 3;
        const SEEK_HOLE: i32 = 4;
        self.send(move |worker| {
            let open = worker.open(handle).map_err(FileError::from);
            let found = open.and_then(|open| {
                let what = match whence {
                    SEEK_DATA => Seek::Data,
                    SEEK_HOLE => Seek::Hole,
                    _ => return Err(Errno::EINVAL.into()),
                };
                let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
                wait(open.session.seek(open.handle, offset, what))
            });
            match found {
                Ok(found) => reply.offset(found as i64),
                Err(error) => reply.error(errno(error)),
            }
        });
    }
}

/// Puts as many entries into an answer as go, from `offset` on. The kernel asks on from the one
/// behind the last.
fn fill<F: FileSystem>(
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
