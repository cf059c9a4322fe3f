//! The trait, and what each of its operations promises.
//!
//! **Semantics** are those of POSIX for one process's view of a file system, with the errors of Linux where POSIX leaves a
//! choice. Paths are absolute, of bytes, at most [`PATH_BYTES_MAX`](wharf_files::PATH_BYTES_MAX) long, their components at most [`NAME_BYTES_MAX`](wharf_files::NAME_BYTES_MAX)
//! (`ENAMETOOLONG`); `.` and `..` mean what they mean everywhere; at most [`SYMLINKS_MAX`](wharf_files::SYMLINKS_MAX) symbolic links are
//! followed (`ELOOP`). A path that ends in `/` names a directory, or nothing.
//!
//! **Order.** An operation takes effect at one instant between its call and its end, for all clients alike; for reads and
//! writes of data this holds for each page of 4096 bytes, not for the whole request. `append` is the exception that programs rely on:
//! no other write comes between the look at the end of the file and the bytes written there.
//!
//! **Durability.** Operations on names and attributes are durable in the order of their completion. `sync` makes durable the
//! file's data, its metadata, and every operation on names that was completed before; with `data_only`, its data and
//! what reading it needs (its size). After a power cut the names are those after some prefix of the completed operations, one
//! that has all before the last `sync`; and each page of data that was not made durable is old, new, or zeros where it
//! was not there before: never another file's bytes. [`FileClient::is_durable`] says whether an implementation has this part.
//!
//! **Payloads** are as those of block clients: as many bytes as are asked for, or 8 for each touched page where pages are
//! stamps. A request names its bytes in the file; a read that ends at the end of the file fills the first part of its payload.

use wharf_compute::{Function, Neighbour, crc32c};
use wharf_files::{Attributes, DirectoryEntry, Errno, Handle, OpenFlags, Rename, SetAttributes};
use wharf_runtime::{Cpu, Op};
use wharf_wire::dma::PAGE_BYTES;

use crate::design::{Gauges, Statistics, Touch};
use crate::error::IoError;
use crate::span::Extent;

/// Why an operation on a file failed.
pub type FileError = wharf_files::FileError<IoError>;

impl From<IoError> for FileError {
    fn from(error: IoError) -> FileError {
        FileError::Io(error)
    }
}

/// A file that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// For what is to be done with it.
    pub handle: Handle,
    /// Which file it is: [`Attributes::number`].
    pub number: u64,
    /// Whether it was made.
    pub is_new: bool,
}

/// How a read ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transfer {
    /// Bytes from the first one asked for up to the last one asked for, or the end of the file.
    pub bytes: u64,
    /// What the cache had.
    pub touch: Touch,
}

/// How an append ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Appended {
    /// Where in the file its first byte is.
    pub offset: u64,
    /// What the cache had.
    pub touch: Touch,
}

/// How computing a checksum ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summed {
    /// Bytes from the first one asked for up to the last one asked for, or the end of the file.
    pub bytes: u64,
    /// The CRC-32C of their payload.
    pub crc: u32,
    /// What the cache had.
    pub touch: Touch,
}

/// What vectors of a file are near to.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Vectors of little-endian `f32`, one behind the other.
    pub vectors: &'a [u8],
    /// Bytes of each of them, and of those of the file.
    pub vector_bytes: usize,
    /// How many of the nearest are wanted, for each of them.
    pub count: u32,
}

/// How a search for the nearest ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// Bytes from the first one asked for up to the last one asked for, or the end of the file.
    pub bytes: u64,
    /// For each vector of the query the nearest, by their numbers from the first vector of the range on; none where pages are stamps, which
    /// have no vectors.
    pub nearest: Vec<Vec<Neighbour>>,
    /// What the cache had.
    pub touch: Touch,
}

