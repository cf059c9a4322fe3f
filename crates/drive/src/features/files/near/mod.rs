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
//! written before ([`Near::settle`]); who changes something is *alone* in the file, and the pages that it changes leave the cache
//! ([`Near::change`]). A file of which the cache has pages is open here, so that its number is no other file's.
//!
//! The gate of a file is entered before those of the file system, and nothing here waits for a gate while it is inside of one.

mod blocks;

use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Poll, Waker};

use rustc_hash::FxHashMap;
use wharf_files::block::{Gates, How, Inside};
use wharf_files::{By, Caller, Errno, FileError, FileSystem, HostBytes, In, Kind, Out, Write};
use wharf_runtime::{Cpu, Op, here};
use wharf_wire::file::{Evict, NearResult};

use super::lines::FileSystemOfDrive;
use super::time::Clock;
use crate::memory::DeviceMemory;
use blocks::{Blocks, Look};

const PAGE: u64 = wharf_wire::dma::PAGE_BYTES as u64;

/// All pages of a file.
const ALL: Range<u64> = 0..u64::MAX;

/// Most pages that are written to a file, or read from it, at once.
const RUN_PAGES_MAX: usize = 64;

/// See the [module](self).
pub(super) struct Near {
    memory: Option<Rc<DeviceMemory>>,
    gates: Gates,
    blocks: RefCell<Blocks>,
    /// Who writes pages of a file back: whoever changed it last.
    writers: RefCell<FxHashMap<u64, Rc<Caller>>>,
    /// Those who wait for pages that are coming, or being written.
    waiting: RefCell<Vec<Waker>>,
    clock: Rc<Clock>,
}

