//! A file system that is right, and as simple as one can be: a model, and a page for each change
//! that was made to it. The page has the number of the change alone; what it was is remembered
//! here. With mistakes that can be planted in it.

use std::cell::RefCell;
use std::rc::Rc;

use wharf_files::block_on;
use wharf_files::model::{Model, ModelLimits};
use wharf_files::pages::{PAGE_BYTES, PageBytes, Pages, RamPages, Run};
use wharf_files::testing::beside::{Room, new_model};
use wharf_files::testing::crash::OnMedium;
use wharf_files::testing::recorded::RecordedPages;
use wharf_files::{
    Allocate, Attributes, By, Caller, Content, DirectoryEntry, Entry, Errno, FileError, FileSystem,
    In, Kind, New, Out, Remove, Rename, Seek, SetAttributes, SetXattr, StatFs, Sync, Write,
    Written,
};

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    Nothing,
    /// What is made durable is not.
    SyncForgets,
    /// Changes behind one that was lost are made all the same.
    LostChangeIsSkipped,
    /// A rename that replaces something takes two steps.
    RenameInTwoSteps,
    /// Half of what was written last is there after a power cut.
    TornPage,
    /// What was written last is lost, and what came after it is not: also if it was made durable.
    NewestWriteIsLost,
    /// What was written last has other bytes after a power cut.
    BytesOfOthers,
    /// The bytes of a file that is removed go before its name does.
    BytesGoFirst,
    /// An opening that was cut leaves something behind that the next one does not understand.
    OpensOnce,
    /// A directory that is not empty may be removed.
    RemovesFullDirectories,
    /// A file that is cut off keeps its bytes, and has them again when it grows.
    StaleBytes,
    /// An extended attribute is not replaced, and that there is none is no error.
    ForgetsXattrs,
    /// A write for which there is no room makes the file longer all the same.
    HalfDoneWhenFull,
}

/// A change, as it is made again.
#[derive(Clone)]
enum Change {
    Write(Caller, u64, Write, Vec<u8>),
    Other(Rc<dyn Fn(&Model)>),
}

type Changes = Rc<RefCell<Vec<Change>>>;

pub struct Toy {
    model: Model,
    /// All that was ever done to any of these.
    changes: Changes,
    /// The page of the next one.
    next_page: RefCell<u64>,
    pages: RecordedPages,
    mistake: Mistake,
    room: Room,
    /// What was cut off last: of which file, and where.
    stale: RefCell<Option<(u64, u64, Vec<u8>)>>,
}

/// Pages of the media; the last one is for an opening.
const PAGES: u64 = 300;

/// Changes for which there is room, if there is little.
const FEW: u64 = 20;

/// Makes toys with a mistake.
pub struct Toys {
    mistake: Mistake,
    room: Room,
    changes: Changes,
}

impl Toys {
    pub fn new(mistake: Mistake, room: Room) -> Toys {
        Toys {
            mistake,
            room,
            changes: Rc::default(),
        }
    }

    /// A toy on its own pages.
    pub fn alone(&self) -> Rc<Toy> {
        let pages = RecordedPages::new(&RamPages::new(PAGES));
        block_on(self.open(&pages)).expect("it is empty")
    }
}

fn page_of(number: u64) -> PageBytes {
    let mut page = [0; PAGE_BYTES];
    page[..8].copy_from_slice(&number.to_le_bytes());
    page
}

