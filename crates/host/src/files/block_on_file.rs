//! A block client over one big file: the way back, for whatever knows blocks alone.

use super::{Errno, FileClient, FileError, FileStatistics, Handle};
use crate::design::{Client, Counters, Gauges, Statistics, Touch};
use crate::error::IoError;
use crate::span::Extent;

/// The bytes of one file as those of a volume. The file's client is for it alone.
pub struct BlockOnFile<F: FileClient> {
    files: F,
    handle: Handle,
    bytes: u64,
    counters: Counters,
}

impl<F: FileClient> BlockOnFile<F> {
    /// A volume of `bytes` bytes, whole pages, in a file that is open for reading and writing. The file gets that size.
    ///
    /// # Errors
    /// As [`FileClient::set_len`].
    pub async fn new(files: F, handle: Handle, bytes: u64) -> Result<BlockOnFile<F>, FileError> {
        files.set_len(handle, bytes).await?;
        Ok(BlockOnFile {
            files,
            handle,
            bytes,
            counters: Counters::default(),
        })
    }

    /// The client of the file.
    pub fn files(&self) -> &F {
        &self.files
    }

    fn check(&self, extent: Extent) -> Result<(), IoError> {
        let end = extent.offset.checked_add(extent.bytes);
        if end.is_some_and(|end| end <= self.bytes) {
            return Ok(());
        }
        Err(IoError::OutOfRange {
            first: extent.first_page(),
            pages: extent.bytes / 4096,
            volume_pages: self.bytes / 4096,
        })
    }
}

/// An error of a file as one of storage.
fn failed(doing: &'static str, offset: u64) -> impl Fn(FileError) -> IoError {
    move |error| match error {
        FileError::Io(error) => error,
        FileError::Errno(errno) => IoError::System {
            doing,
            offset,
            errno: errno.number(),
        },
    }
}

impl<F: FileClient> Client for BlockOnFile<F> {
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        self.counters.reads.add(1);
        let read = async {
            self.check(extent)?;
            let read = self.files.read_at(self.handle, extent, out).await;
            Ok(read.map_err(failed("read", extent.offset))?.touch)
        };
        self.counters.end(read.await, |touch| *touch)
    }

    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        self.counters.writes.add(1);
        let write = async {
            self.check(extent)?;
            let written = self.files.write_at(self.handle, extent, data).await;
            written.map_err(failed("write", extent.offset))
        };
        self.counters.end(write.await, |touch| *touch)
    }

    #[inline]
    fn read_now(&self, extent: Extent, out: &mut [u8]) -> bool {
        let is_read = self.check(extent).is_ok()
            && self.files.read_now(self.handle, extent, out) == Some(extent.bytes);
        self.counters.reads.add(u64::from(is_read));
        is_read
    }

    #[inline]
    fn write_now(&self, extent: Extent, data: &[u8]) -> bool {
        let is_written =
            self.check(extent).is_ok() && self.files.write_now(self.handle, extent, data);
        self.counters.writes.add(u64::from(is_written));
        is_written
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.flush_extent(Extent::new(0, self.bytes)).await
    }

    async fn flush_extent(&self, extent: Extent) -> Result<(), IoError> {
        self.counters.flushes.add(1);
        let flush = async {
            self.check(extent)?;
            let synced = self.files.sync(self.handle, extent, true).await;
            synced.map_err(failed("flush", 0))
        };
        self.counters.end(flush.await, |()| Touch::default())
    }

    async fn discard(&self, extent: Extent) -> Result<(), IoError> {
        self.counters.discards.add(1);
        let discard = async {
            self.check(extent)?;
            match self.files.punch(self.handle, extent.whole_pages()).await {
                // They may hold anything: also what they held.
                Err(error) if error.errno() == Errno::EOPNOTSUPP => Ok(()),
                done => done.map_err(failed("discard", extent.offset)),
            }
        };
        self.counters.end(discard.await, |()| Touch::default())
    }

    async fn release(&self) -> Result<(), IoError> {
        let released = self.files.release().await;
        released.map_err(failed("release", 0))
    }

    fn statistics(&self) -> Statistics {
        let mut statistics = self.counters.own();
        let FileStatistics { blocks, .. } = self.files.statistics();
        statistics.driver = blocks.driver;
        statistics.near_hits = blocks.near_hits;
        statistics.window_hits = blocks.window_hits;
        statistics
    }

    fn gauges(&self) -> Gauges {
        self.files.gauges()
    }
}
