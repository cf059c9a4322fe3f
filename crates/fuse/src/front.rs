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
use wharf_files::vfs::{Access, Service, Target};
use wharf_files::{Errno, LIST_START, Place, Seek, SetXattr, Sync, block_on};

use crate::answer::{Answering, DOTS, ENTRIES, Set, data, empty, fill, own, shown, value};
use crate::caller::Asker;
use crate::convert::{self, errno};
use crate::worker::{Job, Worker, now_ns};

/// See the module.
pub struct Front<S> {
    jobs: Mutex<mpsc::Sender<Job<S>>>,
    /// Others change the file system too.
    is_shared: bool,
}

impl<S: Service + 'static> Front<S> {
    pub(super) fn new(jobs: mpsc::Sender<Job<S>>, is_shared: bool) -> Front<S> {
        Front {
            jobs: Mutex::new(jobs),
            is_shared,
        }
    }

    /// What the kernel does with what it has of a file that is opened.
    fn opened(&self) -> FopenFlags {
        match self.is_shared {
            // It keeps none: the times by which it would see that what it has is old can be set back.
            true => FopenFlags::FOPEN_DIRECT_IO,
            // Nobody else changes its bytes: what the kernel has of them stays right.
            false => FopenFlags::FOPEN_KEEP_CACHE,
        }
    }

    /// Has the worker do something. If it has ended, the reply is dropped, which is an answer too.
    fn send(&self, job: impl FnOnce(&Worker<S>) + Send + 'static) {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = jobs.send(Box::new(job));
    }

    /// The same for somebody.
    fn ask(&self, request: &Request, job: impl FnOnce(&Answering<'_, S>) + Send + 'static) {
        let asker = Asker::of(request);
        self.send(move |worker| {
            asker.asks();
            job(&Answering::new(worker, asker.caller()));
        });
    }
}

impl<S: Service + 'static> Filesystem for Front<S> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Who writes takes mode bits away in the same step. Kernels before 5.11 do that themselves.
        let _ = config.add_capabilities(InitFlags::FUSE_HANDLE_KILLPRIV_V2);
        let _ = config.add_capabilities(InitFlags::FUSE_ATOMIC_O_TRUNC);
        if self.is_shared {
            let _ = config.add_capabilities(InitFlags::FUSE_AUTO_INVAL_DATA);
            // Linux 6.6: mappings have memory all the same.
            let _ = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        }
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.as_bytes().to_vec();
        self.ask(request, move |a| {
            let at = a.within(parent, &name);
            a.looked_up(
                reply,
                parent,
                block_on(a.service().stat(a.by(), Target::Path(at, false))),
            );
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
            data(reply, block_on(a.service().read_link(a.by(), at)));
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
                parent,
                match convert::special(mode) {
                    Some(special) => block_on(a.service().mknod(a.by(), at, special, device, bits)),
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
                parent,
                block_on(a.service().mkdir(a.by(), at, mode as u16 & 0o7777)),
            );
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.ask(request, move |a| {
            let at = a.within(parent, &name);
            empty(reply, block_on(a.service().unlink(a.by(), at)));
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.ask(request, move |a| {
            let at = a.within(parent, &name);
            empty(reply, block_on(a.service().rmdir(a.by(), at)));
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
            a.entry(
                reply,
                parent,
                block_on(a.service().symlink(a.by(), &target, at)),
            );
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
            let done = block_on(a.service().rename(a.by(), from, to, how));
            if done.is_ok() {
                a.moved(parent, to_parent);
            }
            empty(reply, done);
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
            a.entry(
                reply,
                parent,
                block_on(a.service().link(a.by(), from, to, false)),
            );
        });
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let how = self.opened();
        self.ask(request, move |a| {
            let at = a.at(ino);
            let opened = block_on(
                a.service()
                    .open(a.by(), at, convert::open_flags(flags.0), 0),
            );
            match opened {
                Ok(opened) => reply.opened(shown(opened), how),
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
        let (name, how) = (name.as_bytes().to_vec(), self.opened());
        self.ask(request, move |a| {
            let at = a.within(parent, &name);
            let flags = wharf_files::OpenFlags {
                create: true,
                exclusive: flags & rustix::fs::OFlags::EXCL.bits() as i32 != 0,
                ..convert::open_flags(flags)
            };
            let opened = block_on(a.service().open(a.by(), at, flags, mode as u16 & 0o7777));
            match opened {
                Ok(opened) => {
                    let told = a.tell(parent, &opened.attributes);
                    reply.created(
                        &told.least(),
                        &told.shown,
                        Generation(0),
                        shown(opened),
                        how,
                    );
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
            let mut out = vec![0; size as usize];
            let read = worker.service.read(now_ns(), own(handle), offset, &mut out);
            let found = block_on(read).map(|bytes| {
                out.truncate(bytes as usize);
                out
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
            let place = Place::At(offset);
            let write = worker.service.write(now_ns(), own(handle), place, &data);
            match block_on(write) {
                Ok(written) => reply.written(written.bytes as u32),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    /// Nothing is kept back until a file is closed: the kernel need not ask again.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(fuser::Errno::ENOSYS);
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
            empty(reply, block_on(worker.service.close(own(handle))));
        });
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, is_data: bool, reply: ReplyEmpty) {
        self.send(move |worker| {
            let what = if is_data { Sync::Data } else { Sync::All };
            empty(reply, block_on(worker.service.sync(own(handle), what)));
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
            let mut entries = Vec::new();
            let cookie = offset.checked_sub(DOTS).unwrap_or(LIST_START);
            let list = worker
                .service
                .list(own(handle), cookie, ENTRIES, &mut entries);
            match block_on(list) {
                Ok(_) => {
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
        self.ask(request, move |a| match block_on(a.service().stat_fs()) {
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
            let set = a.service().set_xattr(a.by(), target, &name, &value, how);
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
            value(
                reply,
                size,
                block_on(a.service().xattr(a.by(), target, &name)),
            );
        });
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.ask(request, move |a| {
            let target = a.target(ino);
            let names = block_on(a.service().xattrs(a.by(), target)).map(|names| {
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
                block_on(a.service().remove_xattr(a.by(), target, &name)),
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
            empty(reply, block_on(a.service().access(a.by(), target, access)));
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
            let done = match convert::allocate(mode) {
                None => Err(Errno::EOPNOTSUPP.into()),
                Some(what) => {
                    let service = &worker.service;
                    block_on(service.allocate(now_ns(), own(handle), offset, length, what))
                }
            };
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
            let what = match whence {
                SEEK_DATA => Seek::Data,
                SEEK_HOLE => Seek::Hole,
                _ => return reply.error(errno(Errno::EINVAL.into())),
            };
            let found = match u64::try_from(offset) {
                Err(_) => Err(Errno::ENXIO.into()),
                Ok(offset) => block_on(worker.service.seek(own(handle), offset, what)),
            };
            match found {
                Ok(found) => reply.offset(found as i64),
                Err(error) => reply.error(errno(error)),
            }
        });
    }
}
