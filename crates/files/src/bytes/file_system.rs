//! The file system: what its operations are made of.

use super::layout::ROOT;
use super::names::{self, LINKS_MAX};
use super::record::Record;
use super::recover::{self, Recovered};
use super::rename;
use super::store::{Store, reserve};
use super::turns::ALL;
use super::{data, ranges, values};
use crate::arguments::{
    Allocate, By, Entry, New, Place, Remove, Seek, SetXattr, StatFs, Sync, Write, Written,
};
use crate::attributes::{Attributes, DirectoryEntry, MODE_BITS, SetAttributes};
use crate::errno::{Errno, FileError};
use crate::file_system::FileSystem;
use crate::flags::Rename;
use crate::limits::FILE_BYTES_MAX;
use crate::lines::Lines;
use crate::payload::{In, Out};

/// wpm in persistent memory. See the module.
#[derive(Debug)]
pub struct Wpm<L> {
    store: Store<L>,
}

impl<L: Lines> Wpm<L> {
    /// What is on the media, brought up to date. Inodes are kept in up to `memory_max` bytes of
    /// memory, or one that needs more by itself.
    ///
    /// # Errors
    /// Of the media; damage of the superblock, the journal, or the root. Other damage is said
    /// ([`Recovered::damaged`]), and then no changes are taken.
    pub async fn open(lines: L, memory_max: usize) -> Result<(Wpm<L>, Recovered), FileError> {
        let (store, recovered) = recover::open(lines, memory_max).await?;
        Ok((Wpm { store }, recovered))
    }

    /// Makes everything durable: it is, so there is nothing to be done but to wait for what is
    /// under way.
    ///
    /// # Errors
    /// Of the media.
    pub async fn settle(&self) -> Result<(), FileError> {
        self.store.fence().await
    }

    /// The memory below.
    pub fn lines(&self) -> &L {
        &self.store.lines
    }

    /// The memory below, without the file system.
    pub fn into_lines(self) -> L {
        self.store.lines
    }

    /// Gives back what was closed and has no name.
    async fn forget(&self, number: u64) -> Result<(), FileError> {
        let mut tx = match self.store.begin(&[number]).await {
            Ok(tx) => tx,
            // The next opening does it.
            Err(FileError::Errno(Errno::EROFS)) => return Ok(()),
            Err(error) => return Err(error),
        };
        tx.load(number).await?;
        if tx.node(number).links() == 0 && !tx.is_open(number) {
            tx.remove(number);
            tx.commit().await?;
        }
        Ok(())
    }
}

impl<L: Lines> FileSystem for Wpm<L> {
    fn is_durable(&self) -> bool {
        true
    }

    fn root(&self) -> u64 {
        ROOT
    }

    async fn lookup(&self, directory: u64, name: &[u8]) -> Result<Attributes, FileError> {
        names::lookup(&self.store, directory, name).await
    }

    async fn attributes(&self, number: u64) -> Result<Attributes, FileError> {
        let (node, _inside) = self.store.look(number).await?;
        Ok(node.attributes())
    }

    async fn set_attributes(
        &self,
        by: By<'_>,
        number: u64,
        set: SetAttributes,
    ) -> Result<Attributes, FileError> {
        let mut tx = self.store.begin(&[number]).await?;
        tx.load(number).await?;
        let node = tx.node(number);
        let mut inode = node.inode();
        let gives = set.uid.is_some() || set.gid.is_some();
        if let Some(mode) = set.mode {
            inode.mode = mode & MODE_BITS;
        } else if gives && !node.is_directory() {
            inode.mode = by.caller.mode_after_chown(inode.mode, inode.gid);
        }
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        inode.accessed_ns = set.accessed_ns.unwrap_or(inode.accessed_ns);
        inode.modified_ns = set.modified_ns.unwrap_or(inode.modified_ns);
        inode.changed_ns = by.now_ns;
        tx.push(number, &Record::Inode(inode))?;
        let attributes = tx.node(number).attributes();
        tx.commit().await?;
        Ok(attributes)
    }

    async fn create(
        &self,
        by: By<'_>,
        entry: Entry<'_>,
        new: New<'_>,
    ) -> Result<Attributes, FileError> {
        names::create(&self.store, by, &entry, &new).await
    }

    async fn link(
        &self,
        by: By<'_>,
        number: u64,
        entry: Entry<'_>,
    ) -> Result<Attributes, FileError> {
        names::link(&self.store, by, number, &entry).await
    }

    async fn remove(&self, by: By<'_>, entry: Entry<'_>, what: Remove) -> Result<(), FileError> {
        names::remove(&self.store, by, &entry, what).await
    }

    async fn rename(
        &self,
        by: By<'_>,
        from: Entry<'_>,
        to: Entry<'_>,
        how: Rename,
    ) -> Result<(), FileError> {
        rename::rename(&self.store, by, (&from, &to), how).await
    }

