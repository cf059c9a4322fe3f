//! File systems in drive images, for programs that link them.
//!
//! An image is a drive ([`store`](crate::store)) in a file. On it are a table of partitions and a
//! partition with a file system. The drive itself runs the file system, and this half of Wharf sends it commands
//! for files. [`make`] makes an image, [`Mount`] opens it, with the drive on the thread that opens
//! it, and gives [`File`]s with the traits of `std::io`:
//!
//! ```
//! use std::io::{Read, Write};
//! use wharf::files::{Mount, NewImage, OpenFlags, make};
//!
//! # let place = tempfile::tempdir()?;
//! # let image = place.path().join("drive.img");
//! make(&image, &NewImage::of_bytes(64 << 20))?;
//! let mount = Mount::open(&image)?;
//! let mut file = mount.open_file("/hello", OpenFlags::CREATE, 0o644)?;
//! file.write_all(b"hello")?;
//! file.sync()?;
//! drop(file);
//! let mut text = String::new();
//! mount.open_file("/hello", OpenFlags::READ, 0)?.read_to_string(&mut text)?;
//! assert_eq!(text, "hello");
//! mount.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `image.rs` | making, opening, checking an image |
//! | `drive.rs` | a drive that runs a file system: on this thread, or in another process |
//! | `identity.rs` | who this process is, for a drive in another process |
//! | `keeping.rs` | how much a process keeps of files of a drive in another process, and how |
//! | `cached.rs`, `cache/` | what a process keeps of files of a drive in another process |
//! | `writes.rs` | its writes, which are kept until the drive takes them |
//! | `near.rs` | what it has the drive keep in its own memory |
//! | `server.rs` | a drive that this process serves to others |
//! | `waiting.rs` | waiting for a place there |
//! | `served.rs` | what a front end asks, as commands to the drive |
//! | `pages.rs` | a part of a drive's pages, for whoever checks the file system from outside |
//! | `mount.rs` | a file system that is open, for one user |
//! | `locks.rs` | locks of open files, which all processes see that use the image |
//! | `compute.rs` | functions of bytes of files, which the drive computes, or this process |
//! | `sides.rs` | the same by whichever side is expected to be done first |
//! | `record/` | what a file system is asked, as a trace |
//! | `file.rs` | an open file, with the traits of `std::io` |
//!
//! One process at a time has an image open. [`Server`] serves it to others, which [attach](Mount::attach).
//!
//! Not yet: callers with more than 32 groups, but for one user of a drive in another process.

mod cache;
mod cached;
mod compute;
mod drive;
mod file;
mod identity;
mod image;
mod keeping;
mod locks;
mod mount;
mod near;
mod pages;
mod record;
mod served;
mod server;
mod sides;
mod waiting;
mod writes;

use std::io;

use wharf_files::{FileError, block_on};

use crate::store::StoreError;
pub use crate::store::now_ns;

pub use cache::CacheCounts;
pub use compute::{Answer, Job, Made, What};
pub use drive::FileDrive;
pub use file::File;
pub(crate) use image::is_socket;
pub use image::{Checked, NewImage, check, make, open};
pub use keeping::{Coherence, Keeping, WriteMode};
pub use mount::Mount;
pub use record::{Part, Recorded, Summary, gather};
pub use server::{Server, Serving};
pub use waiting::attach_in_time;
pub use wharf_compute::{Codec, Function, Neighbour, check_program};
pub use wharf_drive::config::TokenCheck;
pub use wharf_files::locks::{LockKind, LockRange, LockSpace};
pub use wharf_files::volume::Format;
pub use wharf_files::{
    Attributes, Caller, DirectoryEntry, Errno, Kind, OpenFlags, Rename, Special, StatFs, Written,
};
pub use wharf_host::stor::{Computed, HeldLock, LockRequest, Source, StepResult, Target, Vector};
pub use wharf_wire::file::{VectorCodec, VectorFunction};

/// Why an image cannot be made, opened, checked or closed.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The drive.
    #[error(transparent)]
    Drive(#[from] StoreError),
    /// The table of partitions, in the drive's words.
    #[error("{0}: make a file system with `wharf fs make`")]
    Table(String),
    /// No partition has a file system that is known.
    #[error(
        "no partition of the drive says that it holds wfs or wpm: make a file system with `wharf fs make`"
    )]
    NoFileSystem,
    /// There can be no file system of that size, in the drive's words.
    #[error("{0}")]
    Make(String),
    /// The file system needs more memory than the drive has for it.
    #[error("{0}")]
    Memory(String),
    /// The file system is damaged, or its pages cannot be read, in the drive's words.
    #[error("{0}")]
    Damaged(String),
    /// The file system.
    #[error(transparent)]
    Files(#[from] FileError),
    /// Another process has the file system open.
    #[error("another process serves it: end that, and check the image itself")]
    Served,
    /// It is to keep pages of files, and has no memory for them.
    #[error(
        "the drive has no cache of its own: serve it with `wharf serve drive --drive-cache SIZE`"
    )]
    NoDriveCache,
    /// The machine's own files.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// As a program of this machine expects it.
fn system(error: FileError) -> io::Error {
    io::Error::from_raw_os_error(error.errno().number())
}

/// The result of an operation on files. The drive works while it waits.
fn wait<T>(future: impl Future<Output = Result<T, FileError>>) -> io::Result<T> {
    block_on(future).map_err(system)
}
