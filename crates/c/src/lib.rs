//! The page cache of `wharf::PageCache`, and the file systems of `wharf::files`, for C programs.
//!
//! `include/wharf.h` is generated from these files by cbindgen and says all that a C program needs; `.ci/run`
//! compares the two. What a call does is documented in `wharf::page_cache` and `wharf::files`.
//!
//! | file | idea |
//! |---|---|
//! | `cache.rs` | making a cache, what it did |
//! | `file.rs` | files |
//! | `page.rs` | pages used in place |
//! | `mount.rs` | a file system in a drive image, with a thread of its own |
//! | `fs.rs` | its files, as the system's own calls have them |
//! | `attributes.rs` | their links, owners, permission bits, times, extended attributes |
//! | `error.rs` | `errno` and a line of text for each thread |
//!
//! Rules of all calls: what fails gives -1 or `NULL`, sets `errno`, and leaves a message that
//! `wharf_error` gives. A null pointer where there may be none is `EINVAL`. Handles may be used by any thread.

#![allow(non_camel_case_types)]
// the names are C's
// The header has these comments as they are, and C programmers know no such section: the last sentence of each says it.
#![allow(clippy::missing_safety_doc)]

mod attributes;
mod cache;
mod error;
mod file;
mod fs;
mod mount;
mod page;

pub use attributes::*;
pub use cache::*;
pub use error::wharf_error;
pub use file::*;
pub use fs::*;
pub use mount::{
    wharf_mount, wharf_mount_close, wharf_mount_make, wharf_mount_open, wharf_mount_sync,
};
pub use page::*;
