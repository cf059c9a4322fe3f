//! Transactions: an operation sees one instant, and takes effect at one.
//!
//! A transaction reads the newest version of each page that it needs, and notes which version that
//! was. What it changes it keeps to itself. At its end, in one step: if any page that it read has
//! another version by now, all of it is done again; else its pages go into the running group. So no
//! lock is held while the media are read, and what fails half-way has changed nothing. Of pages that
//! many inodes share only what it looked at counts (`merge.rs`).
//!
//! Errors count only if what was read is current: a page that was given back while a transaction
//! was on its way there looks like damage.
//!
//! Free pages that a transaction finds are held for it from then on, so that it may write files'
//! bytes there before it ends. What it gives back is held until the group is durable.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::groups::Bitmap;
use super::layout::{Geometry, Group};
use super::merge;
use super::page::{self, Image, Kind};
use super::store::{Changing, Freed, Store, Summary};
use crate::errno::Fault;
use crate::errno::{Errno, FileError};
use crate::pages::{Pages, Run};

/// A page that a transaction has read.
#[derive(Debug)]
struct Read {
    /// As it was.
    base: Image,
    /// All of it counts.
    is_whole: bool,
    /// Else these of the inodes that share it.
    slots: SmallVec<[u64; 4]>,
}

impl Read {
    fn version(&self) -> u64 {
        page::head(&self.base).generation.get()
    }

    fn is_of(&self, kind: Kind) -> bool {
        page::head(&self.base).kind.get() == kind.raw()
    }
}

/// A transaction.
#[derive(Debug)]
pub struct Tx<'a, P> {
    store: &'a Store<P>,
    epoch: u64,
    /// Each page that was read.
    read: FxHashMap<u64, Read>,
    changed: FxHashMap<u64, Image>,
    taken: Vec<Run>,
    freed: Vec<Freed>,
    /// It saw something that is not current.
    is_stale: bool,
}

/// How a transaction ended.
enum End {
    Applied,
    /// Something that it read was changed.
    Stale,
    /// The running group must be committed first.
    Full,
}

impl<P: Pages> Store<P> {
    /// Looks at something at one instant.
    ///
    /// # Errors
    /// Those of `look`, which may run several times.
    pub async fn view<T>(
        &self,
        mut look: impl AsyncFnMut(&mut Tx<'_, P>) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        loop {
            let mut tx = Tx::new(self);
            let result = look(&mut tx).await;
            if tx.is_current() {
                return result;
            }
        }
    }

