//! What a front end asks, as commands to the drive.

use wharf_files::vfs::{Access, At, Opened, Service, SetTime, Target};
use wharf_files::{
    Allocate, Attributes, By, DirectoryEntry, FileError, Handle, OpenFlags, Place, Rename, Seek,
    SetXattr, Special, StatFs, Sync, Written,
};

use super::drive::FileDrive;

impl Service for FileDrive {
    fn root(&self) -> u64 {
        self.root
    }

    fn is_shared(&self) -> bool {
        self.is_elsewhere()
    }

    async fn stat(&self, by: By<'_>, target: Target<'_>) -> Result<Attributes, FileError> {
        if let Some(known) = self.stat_by_cache(by, target)? {
            return Ok(known);
        }
        let client = self.as_caller(by);
        let asked = self.ask_of(target);
        let found = self.done_about(self.about_target(target), client.stat(target));
        self.learn(by, target, &found, asked);
        found
    }

    async fn access(
        &self,
        by: By<'_>,
        target: Target<'_>,
        access: Access,
    ) -> Result<(), FileError> {
        let bits = access.bits();
        if let Some(known) = self.access_by_cache(by, target, bits)? {
            return Ok(known);
        }
        let client = self.as_caller(by);
        let asked = self.ask_of(target);
        let found = self.done_about(self.about_target(target), client.access(target, bits));
        let answer = found.map_err(|error| error.errno());
        self.learn_access(by, target, (bits, answer), asked);
        found
    }

    async fn open(
        &self,
        by: By<'_>,
        at: At<'_>,
        flags: OpenFlags,
        mode: u16,
    ) -> Result<Opened, FileError> {
        self.open_by_cache(by, at, flags)?;
        let client = self.as_caller(by);
        let opened = self.opened((by, at), flags, client.open(at, flags, mode))?;
        if flags.append {
            self.appending.borrow_mut().insert(opened.handle);
        }
        Ok(opened)
    }

    async fn truncate(&self, by: By<'_>, at: At<'_>, bytes: u64) -> Result<(), FileError> {
        let client = self.as_caller(by);
        self.done_by_path(client.truncate(at, bytes))
    }

    async fn mkdir(&self, by: By<'_>, at: At<'_>, mode: u16) -> Result<Attributes, FileError> {
        let client = self.as_caller(by);
        self.done_to_names(client.mkdir(at, mode))
    }

    async fn mknod(
        &self,
        by: By<'_>,
        at: At<'_>,
        special: Special,
        device: u32,
        mode: u16,
    ) -> Result<Attributes, FileError> {
        let client = self.as_caller(by);
        self.done_to_names(client.mknod(at, special, device, mode))
    }

    async fn symlink(
        &self,
        by: By<'_>,
        target: &[u8],
        at: At<'_>,
    ) -> Result<Attributes, FileError> {
        let client = self.as_caller(by);
        self.done_to_names(client.symlink(target, at))
    }

    async fn link(
        &self,
        by: By<'_>,
        from: At<'_>,
        to: At<'_>,
        follow: bool,
    ) -> Result<Attributes, FileError> {
        let client = self.as_caller(by);
        self.done_to_attributes(client.link(from, to, follow))
    }

    async fn unlink(&self, by: By<'_>, at: At<'_>) -> Result<(), FileError> {
        let client = self.as_caller(by);
        self.done_to_attributes(client.unlink(at))
    }

    async fn rmdir(&self, by: By<'_>, at: At<'_>) -> Result<(), FileError> {
        let client = self.as_caller(by);
        self.done_to_names(client.rmdir(at))
    }

    async fn rename(
        &self,
        by: By<'_>,
        from: At<'_>,
        to: At<'_>,
        how: Rename,
    ) -> Result<(), FileError> {
        let client = self.as_caller(by);
        self.done_to_attributes(client.rename(from, to, how))
    }

    async fn read_link(&self, by: By<'_>, at: At<'_>) -> Result<Vec<u8>, FileError> {
        let client = self.as_caller(by);
        self.done(client.read_link(at))
    }

    async fn chmod(&self, by: By<'_>, target: Target<'_>, mode: u16) -> Result<(), FileError> {
        let client = self.as_caller(by);
        self.done_to_attributes(client.chmod(target, mode))
    }

    async fn chown(
        &self,
        by: By<'_>,
        target: Target<'_>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<(), FileError> {
        let client = self.as_caller(by);
        self.done_to_attributes(client.chown(target, uid, gid))
    }

