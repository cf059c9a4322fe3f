//! Files with a cache, or none, as whoever is given any file client has them.

use std::rc::Rc;
use std::sync::Arc;

use wharf_files::{Attributes, DirectoryEntry, Handle, OpenFlags, Rename, SetAttributes, Sync};
use wharf_runtime::Cpu;

use super::compute::{Compute, DRIVE_BYTES_MAX, Decisions, Refusals};
use super::data::At;
use super::opened::Open;
use super::process::Process;
use super::thread::Cached;
use crate::design::{Amount, Gauges, Touch};
use crate::files::{
    Appended, FileClient, FileError, FileStatistics, Found, Opened, Query, Summed, Transfer,
};
use crate::span::Extent;
use crate::stor::StorClient;
use crate::stor::client::fits;

/// Files of a file system in the drive, with a cache before them or none.
pub struct StorFiles {
    client: StorClient,
    cached: Option<Rc<Cached>>,
    /// Who computes, where there is no cache: the drive, unless it is to be the host.
    computes: bool,
    /// What the drive refused to compute, where there is no cache.
    refusals: Refusals,
}

impl StorFiles {
    /// Files without a cache.
    pub fn uncached(client: StorClient, compute: Compute) -> StorFiles {
        StorFiles {
            client,
            cached: None,
            computes: compute != Compute::Host,
            refusals: Refusals::default(),
        }
    }

    /// Files with the cache of a process, for its thread number `thread`.
    pub(in crate::stor) fn cached(
        client: StorClient,
        process: &Arc<Process>,
        thread: u32,
    ) -> StorFiles {
        let cached = Cached::start(&client, process, thread);
        StorFiles {
            client,
            cached: Some(cached),
            computes: false,
            refusals: Refusals::default(),
        }
    }

    /// The client that sends the commands.
    pub fn client(&self) -> &StorClient {
        &self.client
    }
}

/// Does something with an open file of the cache and counts it, or passes it on to the client.
macro_rules! cached {
    ($self:ident, $handle:expr, $count:ident, |$cached:ident, $file:ident| $done:expr, else $else:expr) => {{
        let found = match &$self.cached {
            Some(cached) => cached.find($handle).map(|open| Some((cached, open))),
            None => Ok(None),
        };
        match found {
            Ok(Some(($cached, Open::File($file)))) => {
                let done = $done;
                $self.client.note(|all| &mut all.$count, done)
            }
            Err(errno) => $self.client.note(|all| &mut all.$count, Err(errno.into())),
            Ok(_) => $else,
        }
    }};
}

impl StorFiles {
    /// Pages of an open file that both the host's cache and the drive's have: none, where each page is in one of both
    /// ([`CacheMode::Near`](super::CacheMode::Near)). Takes a command for each page that is here.
    ///
    /// # Errors
    /// `EBADF` if there is no such file in the cache; errors of the drive.
    pub async fn pages_in_both(&self, handle: Handle) -> Result<u64, FileError> {
        let cached = self.cached.as_ref();
        match cached.and_then(|cached| Some((cached, cached.find_file(handle)?))) {
            Some((cached, file)) => cached.pages_in_both(&file).await,
            None => Err(wharf_files::Errno::EBADF.into()),
        }
    }
}

impl FileClient for StorFiles {
    fn is_durable(&self) -> bool {
        true
    }

    async fn open(&self, path: &[u8], flags: OpenFlags, mode: u16) -> Result<Opened, FileError> {
        match &self.cached {
            Some(cached) => {
                let opened = cached.open(path, flags, mode).await;
                self.client.note(|all| &mut all.opens, opened)
            }
            None => FileClient::open(&self.client, path, flags, mode).await,
        }
    }

    async fn close(&self, handle: Handle) -> Result<(), FileError> {
        match &self.cached {
            Some(cached) => {
                let closed = cached.close(handle).await;
                self.client.note(|all| &mut all.others, closed)
            }
            None => FileClient::close(&self.client, handle).await,
        }
    }

