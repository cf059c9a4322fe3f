//! Attributes: looked at, and set by those who may.

use std::ops::Deref;

use super::path::At;
use super::permission::{self, Access, check_owns, without_group};
use super::session::Session;
use crate::arguments::StatFs;
use crate::attributes::{Attributes, MODE_BITS, SetAttributes};
use crate::errno::{Errno, FileError};
use crate::file_system::FileSystem;
use crate::flags::Handle;

/// What a time is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// It stays.
    Omit,
    /// Now.
    Now,
    /// This time, in nanoseconds.
    At(u64),
}

/// A file by its path, or by a handle.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// What a path names; of a symbolic link itself if it is not followed.
    Path(At<'a>, bool),
    /// What is open.
    Handle(Handle),
}

impl<P: Deref<Target: FileSystem>> Session<P> {
    pub(super) async fn target(&self, target: Target<'_>) -> Result<Attributes, FileError> {
        match target {
            Target::Path(at, follow) => self.resolve(at, follow).await,
            Target::Handle(handle) => self.fs.attributes(self.open_file(handle)?.number).await,
        }
    }

    /// The attributes of something.
    ///
    /// # Errors
    /// Those of a walk, or `EBADF`.
    pub async fn stat(&self, target: Target<'_>) -> Result<Attributes, FileError> {
        self.again(async || self.target(target).await).await
    }

    /// Whether the caller may do something.
    ///
    /// # Errors
    /// Those of a walk; `EACCES`.
    pub async fn access(&self, target: Target<'_>, access: Access) -> Result<(), FileError> {
        let of = self.stat(target).await?;
        Ok(permission::check(&self.caller, &of, access)?)
    }

    /// Sets the permission bits. Set-group-id goes where the caller is not in the group.
    ///
    /// # Errors
    /// Those of a walk, or `EBADF`; `EOPNOTSUPP` (a symbolic link), `EPERM` (neither owner nor
    /// root).
    pub async fn chmod(&self, now_ns: u64, target: Target<'_>, mode: u16) -> Result<(), FileError> {
        self.again(async || {
            let of = self.target(target).await?;
            if of.kind == crate::attributes::Kind::Symlink {
                return Err(Errno::EOPNOTSUPP.into());
            }
            check_owns(&self.caller, &of)?;
            let mode = mode & MODE_BITS & !without_group(&self.caller, of.owner.gid);
            let set = SetAttributes {
                mode: Some(mode),
                ..SetAttributes::default()
            };
            self.set(now_ns, &of, set).await
        })
        .await
    }

    /// Gives something to another user, or group. Set-user-id and set-group-id go.
    ///
    /// # Errors
    /// Those of a walk, or `EBADF`; `EPERM`: only root gives files away, and owners only to groups
    /// that they are in.
    pub async fn chown(
        &self,
        now_ns: u64,
        target: Target<'_>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<(), FileError> {
        self.again(async || {
            let of = self.target(target).await?;
            let caller = &self.caller;
            let is_owner = caller.owns(of.owner);
            let may_uid = uid.is_none_or(|uid| is_owner && uid == of.owner.uid);
            let may_gid = gid.is_none_or(|gid| {
                let is_known = gid == of.owner.gid || caller.is_in(gid);
                is_owner && is_known
            });
            if !(caller.is_root() || may_uid && may_gid) {
                return Err(Errno::EPERM.into());
            }
            // To change nothing takes these bits away too.
            let mode = match of.is_directory() {
                true => of.mode,
                false => caller.mode_after_chown(of.mode, of.owner.gid),
            };
            if mode != of.mode {
                check_owns(caller, &of)?;
            } else if uid.is_none() && gid.is_none() {
                return Ok(());
            }
            let set = SetAttributes {
                uid: Some(uid.unwrap_or(of.owner.uid)),
                gid,
                ..SetAttributes::default()
            };
            self.set(now_ns, &of, set).await
        })
        .await
    }

    /// Sets the times of the last read and of the last change.
    ///
    /// # Errors
    /// Those of a walk, or `EBADF`; `EACCES` (both now: neither owner nor root, and it may not be
    /// written), `EPERM` (any other time: neither owner nor root).
    pub async fn set_times(
        &self,
        now_ns: u64,
        target: Target<'_>,
        accessed: SetTime,
        modified: SetTime,
    ) -> Result<(), FileError> {
        if (accessed, modified) == (SetTime::Omit, SetTime::Omit) {
            return Ok(());
        }
        self.again(async || {
            let of = self.target(target).await?;
            let owns = check_owns(&self.caller, &of);
            match (accessed, modified) {
                (SetTime::Now, SetTime::Now) if owns.is_err() => {
                    permission::check(&self.caller, &of, Access::WRITE)?;
                }
                _ => owns?,
            }
            let time = |set| match set {
                SetTime::Omit => None,
                SetTime::Now => Some(now_ns),
                SetTime::At(time_ns) => Some(time_ns),
            };
            let set = SetAttributes {
                accessed_ns: time(accessed),
                modified_ns: time(modified),
                ..SetAttributes::default()
            };
            self.set(now_ns, &of, set).await
        })
        .await
    }

    async fn set(&self, now_ns: u64, of: &Attributes, set: SetAttributes) -> Result<(), FileError> {
        let by = self.by(now_ns);
        self.fs.set_attributes(by, of.number, set).await.map(|_| ())
    }

    /// How much the file system holds.
    ///
    /// # Errors
    /// `EIO`.
    pub async fn stat_fs(&self) -> Result<StatFs, FileError> {
        self.fs.stat_fs().await
    }
}
