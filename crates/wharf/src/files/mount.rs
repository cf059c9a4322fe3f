//! A file system that is open, for one user.

use std::io;
use std::path::Path;

use wharf_drive::config::TokenCheck;
use wharf_files::block::Recovered;
use wharf_files::vfs::{At, Service, SetTime, Target};
use wharf_files::volume::Format;
use wharf_files::{
    Attributes, By, Caller, DirectoryEntry, LIST_START, OpenFlags, Rename, SetXattr,
};

use super::drive::FileDrive;
use super::file::{File, Files};
use super::image::{in_memory, in_memory_checking, open};
use super::{ImageError, NewImage, StatFs, wait};

/// Entries that are asked for at once.
const ENTRIES_AT_ONCE: usize = 256;

/// A file system of an image, open for one user. It stays on its thread, and so does the drive.
///
/// What was not made durable when it is dropped is lost; [`Mount::close`] makes all durable. Paths
/// are bytes; those that do not begin with `/` begin at the root.
pub struct Mount {
    files: Files,
}

impl Mount {
    /// Opens an image for whoever runs this program, with the rights of root: who has the image has
    /// all that is in it. One that another process serves, by its socket, as [`Mount::attach`] does.
    ///
    /// # Errors
    /// If there is no file system, it is damaged, or somebody else has it open.
    pub fn open(image: impl AsRef<Path>) -> Result<Mount, ImageError> {
        open(image.as_ref()).map(Mount::of_own_caller)
    }

    /// Opens an image for a user, who gets what permissions let it have.
    ///
    /// # Errors
    /// As [`Mount::open`].
    pub fn open_for(image: impl AsRef<Path>, caller: Caller) -> Result<Mount, ImageError> {
        let drive = open(image.as_ref())?;
        Ok(Mount {
            files: Files { drive, caller },
        })
    }

    /// Attaches to an image that another process serves at a socket ([`Server`](super::Server)), with the rights of
    /// root; where that process does not let this one have them, with those of this process's user.
    ///
    /// # Errors
    /// If nobody serves one there, or as many processes as may be there already are.
    pub fn attach(socket: impl AsRef<Path>) -> Result<Mount, ImageError> {
        FileDrive::attach(socket.as_ref()).map(Mount::of_own_caller)
    }

    /// As [`Mount::attach`], for a user.
    ///
    /// # Errors
    /// As [`Mount::attach`].
    pub fn attach_for(socket: impl AsRef<Path>, caller: Caller) -> Result<Mount, ImageError> {
        let drive = FileDrive::attach(socket.as_ref())?;
        Ok(Mount {
            files: Files { drive, caller },
        })
    }

    /// A new file system in memory, with the rights of root. It is gone when it is closed.
    ///
    /// # Errors
    /// If there can be none of that size.
    pub fn in_memory(new: &NewImage) -> Result<Mount, ImageError> {
        in_memory(new).map(Mount::of_own_caller)
    }

    /// The same, with a drive that checks this process as a drive that is served checks others: for measuring what that costs.
    ///
    /// # Errors
    /// If there can be none of that size.
    pub fn in_memory_checking(new: &NewImage, check: TokenCheck) -> Result<Mount, ImageError> {
        in_memory_checking(new, check).map(Mount::of_own_caller)
    }

    /// For whom the drive lets this process speak: root, or its own user.
    fn of_own_caller(drive: FileDrive) -> Mount {
        let caller = drive.own_caller();
        Mount {
            files: Files { drive, caller },
        }
    }

    /// Which file system it is; what another process serves does not say.
    pub fn format(&self) -> Option<Format> {
        self.files.drive.format()
    }

    /// What was done to bring it up to date.
    pub fn recovered(&self) -> &Recovered {
        self.files.drive.recovered()
    }

