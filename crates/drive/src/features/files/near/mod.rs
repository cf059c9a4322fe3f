//! The cache of pages of files in the drive's memory (`DevCache` of OmniCache, FAST 2024, section 4.1): hosts say what it keeps.
//!
//! Problem: a host that wants a few bytes of a page has the whole page carried over the link, twice if it changes them.
//!
//! Idea: the page stays in the drive, in memory of the drive's own, and only the bytes that are asked for cross the link. A page is
//! named by an open file and an offset, so whoever may use the file may use it, and nobody else ([`wharf_wire::file`], *near*).
//!
//! The walk of a write of some bytes of a page:
//!
//! 1. The bytes come over the link (`serve/near.rs`), and the file is entered *together* with others who do the same.
//! 2. If the page is there, it is changed in memory and is dirty. If not, it is claimed (`blocks.rs`): whoever wants it too waits. It is
//!    read from the media, changed, and there.
//! 3. A page that is dirty is written to the file when it is evicted, at a sync, and before anybody sees the file by another way.
//!
//! Every other operation on the file goes through [`Watched`](super::watched::Watched), which asks here first: who reads has what is dirty
//! written before ([`Near::settle`]); who changes something is *alone* in the file while the pages that it changes leave the cache, and if none is
//! there, none comes until it is done ([`Near::change`]). A file of which the cache has pages is open here, so that its number is no other file's.
//!
//! | file | idea |
//! |---|---|
//! | `blocks.rs` | which pages of files are in which pages of memory, and whose they are |
//! | `read.rs`, `write.rs` | the operations that go by way of the cache; bringing pages |
//! | `write_back.rs` | dirty pages go to their files |
//! | `protected.rs` | what a loss of power leaves of them |
//! | `window.rs` | pages that hosts load and store without a command |
//!
//! The gate of a file is entered before those of the file system, and nothing here waits for a gate while it is inside of one.

mod blocks;
mod protected;
mod read;
mod window;
mod write;
mod write_back;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Poll, Waker};

use rustc_hash::FxHashMap;
use wharf_files::block::{Gates, How, Inside};
use wharf_files::{Attributes, Caller, FileError, FileSystem};
use wharf_runtime::{Cpu, here};
use wharf_wire::file::{DeviceCacheLog, Evict};

use super::lines::FileSystemOfDrive;
use super::time::Clock;
use crate::memory::DeviceMemory;
use blocks::{Blocks, Look};

/// Bytes of a page.
const PAGE: u64 = wharf_wire::dma::PAGE_BYTES as u64;

/// All pages of a file.
pub(super) const ALL: Range<u64> = 0..u64::MAX;

/// See the [module](self).
pub(super) struct Near {
    memory: Option<Rc<DeviceMemory>>,
    gates: Gates,
    blocks: RefCell<Blocks>,
    /// Who changed a file last of which there are pages.
    writers: RefCell<FxHashMap<u64, Writer>>,
    /// Those who wait for pages that are coming, or being written.
    waiting: RefCell<Vec<Waker>>,
    /// Files of which pages are being brought, or are about to be.
    bringing: RefCell<Vec<u64>>,
    /// What it did.
    counts: RefCell<DeviceCacheLog>,
    clock: Rc<Clock>,
    /// Of files with pages that are protected: so many bytes of each are durable, and its name.
    durable: RefCell<FxHashMap<u64, u64>>,
    /// What a loss of power leaves is to be kept: what was kept before has been restored.
    may_keep: Cell<bool>,
    /// What the window counted when what hosts have stored was found out last.
    stores: Cell<u64>,
}

/// Who changed a file last, and when: pages are written back as by that one, at that time, so that nobody sees when that is done.
#[derive(Debug, Clone)]
struct Writer {
    caller: Rc<Caller>,
    changed_ns: u64,
}

/// Which host uses a file, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct User {
    pub(super) host: u32,
    pub(super) now_ns: u64,
    /// Whether it wants to load and store pages itself.
    pub(super) shows: bool,
}

/// What becomes of pages that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// Those that are there stay, and no others.
    AsTheyAre,
    /// Those that are not there are brought, and so many behind them.
    With(u32),
    /// Those that are there leave for who reads them; what the media do not have is written before.
    Taken,
}

/// A change of bytes by another way, until this is dropped.
pub(super) struct Changing<'a> {
    near: &'a Near,
    /// Pages that do not come meanwhile; none if who changes them is alone in the file.
    marked: Option<(u64, Range<u64>)>,
    _inside: Inside<'a>,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if let Some((number, pages)) = &self.marked {
            self.near.blocks.borrow_mut().end_change(*number, pages);
        }
    }
}

