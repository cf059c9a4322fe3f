//! Files and block devices: opening them, what they are, and which way each part of an I/O takes.
//!
//! Problem: O_DIRECT moves whole blocks only, and a file may end within one. A direct write of the last
//! block would make the file longer; a direct read that stopped short cannot go on from there.
//!
//! Idea: a file is opened twice, with O_DIRECT and through the kernel's cache, and each step of an
//! I/O takes the direct way if it may. Linux keeps the two coherent: a direct read writes
//! back what the cache holds of its range first, a direct write drops it.
//!
//! 1. A write to a file that ends within a block takes the direct way up to the last whole page and
//!    the buffered way to the end, so that a kill in between leaves no page in halves; what lies
//!    beyond is dropped.
//! 2. A read takes the direct way, ends short at the end of the file, and gets zeros from there.
//! 3. A step that stopped within a block goes on the buffered way.
//!
//! Where the file system has no O_DIRECT, all of it is buffered, and the target says so.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, FallocateFlags, StatxFlags};
use rustix::io::Errno;
use wharf_runtime::sync::{AtomicU64, Ordering};

use crate::calls::CallsChannel;
use crate::error::StorageError;
use crate::group::PollGroup;
use crate::holes::Holes;
use crate::io::Op;
use crate::opening::{Lock, Opened, failed};
use crate::target::{Channel, Target, TargetInfo, check_depth};
use crate::threads::{Pool, Serve, ThreadsChannel};
use crate::transfer::Transfer;
use crate::uring::{self, UringChannel};

/// The block of a file without O_DIRECT in bytes: what every file system's own blocks are multiples of.
const BUFFERED_BLOCK_BYTES: u32 = 512;
/// The block where the system does not tell (before Linux 6.1) in bytes: no device in use has larger ones.
const UNKNOWN_BLOCK_BYTES: u32 = 4096;
/// A page in bytes: what programs expect to find old or new after a kill.
const PAGE_BYTES: u64 = 4096;
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
    /// Refuse to open a file that is there: make it. Wants `create_bytes`.
    pub must_be_new: bool,
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
            must_be_new: false,
            direct: true,
            exclusive: false,
            engine: Engine::Auto,
            threads: 8,
        }
    }
}

/// Opens a file or a block device.
pub fn open(path: &Path, options: &FileOptions) -> Result<Arc<dyn Target>, StorageError> {
    Opened::new(path, options)?.target()
}

/// A file or device as a target.
pub(crate) struct FileTarget {
    core: Arc<FileCore>,
    /// The threads that do its I/Os; by io_uring if there are none.
    pool: Option<Arc<Pool>>,
}