impl Query<'_> {
    /// Its vectors.
    ///
    /// # Errors
    /// `EINVAL` of what is no query.
    pub fn each(&self) -> Result<std::slice::ChunksExact<'_, u8>, Errno> {
        let is_right = self.vector_bytes > 0
            && !self.vectors.is_empty()
            && self.vectors.len().is_multiple_of(self.vector_bytes);
        match is_right {
            true => Ok(self.vectors.chunks_exact(self.vector_bytes)),
            false => Err(Errno::EINVAL),
        }
    }

    /// For each of its vectors the nearest of the whole vectors in `data`.
    ///
    /// # Errors
    /// `EINVAL` of what is no query.
    pub fn nearest_of(&self, data: &[u8]) -> Result<Vec<Vec<Neighbour>>, Errno> {
        let vectors = self.each()?;
        let data = &data[..data.len() - data.len() % self.vector_bytes];
        let nearest = |vector| {
            let found = wharf_compute::whole(Function::Nearest, vector, self.count, data);
            let (_, bytes) = found.map_err(|_| Errno::EINVAL)?;
            Ok(Neighbour::all_of(&bytes))
        };
        vectors.map(nearest).collect()
    }
}

macro_rules! file_statistics {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a client did.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct FileStatistics {
            $($(#[$doc])* pub $name: u64,)*
            /// What was asked of the storage below, where that is a block client.
            pub blocks: Statistics,
        }

        impl FileStatistics {
            /// Adds what another client did.
            pub fn merge(&mut self, other: &FileStatistics) {
                $(self.$name += other.$name;)*
                self.blocks.merge(&other.blocks);
            }
        }
    };
}

file_statistics! {
    /// Files opened, those that were made among them.
    opens,
    /// Reads.
    reads,
    /// Writes and appends.
    writes,
    /// Times that data was made durable.
    syncs,
    /// Other operations on open files: attributes, sizes, holes, closing.
    others,
    /// Operations on names: made, removed, renamed, looked up, listed.
    names,
    /// Times that an operation waited for another one on the same file.
    waits,
    /// Operations that failed.
    failures,
}

/// What one CPU uses of a file system. Operations of several tasks may be under way.
#[allow(async_fn_in_trait)] // the futures stay on their CPU: no Send is wanted
pub trait FileClient: 'static {
    /// Whether what is said of durability holds: false for an implementation that forgets all when its process ends.
    fn is_durable(&self) -> bool;

    /// Opens what `path` names. A file that is made has the permission bits `mode`.
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, `ENOTDIR`, `EISDIR` (a directory opened for writing, or to be made), `ELOOP`, `ENAMETOOLONG`,
    /// `EACCES`, `EINVAL`, `ENOSPC`, `ENFILE`.
    async fn open(&self, path: &[u8], flags: OpenFlags, mode: u16) -> Result<Opened, FileError>;

    /// Gives a handle back. The last one of a file without a name gives its storage back too. Nothing is made durable by it.
    ///
    /// # Errors
    /// `EBADF`. Any other error leaves the handle closed all the same.
    async fn close(&self, handle: Handle) -> Result<(), FileError>;

    /// Reads `extent` of the file as far as it goes: no bytes at or beyond its end. Holes are zeros.
    ///
    /// # Errors
    /// `EBADF` (also if it was not opened for reading), `EISDIR`, `EINVAL` (a payload that does not fit), `EIO`.
    async fn read_at(
        &self,
        handle: Handle,
        extent: Extent,
        out: &mut [u8],
    ) -> Result<Transfer, FileError>;

    /// Writes all of `extent`, or fails; the file ends where it did, or behind it. A gap before it reads as zeros.
    /// With `append` among the handle's flags it is written at the end, whatever its offset.
    ///
    /// # Errors
    /// `EBADF` (also if it was not opened for writing), `EINVAL`, `EFBIG`, `ENOSPC`; `EIO`: each page then holds its old or its
    /// new content.
    async fn write_at(
        &self,
        handle: Handle,
        extent: Extent,
        data: &[u8],
    ) -> Result<Touch, FileError>;

    /// Reads `extent` of the file as far as it goes, computes the CRC-32C of that, and writes the same bytes back, into `room`, which has room for the
    /// payload. Where that is computed is up to the implementation; what another client writes there meanwhile may be lost.
    ///
    /// # Errors
    /// As [`FileClient::read_at`] and [`FileClient::write_at`].
    async fn crc_write(
        &self,
        cpu: &Cpu,
        handle: Handle,
        extent: Extent,
        room: &mut [u8],
    ) -> Result<Summed, FileError> {
        let whole = room.len() as u64;
        let read = self.read_at(handle, extent, room).await?;
        let payload = whole * read.bytes / extent.bytes.max(1);
        let data = &room[..payload as usize];
        let pages = data.len().div_ceil(PAGE_BYTES) as u32;
        let crc = cpu.work_n(Op::ChecksumPage, pages, || crc32c(data));
        let there = Extent::new(extent.offset, read.bytes);
        if read.bytes > 0 {
            self.write_at(handle, there, data).await?;
        }
        Ok(Summed {
            bytes: read.bytes,
            crc,
            touch: read.touch,
        })
    }

    /// Finds the vectors of `extent` that are nearest to each of some, as far as the file goes, with `room` for the payload: what lies behind
    /// the last whole vector is none. Where that is computed is up to the implementation, in parts or as one.
    ///
    /// # Errors
    /// As [`FileClient::read_at`]; `EINVAL` of what is no query.
    async fn nearest(
        &self,
        cpu: &Cpu,
        handle: Handle,
        extent: Extent,
        query: Query<'_>,
        room: &mut [u8],
    ) -> Result<Found, FileError> {
        let read = self.read_at(handle, extent, room).await?;
        let data = match room.len() as u64 == extent.bytes {
            true => &room[..read.bytes as usize],
            false => &[],
        };
        let pages = read.bytes.div_ceil(PAGE_BYTES as u64) as u32 * query.each()?.len() as u32;
        let nearest = cpu.work_n(Op::DistancePage, pages, || query.nearest_of(data));
        Ok(Found {
            bytes: read.bytes,
            nearest: nearest?,
            touch: read.touch,
        })
    }

    /// Reads, if that can be done at once: an ordinary function, without a task or a command. `None` if it cannot, and then
    /// nothing was done.
    #[inline]
    fn read_now(&self, _handle: Handle, _extent: Extent, _out: &mut [u8]) -> Option<u64> {
        None
    }

    /// As [`FileClient::read_now`], for a write; false if nothing was done.
    #[inline]
    fn write_now(&self, _handle: Handle, _extent: Extent, _data: &[u8]) -> bool {
        false
    }

    /// Writes `bytes` bytes at the end of the file, wherever that is, and says where that was. Where pages are stamps, files
    /// end with a page, and `bytes` are whole pages (`EINVAL`).
    ///
    /// # Errors
    /// As for a write.
    async fn append(&self, handle: Handle, bytes: u64, data: &[u8]) -> Result<Appended, FileError>;

    /// Sets the size. What is cut off is gone; what is gained reads as zeros, also where bytes were before.
    ///
    /// # Errors
    /// `EBADF`, `EFBIG`, `EINVAL`, `EIO`.
    async fn set_len(&self, handle: Handle, bytes: u64) -> Result<(), FileError>;

    /// Gives the storage of a range back: it reads as zeros, and the size stays (`FALLOC_FL_PUNCH_HOLE`).
    ///
    /// # Errors
    /// `EBADF`, `EIO`, `EOPNOTSUPP`.
    async fn punch(&self, handle: Handle, extent: Extent) -> Result<(), FileError>;

    /// Makes durable what was written to a range, by any client and before the call; see the module for the rest. The whole file:
    /// from 0, `u64::MAX` bytes.
    ///
    /// # Errors
    /// `EBADF`; `EIO` if something could not be written since this client's last look, as `fsync` reports it once.
    async fn sync(&self, handle: Handle, extent: Extent, data_only: bool) -> Result<(), FileError>;

    /// Makes everything durable.
    ///
    /// # Errors
    /// As for [`FileClient::sync`].
    async fn sync_all(&self) -> Result<(), FileError>;

    /// The attributes of an open file.
    ///
    /// # Errors
    /// `EBADF`.
    async fn attributes(&self, handle: Handle) -> Result<Attributes, FileError>;

    /// The attributes of what `path` names; of a symbolic link itself if `follow` is false.
    ///
    /// # Errors
    /// Those of a walk: `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`, `EACCES`.
    async fn stat(&self, path: &[u8], follow: bool) -> Result<Attributes, FileError>;

    /// Sets attributes of what `path` names.
    ///
    /// # Errors
    /// Those of a walk; `EPERM` (an owner or a group that this caller may not give).
    async fn set_attributes(&self, path: &[u8], set: SetAttributes) -> Result<(), FileError>;

    /// Adds up to `most` entries of an open directory to `entries`, those behind `cookie` in its order, which is
    /// [`LIST_START`](wharf_files::LIST_START) or that of an entry. An entry that is there from before the first call until after the last comes
    /// exactly once, whatever is made and removed beside it. `.` and `..` are none. True if there are no more.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR`.
    async fn list(
        &self,
        handle: Handle,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError>;

    /// Makes a directory.
    ///
    /// # Errors
    /// Those of a walk; `EEXIST`, `EMLINK`, `ENOSPC`.
    async fn mkdir(&self, path: &[u8], mode: u16) -> Result<(), FileError>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Those of a walk; `ENOTDIR`, `ENOTEMPTY`, `EINVAL` (`.`), `EBUSY` (the root).
    async fn rmdir(&self, path: &[u8]) -> Result<(), FileError>;

    /// Removes a name. A file without names stays for those who have it open, and is gone with the last of them.
    ///
    /// # Errors
    /// Those of a walk; `EISDIR`.
    async fn remove(&self, path: &[u8]) -> Result<(), FileError>;

    /// Gives a file or directory another name, in one step. Both names of one file already: nothing happens.
    ///
    /// # Errors
    /// Those of a walk; `EEXIST`, `EISDIR`, `ENOTDIR`, `ENOTEMPTY`, `EINVAL` (a directory into itself, or what
    /// `how` asks for is not served), `EBUSY`.
    async fn rename(&self, from: &[u8], to: &[u8], how: Rename) -> Result<(), FileError>;

    /// Gives a file one more name; of a symbolic link, the link itself.
    ///
    /// # Errors
    /// Those of a walk; `EEXIST`, `EPERM` (a directory), `EMLINK`, `ENOSPC`.
    async fn link(&self, from: &[u8], to: &[u8]) -> Result<(), FileError>;

    /// Makes a symbolic link at `path` that leads to `target`, which need not be there.
    ///
    /// # Errors
    /// Those of a walk; `EEXIST`, `ENOENT` (an empty target), `ENAMETOOLONG`, `ENOSPC`.
    async fn symlink(&self, target: &[u8], path: &[u8]) -> Result<(), FileError>;

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// Those of a walk; `EINVAL` if it is none.
    async fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, FileError>;

    /// Gives back what the client holds of the storage. It has no operation under way, and gets none after that.
    ///
    /// # Errors
    /// If the storage does not take it back.
    async fn release(&self) -> Result<(), FileError> {
        Ok(())
    }

    /// What this client did so far.
    fn statistics(&self) -> FileStatistics;

    /// What it reports so far beyond that, as [`Client::gauges`](crate::design::Client::gauges).
    fn gauges(&self) -> Gauges {
        Gauges::none()
    }
}
