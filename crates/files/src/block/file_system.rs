//! The file system: what its operations are made of.

use super::data::{self, CHUNK_PAGES};
use super::gates::{How, Inside, RENAMES};
use super::groups::Bitmap;
use super::inodes;
use super::names::{self, Ended, LINKS_MAX, attributes_of};
use super::node::{Kind as NodeKind, ROOT};
use super::page::Kind;
use super::recover::{self, Replayed};
use super::rename;
use super::space;
use super::store::{Store, Summary};
use super::tx::Tx;
use super::xattrs;
use crate::arguments::{
    Allocate, By, Entry, New, Place, Remove, Seek, Seen, SetXattr, StatFs, Sync, Write, Written,
};
use crate::attributes::{Attributes, DirectoryEntry, MODE_BITS, SetAttributes};
use crate::errno::{Errno, FileError};
use crate::file_system::FileSystem;
use crate::flags::Rename;
use crate::limits::FILE_BYTES_MAX;
use crate::pages::{PAGE_BYTES, Pages};
use crate::payload::{In, Out};

/// What was done to bring a file system up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// What was in the journal.
    pub replayed: Replayed,
    /// Inodes that were cut, or given back.
    pub orphans: u64,
}

/// wfs on pages. See the module.
#[derive(Debug)]
pub struct Wfs<P> {
    store: Store<P>,
}

impl<P: Pages> Wfs<P> {
    /// What is on the media, brought up to date. Pages of metadata are kept in up to `cache_bytes`
    /// bytes of memory, besides those that are on their way to their places, of which there are at
    /// most as many as the journal has pages.
    ///
    /// # Errors
    /// Of the media, and of damage.
    pub async fn open(pages: P, cache_bytes: usize) -> Result<(Wfs<P>, Recovered), FileError> {
        let geometry = recover::geometry(&pages).await?;
        let (tail, replayed) = recover::replay(&pages, &geometry).await?;
        let store = Store::new(pages, geometry, tail, cache_bytes);
        let orphans = store.settle_orphans().await?;
        let recovered = Recovered { replayed, orphans };
        Ok((Wfs { store }, recovered))
    }

    /// Makes everything durable, and leaves nothing to be replayed. What is done afterwards is as
    /// good as before.
    ///
    /// # Errors
    /// Of the media.
    pub async fn settle(&self) -> Result<(), FileError> {
        self.store.settle_all().await
    }

    /// Bytes of memory that changes take at most until they are at their places, besides the pages
    /// that are kept: a group that runs, one that is being committed, and those in the journal.
    pub fn changes_bytes_max(&self) -> u64 {
        let limits = &self.store.limits;
        ((limits.committed_images + 2 * limits.group_images) * PAGE_BYTES) as u64
    }

    /// The pages below.
    pub fn pages(&self) -> &P {
        &self.store.pages
    }

    /// The pages below, without the file system: what was not made durable is lost.
    pub fn into_pages(self) -> P {
        self.store.pages
    }

    async fn change<T>(
        &self,
        change: impl AsyncFnMut(&mut Tx<'_, P>) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        self.store.change(change).await
    }

    async fn view<T>(
        &self,
        look: impl AsyncFnMut(&mut Tx<'_, P>) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        self.store.view(look).await
    }

    async fn alone(&self, number: u64) -> Inside<'_> {
        self.store.gates.enter(number, How::Alone).await
    }

    /// What an entry leads to just now, if that can be said.
    async fn led_to(&self, entry: &Entry<'_>) -> Option<(u64, NodeKind)> {
        let look = self.view(async |tx| names::look(tx, entry).await);
        let (_, found) = look.await.ok()?;
        found.map(|found| (found.number, found.kind))
    }

    /// The same number, from who has looked already: if it is another one by now, the operation
    /// finds that inside of the gates.
    async fn leads_to(&self, entry: &Entry<'_>) -> Option<u64> {
        match entry.seen {
            Seen::Number(number) => Some(number),
            Seen::Nothing => None,
            Seen::Any => self.led_to(entry).await.map(|(number, _)| number),
        }
    }

    /// Gives back what an operation has left to be given back. It is inside of the gate.
    async fn settle_rest(&self, rest: Option<u64>) -> Result<(), FileError> {
        match rest {
            Some(number) => self.store.settle(number).await,
            None => Ok(()),
        }
    }

    /// Writes as much as one transaction can; less and less if there is no room.
    async fn write_some(
        &self,
        by: By<'_>,
        number: u64,
        write: Write,
        data: In<'_>,
    ) -> Result<Written, FileError> {
        let mut pages_max = CHUNK_PAGES;
        loop {
            let done = self
                .change(async |tx| data::write(tx, by, number, write, data, pages_max).await)
                .await;
            match done {
                // There may be room for the bytes, and not for the tree.
                Err(FileError::Errno(Errno::ENOSPC)) if pages_max > 1 => pages_max /= 4,
                done => return done,
            }
        }
    }

    fn opened_more(&self, number: u64) {
        self.store
            .changing
            .with(|all| *all.open.entry(number).or_insert(0) += 1);
    }

    /// What is free in a group.
    async fn summary(&self, number: u64) -> Result<Summary, FileError> {
        let known = self
            .store
            .changing
            .with(|all| all.summaries[number as usize]);
        if let Some(summary) = known {
            return Ok(summary);
        }
        let group = self.store.geometry.group(number);
        let image = self.store.read(group.first, Kind::Bitmap).await?;
        let bitmap = Bitmap::of(&image, &group)?;
        let summary = Summary {
            pages: bitmap.pages_free.get(),
            inodes: bitmap.inodes_free.get(),
        };
        Ok(self
            .store
            .changing
            .with(|all| *all.summaries[number as usize].get_or_insert(summary)))
    }
}

impl<P: Pages> FileSystem for Wfs<P> {
    fn is_durable(&self) -> bool {
        true
    }

