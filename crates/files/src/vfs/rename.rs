//! Renaming: the checks stand in the order of Linux (`do_renameat2`, `vfs_rename`).
//!
//! The file system makes those checks again that speak of its tree, in the step that changes it;
//! here they only give the error that comes first.

use std::ops::Deref;

use super::path::{At, Follow, Found, Last};
use super::permission::{Access, check, check_create, check_remove};
use super::session::Session;
use crate::arguments::{Entry, Seen};
use crate::attributes::Attributes;
use crate::errno::{Errno, FileError};
use crate::file_system::FileSystem;
use crate::flags::Rename;

/// No directory is deeper: on media that somebody forged, two may be each other's parents.
const DEPTH_MAX: u32 = 1 << 20;

impl<P: Deref<Target: FileSystem>> Session<P> {
    /// Gives what is at `from` the name `to`, in one step. Both names of one file already: nothing
    /// happens.
    ///
    /// # Errors
    /// Those of both walks; `EBUSY` (`.`, `..`, the root), `ENOENT`, `EEXIST` (to be new),
    /// `ENOTDIR` (a path that ends in `/`), `EINVAL` (a directory into itself, or below),
    /// `ENOTEMPTY` (onto a directory that it is in), `EACCES` and `EPERM` (sticky) of `from`, then
    /// of `to`, `ENOTDIR`, `EISDIR`, `EACCES` (a directory moves, and may not be written),
    /// `EMLINK`, `ENOTEMPTY`, `ENOSPC`, `ELOOP` (directories that lie in each other).
    pub async fn rename(
        &self,
        now_ns: u64,
        from: At<'_>,
        to: At<'_>,
        how: Rename,
    ) -> Result<(), FileError> {
        self.again(async || self.rename_once(now_ns, from, to, how).await)
            .await
    }

    async fn rename_once(
        &self,
        now_ns: u64,
        from: At<'_>,
        to: At<'_>,
        how: Rename,
    ) -> Result<(), FileError> {
        let mut old = self.walk(from, Follow::Unseen).await?;
        let mut new = self.walk(to, Follow::Unseen).await?;
        if old.last != Last::Name {
            return Err(Errno::EBUSY.into());
        }
        if new.last != Last::Name {
            return Err(match how {
                Rename::NoReplace => Errno::EEXIST,
                _ => Errno::EBUSY,
            }
            .into());
        }
        self.look(&mut old).await?;
        let source = old.target.ok_or(Errno::ENOENT)?;
        self.look(&mut new).await?;
        check_paths(&old, &new, &source, how)?;
        if source.is_directory() && self.is_within(new.directory.number, source.number).await? {
            return Err(Errno::EINVAL.into());
        }
        if let Some(target) = new.target
            && target.is_directory()
            && self.is_within(old.directory.number, target.number).await?
        {
            return Err(match how {
                Rename::Exchange => Errno::EINVAL,
                _ => Errno::ENOTEMPTY,
            }
            .into());
        }
        if new
            .target
            .is_some_and(|target| target.number == source.number)
        {
            return Ok(());
        }
        self.check_rename(&old, &new, &source, how)?;
        let from = Entry {
            seen: Seen::Number(source.number),
            ..Entry::new(old.directory.number, old.name())
        };
        let seen = new
            .target
            .map_or(Seen::Nothing, |target| Seen::Number(target.number));
        let to = Entry {
            seen,
            ..Entry::new(new.directory.number, new.name())
        };
        match self.fs.rename(self.by(now_ns), from, to, how).await {
            // Neither was so a moment ago: look again.
            Err(FileError::Errno(Errno::EEXIST)) => Err(Errno::ESTALE.into()),
            done => done,
        }
    }

    /// Refuses what this caller may not do.
    fn check_rename(
        &self,
        old: &Found<'_>,
        new: &Found<'_>,
        source: &Attributes,
        how: Rename,
    ) -> Result<(), Errno> {
        let (caller, is_directory) = (&self.caller, source.is_directory());
        check_remove(caller, &old.directory, source, is_directory)?;
        let moves = old.directory.number != new.directory.number;
        match new.target {
            None => check_create(caller, &new.directory)?,
            Some(target) => {
                let as_directory = match how {
                    Rename::Exchange => target.is_directory(),
                    _ => is_directory,
                };
                check_remove(caller, &new.directory, &target, as_directory)?;
            }
        }
        // Its `..` changes.
        if moves && is_directory {
            check(caller, source, Access::WRITE)?;
        }
        match new.target {
            Some(target) if moves && how == Rename::Exchange && target.is_directory() => {
                check(caller, &target, Access::WRITE)
            }
            _ => Ok(()),
        }
    }

    /// Whether directory `inner` is `outer`, or below it.
    async fn is_within(&self, inner: u64, outer: u64) -> Result<bool, FileError> {
        let mut at = inner;
        for _ in 0..DEPTH_MAX {
            if at == outer {
                return Ok(true);
            }
            if at == self.fs.root() {
                return Ok(false);
            }
            at = match self.fs.lookup(at, b"..").await {
                Ok(parent) => parent.number,
                // Below a directory that was removed, and is gone.
                Err(FileError::Errno(Errno::ENOENT)) => return Ok(false),
                Err(error) => return Err(error),
            };
        }
        Err(Errno::ELOOP.into())
    }
}

/// Refuses paths that do not fit what is there.
fn check_paths(
    old: &Found<'_>,
    new: &Found<'_>,
    source: &Attributes,
    how: Rename,
) -> Result<(), Errno> {
    match (how, new.target) {
        (Rename::NoReplace, Some(_)) => return Err(Errno::EEXIST),
        (Rename::Exchange, None) => return Err(Errno::ENOENT),
        (Rename::Exchange, Some(target)) if !target.is_directory() && new.slash => {
            return Err(Errno::ENOTDIR);
        }
        _ => {}
    }
    let is_slash_wrong = old.slash || how != Rename::Exchange && new.slash;
    match !source.is_directory() && is_slash_wrong {
        true => Err(Errno::ENOTDIR),
        false => Ok(()),
    }
}
