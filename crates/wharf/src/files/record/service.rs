//! Each operation: what is written of it, and that it is done.

use std::cell::RefCell;

use wharf_files::vfs::{Access, At, Opened, Service, SetTime, Target};
use wharf_files::{
    Allocate, Attributes, By, DirectoryEntry, FileError, Handle, Kind, LIST_START, OpenFlags,
    Place, Rename, Seek, SetXattr, Special, StatFs, Sync, Written,
};
use wharf_workload::files::{FileOp, FileOpKind, OpenHow};

use super::{Open, Recorded, State};

impl<S: Service> Service for Recorded<S> {
    fn root(&self) -> u64 {
        self.inner.root()
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    async fn stat(&self, by: By<'_>, target: Target<'_>) -> Result<Attributes, FileError> {
        let found = self.inner.stat(by, target).await;
        // What is asked for by number is what the kernel knows already.
        if let Target::Path(at, _) = target
            && !at.path.is_empty()
        {
            self.named(by.now_ns, FileOpKind::Stat, at, plain());
            self.learn(at, &found);
        }
        found
    }

    async fn access(
        &self,
        by: By<'_>,
        target: Target<'_>,
        access: Access,
    ) -> Result<(), FileError> {
        self.inner.access(by, target, access).await
    }

    async fn open(
        &self,
        by: By<'_>,
        at: At<'_>,
        flags: OpenFlags,
        mode: u16,
    ) -> Result<Opened, FileError> {
        let opened = self.inner.open(by, at, flags, mode).await;
        self.note(Some(by.now_ns), |state, process| {
            let Some(path) = state.path(at) else {
                state.leave_out();
                return;
            };
            let more = FileOp {
                how: how(flags),
                ..plain()
            };
            let Ok(opened) = &opened else {
                if !flags.directory {
                    state.write(process, FileOpKind::Open, &path, more, "");
                }
                return;
            };
            state.tree.learn(opened.attributes.number, &path);
            let is_directory = opened.attributes.kind == Kind::Directory;
            if !is_directory {
                let count = state.counts.entry((process, path.clone())).or_default();
                *count += 1;
                match *count {
                    1 => state.write(process, FileOpKind::Open, &path, more, ""),
                    _ if flags.truncate => {
                        state.write(process, FileOpKind::Truncate, &path, plain(), "");
                    }
                    _ => {}
                }
            }
            let open = Open {
                process,
                path,
                is_directory,
                appends: flags.append,
            };
            state.open.insert(opened.handle, open);
        });
        opened
    }

    async fn truncate(&self, by: By<'_>, at: At<'_>, bytes: u64) -> Result<(), FileError> {
        let done = self.inner.truncate(by, at, bytes).await;
        if done.is_ok() {
            self.named(by.now_ns, FileOpKind::Truncate, at, range(bytes, 0));
        }
        done
    }

    async fn mkdir(&self, by: By<'_>, at: At<'_>, mode: u16) -> Result<Attributes, FileError> {
        let made = self.inner.mkdir(by, at, mode).await;
        self.named(by.now_ns, FileOpKind::Mkdir, at, plain());
        self.learn(at, &made);
        made
    }

    async fn mknod(
        &self,
        by: By<'_>,
        at: At<'_>,
        special: Special,
        device: u32,
        mode: u16,
    ) -> Result<Attributes, FileError> {
        self.left_out();
        self.inner.mknod(by, at, special, device, mode).await
    }

    async fn symlink(
        &self,
        by: By<'_>,
        target: &[u8],
        at: At<'_>,
    ) -> Result<Attributes, FileError> {
        let made = self.inner.symlink(by, target, at).await;
        self.note(Some(by.now_ns), |state, process| {
            let path = state.path(at);
            // Traces have absolute names alone: what a relative link leads to begins where the link is.
            let target = path.as_deref().and_then(|path| {
                let target = std::str::from_utf8(target).ok()?;
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                Some(match target.starts_with('/') {
                    true => target.to_string(),
                    false => format!("{folder}/{target}"),
                })
            });
            match (path, target) {
                (Some(path), Some(target)) => {
                    state.write(process, FileOpKind::Symlink, &path, plain(), &target);
                }
                _ => state.leave_out(),
            }
        });
        self.learn(at, &made);
        made
    }

    async fn link(
        &self,
        by: By<'_>,
        from: At<'_>,
        to: At<'_>,
        follow: bool,
    ) -> Result<Attributes, FileError> {
        let names = self.two_names(from, to);
        let made = self.inner.link(by, from, to, follow).await;
        self.note(Some(by.now_ns), |state, process| match &names {
            Some((from, to)) => state.write(process, FileOpKind::Link, from, plain(), to),
            None => state.leave_out(),
        });
        self.learn(to, &made);
        made
    }

    async fn unlink(&self, by: By<'_>, at: At<'_>) -> Result<(), FileError> {
        let done = self.inner.unlink(by, at).await;
        self.named(by.now_ns, FileOpKind::Remove, at, plain());
        self.forget(at, &done);
        done
    }

    async fn rmdir(&self, by: By<'_>, at: At<'_>) -> Result<(), FileError> {
        let done = self.inner.rmdir(by, at).await;
        self.named(by.now_ns, FileOpKind::Rmdir, at, plain());
        self.forget(at, &done);
        done
    }

    async fn rename(
        &self,
        by: By<'_>,
        from: At<'_>,
        to: At<'_>,
        how: Rename,
    ) -> Result<(), FileError> {
        let names = self.two_names(from, to);
        let done = self.inner.rename(by, from, to, how).await;
        self.note(Some(by.now_ns), |state, process| match (&names, how) {
            (Some((from, to)), Rename::Replace) => {
                state.write(process, FileOpKind::Rename, from, plain(), to);
                if done.is_ok() {
                    state.tree.moved(from, to);
                }
            }
            (Some((from, to)), _) if done.is_ok() => {
                state.leave_out();
                if how == Rename::NoReplace {
                    state.tree.moved(from, to);
                }
            }
            _ => state.leave_out(),
        });
        done
    }

    async fn read_link(&self, by: By<'_>, at: At<'_>) -> Result<Vec<u8>, FileError> {
        self.left_out();
        self.inner.read_link(by, at).await
    }

    async fn chmod(&self, by: By<'_>, target: Target<'_>, mode: u16) -> Result<(), FileError> {
        self.left_out();
        self.inner.chmod(by, target, mode).await
    }

    async fn chown(
        &self,
        by: By<'_>,
        target: Target<'_>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<(), FileError> {
        self.left_out();
        self.inner.chown(by, target, uid, gid).await
    }

    async fn set_times(
        &self,
        by: By<'_>,
        target: Target<'_>,
        accessed: SetTime,
        modified: SetTime,
    ) -> Result<(), FileError> {
        self.left_out();
        self.inner.set_times(by, target, accessed, modified).await
    }

    async fn xattr(
        &self,
        by: By<'_>,
        target: Target<'_>,
        name: &[u8],
    ) -> Result<Vec<u8>, FileError> {
        self.left_out();
        self.inner.xattr(by, target, name).await
    }

    async fn set_xattr(
        &self,
        by: By<'_>,
        target: Target<'_>,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FileError> {
        self.left_out();
        self.inner.set_xattr(by, target, name, value, how).await
    }

    async fn remove_xattr(
        &self,
        by: By<'_>,
        target: Target<'_>,
        name: &[u8],
    ) -> Result<(), FileError> {
        self.left_out();
        self.inner.remove_xattr(by, target, name).await
    }

    async fn xattrs(&self, by: By<'_>, target: Target<'_>) -> Result<Vec<Box<[u8]>>, FileError> {
        self.left_out();
        self.inner.xattrs(by, target).await
    }

    async fn close(&self, handle: Handle) -> Result<(), FileError> {
        let done = self.inner.close(handle).await;
        self.note(None, |state, _| {
            let Some(open) = state.open.remove(&handle) else {
                return;
            };
            if open.is_directory {
                return;
            }
            let key = (open.process, open.path);
            let left = state.counts.get_mut(&key).map_or(0, |count| {
                *count -= 1;
                *count
            });
            if left == 0 {
                state.counts.remove(&key);
                state.write(key.0, FileOpKind::Close, &key.1, plain(), "");
            }
        });
        done
    }

    async fn read(
        &self,
        now_ns: u64,
        handle: Handle,
        offset: u64,
        out: &mut [u8],
    ) -> Result<u64, FileError> {
        let read = self.inner.read(now_ns, handle, offset, out).await;
        if let Ok(bytes @ 1..) = read {
            self.opened(Some(now_ns), FileOpKind::Read, handle, range(offset, bytes));
        }
        read
    }

    async fn write(
        &self,
        now_ns: u64,
        handle: Handle,
        place: Place,
        data: &[u8],
    ) -> Result<Written, FileError> {
        let written = self.inner.write(now_ns, handle, place, data).await;
        if let Ok(Written {
            offset,
            bytes: bytes @ 1..,
        }) = written
        {
            let state = self.state.as_ref().map(RefCell::borrow);
            let kind = state.map_or(FileOpKind::Write, |state| {
                written_kind(&state, handle, place)
            });
            self.opened(Some(now_ns), kind, handle, range(offset, bytes));
        }
        written
    }

    async fn truncate_open(
        &self,
        now_ns: u64,
        handle: Handle,
        bytes: u64,
    ) -> Result<(), FileError> {
        let done = self.inner.truncate_open(now_ns, handle, bytes).await;
        if done.is_ok() {
            let more = range(bytes, 0);
            self.opened(Some(now_ns), FileOpKind::Truncate, handle, more);
        }
        done
    }

    async fn allocate(
        &self,
        now_ns: u64,
        handle: Handle,
        offset: u64,
        bytes: u64,
        what: Allocate,
    ) -> Result<(), FileError> {
        let done = self
            .inner
            .allocate(now_ns, handle, offset, bytes, what)
            .await;
        match (what, &done) {
            (Allocate::Punch, Ok(())) => {
                let more = range(offset, bytes);
                self.opened(Some(now_ns), FileOpKind::Punch, handle, more);
            }
            _ => self.left_out(),
        }
        done
    }

    async fn seek(&self, handle: Handle, offset: u64, what: Seek) -> Result<u64, FileError> {
        self.left_out();
        self.inner.seek(handle, offset, what).await
    }

    async fn list(
        &self,
        handle: Handle,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError> {
        let listed = self.inner.list(handle, cookie, most, entries).await;
        if cookie == LIST_START && listed.is_ok() {
            self.note(None, |state, _| {
                if let Some(open) = state.open.get(&handle).cloned() {
                    state.write(open.process, FileOpKind::List, &open.path, plain(), "");
                }
            });
        }
        listed
    }

    async fn sync(&self, handle: Handle, what: Sync) -> Result<(), FileError> {
        let done = self.inner.sync(handle, what).await;
        let kind = match what {
            Sync::All => FileOpKind::Fsync,
            Sync::Data => FileOpKind::Fdatasync,
        };
        self.opened(None, kind, handle, plain());
        done
    }

    async fn sync_all(&self) -> Result<(), FileError> {
        self.left_out();
        self.inner.sync_all().await
    }

    async fn stat_fs(&self) -> Result<StatFs, FileError> {
        self.inner.stat_fs().await
    }
}

impl<S: Service> Recorded<S> {
    /// Two names, as they are before one of them changes.
    fn two_names(&self, from: At<'_>, to: At<'_>) -> Option<(String, String)> {
        let state = self.state.as_ref()?.borrow();
        state.path(from).zip(state.path(to))
    }
}

/// What a write is: one at the end, wherever that is, or at a place.
pub(super) fn written_kind(state: &State, handle: Handle, place: Place) -> FileOpKind {
    let appends = || state.open.get(&handle).is_some_and(|open| open.appends);
    match place == Place::End || appends() {
        true => FileOpKind::Append,
        false => FileOpKind::Write,
    }
}

/// A range of bytes.
pub(super) fn range(offset: u64, bytes: u64) -> FileOp {
    FileOp {
        offset,
        bytes,
        ..FileOp::new(0, FileOpKind::Read, 0)
    }
}

/// Nothing but a name.
fn plain() -> FileOp {
    range(0, 0)
}

fn how(flags: OpenFlags) -> OpenHow {
    let pairs = [
        (flags.create, OpenHow::CREATE),
        (flags.create && flags.exclusive, OpenHow::EXCLUSIVE),
        (flags.truncate, OpenHow::TRUNCATE),
    ];
    let given = pairs.into_iter().filter(|(is_given, _)| *is_given);
    given.fold(OpenHow::EXISTING, |how, (_, flag)| how.and(flag))
}
