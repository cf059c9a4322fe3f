//! The walk along a path: through directories and symbolic links to where its last component is, or
//! would be.
//!
//! In every directory that it goes through the caller needs to be allowed to look names up, also in
//! the last one. A symbolic link is read, put before the rest of the path, and the walk goes on
//! there.

use std::borrow::Cow;
use std::ops::Deref;

use super::path::{At, Follow, Found, Last, check_path, component};
use super::permission::{Access, check};
use super::session::Session;
use crate::attributes::{Attributes, Kind};
use crate::errno::{Errno, FileError};
use crate::file_system::FileSystem;
use crate::limits::{NAME_BYTES_MAX, SYMLINKS_MAX};

impl<P: Deref<Target: FileSystem>> Session<P> {
    /// Walks along a path, up to its last component, and looks what is there.
    pub(super) async fn walk<'a>(
        &self,
        at: At<'a>,
        follow: Follow,
    ) -> Result<Found<'a>, FileError> {
        check_path(at.path)?;
        let mut directory = self.start(&at).await?;
        let (mut path, mut from, mut links) = (Cow::Borrowed(at.path), 0, 0);
        loop {
            let Some(name) = component(&path, from) else {
                let name = path.len()..path.len();
                return Ok(Found {
                    directory,
                    last: Last::Root,
                    target: Some(directory),
                    slash: true,
                    path,
                    name,
                });
            };
            if !directory.is_directory() {
                return Err(Errno::ENOTDIR.into());
            }
            check(&self.caller, &directory, Access::EXECUTE)?;
            let is_last = component(&path, name.end).is_none();
            let slash = name.end < path.len();
            let (last, target) = self.step(&directory, &path[name.clone()]).await?;
            let follows = match follow {
                _ if !is_last => true,
                Follow::Always => true,
                Follow::IfDirectory => slash,
                Follow::Never => false,
            };
            match target {
                Some(link) if link.kind == Kind::Symlink && follows => {
                    links += 1;
                    if links > SYMLINKS_MAX {
                        return Err(Errno::ELOOP.into());
                    }
                    let mut rest = self.fs.read_link(link.number).await?;
                    if rest.starts_with(b"/") {
                        directory = self.root().await?;
                    }
                    rest.extend_from_slice(&path[name.end..]);
                    (path, from) = (Cow::Owned(rest), 0);
                }
                target if is_last => {
                    return Ok(Found {
                        directory,
                        last,
                        target,
                        slash,
                        path,
                        name,
                    });
                }
                Some(target) => (directory, from) = (target, name.end),
                None => return Err(Errno::ENOENT.into()),
            }
        }
    }

    /// One component further: what it is, and what is there.
    async fn step(
        &self,
        directory: &Attributes,
        name: &[u8],
    ) -> Result<(Last, Option<Attributes>), FileError> {
        let last = match name {
            b"." => return Ok((Last::Dot, Some(*directory))),
            b".." => Last::DotDot,
            _ if name.len() > NAME_BYTES_MAX => return Err(Errno::ENAMETOOLONG.into()),
            _ => Last::Name,
        };
        match self.fs.lookup(directory.number, name).await {
            Ok(target) => Ok((last, Some(target))),
            Err(FileError::Errno(Errno::ENOENT)) => Ok((last, None)),
            Err(error) => Err(error),
        }
    }

    async fn root(&self) -> Result<Attributes, FileError> {
        self.fs.attributes(self.fs.root()).await
    }

    /// Where a path begins.
    async fn start(&self, at: &At<'_>) -> Result<Attributes, FileError> {
        match at.from {
            Some(handle) if !at.path.starts_with(b"/") => {
                let open = self.open_file(handle)?;
                let start = self.fs.attributes(open.number).await?;
                match start.is_directory() {
                    true => Ok(start),
                    false => Err(Errno::ENOTDIR.into()),
                }
            }
            _ => self.root().await,
        }
    }

    /// What a path names.
    pub(super) async fn resolve(&self, at: At<'_>, follow: bool) -> Result<Attributes, FileError> {
        let found = self.walk(at, Follow::always_if(follow)).await?;
        Ok(found.existing()?)
    }
}