    /// Opens a file. One that is made has the permission bits `mode`.
    ///
    /// # Errors
    /// As `open` of POSIX.
    pub fn open_file(
        &self,
        path: impl AsRef<[u8]>,
        flags: OpenFlags,
        mode: u16,
    ) -> io::Result<File<'_>> {
        let at = At::from(path.as_ref());
        let opened = wait(self.drive().open(self.by(), at, flags, mode))?;
        Ok(File::new(&self.files, opened.handle))
    }

    /// The attributes of what a path names; of a symbolic link itself unless `follow`.
    ///
    /// # Errors
    /// As `stat`.
    pub fn stat(&self, path: impl AsRef<[u8]>, follow: bool) -> io::Result<Attributes> {
        wait(
            self.drive()
                .stat(self.by(), Target::Path(path.as_ref().into(), follow)),
        )
    }

    /// All entries of a directory, without `.` and `..`.
    ///
    /// # Errors
    /// As `opendir`.
    pub fn list(&self, path: impl AsRef<[u8]>) -> io::Result<Vec<DirectoryEntry>> {
        let directory = self.open_file(path, OpenFlags::DIRECTORY, 0)?;
        let (mut entries, mut cookie) = (Vec::new(), LIST_START);
        loop {
            let before = entries.len();
            let listed =
                self.drive()
                    .list(directory.handle(), cookie, ENTRIES_AT_ONCE, &mut entries);
            wait(listed)?;
            match entries.last() {
                Some(last) if entries.len() > before => cookie = last.cookie,
                _ => return Ok(entries),
            }
        }
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// As `mkdir`.
    pub fn mkdir(&self, path: impl AsRef<[u8]>, mode: u16) -> io::Result<()> {
        wait(self.drive().mkdir(self.by(), path.as_ref().into(), mode)).map(drop)
    }

    /// Makes a symbolic link to `target`.
    ///
    /// # Errors
    /// As `symlink`.
    pub fn symlink(&self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> io::Result<()> {
        let at = At::from(path.as_ref());
        wait(self.drive().symlink(self.by(), target.as_ref(), at)).map(drop)
    }

    /// Gives what `from` names, a symbolic link itself, a second name.
    ///
    /// # Errors
    /// As `link`.
    pub fn link(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> io::Result<()> {
        let (from, to) = (At::from(from.as_ref()), At::from(to.as_ref()));
        wait(self.drive().link(self.by(), from, to, false)).map(drop)
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// As `readlink`.
    pub fn read_link(&self, path: impl AsRef<[u8]>) -> io::Result<Vec<u8>> {
        wait(self.drive().read_link(self.by(), path.as_ref().into()))
    }

    /// Removes the name of a file.
    ///
    /// # Errors
    /// As `unlink`.
    pub fn unlink(&self, path: impl AsRef<[u8]>) -> io::Result<()> {
        wait(self.drive().unlink(self.by(), path.as_ref().into()))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As `rmdir`.
    pub fn rmdir(&self, path: impl AsRef<[u8]>) -> io::Result<()> {
        wait(self.drive().rmdir(self.by(), path.as_ref().into()))
    }

    /// Gives something another name, in one step.
    ///
    /// # Errors
    /// As `rename`.
    pub fn rename(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        how: Rename,
    ) -> io::Result<()> {
        let (from, to) = (At::from(from.as_ref()), At::from(to.as_ref()));
        wait(self.drive().rename(self.by(), from, to, how))
    }

    /// Sets the permission bits of what a path names.
    ///
    /// # Errors
    /// As `chmod`.
    pub fn chmod(&self, path: impl AsRef<[u8]>, mode: u16) -> io::Result<()> {
        let target = Target::Path(path.as_ref().into(), true);
        wait(self.drive().chmod(self.by(), target, mode))
    }

    /// Gives what a path names, a symbolic link itself, to somebody.
    ///
    /// # Errors
    /// As `lchown`.
    pub fn chown(&self, path: impl AsRef<[u8]>, uid: u32, gid: u32) -> io::Result<()> {
        let target = Target::Path(path.as_ref().into(), false);
        wait(self.drive().chown(self.by(), target, Some(uid), Some(gid)))
    }

    /// Sets when what a path names was read and changed last, in nanoseconds since 1970.
    ///
    /// # Errors
    /// As `utimensat`.
    pub fn set_times(
        &self,
        path: impl AsRef<[u8]>,
        accessed_ns: u64,
        modified_ns: u64,
    ) -> io::Result<()> {
        let target = Target::Path(path.as_ref().into(), true);
        let (accessed, modified) = (SetTime::At(accessed_ns), SetTime::At(modified_ns));
        wait(
            self.drive()
                .set_times(self.by(), target, accessed, modified),
        )
    }

    /// The names of the extended attributes of what a path names.
    ///
    /// # Errors
    /// As `listxattr`.
    pub fn xattrs(&self, path: impl AsRef<[u8]>) -> io::Result<Vec<Box<[u8]>>> {
        let target = Target::Path(path.as_ref().into(), true);
        wait(self.drive().xattrs(self.by(), target))
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// As `getxattr`.
    pub fn xattr(&self, path: impl AsRef<[u8]>, name: &[u8]) -> io::Result<Vec<u8>> {
        let target = Target::Path(path.as_ref().into(), true);
        wait(self.drive().xattr(self.by(), target, name))
    }

    /// Sets an extended attribute, whether it is there or not.
    ///
    /// # Errors
    /// As `setxattr`.
    pub fn set_xattr(&self, path: impl AsRef<[u8]>, name: &[u8], value: &[u8]) -> io::Result<()> {
        let target = Target::Path(path.as_ref().into(), true);
        let how = SetXattr::Put;
        wait(self.drive().set_xattr(self.by(), target, name, value, how))
    }

    /// Takes an extended attribute away.
    ///
    /// # Errors
    /// As `removexattr`.
    pub fn remove_xattr(&self, path: impl AsRef<[u8]>, name: &[u8]) -> io::Result<()> {
        let target = Target::Path(path.as_ref().into(), true);
        wait(self.drive().remove_xattr(self.by(), target, name))
    }

    /// How much there is, and how much of it is free.
    ///
    /// # Errors
    /// Of the drive.
    pub fn space(&self) -> io::Result<StatFs> {
        wait(self.drive().stat_fs())
    }

    /// Makes everything durable that was done before.
    ///
    /// # Errors
    /// Of the drive: from then on nothing is changed any more.
    pub fn sync_all(&self) -> io::Result<()> {
        wait(self.drive().sync_all())
    }

    /// Makes everything durable and ends the drive.
    ///
    /// # Errors
    /// Of the drive.
    pub fn close(self) -> Result<(), ImageError> {
        self.files.drive.end()
    }

    pub(super) fn drive(&self) -> &FileDrive {
        &self.files.drive
    }

    fn by(&self) -> By<'_> {
        self.files.by()
    }
}
