//! The client as whoever is given any file client has it.

use wharf_files::vfs::{SetTime, Target};
use wharf_files::{
    Allocate, Attributes, DirectoryEntry, Errno, Handle, OpenFlags, Rename, SetAttributes, Sync,
};

use super::StorClient;
use crate::design::Touch;
use crate::files::{Appended, FileClient, FileError, FileStatistics, Opened, Transfer};
use crate::span::Extent;

impl StorClient {
    /// An operation that a program has asked for has entered the operating system, if that is where files are, and leaves it.
    #[inline]
    pub(super) fn entered(&self) {
        self.inner.kernel_path.get().request(&self.inner.cpu);
    }

    /// Such an operation is counted.
    pub(super) fn note<T>(
        &self,
        count: fn(&mut FileStatistics) -> &mut u64,
        ended: Result<T, FileError>,
    ) -> Result<T, FileError> {
        self.entered();
        let mut all = self.inner.statistics.get();
        *count(&mut all) += 1;
        all.failures += u64::from(ended.is_err());
        self.inner.statistics.set(all);
        ended
    }
}

pub(super) fn fits(extent: Extent, payload: usize) -> Result<(), Errno> {
    match extent.bytes == payload as u64 {
        true => Ok(()),
        false => Err(Errno::EINVAL),
    }
}

fn no_hits(extent: Extent) -> Touch {
    Touch::no_hits(extent.pages())
}

impl FileClient for StorClient {
    fn is_durable(&self) -> bool {
        true
    }

    async fn open(&self, path: &[u8], flags: OpenFlags, mode: u16) -> Result<Opened, FileError> {
        let opened = StorClient::open(self, path.into(), flags, mode).await;
        let opened = self.note(|all| &mut all.opens, opened)?;
        Ok(Opened {
            handle: opened.handle,
            number: opened.attributes.number,
            is_new: opened.is_new,
        })
    }

    async fn close(&self, handle: Handle) -> Result<(), FileError> {
        let closed = StorClient::close(self, handle).await;
        self.note(|all| &mut all.others, closed)
    }

    async fn read_at(
        &self,
        handle: Handle,
        extent: Extent,
        out: &mut [u8],
    ) -> Result<Transfer, FileError> {
        fits(extent, out.len())?;
        let read = self.read(handle, extent.offset, out).await;
        let bytes = self.note(|all| &mut all.reads, read)?;
        Ok(Transfer {
            bytes,
            touch: no_hits(Extent::new(extent.offset, bytes)),
        })
    }

    async fn write_at(
        &self,
        handle: Handle,
        extent: Extent,
        data: &[u8],
    ) -> Result<Touch, FileError> {
        fits(extent, data.len())?;
        let written = self.write_all(handle, extent.offset, data).await;
        self.note(|all| &mut all.writes, written)?;
        Ok(no_hits(extent))
    }

    async fn append(&self, handle: Handle, bytes: u64, data: &[u8]) -> Result<Appended, FileError> {
        fits(Extent::new(0, bytes), data.len())?;
        let appended = StorClient::append(self, handle, data).await;
        let offset = self.note(|all| &mut all.writes, appended)?;
        Ok(Appended {
            offset,
            touch: no_hits(Extent::new(offset, bytes)),
        })
    }

    async fn set_len(&self, handle: Handle, bytes: u64) -> Result<(), FileError> {
        let set = self.truncate_open(handle, bytes).await;
        self.note(|all| &mut all.others, set)
    }

    async fn punch(&self, handle: Handle, extent: Extent) -> Result<(), FileError> {
        let Extent { offset, bytes } = extent;
        let punched = self.allocate(handle, offset, bytes, Allocate::Punch).await;
        self.note(|all| &mut all.others, punched)
    }

    async fn sync(&self, handle: Handle, _: Extent, data_only: bool) -> Result<(), FileError> {
        let what = match data_only {
            true => Sync::Data,
            false => Sync::All,
        };
        let synced = StorClient::sync(self, handle, what).await;
        self.note(|all| &mut all.syncs, synced)
    }

