//! Comparisons, sweeps and curves, in the words of the command line, as its JSON; traces as columns.

use std::ffi::OsString;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use wharf::cli::calls;
use wharf::lab::report;
use wharf::workload::{Op, Request};
use zerocopy::{Immutable, IntoBytes};

use crate::error::failed;
use crate::interrupt::interruptible;

/// What `wharf compare WORDS` gives, as JSON.
#[pyfunction]
#[pyo3(signature = (words, /))]
pub(crate) fn compare(py: Python<'_>, words: Vec<OsString>) -> PyResult<String> {
    let made = interruptible(py, move |stop| {
        calls::compare(&words, stop).map(|comparison| report::json::to_string(&comparison))
    })?;
    made.map_err(failed)
}

/// What the sweep of a text gives, as JSON: that of a file for `wharf sweep run`.
#[pyfunction]
#[pyo3(signature = (text, jobs=None, /))]
pub(crate) fn sweep(py: Python<'_>, text: String, jobs: Option<usize>) -> PyResult<String> {
    let made = interruptible(py, move |stop| {
        calls::sweep(&text, jobs, stop).map(|report| report.to_json())
    })?;
    made.map_err(failed)
}

/// What `wharf mrc WORDS` gives, as JSON; of pages by number, if there are some, in place of the trace that the first word names.
#[pyfunction]
#[pyo3(signature = (words, pages=None, /))]
pub(crate) fn mrc(
    py: Python<'_>,
    words: Vec<OsString>,
    pages: Option<PyBuffer<u64>>,
) -> PyResult<String> {
    let pages = pages.map(|pages| pages.to_vec(py)).transpose()?;
    let made = interruptible(py, move |stop| {
        calls::mrc(&words, pages.as_deref(), stop).map(|curves| curves.to_json())
    })?;
    made.map_err(failed)
}

/// The requests of a trace, a column each.
#[derive(Default)]
struct Columns {
    /// In ns, -1 where there is none.
    times: Vec<i64>,
    /// See [`number`].
    ops: Vec<u8>,
    offsets: Vec<u64>,
    bytes: Vec<u32>,
    streams: Vec<u32>,
}

impl Columns {
    fn take(&mut self, requests: &[Request]) {
        let time = |request: &Request| request.time().map_or(-1, |ns| ns as i64);
        self.times.extend(requests.iter().map(time));
        self.ops.extend(requests.iter().map(|r| number(r.op)));
        self.offsets.extend(requests.iter().map(|r| r.offset));
        self.bytes.extend(requests.iter().map(|r| r.bytes));
        self.streams.extend(requests.iter().map(|r| r.stream));
    }
}

/// What a request does, as the package's constants have it.
fn number(op: Op) -> u8 {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Flush => 2,
        Op::Discard => 3,
    }
}

/// The columns of a trace as memory: times (int64), operations (uint8), offsets (uint64), bytes and streams (uint32).
type Memory<'py> = (
    Bound<'py, PyByteArray>,
    Bound<'py, PyByteArray>,
    Bound<'py, PyByteArray>,
    Bound<'py, PyByteArray>,
    Bound<'py, PyByteArray>,
);

/// Reads a trace with the options of `wharf trace stat`.
#[pyfunction]
#[pyo3(signature = (words, /))]
pub(crate) fn read_trace(py: Python<'_>, words: Vec<OsString>) -> PyResult<Memory<'_>> {
    let read = interruptible(py, move |stop| {
        let mut columns = Columns::default();
        calls::read_trace(&words, stop, |requests| columns.take(requests)).map(|()| columns)
    })?;
    let columns = read.map_err(failed)?;
    // Each column goes when its copy is made.
    Ok((
        memory(py, columns.times),
        memory(py, columns.ops),
        memory(py, columns.offsets),
        memory(py, columns.bytes),
        memory(py, columns.streams),
    ))
}

fn memory<T: IntoBytes + Immutable>(py: Python<'_>, column: Vec<T>) -> Bound<'_, PyByteArray> {
    PyByteArray::new(py, column.as_bytes())
}
