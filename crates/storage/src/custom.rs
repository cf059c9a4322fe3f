//! Storage of users' own: anything that has bytes at offsets, by calls that may take their time.
//!
//! Problem: an object in a store on the network, a file in an archive, a device by a driver of its own: none of them is a
//! file of the system, each call takes milliseconds, and whoever has one wants to say how bytes are read and no more.
//!
//! Idea: a plain trait with calls that block ([`Storage`]), called by threads of the target. A run of neighbouring pages is one call,
//! however its memory is scattered: its bytes go through a buffer of the thread, which costs little beside such storage.

use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rustix::io::Errno;
use wharf_runtime::sync::{AtomicU64, Ordering};

use crate::error::StorageError;
use crate::group::PollGroup;
use crate::io::{IoError, Op, Segment};
use crate::target::{Channel, Target, TargetInfo, check_depth};
use crate::threads::{Pool, Scratch, Serve, ThreadsChannel};
use crate::transfer::Transfer;

/// Bytes at offsets, of a user's own. Calls may block, and come from several threads at a time; calls that overlap, of which one
/// writes, do not.
///
/// A call that panics has failed, as one that gives an error of kind [`ErrorKind::Other`] has.
pub trait Storage: Send + Sync + 'static {
    /// A name for people, as errors begin with.
    fn name(&self) -> String;

    /// Its length in bytes, asked for once, when it is opened.
    ///
    /// # Errors
    /// If it is not there.
    fn len(&self) -> io::Result<u64>;

    /// Whether its length is 0.
    ///
    /// # Errors
    /// As [`Storage::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `buf` with what lies from byte `offset` on: all of it lies below the length.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Whether the calls below are there. A file of a cache over storage that cannot be written is open to read only.
    fn is_writable(&self) -> bool {
        false
    }

    /// Writes all of `buf` from byte `offset` on: all of it lies below the length.
    ///
    /// # Errors
    /// If it cannot be written: each byte is then old or new.
    fn write_all_at(&self, _buf: &[u8], _offset: u64) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    /// Makes durable what was written before.
    ///
    /// # Errors
    /// If it is not durable.
    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    /// Whether its length can be set, so that writes beyond the end make it longer.
    fn can_grow(&self) -> bool {
        false
    }

    /// Makes it longer, with zeros, or shorter. Nothing beyond the smaller length is under way.
    ///
    /// # Errors
    /// If it cannot have that length.
    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }
}

/// A target of storage of a user's own, which is called by `threads` threads: so many I/Os are under way at a time.
///
/// # Errors
/// If it has no length, or threads cannot be started.
pub fn custom(storage: Arc<dyn Storage>, threads: u32) -> Result<Arc<dyn Target>, StorageError> {
    let name = storage.name();
    let size_bytes = storage.len().map_err(|source| StorageError::File {
        path: name.clone().into(),
        doing: "ask for its length",
        source,
    })?;
    let core = Arc::new(Core {
        info: TargetInfo {
            name,
            block_bytes: 1,
            memory_align_bytes: 1,
            optimal_io_bytes: 128 << 10,
            needs_flush: true,
            read_only: !storage.is_writable(),
            access: format!("{threads} threads"),
        },
        size: AtomicU64::new(size_bytes),
        storage,
    });
    let pool = Pool::new(&(core.clone() as Arc<dyn Serve>), threads)?;
    Ok(Arc::new(CustomTarget { core, pool }))
}

struct CustomTarget {
    core: Arc<Core>,
    pool: Arc<Pool>,
}

struct Core {
    info: TargetInfo,
    size: AtomicU64,
    storage: Arc<dyn Storage>,
}

impl Target for CustomTarget {
    fn info(&self) -> &TargetInfo {
        &self.core.info
    }

    fn size_bytes(&self) -> u64 {
        self.core.size_bytes()
    }