    async fn set_times(
        &self,
        by: By<'_>,
        target: Target<'_>,
        accessed: SetTime,
        modified: SetTime,
    ) -> Result<(), FileError> {
        let client = self.as_caller(by);
        let set = client.set_times(target, accessed, modified);
        self.done_to_attributes(set)
    }

    async fn xattr(
        &self,
        by: By<'_>,
        target: Target<'_>,
        name: &[u8],
    ) -> Result<Vec<u8>, FileError> {
        let client = self.as_caller(by);
        self.done_about(self.about_target(target), client.xattr(target, name))
    }

    async fn set_xattr(
        &self,
        by: By<'_>,
        target: Target<'_>,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FileError> {
        let client = self.as_caller(by);
        let set = client.set_xattr(target, name, value, how);
        self.done_to_attributes(set)
    }

    async fn remove_xattr(
        &self,
        by: By<'_>,
        target: Target<'_>,
        name: &[u8],
    ) -> Result<(), FileError> {
        let client = self.as_caller(by);
        self.done_to_attributes(client.remove_xattr(target, name))
    }

    async fn xattrs(&self, by: By<'_>, target: Target<'_>) -> Result<Vec<Box<[u8]>>, FileError> {
        let client = self.as_caller(by);
        self.done_about(self.about_target(target), client.xattrs(target))
    }

    async fn close(&self, handle: Handle) -> Result<(), FileError> {
        self.appending.borrow_mut().remove(&handle);
        self.leave_near(handle);
        let about = self.about(handle);
        self.note_closed(handle);
        self.done_about(about, self.client().close(handle))
    }

    async fn read(
        &self,
        now_ns: u64,
        handle: Handle,
        offset: u64,
        out: &mut [u8],
    ) -> Result<u64, FileError> {
        self.tell_time(now_ns);
        if let Some(bytes) = self.read_by_cache(handle, offset, out)? {
            return Ok(bytes);
        }
        let client = self.client();
        self.done_on(handle, client.read(handle, offset, out))
    }

    /// As [`Service::write`]; an append writes no more than one command moves.
    async fn write(
        &self,
        now_ns: u64,
        handle: Handle,
        place: Place,
        data: &[u8],
    ) -> Result<Written, FileError> {
        self.tell_time(now_ns);
        if let Some(written) = self.write_by_cache(handle, place, data)? {
            return Ok(written);
        }
        let client = self.client();
        let data = match place {
            Place::End => &data[..data.len().min(client.bytes_max())],
            Place::At(_) => data,
        };
        self.done_to_write(handle, (place, data), async {
            match place {
                Place::End => Ok(Written {
                    offset: client.append(handle, data).await?,
                    bytes: data.len() as u64,
                }),
                Place::At(offset) => {
                    let bytes = client.write(handle, offset, data).await?;
                    let offset = match self.appends(handle) {
                        false => offset,
                        // It is at the end, wherever that was.
                        true => {
                            let now = client.stat(Target::Handle(handle)).await?;
                            now.bytes.saturating_sub(bytes)
                        }
                    };
                    Ok(Written { offset, bytes })
                }
            }
        })
    }

    async fn truncate_open(
        &self,
        now_ns: u64,
        handle: Handle,
        bytes: u64,
    ) -> Result<(), FileError> {
        self.tell_time(now_ns);
        let client = self.client();
        self.done_to_bytes(handle, client.truncate_open(handle, bytes))
    }

    async fn allocate(
        &self,
        now_ns: u64,
        handle: Handle,
        offset: u64,
        bytes: u64,
        what: Allocate,
    ) -> Result<(), FileError> {
        self.tell_time(now_ns);
        let client = self.client();
        let done = client.allocate(handle, offset, bytes, what);
        self.done_to_bytes(handle, done)
    }

    async fn seek(&self, handle: Handle, offset: u64, what: Seek) -> Result<u64, FileError> {
        let client = self.client();
        self.done_on(handle, client.seek(handle, offset, what))
    }

    async fn list(
        &self,
        handle: Handle,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError> {
        let client = self.client();
        let listed = client.list(handle, cookie, most, entries);
        self.done_on(handle, listed)
    }

    async fn sync(&self, handle: Handle, what: Sync) -> Result<(), FileError> {
        let client = self.client();
        self.done_on(handle, client.sync(handle, what))
    }

    async fn sync_all(&self) -> Result<(), FileError> {
        let client = self.client();
        self.done(client.sync_all())
    }

    async fn stat_fs(&self) -> Result<StatFs, FileError> {
        let client = self.client();
        self.done(client.stat_fs())
    }
}