    fn root(&self) -> u64 {
        ROOT
    }

    async fn lookup(&self, directory: u64, name: &[u8]) -> Result<Attributes, FileError> {
        self.view(async |tx| names::lookup(tx, directory, name).await)
            .await
    }

    async fn attributes(&self, number: u64) -> Result<Attributes, FileError> {
        self.view(async |tx| Ok(attributes_of(&inodes::load(tx, number).await?)))
            .await
    }

    async fn set_attributes(
        &self,
        by: By<'_>,
        number: u64,
        set: SetAttributes,
    ) -> Result<Attributes, FileError> {
        let _inside = self.alone(number).await;
        self.change(async |tx| {
            let mut inode = inodes::load(tx, number).await?;
            let gives = set.uid.is_some() || set.gid.is_some();
            if let Some(mode) = set.mode {
                inode.mode = mode & MODE_BITS;
            } else if gives && inode.kind != NodeKind::Directory {
                inode.mode = by.caller.mode_after_chown(inode.mode, inode.gid);
            }
            inode.uid = set.uid.unwrap_or(inode.uid);
            inode.gid = set.gid.unwrap_or(inode.gid);
            inode.accessed_ns = set.accessed_ns.unwrap_or(inode.accessed_ns);
            inode.modified_ns = set.modified_ns.unwrap_or(inode.modified_ns);
            inode.changed_ns = by.now_ns;
            inodes::store(tx, &inode).await?;
            Ok(attributes_of(&inode))
        })
        .await
    }

    async fn create(
        &self,
        by: By<'_>,
        entry: Entry<'_>,
        new: New<'_>,
    ) -> Result<Attributes, FileError> {
        // Until it is open, too: nobody takes the name away before.
        let _inside = self.alone(entry.directory).await;
        let made = self
            .change(async |tx| names::create(tx, &entry, &new, by.now_ns).await)
            .await?;
        if new.is_open {
            self.opened_more(made.number);
        }
        Ok(made)
    }

    async fn link(
        &self,
        by: By<'_>,
        number: u64,
        entry: Entry<'_>,
    ) -> Result<Attributes, FileError> {
        let _inside = self.store.gates.enter_all(&[entry.directory, number]).await;
        self.change(async |tx| names::link(tx, number, &entry, by.now_ns).await)
            .await
    }

    async fn remove(&self, by: By<'_>, entry: Entry<'_>, what: Remove) -> Result<(), FileError> {
        loop {
            let target = self.leads_to(&entry).await;
            let needed = [entry.directory, target.unwrap_or(entry.directory)];
            let _inside = self.store.gates.enter_all(&needed).await;
            let removed = self
                .change(async |tx| names::remove(tx, (&entry, target), what, by.now_ns).await)
                .await?;
            if let Ended::Done(rest) = removed {
                return self.settle_rest(rest).await;
            }
        }
    }

    async fn rename(
        &self,
        by: By<'_>,
        from: Entry<'_>,
        to: Entry<'_>,
        how: Rename,
    ) -> Result<(), FileError> {
        loop {
            let moves_directory = match self.led_to(&from).await {
                Some((_, NodeKind::Directory)) => true,
                _ => how == Rename::Exchange,
            };
            let _renames = match moves_directory {
                true => Some(self.alone(RENAMES).await),
                false => None,
            };
            let target = self.leads_to(&to).await;
            let needed = [from.directory, to.directory, target.unwrap_or(to.directory)];
            let _inside = self.store.gates.enter_all(&needed).await;
            let renamed = self
                .change(async |tx| rename::rename(tx, (&from, &to), target, how, by.now_ns).await)
                .await?;
            if let Ended::Done(rest) = renamed {
                return self.settle_rest(rest).await;
            }
        }
    }

    async fn read_link(&self, number: u64) -> Result<Vec<u8>, FileError> {
        self.view(async |tx| {
            let inode = inodes::load(tx, number).await?;
            super::links::get(tx, &inode).await
        })
        .await
    }

