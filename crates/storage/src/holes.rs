//! Parts of a file or device that take no room: making them, and finding them.
//!
//! These are calls on the file system that may take a while, so they are not I/Os of a channel: who must not
//! wait makes them on a thread beside. A file system that cannot says so (`EOPNOTSUPP`).

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;

use crate::file::FileCore;

/// Storage that has holes.
pub trait Holes: Send + Sync {
    /// Makes a hole, which reads as zeros. Durable after the next flush.
    ///
    /// # Errors
    /// What the system says.
    fn punch(&self, offset: u64, len_bytes: u64) -> Result<(), Errno>;

    /// Makes zeros that have room of their own, without writing them. Durable after the next flush.
    ///
    /// # Errors
    /// What the system says.
    fn zero(&self, offset: u64, len_bytes: u64) -> Result<(), Errno>;

    /// Whether [`Holes::zero`] is quick where it is not refused.
    fn zeroes_quickly(&self) -> bool;

    /// What lies at byte `offset`: whether it is data, and how far that goes, to the end of the storage at
    /// most. What is no data reads as zeros.
    ///
    /// # Errors
    /// What the system says.
    fn run(&self, offset: u64) -> Result<(bool, u64), Errno>;
}

impl Holes for FileCore {
    fn punch(&self, offset: u64, len_bytes: u64) -> Result<(), Errno> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.buffered, flags, offset, len_bytes)
    }

    fn zero(&self, offset: u64, len_bytes: u64) -> Result<(), Errno> {
        let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.buffered, flags, offset, len_bytes)
    }

    fn zeroes_quickly(&self) -> bool {
        // The kernel writes zeros to devices that cannot.
        !self.is_device()
    }

    fn run(&self, offset: u64) -> Result<(bool, u64), Errno> {
        let size = self.size_bytes();
        if offset >= size || self.is_device() {
            return Ok((offset < size, size));
        }
        // The position of the descriptor is nobody's: all I/O says where it goes.
        let data = match seek(&self.buffered, SeekFrom::Data(offset)) {
            Ok(data) => data,
            // No data up to the end.
            Err(Errno::NXIO) => return Ok((false, size)),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok((true, size)),
            Err(errno) => return Err(errno),
        };
        if data > offset {
            return Ok((false, data.min(size)));
        }
        let hole = seek(&self.buffered, SeekFrom::Hole(offset))?;
        // A file that others write to while one looks may have changed in between.
        Ok((true, hole.clamp(offset + 1, size)))
    }
}