async fn number_in(pages: &RecordedPages, page: u64) -> Result<u64, FileError> {
    let mut bytes = [0; PAGE_BYTES];
    pages.read(&[Run::one(page)], &mut bytes).await?;
    Ok(u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")))
}

impl Change {
    fn again(&self, model: &Model) {
        match self {
            Change::Other(again) => again(model),
            Change::Write(caller, number, write, data) => {
                let by = By { caller, now_ns: 0 };
                let _ = block_on(model.write(by, *number, *write, In::from(data)));
            }
        }
    }

    /// The change with a mistake, if it is of this kind.
    fn spoilt(&self, mistake: Mistake) -> Option<Change> {
        let Change::Write(caller, number, write, data) = self else {
            return None;
        };
        let data = match mistake {
            Mistake::TornPage => {
                let (half, rest) = data.split_at(data.len() / 2);
                [half, &vec![0; rest.len()]].concat()
            }
            Mistake::NewestWriteIsLost => vec![0; data.len()],
            Mistake::BytesOfOthers => vec![0xbb; data.len()],
            _ => return None,
        };
        Some(Change::Write(caller.clone(), *number, *write, data))
    }
}

impl OnMedium for Toys {
    type FileSystem = Toy;
    type Recording = RecordedPages;

    async fn make(&self) -> RamPages {
        RamPages::new(PAGES)
    }

    async fn open(&self, pages: &RecordedPages) -> Result<Rc<Toy>, FileError> {
        let mut found = Vec::new();
        for page in 0..PAGES - 1 {
            found.push(number_in(pages, page).await?);
        }
        let is_there = |number: &u64| *number > 0;
        let end = match self.mistake {
            Mistake::LostChangeIsSkipped => found.iter().rposition(is_there).map(|at| at + 1),
            _ => found.iter().position(|number| *number == 0),
        };
        let (kept, left) = found.split_at(end.unwrap_or(0));
        let model = new_model(ModelLimits::default());
        self.replay(kept, &model);
        model.close_all();
        let next_page = (PAGES - 1) - left.len() as u64;
        self.tidy(pages, next_page, left).await?;
        Ok(Rc::new(Toy {
            model,
            changes: self.changes.clone(),
            next_page: RefCell::new(next_page),
            pages: pages.clone(),
            mistake: self.mistake,
            room: self.room,
            stale: RefCell::default(),
        }))
    }

    async fn check(&self, _: &Toy, _: &RecordedPages) -> Result<(), String> {
        Ok(())
    }
}

impl Toys {
    /// Makes the changes of these numbers again.
    fn replay(&self, numbers: &[u64], model: &Model) {
        let changes = self.changes.borrow();
        let numbers = numbers.iter().filter(|number| **number > 0);
        let kept: Vec<_> = numbers
            .map(|number| &changes[*number as usize - 1])
            .collect();
        let newest_write = kept
            .iter()
            .rposition(|change| change.spoilt(self.mistake).is_some());
        for (at, change) in kept.iter().enumerate() {
            match change.spoilt(self.mistake) {
                Some(spoilt) if newest_write == Some(at) => spoilt.again(model),
                _ => change.again(model),
            }
        }
    }

    /// What was not obeyed must not come back.
    async fn tidy(&self, pages: &RecordedPages, first: u64, left: &[u64]) -> Result<(), FileError> {
        let mark = [Run::one(PAGES - 1)];
        if self.mistake == Mistake::OpensOnce {
            if number_in(pages, PAGES - 1).await? > 0 {
                return Err(Errno::EINVAL.into());
            }
            pages.write(&mark, &page_of(1)).await?;
        }
        for (page, number) in (first..).zip(left) {
            if *number > 0 {
                pages.write(&[Run::one(page)], &page_of(0)).await?;
            }
        }
        pages.flush().await?;
        if self.mistake == Mistake::OpensOnce {
            pages.write(&mark, &page_of(0)).await?;
            pages.flush().await?;
        }
        Ok(())
    }
}

impl Toy {
    /// For how many changes there is room.
    fn room(&self) -> Result<u64, FileError> {
        let all = match self.room {
            Room::Enough => PAGES - 1,
            Room::Little => FEW,
        };
        match all - *self.next_page.borrow() {
            0 => Err(Errno::ENOSPC.into()),
            room => Ok(room),
        }
    }

    async fn keep(&self, change: Change) -> Result<(), FileError> {
        let number = {
            let mut changes = self.changes.borrow_mut();
            changes.push(change);
            changes.len() as u64
        };
        let page = *self.next_page.borrow();
        *self.next_page.borrow_mut() += 1;
        let (runs, bytes) = ([Run::one(page)], page_of(number));
        Ok(self.pages.write(&runs, &bytes).await?)
    }

    async fn again(&self, again: impl Fn(&Model) + 'static) -> Result<(), FileError> {
        self.keep(Change::Other(Rc::new(again))).await
    }
}

/// A name that is owned.
fn owned(entry: &Entry<'_>) -> (u64, Vec<u8>) {
    (entry.directory, entry.name.to_vec())
}

impl FileSystem for Toy {
    fn is_durable(&self) -> bool {
        true
    }

    fn root(&self) -> u64 {
        self.model.root()
    }

    async fn lookup(&self, directory: u64, name: &[u8]) -> Result<Attributes, FileError> {
        self.model.lookup(directory, name).await
    }

    async fn attributes(&self, number: u64) -> Result<Attributes, FileError> {
        self.model.attributes(number).await
    }

    async fn set_attributes(
        &self,
        by: By<'_>,
        number: u64,
        set: SetAttributes,
    ) -> Result<Attributes, FileError> {
        self.room()?;
        let done = self.model.set_attributes(by, number, set).await?;
        let (caller, now_ns) = (by.caller.clone(), by.now_ns);
        self.again(move |model| {
            let caller = &caller;
            let _ = block_on(model.set_attributes(By { caller, now_ns }, number, set));
        })
        .await?;
        Ok(done)
    }

    async fn create(
        &self,
        by: By<'_>,
        entry: Entry<'_>,
        new: New<'_>,
    ) -> Result<Attributes, FileError> {
        self.room()?;
        let done = self.model.create(by, entry, new).await?;
        let (caller, now_ns) = (by.caller.clone(), by.now_ns);
        let ((directory, name), owner, mode) = (owned(&entry), new.owner, new.mode);
        let target = match new.content {
            Content::Symlink(target) => Some(target.to_vec()),
            _ => None,
        };
        let is_directory = new.content == Content::Directory;
        self.again(move |model| {
            let caller = &caller;
            let content = match &target {
                Some(target) => Content::Symlink(target),
                None if is_directory => Content::Directory,
                None => Content::File,
            };
            let is_open = false;
            let new = New {
                content,
                mode,
                owner,
                is_open,
            };
            let entry = Entry::new(directory, &name);
            let _ = block_on(model.create(By { caller, now_ns }, entry, new));
        })
        .await?;
        Ok(done)
    }

    async fn link(
        &self,
        by: By<'_>,
        number: u64,
        entry: Entry<'_>,
    ) -> Result<Attributes, FileError> {
        self.room()?;
        let done = self.model.link(by, number, entry).await?;
        let (caller, now_ns) = (by.caller.clone(), by.now_ns);
        let (directory, name) = owned(&entry);
        self.again(move |model| {
            let caller = &caller;
            let entry = Entry::new(directory, &name);
            let _ = block_on(model.link(By { caller, now_ns }, number, entry));
        })
        .await?;
        Ok(done)
    }

    async fn remove(&self, by: By<'_>, entry: Entry<'_>, what: Remove) -> Result<(), FileError> {
        self.room()?;
        let victim = self.model.lookup(entry.directory, entry.name).await;
        let mut done = self.model.remove(by, entry, what).await;
        if let Ok(victim) = victim
            && self.mistake == Mistake::BytesGoFirst
            && done.is_ok()
            && victim.kind == Kind::File
            && (1..100_000).contains(&victim.bytes)
        {
            let (zeros, write) = (vec![0; victim.bytes as usize], Write::at(0));
            let gone = Change::Write(Caller::root(), victim.number, write, zeros);
            self.keep(gone).await?;
        }
        if self.mistake == Mistake::RemovesFullDirectories && done == Err(Errno::ENOTEMPTY.into()) {
            done = Ok(());
        }
        done?;
        let (caller, now_ns) = (by.caller.clone(), by.now_ns);
        let (directory, name) = owned(&entry);
        self.again(move |model| {
            let caller = &caller;
            let entry = Entry::new(directory, &name);
            let _ = block_on(model.remove(By { caller, now_ns }, entry, what));
        })
        .await
    }

    async fn rename(
        &self,
        by: By<'_>,
        from: Entry<'_>,
        to: Entry<'_>,
        how: Rename,
    ) -> Result<(), FileError> {
        let replaced = self.model.lookup(to.directory, to.name).await;
        self.room()?;
        self.model.rename(by, from, to, how).await?;
        let (caller, now_ns) = (by.caller.clone(), by.now_ns);
        let (old, new) = (owned(&from), owned(&to));
        if let Ok(replaced) = replaced
            && self.mistake == Mistake::RenameInTwoSteps
            && how == Rename::Replace
        {
            let what = match replaced.is_directory() {
                true => Remove::Directory,
                false => Remove::Name,
            };
            let (caller, new) = (caller.clone(), new.clone());
            self.again(move |model| {
                let caller = &caller;
                let entry = Entry::new(new.0, &new.1);
                let _ = block_on(model.remove(By { caller, now_ns }, entry, what));
            })
            .await?;
        }
        self.again(move |model| {
            let caller = &caller;
            let (from, to) = (Entry::new(old.0, &old.1), Entry::new(new.0, &new.1));
            let _ = block_on(model.rename(By { caller, now_ns }, from, to, how));
        })
        .await
    }

    async fn read_link(&self, number: u64) -> Result<Vec<u8>, FileError> {
        self.model.read_link(number).await
    }

    async fn list(
        &self,
        directory: u64,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError> {
        self.model.list(directory, cookie, most, entries).await
    }

    async fn open(&self, number: u64) -> Result<(), FileError> {
        self.model.open(number).await
    }

    async fn close(&self, number: u64) -> Result<(), FileError> {
        self.model.close(number).await
    }

    async fn read(
        &self,
        number: u64,
        offset: u64,
        out: Out<'_>,
        now_ns: u64,
    ) -> Result<u64, FileError> {
        self.model.read(number, offset, out, now_ns).await
    }

    async fn write(
        &self,
        by: By<'_>,
        number: u64,
        write: Write,
        data: In<'_>,
    ) -> Result<Written, FileError> {
        let data = match self.room() {
            // The last change there is room for.
            Ok(1) if self.room == Room::Little => data.slice(0..data.len().div_ceil(2)),
            Ok(_) => data,
            Err(full) => {
                if self.mistake == Mistake::HalfDoneWhenFull {
                    self.model.write(by, number, write, data).await?;
                }
                return Err(full);
            }
        };
        let done = self.model.write(by, number, write, data).await?;
        if done.bytes > 0 {
            let (caller, at) = (by.caller.clone(), Write::at(done.offset));
            let data = data.memory()?[..done.bytes as usize].to_vec();
            self.keep(Change::Write(caller, number, at, data)).await?;
        }
        Ok(done)
    }

    async fn truncate(&self, by: By<'_>, number: u64, bytes: u64) -> Result<(), FileError> {
        self.room()?;
        let mut cut = vec![0; 4096];
        let read = self
            .model
            .read(number, bytes, Out::from(&mut cut), 0)
            .await?;
        cut.truncate(read as usize);
        self.model.truncate(by, number, bytes).await?;
        if self.mistake == Mistake::StaleBytes {
            let stale = self.stale.replace(Some((number, bytes, cut)));
            if let Some((file, offset, cut)) = stale
                && file == number
                && offset + cut.len() as u64 <= bytes
            {
                let write = Write::at(offset);
                self.model.write(by, number, write, In::from(&cut)).await?;
            }
        }
        let (caller, now_ns) = (by.caller.clone(), by.now_ns);
        self.again(move |model| {
            let caller = &caller;
            let _ = block_on(model.truncate(By { caller, now_ns }, number, bytes));
        })
        .await
    }

    async fn allocate(
        &self,
        by: By<'_>,
        number: u64,
        offset: u64,
        bytes: u64,
        what: Allocate,
    ) -> Result<(), FileError> {
        self.room()?;
        self.model.allocate(by, number, offset, bytes, what).await?;
        let (caller, now_ns) = (by.caller.clone(), by.now_ns);
        self.again(move |model| {
            let by = By {
                caller: &caller,
                now_ns,
            };
            let _ = block_on(model.allocate(by, number, offset, bytes, what));
        })
        .await
    }

    async fn seek(&self, number: u64, offset: u64, what: Seek) -> Result<u64, FileError> {
        self.model.seek(number, offset, what).await
    }

    async fn sync(&self, number: u64, what: Sync) -> Result<(), FileError> {
        self.model.sync(number, what).await?;
        self.sync_all().await
    }

    async fn sync_all(&self) -> Result<(), FileError> {
        match self.mistake {
            Mistake::SyncForgets => Ok(()),
            _ => Ok(self.pages.flush().await?),
        }
    }

    async fn xattr(&self, number: u64, name: &[u8]) -> Result<Vec<u8>, FileError> {
        self.model.xattr(number, name).await
    }

    async fn set_xattr(
        &self,
        by: By<'_>,
        number: u64,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FileError> {
        if self.mistake == Mistake::ForgetsXattrs && how == SetXattr::Replace {
            return Ok(());
        }
        self.room()?;
        self.model.set_xattr(by, number, name, value, how).await?;
        let (caller, now_ns) = (by.caller.clone(), by.now_ns);
        let (name, value) = (name.to_vec(), value.to_vec());
        self.again(move |model| {
            let by = By {
                caller: &caller,
                now_ns,
            };
            let _ = block_on(model.set_xattr(by, number, &name, &value, how));
        })
        .await
    }

    async fn remove_xattr(&self, by: By<'_>, number: u64, name: &[u8]) -> Result<(), FileError> {
        self.room()?;
        self.model.remove_xattr(by, number, name).await?;
        let (caller, now_ns) = (by.caller.clone(), by.now_ns);
        let name = name.to_vec();
        self.again(move |model| {
            let caller = &caller;
            let _ = block_on(model.remove_xattr(By { caller, now_ns }, number, &name));
        })
        .await
    }

    async fn xattrs(&self, number: u64) -> Result<Vec<Box<[u8]>>, FileError> {
        self.model.xattrs(number).await
    }

    async fn stat_fs(&self) -> Result<StatFs, FileError> {
        self.model.stat_fs().await
    }
}