    async fn list(
        &self,
        directory: u64,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError> {
        let (found, is_end) = self
            .view(async |tx| names::list(tx, directory, cookie, most).await)
            .await?;
        entries.extend(found);
        Ok(is_end)
    }

    async fn open(&self, number: u64) -> Result<(), FileError> {
        let _inside = self.store.gates.enter(number, How::Together).await;
        self.attributes(number).await?;
        self.opened_more(number);
        Ok(())
    }

    async fn close(&self, number: u64) -> Result<(), FileError> {
        let _inside = self.alone(number).await;
        let attributes = self.attributes(number).await;
        let left = self.store.changing.with(|all| {
            let count = all.open.get_mut(&number)?;
            *count -= 1;
            let left = *count;
            if left == 0 {
                all.open.remove(&number);
            }
            Some(left)
        });
        let is_nameless = attributes?.links == 0;
        match left.ok_or(Errno::EBADF)? {
            0 if is_nameless => self.store.settle(number).await,
            _ => Ok(()),
        }
    }

    async fn read(
        &self,
        number: u64,
        offset: u64,
        mut out: Out<'_>,
        _now_ns: u64,
    ) -> Result<u64, FileError> {
        let _inside = self.store.gates.enter(number, How::Together).await;
        let most = out.len();
        let found = self
            .view(async |tx| data::find(tx, number, offset, most).await)
            .await?;
        data::read(&self.store.pages, &found, offset, &mut out).await?;
        Ok(found.bytes)
    }

    async fn write(
        &self,
        by: By<'_>,
        number: u64,
        write: Write,
        data: In<'_>,
    ) -> Result<Written, FileError> {
        let _turn = self.store.turns.enter(number, How::Alone).await;
        let _inside = self.alone(number).await;
        let mut done = self.write_some(by, number, write, data).await?;
        while done.bytes < data.len() {
            let next = Write {
                place: Place::At(done.offset + done.bytes),
                ..write
            };
            let rest = data.slice(done.bytes..data.len());
            match self.write_some(by, number, next, rest).await {
                Ok(more) => done.bytes += more.bytes,
                // As much as there is room for.
                Err(FileError::Errno(Errno::ENOSPC | Errno::EFBIG)) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    async fn truncate(&self, by: By<'_>, number: u64, bytes: u64) -> Result<(), FileError> {
        let _inside = self.alone(number).await;
        let has_rest = self
            .change(async |tx| space::truncate(tx, by, number, bytes).await)
            .await?;
        self.settle_rest(has_rest.then_some(number)).await
    }

    async fn allocate(
        &self,
        by: By<'_>,
        number: u64,
        offset: u64,
        bytes: u64,
        what: Allocate,
    ) -> Result<(), FileError> {
        let _inside = self.alone(number).await;
        let (mut offset, mut bytes) = (offset, bytes);
        loop {
            let goes_on = self
                .change(async |tx| space::allocate(tx, by, number, (offset, bytes), what).await)
                .await?;
            match goes_on {
                Some(next) => (offset, bytes) = (next, offset + bytes - next),
                None => return Ok(()),
            }
        }
    }

    async fn seek(&self, number: u64, offset: u64, what: Seek) -> Result<u64, FileError> {
        self.view(async |tx| space::seek(tx, number, offset, what).await)
            .await
    }

    async fn sync(&self, number: u64, _what: Sync) -> Result<(), FileError> {
        self.attributes(number).await?;
        self.store.commit().await
    }

    async fn sync_all(&self) -> Result<(), FileError> {
        self.store.commit().await
    }

    async fn xattr(&self, number: u64, name: &[u8]) -> Result<Vec<u8>, FileError> {
        self.view(async |tx| xattrs::get(tx, number, name).await)
            .await
    }

    async fn set_xattr(
        &self,
        by: By<'_>,
        number: u64,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FileError> {
        let _inside = self.alone(number).await;
        self.change(async |tx| xattrs::set(tx, number, (name, value), how, by.now_ns).await)
            .await
    }

    async fn remove_xattr(&self, by: By<'_>, number: u64, name: &[u8]) -> Result<(), FileError> {
        let _inside = self.alone(number).await;
        self.change(async |tx| xattrs::remove(tx, number, name, by.now_ns).await)
            .await
    }

    async fn xattrs(&self, number: u64) -> Result<Vec<Box<[u8]>>, FileError> {
        self.view(async |tx| xattrs::names(tx, number).await).await
    }

    async fn stat_fs(&self) -> Result<StatFs, FileError> {
        let geometry = self.store.geometry;
        let mut stat = StatFs {
            pages: 0,
            pages_free: 0,
            files: 0,
            files_free: 0,
            file_bytes_max: FILE_BYTES_MAX,
            links_max: LINKS_MAX,
            id: geometry.file_system,
        };
        for number in 0..geometry.groups {
            let (group, free) = (geometry.group(number), self.summary(number).await?);
            stat.pages += group.pages - group.data_from();
            stat.pages_free += u64::from(free.pages);
            stat.files += group.inodes();
            stat.files_free += u64::from(free.inodes);
        }
        Ok(stat)
    }
}
