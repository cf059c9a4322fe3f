//! The page cache of `wharf::PageCache` for C programs.
//!
//! `include/wharf.h` is generated from these files by cbindgen and says all that a C program needs; `.ci/run`
//! compares the two. What a call does is documented in `wharf::page_cache`.
//!
//! | file | idea |
//! |---|---|
//! | `cache.rs` | making a cache, what it did |
//! | `file.rs` | files |
//! | `page.rs` | pages used in place |
//! | `error.rs` | `errno` and a line of text for each thread |
//!
//! Rules of all calls: what fails gives -1 or `NULL`, sets `errno`, and leaves a message that
//! `wharf_error` gives. A null pointer where there may be none is `EINVAL`. Handles may be used by any thread.

#![allow(non_camel_case_types)] // the names are C's

mod cache;
mod error;
mod file;
mod page;

pub use cache::*;
pub use error::wharf_error;
pub use file::*;
pub use page::*;
