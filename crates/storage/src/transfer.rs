//! An I/O on its way: what is left of it after each step, so that a short read or write is
//! continued where it stopped.

use crate::io::{Io, IoError, Op, Segment};
use rustix::io::Errno;

/// The most pieces of memory in one system call (Linux's `UIO_MAXIOV`).
const VECTOR_MAX: usize = 1024;
/// The most bytes in one step: a system call moves less than 2 GiB.
const STEP_BYTES_MAX: u64 = 1 << 30;

/// What is left of an I/O.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) op: Op,
    pub(crate) tag: u64,
    /// Where the I/O began.
    start: u64,
    /// Where the rest begins.
    pub(crate) offset: u64,
    pub(crate) remaining_bytes: u64,
    segments: Vec<Segment>,
    /// The first segment that is not done.
    first: usize,
}

impl Transfer {
    /// Nothing to do.
    pub(crate) fn idle() -> Transfer {
        Transfer {
            op: Op::Flush,
            tag: 0,
            start: 0,
            offset: 0,
            remaining_bytes: 0,
            segments: Vec::new(),
            first: 0,
        }
    }

    /// Takes on another I/O; keeps the memory of its list.
    pub(crate) fn begin(&mut self, io: &Io<'_>) {
        self.op = io.op;
        self.tag = io.tag;
        self.start = io.offset;
        self.offset = io.offset;
        self.remaining_bytes = io.len_bytes();
        self.segments.clear();
        self.segments.extend_from_slice(io.segments);
        self.first = 0;
    }

    /// Whether any memory is left.
    pub(crate) fn has_segments(&self) -> bool {
        self.first < self.segments.len()
    }

    /// The next bytes, at most `limit_bytes`, if they lie in one piece of memory.
    pub(crate) fn single(&self, limit_bytes: u64) -> Option<(*mut u8, u32)> {
        let segment = self.segments[self.first];
        let len = limit_bytes.min(STEP_BYTES_MAX);
        (len <= segment.len_bytes as u64).then_some((segment.pointer, len as u32))
    }

    /// The next bytes, at most `limit_bytes`, as a list of pieces in `out`.
    pub(crate) fn vector(&self, limit_bytes: u64, out: &mut Vec<libc::iovec>) {
        out.clear();
        let mut left = limit_bytes.min(STEP_BYTES_MAX);
        for segment in self.segments[self.first..].iter().take(VECTOR_MAX) {
            let len = left.min(segment.len_bytes as u64);
            if len == 0 {
                break;
            }
            out.push(libc::iovec {
                iov_base: segment.pointer.cast(),
                iov_len: len as usize,
            });
            left -= len;
        }
    }

    /// Counts `bytes` as done.
    pub(crate) fn advance(&mut self, bytes: u64) {
        assert!(
            bytes <= self.remaining_bytes,
            "no more is done than was asked"
        );
        self.offset += bytes;
        self.remaining_bytes -= bytes;
        let mut left = bytes as usize;
        while left > 0 {
            let segment = &mut self.segments[self.first];
            let part = left.min(segment.len_bytes);
            segment.pointer = segment.pointer.wrapping_add(part);
            segment.len_bytes -= part;
            left -= part;
            if segment.len_bytes == 0 {
                self.first += 1;
            }
        }
    }

    /// Hands the rest to `part`, piece by piece, as the offset on the target and the memory; then
    /// it is done.
    pub(crate) fn drain(&mut self, mut part: impl FnMut(u64, Segment)) {
        for segment in &self.segments[self.first..] {
            part(self.offset, *segment);
            self.offset += segment.len_bytes as u64;
        }
        self.first = self.segments.len();
        self.remaining_bytes = 0;
    }

    /// Fills the rest of a read with zeros.
    ///
    /// # Safety
    ///
    /// The memory is valid and nobody else's.
    pub(crate) unsafe fn fill_with_zeros(&mut self) {
        self.drain(|_, segment| {
            // SAFETY: the caller's promise.
            unsafe { segment.pointer.write_bytes(0, segment.len_bytes) }
        });
    }

    /// The error of this I/O.
    pub(crate) fn error(&self, errno: Errno) -> IoError {
        IoError {
            op: self.op,
            offset: self.start,
            errno,
        }
    }
}
