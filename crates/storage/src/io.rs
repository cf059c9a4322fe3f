//! One I/O: what is asked, where its memory is, and how it ended.

use std::fmt;

use rustix::io::Errno;

/// What an I/O does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Fills the segments from the target.
    Read,
    /// Stores the segments on the target.
    Write,
    /// Makes every write durable that had completed when the flush was submitted.
    Flush,
}

/// A piece of the caller's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Its first byte, aligned to [`TargetInfo::memory_align_bytes`](crate::TargetInfo).
    pub pointer: *mut u8,
    /// Its length in bytes, a multiple of the target's block.
    pub len_bytes: usize,
}

impl Segment {
    /// Memory to read into or to write from.
    pub fn of(bytes: &mut [u8]) -> Segment {
        Segment {
            pointer: bytes.as_mut_ptr(),
            len_bytes: bytes.len(),
        }
    }

    /// Memory to write from. Reading into it is undefined behaviour.
    pub fn of_const(bytes: &[u8]) -> Segment {
        Segment {
            pointer: bytes.as_ptr().cast_mut(),
            len_bytes: bytes.len(),
        }
    }
}

/// One I/O: a contiguous range of the target, and the pieces of memory that belong to it in order.
#[derive(Debug, Clone, Copy)]
pub struct Io<'a> {
    /// What to do.
    pub op: Op,
    /// First byte on the target, a multiple of its block; 0 for a flush.
    pub offset: u64,
    /// The memory; none for a flush. The list is copied, the memory is not.
    pub segments: &'a [Segment],
    /// Comes back in the completion.
    pub tag: u64,
}

impl<'a> Io<'a> {
    /// Reads what begins at `offset` into `segments`.
    pub fn read(offset: u64, segments: &'a [Segment], tag: u64) -> Io<'a> {
        let op = Op::Read;
        Io {
            op,
            offset,
            segments,
            tag,
        }
    }

    /// Writes `segments` to what begins at `offset`.
    pub fn write(offset: u64, segments: &'a [Segment], tag: u64) -> Io<'a> {
        let op = Op::Write;
        Io {
            op,
            offset,
            segments,
            tag,
        }
    }

    /// Makes durable what has been written.
    pub fn flush(tag: u64) -> Io<'a> {
        Io {
            op: Op::Flush,
            offset: 0,
            segments: &[],
            tag,
        }
    }

    /// Bytes of all segments.
    pub fn len_bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.len_bytes as u64).sum()
    }
}

/// How an I/O ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The tag it was submitted with.
    pub tag: u64,
    /// All of it was done, or it failed. After a failed write each block of its range is old or
    /// new; after a failed read the memory holds anything.
    pub result: Result<(), IoError>,
}

/// Why an I/O failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoError {
    /// What it was to do.
    pub op: Op,
    /// Where on the target.
    pub offset: u64,
    /// The system's reason; `EINVAL` for an I/O that is not aligned or begins beyond the end.
    pub errno: Errno,
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = std::io::Error::from(self.errno);
        match self.op {
            Op::Read => write!(f, "read at byte {} failed: {reason}", self.offset),
            Op::Write => write!(f, "write at byte {} failed: {reason}", self.offset),
            Op::Flush => write!(f, "flush failed: {reason}"),
        }
    }
}

impl std::error::Error for IoError {}