/// Parts of what is to be written that found no room.
pub(super) type Past = Vec<Range<u64>>;

/// The drive's core that this runs on.
fn cpu() -> Cpu {
    here().expect("a drive's tasks run on its cores")
}

/// The pages that bytes lie in.
fn pages_of(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / PAGE..bytes.end.div_ceil(PAGE)
}

/// Most pages that are written to a file, or read from it, at once.
const RUN_PAGES_MAX: usize = 64;

/// The part of some bytes that lies in a page: where in the page, where among the bytes.
fn part_of(bytes: &Range<u64>, page: u64) -> (usize, Range<u64>) {
    let from = bytes.start.max(page * PAGE);
    let to = bytes.end.min((page + 1) * PAGE);
    ((from % PAGE) as usize, from - bytes.start..to - bytes.start)
}

impl Near {
    /// A cache in what the memory has for it, of which one host has `host_pages` at most.
    pub(super) fn new(memory: Option<Rc<DeviceMemory>>, host_pages: u32, clock: Rc<Clock>) -> Near {
        let memory = memory.filter(|memory| memory.near_pages() > 0);
        let pages = memory.as_ref().map_or(0, |memory| memory.near_pages());
        Near {
            memory,
            gates: Gates::default(),
            blocks: RefCell::new(Blocks::new(pages, host_pages)),
            writers: RefCell::default(),
            waiting: RefCell::default(),
            bringing: RefCell::default(),
            counts: RefCell::default(),
            clock,
            durable: RefCell::default(),
            may_keep: Cell::new(false),
            stores: Cell::new(0),
        }
    }

    /// What it has, and what it did; nothing if there is none.
    pub(super) fn log(&self) -> Option<DeviceCacheLog> {
        let memory = self.memory.as_ref()?;
        self.collect();
        let blocks = self.blocks.borrow();
        let (used, dirty) = blocks.counts();
        let mut log = *self.counts.borrow();
        log.pages = memory.near_pages().into();
        log.host_pages = blocks.host_pages().min(memory.near_pages()).into();
        (log.used_pages, log.dirty_pages) = (used.into(), dirty.into());
        log.is_protected = self.is_protected().into();
        Some(log)
    }

    fn count(&self, f: impl FnOnce(&mut DeviceCacheLog)) {
        f(&mut self.counts.borrow_mut());
    }