    async fn read_link(&self, number: u64) -> Result<Vec<u8>, FileError> {
        let (node, _inside) = self.store.look(number).await?;
        let target = node.target.as_ref().ok_or(Errno::EINVAL)?;
        values::get(&self.store, target).await
    }

    async fn list(
        &self,
        directory: u64,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError> {
        let (node, _inside) = self.store.look(directory).await?;
        Ok(names::list(&node, cookie, most, entries)?)
    }

    async fn open(&self, number: u64) -> Result<(), FileError> {
        let _found = self.store.look(number).await?;
        self.store
            .with(|state| *state.opens.entry(number).or_insert(0) += 1);
        Ok(())
    }

    async fn close(&self, number: u64) -> Result<(), FileError> {
        let links = self.attributes(number).await.map(|found| found.links);
        let left = self.store.with(|state| {
            let count = state.opens.get_mut(&number)?;
            *count -= 1;
            let left = *count;
            if left == 0 {
                state.opens.remove(&number);
            }
            Some(left)
        });
        let links = links?;
        match left.ok_or(Errno::EBADF)? {
            0 if links == 0 => self.forget(number).await,
            _ => Ok(()),
        }
    }

    async fn read(
        &self,
        number: u64,
        offset: u64,
        out: Out<'_>,
        _now_ns: u64,
    ) -> Result<u64, FileError> {
        let (node, _inside) = self.store.look(number).await?;
        data::read(&self.store, &node, offset, out).await
    }

    async fn write(
        &self,
        by: By<'_>,
        number: u64,
        write: Write,
        data: In<'_>,
    ) -> Result<Written, FileError> {
        if let Place::At(offset) = write.place {
            let (from, to) = data::pages_of(offset, data.len());
            let _turn = self.store.turns.at(number, from..to).await;
            let at = (offset, write.end_max);
            if let Some(done) = data::overwrite(&self.store, by, number, at, data).await? {
                return Ok(done);
            }
        }
        let _turn = self.store.turns.at(number, ALL).await;
        let mut done = data::write(&self.store, by, number, write, data).await?;
        // What overwrites on full media goes a part at a time. An append does not go on where
        // another one may be by now.
        while write.place != Place::End && done.bytes > 0 && done.bytes < data.len() {
            let next = Write {
                place: Place::At(done.offset + done.bytes),
                ..write
            };
            let rest = data.slice(done.bytes..data.len());
            match data::write(&self.store, by, number, next, rest).await {
                Ok(more) => done.bytes += more.bytes,
                Err(FileError::Errno(Errno::ENOSPC | Errno::EFBIG)) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    async fn truncate(&self, by: By<'_>, number: u64, bytes: u64) -> Result<(), FileError> {
        let _turn = self.store.turns.at(number, ALL).await;
        ranges::truncate(&self.store, by, number, bytes).await
    }

    async fn allocate(
        &self,
        by: By<'_>,
        number: u64,
        offset: u64,
        bytes: u64,
        what: Allocate,
    ) -> Result<(), FileError> {
        let _turn = self.store.turns.at(number, ALL).await;
        ranges::allocate(&self.store, by, number, (offset, bytes), what).await
    }

    async fn seek(&self, number: u64, offset: u64, what: Seek) -> Result<u64, FileError> {
        let (node, _inside) = self.store.look(number).await?;
        Ok(ranges::seek(&node, offset, what)?)
    }

    async fn sync(&self, number: u64, _what: Sync) -> Result<(), FileError> {
        // Whoever completed an operation waited for its fence.
        self.store.look(number).await?;
        self.store.check_is_known()
    }

    async fn sync_all(&self) -> Result<(), FileError> {
        self.store.check_is_known()
    }

    async fn xattr(&self, number: u64, name: &[u8]) -> Result<Vec<u8>, FileError> {
        let (node, _inside) = self.store.look(number).await?;
        values::xattr(&self.store, &node, name).await
    }

    async fn set_xattr(
        &self,
        by: By<'_>,
        number: u64,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FileError> {
        values::set(&self.store, by, number, (name, value), how).await
    }

    async fn remove_xattr(&self, by: By<'_>, number: u64, name: &[u8]) -> Result<(), FileError> {
        values::remove(&self.store, by, number, name).await
    }

    async fn xattrs(&self, number: u64) -> Result<Vec<Box<[u8]>>, FileError> {
        let (node, _inside) = self.store.look(number).await?;
        Ok(node.xattrs.keys().map(|name| (**name).into()).collect())
    }

    async fn stat_fs(&self) -> Result<StatFs, FileError> {
        let geometry = &self.store.geometry;
        let kept_back = reserve(geometry);
        let free = self.store.with(|state| state.space.free());
        Ok(StatFs {
            pages: geometry.data_end() - geometry.data_first(),
            pages_free: free.saturating_sub(kept_back),
            files: 0,
            files_free: 0,
            file_bytes_max: FILE_BYTES_MAX,
            links_max: LINKS_MAX,
            id: geometry.file_system,
        })
    }
}