    async fn read_at(
        &self,
        handle: Handle,
        extent: Extent,
        out: &mut [u8],
    ) -> Result<Transfer, FileError> {
        cached!(self, handle, reads, |cached, file| cached.read(&file, extent, out).await,
            else self.client.read_at(handle, extent, out).await)
    }

    async fn write_at(
        &self,
        handle: Handle,
        extent: Extent,
        data: &[u8],
    ) -> Result<Touch, FileError> {
        cached!(self, handle, writes, |cached, file| {
            match fits(extent, data.len()) {
                Ok(()) if cached.write_at_once(&file, extent, data) => Ok(Touch::found(false)),
                Ok(()) => {
                    let written = cached.write(&file, At::Offset(extent.offset), data).await;
                    written.map(|(_, touch)| touch)
                }
                Err(errno) => Err(errno.into()),
            }
        }, else self.client.write_at(handle, extent, data).await)
    }

    async fn crc_write(
        &self,
        cpu: &Cpu,
        handle: Handle,
        extent: Extent,
        room: &mut [u8],
    ) -> Result<Summed, FileError> {
        fits(extent, room.len())?;
        if let Some(cached) = &self.cached
            && let Some(file) = cached.find_file(handle)
        {
            let done = cached.crc_write(&file, extent, room).await;
            return self.client.note(|all| &mut all.writes, done);
        }
        if self.computes && extent.bytes <= DRIVE_BYTES_MAX {
            let done = self.client.crc_write_past(handle, extent, &self.refusals);
            if let Some(done) = done.await.transpose() {
                return self.client.note(|all| &mut all.writes, done);
            }
        }
        self.client.crc_write(cpu, handle, extent, room).await
    }

    async fn nearest(
        &self,
        cpu: &Cpu,
        handle: Handle,
        extent: Extent,
        query: Query<'_>,
        room: &mut [u8],
    ) -> Result<Found, FileError> {
        fits(extent, room.len())?;
        if let Some(cached) = &self.cached
            && let Some(file) = cached.find_file(handle)
        {
            let done = cached.nearest(&file, extent, query, room).await;
            return self.client.note(|all| &mut all.reads, done);
        }
        if self.computes {
            let done = self
                .client
                .nearest_past(handle, extent, query, &self.refusals)
                .await;
            if let Some(found) = self.client.note(|all| &mut all.reads, done)? {
                return Ok(found);
            }
        }
        self.client.nearest(cpu, handle, extent, query, room).await
    }

    #[inline]
    fn read_now(&self, handle: Handle, extent: Extent, out: &mut [u8]) -> Option<u64> {
        let cached = self.cached.as_ref()?;
        let file = cached.find_file(handle)?;
        let read = cached.read_at_once(&file, extent, out)?;
        self.client.entered();
        Some(read.bytes)
    }

    #[inline]
    fn write_now(&self, handle: Handle, extent: Extent, data: &[u8]) -> bool {
        let Some(cached) = &self.cached else {
            return false;
        };
        let file = cached.find_file(handle);
        let is_written = file.is_some_and(|file| cached.write_at_once(&file, extent, data));
        if is_written {
            self.client.entered();
        }
        is_written
    }

    async fn append(&self, handle: Handle, bytes: u64, data: &[u8]) -> Result<Appended, FileError> {
        cached!(self, handle, writes, |cached, file| {
            match fits(Extent::new(0, bytes), data.len()) {
                Ok(()) => {
                    let written = cached.write(&file, At::End, data).await;
                    written.map(|(offset, touch)| Appended { offset, touch })
                }
                Err(errno) => Err(errno.into()),
            }
        }, else FileClient::append(&self.client, handle, bytes, data).await)
    }

    async fn set_len(&self, handle: Handle, bytes: u64) -> Result<(), FileError> {
        cached!(self, handle, others, |cached, file| {
            match file.can_write {
                true => cached.cut(&file, bytes).await,
                // It says which error that is.
                false => self.client.truncate_open(handle, bytes).await,
            }
        }, else self.client.set_len(handle, bytes).await)
    }

