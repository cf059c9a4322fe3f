//! What is served: an [`Export`] that connections share, and a [`Seat`] of each thread that serves.
//!
//! As storage has targets and channels: the export says what it is, and a seat is one thread's way
//! to it, so that the path of a request takes no lock. A seat has many jobs at a time, which end in any
//! order. It owns the memory of a job while the job is under way, so that nothing is shared.

use std::os::fd::RawFd;

use crate::buffer::Buffer;
use crate::proto::Errno;

/// What an export is. Fixed while it is served.
#[derive(Debug, Clone)]
pub struct ExportInfo {
    /// Its name; clients that give no name get it too.
    pub name: String,
    /// A text for people.
    pub description: String,
    /// Bytes, a multiple of `block_bytes_min`.
    pub size_bytes: u64,
    /// Offsets and lengths of requests are multiples of it: a power of two.
    pub block_bytes_min: u32,
    /// What suits best: a power of two.
    pub block_bytes_preferred: u32,
    /// What it can do.
    pub can: Can,
}

/// What an export can do beyond reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Can {
    /// Writes.
    pub write: bool,
    /// Flush, and changes that are durable when they are answered.
    pub flush: bool,
    /// Trim.
    pub trim: bool,
    /// Zeros without their being sent.
    pub zero: bool,
    /// To say quickly that zeros would be slow.
    pub fast_zero: bool,
    /// Bringing data near.
    pub cache: bool,
    /// To say where there is data.
    pub status: bool,
    /// A flush of one connection is for the writes of all.
    pub multi_conn: bool,
}

/// Which threads serve an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Each connection has a thread and a seat of its own.
    ThreadPerConnection,
    /// One thread has the one seat and serves all connections.
    OneThread,
}

/// Something with blocks.
pub trait Export: Send + Sync {
    /// What it is.
    fn info(&self) -> &ExportInfo;

    /// Which threads serve it.
    fn placement(&self) -> Placement {
        Placement::ThreadPerConnection
    }

    /// A seat for the calling thread.
    ///
    /// # Errors
    /// Whatever the reason, in a line for people.
    fn seat(&self) -> Result<Box<dyn Seat + '_>, String>;

    /// Adds figures of its own to a page of metrics, as Prometheus reads it.
    fn metrics(&self, _text: &mut String) {}

    /// Makes everything durable at the end, when all seats are gone.
    ///
    /// # Errors
    /// Whatever the reason, in a line for people.
    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

/// What a seat is to do.
#[derive(Debug)]
pub enum Job {
    /// Fill the buffer from byte `offset` on.
    Read {
        /// First byte.
        offset: u64,
        /// Comes back in the answer.
        buffer: Buffer,
    },
    /// Write from byte `offset` on.
    Write {
        /// First byte.
        offset: u64,
        /// What to write.
        data: Data,
        /// Durable when it is answered.
        fua: bool,
    },
    /// Make durable what was answered before, on any seat.
    Flush,
    /// Forget what the range holds.
    Trim {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Durable when it is answered.
        fua: bool,
    },
    /// Make the range zeros.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// The range keeps, or gets, room of its own.
        no_hole: bool,
        /// Only if it is faster than writing; else [`Errno::NotSupported`], at once.
        fast: bool,
        /// Durable when it is answered.
        fua: bool,
    },
    /// Bring the range near. A hint.
    Cache {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Say where there is data, from byte `offset` on, for at most `len` bytes.
    Status {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// More than so many extents are of no use.
        extents_max: usize,
    },
}

/// The data of a write.
#[derive(Debug)]
pub enum Data {
    /// It is in this buffer.
    Buffer(Buffer),
    /// It lies where [`Seat::place`] said: so many bytes.
    Placed(usize),
}

/// Bytes of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// How many.
    pub len: u64,
    /// They have no room of their own.
    pub hole: bool,
    /// They read as zeros.
    pub zero: bool,
}

impl Extent {
    /// Data.
    pub fn data(len: u64) -> Extent {
        Extent {
            len,
            hole: false,
            zero: false,
        }
    }

    /// A hole, which reads as zeros.
    pub fn hole(len: u64) -> Extent {
        Extent {
            len,
            hole: true,
            zero: true,
        }
    }

    /// Adds an extent to a list in which no two neighbours are alike.
    pub fn push(self, list: &mut Vec<Extent>) {
        match list.last_mut() {
            Some(last) if (last.hole, last.zero) == (self.hole, self.zero) => last.len += self.len,
            _ if self.len > 0 => list.push(self),
            _ => {}
        }
    }
}

/// What came of a job that was done.
#[derive(Debug)]
pub enum Answer {
    /// Nothing more to say.
    Nothing,
    /// The buffer of a read, full.
    Buffer(Buffer),
    /// Extents that follow each other from the offset that was asked for.
    Extents(Vec<Extent>),
}

/// How a job ended.
pub type Outcome = Result<Answer, Errno>;

/// Names a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    /// The connection.
    pub connection: u32,
    /// The request of the connection.
    pub slot: u32,
}

/// A run of bytes of an export that is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lent {
    /// There they are, for as long as the export lives. Others may change them at any time.
    Bytes(*const u8, usize),
    /// So many zeros.
    Zeros(usize),
}

/// What a seat waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing is under way, or only what the next call of it begins.
    Nothing,
    /// One of these descriptors becomes readable when something has ended; if nothing does for so many
    /// microseconds, poll all the same.
    For([Option<RawFd>; 2], Option<u32>),
    /// There is work to do right now: poll.
    Busy,
}

/// One thread's way to an export.
pub trait Seat {
    /// Begins a job. If it is done at once, its outcome is the result; else [`Seat::poll`] reports it,
    /// once.
    fn begin(&mut self, tag: Tag, job: Job) -> Option<Outcome>;

    /// Goes on with what is under way, without waiting, and reports what has ended.
    fn poll(&mut self, _done: &mut dyn FnMut(Tag, Outcome)) {}

    /// What it waits for.
    fn waiting(&self) -> Waiting {
        Waiting::Nothing
    }

    /// Where the bytes of a read lie, if they are in memory: runs that make up the range. False if not.
    fn lend(&mut self, _offset: u64, _len: usize, _runs: &mut Vec<Lent>) -> bool {
        false
    }

    /// Where the payload of a write may be put straight away: `len` bytes that stay valid as long as
    /// the export. Every place is followed by a write of [`Data::Placed`], also if the payload was cut short.
    fn place(&mut self, _offset: u64, _len: usize) -> Option<*mut u8> {
        None
    }

    /// Ends it, with nothing under way.
    ///
    /// # Errors
    /// Whatever was not made durable.
    fn close(&mut self) -> Result<(), String> {
        Ok(())
    }
}
