//! Reading and writing, page by page: the paths of a system call (mm/filemap.c of Linux).

use wharf_runtime::Op;
use wharf_runtime::wake::Pause;

use crate::design::{Touch, WritePolicy, check_request};
use crate::error::IoError;
use crate::kernel::frame::{LOCKED, UPTODATE, WRITEBACK};
use crate::kernel::local::Local;
use crate::kernel::pages::{CpuPages, PageLock};
use crate::key::PageKey;
use crate::kit::pages::{Held, Pages};
use crate::kit::reading::touch_of;
use crate::kit::run::Run;
use crate::kit::transfers::Outcome;
use crate::span::{Extent, Span, spans};
use crate::volume::Transfer;

impl Local {
    /// Reads.
    ///
    /// # Errors
    /// A wrong extent or payload; an error of the drive.
    pub(super) async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        let page_bytes = self.frames().page_bytes();
        check_request(self.pages.volume(), page_bytes, extent, out.len())?;
        self.enter();
        let mut touch = Touch::default();
        for piece in self.pages.files().pieces(extent, page_bytes) {
            let out = &mut out[piece.payload];
            touch += self.read_file(piece.file, piece.extent, out).await?;
        }
        Ok(touch)
    }

    /// Reads within a file.
    #[inline]
    async fn read_file(&self, file: u32, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        let (pages, end) = (extent.pages(), extent.first_page() + extent.pages());
        let (mut missed, mut read_ahead) = (0, 0);
        for span in spans(extent, self.frames().page_bytes()) {
            let (missing, is_first) = self.read_page(file, &span, end, out).await?;
            missed += missing;
            read_ahead += u64::from(is_first);
        }
        Ok(touch_of(pages, missed, read_ahead))
    }

    /// Reads one page of a request that goes to page `end`. Gives the pages of the request that
    /// were found missing, and whether this is the first use of one that was read ahead.
    #[inline]
    async fn read_page(
        &self,
        file: u32,
        span: &Span,
        end: u64,
        out: &mut [u8],
    ) -> Result<(u64, bool), IoError> {
        let (key, mut missed) = (PageKey::new(file, span.page), 0);
        let held = loop {
            if let Some(held) = self.pages.find(key) {
                break held;
            }
            if let (Some(held), count) = self.fault(key, end).await? {
                missed += count;
                break held;
            }
        };
        if self.pages.take_mark(held.frame) {
            let plan = self.reading.ahead(file, |ahead| ahead.marked(span.page));
            self.reading.read_plan(file, &plan, None, 0);
        }
        if !self.pages.is(held.frame, UPTODATE) {
            self.wait_until_read(&held, key).await?;
        }
        let frames = self.frames();
        self.cpu()
            .work(Op::CopyPage, || frames.copy_out(held.frame, span, out));
        // Pieces of one page, read one after the other, are one use of it.
        if self.reading.ahead(file, |ahead| ahead.note(span.page)) {
            self.pages.lists.mark_accessed(held.frame);
        }
        Ok((missed, frames.touch_first(held.frame)))
    }

    /// Waits until a page has its content; reads it if nobody does.
    #[cold]
    async fn wait_until_read(
        &self,
        held: &Held<'_, CpuPages>,
        key: PageKey,
    ) -> Result<(), IoError> {
        let (frames, frame) = (self.frames(), held.frame);
        self.pages.wait_page(frame, LOCKED, key).await?;
        while !frames.is(frame, UPTODATE) {
            // The read of whoever wanted the page before has failed.
            let lock = self.pages.lock_page(frame, key).await?;
            if !frames.is(frame, UPTODATE) {
                self.read_locked(lock, key).await?;
            }
        }
        Ok(())
    }

    /// Reads a page that is locked; it is not any more then.
    async fn read_locked(&self, lock: PageLock<'_>, key: PageKey) -> Result<(), IoError> {
        let frame = lock.frame;
        let mut run = Run::default();
        run.push(key.page(), frame);
        lock.hand_over();
        let outcome = self.transfers.submit(Transfer::Read, key.file(), &mut run);
        self.wait_read(&outcome, frame).await
    }

    /// A page is missing, in a request that goes to page `end`: gives it a frame and begins to read
    /// it, with what is to be read ahead. Gives the page, and how many pages of the request were
    /// missing; no page if another task was faster.
    #[cold]
    async fn fault(
        &self,
        key: PageKey,
        end: u64,
    ) -> Result<(Option<Held<'_, CpuPages>>, u64), IoError> {
        let frame = self.memory.allocate(key).await?;
        let Some((held, lock)) = self.pages.insert(frame, key) else {
            return Ok((None, 0));
        };
        lock.hand_over();
        let (missed, _) = self.reading.around(frame, key, end);
        Ok((Some(held), missed))
    }

    /// Writes; with write-through, waits until the drive has the data.
    ///
    /// # Errors
    /// A wrong extent or payload; an error of the drive.
    pub(super) async fn write(
        &self,
        extent: Extent,
        data: &[u8],
        policy: WritePolicy,
    ) -> Result<Touch, IoError> {
        let page_bytes = self.frames().page_bytes();
        check_request(self.pages.volume(), page_bytes, extent, data.len())?;
        self.enter();
        let mut touch = Touch::default();
        for piece in self.pages.files().pieces(extent, page_bytes) {
            let data = &data[piece.payload];
            touch += self
                .write_file(piece.file, piece.extent, data, policy)
                .await?;
        }
        Ok(touch)
    }

    /// Writes within a file.
    async fn write_file(
        &self,
        file: u32,
        extent: Extent,
        data: &[u8],
        policy: WritePolicy,
    ) -> Result<Touch, IoError> {
        let (pages, mut touch) = (extent.pages(), Touch::default());
        for span in spans(extent, self.frames().page_bytes()) {
            touch += self.write_page(file, &span, data).await?;
            self.throttle.balance_dirty(&self.write_back).await;
        }
        if policy == WritePolicy::Through && pages > 0 {
            let first = extent.first_page();
            let range = (first, first + pages - 1);
            self.write_back.write_and_wait(file, range).await?;
        }
        Ok(touch)
    }

    /// Writes one page of a request.
    async fn write_page(&self, file: u32, span: &Span, data: &[u8]) -> Result<Touch, IoError> {
        let key = PageKey::new(file, span.page);
        let (held, mut new) = self.page_to_write(key).await?;
        let (frames, frame, was_there) = (self.frames(), held.frame, new.is_none());
        let lock = loop {
            let lock = match new.take() {
                Some(lock) => lock,
                None => self.pages.lock_page(frame, key).await?,
            };
            self.pages.wait_page(frame, WRITEBACK, key).await?;
            if span.whole || frames.is(frame, UPTODATE) {
                break lock;
            }
            self.read_locked(lock, key).await?;
        };
        self.pages.tasks.kernel_path.page_write(self.cpu());
        self.cpu()
            .work(Op::CopyPage, || frames.copy_in(frame, span, data));
        if !frames.is(frame, UPTODATE) {
            frames.set(self.cpu(), frame, UPTODATE);
        }
        self.pages.mark_dirty(frame, key);
        drop(lock);
        self.pages.lists.mark_accessed(frame);
        let is_first = frames.touch_first(frame);
        Ok(match was_there {
            true => Touch::found(is_first),
            false => Touch::no_hits(1),
        })
    }

    /// The frame of a page that is to be written, with its lock if it is new.
    async fn page_to_write(
        &self,
        key: PageKey,
    ) -> Result<(Held<'_, CpuPages>, Option<PageLock<'_>>), IoError> {
        loop {
            if let Some(held) = self.pages.find(key) {
                return Ok((held, None));
            }
            let frame = self.memory.allocate(key).await?;
            if let Some((held, lock)) = self.pages.insert(frame, key) {
                return Ok((held, Some(lock)));
            }
        }
    }

    /// Waits until the read of a page, for which the caller's frame is locked, has ended.
    ///
    /// # Errors
    /// The read's.
    async fn wait_read(&self, outcome: &Outcome, frame: u32) -> Result<(), IoError> {
        loop {
            if let Some(result) = outcome.get() {
                return result;
            }
            // The outcome is set before the page is unlocked, or stuck.
            let is_locked = |state| state & LOCKED != 0;
            if self.pages.join_page(frame, is_locked) {
                self.counters().waits.add(1);
                self.pages.tasks.sleep(Pause::default()).await;
            }
        }
    }

    /// Makes durable what was written to ranges of files before: the kernel's `fsync`.
    ///
    /// # Errors
    /// The first error of a request; else [`IoError::WriteBack`] if write-backs of one of the files
    /// have failed, by whomever, since this client's last flush of it.
    pub(super) async fn flush(
        &self,
        ranges: impl Iterator<Item = (u32, (u64, u64))>,
    ) -> Result<(), IoError> {
        self.enter();
        let mut outcome = Ok(());
        for (file, range) in ranges {
            let failures = || self.pages.shared.failures_of(file);
            let written = self.write_back.write_and_wait(file, range);
            let written = self.told[file as usize].report(failures, written).await;
            outcome = outcome.and(written);
        }
        outcome?;
        self.cpu().work(Op::BlockSubmit, || ());
        let mut flushed = Ok(());
        let flush = async { flushed = self.pages.volume().flush(self.cpu()).await };
        self.pages.tasks.sleep(flush).await;
        self.cpu().work(Op::Interrupt, || ());
        flushed
    }
}
