//! Files and block devices: opening them, what they are, and which way each part of an I/O takes.
//!
//! Problem: O_DIRECT moves whole blocks only, and a file may end within one. A direct write of the last
//! block would make the file longer; a direct read that stopped short cannot go on from there.
//!
//! Idea: a file is opened twice, with O_DIRECT and through the kernel's cache, and each step of an
//! I/O takes the direct way if it may. Linux keeps the two coherent: a direct read writes
//! back what the cache holds of its range first, a direct write drops it.
//!
//! 1. A write takes the direct way up to the last whole block and the buffered way to the end; what lies
//!    beyond is dropped.
//! 2. A read takes the direct way, ends short at the end of the file, and gets zeros from there.
//! 3. A step that stopped within a block goes on the buffered way.
//!
//! Where the file system has no O_DIRECT, all of it is buffered, and the target says so.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, FlockOperation, StatxFlags};
use rustix::io::Errno;
use wharf_runtime::sync::{AtomicU64, Ordering};

use crate::error::StorageError;
use crate::io::Op;
use crate::target::{Channel, Target, TargetInfo, check_depth};
use crate::threads::{Pool, ThreadsChannel};
use crate::transfer::Transfer;
use crate::uring::{self, UringChannel};

/// The block of a file without O_DIRECT in bytes: what every file system's own blocks are multiples of.
const BUFFERED_BLOCK_BYTES: u32 = 512;
/// The block where the system does not tell (before Linux 6.1) in bytes: no device in use has larger ones.
const UNKNOWN_BLOCK_BYTES: u32 = 4096;
/// `STATX_DIOALIGN`: asks for the alignment that O_DIRECT wants (Linux 6.1).
const STATX_DIOALIGN: StatxFlags = StatxFlags::from_bits_retain(0x2000);

/// How I/Os reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// io_uring where it is to be had, threads elsewhere.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// Threads that call `preadv` and `pwritev`.
    Threads,
}

/// How a file or device is opened.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// Writes fail, and the file need not be writable.
    pub read_only: bool,
    /// Make the file, with this size in bytes, if there is none.
    pub create_bytes: Option<u64>,
    /// Around the kernel's page cache (O_DIRECT) where the file system can.
    pub direct: bool,
    /// Refuse if another handle has it open with this option set.
    pub exclusive: bool,
    /// How I/Os reach the kernel.
    pub engine: Engine,
    /// How many threads, where threads are used: so many I/Os are under way at a time.
    pub threads: u32,
}

impl Default for FileOptions {
    fn default() -> Self {
        FileOptions {
            read_only: false,
            create_bytes: None,
            direct: true,
            exclusive: false,
            engine: Engine::Auto,
            threads: 8,
        }
    }
}

/// Opens a file or a block device.
pub fn open(path: &Path, options: &FileOptions) -> Result<Arc<dyn Target>, StorageError> {
    let mut core = FileCore::open(path, options)?;
    let uring = match options.engine {
        Engine::Threads => false,
        Engine::Auto => uring::capabilities().available(),
        Engine::Uring => {
            uring::capabilities().require()?;
            true
        }
    };
    let engine = if uring { "io_uring" } else { "threads" };
    let way = if core.direct.is_some() {
        "O_DIRECT"
    } else {
        "buffered"
    };
    core.info.access = format!("{engine}, {way}");
    let core = Arc::new(core);
    let pool = match uring {
        true => None,
        false => Some(Pool::new(&core, options.threads)?),
    };
    Ok(Arc::new(FileTarget { core, pool }))
}

/// A file or device as a target.
struct FileTarget {
    core: Arc<FileCore>,
    /// The threads that do its I/Os; by io_uring if there are none.
    pool: Option<Arc<Pool>>,
}

impl Target for FileTarget {
    fn info(&self) -> &TargetInfo {
        &self.core.info
    }

    fn size_bytes(&self) -> u64 {
        self.core.size_bytes()
    }

    fn set_size(&self, size_bytes: u64) -> Result<(), StorageError> {
        self.core.set_size(size_bytes)
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        check_depth(depth)?;
        let core = self.core.clone();
        Ok(match &self.pool {
            Some(pool) => Box::new(ThreadsChannel::new(core, pool.clone(), depth)),
            None => Box::new(UringChannel::new(core, depth)?),
        })
    }
}

/// That nobody else opens a file or device with [`FileOptions::exclusive`].
///
/// It is on a descriptor of its own: the kernel ends a ring some time after the ring was closed, and till then the
/// ring keeps the descriptors that it was given, with the locks on them.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    fn take(file: File, path: &Path) -> Result<Lock, StorageError> {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock(file)),
            Err(Errno::WOULDBLOCK) => Err(StorageError::InUse(path.to_path_buf())),
            Err(errno) => Err(StorageError::File {
                path: path.to_path_buf(),
                doing: "lock it",
                source: errno.into(),
            }),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Not left to closing: a process that another thread is starting has the descriptor too, until it runs its
        // own program. A lock that is held can be given up, so there is no error.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// An open file or device.
#[derive(Debug)]
pub(crate) struct FileCore {
    pub(crate) info: TargetInfo,
    pub(crate) buffered: File,
    pub(crate) direct: Option<File>,
    size: AtomicU64,
    is_device: bool,
    /// Given up when the last channel is gone.
    _lock: Option<Lock>,
}

/// Which descriptor a step takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Direct,
    Buffered,
}

