//! Recording what a file system is asked, as a trace of operations on files (`docs/traces.md`).
//!
//! A [`Recorded`] stands between a front end and its [`Service`], and writes a line for each operation that a trace can have, with its
//! time and the process that asked. So what the kernel answers from its own memory is not in the trace.
//!
//! 1. What is there at the beginning comes first: all directories and files, with their sizes.
//! 2. An operation by name is written whatever its answer is; one that moves bytes with the bytes that it moved.
//! 3. An open file keeps the process and the name that it was opened by: a trace has one open file for a thread and name, so of several
//!    at once the first opening and the last closing are written.
//! 4. What traces have no word for (permissions, owners, times, extended attributes, special files, storage, directories that are made
//!    durable, names that are no UTF-8) is left out, and counted.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};

use wharf_files::vfs::{Access, At, Opened, Service, SetTime, Start, Target};
use wharf_files::{
    Allocate, Attributes, By, Caller, DirectoryEntry, FileError, Handle, Kind, LIST_START,
    OpenFlags, Place, Rename, Seek, SetXattr, Special, StatFs, Sync, Written,
};
use wharf_workload::files::{Existing, FileOp, FileOpKind, FileTraceWriter, OpenHow};

/// Entries that are asked for at once where all that is there is listed.
const ENTRIES: usize = 256;

/// What was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Operations that were written.
    pub operations: u64,
    /// Operations that a trace has no word for.
    pub left_out: u64,
}

/// An open file.
#[derive(Debug, Clone)]
struct Open {
    /// The process that opened it, and the name by which it did.
    process: u32,
    path: String,
    is_directory: bool,
    appends: bool,
}

/// The names that were seen, and what each leads to.
#[derive(Default)]
struct Tree {
    /// Of each number, the newest last.
    names: BTreeMap<u64, Vec<String>>,
    numbers: BTreeMap<String, u64>,
}

impl Tree {
    fn name(&self, number: u64) -> Option<&str> {
        self.names.get(&number)?.last().map(String::as_str)
    }

    fn learn(&mut self, number: u64, path: &str) {
        if self.numbers.get(path) != Some(&number) {
            self.forget(path);
            self.numbers.insert(path.into(), number);
            self.names.entry(number).or_default().push(path.into());
        }
    }

    fn forget(&mut self, path: &str) {
        let Some(number) = self.numbers.remove(path) else {
            return;
        };
        let names = self.names.get_mut(&number).expect("it has this name");
        names.retain(|name| name != path);
        if names.is_empty() {
            self.names.remove(&number);
        }
    }

    /// What was moved has another name, and so has all that is below it.
    fn moved(&mut self, from: &str, to: &str) {
        if from == to {
            return;
        }
        self.forget(to);
        let from_here = self.numbers.range(from.to_string()..);
        let moved = from_here.take_while(|(path, _)| path.starts_with(from));
        let moved: Vec<(String, u64)> = moved
            .filter(|(path, _)| matches!(path.as_bytes().get(from.len()), None | Some(b'/')))
            .map(|(path, number)| (path.clone(), *number))
            .collect();
        for (path, number) in moved {
            self.forget(&path);
            self.learn(number, &format!("{to}{}", &path[from.len()..]));
        }
    }
}

/// What is known while it is recorded.
struct State {
    out: FileTraceWriter<BufWriter<File>>,
    /// The first error of the trace's file: nothing is written from then on.
    failed: Option<io::Error>,
    summary: Summary,
    tree: Tree,
    open: BTreeMap<Handle, Open>,
    /// How often a process has a name open.
    counts: BTreeMap<(u32, String), u32>,
    begun_ns: u64,
    now_ns: u64,
}

/// See the module.
pub struct Recorded<S> {
    inner: S,
    /// Nothing where nothing is recorded.
    state: Option<RefCell<State>>,
    /// The process that asks now.
    process: fn() -> u32,
}

impl State {
    fn write(&mut self, process: u32, kind: FileOpKind, path: &str, more: FileOp, other: &str) {
        if self.failed.is_some() {
            return;
        }
        let op = FileOp {
            time_ns: self.now_ns.saturating_sub(self.begun_ns),
            thread: process,
            kind,
            ..more
        };
        match self.out.operation(&op, path, other) {
            Ok(true) => self.summary.operations += 1,
            Ok(false) => self.summary.left_out += 1,
            Err(error) => self.failed = Some(error),
        }
    }

    /// The path of what is asked for; nothing if it has none that is known.
    fn path(&self, at: At<'_>) -> Option<String> {
        let name = std::str::from_utf8(at.path).ok()?;
        let from = match at.from {
            Start::Root => "",
            Start::Number(number) => self.tree.name(number)?,
            Start::Handle(handle) => &self.open.get(&handle)?.path,
        };
        let name = name.trim_matches('/');
        match (from.trim_end_matches('/'), name) {
            ("", "") => Some("/".into()),
            (from, "") => Some(from.into()),
            (from, name) => Some(format!("{from}/{name}")),
        }
    }
}

impl<S: Service> Recorded<S> {
    /// Records nothing.
    pub fn nothing(inner: S) -> Recorded<S> {
        Recorded {
            inner,
            state: None,
            process: || 0,
        }
    }

