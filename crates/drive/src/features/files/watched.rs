//! The file system as one host has it: others are told before anything changes ([`Leases`]), and what was written near, or is kept by who
//! wrote it, is there before anybody looks ([`Near`], [`Writers`](super::writers::Writers)).

use std::ops::Range;
use std::rc::Rc;

use smallvec::smallvec;
use wharf_files::{
    Allocate, Attributes, By, Caller, DirectoryEntry, Entry, FileError, FileSystem, In, New, Out,
    Place, Remove, Rename, Seek, Seen, SetAttributes, SetXattr, StatFs, Sync, Write, Written,
};
use wharf_wire::file::{Evict, NearResult};

use super::leases::{Change, Leases, NAMES, Numbers};
use super::lines::FileSystemOfDrive;
use super::near::{ALL, Kept, Near, Past, User};

/// See the [module](self).
pub struct Watched {
    fs: Rc<FileSystemOfDrive>,
    leases: Rc<Leases>,
    near: Rc<Near>,
    /// Whose changes these are.
    host: u32,
}

impl Watched {
    /// The file system as host number `host` has it.
    pub(super) fn new(
        fs: Rc<FileSystemOfDrive>,
        leases: Rc<Leases>,
        near: Rc<Near>,
        host: u32,
    ) -> Watched {
        Watched {
            fs,
            leases,
            near,
            host,
        }
    }

    /// The file system itself.
    pub fn below(&self) -> &FileSystemOfDrive {
        &self.fs
    }

    /// Has what was written to a file, and is kept by who wrote it, written: by this host, whose lease to do so stays, or by
    /// another, whose lease ends.
    #[inline]
    pub(super) async fn settle(&self, number: u64) {
        if !self.leases.writers.is_idle() {
            self.leases
                .settle(&*self.fs, number, self.host, false)
                .await;
        }
    }

    /// The same; all leases to write it end.
    pub(super) async fn settle_whole(&self, number: u64) {
        self.leases.settle(&*self.fs, number, self.host, true).await;
    }

    /// The same for all files that this host writes.
    pub(super) async fn settle_own(&self) {
        for number in self.leases.writers.of_host(self.host) {
            self.settle_whole(number).await;
        }
    }

    /// Bytes of a file are looked at: those that were written near are the file's.
    async fn settle_near(&self, number: u64, bytes: Range<u64>) -> Result<(), FileError> {
        self.near.settle(&self.fs, number, bytes).await
    }

    /// Nothing of a file stays near.
    pub(super) async fn forget_near(&self, number: u64) -> Result<(), FileError> {
        self.near.forget(&self.fs, number).await
    }

    /// The same for all files of which this host has pages there.
    pub(super) async fn leave_near(&self) {
        self.near.host_leaves(&self.fs, self.host).await;
    }

    /// Reads by way of the cache in the drive's memory ([`Near::read`]).
    pub(super) async fn read_near(
        &self,
        (number, user): (u64, User),
        offset: u64,
        out: Out<'_>,
        kept: Kept,
        put: impl Fn(&[u8], Out<'_>) -> Result<(), FileError>,
    ) -> Result<NearResult, FileError> {
        // From before the look on nobody gets a lease to write, as pages may come.
        let _brings = matches!(kept, Kept::With(_)).then(|| self.near.brings(number));
        self.end_writer(number).await;
        let read = self
            .near
            .read(&self.fs, (number, user), offset, out, kept, put);
        read.await
    }

    /// Writes to the cache in the drive's memory ([`Near::write`]).
    pub(super) async fn write_near(
        &self,
        (number, user): (u64, User),
        caller: &Rc<Caller>,
        offset: u64,
        data: &[u8],
    ) -> Result<Option<(NearResult, Past)>, FileError> {
        self.end_writer(number).await;
        let _change = self.change(number);
        let user = (number, user);
        self.near.write(&self.fs, user, caller, offset, data).await
    }

    /// Has pages leave that cache ([`Near::evict`]).
    pub(super) async fn evict_near(
        &self,
        number: u64,
        bytes: Range<u64>,
        how: Evict,
    ) -> Result<u64, FileError> {
        // What is written back nobody sees.
        let _change = (how == Evict::Drop).then(|| self.change(number));
        let host = (number, self.host);
        self.near.evict(&self.fs, host, bytes, how).await
    }

    /// Whoever keeps what it writes to a file does so no more: what it keeps is not looked for near.
    async fn end_writer(&self, number: u64) {
        if self.leases.writers.has(number) {
            self.settle_whole(number).await;
        }
    }

    /// Names have gone: a file without any is not kept for them. That cannot be undone, so no error is told.
    async fn forget_removed(&self, seen: &[Seen]) {
        for seen in seen {
            if let Seen::Number(number) = seen
                && self.near.has(*number)
            {
                let _ = self.near.forget_if_removed(&self.fs, *number).await;
            }
        }
    }

    /// What a host has to be told of what was taken of it, before its own outcome.
    fn told<T>(&self, number: u64, outcome: Result<T, FileError>) -> Result<T, FileError> {
        self.leases.writers.tell_lost(self.host, number)?;
        outcome
    }

    /// One file is about to change.
    fn change(&self, number: u64) -> Change<'_> {
        self.leases.change(self.host, smallvec![number])
    }

