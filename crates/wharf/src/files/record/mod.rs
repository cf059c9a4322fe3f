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
//!
//! | file | idea |
//! |---|---|
//! | `names.rs` | what names lead to |
//! | `listing.rs` | what is there at the beginning |
//! | `service.rs` | what is written of each operation |
//! | `kept.rs` | the same of what a process keeps of files |
//! | `gather.rs` | several processes: one trace |
//!
//! Each line is one call of the system: of a process that is killed all that it did is there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, LineWriter, Write};
use std::ops::Deref;
use std::sync::Arc;

use wharf_files::vfs::{At, Service, Start};
use wharf_files::{Attributes, By, Caller, Errno, FileError, Handle, Kind};
use wharf_workload::files::{Existing, FileOp, FileOpKind, FileTraceWriter};

use gather::LEFT_OUT;
pub use gather::gather;
use listing::entries;
use names::{Tree, tidy};

mod gather;
mod kept;
mod listing;
mod names;
mod service;

/// Bytes of the longest line: two names of which each byte is written as three.
const LINE_BYTES_MAX: usize = 32 << 10;

/// Most bytes of an operation of a trace.
const BYTES_MAX: u64 = 1 << 30;

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

/// What is known while it is recorded.
struct State {
    out: FileTraceWriter<LineWriter<Arc<File>>>,
    /// The same file, if what is left out is to be counted by others.
    tells: Option<Arc<File>>,
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

/// A file of its own for what one of several processes asks, of which [`gather`] makes one trace.
pub struct Part(State);

impl Part {
    /// Begins one in a new file. The recording has begun at `begun_ns`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(out: File, begun_ns: u64) -> io::Result<Part> {
        let out = Arc::new(out);
        let mut state = State::new(out.clone(), begun_ns)?;
        state.tells = Some(out);
        Ok(Part(state))
    }
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
    fn new(out: Arc<File>, begun_ns: u64) -> io::Result<State> {
        let lines = LineWriter::with_capacity(LINE_BYTES_MAX, out);
        Ok(State {
            out: FileTraceWriter::new(lines)?,
            tells: None,
            failed: None,
            summary: Summary::default(),
            tree: Tree::default(),
            open: BTreeMap::new(),
            counts: BTreeMap::new(),
            begun_ns,
            now_ns: begun_ns,
        })
    }

    /// Something that traces have no word for.
    fn leave_out(&mut self) {
        self.summary.left_out += 1;
        if let Some(mut file) = self.tells.as_deref() {
            // Between lines, so nothing is kept back before it.
            let told = file.write_all(LEFT_OUT.as_bytes());
            self.failed = self.failed.take().or(told.err());
        }
    }

    fn write(&mut self, process: u32, kind: FileOpKind, path: &str, more: FileOp, other: &str) {
        if self.failed.is_some() {
            return;
        }
        if more.bytes > BYTES_MAX {
            return self.leave_out();
        }
        let op = FileOp {
            time_ns: self.now_ns.saturating_sub(self.begun_ns),
            thread: process,
            kind,
            ..more
        };
        match self.out.operation(&op, path, other) {
            Ok(true) => self.summary.operations += 1,
            Ok(false) => self.leave_out(),
            Err(error) => self.failed = Some(error),
        }
    }

    /// What is there at the beginning.
    async fn list<S: Service>(&mut self, inner: &S, by: By<'_>) -> io::Result<()> {
        let root = inner.root();
        self.tree.learn(root, "/");
        let mut folders = vec![(root, String::new())];
        while let Some((number, path)) = folders.pop() {
            let listed = match entries(inner, by, number).await {
                Err(error) if error.errno() == Errno::EACCES => {
                    self.leave_out();
                    continue;
                }
                listed => listed.map_err(super::system)?,
            };
            for (entry, attributes) in listed {
                let Ok(name) = std::str::from_utf8(&entry.name) else {
                    continue;
                };
                let path = format!("{path}/{name}");
                let existing = match entry.kind {
                    Kind::Directory => Existing::Directory,
                    Kind::File => Existing::File(attributes.bytes),
                    _ => continue,
                };
                self.out.existing(&path, existing)?;
                self.tree.learn(entry.number, &path);
                if entry.kind == Kind::Directory {
                    folders.push((entry.number, path));
                }
            }
        }
        Ok(())
    }

    /// The path of what is asked for; nothing if it has none that is known.
    fn path(&self, at: At<'_>) -> Option<String> {
        let name = std::str::from_utf8(at.path).ok()?;
        let from = match at.from {
            Start::Root => "",
            Start::Number(number) => self.tree.name(number)?,
            Start::Handle(handle) => &self.open.get(&handle)?.path,
        };
        Some(tidy(from, name))
    }
}

/// What is not recorded is asked below.
impl<S> Deref for Recorded<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.inner
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

    /// Records to a new file what is asked from now on, `process` says by whom. What is there at the beginning is what `caller` may see.
    ///
    /// # Errors
    /// If the file cannot be made or written, or what is there cannot be listed.
    pub async fn new(
        inner: S,
        out: File,
        now_ns: u64,
        process: fn() -> u32,
        caller: &Caller,
    ) -> io::Result<Recorded<S>> {
        let mut state = State::new(Arc::new(out), now_ns)?;
        state.list(&inner, By { caller, now_ns }).await?;
        Ok(Recorded {
            inner,
            state: Some(RefCell::new(state)),
            process,
        })
    }

    /// Records what one of several processes asks, `process` says which thread.
    pub fn part(inner: S, part: Part, process: fn() -> u32) -> Recorded<S> {
        Recorded {
            inner,
            state: Some(RefCell::new(part.0)),
            process,
        }
    }

    /// What is below; what it is asked is not recorded.
    pub fn into_inner(self) -> S {
        self.inner
    }

    /// A number has this path, as somebody else has found.
    pub fn has_name(&self, number: u64, path: &[u8]) {
        self.note(None, |state, _| {
            if let Ok(path) = std::str::from_utf8(path) {
                state.tree.learn(number, &tidy("", path));
            }
        });
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
            state.now_ns = now_ns.unwrap_or_else(super::now_ns).max(state.now_ns);
            note(&mut state, (self.process)());
        }
    }

    fn left_out(&self) {
        self.note(None, |state, _| state.leave_out());
    }

    /// An operation by one name.
    fn named(&self, now_ns: u64, kind: FileOpKind, at: At<'_>, more: FileOp) {
        self.note(Some(now_ns), |state, process| match state.path(at) {
            Some(path) => state.write(process, kind, &path, more, ""),
            None => state.leave_out(),
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
            _ => state.leave_out(),
        });
    }
}
