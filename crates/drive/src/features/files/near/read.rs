//! Reading by way of the cache, and bringing pages into it.

use std::ops::Range;

use wharf_files::{Errno, FileError, FileSystem, HostBytes, Kind, Out};
use wharf_wire::file::NearResult;

use super::blocks::Look;
use super::{How, Kept, Near, PAGE, RUN_PAGES_MAX, User, pages_of, part_of};
use crate::features::files::lines::FileSystemOfDrive;

/// Pages of a file may come, until this is dropped.
pub(in crate::features::files) struct Bringing<'a> {
    near: &'a Near,
    number: u64,
}

impl Drop for Bringing<'_> {
    fn drop(&mut self) {
        let mut all = self.near.bringing.borrow_mut();
        let own = all.iter().position(|number| *number == self.number);
        all.swap_remove(own.expect("it has begun"));
    }
}

impl Near {
    /// Somebody is about to read a file, and to have its pages come.
    pub(in crate::features::files) fn brings(&self, number: u64) -> Bringing<'_> {
        self.bringing.borrow_mut().push(number);
        Bringing { near: self, number }
    }

    /// Whether it has pages of a file, or some may come by who reads it already.
    pub(in crate::features::files) fn may_have(&self, number: u64) -> bool {
        self.has(number) || self.bringing.borrow().contains(&number)
    }

    /// Reads bytes of a file, as far as it goes.
    pub(in crate::features::files) async fn read(
        &self,
        fs: &FileSystemOfDrive,
        (number, user): (u64, User),
        offset: u64,
        mut out: Out<'_>,
        kept: Kept,
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
        if !bytes.is_empty() {
            result.hits = self.there(number, &pages);
        }
        self.count(|counts| {
            counts.reads += 1;
            counts.hits += u64::from(result.hits);
        });
        if let Kept::With(ahead) = kept {
            let behind = (pages.end + u64::from(ahead)).min(size.div_ceil(PAGE));
            let first = if bytes.is_empty() {
                offset / PAGE
            } else {
                pages.start
            };
            let wanted = first..behind.max(pages.end);
            result.is_full = !self.bring(fs, (number, user), wanted).await?;
        }
        if kept == Kept::Taken && self.has(number) {
            self.hold(fs, number).await?;
            let taken = self.read_pages(fs, (number, user), &bytes, &mut out, (true, &put));
            let taken = taken.await;
            self.let_go(fs, number).await?;
            taken?;
            return Ok(result);
        }
        let read = self.read_pages(fs, (number, user), &bytes, &mut out, (false, &put));
        result.kept = read.await?;
        if user.shows && self.has(number) {
            // What is shown may be stored to, if it was written before.
            self.secure(fs, number, size).await?;
            self.show((number, size), &pages, false);
        }
        Ok(result)
    }

    /// Reads bytes within a file, each from where it is; gives how many of the pages are there. Pages that are there leave if
    /// `takes`.
    async fn read_pages(
        &self,
        fs: &FileSystemOfDrive,
        (number, user): (u64, User),
        bytes: &Range<u64>,
        out: &mut Out<'_>,
        (takes, put): (bool, &impl Fn(&[u8], Out<'_>) -> Result<(), FileError>),
    ) -> Result<u32, FileError> {
        if bytes.is_empty() {
            // It is no page's, also where the file ends within one.
            return Ok(0);
        }
        let pages = pages_of(bytes);
        let (mut page, mut touched) = (pages.start, 0);
        while page < pages.end {
            if takes {
                self.hide(number, &(page..page + 1));
                self.write_back(fs, number, &(page..page + 1)).await?;
            }
            let look = self.blocks.borrow().look(number, page);
            match look {
                // It was shown again while it was written.
                Look::There(memory) if takes && self.blocks.borrow().shown_at(memory).is_some() => {
                }
                // What was written is so still: no wait came between.
                Look::There(memory) => {
                    let (at, part) = part_of(bytes, page);
                    let count = (part.end - part.start) as usize;
                    // No wait comes between the look and the copy.
                    let out = out.slice(part);
                    self.with_page(memory, |page| put(&page[at..at + count], out))?;
                    if takes {
                        self.blocks.borrow_mut().remove(number, page);
                        self.count(|counts| counts.taken_pages += 1);
                    }
                    touched += 1;
                    page += 1;
                }
                Look::Coming => self.changed().await,
                Look::Nothing => {
                    let end = self.nothing_until(number, page..pages.end);
                    let (_, first) = part_of(bytes, page);
                    let (_, last) = part_of(bytes, end - 1);
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
        Ok(touched)
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
                if blocks.look(number, at) != Look::Nothing || blocks.is_changing(number, at) {
                    break;
                }
                match blocks.claim(number, at, user.host) {
                    Some(page) => memory.push(page),
                    None => {
                        self.count(|counts| counts.no_room += 1);
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
    pub(super) async fn fill(
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
        self.count(|counts| counts.brought_pages += memory.len() as u64);
        self.moved(memory.len() as u32).await;
        self.arrive(number, pages);
        Ok(())
    }

    /// Up to where there is nothing of a range, whose first page is not there.
    fn nothing_until(&self, number: u64, pages: Range<u64>) -> u64 {
        let blocks = self.blocks.borrow();
        let mut all = pages.clone();
        let is_some = |page: &u64| blocks.look(number, *page) != Look::Nothing;
        all.find(is_some).unwrap_or(pages.end)
    }
}