    /// A file, and what can be seen without opening it, is about to change.
    fn change_shown(&self, number: u64) -> Change<'_> {
        self.leases.change(self.host, smallvec![number, NAMES])
    }

    /// What was seen behind names is about to change; the file system refuses to change anything else.
    fn change_seen(&self, seen: &[Seen]) -> Change<'_> {
        let mut numbers: Numbers = smallvec![NAMES];
        for seen in seen {
            match seen {
                Seen::Number(number) => numbers.push(*number),
                Seen::Nothing => {}
                Seen::Any => return self.leases.change_any(self.host),
            }
        }
        self.leases.change(self.host, numbers)
    }
}

impl FileSystem for Watched {
    fn is_durable(&self) -> bool {
        self.fs.is_durable()
    }

    fn root(&self) -> u64 {
        self.fs.root()
    }

    async fn lookup(&self, directory: u64, name: &[u8]) -> Result<Attributes, FileError> {
        let mut found = self.fs.lookup(directory, name).await?;
        if self.leases.writers.has(found.number) {
            self.settle(found.number).await;
            found = self.fs.lookup(directory, name).await?;
        }
        Ok(self.near.shown(found))
    }

    async fn attributes(&self, number: u64) -> Result<Attributes, FileError> {
        self.settle(number).await;
        Ok(self.near.shown(self.fs.attributes(number).await?))
    }

    async fn set_attributes(
        &self,
        by: By<'_>,
        number: u64,
        set: SetAttributes,
    ) -> Result<Attributes, FileError> {
        self.settle(number).await;
        // Who sets times sets them behind what was written. What is stored with set-id bits takes them away.
        self.near.hide(number, &ALL);
        self.settle_near(number, ALL).await?;
        let _change = self.change_shown(number);
        self.fs.set_attributes(by, number, set).await
    }

    async fn create(
        &self,
        by: By<'_>,
        entry: Entry<'_>,
        new: New<'_>,
    ) -> Result<Attributes, FileError> {
        // What is made nobody has a lease of, nor of directories.
        let _change = self.change(NAMES);
        self.fs.create(by, entry, new).await
    }

    async fn link(
        &self,
        by: By<'_>,
        number: u64,
        entry: Entry<'_>,
    ) -> Result<Attributes, FileError> {
        self.settle_near(number, ALL).await?;
        let _change = self.change_shown(number);
        self.fs.link(by, number, entry).await
    }

    async fn remove(&self, by: By<'_>, entry: Entry<'_>, what: Remove) -> Result<(), FileError> {
        let seen = entry.seen;
        let _change = self.change_seen(&[seen]);
        self.fs.remove(by, entry, what).await?;
        self.forget_removed(&[seen]).await;
        Ok(())
    }

    async fn rename(
        &self,
        by: By<'_>,
        from: Entry<'_>,
        to: Entry<'_>,
        how: Rename,
    ) -> Result<(), FileError> {
        let seen = [from.seen, to.seen];
        if let Seen::Number(number) = from.seen {
            self.settle_near(number, ALL).await?;
        }
        let _change = self.change_seen(&seen);
        self.fs.rename(by, from, to, how).await?;
        self.forget_removed(&seen).await;
        Ok(())
    }

    async fn read_link(&self, number: u64) -> Result<Vec<u8>, FileError> {
        self.fs.read_link(number).await
    }

