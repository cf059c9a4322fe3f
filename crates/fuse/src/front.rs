//! The kernel's questions, each a job for the worker.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use wharf_files::vfs::{Access, Target};
use wharf_files::{Errno, FileSystem, LIST_START, Place, Seek, SetXattr, Sync, block_on};

use crate::answer::{Answering, DOTS, ENTRIES, Set, TTL, data, empty, fill, value};
use crate::caller::Asker;
use crate::convert::{self, errno};
use crate::worker::{Job, Worker, now_ns};

/// See the module.
pub struct Front<F> {
    jobs: Mutex<mpsc::Sender<Job<F>>>,
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
            let at = a.within(parent, &name);
            a.entry(reply, block_on(a.session.stat(Target::Path(at, false))));
        });
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.ask(request, move |a| a.attr(reply, a.stat(ino)));
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
        self.ask(request, move |a| a.attr(reply, a.set(ino, &set)));
    }

    fn readlink(&self, request: &Request, ino: INodeNo, reply: ReplyData) {
        self.ask(request, move |a| {
            let at = a.at(ino);
            data(reply, block_on(a.session.read_link(at)));
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
            let at = a.within(parent, &name);
            let bits = mode as u16 & 0o7777;
            a.entry(
                reply,
                match convert::special(mode) {
                    Some(special) => block_on(a.session.mknod(now_ns(), at, special, device, bits)),
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
            let at = a.within(parent, &name);
            a.entry(
                reply,
                block_on(a.session.mkdir(now_ns(), at, mode as u16 & 0o7777)),
            );
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.ask(request, move |a| {
            let at = a.within(parent, &name);
            empty(reply, block_on(a.session.unlink(now_ns(), at)));
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.ask(request, move |a| {
            let at = a.within(parent, &name);
            empty(reply, block_on(a.session.rmdir(now_ns(), at)));
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
            let at = a.within(parent, &name);
            a.entry(reply, block_on(a.session.symlink(now_ns(), &target, at)));
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
            let from = a.within(parent, &name);
            let to = a.within(to_parent, &to_name);
            empty(reply, block_on(a.session.rename(now_ns(), from, to, how)));
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
            let from = a.at(ino);
            let to = a.within(parent, &name);
            a.entry(reply, block_on(a.session.link(now_ns(), from, to, false)));
        });
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.ask(request, move |a| {
            let at = a.at(ino);
            let opened = block_on(
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
            let at = a.within(parent, &name);
            let flags = wharf_files::OpenFlags {
                create: true,
                exclusive: flags & rustix::fs::OFlags::EXCL.bits() as i32 != 0,
                ..convert::open_flags(flags)
            };
            let opened = block_on(a.session.open(now_ns(), at, flags, mode as u16 & 0o7777));
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
            let found = worker.open(handle).and_then(|open| {
                let mut out = vec![0; size as usize];
                let read = open.session.read(now_ns(), open.handle, offset, &mut out);
                let bytes = block_on(read)?;
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
            let written = worker.open(handle).and_then(|open| {
                let place = Place::At(offset);
                block_on(open.session.write(now_ns(), open.handle, place, &data))
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
            let left = worker.leave(handle);
            empty(
                reply,
                left.and_then(|open| block_on(open.session.close(open.handle))),
            );
        });
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, is_data: bool, reply: ReplyEmpty) {
        self.send(move |worker| {
            let what = if is_data { Sync::Data } else { Sync::All };
            let open = worker.open(handle);
            empty(
                reply,
                open.and_then(|open| block_on(open.session.sync(open.handle, what))),
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
            let listed = worker.open(handle).and_then(|open| {
                let mut entries = Vec::new();
                let cookie = offset.checked_sub(DOTS).unwrap_or(LIST_START);
                block_on(
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
        self.ask(request, move |a| match block_on(a.session.stat_fs()) {
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
            let target = a.target(ino);
            let set = a.session.set_xattr(now_ns(), target, &name, &value, how);
            empty(reply, block_on(set));
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
            let target = a.target(ino);
            value(reply, size, block_on(a.session.xattr(target, &name)));
        });
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.ask(request, move |a| {
            let target = a.target(ino);
            let names = block_on(a.session.xattrs(target)).map(|names| {
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
            let target = a.target(ino);
            empty(
                reply,
                block_on(a.session.remove_xattr(now_ns(), target, &name)),
            );
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
            let target = a.target(ino);
            empty(reply, block_on(a.session.access(target, access)));
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
            let open = worker.open(handle);
            let done = open.and_then(|open| {
                let what = convert::allocate(mode).ok_or(Errno::EOPNOTSUPP)?;
                block_on(
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
            let open = worker.open(handle);
            let found = open.and_then(|open| {
                let what = match whence {
                    SEEK_DATA => Seek::Data,
                    SEEK_HOLE => Seek::Hole,
                    _ => return Err(Errno::EINVAL.into()),
                };
                let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
                block_on(open.session.seek(open.handle, offset, what))
            });
            match found {
                Ok(found) => reply.offset(found as i64),
                Err(error) => reply.error(errno(error)),
            }
        });
    }
}
