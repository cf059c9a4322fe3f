//! A folder of the system that a test runs on, as something that programs can be run on.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, CWD, Dir, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, SeekFrom, Stat,
    Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;
use wharf_files::testing::program::{Operation, SLOTS, Step};
use wharf_files::testing::subject::{Answer, Look, Subject, sorted};
use wharf_files::testing::view::{PagesSeen, Seen, View};
use wharf_files::vfs::SetTime;
use wharf_files::{Allocate, Caller, Kind, OpenFlags, Owner};

/// Nanoseconds of a time that stays, or is now.
const UTIME_OMIT: i64 = 0x3fff_fffe;
const UTIME_NOW: i64 = 0x3fff_ffff;

/// The working directory of this thread, as users of the system see it.
pub struct System {
    callers: Vec<Caller>,
    slots: Vec<[Option<OwnedFd>; SLOTS]>,
    /// Who asks now; only root can become somebody else.
    user: usize,
}

type Names = Vec<(Vec<u8>, Option<Kind>)>;

type Answered = Result<Answer, Errno>;

fn done((): ()) -> Answer {
    Answer::Done
}

impl System {
    /// These users. The first one is who runs this thread.
    pub fn new(callers: &[Caller]) -> System {
        let slots = callers.iter().map(|_| [const { None }; SLOTS]);
        System {
            callers: callers.to_vec(),
            slots: slots.collect(),
            user: 0,
        }
    }

    /// Makes this thread another user's, by its effective identity: it can come back.
    pub fn become_user(&mut self, user: usize) {
        if user == self.user {
            return;
        }
        let become_one = |caller: &Caller| -> Result<(), Errno> {
            use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
            set_thread_res_uid(None, Uid::ROOT, None)?;
            let groups: Vec<_> = caller.groups.iter().map(|g| Gid::from_raw(*g)).collect();
            set_thread_groups(&groups)?;
            set_thread_res_gid(None, Gid::from_raw(caller.gid), None)?;
            set_thread_res_uid(None, Uid::from_raw(caller.uid), None)
        };
        become_one(&self.callers[user]).expect("root becomes anybody");
        self.user = user;
    }

    /// Closes all that is open.
    pub fn close_all(&mut self) {
        self.slots
            .iter_mut()
            .for_each(|slots| *slots = [const { None }; SLOTS]);
    }

    fn fd(&self, slot: usize) -> Result<&OwnedFd, Errno> {
        self.slots[self.user][slot].as_ref().ok_or(Errno::BADF)
    }

