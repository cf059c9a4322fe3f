//! What the kernel may remember of names and attributes.
//!
//! A mount has its file system for itself, so what the kernel remembers is right: it hears of each
//! change first. But along names that it remembers it walks without asking, and nobody looks
//! whether the caller may go through the directory. So a name is remembered where that makes no
//! difference:
//!
//! * where only root comes, who may go through every directory;
//! * in directories that everybody may go through.
//!
//! If such a directory is closed to somebody, or something is moved from one into one that is not
//! open to all, the kernel forgets all names before that is answered: one number tells it which of
//! them are from before (`FUSE_NOTIFY_INC_EPOCH`, Linux 6.16). Where it cannot do that, it
//! remembers names for root alone.
//!
//! Where others change the file system too, by other ways than this mount, nothing is remembered, and the kernel keeps nothing of
//! files' bytes (`FOPEN_DIRECT_IO`) but for mappings, which show what a file had when it was mapped, or later.
//!
//! Attributes let nobody in: what is opened or changed is asked for in any case. Those of files
//! with set-user-id and set-group-id bits are not remembered, as a write takes the bits away.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use wharf_files::{Attributes, FileError, SET_GID, SET_UID};

/// Long enough to be for ever.
const ALWAYS: Duration = Duration::from_secs(1 << 24);

/// The right to go through a directory, of its owner, its group and all others.
const OPEN_TO_ALL: u16 = 0o111;

/// Directories of which it is kept whether they are open to all. One more, and all begins anew.
const DIRECTORIES_MAX: usize = 1 << 16;

/// The code of the message to the kernel that makes it forget all names.
const INC_EPOCH: i32 = 8;

/// Where messages to the kernel go, once it is mounted: nowhere if it does not understand them.
pub type Kernel = Arc<OnceLock<Option<OwnedFd>>>;

/// Makes the kernel forget all names.
///
/// # Errors
/// `EINVAL` of kernels that cannot.
pub fn forget_names(kernel: &OwnedFd) -> io::Result<()> {
    // The header of a message: its length, its code, and no request that it answers.
    let mut message = [0; 16];
    message[..4].copy_from_slice(&16_u32.to_ne_bytes());
    message[4..8].copy_from_slice(&INC_EPOCH.to_ne_bytes());
    rustix::io::write(kernel, &message)?;
    Ok(())
}

/// See the module.
pub struct Memory {
    only_root: bool,
    /// Others change the file system too.
    is_shared: bool,
    kernel: Kernel,
    /// Directories, by whether they are open to all.
    open: RefCell<BTreeMap<u64, bool>>,
}

impl Memory {
    /// Nothing is known. `only_root` says that nobody else comes, `is_shared` that others change the file system too.
    pub fn new(only_root: bool, is_shared: bool, kernel: Kernel) -> Memory {
        Memory {
            only_root,
            is_shared,
            kernel,
            open: RefCell::default(),
        }
    }

    fn kernel(&self) -> Option<&OwnedFd> {
        self.kernel.get().and_then(Option::as_ref)
    }

    /// How long attributes are remembered, which are told now.
    pub fn attributes(&self, told: &Attributes) -> Duration {
        if self.is_shared {
            return Duration::ZERO;
        }
        if told.is_directory() {
            self.learn(told);
        }
        match told.mode & (SET_UID | SET_GID) != 0 && !told.is_directory() {
            true => Duration::ZERO,
            false => ALWAYS,
        }
    }

    /// Keeps whether a directory is open to all. If it was, and is not any more, names are
    /// forgotten.
    fn learn(&self, directory: &Attributes) {
        let is_open = directory.mode & OPEN_TO_ALL == OPEN_TO_ALL;
        let mut open = self.open.borrow_mut();
        let is_full = open.len() >= DIRECTORIES_MAX;
        if is_full {
            open.clear();
        }
        // Of one that is not known no name is remembered.
        let was_open = open.insert(directory.number, is_open) == Some(true);
        if is_full || was_open && !is_open {
            self.forget();
        }
    }

    /// Whether names in a directory may be remembered; `ask` gives its attributes if they are not
    /// known.
    fn remembers(
        &self,
        directory: u64,
        ask: impl FnOnce() -> Result<Attributes, FileError>,
    ) -> bool {
        if self.is_shared {
            return false;
        }
        if self.only_root {
            return true;
        }
        if self.kernel().is_none() {
            return false;
        }
        let known = self.open.borrow().get(&directory).copied();
        known.unwrap_or_else(|| {
            let told = ask();
            told.is_ok_and(|told| {
                self.learn(&told);
                told.mode & OPEN_TO_ALL == OPEN_TO_ALL
            })
        })
    }

    /// How long a name in a directory is remembered.
    pub fn name(
        &self,
        directory: u64,
        ask: impl FnOnce() -> Result<Attributes, FileError>,
    ) -> Duration {
        match self.remembers(directory, ask) {
            true => ALWAYS,
            false => Duration::ZERO,
        }
    }

    /// Something was moved from one directory into another, and what the kernel remembers of its
    /// name with it.
    pub fn moved(
        &self,
        directories: [u64; 2],
        mut ask: impl FnMut(u64) -> Result<Attributes, FileError>,
    ) {
        let [from, to] = directories;
        let mut remembers = |directory| self.remembers(directory, || ask(directory));
        if from != to && remembers(from) != remembers(to) {
            self.forget();
        }
    }

    fn forget(&self) {
        if let (false, Some(kernel)) = (self.only_root, self.kernel()) {
            // It was understood when it was mounted. A mount that is gone has no names.
            let _ = forget_names(kernel);
        }
    }
}
