//! What a front end asks of a file system on behalf of its callers, each request with who asks and
//! when. A front end (the FUSE mount, a library, a server) stands on [`Service`], and so does not
//! see whether the file system is beside it ([`Sessions`]) or in a drive, behind commands.
//!
//! What each operation promises, and its errors, are those of [`Session`] by the same name.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

use super::attributes::{SetTime, Target};
use super::open::Opened;
use super::path::At;
use super::permission::Access;
use super::session::{Session, SessionLimits};
use crate::arguments::{Allocate, By, Place, Seek, SetXattr, StatFs, Sync, Written};
use crate::attributes::{Attributes, DirectoryEntry, Special};
use crate::caller::Caller;
use crate::errno::FileError;
use crate::file_system::FileSystem;
use crate::flags::{Handle, OpenFlags, Rename};

/// Callers whose sessions are kept: who comes most recently is first.
const CALLERS_KEPT: usize = 32;

/// What a front end asks of a file system. See the module.
#[allow(async_fn_in_trait)] // the futures stay on their CPU: no Send is wanted
pub trait Service {
    /// The number of the directory where all paths begin.
    fn root(&self) -> u64;

    /// Whether others change the file system too, so that no answer stays right.
    fn is_shared(&self) -> bool {
        false
    }

    /// The attributes of what a target names.
    async fn stat(&self, by: By<'_>, target: Target<'_>) -> Result<Attributes, FileError>;

    /// Whether the caller may do something with it.
    async fn access(&self, by: By<'_>, target: Target<'_>, access: Access)
    -> Result<(), FileError>;

    /// Opens what a path names, or makes it. The handle is everybody's who knows it; what is done
    /// by it is done as this caller.
    async fn open(
        &self,
        by: By<'_>,
        at: At<'_>,
        flags: OpenFlags,
        mode: u16,
    ) -> Result<Opened, FileError>;

    /// Sets the size of what a path names.
    async fn truncate(&self, by: By<'_>, at: At<'_>, bytes: u64) -> Result<(), FileError>;

    /// Makes a directory.
    async fn mkdir(&self, by: By<'_>, at: At<'_>, mode: u16) -> Result<Attributes, FileError>;

    /// Makes a pipe, socket or device.
    async fn mknod(
        &self,
        by: By<'_>,
        at: At<'_>,
        special: Special,
        device: u32,
        mode: u16,
    ) -> Result<Attributes, FileError>;

    /// Makes a symbolic link to `target`.
    async fn symlink(&self, by: By<'_>, target: &[u8], at: At<'_>)
    -> Result<Attributes, FileError>;

    /// Gives a file one more name; `follow` a symbolic link at the end of `from`.
    async fn link(
        &self,
        by: By<'_>,
        from: At<'_>,
        to: At<'_>,
        follow: bool,
    ) -> Result<Attributes, FileError>;

    /// Removes the name of what is no directory.
    async fn unlink(&self, by: By<'_>, at: At<'_>) -> Result<(), FileError>;

    /// Removes an empty directory.
    async fn rmdir(&self, by: By<'_>, at: At<'_>) -> Result<(), FileError>;

    /// Gives something another name.
    async fn rename(
        &self,
        by: By<'_>,
        from: At<'_>,
        to: At<'_>,
        how: Rename,
    ) -> Result<(), FileError>;

    /// Where a symbolic link leads.
    async fn read_link(&self, by: By<'_>, at: At<'_>) -> Result<Vec<u8>, FileError>;

    /// Sets permission bits.
    async fn chmod(&self, by: By<'_>, target: Target<'_>, mode: u16) -> Result<(), FileError>;