    /// Changes something at one instant. If there is no room, what was given back is made ready for
    /// use, and all is tried once more.
    ///
    /// # Errors
    /// Those of `change`, which may run several times and then changes nothing; `EROFS`; `ENOSPC`
    /// if it changes more pages than a group can have; of the media, if the journal was full.
    pub async fn change<T>(
        &self,
        mut change: impl AsyncFnMut(&mut Tx<'_, P>) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let mut has_made_room = false;
        loop {
            self.check_writable()?;
            let mut tx = Tx::new(self);
            let result = change(&mut tx).await;
            if !tx.is_current() {
                continue;
            }
            match result {
                Ok(value) => match tx.end()? {
                    End::Applied => return Ok(value),
                    End::Stale => {}
                    End::Full => self.commit().await?,
                },
                Err(FileError::Errno(Errno::ENOSPC)) if !has_made_room && self.has_freed() => {
                    drop(tx);
                    self.commit().await?;
                    has_made_room = true;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether anything may be changed.
    ///
    /// # Errors
    /// `EROFS`.
    pub fn check_writable(&self) -> Result<(), FileError> {
        match self.changing.with(|all| all.failed) {
            Some(_) => Err(Errno::EROFS.into()),
            None => Ok(()),
        }
    }

    /// Whether anything was given back that cannot be used yet.
    fn has_freed(&self) -> bool {
        self.changing
            .with(|all| !all.running.freed.is_empty() || all.sealed.is_some())
    }
}

impl<'a, P: Pages> Tx<'a, P> {
    fn new(store: &'a Store<P>) -> Tx<'a, P> {
        Tx {
            store,
            epoch: store.changing.with(|all| all.epoch),
            read: FxHashMap::default(),
            changed: FxHashMap::default(),
            taken: Vec::new(),
            freed: Vec::new(),
            is_stale: false,
        }
    }

    /// Where everything is.
    pub fn geometry(&self) -> &'a Geometry {
        &self.store.geometry
    }

    /// The pages below, for files' bytes.
    pub fn media(&self) -> &'a P {
        &self.store.pages
    }

    /// Pages that one transaction can change.
    pub fn images_max(&self) -> usize {
        self.store.limits.group_images
    }

    /// How often a number is open.
    pub fn opened(&self, number: u64) -> u64 {
        let count = |all: &mut Changing| all.open.get(&number).copied();
        self.store.changing.with(count).unwrap_or(0)
    }

    /// A page, as this transaction has left it.
    ///
    /// # Errors
    /// Of the media, and whatever is not such a page.
    pub async fn page(&mut self, number: u64, kind: Kind) -> Result<Image, FileError> {
        let image = self.look(number, kind).await?;
        if let Some(read) = self.read.get_mut(&number) {
            read.is_whole = true;
        }
        Ok(image)
    }

    /// A page that many inodes share, for what it says of the one of slot `slot` of it: what it says of
    /// others may change meanwhile, and what this transaction changes must be of this one.
    ///
    /// # Errors
    /// As [`Tx::page`].
    pub async fn part(&mut self, number: u64, kind: Kind, slot: u64) -> Result<Image, FileError> {
        let image = self.look(number, kind).await?;
        if let Some(read) = self.read.get_mut(&number)
            && !read.slots.contains(&slot)
        {
            read.slots.push(slot);
        }
        Ok(image)
    }

    /// Whether it has looked at a page, and found it whole.
    pub fn has(&self, number: u64) -> bool {
        self.read.contains_key(&number)
    }

    /// A page, of which nothing counts so far.
    async fn look(&mut self, number: u64, kind: Kind) -> Result<Image, FileError> {
        let known = self.changed.get(&number);
        let known = known.or_else(|| self.read.get(&number).map(|read| &read.base));
        if let Some(image) = known {
            return match page::head(image).kind.get() == kind.raw() {
                true => Ok(image.clone()),
                false => Err(page::damaged(number, "it is of another kind").into()),
            };
        }
        let image = self.store.read(number, kind).await?;
        let read = Read {
            base: image.clone(),
            is_whole: false,
            slots: SmallVec::new(),
        };
        self.read.insert(number, read);
        Ok(image)
    }

    /// Puts a page that was read, or is new, in the place of the one that was there.
    pub fn put(&mut self, image: Image) {
        self.changed.insert(page::head(&image).number.get(), image);
    }

    /// A new page, which [`Tx::put`] has to be told about.
    pub fn fresh(&self, kind: Kind, number: u64) -> Image {
        page::fresh(kind, number, self.store.geometry.file_system)
    }

    /// Whether all that was read, and counts, is what it was.
    fn is_current(&mut self) -> bool {
        let store = self.store;
        !self.is_stale && store.changing.with(|all| self.is_current_in(all))
    }

    fn is_current_in(&mut self, all: &mut Changing) -> bool {
        let read = self.read.iter();
        let others = read.filter(|(number, read)| !self.is_version(all, **number, read.version()));
        let others: SmallVec<[u64; 4]> = others.map(|(number, _)| *number).collect();
        others.into_iter().all(|number| self.bring_up(all, number))
    }

    fn is_version(&self, all: &mut Changing, number: u64, version: u64) -> bool {
        match all.newest(number) {
            Some(image) => page::head(&image).generation.get() == version,
            None => all.epoch == self.epoch,
        }
    }

    /// Makes what this transaction changed of a page that others have changed to the newest version. False if
    /// what it looked at is not what it was.
    fn bring_up(&mut self, all: &mut Changing, number: u64) -> bool {
        let Some(read) = self.read.get(&number).filter(|read| !read.is_whole) else {
            return false;
        };
        let Some(newest) = all.newest(number) else {
            return false;
        };
        let mine = self.changed.get(&number);
        let kind = Kind::of_raw(page::head(&newest).kind.get());
        let merged = match kind {
            Some(Kind::Table) if read.is_of(Kind::Table) => {
                merge::table(&read.base, &newest, mine, &read.slots)
            }
            Some(Kind::Bitmap) if read.is_of(Kind::Bitmap) => {
                let group = self.geometry().group_of_bitmap(number);
                group.and_then(|group| {
                    let changes = (&self.taken[..], &self.freed[..]);
                    merge::bitmap(&read.base, &newest, &group, &read.slots, changes)
                })
            }
            _ => None,
        };
        let Some(merged) = merged else {
            return false;
        };
        if mine.is_some() {
            self.changed.insert(number, merged);
        }
        if let Some(read) = self.read.get_mut(&number) {
            read.base = newest;
        }
        true
    }

    /// Takes up to `most` free pages that lie side by side, from page `goal` on if there are any,
    /// else from anywhere. They are nobody else's from now on.
    ///
    /// # Errors
    /// `ENOSPC`; of the media.
    pub async fn allocate(&mut self, goal: u64, most: u64) -> Result<Run, FileError> {
        let geometry = self.geometry();
        let near = goal.saturating_sub(geometry.groups_first) / super::layout::GROUP_PAGES;
        let near = near.min(geometry.groups - 1);
        let groups = (near..geometry.groups).chain(0..near);
        // Last, the part of the first group that lies before the goal.
        for (nth, number) in groups.chain([near]).enumerate() {
            let group = geometry.group(number);
            let from = match nth {
                0 => goal.saturating_sub(group.first),
                _ => 0,
            };
            if self.is_known_full(number) {
                continue;
            }
            if let Some(run) = self.allocate_in(&group, from, most).await? {
                return Ok(run);
            }
        }
        Err(Errno::ENOSPC.into())
    }

    fn is_known_full(&self, number: u64) -> bool {
        let known = self
            .store
            .changing
            .with(|all| all.summaries[number as usize]);
        known.is_some_and(|summary| summary.pages == 0)
    }

    async fn allocate_in(
        &mut self,
        group: &Group,
        from: u64,
        most: u64,
    ) -> Result<Option<Run>, FileError> {
        let image = self.look(group.first, Kind::Bitmap).await?;
        Bitmap::of(&image, group)?;
        let store = self.store;
        let found = store
            .changing
            .with(|all| self.find_in(all, group, from, most));
        let (mut image, run) = match found {
            None => {
                self.is_stale = true;
                return Err(Errno::ESTALE.into());
            }
            Some((_, None)) => return Ok(None),
            Some((image, Some(run))) => (image, run),
        };
        let absolute = Run::new(group.first + run.first, run.pages);
        self.taken.push(absolute);
        let bitmap: &mut Bitmap = page::of_mut(Arc::make_mut(&mut image));
        if !bitmap.take(run) {
            return Err(page::damaged(group.first, "what is free is in use").into());
        }
        self.put(image);
        Ok(Some(absolute))
    }

    /// Finds and holds a free run in the newest version of a bitmap. `None` if what this transaction looked at
    /// in it is not what it was.
    fn find_in(
        &mut self,
        all: &mut Changing,
        group: &Group,
        from: u64,
        most: u64,
    ) -> Option<(Image, Option<Run>)> {
        let read = self.read.get(&group.first);
        // Else another transaction may have been given the same pages.
        if let Some(version) = read.map(Read::version)
            && !self.is_version(all, group.first, version)
            && !self.bring_up(all, group.first)
        {
            return None;
        }
        let read = self.read.get(&group.first).map(|read| &read.base);
        let image = self.changed.get(&group.first).or(read)?.clone();
        let bitmap = Bitmap::of(&image, group).ok()?;
        all.summaries[group.number as usize].get_or_insert(Summary {
            pages: bitmap.pages_free.get(),
            inodes: bitmap.inodes_free.get(),
        });
        // What this transaction gave back is not free before it is committed, either.
        let is_given = |page| self.freed.iter().any(|freed| freed.run.has(page));
        let is_held = |index| all.is_held(group.first + index) || is_given(group.first + index);
        let run = bitmap.find(group, from, most, is_held);
        if let Some(run) = run {
            all.hold(Run::new(group.first + run.first, run.pages));
        }
        Some((image, run))
    }

    /// Gives pages back that held files' bytes.
    ///
    /// # Errors
    /// Of the media; if they are not in use, which is damage.
    pub async fn give_back(&mut self, run: Run) -> Result<(), FileError> {
        self.give(run, false).await
    }

    /// Gives a page back that held metadata.
    ///
    /// # Errors
    /// As [`Tx::give_back`].
    pub async fn give_back_page(&mut self, number: u64) -> Result<(), FileError> {
        self.changed.remove(&number);
        self.give(Run::one(number), true).await
    }

    async fn give(&mut self, run: Run, was_metadata: bool) -> Result<(), FileError> {
        let group = self.geometry().group_of(run);
        let group = group.ok_or(page::damaged(run.first, "it belongs to no file"))?;
        let mut image = self.look(group.first, Kind::Bitmap).await?;
        Bitmap::of(&image, &group)?;
        let bitmap: &mut Bitmap = page::of_mut(Arc::make_mut(&mut image));
        if !bitmap.give(Run::new(run.first - group.first, run.pages)) {
            return Err(page::damaged(run.first, "it is not in use").into());
        }
        self.put(image);
        self.freed.push(Freed { run, was_metadata });
        Ok(())
    }

    /// Puts what was changed into the running group.
    fn end(&mut self) -> Result<End, FileError> {
        if self.changed.is_empty() && self.freed.is_empty() {
            return Ok(End::Applied);
        }
        let given_back = self.freed.iter().filter(|freed| freed.was_metadata).count();
        if self.changed.len() + given_back > self.store.limits.group_images {
            return Err(Errno::ENOSPC.into());
        }
        let store = self.store;
        Ok(store.changing.with(|all| {
            if !self.is_current_in(all) {
                return End::Stale;
            }
            if store.is_full_with(all, self.changed.len(), given_back) {
                return End::Full;
            }
            self.apply(all);
            End::Applied
        }))
    }

    fn apply(&mut self, all: &mut Changing) {
        all.transaction += 1;
        let mut images: Vec<(u64, Image)> = self.changed.drain().collect();
        for (_, image) in &mut images {
            page::head_mut(Arc::make_mut(image)).generation = all.transaction.into();
            if page::head(image).kind.get() == Kind::Bitmap.raw() {
                let bitmap: &Bitmap = page::of(image);
                if let Some(summary) = all.summaries.get_mut(bitmap.group.get() as usize) {
                    *summary = Some(Summary {
                        pages: bitmap.pages_free.get(),
                        inodes: bitmap.inodes_free.get(),
                    });
                }
            }
        }
        self.taken.drain(..).for_each(|run| all.release(run));
        self.freed.iter().for_each(|freed| all.hold(freed.run));
        all.running.add(images, &self.freed);
    }
}

impl<P> Drop for Tx<'_, P> {
    fn drop(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        if !taken.is_empty() {
            self.store
                .changing
                .with(|all| taken.into_iter().for_each(|run| all.release(run)));
        }
    }
}

/// The error of damage, for those who find it in what is whole but cannot be.
pub fn damage(page: u64, what: &'static str) -> FileError {
    let fault: Fault = page::damaged(page, what);
    fault.into()
}
