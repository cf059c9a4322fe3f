//! Wharf for Python: `wharf._wharf`, which the package `wharf` (`python/wharf/`) wraps.
//!
//! What is here is thin. Comparisons and curves are asked for in the words of the command line (`wharf::cli::calls`) and are given as its JSON, so
//! that Python has the same options, figures and errors; the package makes the words and takes the JSON apart. Files of a page cache take offsets
//! and buffers, of which nothing is copied on the way; the package makes them file objects.
//!
//! | file | idea |
//! |---|---|
//! | `runs.rs` | comparisons, sweeps, curves, traces |
//! | `interrupt.rs` | long work beside the interpreter, which Ctrl-C ends |
//! | `cache.rs`, `file.rs` | a page cache, and its files |
//! | `owned.rs` | what only the process has that made it: a fork has a copy that must not be used |
//! | `error.rs` | errors as exceptions |

mod cache;
mod error;
mod file;
mod interrupt;
mod owned;
mod runs;

use pyo3::prelude::*;

/// The part of the package `wharf` that is in Rust.
#[pymodule]
mod _wharf {
    #[pymodule_export]
    use crate::cache::PageCache;
    #[pymodule_export]
    use crate::file::File;
    #[pymodule_export]
    use crate::runs::{compare, mrc, read_trace, sweep};
}
