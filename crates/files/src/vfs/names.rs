//! Entries of directories: made, linked, removed, listed.

use std::ops::Deref;

use super::path::{At, Follow, Found, Last, check_path};
use super::permission::{check_create, check_link, check_remove, of_new};
use super::session::Session;
use crate::arguments::{Content, Entry, New, Remove, Seen};
use crate::attributes::{Attributes, DirectoryEntry, Kind, Special};
use crate::errno::{Errno, FileError};
use crate::file_system::FileSystem;
use crate::flags::Handle;

impl<P: Deref<Target: FileSystem>> Session<P> {
    /// Where something new is to be, which is no directory if `on_slash` is an error.
    async fn vacant<'a>(
        &self,
        at: At<'a>,
        on_slash: Option<Errno>,
    ) -> Result<Found<'a>, FileError> {
        let found = self.walk(at, Follow::Never).await?;
        if found.last != Last::Name || found.target.is_some() {
            return Err(Errno::EEXIST.into());
        }
        match on_slash {
            Some(errno) if found.slash => Err(errno.into()),
            _ => Ok(found),
        }
    }

    async fn make_at(
        &self,
        now_ns: u64,
        at: At<'_>,
        content: Content<'_>,
        mode: u16,
    ) -> Result<Attributes, FileError> {
        let (kind, on_slash) = match content {
            Content::File => (Kind::File, Some(Errno::ENOENT)),
            Content::Directory => (Kind::Directory, None),
            Content::Symlink(_) => (Kind::Symlink, Some(Errno::ENOENT)),
            Content::Special(special, _) => (Kind::Special(special), Some(Errno::ENOENT)),
        };
        self.again(async || {
            let found = self.vacant(at, on_slash).await?;
            check_create(&self.caller, &found.directory)?;
            if let Content::Special(special, _) = content
                && special.is_device()
                && !self.caller.is_root()
            {
                return Err(Errno::EPERM.into());
            }
            let (owner, mode) = of_new(&self.caller, &found.directory, kind, mode);
            let new = New {
                content,
                mode,
                owner,
                is_open: false,
            };
            let entry = Entry::new(found.directory.number, found.name());
            self.fs.create(self.by(now_ns), entry, new).await
        })
        .await
    }

    /// Makes a directory with these permission bits, from which the caller has taken its mask.
    ///
    /// # Errors
    /// Those of a walk; `EEXIST`, `EACCES`, `EMLINK`, `ENOSPC`.
    pub async fn mkdir(&self, now_ns: u64, at: At<'_>, mode: u16) -> Result<Attributes, FileError> {
        self.make_at(now_ns, at, Content::Directory, mode).await
    }

    /// Makes a pipe, a socket or a device with these permission bits, from which the caller has taken
    /// its mask; `device` says which device.
    ///
    /// # Errors
    /// Those of a walk; `EEXIST`, `ENOENT` (the path ends in `/`), `EACCES`, `EPERM` (a device, and
    /// the caller is not root), `ENOSPC`.
    pub async fn mknod(
        &self,
        now_ns: u64,
        at: At<'_>,
        special: Special,
        device: u32,
        mode: u16,
    ) -> Result<Attributes, FileError> {
        let device = if special.is_device() { device } else { 0 };
        self.make_at(now_ns, at, Content::Special(special, device), mode)
            .await
    }

    /// Makes a symbolic link that leads to `target`, which need not be there.
    ///
    /// # Errors
    /// `ENOENT` (an empty target), `ENAMETOOLONG` (a target that is too long); those of a walk;
    /// `EEXIST`, `ENOENT` (the path ends in `/`), `EACCES`, `ENOSPC`.
    pub async fn symlink(
        &self,
        now_ns: u64,
        target: &[u8],
        at: At<'_>,
    ) -> Result<Attributes, FileError> {
        check_path(&At::from(target))?;
        self.make_at(now_ns, at, Content::Symlink(target), 0o777)
            .await
    }

    /// Gives a file one more name; of a symbolic link, the link itself unless `follow`.
    ///
    /// # Errors
    /// Those of both walks; `EEXIST`, `ENOENT` (`to` ends in `/`), `EPERM` (protected), `EACCES`,
    /// `EPERM` (a directory), `ENOENT` (it has no name any more), `EMLINK`, `ENOSPC`.
    pub async fn link(
        &self,
        now_ns: u64,
        from: At<'_>,
        to: At<'_>,
        follow: bool,
    ) -> Result<Attributes, FileError> {
        self.again(async || {
            let source = self.resolve(from, follow).await?;
            let found = self.vacant(to, Some(Errno::ENOENT)).await?;
            if self.protects_hard_links {
                check_link(&self.caller, &source)?;
            }
            check_create(&self.caller, &found.directory)?;
            let entry = Entry::new(found.directory.number, found.name());
            self.fs.link(self.by(now_ns), source.number, entry).await
        })
        .await
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Those of a walk; `EBUSY` (the root), `EINVAL` (`.`), `ENOTEMPTY` (`..`), `ENOENT`, `EACCES`,
    /// `EPERM` (sticky), `ENOTDIR`, `ENOTEMPTY`.
    pub async fn rmdir(&self, now_ns: u64, at: At<'_>) -> Result<(), FileError> {
        self.again(async || {
            let found = self.walk(at, Follow::Never).await?;
            match found.last {
                Last::Root => return Err(Errno::EBUSY.into()),
                Last::Dot => return Err(Errno::EINVAL.into()),
                Last::DotDot => return Err(Errno::ENOTEMPTY.into()),
                Last::Name => {}
            }
            self.take_out(now_ns, &found, Remove::Directory).await
        })
        .await
    }

    /// Removes a name of what is no directory. What has none any more stays for those who have it
    /// open.
    ///
    /// # Errors
    /// Those of a walk; `EISDIR` (`.`, `..`, the root), `ENOENT`, `EISDIR` or `ENOTDIR` (the path
    /// ends in `/`), `EACCES`, `EPERM` (sticky), `EISDIR`.
    pub async fn unlink(&self, now_ns: u64, at: At<'_>) -> Result<(), FileError> {
        self.again(async || {
            let found = self.walk(at, Follow::Never).await?;
            match (found.last, found.target) {
                (Last::Name, Some(target)) if found.slash => {
                    let errno = match target.is_directory() {
                        true => Errno::EISDIR,
                        false => Errno::ENOTDIR,
                    };
                    return Err(errno.into());
                }
                (Last::Name, _) => {}
                _ => return Err(Errno::EISDIR.into()),
            }
            self.take_out(now_ns, &found, Remove::Name).await
        })
        .await
    }

    async fn take_out(
        &self,
        now_ns: u64,
        found: &Found<'_>,
        what: Remove,
    ) -> Result<(), FileError> {
        let victim = found.target.ok_or(Errno::ENOENT)?;
        let as_directory = what == Remove::Directory;
        check_remove(&self.caller, &found.directory, &victim, as_directory)?;
        let entry = Entry {
            seen: Seen::Number(victim.number),
            ..Entry::new(found.directory.number, found.name())
        };
        match self.fs.remove(self.by(now_ns), entry, what).await {
            // It was there a moment ago, and was what it had to be: look again.
            Err(FileError::Errno(Errno::ENOENT)) => Err(Errno::ESTALE.into()),
            done => done,
        }
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// Those of a walk; `EINVAL` if it is none.
    pub async fn read_link(&self, at: At<'_>) -> Result<Vec<u8>, FileError> {
        self.again(async || {
            let link = self.resolve(at, false).await?;
            self.fs.read_link(link.number).await
        })
        .await
    }

    /// Adds up to `most` entries of an open directory to `entries`, as
    /// [`FileSystem::list`](crate::FileSystem::list) does.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR`, `ENOENT` (it was removed).
    pub async fn list(
        &self,
        handle: Handle,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError> {
        let open = self.open_file(handle)?;
        if !open.flags.read {
            return Err(Errno::EBADF.into());
        }
        if !open.is_directory {
            return Err(Errno::ENOTDIR.into());
        }
        if self.fs.attributes(open.number).await?.links == 0 {
            return Err(Errno::ENOENT.into());
        }
        self.fs.list(open.number, cookie, most, entries).await
    }
}
