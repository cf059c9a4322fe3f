//! Writing to the cache.

use std::rc::Rc;

use wharf_files::{Caller, FileError, FileSystem};
use wharf_runtime::Op;
use wharf_wire::file::NearResult;

use super::blocks::Look;
use super::{How, Near, PAGE, Past, User, Writer, cpu, pages_of, part_of};
use crate::features::files::SET_ID_BITS;
use crate::features::files::lines::FileSystemOfDrive;

/// What became of a part of a page that was to be written.
enum Page {
    /// It is in the cache.
    Kept,
    /// There is no room for it.
    NoRoom,
    /// Others change it by another way just now.
    Changing,
}

impl Near {
    /// Writes bytes of a file that lie within it, to pages of the cache; gives those that found no room, which are to be
    /// written to the file. Nothing at all if they go behind its end, or the file has set-id bits, which a write takes away.
    pub(in crate::features::files) async fn write(
        &self,
        fs: &FileSystemOfDrive,
        (number, user): (u64, User),
        caller: &Rc<Caller>,
        offset: u64,
        data: &[u8],
    ) -> Result<Option<(NearResult, Past)>, FileError> {
        let _inside = self.gates.enter(number, How::Together).await;
        let end = offset.saturating_add(data.len() as u64);
        let found = fs.attributes(number).await?;
        if end > found.bytes || found.mode & SET_ID_BITS != 0 {
            return Ok(None);
        }
        let (size, bytes) = (found.bytes, offset..end);
        let pages = pages_of(&bytes);
        let mut result = NearResult {
            bytes: data.len() as u32,
            hits: self.there(number, &pages),
            ..NearResult::default()
        };
        self.count(|counts| {
            counts.writes += 1;
            counts.hits += u64::from(result.hits);
        });
        self.hold(fs, number).await?;
        let writer = Writer {
            caller: caller.clone(),
            changed_ns: user.now_ns,
        };
        self.writers.borrow_mut().insert(number, writer);
        if let Err(error) = self.secure(fs, number, size).await {
            self.let_go(fs, number).await?;
            return Err(error);
        }
        let mut past = Vec::new();
        for page in pages.clone() {
            let (at, part) = part_of(&bytes, page);
            let new = &data[part.start as usize..part.end as usize];
            match self.write_page(fs, (number, user), page, (at, new)).await {
                Ok(Page::Kept) => result.kept += 1,
                Ok(Page::Changing) => past.push(part),
                Ok(Page::NoRoom) => {
                    result.is_full = true;
                    past.push(part);
                }
                Err(error) => {
                    self.let_go(fs, number).await?;
                    return Err(error);
                }
            }
        }
        self.moved(result.kept).await;
        if user.shows {
            self.show((number, size), &pages, true);
        }
        self.let_go(fs, number).await?;
        Ok(Some((result, past)))
    }

    /// Writes a part of a page.
    async fn write_page(
        &self,
        fs: &FileSystemOfDrive,
        (number, user): (u64, User),
        page: u64,
        (at, new): (usize, &[u8]),
    ) -> Result<Page, FileError> {
        loop {
            let look = self.blocks.borrow().look(number, page);
            match look {
                Look::There(memory) => {
                    self.put(memory, at, new);
                    self.blocks.borrow_mut().mark_dirty(number, page);
                    return Ok(Page::Kept);
                }
                Look::Coming => self.changed().await,
                Look::Nothing if self.blocks.borrow().is_changing(number, page) => {
                    return Ok(Page::Changing);
                }
                Look::Nothing => {
                    let claimed = self.blocks.borrow_mut().claim(number, page, user.host);
                    let Some(memory) = claimed else {
                        self.count(|counts| counts.no_room += 1);
                        return Ok(Page::NoRoom);
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
        self.keep_if_cut();
        cpu().work(Op::DriveCopy, || {
            let copy = |page: &mut [u8]| page[at..at + new.len()].copy_from_slice(new);
            self.with_page(memory, copy);
        });
    }
}