    async fn sync_all(&self) -> Result<(), FileError> {
        let synced = StorClient::sync_all(self).await;
        self.note(|all| &mut all.syncs, synced)
    }

    async fn attributes(&self, handle: Handle) -> Result<Attributes, FileError> {
        let found = StorClient::stat(self, Target::Handle(handle)).await;
        self.note(|all| &mut all.others, found)
    }

    async fn stat(&self, path: &[u8], follow: bool) -> Result<Attributes, FileError> {
        let found = StorClient::stat(self, Target::Path(path.into(), follow)).await;
        self.note(|all| &mut all.names, found)
    }

    async fn set_attributes(&self, path: &[u8], set: SetAttributes) -> Result<(), FileError> {
        let done = self.set_all(Target::Path(path.into(), true), set).await;
        self.note(|all| &mut all.names, done)
    }

    async fn list(
        &self,
        handle: Handle,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError> {
        let listed = StorClient::list(self, handle, cookie, most, entries).await;
        self.note(|all| &mut all.names, listed)
    }

    async fn mkdir(&self, path: &[u8], mode: u16) -> Result<(), FileError> {
        let made = StorClient::mkdir(self, path.into(), mode).await;
        self.note(|all| &mut all.names, made.map(drop))
    }

    async fn rmdir(&self, path: &[u8]) -> Result<(), FileError> {
        let removed = StorClient::rmdir(self, path.into()).await;
        self.note(|all| &mut all.names, removed)
    }

    async fn remove(&self, path: &[u8]) -> Result<(), FileError> {
        let removed = self.unlink(path.into()).await;
        self.note(|all| &mut all.names, removed)
    }

    async fn rename(&self, from: &[u8], to: &[u8], how: Rename) -> Result<(), FileError> {
        let renamed = StorClient::rename(self, from.into(), to.into(), how).await;
        self.note(|all| &mut all.names, renamed)
    }

    async fn link(&self, from: &[u8], to: &[u8]) -> Result<(), FileError> {
        let linked = StorClient::link(self, from.into(), to.into(), false).await;
        self.note(|all| &mut all.names, linked.map(drop))
    }

    async fn symlink(&self, target: &[u8], path: &[u8]) -> Result<(), FileError> {
        let made = StorClient::symlink(self, target, path.into()).await;
        self.note(|all| &mut all.names, made.map(drop))
    }

    async fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, FileError> {
        let target = self.read_link(path.into()).await;
        self.note(|all| &mut all.names, target)
    }

    fn statistics(&self) -> FileStatistics {
        let mut statistics = self.counted();
        for driver in self.inner.lanes.drivers() {
            statistics.blocks.driver.merge(&driver.statistics());
        }
        statistics
    }
}

impl StorClient {
    /// Writes all, or fails.
    pub(super) async fn write_all(
        &self,
        handle: Handle,
        offset: u64,
        data: &[u8],
    ) -> Result<(), FileError> {
        let mut done = 0;
        loop {
            let at = offset.saturating_add(done as u64);
            // What there was no room for says so when it is tried alone.
            let count = self.write(handle, at, &data[done..]).await? as usize;
            done += count;
            if done >= data.len() {
                return Ok(());
            }
            if count == 0 {
                return Err(Errno::ENOSPC.into());
            }
        }
    }

    async fn set_all(&self, target: Target<'_>, set: SetAttributes) -> Result<(), FileError> {
        if set.uid.is_some() || set.gid.is_some() {
            self.chown(target, set.uid, set.gid).await?;
        }
        if let Some(mode) = set.mode {
            self.chmod(target, mode).await?;
        }
        let time = |time_ns: Option<u64>| time_ns.map_or(SetTime::Omit, SetTime::At);
        let (accessed, modified) = (time(set.accessed_ns), time(set.modified_ns));
        match (accessed, modified) {
            (SetTime::Omit, SetTime::Omit) => Ok(()),
            _ => self.set_times(target, accessed, modified).await,
        }
    }
}