/// Which host uses a file, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct User {
    pub(super) host: u32,
    pub(super) now_ns: u64,
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
            clock,
        }
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
        self.is_on() && self.blocks.borrow().is_unwritten(number)
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
        let blocks = self.blocks.borrow();
        blocks.verify(pages);
        blocks.counts()
    }

    fn memory(&self) -> &DeviceMemory {
        self.memory
            .as_ref()
            .expect("who has pages has memory for them")
    }

    /// Reads bytes of a file, as far as it goes. Pages that are not there are kept if `keeps`, and `ahead` pages behind them.
    pub(super) async fn read(
        &self,
        fs: &FileSystemOfDrive,
        (number, user): (u64, User),
        offset: u64,
        mut out: Out<'_>,
        (keeps, ahead): (bool, u32),
        put: impl Fn(&[u8], Out<'_>) -> Result<(), FileError>,
    ) -> Result<NearResult, FileError> {
        let _inside = self.gates.enter(number, How::Together).await;
        let found = fs.attributes(number).await?;
        if found.kind != Kind::File {
            // It says what is wrong.
            let read = fs.read(number, offset, out, user.now_ns).await?;
            return Ok(NearResult {
                bytes: read as u32,
                ..NearResult::default()
            });
        }
        let size = found.bytes;
        let end = offset.saturating_add(out.len()).min(size);
        let bytes = offset.min(end)..end;
        let pages = pages_of(&bytes);
        let mut result = NearResult {
            bytes: (bytes.end - bytes.start) as u32,
            ..NearResult::default()
        };
        result.hits = self.there(number, &pages);
        if keeps {
            let behind = (pages.end + u64::from(ahead)).min(size.div_ceil(PAGE));
            let first = if bytes.is_empty() {
                offset / PAGE
            } else {
                pages.start
            };
            let wanted = first..behind.max(pages.end);
            result.is_full = !self.bring(fs, (number, user), wanted).await?;
        }
        let (mut page, mut touched) = (pages.start, 0);
        while page < pages.end {
            let look = self.blocks.borrow().look(number, page);
            match look {
                Look::There(memory) => {
                    let (at, part) = part_of(&bytes, page);
                    let count = (part.end - part.start) as usize;
                    // No wait comes between the look and the copy.
                    let out = out.slice(part);
                    self.memory()
                        .with_near(memory, |page| put(&page[at..at + count], out))?;
                    (touched, result.kept) = (touched + 1, result.kept + 1);
                    page += 1;
                }
                Look::Coming => self.changed().await,
                Look::Nothing => {
                    let end = self.nothing_until(number, page..pages.end);
                    let (_, first) = part_of(&bytes, page);
                    let (_, last) = part_of(&bytes, end - 1);
                    let part = first.start..last.end;
                    let want = part.end - part.start;
                    let from = bytes.start + part.start;
                    let count = fs.read(number, from, out.slice(part), user.now_ns).await?;
                    if count < want {
                        return Err(Errno::EIO.into());
                    }
                    page = end;
                }
            }
        }
        self.moved(touched).await;
        Ok(result)
    }

    /// Writes bytes of a file that lie within it, to pages of the cache; gives those that found no room, which are to be
    /// written to the file. Nothing at all if they go behind its end.
    pub(super) async fn write(
        &self,
        fs: &FileSystemOfDrive,
        (number, user): (u64, User),
        caller: &Rc<Caller>,
        offset: u64,
        data: &[u8],
    ) -> Result<Option<(NearResult, Past)>, FileError> {
        let _inside = self.gates.enter(number, How::Together).await;
        let end = offset.saturating_add(data.len() as u64);
        if end > fs.attributes(number).await?.bytes {
            return Ok(None);
        }
        let bytes = offset..end;
        let pages = pages_of(&bytes);
        let mut result = NearResult {
            bytes: data.len() as u32,
            hits: self.there(number, &pages),
            ..NearResult::default()
        };
        self.hold(fs, number).await?;
        self.writers.borrow_mut().insert(number, caller.clone());
        let mut past = Vec::new();
        for page in pages {
            let (at, part) = part_of(&bytes, page);
            let new = &data[part.start as usize..part.end as usize];
            match self.write_page(fs, (number, user), page, (at, new)).await {
                Ok(true) => result.kept += 1,
                Ok(false) => past.push(part),
                Err(error) => {
                    self.let_go(fs, number).await?;
                    return Err(error);
                }
            }
        }
        result.is_full = !past.is_empty();
        self.moved(result.kept).await;
        self.let_go(fs, number).await?;
        Ok(Some((result, past)))
    }

    /// Writes a part of a page; false if there is no room for it.
    async fn write_page(
        &self,
        fs: &FileSystemOfDrive,
        (number, user): (u64, User),
        page: u64,
        (at, new): (usize, &[u8]),
    ) -> Result<bool, FileError> {
        loop {
            let look = self.blocks.borrow().look(number, page);
            match look {
                Look::There(memory) => {
                    self.put(memory, at, new);
                    self.blocks.borrow_mut().mark_dirty(number, page);
                    return Ok(true);
                }
                Look::Coming => self.changed().await,
                Look::Nothing => {
                    let claimed = self.blocks.borrow_mut().claim(number, page, user.host);
                    let Some(memory) = claimed else {
                        return Ok(false);
                    };
                    if new.len() < PAGE as usize {
                        self.fill(fs, (number, user), page, &[memory]).await?;
                    } else {
                        self.arrive(number, page..page + 1);
                    }
                }
            }
        }
    }

    /// Copies into a page of memory.
    fn put(&self, memory: u32, at: usize, new: &[u8]) {
        cpu().work(Op::DriveCopy, || {
            let copy = |page: &mut [u8]| page[at..at + new.len()].copy_from_slice(new);
            self.memory().with_near(memory, copy);
        });
    }

    /// Brings pages of a range that are not there, as far as there is room; false if there was none for some. Within the file.
    async fn bring(
        &self,
        fs: &FileSystemOfDrive,
        (number, user): (u64, User),
        pages: Range<u64>,
    ) -> Result<bool, FileError> {
        if self.there(number, &pages) as u64 == pages.end.saturating_sub(pages.start) {
            return Ok(true);
        }
        self.hold(fs, number).await?;
        let (mut at, mut is_full) = (pages.start, false);
        while at < pages.end {
            let first = at;
            let mut memory = Vec::new();
            while at < pages.end && memory.len() < RUN_PAGES_MAX {
                let mut blocks = self.blocks.borrow_mut();
                if blocks.look(number, at) != Look::Nothing {
                    break;
                }
                match blocks.claim(number, at, user.host) {
                    Some(page) => memory.push(page),
                    None => {
                        is_full = true;
                        break;
                    }
                }
                at += 1;
            }
            if memory.is_empty() {
                at += 1;
            } else if let Err(error) = self.fill(fs, (number, user), first, &memory).await {
                self.let_go(fs, number).await?;
                return Err(error);
            }
            if is_full {
                break;
            }
        }
        self.let_go(fs, number).await?;
        Ok(!is_full)
    }

    /// Reads neighbouring pages, which are claimed, from the media.
    async fn fill(
        &self,
        fs: &FileSystemOfDrive,
        (number, user): (u64, User),
        first: u64,
        memory: &[u32],
    ) -> Result<(), FileError> {
        let pages = first..first + memory.len() as u64;
        let addresses: Vec<u64> = memory
            .iter()
            .map(|page| self.memory().near_address(*page))
            .collect();
        let want = memory.len() as u64 * PAGE;
        let out = Out::Host(HostBytes::new(&addresses, 0, want));
        let read = fs.read(number, first * PAGE, out, user.now_ns).await;
        let count = match read {
            Ok(count) => count,
            Err(error) => {
                pages.for_each(|page| self.blocks.borrow_mut().remove(number, page));
                self.wake();
                return Err(error);
            }
        };
        // Behind the end of the file there are zeros.
        for (nth, page) in (0..).zip(memory) {
            let from = count.saturating_sub(nth * PAGE).min(PAGE) as usize;
            self.memory().with_near(*page, |page| page[from..].fill(0));
        }
        self.moved(memory.len() as u32).await;
        self.arrive(number, pages);
        Ok(())
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
        let _inside = self.gates.enter(number, How::Alone).await;
        let pages = pages_of(&bytes);
        if how != Evict::Drop {
            self.write_back(fs, number, &pages).await?;
        }
        let evicted = match how {
            Evict::Clean => 0,
            Evict::WriteBack | Evict::Drop => self.remove(number, &pages, Some(host)),
        };
        self.release(fs, number).await?;
        Ok(evicted)
    }

    /// Somebody sees bytes of a file by another way: they are as they were written.
    ///
    /// # Errors
    /// If they cannot be written to the file.
    pub(super) async fn settle(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        bytes: Range<u64>,
    ) -> Result<(), FileError> {
        if !self.has(number) {
            return Ok(());
        }
        let _inside = self.gates.enter(number, How::Together).await;
        self.write_back(fs, number, &pages_of(&bytes)).await
    }

    /// Somebody changes bytes of a file by another way, and is alone in it until what is given is dropped. Their pages
    /// were written, and have left: a change that fails has changed nothing. Without bytes it is what lies behind the end.
    ///
    /// # Errors
    /// If they cannot be written to the file.
    pub(super) async fn change(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        bytes: Option<Range<u64>>,
    ) -> Result<Option<Inside<'_>>, FileError> {
        if !self.is_on() {
            return Ok(None);
        }
        let inside = self.gates.enter(number, How::Alone).await;
        if self.has(number) {
            let bytes = match bytes {
                Some(bytes) => bytes,
                None => fs.attributes(number).await?.bytes..u64::MAX,
            };
            let pages = pages_of(&bytes);
            self.write_back(fs, number, &pages).await?;
            self.leave(fs, number, &pages).await?;
        }
        Ok(Some(inside))
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
    ) -> Result<Option<Inside<'_>>, FileError> {
        if !self.is_on() {
            return Ok(None);
        }
        let inside = self.gates.enter(number, How::Alone).await;
        if self.has(number) {
            let pages = pages_of(&bytes);
            for edge in [bytes.start, bytes.end] {
                let page = edge / PAGE;
                if !edge.is_multiple_of(PAGE) && edge != u64::MAX {
                    self.write_back(fs, number, &(page..page + 1)).await?;
                }
            }
            self.leave(fs, number, &pages).await?;
        }
        Ok(Some(inside))
    }

    async fn leave(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        pages: &Range<u64>,
    ) -> Result<(), FileError> {
        self.remove(number, pages, None);
        self.release(fs, number).await
    }

    /// Nothing of a file stays.
    ///
    /// # Errors
    /// If it cannot be written to the file; then it is lost.
    pub(super) async fn forget(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
    ) -> Result<(), FileError> {
        if !self.has(number) {
            return Ok(());
        }
        let _inside = self.gates.enter(number, How::Alone).await;
        let written = self.write_back(fs, number, &ALL).await;
        self.remove(number, &ALL, None);
        written.and(self.release(fs, number).await)
    }

    /// The same of a file that has no name any more.
    pub(super) async fn forget_if_removed(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
    ) -> Result<(), FileError> {
        if !self.has(number) || fs.attributes(number).await?.links > 0 {
            return Ok(());
        }
        self.forget(fs, number).await
    }

    /// A host is gone: its pages are written, and leave.
    pub(super) async fn host_leaves(&self, fs: &FileSystemOfDrive, host: u32) {
        let numbers = self.blocks.borrow().of_host(host);
        for number in numbers {
            let _inside = self.gates.enter(number, How::Alone).await;
            // Nobody is there to be told.
            let _ = self.write_back(fs, number, &ALL).await;
            self.remove(number, &ALL, Some(host));
            let _ = self.release(fs, number).await;
        }
    }

    /// Has pages of a range that are dirty written to the file. For one who is inside.
    async fn write_back(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        pages: &Range<u64>,
    ) -> Result<(), FileError> {
        loop {
            let begun = self
                .blocks
                .borrow_mut()
                .begin_writing(number, pages, RUN_PAGES_MAX);
            let Some(run) = begun else {
                if !self.blocks.borrow().is_writing(number, pages) {
                    return Ok(());
                }
                // Others do so: if it fails for them, it is tried again here.
                self.changed().await;
                continue;
            };
            let mut copy = Vec::with_capacity(run.memory.len() * PAGE as usize);
            for memory in &run.memory {
                let memory = *memory;
                let take = || {
                    self.memory()
                        .with_near(memory, |page| copy.extend_from_slice(page))
                };
                cpu().work(Op::DriveCopy, take);
            }
            self.moved(run.memory.len() as u32).await;
            let written = self.write_run(fs, number, run.first * PAGE, &copy).await;
            let is_done = written.is_ok();
            self.blocks.borrow_mut().end_writing(number, &run, is_done);
            self.wake();
            written?;
        }
    }

    /// Writes bytes to a file, as far as it goes.
    async fn write_run(
        &self,
        fs: &FileSystemOfDrive,
        number: u64,
        from: u64,
        bytes: &[u8],
    ) -> Result<(), FileError> {
        let size = fs.attributes(number).await?.bytes;
        let end = size.saturating_sub(from).min(bytes.len() as u64) as usize;
        let caller = self.writers.borrow().get(&number).cloned();
        let caller = caller.expect("who made it dirty is known");
        let by = By {
            caller: &caller,
            now_ns: self.clock.now_ns(cpu().now()),
        };
        let mut done = 0;
        while done < end {
            let write = Write::at(from + done as u64);
            let data = In::Bytes(&bytes[done..end]);
            let written = fs.write(by, number, write, data).await?;
            if written.bytes == 0 {
                return Err(Errno::ENOSPC.into());
            }
            done += written.bytes as usize;
        }
        Ok(())
    }

    /// Takes pages of a range, of a host or of all, out. For one who is alone.
    fn remove(&self, number: u64, pages: &Range<u64>, host: Option<u32>) -> u64 {
        let mut blocks = self.blocks.borrow_mut();
        let found = blocks.pages(number, pages, host);
        found.iter().for_each(|page| blocks.remove(number, *page));
        found.len() as u64
    }

    /// Has a file be open for the cache, until it is [let go](Near::let_go). For one who is inside.
    async fn hold(&self, fs: &FileSystemOfDrive, number: u64) -> Result<(), FileError> {
        if !self.has(number) {
            fs.open(number).await?;
            if self.has(number) {
                // Another one was as fast.
                fs.close(number).await?;
            }
        }
        self.blocks.borrow_mut().add_user(number);
        Ok(())
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
        fs.close(number).await
    }

    /// Pages of a range that are there.
    fn there(&self, number: u64, pages: &Range<u64>) -> u32 {
        let blocks = self.blocks.borrow();
        let is_there = |page: &u64| matches!(blocks.look(number, *page), Look::There(_));
        pages.clone().filter(is_there).count() as u32
    }

    /// Up to where there is nothing of a range, whose first page is not there.
    fn nothing_until(&self, number: u64, pages: Range<u64>) -> u64 {
        let blocks = self.blocks.borrow();
        let mut all = pages.clone();
        let is_some = |page: &u64| blocks.look(number, *page) != Look::Nothing;
        all.find(is_some).unwrap_or(pages.end)
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