    /// Whether there is any.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.memory.is_some()
    }

    /// Whether it has pages of a file.
    #[inline]
    pub(super) fn has(&self, number: u64) -> bool {
        self.is_on() && self.blocks.borrow().has(number)
    }

    /// Whether it has pages of a file that the media do not have yet.
    pub(super) fn is_unwritten(&self, number: u64) -> bool {
        self.collect();
        self.is_on() && self.blocks.borrow().is_unwritten(number)
    }

    /// The same of any file.
    pub(super) fn is_any_unwritten(&self) -> bool {
        self.collect();
        self.is_on() && self.blocks.borrow().is_any_unwritten()
    }

    /// The same of those that some bytes lie in.
    pub(super) fn is_unwritten_in(&self, number: u64, bytes: &Range<u64>) -> bool {
        self.collect();
        self.is_on()
            && self
                .blocks
                .borrow()
                .is_unwritten_in(number, &pages_of(bytes))
    }

    /// Attributes of a file as they are with what was written here.
    pub(super) fn shown(&self, found: Attributes) -> Attributes {
        if !self.is_unwritten(found.number) {
            return found;
        }
        let writers = self.writers.borrow();
        let changed_ns = writers.get(&found.number).map(|writer| writer.changed_ns);
        let changed_ns = changed_ns.unwrap_or(found.changed_ns);
        Attributes {
            modified_ns: changed_ns,
            changed_ns,
            ..found
        }
    }

    /// A file was changed in another way, at that time: what is written back later was changed before.
    pub(super) fn touch(&self, number: u64, now_ns: u64) {
        if !self.is_on() {
            return;
        }
        if let Some(writer) = self.writers.borrow_mut().get_mut(&number) {
            writer.changed_ns = writer.changed_ns.max(now_ns);
        }
    }

    /// All files that it has pages of.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.blocks.borrow().numbers()
    }

    /// Pages that it has, and those of them that the media do not have yet.
    ///
    /// # Panics
    /// If something is in disorder.
    pub(super) fn verify(&self) -> (u32, u32) {
        let pages = self.memory.as_ref().map_or(0, |memory| memory.near_pages());
        self.collect();
        let blocks = self.blocks.borrow();
        blocks.verify(pages);
        blocks.counts()
    }

    fn memory(&self) -> &DeviceMemory {
        self.memory
            .as_ref()
            .expect("who has pages has memory for them")
    }

    fn arrive(&self, number: u64, pages: Range<u64>) {
        pages.for_each(|page| self.blocks.borrow_mut().arrive(number, page));
        self.wake();
    }

    /// Evicts pages of a host that lie in some bytes of a file; gives how many.
    pub(super) async fn evict(
        &self,
        fs: &FileSystemOfDrive,
        (number, host): (u64, u32),
        bytes: Range<u64>,
        how: Evict,
    ) -> Result<u64, FileError> {
        if !self.has(number) {
            return Ok(0);
        }
        let pages = pages_of(&bytes);
        let mut evicted = 0;
        if how != Evict::Drop {
            // While others use the file.
            let _inside = self.gates.enter(number, How::Together).await;
            self.write_back_now(fs, number, &pages).await?;
            if how == Evict::Clean {
                return Ok(0);
            }
            self.hide(number, &pages);
            let (removed, is_all) = self.blocks.borrow_mut().remove_clean(number, &pages, host);
            self.count(|counts| counts.evicted_pages += removed);
            self.release(fs, number).await?;
            evicted += removed;
            if is_all {
                return Ok(evicted);
            }
        }
        // Some came, or were changed again, meanwhile.
        let _inside = self.gates.enter(number, How::Alone).await;
        self.hide(number, &pages);
        if how != Evict::Drop {
            self.write_back(fs, number, &pages).await?;
        }
        let removed = self.remove(number, &pages, Some(host));
        self.count(|counts| counts.evicted_pages += removed);
        evicted += removed;
        self.release(fs, number).await?;
        Ok(evicted)
    }

    /// Somebody sees bytes of a file by another way: they are as they were written before.
    ///
    /// # Errors
    /// If they cannot be written to the file.
    pub(super) async fn settle(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        bytes: Range<u64>,
    ) -> Result<(), FileError> {
        if !self.is_unwritten_in(number, &bytes) {
            return Ok(());
        }
        let _inside = self.gates.enter(number, How::Together).await;
        self.write_back_now(fs, number, &pages_of(&bytes)).await
    }

    /// Somebody changes bytes of a file by another way, until what is given is dropped. Their pages are not here, and do not come; those
    /// that were here were written before, and have left, for which who changes them is alone in the file: a change that fails has changed
    /// nothing. Without bytes it is what lies behind the end.
    ///
    /// # Errors
    /// If they cannot be written to the file.
    pub(super) async fn change(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        bytes: Option<Range<u64>>,
    ) -> Result<Option<Changing<'_>>, FileError> {
        if !self.is_on() {
            return Ok(None);
        }
        if let Some(bytes) = &bytes {
            let pages = pages_of(bytes);
            let inside = self.gates.enter(number, How::Together).await;
            if self.blocks.borrow_mut().begin_change(number, &pages) {
                return Ok(Some(self.changing(inside, Some((number, pages)))));
            }
            // Most of it while others use the file.
            self.hide(number, &pages);
            self.write_back_now(fs, number, &pages).await?;
        }
        let inside = self.gates.enter(number, How::Alone).await;
        if self.has(number) {
            let bytes = match bytes {
                Some(bytes) => bytes,
                None => fs.attributes(number).await?.bytes..u64::MAX,
            };
            let pages = pages_of(&bytes);
            self.hide(number, &pages);
            self.write_back(fs, number, &pages).await?;
            self.leave(fs, number, &pages).await?;
        }
        Ok(Some(self.changing(inside, None)))
    }

    fn changing<'a>(
        &'a self,
        inside: Inside<'a>,
        marked: Option<(u64, Range<u64>)>,
    ) -> Changing<'a> {
        Changing {
            near: self,
            marked,
            _inside: inside,
        }
    }

    /// The same for who takes these bytes away: of pages that go whole, nothing is written.
    ///
    /// # Errors
    /// If the others cannot be written to the file.
    pub(super) async fn take_away(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        bytes: Range<u64>,
    ) -> Result<Option<Changing<'_>>, FileError> {
        if !self.is_on() {
            return Ok(None);
        }
        let inside = self.gates.enter(number, How::Alone).await;
        if self.has(number) {
            let pages = pages_of(&bytes);
            self.hide(number, &pages);
            if self.is_protected() {
                // A loss of power may undo what takes them away.
                self.write_back(fs, number, &pages).await?;
            }
            self.durable_until(number, bytes.start);
            for edge in [bytes.start, bytes.end] {
                let page = edge / PAGE;
                if !edge.is_multiple_of(PAGE) && edge != u64::MAX {
                    self.write_back(fs, number, &(page..page + 1)).await?;
                }
            }
            self.leave(fs, number, &pages).await?;
        }
        Ok(Some(self.changing(inside, None)))
    }

    async fn leave(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        pages: &Range<u64>,
    ) -> Result<(), FileError> {
        let removed = self.remove(number, pages, None);
        self.count(|counts| counts.displaced_pages += removed);
        self.release(fs, number).await
    }

    /// Nothing of a file stays.
    ///
    /// # Errors
    /// If it cannot be written to the file; then it stays.
    pub(super) async fn forget(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
    ) -> Result<(), FileError> {
        self.change(fs, number, Some(ALL)).await.map(drop)
    }

    /// The same of a file that has no name any more: what cannot be written is lost.
    pub(super) async fn forget_if_removed(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
    ) -> Result<(), FileError> {
        if !self.has(number) || fs.attributes(number).await?.links > 0 {
            return Ok(());
        }
        let _inside = self.gates.enter(number, How::Alone).await;
        self.hide(number, &ALL);
        let written = self.write_back(fs, number, &ALL).await;
        written.and(self.leave(fs, number, &ALL).await)
    }

    /// A host is gone: its pages are written, and leave.
    pub(super) async fn host_leaves(&self, fs: &FileSystemOfDrive, host: u32) {
        let numbers = self.blocks.borrow().of_host(host);
        for number in numbers {
            let _inside = self.gates.enter(number, How::Alone).await;
            self.hide(number, &ALL);
            // Nobody is there to be told.
            let _ = self.write_back(fs, number, &ALL).await;
            let removed = self.remove(number, &ALL, Some(host));
            self.count(|counts| counts.displaced_pages += removed);
            let _ = self.release(fs, number).await;
        }
    }

    /// Takes pages of a range, of a host or of all, out. For one who is alone.
    fn remove(&self, number: u64, pages: &Range<u64>, host: Option<u32>) -> u64 {
        self.keep_if_cut();
        let mut blocks = self.blocks.borrow_mut();
        let found = blocks.pages(number, pages, host);
        found.iter().for_each(|page| blocks.remove(number, *page));
        found.len() as u64
    }

    /// Has a file be open for the cache, until it is [let go](Near::let_go). For one who is inside.
    async fn hold(&self, fs: &FileSystemOfDrive, number: u64) -> Result<(), FileError> {
        let hold = || self.blocks.borrow_mut().add_user(number);
        if self.has(number) {
            hold();
            return Ok(());
        }
        fs.open(number).await?;
        let is_open = self.has(number);
        // Before it is waited for: the other one may let go meanwhile, and close what it has opened.
        hold();
        if !is_open {
            return Ok(());
        }
        // Another one was as fast.
        let closed = fs.close(number).await;
        if closed.is_err() {
            self.let_go(fs, number).await?;
        }
        closed
    }

    async fn let_go(&self, fs: &FileSystemOfDrive, number: u64) -> Result<(), FileError> {
        self.blocks.borrow_mut().remove_user(number);
        self.release(fs, number).await
    }

    /// Closes a file of which there are no pages, and that nobody holds. For one who is inside.
    async fn release(&self, fs: &FileSystemOfDrive, number: u64) -> Result<(), FileError> {
        let is_empty = self.blocks.borrow_mut().remove_file_if_empty(number);
        if !is_empty {
            return Ok(());
        }
        self.writers.borrow_mut().remove(&number);
        self.durable.borrow_mut().remove(&number);
        fs.close(number).await
    }

    /// Pages of a range that are there.
    fn there(&self, number: u64, pages: &Range<u64>) -> u32 {
        let blocks = self.blocks.borrow();
        let is_there = |page: &u64| matches!(blocks.look(number, *page), Look::There(_));
        pages.clone().filter(is_there).count() as u32
    }

    /// Waits until memory has moved so many pages.
    async fn moved(&self, pages: u32) {
        let cpu = cpu();
        let moved_ns = self.memory().moved_ns(&cpu, pages);
        cpu.sleep_until(moved_ns).await;
    }

    /// Waits until a page has come, or has been written.
    async fn changed(&self) {
        let mut is_first = true;
        poll_fn(|context| {
            if !std::mem::replace(&mut is_first, false) {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn wake(&self) {
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }
}