impl FileTarget {
    pub(crate) fn new(opened: Opened) -> Result<FileTarget, StorageError> {
        let threads = opened.options.threads;
        let uring = match opened.options.engine {
            Engine::Threads => false,
            Engine::Auto => uring::capabilities().available(),
            Engine::Uring => {
                uring::capabilities().require()?;
                true
            }
        };
        let mut core = FileCore::new(opened)?;
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
            false => Some(Pool::new(&(core.clone() as Arc<dyn Serve>), threads)?),
        };
        Ok(FileTarget { core, pool })
    }
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

    fn grow(&self, size_bytes: u64) -> Result<(), StorageError> {
        self.core.grow(size_bytes)
    }

    fn trim(&self, size_bytes: u64) -> Result<(), StorageError> {
        self.core.trim(size_bytes)
    }

    fn holes(&self) -> Option<&dyn Holes> {
        Some(&*self.core)
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        check_depth(depth)?;
        let core = self.core.clone();
        Ok(match &self.pool {
            Some(pool) => Box::new(ThreadsChannel::new(core, pool.clone(), depth)),
            None => Box::new(UringChannel::new(core, depth)?),
        })
    }

    fn channel_in(&self, group: &PollGroup, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        check_depth(depth)?;
        Ok(match &self.pool {
            Some(pool) => {
                let core: Arc<dyn Serve> = self.core.clone();
                Box::new(ThreadsChannel::of_group(&core, pool, depth))
            }
            // Without a descriptor, or the right to so much memory, I/Os are done one by one.
            None => match group.ring() {
                Ok(ring) => Box::new(UringChannel::of_ring(ring, &self.core, depth)),
                Err(_) => Box::new(CallsChannel::new(&self.core, depth)),
            },
        })
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
    fn new(opened: Opened) -> Result<FileCore, StorageError> {
        let (path, is_device) = (&opened.path, opened.is_device());
        let lock = opened.lock()?;
        let size_bytes = (&opened.file)
            .seek(SeekFrom::End(0))
            .map_err(failed(path, "find its size"))?;
        // Refused by file systems that have no O_DIRECT: then all is buffered.
        let direct = if opened.options.direct {
            opened.again(libc::O_DIRECT).ok()
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
                optimal_io_bytes: (opened.kind.st_blksize() as u32).max(block_bytes),
                needs_flush: !is_device || device_caches_writes(opened.kind.st_rdev()),
                read_only: opened.options.read_only,
                access: String::new(),
            },
            buffered: opened.file,
            direct,
            size: AtomicU64::new(size_bytes),
            is_device,
            _lock: lock,
        })
    }

    pub(crate) fn is_device(&self) -> bool {
        self.is_device
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
            .map_err(failed(self.info.name.as_ref(), "change its size"))?;
        self.size.store(size_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Makes it smaller if nobody else has made it longer.
    fn trim(&self, size_bytes: u64) -> Result<(), StorageError> {
        let there = self.buffered.metadata();
        let there = there.map_err(failed(self.info.name.as_ref(), "ask for its size"))?;
        match there.len() > self.size_bytes() {
            true => Ok(()),
            false => self.set_size(size_bytes),
        }
    }

    /// Makes it at least so large. What others have appended meanwhile stays: `ftruncate` would cut
    /// it off, and allocating the last byte changes no byte that is there.
    fn grow(&self, size_bytes: u64) -> Result<(), StorageError> {
        if self.is_device && size_bytes > self.size_bytes() {
            return Err(StorageError::FixedSize(self.info.name.clone()));
        }
        if size_bytes <= self.size_bytes() {
            return Ok(());
        }
        let last = size_bytes - 1;
        let grown = match rustix::fs::fallocate(&self.buffered, FallocateFlags::empty(), last, 1) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.write_last(last),
            other => other.map_err(Into::into),
        };
        grown.map_err(failed(self.info.name.as_ref(), "change its size"))?;
        self.size.fetch_max(size_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Grows where the file system cannot allocate: writes byte `last`, unless the file goes so far
    /// by now.
    fn write_last(&self, last: u64) -> std::io::Result<()> {
        match self.buffered.metadata()?.len() > last {
            true => Ok(()),
            false => self.buffered.write_all_at(&[0], last),
        }
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
        let whole_end = match size % block {
            0 => size,
            _ => size - size % block.max(PAGE_BYTES),
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{Io, Segment};

    /// A file of 3,000 bytes had its last page written in two I/Os where blocks are of 512 bytes:
    /// 2,560 direct, and 440 by the kernel's cache. A kill in between left a page that was neither
    /// old nor new.
    #[test]
    fn a_page_at_the_end_of_a_file_went_out_in_two_parts() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = FileOptions {
            create_bytes: Some(4096 + 3000),
            ..FileOptions::default()
        };
        let opened = Opened::new(&folder.path().join("file"), &options).expect("a file");
        let other = opened.again(0).expect("the same file");
        let mut core = FileCore::new(opened).expect("a file");
        // Whatever this file system has.
        core.info.block_bytes = 512;
        core.direct = Some(other);
        let mut memory = [0; 8192];
        let mut transfer = Transfer::idle();
        transfer.begin(&Io::write(0, &[Segment::of(&mut memory)], 0));
        assert_eq!(core.next(&transfer), Next::Step(Way::Direct, 4096));
        transfer.advance(4096);
        assert_eq!(core.next(&transfer), Next::Step(Way::Buffered, 3000));
        // One that ends with a block has none.
        core.set_size(4096 + 1024).expect("its size");
        assert_eq!(core.next(&transfer), Next::Step(Way::Direct, 1024));
    }
}
