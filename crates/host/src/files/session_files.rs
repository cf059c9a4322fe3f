//! Files of a file system that runs on the host, for one client.
//!
//! Each operation is one of the client's [`Session`], on the client's CPU, and pays what entering
//! the place costs where the file system is: a system call, for one in the operating system.

use std::cell::RefCell;
use std::sync::Arc;

use wharf_files::vfs::{At, Session, SessionLimits, SetTime, Target};
use wharf_files::{Allocate, Caller, FileSystem, Place, Sync};
use wharf_runtime::{Cpu, OnCpu};

use super::client::{Appended, FileError, FileStatistics, Opened, Transfer};
use super::client_pages::{BlocksBelow, Known};
use super::{
    Attributes, DirectoryEntry, Errno, FileClient, Handle, OpenFlags, Rename, SetAttributes,
};
use crate::design::Touch;
use crate::design::client::Client as _;
use crate::error::IoError;
use crate::kit::kernel_path::KernelPath;
use crate::span::Extent;

/// See the module. `C` is the block client below the file system `F`.
pub struct SessionFiles<F, C> {
    cpu: Cpu,
    session: Session<Arc<F>>,
    known: Known<C>,
    /// What entering it costs.
    entry: KernelPath,
    counters: RefCell<FileStatistics>,
}

impl<F: FileSystem + 'static, C: BlocksBelow> SessionFiles<F, C> {
    /// The superuser's files on `cpu`, whose block client is `known`.
    pub fn new(cpu: &Cpu, fs: Arc<F>, known: Known<C>, entry: KernelPath) -> SessionFiles<F, C> {
        SessionFiles {
            cpu: cpu.clone(),
            session: Session::new(fs, Caller::root(), SessionLimits::default()),
            known,
            entry,
            counters: RefCell::default(),
        }
    }

    /// An operation, of the kind that `count` counts: it enters, is done, and leaves.
    async fn done<T>(
        &self,
        count: impl Fn(&mut FileStatistics) -> &mut u64,
        operation: impl Future<Output = Result<T, wharf_files::FileError>>,
    ) -> Result<T, FileError> {
        *count(&mut self.counters.borrow_mut()) += 1;
        self.entry.request(&self.cpu);
        let result = OnCpu::new(&self.cpu, operation).await;
        result.map_err(|error| {
            self.counters.borrow_mut().failures += 1;
            self.told(error)
        })
    }

    fn told(&self, error: wharf_files::FileError) -> FileError {
        match error {
            wharf_files::FileError::Errno(errno) => FileError::Errno(errno),
            wharf_files::FileError::Io(_) => {
                FileError::Io(self.known.below.take_failure().unwrap_or(IoError::System {
                    doing: "reading a file system's metadata",
                    offset: 0,
                    errno: Errno::EIO.number(),
                }))
            }
        }
    }

    fn now_ns(&self) -> u64 {
        self.cpu.now()
    }

    fn take_touch(&self) -> Touch {
        self.known.below.take_touch()
    }
}

fn others(statistics: &mut FileStatistics) -> &mut u64 {
    &mut statistics.others
}

fn names(statistics: &mut FileStatistics) -> &mut u64 {
    &mut statistics.names
}

fn writes(statistics: &mut FileStatistics) -> &mut u64 {
    &mut statistics.writes
}

