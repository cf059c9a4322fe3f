//! The walk along a path: through directories and symbolic links to where its last component is, or
//! would be.
//!
//! In every directory that it goes through the caller needs to be allowed to look names up, also in
//! the last one. A symbolic link is read, put before the rest of the path, and the walk goes on
//! there.

use std::borrow::Cow;
use std::ops::Deref;

use super::path::{At, Follow, Found, Last, Start, check_path, component};
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
        self.walk_to(at, follow, None).await
    }

    /// The same; that there is a `/` behind the last name is an error, if `on_slash` is.
    pub(super) async fn walk_to<'a>(
        &self,
        at: At<'a>,
        follow: Follow,
        on_slash: Option<Errno>,
    ) -> Result<Found<'a>, FileError> {
        check_path(&at)?;
        let mut directory = self.start(&at).await?;
        let (mut path, mut from, mut links) = (Cow::Borrowed(at.path), 0, 0);
        loop {
            let Some(name) = component(&path, from) else {
                let name = path.len()..path.len();
                return Ok(Found {
                    directory,
                    last: Last::Root,
                    target: Some(directory),
                    slash: !at.is_start(),
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
            let last = last_of(&path[name.clone()]);
            if let Some(errno) = on_slash
                && is_last
                && slash
                && last == Last::Name
            {
                return Err(errno.into());
            }
            if is_last && follow == Follow::Unseen {
                return Ok(Found {
                    directory,
                    last,
                    target: None,
                    slash,
                    path,
                    name,
                });
            }
            if self.links_leave && last == Last::DotDot && directory.number == self.fs.root() {
                return Err(Errno::EREMOTE.into());
            }
            let target = self.step(&directory, &path[name.clone()]).await?;
            let follows = match follow {
                _ if !is_last => true,
                Follow::Always => true,
                Follow::IfDirectory => slash,
                Follow::Never | Follow::Unseen => false,
            };
            match target {
                Some(link) if link.kind == Kind::Symlink && follows => {
                    links += 1;
                    if links > SYMLINKS_MAX {
                        return Err(Errno::ELOOP.into());
                    }
                    let mut rest = self.fs.read_link(link.number).await?;
                    if rest.starts_with(b"/") {
                        if self.links_leave {
                            return Err(Errno::EREMOTE.into());
                        }
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

    /// What one component further is.
    async fn step(
        &self,
        directory: &Attributes,
        name: &[u8],
    ) -> Result<Option<Attributes>, FileError> {
        if name == b"." {
            return Ok(Some(*directory));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        match self.fs.lookup(directory.number, name).await {
            Ok(target) => Ok(Some(target)),
            Err(FileError::Errno(Errno::ENOENT)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Looks what is at the end of a walk that did not look.
    pub(super) async fn look(&self, found: &mut Found<'_>) -> Result<(), FileError> {
        found.target = self.step(&found.directory, found.name()).await?;
        Ok(())
    }

    async fn root(&self) -> Result<Attributes, FileError> {
        self.fs.attributes(self.fs.root()).await
    }

    /// Where a path begins.
    async fn start(&self, at: &At<'_>) -> Result<Attributes, FileError> {
        match at.from {
            _ if at.path.starts_with(b"/") => self.root().await,
            Start::Root => self.root().await,
            Start::Number(number) => self.fs.attributes(number).await,
            Start::Handle(handle) => {
                let open = self.open_file(handle)?;
                let start = self.fs.attributes(open.number).await?;
                match start.is_directory() {
                    true => Ok(start),
                    false => Err(Errno::ENOTDIR.into()),
                }
            }
        }
    }

    /// What a path names.
    pub(super) async fn resolve(&self, at: At<'_>, follow: bool) -> Result<Attributes, FileError> {
        let found = self.walk(at, Follow::always_if(follow)).await?;
        Ok(found.existing()?)
    }
}

fn last_of(name: &[u8]) -> Last {
    match name {
        b"." => Last::Dot,
        b".." => Last::DotDot,
        _ => Last::Name,
    }
}