    fn set_size(&self, size_bytes: u64) -> Result<(), StorageError> {
        let core = &self.core;
        match guarded(|| core.storage.set_len(size_bytes)) {
            Ok(()) => {
                // Relaxed: whoever changes the size has nothing in flight near it.
                core.size.store(size_bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Err(StorageError::FixedSize(core.info.name.clone()))
            }
            Err(source) => Err(StorageError::File {
                path: core.info.name.clone().into(),
                doing: "change its size",
                source,
            }),
        }
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        check_depth(depth)?;
        let (core, pool) = (self.core.clone(), self.pool.clone());
        Ok(Box::new(ThreadsChannel::new(core, pool, depth)))
    }

    fn channel_in(&self, _: &PollGroup, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        check_depth(depth)?;
        let core: Arc<dyn Serve> = self.core.clone();
        let channel = ThreadsChannel::of_group(&core, &self.pool, depth);
        Ok(Box::new(channel))
    }
}

impl Serve for Core {
    fn info(&self) -> &TargetInfo {
        &self.info
    }

    fn size_bytes(&self) -> u64 {
        // Relaxed: as where it is set.
        self.size.load(Ordering::Relaxed)
    }

    fn run(&self, transfer: &mut Transfer, scratch: &mut Scratch) -> Result<(), IoError> {
        let (op, offset) = (transfer.op, transfer.offset);
        // What lies beyond the end is zeros for a read, and dropped by a write.
        let below = self.size_bytes().saturating_sub(offset);
        let bytes = &mut scratch.bytes;
        bytes.clear();
        bytes.resize(transfer.remaining_bytes as usize, 0);
        let there = below.min(transfer.remaining_bytes) as usize;
        let done = match op {
            Op::Read => guarded(|| self.storage.read_exact_at(&mut bytes[..there], offset)),
            Op::Write => {
                // SAFETY: `submit`'s caller changes none of the memory until the I/O is reported.
                gather(transfer, bytes, |segment, part| unsafe {
                    part.as_mut_ptr()
                        .copy_from_nonoverlapping(segment.pointer, part.len());
                });
                guarded(|| self.storage.write_all_at(&bytes[..there], offset))
            }
            Op::Flush => guarded(|| self.storage.sync_all()),
        };
        done.map_err(|error| transfer.error(errno_of(&error)))?;
        if op == Op::Read {
            // SAFETY: `submit`'s caller leaves the memory alone until the I/O is reported.
            gather(transfer, bytes, |segment, part| unsafe {
                segment
                    .pointer
                    .copy_from_nonoverlapping(part.as_ptr(), part.len());
            });
        }
        Ok(())
    }
}

/// Hands each piece of memory of a transfer to `copy`, with its part of `bytes`.
fn gather(transfer: &mut Transfer, bytes: &mut [u8], mut copy: impl FnMut(Segment, &mut [u8])) {
    let start = transfer.offset;
    transfer.drain(|offset, segment| {
        let from = (offset - start) as usize;
        copy(segment, &mut bytes[from..from + segment.len_bytes]);
    });
}

/// A call of a user's. One that panics has failed: who waits for it hears of that.
fn guarded<T>(call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let panicked = |_| Err(io::Error::other("storage of a user's own panicked"));
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(panicked)
}

/// The number of the system that says this best.
fn errno_of(error: &io::Error) -> Errno {
    if let Some(errno) = Errno::from_io_error(error) {
        return errno;
    }
    match error.kind() {
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::PermissionDenied => Errno::ACCESS,
        ErrorKind::TimedOut => Errno::TIMEDOUT,
        ErrorKind::StorageFull => Errno::NOSPC,
        ErrorKind::QuotaExceeded => Errno::DQUOT,
        ErrorKind::OutOfMemory => Errno::NOMEM,
        ErrorKind::InvalidInput => Errno::INVAL,
        ErrorKind::Unsupported => Errno::OPNOTSUPP,
        ErrorKind::ConnectionRefused => Errno::CONNREFUSED,
        ErrorKind::ConnectionReset => Errno::CONNRESET,
        ErrorKind::HostUnreachable => Errno::HOSTUNREACH,
        ErrorKind::NetworkUnreachable => Errno::NETUNREACH,
        _ => Errno::IO,
    }
}
