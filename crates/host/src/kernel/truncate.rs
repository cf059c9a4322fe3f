//! Truncation: pages that leave with their file, or with a part of it (mm/truncate.c of Linux).
//!
//! 1. First all that can go at once, in batches: each page is locked, its dirty bit is taken off,
//!    and the batch leaves the lists and the tree under one lock each.
//! 2. Then those that somebody had locked, or that were on their way to the drive, one by one.
//!
//! A page that others still use, or that is between lists, stays in the cache without content until
//! reclaim finds it; who wants it reads it again. (Linux takes it out of the file at once.)

use wharf_runtime::Op;
use wharf_runtime::sync::Ordering;

use crate::error::IoError;
use crate::kernel::frame::{DIRTY, LOCKED, UPTODATE, WRITEBACK};
use crate::kernel::pages::CpuPages;
use crate::key::PageKey;
use crate::kit::accounting::Change;
use crate::kit::memory::Reclaims;
use crate::kit::pages::Pages;
use crate::kit::replacement::two_lists::BATCH;
use crate::kit::xarray::{Find, Tag};
use crate::span::Extent;

/// A page that is locked and to go, with a reference of the caller's.
struct Going {
    page: u64,
    frame: u32,
    /// Whether its frame is free: nobody else had a reference.
    is_free: bool,
}

impl CpuPages {
    /// Deletes what lies within whole pages: the kernel's `unlink` or `ftruncate`.
    ///
    /// # Errors
    /// Pages beyond the volume; a page that the drive holds and does not answer for.
    pub(super) async fn discard(&self, extent: Extent) -> Result<(), IoError> {
        self.volume().check(extent.first_page(), extent.pages())?;
        self.enter();
        for (file, range) in self.files().ranges(extent) {
            self.truncate(file, range).await?;
        }
        Ok(())
    }

    /// Takes the pages `first..=last` of a file out of the cache; what they hold is lost, also if
    /// it is dirty.
    ///
    /// # Errors
    /// If the drive holds a page and does not answer.
    async fn truncate(&self, file: u32, (first, last): (u64, u64)) -> Result<(), IoError> {
        self.lists.drain_batches();
        if !self.truncate_free(file, (first, last)) {
            return Ok(());
        }
        let mut at = first;
        while let Some((page, frame)) = self.next_page(file, at, last) {
            at = page + 1;
            let key = PageKey::new(file, page);
            let Some(held) = self.try_hold(frame, key) else {
                continue;
            };
            let lock = self.lock_page(frame, key).await?;
            self.wait_page(frame, WRITEBACK, key).await?;
            lock.hand_over();
            held.keep();
            self.remove(file, &mut vec![Going::new(page, frame)]);
        }
        Ok(())
    }

    /// Takes out what can go at once; true if something else is left.
    fn truncate_free(&self, file: u32, (first, last): (u64, u64)) -> bool {
        let (cpu, frames) = (self.cpu(), &self.shared.frames);
        let (mut at, mut batch, mut left) = (first, Vec::with_capacity(BATCH), false);
        while let Some((page, frame)) = self.next_page(file, at, last) {
            at = page + 1;
            let Some(held) = self.try_hold(frame, PageKey::new(file, page)) else {
                continue;
            };
            if !frames.try_lock(cpu, frame) {
                left = true;
                continue;
            }
            if frames.is(frame, WRITEBACK) {
                self.change_and_wake(frame, 0, LOCKED);
                left = true;
                continue;
            }
            held.keep();
            batch.push(Going::new(page, frame));
            if batch.len() == BATCH {
                self.remove(file, &mut batch);
            }
        }
        self.remove(file, &mut batch);
        left
    }

    /// The first page of a file from `at` on, up to `last`, with its frame.
    fn next_page(&self, file: u32, at: u64, last: u64) -> Option<(u64, u32)> {
        let find = || self.shared.tree(file).next(at, Find::Any);
        let found = self.cpu().work(Op::TreeLookup, find);
        let (page, frame) = found.filter(|(page, _)| *page <= last)?;
        Some((page, frame as u32))
    }

    /// Takes pages, which are clean in a moment, off the lists and out of the tree; empties the
    /// batch.
    fn remove(&self, file: u32, batch: &mut Vec<Going>) {
        if batch.is_empty() {
            return;
        }
        let (cpu, shared, count) = (self.cpu(), &self.shared, batch.len() as u32);
        for going in batch.iter() {
            if shared.frames.clear(cpu, going.frame, DIRTY) & DIRTY != 0 {
                shared.dirty.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let frames: Vec<u32> = batch.iter().map(|going| going.frame).collect();
        let mut going = batch.iter_mut();
        self.lists.on_lists(&frames, |lru, frame| {
            shared.frames.put(cpu, frame);
            // Between the lists it belongs to whoever moves it.
            let is_free = lru.list_of(frame).is_some() && shared.frames.freeze(cpu, frame);
            if is_free {
                lru.remove(frame, |changed| shared.frames.relink(cpu, changed));
            }
            going.next().expect("one for each frame").is_free = is_free;
        });
        let gone = batch.iter().filter(|going| going.is_free).count() as u32;
        let tree = shared.tree(file);
        tree.change(cpu, Change::Removed, gone, |tree| {
            let remove = || {
                for going in batch.iter() {
                    if going.is_free {
                        tree.remove(going.page);
                    } else {
                        tree.set_tag(going.page, Tag::Dirty, false);
                    }
                }
            };
            cpu.work_n(Op::TreeUpdate, count, remove);
        });
        for going in batch.drain(..) {
            if going.is_free {
                shared.frames.end(cpu, going.frame);
                self.give_free(going.frame);
            } else {
                self.change_and_wake(going.frame, 0, UPTODATE | LOCKED);
            }
        }
        self.tasks.wake(&shared.common.progress);
    }
}

impl Going {
    fn new(page: u64, frame: u32) -> Going {
        Going {
            page,
            frame,
            is_free: false,
        }
    }
}
