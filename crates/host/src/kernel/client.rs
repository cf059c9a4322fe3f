//! Reading and writing, page by page: the paths of a system call (mm/filemap.c of Linux).

use std::rc::Rc;

use wharf_runtime::Op;

use crate::design::{Touch, WritePolicy, check_request};
use crate::error::IoError;
use crate::kernel::frame::{LOCKED, READAHEAD, UPTODATE, WRITEBACK};
use crate::kernel::local::{Held, Local, PageLock};
use crate::kernel::memory::Inserted;
use crate::key::PageKey;
use crate::readahead::Plan;
use crate::run::Run;
use crate::span::{Extent, Span, spans};
use crate::volume::Transfer;

impl Local {
    /// Reads.
    ///
    /// # Errors
    /// A wrong extent or payload; an error of the drive.
    pub(super) async fn read(
        self: &Rc<Self>,
        extent: Extent,
        out: &mut [u8],
    ) -> Result<Touch, IoError> {
        let page_bytes = self.shared.frames.page_bytes();
        check_request(&self.volume, page_bytes, extent, out.len())?;
        self.cpu.work(Op::SystemCall, || ());
        let mut touch = Touch::default();
        for piece in self.files.pieces(extent, page_bytes) {
            let out = &mut out[piece.payload];
            touch += self.read_file(piece.file, piece.extent, out).await?;
        }
        Ok(touch)
    }

    /// Reads within a file.
    #[inline]
    async fn read_file(
        self: &Rc<Self>,
        file: u32,
        extent: Extent,
        out: &mut [u8],
    ) -> Result<Touch, IoError> {
        let (pages, end) = (extent.pages(), extent.first_page() + extent.pages());
        let (mut missed, mut read_ahead) = (0, 0);
        for span in spans(extent, self.shared.frames.page_bytes()) {
            let (missing, is_first) = self.read_page(file, &span, end, out).await?;
            missed += missing;
            read_ahead += u64::from(is_first);
        }
        // A page that was missing may have left, and come again, before its turn.
        let hits = pages.saturating_sub(missed + read_ahead);
        Ok(Touch {
            pages,
            hits,
            read_ahead_hits: read_ahead.min(pages - hits),
        })
    }

    /// Reads one page of a request that goes to page `end`. Gives the pages of the request that were
    /// found missing, and whether this is the first use of one that was read ahead.
    #[inline]
    async fn read_page(
        self: &Rc<Self>,
        file: u32,
        span: &Span,
        end: u64,
        out: &mut [u8],
    ) -> Result<(u64, bool), IoError> {
        let (key, mut missed) = (PageKey::new(file, span.page), 0);
        let held = loop {
            if let Some(held) = self.find(key) {
                break held;
            }
            if let (Some(held), count) = self.fault(key, end).await? {
                missed += count;
                break held;
            }
        };
        if self.take_mark(held.frame) {
            let plan = self.ahead(file, |ahead| ahead.marked(span.page));
            self.read_ahead(file, &plan);
        }
        if !self.shared.frames.is(held.frame, UPTODATE) {
            self.wait_until_read(&held, key).await?;
        }
        let frames = &self.shared.frames;
        self.cpu
            .work(Op::CopyPage, || frames.copy_out(held.frame, span, out));
        // Pieces of one page, read one after the other, are one use of it.
        if self.ahead(file, |ahead| ahead.note(span.page)) {
            self.mark_accessed(held.frame);
        }
        Ok((missed, frames.touch_first(held.frame)))
    }

    /// Waits until a page has its content; reads it if nobody does.
    #[cold]
    async fn wait_until_read(
        self: &Rc<Self>,
        held: &Held<'_>,
        key: PageKey,
    ) -> Result<(), IoError> {
        let (frames, frame) = (&self.shared.frames, held.frame);
        self.wait_page(frame, LOCKED, key).await?;
        while !frames.is(frame, UPTODATE) {
            // The read of whoever wanted the page before has failed.
            let lock = self.lock_page(frame, key).await?;
            if !frames.is(frame, UPTODATE) {
                self.read_locked(lock, key).await?;
            }
        }
        Ok(())
    }

    /// Reads a page that is locked; it is not any more then.
    async fn read_locked(self: &Rc<Self>, lock: PageLock<'_>, key: PageKey) -> Result<(), IoError> {
        let frame = lock.frame;
        let mut run = Run::default();
        run.push(key.page(), frame);
        lock.hand_over();
        let outcome = self.submit(Transfer::Read, key.file(), &mut run);
        self.wait_read(&outcome, frame).await
    }

    /// A page is missing, in a request that goes to page `end`: gives it a frame and begins to read
    /// it, with what is to be read ahead. Gives the page, and how many pages of the request were
    /// missing; no page if another task was faster.
    #[cold]
    async fn fault(
        self: &Rc<Self>,
        key: PageKey,
        end: u64,
    ) -> Result<(Option<Held<'_>>, u64), IoError> {
        let frame = self.allocate(key).await?;
        let Inserted::New(held, lock) = self.insert(frame, key) else {
            return Ok((None, 0));
        };
        let (file, page) = (key.file(), key.page());
        let tree = self.shared.tree(file);
        let cached_before = |most: u64| {
            let before = (page.saturating_sub(most)..page).rev();
            before.take_while(|p| tree.load(*p).is_some()).count() as u64
        };
        let plan = self.ahead(file, |ahead| ahead.miss(page, end - page, cached_before));
        lock.hand_over();
        let mut missing = 1;
        let mut run = Run::default();
        if !(plan.first..plan.first + plan.pages).contains(&page) {
            run.push(page, frame);
            self.submit(Transfer::Read, file, &mut run);
        }
        missing += self.read_plan(file, &plan, Some((page, frame)), end);
        Ok((Some(held), missing))
    }

