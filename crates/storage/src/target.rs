//! The two halves of storage: a [`Target`] that threads share, and a [`Channel`] of each thread.
//!
//! As in SPDK's bdev and I/O channel: the target knows what the storage is, and a channel is one
//! thread's way to it, with its own queue, so that the path of an I/O takes no lock. A channel does
//! nothing by itself: what was submitted makes progress when it is submitted, polled or waited for.

use std::collections::VecDeque;

use rustix::io::Errno;

use crate::error::StorageError;
use crate::group::PollGroup;
use crate::holes::Holes;
use crate::io::{Completion, Io, IoError, Op, Segment};

/// The greatest depth of a channel.
pub const DEPTH_MAX: u32 = 4096;

/// What a target is. Fixed while it is open, except for its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetInfo {
    /// A name for people: the path, say.
    pub name: String,
    /// Offsets and lengths are multiples of this; what is written of a block is written whole.
    pub block_bytes: u32,
    /// Memory has to be aligned to this.
    pub memory_align_bytes: u32,
    /// The size, and alignment, of the I/O that the target likes best.
    pub optimal_io_bytes: u32,
    /// Whether a completed write may be lost until a flush.
    pub needs_flush: bool,
    /// Whether writes fail.
    pub read_only: bool,
    /// How it is reached, for people: `io_uring, O_DIRECT`.
    pub access: String,
}

/// Storage of a size, used by any number of threads, each through a channel of its own.
pub trait Target: Send + Sync {
    /// What it is.
    fn info(&self) -> &TargetInfo;

    /// Its size in bytes; need not be a multiple of the block. An I/O begins below it and may run
    /// past it: a read gives zeros there, and a write drops what lies there.
    fn size_bytes(&self) -> u64;

    /// Makes it larger, with zeros, or smaller. The caller has nothing in flight beyond the
    /// smaller size.
    fn set_size(&self, _size_bytes: u64) -> Result<(), StorageError> {
        Err(StorageError::FixedSize(self.info().name.clone()))
    }

    /// Makes it at least so large, with zeros, and never smaller, whoever else changes its size
    /// meanwhile.
    fn grow(&self, size_bytes: u64) -> Result<(), StorageError> {
        match self.size_bytes() < size_bytes {
            true => self.set_size(size_bytes),
            false => Ok(()),
        }
    }

    /// As [`Target::set_size`] to a smaller size, unless somebody else has made it longer than it
    /// is known to be: what they appended stays.
    fn trim(&self, size_bytes: u64) -> Result<(), StorageError> {
        self.set_size(size_bytes)
    }

    /// A channel for the calling thread, for `depth` I/Os at a time (1 to [`DEPTH_MAX`]).
    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError>;

    /// It as storage that has holes, if it is such.
    fn holes(&self) -> Option<&dyn Holes> {
        None
    }

    /// As [`Target::channel`], one that is waited for with the others of `group` if that can be,
    /// and that is of no use when the target has gone: it keeps no file open.
    fn channel_in(&self, _group: &PollGroup, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        self.channel(depth)
    }
}

/// The channel has as many I/Os in flight as it takes: poll first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the channel is full: poll before submitting more")]
pub struct Full;

/// One thread's way to a target. I/Os of a channel run side by side and end in any order. Dropping it
/// waits for those in flight, without reporting them.
pub trait Channel {
    /// How many I/Os it takes at a time.
    fn depth(&self) -> usize;

    /// I/Os submitted and not reported yet.
    fn in_flight(&self) -> usize;

    /// Begins an I/O. It is always reported, also when it is malformed (`EINVAL`).
    ///
    /// # Safety
    ///
    /// The memory of all segments is valid until the I/O is reported or the channel is dropped. Until then
    /// nobody touches the memory of a read, and nobody changes that of a write.
    unsafe fn submit(&mut self, io: Io<'_>) -> Result<(), Full>;

    /// Reports what has ended, without waiting; gives how many that were.
    fn poll(&mut self, done: &mut dyn FnMut(Completion)) -> usize;

    /// Reports what has ended, and waits until that is at least `min` or nothing is in flight; gives
    /// how many were reported.
    fn wait(&mut self, min: usize, done: &mut dyn FnMut(Completion)) -> usize;

    /// Whether waiting for its [`PollGroup`] is waiting for it.
    fn is_grouped(&self) -> bool {
        false
    }

    /// Offers memory that many I/Os will use, so that the kernel need not look it up each time. Replaces
    /// what was offered before; nothing may be in flight. False if it is of no use or refused: then
    /// I/Os do without.
    ///
    /// # Safety
    ///
    /// The memory stays valid until other memory is offered or the channel is dropped.
    unsafe fn register(&mut self, _memory: &[Segment]) -> bool {
        false
    }
}

/// I/Os of a channel that have ended, and are to be reported.
#[derive(Default)]
pub(crate) struct Ended(VecDeque<Completion>);

impl Ended {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn push(&mut self, tag: u64, result: Result<(), IoError>) {
        self.0.push_back(Completion { tag, result });
    }

    /// Reports all of them; gives how many.
    pub(crate) fn report(&mut self, done: &mut dyn FnMut(Completion)) -> usize {
        let count = self.0.len();
        self.0.drain(..).for_each(done);
        count
    }
}

/// Whether a target of this kind and size takes `io` at all.
pub(crate) fn admit(info: &TargetInfo, size_bytes: u64, io: &Io<'_>) -> Result<(), IoError> {
    let refuse = |errno| {
        let (op, offset) = (io.op, io.offset);
        Err(IoError { op, offset, errno })
    };
    if io.op == Op::Flush {
        return Ok(());
    }
    if io.op == Op::Write && info.read_only {
        return refuse(Errno::ROFS);
    }
    let block = u64::from(info.block_bytes);
    let aligned = |s: &Segment| {
        s.len_bytes > 0
            && (s.len_bytes as u64).is_multiple_of(block)
            && s.pointer
                .addr()
                .is_multiple_of(info.memory_align_bytes as usize)
    };
    let whole = io.offset.is_multiple_of(block) && io.segments.iter().all(aligned);
    let in_range = io.offset < size_bytes && io.offset.checked_add(io.len_bytes()).is_some();
    if whole && in_range && !io.segments.is_empty() {
        Ok(())
    } else {
        refuse(Errno::INVAL)
    }
}

/// Checks the depth of a channel.
pub(crate) fn check_depth(depth: u32) -> Result<(), StorageError> {
    if (1..=DEPTH_MAX).contains(&depth) {
        Ok(())
    } else {
        Err(StorageError::Depth(depth))
    }
}