    async fn list(
        &self,
        directory: u64,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError> {
        self.fs.list(directory, cookie, most, entries).await
    }

    async fn open(&self, number: u64) -> Result<(), FileError> {
        self.fs.open(number).await
    }

    async fn close(&self, number: u64) -> Result<(), FileError> {
        if self.leases.writers.is_of(number, self.host) {
            self.settle_whole(number).await;
        }
        self.near.hide(number, &ALL);
        // While the file is open here it is there to ask.
        let forgotten = match self.near.has(number) {
            true => self.near.forget_if_removed(&self.fs, number).await,
            false => Ok(()),
        };
        let closed = self.fs.close(number).await;
        self.told(number, forgotten.and(closed))
    }

    async fn read(
        &self,
        number: u64,
        offset: u64,
        out: Out<'_>,
        now_ns: u64,
    ) -> Result<u64, FileError> {
        self.settle(number).await;
        let end = offset.saturating_add(out.len());
        self.settle_near(number, offset..end).await?;
        self.fs.read(number, offset, out, now_ns).await
    }

    async fn write(
        &self,
        by: By<'_>,
        number: u64,
        write: Write,
        data: In<'_>,
    ) -> Result<Written, FileError> {
        self.settle(number).await;
        let _change = self.change(number);
        let bytes = match write.place {
            Place::At(offset) => Some(offset..offset.saturating_add(data.len())),
            Place::End => None,
        };
        let _alone = self.near.change(&self.fs, number, bytes).await?;
        let written = self.fs.write(by, number, write, data).await;
        self.near.touch(number, by.now_ns);
        written
    }

    async fn truncate(&self, by: By<'_>, number: u64, bytes: u64) -> Result<(), FileError> {
        self.settle(number).await;
        let _change = self.change(number);
        let _alone = self
            .near
            .take_away(&self.fs, number, bytes..u64::MAX)
            .await?;
        let done = self.fs.truncate(by, number, bytes).await;
        self.near.touch(number, by.now_ns);
        done
    }

    async fn allocate(
        &self,
        by: By<'_>,
        number: u64,
        offset: u64,
        bytes: u64,
        what: Allocate,
    ) -> Result<(), FileError> {
        self.settle(number).await;
        let _change = self.change(number);
        let end = offset.saturating_add(bytes);
        let _alone = match what {
            Allocate::Extend | Allocate::KeepSize => {
                let bytes = Some(offset..end);
                self.near.change(&self.fs, number, bytes).await?
            }
            Allocate::Punch | Allocate::Zero | Allocate::ZeroKeepSize => {
                self.near.take_away(&self.fs, number, offset..end).await?
            }
        };
        let done = self.fs.allocate(by, number, offset, bytes, what).await;
        self.near.touch(number, by.now_ns);
        done
    }

    async fn seek(&self, number: u64, offset: u64, what: Seek) -> Result<u64, FileError> {
        self.settle(number).await;
        self.settle_near(number, ALL).await?;
        self.fs.seek(number, offset, what).await
    }

    async fn sync(&self, number: u64, what: Sync) -> Result<(), FileError> {
        self.settle(number).await;
        self.settle_near(number, ALL).await?;
        let synced = self.fs.sync(number, what).await;
        self.told(number, synced)
    }

    async fn sync_all(&self) -> Result<(), FileError> {
        for number in self.leases.writers.numbers() {
            self.settle(number).await;
        }
        for number in self.near.numbers() {
            self.settle_near(number, ALL).await?;
        }
        self.fs.sync_all().await
    }

    async fn xattr(&self, number: u64, name: &[u8]) -> Result<Vec<u8>, FileError> {
        self.fs.xattr(number, name).await
    }

    async fn set_xattr(
        &self,
        by: By<'_>,
        number: u64,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FileError> {
        self.settle_near(number, ALL).await?;
        let _change = self.change_shown(number);
        self.fs.set_xattr(by, number, name, value, how).await
    }

    async fn remove_xattr(&self, by: By<'_>, number: u64, name: &[u8]) -> Result<(), FileError> {
        self.settle_near(number, ALL).await?;
        let _change = self.change_shown(number);
        self.fs.remove_xattr(by, number, name).await
    }

    async fn xattrs(&self, number: u64) -> Result<Vec<Box<[u8]>>, FileError> {
        self.fs.xattrs(number).await
    }

    async fn stat_fs(&self) -> Result<StatFs, FileError> {
        self.fs.stat_fs().await
    }
}