    /// Begins to read what a plan says and is not cached, as far as there is memory.
    fn read_ahead(self: &Rc<Self>, file: u32, plan: &Plan) {
        self.read_plan(file, plan, None, 0);
    }

    /// As [`Local::read_ahead`], with a page that has its frame already; gives the number of others
    /// below page `end`.
    fn read_plan(
        self: &Rc<Self>,
        file: u32,
        plan: &Plan,
        own: Option<(u64, u32)>,
        end: u64,
    ) -> u64 {
        let (shared, tree) = (&self.shared, self.shared.tree(file));
        let (mut run, mut below) = (Run::default(), 0);
        // A cache is not to be filled by one window.
        let most = u64::from(shared.frames.count() / 4).max(1);
        let last = (plan.first + plan.pages.min(most.max(end.saturating_sub(plan.first))))
            .min(self.files.pages_of(file));
        let mut memory_left = true;
        for page in plan.first..last {
            let frame = match own {
                Some((own, frame)) if own == page => frame,
                _ if !memory_left || tree.load(page).is_some() => continue,
                _ => match self.insert_ahead(PageKey::new(file, page)) {
                    Some(frame) => frame,
                    None => {
                        memory_left = false;
                        continue;
                    }
                },
            };
            below += u64::from(page < end && own.is_some_and(|(own, _)| own != page));
            // The others are of the request that they are read for, and missed by it.
            if page >= end {
                shared.frames.mark_untouched(frame);
            }
            if plan.mark == Some(page) {
                shared.frames.set(&self.cpu, frame, READAHEAD);
            }
            if !run.takes(page) {
                self.submit(Transfer::Read, file, &mut run);
            }
            run.push(page, frame);
        }
        self.submit(Transfer::Read, file, &mut run);
        below
    }

    /// Gives a page that nobody waits for a frame, locked, if one can be had at once.
    fn insert_ahead(&self, key: PageKey) -> Option<u32> {
        let frame = self.try_allocate()?;
        match self.insert(frame, key) {
            Inserted::New(held, lock) => {
                // The lock keeps it.
                drop(held);
                lock.hand_over();
                Some(frame)
            }
            Inserted::Exists => None,
        }
    }

    /// Writes; with write-through, waits until the drive has the data.
    ///
    /// # Errors
    /// A wrong extent or payload; an error of the drive.
    pub(super) async fn write(
        self: &Rc<Self>,
        extent: Extent,
        data: &[u8],
        policy: WritePolicy,
    ) -> Result<Touch, IoError> {
        let page_bytes = self.shared.frames.page_bytes();
        check_request(&self.volume, page_bytes, extent, data.len())?;
        self.cpu.work(Op::SystemCall, || ());
        let mut touch = Touch::default();
        for piece in self.files.pieces(extent, page_bytes) {
            let data = &data[piece.payload];
            touch += self
                .write_file(piece.file, piece.extent, data, policy)
                .await?;
        }
        Ok(touch)
    }

    /// Writes within a file.
    async fn write_file(
        self: &Rc<Self>,
        file: u32,
        extent: Extent,
        data: &[u8],
        policy: WritePolicy,
    ) -> Result<Touch, IoError> {
        let (pages, mut touch) = (extent.pages(), Touch::default());
        for span in spans(extent, self.shared.frames.page_bytes()) {
            touch += self.write_page(file, &span, data).await?;
            self.balance_dirty().await;
        }
        if policy == WritePolicy::Through && pages > 0 {
            let first = extent.first_page();
            self.write_and_wait(file, (first, first + pages - 1))
                .await?;
        }
        Ok(touch)
    }

    /// Writes one page of a request.
    async fn write_page(
        self: &Rc<Self>,
        file: u32,
        span: &Span,
        data: &[u8],
    ) -> Result<Touch, IoError> {
        let key = PageKey::new(file, span.page);
        let (held, mut new) = self.page_to_write(key).await?;
        let (frames, frame, was_there) = (&self.shared.frames, held.frame, new.is_none());
        let lock = loop {
            let lock = match new.take() {
                Some(lock) => lock,
                None => self.lock_page(frame, key).await?,
            };
            self.wait_page(frame, WRITEBACK, key).await?;
            if span.whole || frames.is(frame, UPTODATE) {
                break lock;
            }
            self.read_locked(lock, key).await?;
        };
        self.shared.kernel_path.page_write(&self.cpu);
        self.cpu
            .work(Op::CopyPage, || frames.copy_in(frame, span, data));
        if !frames.is(frame, UPTODATE) {
            frames.set(&self.cpu, frame, UPTODATE);
        }
        self.mark_dirty(frame, key);
        drop(lock);
        self.mark_accessed(frame);
        let is_first = frames.touch_first(frame);
        Ok(match was_there {
            true => Touch::found(is_first),
            false => Touch::no_hits(1),
        })
    }

    /// The frame of a page that is to be written, with its lock if it is new.
    async fn page_to_write(
        self: &Rc<Self>,
        key: PageKey,
    ) -> Result<(Held<'_>, Option<PageLock<'_>>), IoError> {
        loop {
            if let Some(held) = self.find(key) {
                return Ok((held, None));
            }
            let frame = self.allocate(key).await?;
            if let Inserted::New(held, lock) = self.insert(frame, key) {
                return Ok((held, Some(lock)));
            }
        }
    }
}
