//! Opening and closing.

use std::ops::Deref;
use std::rc::Rc;

use super::path::{At, Follow, Found};
use super::permission::{Access, check, check_create, of_new};
use super::session::{OpenFile, Session};
use crate::arguments::{Content, Entry, New};
use crate::attributes::{Attributes, Kind, STICKY};
use crate::errno::{Errno, FileError};
use crate::file_system::FileSystem;
use crate::flags::{Handle, OpenFlags};

/// A file that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// For what is to be done with it.
    pub handle: Handle,
    /// What it is. Its size is that before it was cut, if it was.
    pub attributes: Attributes,
    /// Whether it was made.
    pub is_new: bool,
}

impl<P: Deref<Target: FileSystem>> Session<P> {
    /// Opens what a path names. A file that is made has the permission bits `mode`, from which the
    /// caller has taken its mask.
    ///
    /// # Errors
    /// `EINVAL` (to be made or cut, neither to read nor to write; to make a directory), `ENFILE`; those of a walk; `EISDIR` (to be made, and the path ends in `/`), `EACCES`
    /// (nothing may be made there), `EEXIST`, `EISDIR` (to be made, and it is a directory),
    /// `EACCES` (to be made, and it is a stranger's symbolic link in a sticky directory),
    /// `ENOTDIR`, `ELOOP` (a symbolic link that is not followed), `EISDIR` (a directory to be
    /// written), `EACCES`, `ENXIO` (a pipe, socket or device: nobody here serves it).
    pub async fn open(
        &self,
        now_ns: u64,
        at: At<'_>,
        flags: OpenFlags,
        mode: u16,
    ) -> Result<Opened, FileError> {
        // What is neither read nor written is a place for paths to begin at, and has attributes.
        let is_place = !flags.read && !flags.write;
        let changes = flags.create || flags.truncate;
        if is_place && changes || flags.create && flags.directory {
            return Err(Errno::EINVAL.into());
        }
        if !self.handles.borrow().has_room() {
            return Err(Errno::ENFILE.into());
        }
        let again = async || self.open_once(now_ns, at, flags, mode).await;
        let (attributes, is_new) = self.again(again).await?;
        let open = Rc::new(OpenFile {
            number: attributes.number,
            is_directory: attributes.is_directory(),
            flags,
            caller: self.caller.clone(),
            file_bytes_max: self.file_bytes_max,
        });
        let inserted = self.handles.borrow_mut().insert(open);
        match inserted {
            Ok(handle) => Ok(Opened {
                handle,
                attributes,
                is_new,
            }),
            // Others have taken the room meanwhile.
            Err((errno, open)) => {
                self.fs.close(open.number).await?;
                Err(errno.into())
            }
        }
    }

    async fn open_once(
        &self,
        now_ns: u64,
        at: At<'_>,
        flags: OpenFlags,
        mode: u16,
    ) -> Result<(Attributes, bool), FileError> {
        let is_exclusive = flags.create && flags.exclusive;
        let follow = match flags {
            _ if is_exclusive => Follow::Never,
            _ if flags.no_follow => Follow::IfDirectory,
            _ => Follow::Always,
        };
        let on_slash = flags.create.then_some(Errno::EISDIR);
        let found = self.walk_to(at, follow, on_slash).await?;
        let Some(target) = found.target else {
            return match flags.create {
                true => self.make(now_ns, &found, mode).await,
                false => Err(Errno::ENOENT.into()),
            };
        };
        if is_exclusive {
            return Err(Errno::EEXIST.into());
        }
        match target.kind {
            Kind::Directory if flags.create => return Err(Errno::EISDIR.into()),
            Kind::Symlink if flags.create && self.is_strange(&found.directory, &target) => {
                return Err(Errno::EACCES.into());
            }
            Kind::File | Kind::Symlink | Kind::Special(_) if flags.directory || found.slash => {
                return Err(Errno::ENOTDIR.into());
            }
            Kind::Symlink => return Err(Errno::ELOOP.into()),
            Kind::Directory if flags.write || flags.truncate => return Err(Errno::EISDIR.into()),
            _ => {}
        }
        let access = match (flags.read, flags.write || flags.truncate) {
            (true, true) => Access::READ.and(Access::WRITE),
            (false, true) => Access::WRITE,
            (true, false) => Access::READ,
            (false, false) => Access::NONE,
        };
        check(&self.caller, &target, access)?;
        if let Kind::Special(_) = target.kind {
            return Err(Errno::ENXIO.into());
        }
        self.fs.open(target.number).await?;
        if flags.truncate
            && let Err(error) = self.fs.truncate(self.by(now_ns), target.number, 0).await
        {
            // It is not open, then.
            let _ = self.fs.close(target.number).await;
            return Err(error);
        }
        Ok((target, false))
    }

    /// Whether what is neither a file nor a directory is another one's, in a sticky directory of a
    /// third where everybody makes things: to open it by a name that might have been new is refused
    /// (Linux, `may_create_in_sticky`).
    fn is_strange(&self, directory: &Attributes, target: &Attributes) -> bool {
        let is_common = directory.mode & STICKY != 0 && directory.mode & 0o002 != 0;
        let is_known = self.caller.owns(target.owner) || target.owner.uid == directory.owner.uid;
        is_common && !is_known
    }

    /// Makes a file, and opens it.
    async fn make(
        &self,
        now_ns: u64,
        found: &Found<'_>,
        mode: u16,
    ) -> Result<(Attributes, bool), FileError> {
        check_create(&self.caller, &found.directory)?;
        let (owner, mode) = of_new(&self.caller, &found.directory, Kind::File, mode);
        let new = New {
            content: Content::File,
            mode,
            owner,
            is_open: true,
        };
        let entry = Entry::new(found.directory.number, found.name());
        match self.fs.create(self.by(now_ns), entry, new).await {
            // It was not there a moment ago: look again.
            Err(FileError::Errno(Errno::EEXIST)) => Err(Errno::ESTALE.into()),
            made => Ok((made?, true)),
        }
    }

    /// Gives a handle back. The last one of a file without a name gives its storage back too.
    /// Nothing is made durable by it.
    ///
    /// # Errors
    /// `EBADF`. After any other error the handle is closed all the same.
    pub async fn close(&self, handle: Handle) -> Result<(), FileError> {
        let open = self.handles.borrow_mut().remove(handle)?;
        self.fs.close(open.number).await
    }

    /// Gives all handles back.
    ///
    /// # Errors
    /// The first one; all are closed in any case.
    pub async fn close_all(&self) -> Result<(), FileError> {
        let all = self.handles.borrow_mut().drain();
        let mut result = Ok(());
        for open in all {
            let closed = self.fs.close(open.number).await;
            result = result.and(closed);
        }
        result
    }
}
