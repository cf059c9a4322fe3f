//! One who uses a file system: who it is, its limits, and what it has open.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

use wharf_runtime::Op;

use crate::arguments::By;
use crate::caller::Caller;
use crate::cost::work;
use crate::errno::{Errno, FileError};
use crate::file_system::FileSystem;
use crate::flags::{Handle, OpenFlags};
use crate::handles::HandleTable;

/// How often an operation looks again when what it saw has changed meanwhile, before it gives up
/// (`ESTALE`): others went on each time.
const LOOKS_MAX: u32 = 64;

/// An open file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenFile {
    pub(super) number: u64,
    pub(super) is_directory: bool,
    pub(super) flags: OpenFlags,
    /// Who opened it: what is done by the handle is done as this one.
    pub(super) caller: Rc<Caller>,
    /// The limit of who opened it.
    pub(super) file_bytes_max: u64,
}

impl OpenFile {
    /// Who makes a change by this handle now.
    pub(super) fn by(&self, now_ns: u64) -> By<'_> {
        By {
            caller: &self.caller,
            now_ns,
        }
    }
}

type Handles = Rc<RefCell<HandleTable<Rc<OpenFile>>>>;

/// What somebody may use at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Open files.
    pub handles: usize,
    /// Bytes of a file that it makes longer (`RLIMIT_FSIZE`).
    pub file_bytes: u64,
    /// Whether only owners, and who may read and write a file, give it one more name
    /// (`fs.protected_hardlinks` of Linux).
    pub protects_hard_links: bool,
    /// The generation of the first handles: a random number makes them hard to guess.
    pub first_generation: u32,
}

impl Default for SessionLimits {
    fn default() -> SessionLimits {
        SessionLimits {
            handles: 1 << 20,
            file_bytes: u64::MAX,
            protects_hard_links: false,
            first_generation: 0,
        }
    }
}

/// One who uses the file system that `P` points to. See [the module](super).
pub struct Session<P> {
    pub(super) fs: P,
    pub(super) caller: Rc<Caller>,
    pub(super) file_bytes_max: u64,
    pub(super) protects_hard_links: bool,
    /// See [`Session::with_links_leaving`].
    pub(super) links_leave: bool,
    pub(super) handles: Handles,
}

impl<P: Deref<Target: FileSystem>> Session<P> {
    /// Nothing is open.
    pub fn new(fs: P, caller: Caller, limits: SessionLimits) -> Session<P> {
        Session {
            fs,
            caller: Rc::new(caller),
            file_bytes_max: limits.file_bytes,
            protects_hard_links: limits.protects_hard_links,
            links_leave: false,
            handles: Rc::new(RefCell::new(HandleTable::new(
                limits.handles,
                limits.first_generation,
            ))),
        }
    }

    /// The same open files, for what another caller does, whose files grow to `file_bytes_max` at
    /// most: whoever speaks for many has one session, and names the caller with each request.
    pub fn as_caller(&self, caller: Caller, file_bytes_max: u64) -> Session<P>
    where
        P: Clone,
    {
        Session {
            fs: self.fs.clone(),
            caller: Rc::new(caller),
            file_bytes_max,
            protects_hard_links: self.protects_hard_links,
            links_leave: self.links_leave,
            handles: self.handles.clone(),
        }
    }

    /// The same, where symbolic links to absolute paths, and `..` in the root, lead out of the file system (`EREMOTE`) if
    /// `leave`, and to its root if not: for whoever has it at a place among other files.
    #[must_use]
    pub fn with_links_leaving(self, leave: bool) -> Session<P> {
        Session {
            links_leave: leave,
            ..self
        }
    }

    /// Who it is.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The file system.
    pub fn file_system(&self) -> &P::Target {
        &self.fs
    }

    /// What it was made of. What is open stays open there: [`Session::close_all`] before.
    pub fn into_file_system(self) -> P {
        self.fs
    }

    /// Whether a handle is one of an open file.
    pub fn is_open(&self, handle: Handle) -> bool {
        self.handles.borrow().get(handle).is_ok()
    }

    /// What a handle stands for: its number, and how it was opened.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn opened(&self, handle: Handle) -> Result<(u64, OpenFlags), Errno> {
        let open = self.open_file(handle)?;
        Ok((open.number, open.flags))
    }

    /// As whom an open file is written by a handle, and up to which size.
    ///
    /// # Errors
    /// `EBADF`, also if it was not opened for writing.
    pub fn writer(&self, handle: Handle) -> Result<(Rc<Caller>, u64), Errno> {
        let open = self.writable(handle)?;
        Ok((open.caller.clone(), open.file_bytes_max))
    }

    /// How many files are open.
    pub fn handles_count(&self) -> usize {
        self.handles.borrow().count()
    }

    /// Who makes a change now.
    pub(super) fn by(&self, now_ns: u64) -> By<'_> {
        By {
            caller: &self.caller,
            now_ns,
        }
    }

    pub(super) fn open_file(&self, handle: Handle) -> Result<Rc<OpenFile>, Errno> {
        work(Op::HandleLookup, || {
            self.handles.borrow().get(handle).cloned()
        })
    }

    /// Looks and does something; again if what was seen is not so any more when it is done.
    pub(super) async fn again<T>(
        &self,
        f: impl AsyncFn() -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        for _ in 0..LOOKS_MAX {
            match f().await {
                Err(FileError::Errno(Errno::ESTALE)) => {}
                done => return done,
            }
        }
        f().await
    }
}