    fn open(&mut self, slot: usize, path: &[u8], flags: OpenFlags, mode: u16) -> Answered {
        let mut bits = match (flags.read, flags.write) {
            (true, true) => OFlags::RDWR,
            (false, _) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        for (is_set, bit) in [
            (flags.create, OFlags::CREATE),
            (flags.exclusive, OFlags::EXCL),
            (flags.truncate, OFlags::TRUNC),
            (flags.append, OFlags::APPEND),
            (flags.directory, OFlags::DIRECTORY),
            (flags.no_follow, OFlags::NOFOLLOW),
        ] {
            bits.set(bit, is_set);
        }
        let opened = rustix::fs::openat(CWD, path, bits | OFlags::CLOEXEC, mode_of(mode))?;
        self.slots[self.user][slot] = Some(opened);
        Ok(Answer::Done)
    }

    fn on_open(&mut self, operation: &Operation) -> Answered {
        use Operation::*;
        match operation {
            Open {
                slot,
                path,
                flags,
                mode,
            } => self.open(*slot, path, *flags, *mode),
            Close { slot } => {
                self.fd(*slot)?;
                self.slots[self.user][*slot] = None;
                Ok(Answer::Done)
            }
            Read {
                slot,
                offset,
                bytes,
            } => {
                let mut out = vec![0; *bytes as usize];
                let read = rustix::io::pread(self.fd(*slot)?, &mut out, *offset)?;
                out.truncate(read);
                Ok(Answer::Bytes(out))
            }
            Write { slot, offset, fill } => {
                let written = rustix::io::pwrite(self.fd(*slot)?, &fill.make(), *offset)?;
                Ok(Answer::Number(written as u64))
            }
            TruncateOpen { slot, bytes } => {
                rustix::fs::ftruncate(self.fd(*slot)?, *bytes).map(done)
            }
            Allocate {
                slot,
                offset,
                bytes,
                what,
            } => {
                let flags = allocate_flags(*what);
                rustix::fs::fallocate(self.fd(*slot)?, flags, *offset, *bytes).map(done)
            }
            Operation::Seek { slot, offset, what } => {
                let from = match what {
                    wharf_files::Seek::Data => SeekFrom::Data(*offset),
                    wharf_files::Seek::Hole => SeekFrom::Hole(*offset),
                };
                let fd = self.fd(*slot)?;
                // What it means for a directory is each file system's own.
                match look_of(&rustix::fs::fstat(fd)?).kind {
                    Kind::Directory => Err(Errno::INVAL),
                    _ => rustix::fs::seek(fd, from).map(Answer::Number),
                }
            }
            // It changes nothing that is compared, and takes long.
            Sync { slot, .. } => self.fd(*slot).map(|_| Answer::Done),
            SyncAll => Ok(Answer::Done),
            StatOpen { slot } => {
                let stat = rustix::fs::fstat(self.fd(*slot)?)?;
                Ok(Answer::Look(look_of(&stat)))
            }
            other => on_path(other),
        }
    }
}

impl Subject for System {
    async fn step(&mut self, step: &Step, _now_ns: u64) -> Answer {
        self.become_user(step.user);
        match self.on_open(&step.operation) {
            Ok(answer) => answer,
            Err(errno) => Answer::Failed(errno.raw_os_error()),
        }
    }
}

fn mode_of(mode: u16) -> Mode {
    Mode::from_raw_mode(mode.into())
}

fn allocate_flags(what: Allocate) -> FallocateFlags {
    let keep = FallocateFlags::KEEP_SIZE;
    match what {
        Allocate::Extend => FallocateFlags::empty(),
        Allocate::KeepSize => keep,
        Allocate::Punch => FallocateFlags::PUNCH_HOLE | keep,
        Allocate::Zero => FallocateFlags::ZERO_RANGE,
        Allocate::ZeroKeepSize => FallocateFlags::ZERO_RANGE | keep,
    }
}

fn at_flags(follow: bool) -> AtFlags {
    match follow {
        true => AtFlags::empty(),
        false => AtFlags::SYMLINK_NOFOLLOW,
    }
}

fn kind_of(kind: FileType) -> Kind {
    match kind {
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::File,
    }
}

fn look_of(stat: &Stat) -> Look {
    let kind = kind_of(FileType::from_raw_mode(stat.st_mode));
    Look {
        kind,
        mode: (stat.st_mode & 0o7777) as u16,
        owner: Owner {
            uid: stat.st_uid,
            gid: stat.st_gid,
        },
        links: stat.st_nlink as u32,
        bytes: match kind {
            Kind::Directory => 0,
            _ => stat.st_size as u64,
        },
    }
}

fn time_of(set: SetTime) -> Timespec {
    let (tv_sec, tv_nsec) = match set {
        SetTime::Omit => (0, UTIME_OMIT),
        SetTime::Now => (0, UTIME_NOW),
        SetTime::At(ns) => ((ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64),
    };
    Timespec { tv_sec, tv_nsec }
}

/// What of an extended attribute's name is that of these tests.
fn is_ours(name: &[u8]) -> bool {
    name.starts_with(b"user.") || name.starts_with(b"trusted.")
}

fn truncate(path: &[u8], bytes: u64) -> Result<(), Errno> {
    let path = CString::new(path).map_err(|_| Errno::INVAL)?;
    // SAFETY: the path ends with a zero, and lives as long as the call.
    match unsafe { libc::truncate64(path.as_ptr(), bytes as i64) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).expect("it has a number")),
    }
}

/// Reads something whose size is not known.
fn whole(read: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; 70_000];
    let count = read(&mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

fn xattr_names(path: &[u8], follow: bool) -> Result<Vec<Vec<u8>>, Errno> {
    let all = match follow {
        true => whole(|out| rustix::fs::listxattr(path, out))?,
        false => whole(|out| rustix::fs::llistxattr(path, out))?,
    };
    let names = all.split(|byte| *byte == 0).filter(|name| is_ours(name));
    Ok(names.map(<[u8]>::to_vec).collect())
}

fn xattr(path: &[u8], follow: bool, name: &[u8]) -> Result<Vec<u8>, Errno> {
    match follow {
        true => whole(|out| rustix::fs::getxattr(path, name, out)),
        false => whole(|out| rustix::fs::lgetxattr(path, name, out)),
    }
}

fn names(path: &[u8]) -> Result<Names, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::new(opened)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push((name, Some(kind_of(entry.file_type()))));
        }
    }
    Ok(names)
}