/// What is next for a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing: it has ended well.
    Done,
    /// The rest lies beyond the end: zeros for a read.
    Zeros,
    /// Move at most so many bytes this way.
    Step(Way, u64),
}

impl FileCore {
    fn open(path: &Path, options: &FileOptions) -> Result<FileCore, StorageError> {
        let failed = |doing| {
            let path = path.to_path_buf();
            move |source| StorageError::File {
                path,
                doing,
                source,
            }
        };
        let opening = |flags: i32| {
            let mut how = OpenOptions::new();
            how.read(true).write(!options.read_only).custom_flags(flags);
            how
        };
        let buffered = match options.create_bytes {
            Some(bytes) if !path.exists() => {
                let file = opening(0).create_new(true).open(path);
                let file = file.map_err(failed("create it"))?;
                file.set_len(bytes).map_err(failed("set its size"))?;
                file
            }
            _ => opening(0).open(path).map_err(failed("open it"))?,
        };
        let kind = buffered.metadata().map_err(failed("ask for its kind"))?;
        let is_device = kind.file_type().is_block_device();
        if !is_device && !kind.is_file() {
            return Err(StorageError::Kind(path.to_path_buf()));
        }
        let lock = if options.exclusive {
            let file = opening(0).open(path).map_err(failed("open it"))?;
            Some(Lock::take(file, path)?)
        } else {
            None
        };
        let size_bytes = (&buffered)
            .seek(SeekFrom::End(0))
            .map_err(failed("find its size"))?;
        // Refused by file systems that have no O_DIRECT: then all is buffered.
        let direct = if options.direct {
            opening(libc::O_DIRECT).open(path).ok()
        } else {
            None
        };
        let (block_bytes, memory_align_bytes) = match &direct {
            Some(file) => direct_alignment(file),
            None => (BUFFERED_BLOCK_BYTES, 1),
        };
        Ok(FileCore {
            info: TargetInfo {
                name: path.display().to_string(),
                block_bytes,
                memory_align_bytes,
                optimal_io_bytes: (kind.st_blksize() as u32).max(block_bytes),
                needs_flush: !is_device || device_caches_writes(kind.st_rdev()),
                read_only: options.read_only,
                access: String::new(),
            },
            buffered,
            direct,
            size: AtomicU64::new(size_bytes),
            is_device,
            _lock: lock,
        })
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        // Relaxed: whoever changes the size has nothing in flight near it.
        self.size.load(Ordering::Relaxed)
    }

    pub(crate) fn set_size(&self, size_bytes: u64) -> Result<(), StorageError> {
        if self.is_device {
            return Err(StorageError::FixedSize(self.info.name.clone()));
        }
        self.buffered
            .set_len(size_bytes)
            .map_err(|source| StorageError::File {
                path: self.info.name.clone().into(),
                doing: "change its size",
                source,
            })?;
        self.size.store(size_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// What `transfer`, a read or write, does next.
    pub(crate) fn next(&self, transfer: &Transfer) -> Next {
        let size = self.size_bytes();
        let (offset, remaining) = (transfer.offset, transfer.remaining_bytes);
        let writes = transfer.op == Op::Write;
        if remaining == 0 || (writes && offset >= size) {
            return Next::Done;
        }
        if offset >= size {
            return Next::Zeros;
        }
        let block = u64::from(self.info.block_bytes);
        let whole_end = size - size % block;
        if self.direct.is_none() || offset % block != 0 || (writes && offset >= whole_end) {
            Next::Step(Way::Buffered, remaining.min(size - offset))
        } else if writes {
            Next::Step(Way::Direct, remaining.min(whole_end - offset))
        } else {
            Next::Step(Way::Direct, remaining)
        }
    }

    /// Counts what a step moved. Nothing moved below the end means that the file has shrunk.
    pub(crate) fn account(&self, transfer: &mut Transfer, moved: u64) -> Result<(), Errno> {
        if moved == 0 {
            return Err(Errno::IO);
        }
        transfer.advance(moved.min(transfer.remaining_bytes));
        Ok(())
    }

    /// The file that a step takes.
    pub(crate) fn file(&self, way: Way) -> &File {
        match (way, &self.direct) {
            (Way::Direct, Some(direct)) => direct,
            _ => &self.buffered,
        }
    }
}

/// Block and memory alignment of O_DIRECT on this file in bytes.
fn direct_alignment(file: &File) -> (u32, u32) {
    let told = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, STATX_DIOALIGN)
        .ok()
        .filter(|s| s.stx_mask & STATX_DIOALIGN.bits() != 0)
        .filter(|s| s.stx_dio_offset_align.is_power_of_two());
    match told {
        Some(s) => (s.stx_dio_offset_align.max(512), s.stx_dio_mem_align.max(1)),
        None => {
            let block = rustix::fs::ioctl_blksszget(file.as_fd()).unwrap_or(UNKNOWN_BLOCK_BYTES);
            (block, block)
        }
    }
}

/// Whether a device may lose completed writes; the kernel says so in sysfs. Yes if it does not.
fn device_caches_writes(device: u64) -> bool {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let queue = |up: &str| format!("/sys/dev/block/{major}:{minor}/{up}queue/write_cache");
    let told = std::fs::read_to_string(queue(""))
        // A partition's queue is its disk's.
        .or_else(|_| std::fs::read_to_string(queue("../")));
    told.map_or(true, |text| text.trim() != "write through")
}