impl<F: FileSystem + 'static, C: BlocksBelow> FileClient for SessionFiles<F, C> {
    fn is_durable(&self) -> bool {
        self.session.file_system().is_durable()
    }

    async fn open(&self, path: &[u8], flags: OpenFlags, mode: u16) -> Result<Opened, FileError> {
        let open = self.session.open(self.now_ns(), path.into(), flags, mode);
        let opened = self.done(|c| &mut c.opens, open).await?;
        Ok(Opened {
            handle: opened.handle,
            number: opened.attributes.number,
            is_new: opened.is_new,
        })
    }

    async fn close(&self, handle: Handle) -> Result<(), FileError> {
        self.done(others, self.session.close(handle)).await
    }

    async fn read_at(
        &self,
        handle: Handle,
        extent: Extent,
        out: &mut [u8],
    ) -> Result<Transfer, FileError> {
        if out.len() as u64 != extent.bytes {
            return Err(Errno::EINVAL.into());
        }
        let read = self.session.read(self.now_ns(), handle, extent.offset, out);
        let bytes = self.done(|c| &mut c.reads, read).await?;
        Ok(Transfer {
            bytes,
            touch: self.take_touch(),
        })
    }

    async fn write_at(
        &self,
        handle: Handle,
        extent: Extent,
        data: &[u8],
    ) -> Result<Touch, FileError> {
        if data.len() as u64 != extent.bytes {
            return Err(Errno::EINVAL.into());
        }
        let place = Place::At(extent.offset);
        self.whole_write(handle, place, data).await?;
        Ok(self.take_touch())
    }

    async fn append(&self, handle: Handle, bytes: u64, data: &[u8]) -> Result<Appended, FileError> {
        if data.len() as u64 != bytes {
            return Err(Errno::EINVAL.into());
        }
        let offset = self.whole_write(handle, Place::End, data).await?;
        Ok(Appended {
            offset,
            touch: self.take_touch(),
        })
    }

    async fn set_len(&self, handle: Handle, bytes: u64) -> Result<(), FileError> {
        let cut = self.session.truncate_open(self.now_ns(), handle, bytes);
        self.done(others, cut).await
    }

    async fn punch(&self, handle: Handle, extent: Extent) -> Result<(), FileError> {
        let (now_ns, Extent { offset, bytes }) = (self.now_ns(), extent);
        let punch = self
            .session
            .allocate(now_ns, handle, offset, bytes, Allocate::Punch);
        self.done(others, punch).await
    }

    async fn sync(
        &self,
        handle: Handle,
        _extent: Extent,
        data_only: bool,
    ) -> Result<(), FileError> {
        let what = match data_only {
            true => Sync::Data,
            false => Sync::All,
        };
        self.done(|c| &mut c.syncs, self.session.sync(handle, what))
            .await
    }

    async fn sync_all(&self) -> Result<(), FileError> {
        self.done(|c| &mut c.syncs, self.session.sync_all()).await
    }

    async fn attributes(&self, handle: Handle) -> Result<Attributes, FileError> {
        self.done(others, self.session.stat(Target::Handle(handle)))
            .await
    }

    async fn stat(&self, path: &[u8], follow: bool) -> Result<Attributes, FileError> {
        let target = Target::Path(path.into(), follow);
        self.done(names, self.session.stat(target)).await
    }

    async fn set_attributes(&self, path: &[u8], set: SetAttributes) -> Result<(), FileError> {
        let (now_ns, target) = (self.now_ns(), Target::Path(path.into(), true));
        let time = |ns: Option<u64>| ns.map_or(SetTime::Omit, SetTime::At);
        let all = async {
            if let Some(mode) = set.mode {
                self.session.chmod(now_ns, target, mode).await?;
            }
            if set.uid.is_some() || set.gid.is_some() {
                self.session.chown(now_ns, target, set.uid, set.gid).await?;
            }
            let (accessed, modified) = (time(set.accessed_ns), time(set.modified_ns));
            self.session
                .set_times(now_ns, target, accessed, modified)
                .await
        };
        self.done(names, all).await
    }

    async fn list(
        &self,
        handle: Handle,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError> {
        let list = self.session.list(handle, cookie, most, entries);
        self.done(names, list).await
    }

    async fn mkdir(&self, path: &[u8], mode: u16) -> Result<(), FileError> {
        let make = self.session.mkdir(self.now_ns(), path.into(), mode);
        self.done(names, make).await.map(|_| ())
    }

    async fn rmdir(&self, path: &[u8]) -> Result<(), FileError> {
        let remove = self.session.rmdir(self.now_ns(), path.into());
        self.done(names, remove).await
    }

    async fn remove(&self, path: &[u8]) -> Result<(), FileError> {
        let remove = self.session.unlink(self.now_ns(), path.into());
        self.done(names, remove).await
    }

    async fn rename(&self, from: &[u8], to: &[u8], how: Rename) -> Result<(), FileError> {
        let (from, to): (At<'_>, At<'_>) = (from.into(), to.into());
        let rename = self.session.rename(self.now_ns(), from, to, how);
        self.done(names, rename).await
    }

    async fn link(&self, from: &[u8], to: &[u8]) -> Result<(), FileError> {
        let (from, to): (At<'_>, At<'_>) = (from.into(), to.into());
        let link = self.session.link(self.now_ns(), from, to, false);
        self.done(names, link).await.map(|_| ())
    }

    async fn symlink(&self, target: &[u8], path: &[u8]) -> Result<(), FileError> {
        let link = self.session.symlink(self.now_ns(), target, path.into());
        self.done(names, link).await.map(|_| ())
    }

    async fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, FileError> {
        self.done(names, self.session.read_link(path.into())).await
    }

    async fn release(&self) -> Result<(), FileError> {
        let closed = OnCpu::new(&self.cpu, self.session.close_all()).await;
        closed.map_err(|error| self.told(error))?;
        Ok(self.known.below.client.metadata().release().await?)
    }

    fn statistics(&self) -> FileStatistics {
        FileStatistics {
            blocks: self.known.below.client.statistics(),
            ..*self.counters.borrow()
        }
    }
}

impl<F: FileSystem + 'static, C: BlocksBelow> SessionFiles<F, C> {
    /// Writes all of `data`, in as many steps as the file system takes; where its first byte is.
    async fn whole_write(
        &self,
        handle: Handle,
        place: Place,
        data: &[u8],
    ) -> Result<u64, FileError> {
        let (now_ns, session) = (self.now_ns(), &self.session);
        let first = self.done(writes, session.write(now_ns, handle, place, data));
        let first = first.await?;
        let mut done = first.bytes as usize;
        while done < data.len() {
            let at = Place::At(first.offset + done as u64);
            let rest = OnCpu::new(&self.cpu, session.write(now_ns, handle, at, &data[done..]));
            let more = rest.await.map_err(|error| self.told(error))?;
            if more.bytes == 0 {
                return Err(Errno::ENOSPC.into());
            }
            done += more.bytes as usize;
        }
        Ok(first.offset)
    }
}
