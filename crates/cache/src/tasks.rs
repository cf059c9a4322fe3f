//! Files for tasks: nothing blocks the thread that polls a task.
//!
//! Problem: a read that misses waits for storage, and so may a write or a sync. A worker thread of an executor must not.
//!
//! Idea: what is in memory is copied at once, by the thread that polls. The rest is done by threads of its own ([`WaitingThreads`]),
//! and the task is woken when it is done. Only the channel that wakes it is tokio's: any executor will do.

use std::io;
use std::sync::Arc;

use tokio::sync::oneshot;
use wharf_runtime::worker::Pool;

use crate::{File, PageCacheError};

/// Threads that wait in the place of tasks, for any number of files: so many misses, writes and syncs are under way at a time,
/// and more wait for their turn. Clones are the same threads; they end with the last clone.
///
/// Each of them counts among [`threads_max`](crate::PageCacheOptions::threads_max), which should have room for the threads that poll, too:
/// one without a place finds nothing in memory, and has it read by these.
#[derive(Debug, Clone)]
pub struct WaitingThreads(Arc<Pool>);

impl WaitingThreads {
    /// Starts `threads` threads, at least one.
    ///
    /// # Errors
    /// If the system has none left to give.
    pub fn new(threads: u32) -> io::Result<WaitingThreads> {
        let pool = Pool::new("wharf-wait", threads.max(1))?;
        Ok(WaitingThreads(Arc::new(pool)))
    }

    /// Has one of the threads do `job`.
    async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = oneshot::channel();
        self.0.run(move || {
            // The task may have been dropped meanwhile.
            let _ = tell.send(job());
        });
        told.await.expect("a thread does all jobs that it takes")
    }
}

/// A file for tasks. Clones are the same handle. Dropping the last one may wait for storage: [`AsyncFile::close`] does that beside
/// the task.
///
/// A future that is dropped has its call go on, without anybody who hears of its outcome: a write that had begun is done.
#[derive(Debug, Clone)]
pub struct AsyncFile {
    file: Arc<File>,
    threads: WaitingThreads,
}

impl AsyncFile {
    /// `file` for tasks, which `threads` wait for.
    pub fn new(file: File, threads: &WaitingThreads) -> AsyncFile {
        AsyncFile {
            file: Arc::new(file),
            threads: threads.clone(),
        }
    }

    /// The handle itself, whose calls block.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The length in bytes, with what was written and not yet synced.
    pub fn len(&self) -> u64 {
        self.file.len()
    }

    /// True if the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.file.is_empty()
    }

    async fn run<T: Send + 'static>(&self, call: impl FnOnce(&File) -> T + Send + 'static) -> T {
        let file = self.file.clone();
        self.threads.run(move || call(&file)).await
    }

    /// As [`File::read_at`]. What is in memory is there without a wait.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub async fn read_at(&self, out: &mut [u8], offset: u64) -> Result<usize, PageCacheError> {
        let there = self.file.read_without_wait(out, offset)?;
        let from = offset.saturating_add(there as u64);
        let left = self.len().saturating_sub(from);
        let rest = left.min((out.len() - there) as u64) as usize;
        if rest == 0 {
            return Ok(there);
        }
        let read = self.run(move |file| {
            let mut bytes = vec![0; rest];
            let count = file.read_at(&mut bytes, from)?;
            bytes.truncate(count);
            Ok::<_, PageCacheError>(bytes)
        });
        let bytes = read.await?;
        out[there..there + bytes.len()].copy_from_slice(&bytes);
        Ok(there + bytes.len())
    }

    /// As [`File::read_exact_at`].
    ///
    /// # Errors
    /// As [`File::read_exact_at`].
    pub async fn read_exact_at(&self, out: &mut [u8], offset: u64) -> Result<(), PageCacheError> {
        match self.read_at(out, offset).await? == out.len() {
            true => Ok(()),
            false => Err(self
                .file
                .ends_before(offset.saturating_add(out.len() as u64))),
        }
    }

    /// As [`File::write_all_at`], of bytes that the call keeps until they are written: a `Vec`, `Bytes`, an `Arc<[u8]>`.
    ///
    /// # Errors
    /// As [`File::write_all_at`].
    pub async fn write_all_at(
        &self,
        data: impl AsRef<[u8]> + Send + 'static,
        offset: u64,
    ) -> Result<(), PageCacheError> {
        self.run(move |file| file.write_all_at(data.as_ref(), offset))
            .await
    }

    /// As [`File::sync_all`].
    ///
    /// # Errors
    /// As [`File::sync_all`].
    pub async fn sync_all(&self) -> Result<(), PageCacheError> {
        self.run(File::sync_all).await
    }

    /// As [`File::sync_data`].
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub async fn sync_data(&self) -> Result<(), PageCacheError> {
        self.run(File::sync_data).await
    }

    /// As [`File::set_len`].
    ///
    /// # Errors
    /// As [`File::set_len`].
    pub async fn set_len(&self, bytes: u64) -> Result<(), PageCacheError> {
        self.run(move |file| file.set_len(bytes)).await
    }

    /// As [`File::close`], of this clone: with other clones left it is [`AsyncFile::sync_all`].
    ///
    /// # Errors
    /// As [`File::close`].
    pub async fn close(self) -> Result<(), PageCacheError> {
        let AsyncFile { file, threads } = self;
        let close = move || match Arc::try_unwrap(file) {
            Ok(file) => file.close(),
            Err(shared) => shared.sync_all(),
        };
        threads.run(close).await
    }

    /// As [`File::read_bytes_at`].
    ///
    /// # Errors
    /// As [`File::read_at`].
    #[cfg(feature = "bytes")]
    pub async fn read_bytes_at(
        &self,
        count: usize,
        offset: u64,
    ) -> Result<bytes::Bytes, PageCacheError> {
        let left = self.len().saturating_sub(offset);
        let mut out = vec![0; left.min(count as u64) as usize];
        let there = self.read_at(&mut out, offset).await?;
        out.truncate(there);
        Ok(out.into())
    }
}
