//! Opening a file or a block device: that it is one, and which.
//!
//! Problem: a path is looked up anew whenever it is used, and may lead to another file the next
//! time. What is asked of a path before or after it was opened may be the answer of that other
//! file.
//!
//! Idea: a path is opened once. All else is asked of that descriptor, and more descriptors of the
//! same file come by way of it.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::error::StorageError;
use crate::file::{FileOptions, FileTarget};
use crate::target::Target;

/// How often a file that is made and removed by others is looked for.
const TRIES_MAX: u32 = 100;

/// Which file or device it is, by whatever path. While it is open no other has the same identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileId {
    /// A file.
    File {
        /// The device of its file system.
        device: u64,
        /// Its number there.
        inode: u64,
    },
    /// A block device, whichever of its nodes was opened.
    Device {
        /// Its number.
        number: u64,
    },
}

impl FileId {
    fn of(kind: &Metadata) -> FileId {
        match kind.file_type().is_block_device() {
            true => FileId::Device {
                number: kind.rdev(),
            },
            false => FileId::File {
                device: kind.dev(),
                inode: kind.ino(),
            },
        }
    }
}

/// A file or device that has been opened, and becomes a [`Target`] if that is wanted.
#[derive(Debug)]
pub struct Opened {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) kind: Metadata,
    pub(crate) options: FileOptions,
}

impl Opened {
    /// Opens a file or a block device. Anything else is refused without waiting for it.
    ///
    /// # Errors
    /// If it cannot be opened, or is of another kind.
    pub fn new(path: &Path, options: &FileOptions) -> Result<Opened, StorageError> {
        // Opening some kinds of files has effects: those are not even opened, if they can be told
        // by now.
        if std::fs::metadata(path).is_ok_and(|kind| !is_storage(&kind)) {
            return Err(StorageError::Kind(path.to_path_buf()));
        }
        let file = open_or_create(path, options)?;
        let kind = file.metadata().map_err(failed(path, "ask for its kind"))?;
        if !is_storage(&kind) {
            return Err(StorageError::Kind(path.to_path_buf()));
        }
        // Opening must not wait; I/Os may.
        fcntl_getfl(&file)
            .and_then(|flags| fcntl_setfl(&file, flags - OFlags::NONBLOCK))
            .map_err(|errno| failed(path, "open it")(errno.into()))?;
        Ok(Opened {
            path: path.to_path_buf(),
            file,
            kind,
            options: options.clone(),
        })
    }

    /// Which file or device it is.
    pub fn id(&self) -> FileId {
        FileId::of(&self.kind)
    }

    /// Whether it is a device, whose size is fixed.
    pub fn is_device(&self) -> bool {
        self.kind.file_type().is_block_device()
    }

    /// It as storage.
    ///
    /// # Errors
    /// If somebody else has it, or the engine that was asked for is not to be had.
    pub fn target(self) -> Result<Arc<dyn Target>, StorageError> {
        Ok(Arc::new(FileTarget::new(self)?))
    }

    /// Another descriptor of the same file.
    pub(crate) fn again(&self, flags: i32) -> io::Result<File> {
        let how = opening(&self.options, flags);
        let by_descriptor = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = match how.open(by_descriptor) {
            // There is no /proc: the path may still be the same file's.
            Err(error) if error.kind() == ErrorKind::NotFound => how.open(&self.path)?,
            other => other?,
        };
        match FileId::of(&file.metadata()?) == self.id() {
            true => Ok(file),
            false => Err(io::Error::other("another file has taken its place")),
        }
    }

    /// The lock that [`FileOptions::exclusive`] asks for.
    pub(crate) fn lock(&self) -> Result<Option<Lock>, StorageError> {
        if !self.options.exclusive {
            return Ok(None);
        }
        let file = self.again(0).map_err(failed(&self.path, "open it"))?;
        Lock::take(file, &self.path).map(Some)
    }
}

/// An error of the system about `path`.
pub(crate) fn failed(
    path: &Path,
    doing: &'static str,
) -> impl FnOnce(io::Error) -> StorageError + use<> {
    let path = path.to_path_buf();
    move |source| StorageError::File {
        path,
        doing,
        source,
    }
}

fn is_storage(kind: &Metadata) -> bool {
    kind.is_file() || kind.file_type().is_block_device()
}

fn opening(options: &FileOptions, flags: i32) -> OpenOptions {
    let mut how = OpenOptions::new();
    how.read(true).write(!options.read_only).custom_flags(flags);
    how
}

/// Opens what is there, or makes it, without waiting for whoever has the other end of it.
fn open_or_create(path: &Path, options: &FileOptions) -> Result<File, StorageError> {
    for _ in 0..TRIES_MAX {
        let there = match options.must_be_new {
            true => Err(ErrorKind::NotFound.into()),
            false => opening(options, libc::O_NONBLOCK).open(path),
        };
        let bytes = match (&there, options.create_bytes) {
            (Err(error), Some(bytes)) if error.kind() == ErrorKind::NotFound => bytes,
            _ => return there.map_err(failed(path, "open it")),
        };
        let made = opening(options, 0).write(true).create_new(true).open(path);
        match made {
            // Others have made it meanwhile, or the path is a link to nothing.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && !options.must_be_new => {}
            Err(error) => return Err(failed(path, "create it")(error)),
            Ok(file) => {
                file.set_len(bytes).map_err(failed(path, "set its size"))?;
                return Ok(file);
            }
        }
    }
    Err(failed(path, "create it")(ErrorKind::AlreadyExists.into()))
}

/// That nobody else opens a file or device with [`FileOptions::exclusive`].
///
/// It is on a descriptor of its own: the kernel ends a ring some time after the ring was closed,
/// and till then the ring keeps the descriptors that it was given, with the locks on them.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    fn take(file: File, path: &Path) -> Result<Lock, StorageError> {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock(file)),
            Err(Errno::WOULDBLOCK) => Err(StorageError::InUse(path.to_path_buf())),
            Err(errno) => Err(failed(path, "lock it")(errno.into())),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Not left to closing: a process that another thread is starting has the descriptor too,
        // until it runs its own program. A lock that is held can be given up, so there is no error.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}
