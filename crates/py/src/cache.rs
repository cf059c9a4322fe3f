//! A page cache.

use std::path::PathBuf;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use wharf::lab::config::parse_bytes;
use wharf::page_cache::{self, OpenOptions, PageCacheOptions, Replacement};

use crate::error::refused;
use crate::file::File;
use crate::owned::Owned;

/// A size, as it is said; what is usual if it is not.
fn size(said: Option<&str>, usual: u64) -> PyResult<u64> {
    let size = said.map_or(Ok(usual), parse_bytes);
    size.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A policy by its name; what is usual if none is said.
fn policy(said: Option<&str>, usual: Replacement) -> PyResult<Replacement> {
    let Some(name) = said else { return Ok(usual) };
    let known = Replacement::ALL.map(|(known, _)| known).join(", ");
    let unknown = || PyValueError::new_err(format!("no replacement '{name}': there are {known}"));
    Replacement::by_name(name).ok_or_else(unknown)
}

/// A page cache for files, in this process. Any number of threads may use it.
#[pyclass(frozen, module = "wharf._wharf")]
pub(crate) struct PageCache(Owned<page_cache::PageCache>);

#[pymethods]
impl PageCache {
    /// A cache without files. Sizes are texts ("64MiB"); what is left out is as usual.
    #[new]
    #[pyo3(signature = (bytes=None, *, dirty_share=None, background=None, readahead=None, replacement=None, files_max=None, threads_max=None))]
    #[allow(clippy::too_many_arguments)] // each has a name in Python
    fn new(
        py: Python<'_>,
        bytes: Option<&str>,
        dirty_share: Option<f64>,
        background: Option<bool>,
        readahead: Option<&str>,
        replacement: Option<&str>,
        files_max: Option<u32>,
        threads_max: Option<u32>,
    ) -> PyResult<PageCache> {
        let usual = PageCacheOptions::default();
        let options = PageCacheOptions {
            memory_bytes: size(bytes, usual.memory_bytes)?,
            dirty_share: dirty_share.unwrap_or(usual.dirty_share),
            background: background.unwrap_or(usual.background),
            readahead_bytes: size(readahead, usual.readahead_bytes)?,
            replacement: policy(replacement, usual.replacement)?,
            files_max: files_max.unwrap_or(usual.files_max),
            threads_max: threads_max.unwrap_or(usual.threads_max),
            depth: usual.depth,
        };
        let made = py.detach(|| page_cache::PageCache::new(&options));
        made.map(|cache| PageCache(Owned::new(cache)))
            .map_err(|error| refused(&error))
    }

    /// Opens a file as the mode of that `kind` (r, w, x or a) does, to read and write if `both`. One that is open already is the same file.
    #[pyo3(signature = (path, kind, both, /))]
    fn open(&self, py: Python<'_>, path: PathBuf, kind: char, both: bool) -> PyResult<File> {
        let cache = self.cache()?;
        let mut how = OpenOptions::new();
        match kind {
            'r' => how.read(true).write(both),
            'w' => how.write(true).create(true).truncate(true).read(both),
            'x' => how.write(true).create_new(true).read(both),
            'a' => how.append(true).create(true).read(both),
            other => {
                let line = format!("no mode '{other}': there are r, w, x and a");
                return Err(PyValueError::new_err(line));
            }
        };
        let opened = py.detach(|| how.open(cache, &path));
        opened.map(File::new).map_err(|error| refused(&error))
    }

    /// What was done so far, by name.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let did = self.cache()?.statistics();
        let all = PyDict::new(py);
        for (name, count) in [
            ("reads", did.reads),
            ("writes", did.writes),
            ("syncs", did.syncs),
            ("pages", did.pages),
            ("hits", did.hits),
            ("read_ahead_hits", did.read_ahead_hits),
            ("evictions", did.evictions),
            ("write_backs", did.write_backs),
            ("dirty_pages", did.dirty_pages),
        ] {
            all.set_item(name, count)?;
        }
        Ok(all)
    }
}

impl PageCache {
    fn cache(&self) -> PyResult<&page_cache::PageCache> {
        self.0.get().ok_or_else(|| {
            let line = "this page cache is of the process that forked this one: make another here";
            PyRuntimeError::new_err(line)
        })
    }
}