fn on_path(operation: &Operation) -> Answered {
    use Operation::*;
    match operation {
        Mkdir { path, mode } => rustix::fs::mkdirat(CWD, &path[..], mode_of(*mode)).map(done),
        Rmdir { path } => rustix::fs::unlinkat(CWD, &path[..], AtFlags::REMOVEDIR).map(done),
        Unlink { path } => rustix::fs::unlinkat(CWD, &path[..], AtFlags::empty()).map(done),
        Operation::Rename { from, to, how } => {
            let flags = match how {
                wharf_files::Rename::Replace => RenameFlags::empty(),
                wharf_files::Rename::NoReplace => RenameFlags::NOREPLACE,
                wharf_files::Rename::Exchange => RenameFlags::EXCHANGE,
            };
            rustix::fs::renameat_with(CWD, &from[..], CWD, &to[..], flags).map(done)
        }
        Link { from, to, follow } => {
            let flags = match follow {
                true => AtFlags::SYMLINK_FOLLOW,
                false => AtFlags::empty(),
            };
            rustix::fs::linkat(CWD, &from[..], CWD, &to[..], flags).map(done)
        }
        Symlink { target, path } => rustix::fs::symlinkat(&target[..], CWD, &path[..]).map(done),
        ReadLink { path } => {
            let target = rustix::fs::readlinkat(CWD, &path[..], Vec::new())?;
            Ok(Answer::Bytes(target.into_bytes()))
        }
        Stat { path, follow } => {
            let stat = rustix::fs::statat(CWD, &path[..], at_flags(*follow))?;
            Ok(Answer::Look(look_of(&stat)))
        }
        List { path } => names(path).map(sorted),
        Truncate { path, bytes } => truncate(path, *bytes).map(done),
        Chmod { path, mode } => {
            rustix::fs::chmodat(CWD, &path[..], mode_of(*mode), AtFlags::empty()).map(done)
        }
        Chown {
            path,
            follow,
            uid,
            gid,
        } => {
            let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
            rustix::fs::chownat(CWD, &path[..], uid, gid, at_flags(*follow)).map(done)
        }
        SetTimes {
            path,
            follow,
            accessed,
            modified,
        } => {
            let times = Timestamps {
                last_access: time_of(*accessed),
                last_modification: time_of(*modified),
            };
            rustix::fs::utimensat(CWD, &path[..], &times, at_flags(*follow)).map(done)
        }
        other => on_xattrs(other),
    }
}

fn on_xattrs(operation: &Operation) -> Answered {
    use Operation::*;
    match operation {
        Xattr { path, follow, name } => xattr(path, *follow, name).map(Answer::Bytes),
        Operation::SetXattr {
            path,
            follow,
            name,
            value,
            how,
        } => {
            let flags = match how {
                wharf_files::SetXattr::Put => XattrFlags::empty(),
                wharf_files::SetXattr::Create => XattrFlags::CREATE,
                wharf_files::SetXattr::Replace => XattrFlags::REPLACE,
            };
            match follow {
                true => rustix::fs::setxattr(&path[..], &name[..], value, flags).map(done),
                false => rustix::fs::lsetxattr(&path[..], &name[..], value, flags).map(done),
            }
        }
        RemoveXattr { path, follow, name } => match follow {
            true => rustix::fs::removexattr(&path[..], &name[..]).map(done),
            false => rustix::fs::lremovexattr(&path[..], &name[..]).map(done),
        },
        Xattrs { path, follow } => {
            let names = xattr_names(path, *follow)?;
            Ok(sorted(names.into_iter().map(|name| (name, None)).collect()))
        }
        other => unreachable!("{other:?} is done elsewhere"),
    }
}

/// All that can be seen from `/` or, where that is not ours, from the working directory.
pub fn view(root: &[u8]) -> Result<View, Errno> {
    let mut view = View::default();
    let mut first_paths: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut todo = vec![(b"/".to_vec(), root.to_vec())];
    while let Some((path, real)) = todo.pop() {
        let stat = rustix::fs::statat(CWD, &real[..], AtFlags::SYMLINK_NOFOLLOW)?;
        let look = look_of(&stat);
        let first_path = first_paths
            .entry(stat.st_ino)
            .or_insert(path.clone())
            .clone();
        let mut entries = 0;
        if look.kind == Kind::Directory {
            let mut below = names(&real)?;
            entries = below.len() as u64;
            below.sort_by(|a, b| b.cmp(a));
            for (name, _) in below {
                let join = |to: &[u8]| match to.ends_with(b"/") {
                    true => [to, &name].concat(),
                    false => [to, b"/", &name].concat(),
                };
                todo.push((join(&path), join(&real)));
            }
        }
        let mut xattrs = BTreeMap::new();
        for name in xattr_names(&real, false)? {
            let value = xattr(&real, false, &name)?;
            xattrs.insert(name, value);
        }
        let seen = Seen {
            look,
            times_ns: (0, 0),
            first_path,
            entries,
            target: match look.kind {
                Kind::Symlink => rustix::fs::readlinkat(CWD, &real[..], Vec::new())?.into_bytes(),
                _ => Vec::new(),
            },
            xattrs,
            pages: match look.kind {
                Kind::File => pages(&real)?,
                _ => PagesSeen::new(),
            },
            number: stat.st_ino,
        };
        view.0.insert(path, seen);
    }
    Ok(view)
}

/// The pages of a file that are data.
fn pages(path: &[u8]) -> Result<PagesSeen, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    let (mut pages, mut at) = (PagesSeen::new(), 0);
    loop {
        at = match rustix::fs::seek(&file, SeekFrom::Data(at)) {
            Ok(first) => first,
            Err(Errno::NXIO) => return Ok(pages),
            Err(errno) => return Err(errno),
        };
        let end = rustix::fs::seek(&file, SeekFrom::Hole(at))?;
        while at < end {
            let mut bytes = vec![0; 4096];
            let read = rustix::io::pread(&file, &mut bytes, at)?;
            bytes.truncate(read);
            pages.insert(at / 4096, bytes);
            at = (at / 4096 + 1) * 4096;
        }
    }
}