    /// Gives something to somebody.
    async fn chown(
        &self,
        by: By<'_>,
        target: Target<'_>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<(), FileError>;

    /// Sets times.
    async fn set_times(
        &self,
        by: By<'_>,
        target: Target<'_>,
        accessed: SetTime,
        modified: SetTime,
    ) -> Result<(), FileError>;

    /// The value of an extended attribute.
    async fn xattr(
        &self,
        by: By<'_>,
        target: Target<'_>,
        name: &[u8],
    ) -> Result<Vec<u8>, FileError>;

    /// Sets an extended attribute.
    async fn set_xattr(
        &self,
        by: By<'_>,
        target: Target<'_>,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FileError>;

    /// Takes an extended attribute away.
    async fn remove_xattr(
        &self,
        by: By<'_>,
        target: Target<'_>,
        name: &[u8],
    ) -> Result<(), FileError>;

    /// The names of the extended attributes that the caller may see.
    async fn xattrs(&self, by: By<'_>, target: Target<'_>) -> Result<Vec<Box<[u8]>>, FileError>;

    /// Gives a handle back.
    async fn close(&self, handle: Handle) -> Result<(), FileError>;

    /// Reads from byte `offset` on; gives the number of bytes.
    async fn read(
        &self,
        now_ns: u64,
        handle: Handle,
        offset: u64,
        out: &mut [u8],
    ) -> Result<u64, FileError>;

    /// Writes; gives where, and how much.
    async fn write(
        &self,
        now_ns: u64,
        handle: Handle,
        place: Place,
        data: &[u8],
    ) -> Result<Written, FileError>;

    /// Sets the size of an open file.
    async fn truncate_open(&self, now_ns: u64, handle: Handle, bytes: u64)
    -> Result<(), FileError>;

    /// Gives storage to a range, or takes it.
    async fn allocate(
        &self,
        now_ns: u64,
        handle: Handle,
        offset: u64,
        bytes: u64,
        what: Allocate,
    ) -> Result<(), FileError>;

    /// The first byte from `offset` on that is data, or a hole.
    async fn seek(&self, handle: Handle, offset: u64, what: Seek) -> Result<u64, FileError>;

    /// Adds up to `most` entries behind `cookie`; true if there are no more.
    async fn list(
        &self,
        handle: Handle,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError>;

    /// Makes an open file or directory durable.
    async fn sync(&self, handle: Handle, what: Sync) -> Result<(), FileError>;

    /// Makes everything durable.
    async fn sync_all(&self) -> Result<(), FileError>;

    /// How much there is, and how much is free.
    async fn stat_fs(&self) -> Result<StatFs, FileError>;
}

/// A file system beside the front end: one table of open files, and a session for each caller.
pub struct Sessions<P> {
    first: Session<P>,
    /// Those of the last callers, the most recent one first.
    recent: RefCell<Vec<Rc<Session<P>>>>,
}

impl<P: Deref<Target: FileSystem> + Clone> Sessions<P> {
    /// Nothing is open.
    pub fn new(fs: P, limits: SessionLimits) -> Sessions<P> {
        Sessions {
            first: Session::new(fs, Caller::root(), limits),
            recent: RefCell::default(),
        }
    }

    /// Closes all that is open, and gives the file system back.
    ///
    /// # Errors
    /// Of closing: all is closed in any case.
    pub async fn end(self) -> (P, Result<(), FileError>) {
        let closed = self.first.close_all().await;
        (self.first.into_file_system(), closed)
    }

    /// The session of a caller. Nothing but its open files is kept in one, and those are shared.
    fn of(&self, caller: &Caller) -> Rc<Session<P>> {
        let mut recent = self.recent.borrow_mut();
        match recent.iter().position(|known| known.caller() == caller) {
            Some(at) => recent[..=at].rotate_right(1),
            None => {
                recent.truncate(CALLERS_KEPT - 1);
                let new = self.first.as_caller(caller.clone(), u64::MAX);
                recent.insert(0, Rc::new(new));
            }
        }
        recent[0].clone()
    }
}

impl<P: Deref<Target: FileSystem> + Clone> Service for Sessions<P> {
    fn root(&self) -> u64 {
        self.first.file_system().root()
    }

    async fn stat(&self, by: By<'_>, target: Target<'_>) -> Result<Attributes, FileError> {
        self.of(by.caller).stat(target).await
    }

    async fn access(
        &self,
        by: By<'_>,
        target: Target<'_>,
        access: Access,
    ) -> Result<(), FileError> {
        self.of(by.caller).access(target, access).await
    }

    async fn open(
        &self,
        by: By<'_>,
        at: At<'_>,
        flags: OpenFlags,
        mode: u16,
    ) -> Result<Opened, FileError> {
        self.of(by.caller).open(by.now_ns, at, flags, mode).await
    }

    async fn truncate(&self, by: By<'_>, at: At<'_>, bytes: u64) -> Result<(), FileError> {
        self.of(by.caller).truncate(by.now_ns, at, bytes).await
    }

    async fn mkdir(&self, by: By<'_>, at: At<'_>, mode: u16) -> Result<Attributes, FileError> {
        self.of(by.caller).mkdir(by.now_ns, at, mode).await
    }

    async fn mknod(
        &self,
        by: By<'_>,
        at: At<'_>,
        special: Special,
        device: u32,
        mode: u16,
    ) -> Result<Attributes, FileError> {
        self.of(by.caller)
            .mknod(by.now_ns, at, special, device, mode)
            .await
    }

    async fn symlink(
        &self,
        by: By<'_>,
        target: &[u8],
        at: At<'_>,
    ) -> Result<Attributes, FileError> {
        self.of(by.caller).symlink(by.now_ns, target, at).await
    }

    async fn link(
        &self,
        by: By<'_>,
        from: At<'_>,
        to: At<'_>,
        follow: bool,
    ) -> Result<Attributes, FileError> {
        self.of(by.caller).link(by.now_ns, from, to, follow).await
    }

    async fn unlink(&self, by: By<'_>, at: At<'_>) -> Result<(), FileError> {
        self.of(by.caller).unlink(by.now_ns, at).await
    }

    async fn rmdir(&self, by: By<'_>, at: At<'_>) -> Result<(), FileError> {
        self.of(by.caller).rmdir(by.now_ns, at).await
    }

    async fn rename(
        &self,
        by: By<'_>,
        from: At<'_>,
        to: At<'_>,
        how: Rename,
    ) -> Result<(), FileError> {
        self.of(by.caller).rename(by.now_ns, from, to, how).await
    }

    async fn read_link(&self, by: By<'_>, at: At<'_>) -> Result<Vec<u8>, FileError> {
        self.of(by.caller).read_link(at).await
    }

    async fn chmod(&self, by: By<'_>, target: Target<'_>, mode: u16) -> Result<(), FileError> {
        self.of(by.caller).chmod(by.now_ns, target, mode).await
    }

    async fn chown(
        &self,
        by: By<'_>,
        target: Target<'_>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<(), FileError> {
        self.of(by.caller).chown(by.now_ns, target, uid, gid).await
    }

    async fn set_times(
        &self,
        by: By<'_>,
        target: Target<'_>,
        accessed: SetTime,
        modified: SetTime,
    ) -> Result<(), FileError> {
        self.of(by.caller)
            .set_times(by.now_ns, target, accessed, modified)
            .await
    }

    async fn xattr(
        &self,
        by: By<'_>,
        target: Target<'_>,
        name: &[u8],
    ) -> Result<Vec<u8>, FileError> {
        self.of(by.caller).xattr(target, name).await
    }

    async fn set_xattr(
        &self,
        by: By<'_>,
        target: Target<'_>,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FileError> {
        self.of(by.caller)
            .set_xattr(by.now_ns, target, name, value, how)
            .await
    }

    async fn remove_xattr(
        &self,
        by: By<'_>,
        target: Target<'_>,
        name: &[u8],
    ) -> Result<(), FileError> {
        self.of(by.caller)
            .remove_xattr(by.now_ns, target, name)
            .await
    }

    async fn xattrs(&self, by: By<'_>, target: Target<'_>) -> Result<Vec<Box<[u8]>>, FileError> {
        self.of(by.caller).xattrs(target).await
    }

    async fn close(&self, handle: Handle) -> Result<(), FileError> {
        self.first.close(handle).await
    }

    async fn read(
        &self,
        now_ns: u64,
        handle: Handle,
        offset: u64,
        out: &mut [u8],
    ) -> Result<u64, FileError> {
        self.first.read(now_ns, handle, offset, out).await
    }

    async fn write(
        &self,
        now_ns: u64,
        handle: Handle,
        place: Place,
        data: &[u8],
    ) -> Result<Written, FileError> {
        self.first.write(now_ns, handle, place, data).await
    }

    async fn truncate_open(
        &self,
        now_ns: u64,
        handle: Handle,
        bytes: u64,
    ) -> Result<(), FileError> {
        self.first.truncate_open(now_ns, handle, bytes).await
    }

    async fn allocate(
        &self,
        now_ns: u64,
        handle: Handle,
        offset: u64,
        bytes: u64,
        what: Allocate,
    ) -> Result<(), FileError> {
        self.first
            .allocate(now_ns, handle, offset, bytes, what)
            .await
    }

    async fn seek(&self, handle: Handle, offset: u64, what: Seek) -> Result<u64, FileError> {
        self.first.seek(handle, offset, what).await
    }

    async fn list(
        &self,
        handle: Handle,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError> {
        self.first.list(handle, cookie, most, entries).await
    }

    async fn sync(&self, handle: Handle, what: Sync) -> Result<(), FileError> {
        self.first.sync(handle, what).await
    }

    async fn sync_all(&self) -> Result<(), FileError> {
        self.first.sync_all().await
    }

    async fn stat_fs(&self) -> Result<StatFs, FileError> {
        self.first.stat_fs().await
    }
}
