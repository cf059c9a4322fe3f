//! A file of a page cache: bytes at offsets, to and from the memory of any object that has a buffer, without copies in between.
//!
//! What may take long is done without the GIL, in pieces between which Python looks for signals.

use std::io::{self, Seek, Write};
use std::ptr::NonNull;
use std::sync::{PoisonError, RwLock};

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wharf::page_cache;

use crate::error::{failed_io, refused};
use crate::owned::Owned;

/// Bytes that are read or written between two looks for signals.
const PIECE_BYTES: usize = 16 << 20;

/// An open file of a page cache. Any number of threads may use it.
///
/// The lock is taken without the GIL alone: who waits for it, while another thread closes the file, must not keep that one from it.
#[pyclass(frozen, module = "wharf._wharf")]
pub(crate) struct File(Owned<RwLock<Option<page_cache::File>>>);

impl File {
    pub(crate) fn new(file: page_cache::File) -> File {
        File(Owned::new(RwLock::new(Some(file))))
    }

    /// Does something with the file, without the GIL.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&page_cache::File) -> io::Result<T> + Send,
    ) -> PyResult<T> {
        let file = self.0.get().ok_or_else(|| {
            let line = "this file is of the process that forked this one: open it here";
            PyRuntimeError::new_err(line)
        })?;
        let done = py.detach(|| {
            let file = file.read().unwrap_or_else(PoisonError::into_inner);
            file.as_ref().map(act)
        });
        let done = done.ok_or_else(|| PyValueError::new_err("I/O operation on closed file."))?;
        done.map_err(failed_io)
    }

    /// Fills `memory` from byte `offset` on; gives how many bytes there were, fewer only at the end of the file.
    fn read_pieces(&self, py: Python<'_>, memory: &mut [u8], offset: u64) -> PyResult<usize> {
        let mut done = 0;
        for piece in memory.chunks_mut(PIECE_BYTES) {
            let at = offset.saturating_add(done as u64);
            let wanted = piece.len();
            let read = self.with(py, |file| Ok(file.read_at(piece, at)?))?;
            done += read;
            if read < wanted {
                break;
            }
            py.check_signals()?;
        }
        Ok(done)
    }
}

#[pymethods]
impl File {
    /// Reads to a buffer from byte `offset` on; gives how many bytes there were, fewer only at the end of the file.
    #[pyo3(signature = (buffer, offset, /))]
    fn read_into(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>, offset: u64) -> PyResult<usize> {
        let buffer = PyUntypedBuffer::get(buffer)?;
        if buffer.readonly() {
            return Err(PyBufferError::new_err(
                "the buffer to read into cannot be written",
            ));
        }
        let start = start(&buffer)?;
        // SAFETY: the buffer is held until the end of this call, has so many bytes in a row, and may be written. That no other thread uses them
        // meanwhile is the program's part, as with every `readinto` that releases the GIL.
        let memory = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), buffer.len_bytes()) };
        self.read_pieces(py, memory, offset)
    }

    /// As many bytes as there are from byte `offset` on, but no more than `count`.
    #[pyo3(signature = (offset, count, /))]
    fn read<'py>(&self, py: Python<'py>, offset: u64, count: u64) -> PyResult<Bound<'py, PyBytes>> {
        let left = self.length(py)?.saturating_sub(offset);
        let count = usize::try_from(count.min(left)).unwrap_or(usize::MAX);
        let mut done = 0;
        let bytes = PyBytes::new_with(py, count, |memory| {
            done = self.read_pieces(py, memory, offset)?;
            Ok(())
        })?;
        // Somebody has cut the file meanwhile.
        match done < count {
            true => Ok(PyBytes::new(py, &bytes.as_bytes()[..done])),
            false => Ok(bytes),
        }
    }

    /// Writes all of a buffer from byte `offset` on.
    #[pyo3(signature = (buffer, offset, /))]
    fn write(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>, offset: u64) -> PyResult<usize> {
        let buffer = PyUntypedBuffer::get(buffer)?;
        let start = start(&buffer)?;
        // SAFETY: the buffer is held until the end of this call and has so many bytes in a row. That no other thread changes them meanwhile is
        // the program's part, as with every `write` that releases the GIL.
        let memory = unsafe { std::slice::from_raw_parts(start.as_ptr(), buffer.len_bytes()) };
        let mut at = offset;
        for piece in memory.chunks(PIECE_BYTES) {
            self.with(py, |file| Ok(file.write_all_at(piece, at)?))?;
            at = at.saturating_add(piece.len() as u64);
            py.check_signals()?;
        }
        Ok(memory.len())
    }

    /// Writes all of a buffer at the end of a file that was opened to append; gives where that is then. Who appends does so in turn.
    #[pyo3(signature = (buffer, /))]
    fn append(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<u64> {
        let buffer = PyUntypedBuffer::get(buffer)?;
        let start = start(&buffer)?;
        // SAFETY: as in `write`.
        let memory = unsafe { std::slice::from_raw_parts(start.as_ptr(), buffer.len_bytes()) };
        self.with(py, |mut file| {
            file.write_all(memory)?;
            file.stream_position()
        })
    }

    /// The length in bytes.
    fn length(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |file| Ok(file.len()))
    }

    /// Cuts the file to so many bytes, or makes it longer, with zeros.
    #[pyo3(signature = (bytes, /))]
    fn truncate(&self, py: Python<'_>, bytes: u64) -> PyResult<()> {
        self.with(py, |file| Ok(file.set_len(bytes)?))
    }

    /// Makes durable what was written.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |file| Ok(file.sync_all()?))
    }

    /// Makes everything durable and ends the file; once more does nothing, and nor does it in a process that was forked.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(file) = self.0.get() else {
            return Ok(());
        };
        let closed = py.detach(|| {
            let file = file.write().unwrap_or_else(PoisonError::into_inner).take();
            file.map_or(Ok(()), page_cache::File::close)
        });
        closed.map_err(|error| refused(&error))
    }
}

/// Where the bytes of a buffer begin, which lie in a row.
fn start(buffer: &PyUntypedBuffer) -> PyResult<NonNull<u8>> {
    if !buffer.is_c_contiguous() {
        let line = "the bytes of the buffer do not lie in a row";
        return Err(PyBufferError::new_err(line));
    }
    // A buffer without bytes may be anywhere.
    Ok(NonNull::new(buffer.buf_ptr().cast()).unwrap_or(NonNull::dangling()))
}