    /// Records to a new file what is asked from now on, `process` says by whom.
    ///
    /// # Errors
    /// If the file cannot be made or written, or what is there cannot be listed.
    pub async fn new(
        inner: S,
        out: File,
        now_ns: u64,
        process: fn() -> u32,
    ) -> io::Result<Recorded<S>> {
        let root = inner.root();
        let mut state = State {
            out: FileTraceWriter::new(BufWriter::new(out))?,
            failed: None,
            summary: Summary::default(),
            tree: Tree::default(),
            open: BTreeMap::new(),
            counts: BTreeMap::new(),
            begun_ns: now_ns,
            now_ns,
        };
        state.tree.learn(root, "/");
        let by = &Caller::root();
        let by = By { caller: by, now_ns };
        let mut folders = vec![(root, String::new())];
        while let Some((number, path)) = folders.pop() {
            let listed = entries(&inner, by, number).await;
            for (entry, attributes) in listed.map_err(super::system)? {
                let Ok(name) = std::str::from_utf8(&entry.name) else {
                    continue;
                };
                let path = format!("{path}/{name}");
                let existing = match entry.kind {
                    Kind::Directory => Existing::Directory,
                    Kind::File => Existing::File(attributes.bytes),
                    _ => continue,
                };
                state.out.existing(&path, existing)?;
                state.tree.learn(entry.number, &path);
                if entry.kind == Kind::Directory {
                    folders.push((entry.number, path));
                }
            }
        }
        Ok(Recorded {
            inner,
            state: Some(RefCell::new(state)),
            process,
        })
    }

    /// Ends the recording, and gives back what was recorded and what is below.
    ///
    /// # Errors
    /// Of the trace's file, in the second of the pair.
    pub fn end(self) -> (S, io::Result<Summary>) {
        let Some(state) = self.state else {
            return (self.inner, Ok(Summary::default()));
        };
        let state = state.into_inner();
        let ended = match state.failed {
            Some(error) => Err(error),
            None => state.out.finish().map(|()| state.summary),
        };
        (self.inner, ended)
    }

    fn note(&self, now_ns: Option<u64>, note: impl FnOnce(&mut State, u32)) {
        if let Some(state) = &self.state {
            let mut state = state.borrow_mut();
            state.now_ns = now_ns.unwrap_or(state.now_ns).max(state.now_ns);
            note(&mut state, (self.process)());
        }
    }

    fn left_out(&self) {
        self.note(None, |state, _| state.summary.left_out += 1);
    }

    /// An operation by one name.
    fn named(&self, now_ns: u64, kind: FileOpKind, at: At<'_>, more: FileOp) {
        self.note(Some(now_ns), |state, process| match state.path(at) {
            Some(path) => state.write(process, kind, &path, more, ""),
            None => state.summary.left_out += 1,
        });
    }

    /// Something has a number, and a name.
    fn learn(&self, at: At<'_>, found: &Result<Attributes, FileError>) {
        if let Ok(found) = found {
            self.note(None, |state, _| {
                if let Some(path) = state.path(at) {
                    state.tree.learn(found.number, &path);
                }
            });
        }
    }

    /// A name is no more.
    fn forget(&self, at: At<'_>, done: &Result<(), FileError>) {
        if done.is_ok() {
            self.note(None, |state, _| {
                if let Some(path) = state.path(at) {
                    state.tree.forget(&path);
                }
            });
        }
    }

    /// An operation on an open file.
    fn opened(&self, now_ns: Option<u64>, kind: FileOpKind, handle: Handle, more: FileOp) {
        self.note(now_ns, |state, _| match state.open.get(&handle).cloned() {
            Some(open) if !open.is_directory => {
                state.write(open.process, kind, &open.path, more, "");
            }
            _ => state.summary.left_out += 1,
        });
    }
}

/// All entries of a directory, with the attributes of each.
async fn entries<S: Service>(
    inner: &S,
    by: By<'_>,
    directory: u64,
) -> Result<Vec<(DirectoryEntry, Attributes)>, FileError> {
    let opened = inner
        .open(by, At::number(directory), OpenFlags::DIRECTORY, 0)
        .await?;
    let (mut listed, mut cookie) = (Vec::new(), LIST_START);
    loop {
        let is_last = inner
            .list(opened.handle, cookie, ENTRIES, &mut listed)
            .await?;
        match listed.last() {
            Some(last) if !is_last => cookie = last.cookie,
            _ => break,
        }
    }
    inner.close(opened.handle).await?;
    let mut found = Vec::with_capacity(listed.len());
    for entry in listed {
        let target = Target::Path(At::number(entry.number), false);
        let attributes = inner.stat(by, target).await?;
        found.push((entry, attributes));
    }
    Ok(found)
}

/// A range of bytes.
fn range(offset: u64, bytes: u64) -> FileOp {
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

impl<S: Service> Service for Recorded<S> {
    fn root(&self) -> u64 {
        self.inner.root()
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
                state.summary.left_out += 1;
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
                _ => state.summary.left_out += 1,
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
            None => state.summary.left_out += 1,
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
                state.summary.left_out += 1;
                if how == Rename::NoReplace {
                    state.tree.moved(from, to);
                }
            }
            _ => state.summary.left_out += 1,
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
            let appends = |state: &RefCell<State>| {
                let state = state.borrow();
                state.open.get(&handle).is_some_and(|open| open.appends)
            };
            let is_append = place == Place::End || self.state.as_ref().is_some_and(appends);
            let kind = match is_append {
                true => FileOpKind::Append,
                false => FileOpKind::Write,
            };
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