    async fn punch(&self, handle: Handle, extent: Extent) -> Result<(), FileError> {
        cached!(self, handle, others, |cached, file| {
            match file.can_write {
                true => cached.punch(&file, extent).await,
                false => Err(wharf_files::Errno::EBADF.into()),
            }
        }, else self.client.punch(handle, extent).await)
    }

    async fn sync(&self, handle: Handle, extent: Extent, data_only: bool) -> Result<(), FileError> {
        let what = match data_only {
            true => Sync::Data,
            false => Sync::All,
        };
        cached!(self, handle, syncs, |cached, file| cached.sync(&file, what).await,
            else FileClient::sync(&self.client, handle, extent, data_only).await)
    }

    async fn sync_all(&self) -> Result<(), FileError> {
        let written = match &self.cached {
            Some(cached) => cached.write_back_all().await,
            None => Ok(()),
        };
        let synced = FileClient::sync_all(&self.client).await;
        written.and(synced)
    }

    async fn attributes(&self, handle: Handle) -> Result<Attributes, FileError> {
        cached!(self, handle, others, |cached, file| cached.attributes(&file).await,
            else self.client.attributes(handle).await)
    }

    async fn stat(&self, path: &[u8], follow: bool) -> Result<Attributes, FileError> {
        match &self.cached {
            Some(cached) => {
                let found = cached.stat(path, follow).await;
                self.client.note(|all| &mut all.names, found)
            }
            None => FileClient::stat(&self.client, path, follow).await,
        }
    }

    async fn set_attributes(&self, path: &[u8], set: SetAttributes) -> Result<(), FileError> {
        if let Some(cached) = &self.cached {
            cached.settle(path, &set).await?;
        }
        self.client.set_attributes(path, set).await
    }

    async fn list(
        &self,
        handle: Handle,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError> {
        if let Some(cached) = &self.cached {
            cached.find(handle)?;
        }
        FileClient::list(&self.client, handle, cookie, most, entries).await
    }

    async fn mkdir(&self, path: &[u8], mode: u16) -> Result<(), FileError> {
        FileClient::mkdir(&self.client, path, mode).await
    }

    async fn rmdir(&self, path: &[u8]) -> Result<(), FileError> {
        FileClient::rmdir(&self.client, path).await
    }

    async fn remove(&self, path: &[u8]) -> Result<(), FileError> {
        self.client.remove(path).await?;
        match &self.cached {
            Some(cached) => cached.forget_removed(path).await,
            None => Ok(()),
        }
    }

    async fn rename(&self, from: &[u8], to: &[u8], how: Rename) -> Result<(), FileError> {
        FileClient::rename(&self.client, from, to, how).await
    }

    async fn link(&self, from: &[u8], to: &[u8]) -> Result<(), FileError> {
        FileClient::link(&self.client, from, to).await
    }

    async fn symlink(&self, target: &[u8], path: &[u8]) -> Result<(), FileError> {
        FileClient::symlink(&self.client, target, path).await
    }

    async fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, FileError> {
        self.client.readlink(path).await
    }

    async fn release(&self) -> Result<(), FileError> {
        match &self.cached {
            Some(cached) => cached.write_back_all().await,
            None => Ok(()),
        }
    }

    fn gauges(&self) -> Gauges {
        match &self.cached {
            Some(cached) => {
                let stalled_ns = cached.local.counters().stalled_ns();
                let gauges = Gauges::none().with("stalled", Amount::OfRequestsNs(stalled_ns));
                let Decisions { host, drive } = cached.decisions();
                let [more_host, more_drive, both] = cached.splits();
                let (host, drive) = (host + more_host, drive + more_drive);
                match host + drive + both {
                    0 => gauges,
                    _ => gauges
                        .with("computed_by_host", Amount::Count(host))
                        .with("computed_by_drive", Amount::Count(drive))
                        .with("computed_by_both", Amount::Count(both)),
                }
            }
            None => Gauges::none(),
        }
    }

    fn statistics(&self) -> FileStatistics {
        let mut statistics = FileClient::statistics(&self.client);
        if let Some(cached) = &self.cached {
            statistics.blocks.merge(&cached.local.statistics());
        }
        statistics
    }
}
