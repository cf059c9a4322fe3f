//! File systems that run where their pages are: in the drive, on its firmware cores, or on the
//! host, above a page cache.
//!
//! A file system stores files by number and entries of directories by name: [`FileSystem`]. It
//! knows nothing of paths, open files and permissions: these are the same for all of them.
//!
//! | file | idea |
//! |---|---|
//! | `errno.rs`, `attributes.rs`, `flags.rs`, `limits.rs` | the words: errors, attributes, flags, limits; `host` uses them too |
//! | `cost.rs` | what steps cost whoever runs them |
//! | `caller.rs` | who asks, and which mode bits a change takes away |
//! | `file_system.rs`, `arguments.rs` | the trait of all file systems, and what its operations are given |
//! | `vfs/`, `handles.rs` | paths, permissions and open files above any file system |
//! | `gpt.rs`, `partitions.rs` | the table of partitions, each with the number of its file system; the same on pages |
//! | `pages.rs`, `lines.rs` | what file systems stand on: pages by number, persistent memory |
//! | `stamped.rs` | pages in memory, of which those that checked workloads write take 64 bytes |
//! | `modules.rs` | how long modules of persistent memory take |
//! | `payload.rs` | where bytes of files come from and go to: memory, or pages of a host |
//! | `block/` | wfs: a journaling file system of extents, on pages |
//! | `bytes/` | wpm: a file system for persistent memory, with a log for each inode |
//! | `check/` | whether what wfs left on the media fits together: written from the format alone |
//! | `locks/` | locks of files: ranges, whole files, who waits |
//! | `block_on.rs` | running a future that waits for nothing outside of it |
//! | `volume.rs` | the file system that a partition's number names |
//! | `model/` | the reference: a file system in memory, which tests hold others against |
//! | `testing/` | random programs, the judge of power cuts: for tests of any file system (feature `testing`) |

mod arguments;
mod attributes;

pub mod block;
mod block_on;
pub mod bytes;
mod caller;
pub mod check;
mod cost;
mod errno;
mod file_system;
mod flags;
pub mod gpt;
mod handles;
mod limits;
pub mod lines;
pub mod locks;
pub mod model;
pub mod modules;
pub mod pages;
pub mod partitions;
mod payload;
pub mod stamped;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod vfs;
pub mod volume;

pub use arguments::{
    Allocate, By, Content, Entry, New, Place, Remove, Seek, Seen, SetXattr, StatFs, Sync, Write,
    Written,
};
pub use attributes::{
    Attributes, DirectoryEntry, GROUP_EXECUTES, Kind, MODE_BITS, Owner, SET_GID, SET_UID, STICKY,
    SetAttributes, Special,
};
pub use block_on::block_on;
pub use caller::Caller;
pub use errno::{Errno, Fault, FileError};
pub use file_system::FileSystem;
pub use flags::{Handle, OpenFlags, Rename};
pub use handles::HandleTable;
pub use limits::{
    FILE_BYTES_MAX, LIST_START, NAME_BYTES_MAX, PAGE_BYTES, PATH_BYTES_MAX, SYMLINKS_MAX,
    XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX, check_name,
};
pub use payload::{HostBytes, In, Out};
