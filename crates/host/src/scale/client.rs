//! Reading and writing, page by page.

use crate::design::{Touch, WritePolicy};
use crate::error::IoError;
use crate::errseq::ErrSeqCursor;
use crate::key::PageKey;
use crate::kit::backing::Backing;
use crate::kit::index::Index;
use crate::kit::pages::{Held, Pages};
use crate::kit::readahead::Plan;
use crate::kit::reading::touch_of;
use crate::kit::run::Run;
use crate::scale::frame::{Copied, FAILED, FILLED, READAHEAD, TAKEN, WRITEBACK, takes_guards};
use crate::scale::local::Local;
use crate::scale::pages::CpuPages;
use crate::span::{Extent, Span, spans};
use crate::volume::Transfer;

/// A pin of a page's frame.
type Pinned<'a, I, B> = Held<'a, CpuPages<I, B>>;

impl<I: Index, B: Backing> Local<I, B> {
    /// Reads what lies within a file, into a payload that fits.
    ///
    /// # Errors
    /// An error of the drive.
    #[inline]
    pub async fn read(&self, file: u32, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        let page_bytes = self.frames().page_bytes();
        let (pages, end) = (extent.pages(), extent.first_page() + extent.pages());
        let (mut missed, mut read_ahead) = (0, 0);
        for span in spans(extent, page_bytes) {
            let is_first = match self.try_read(file, &span, out) {
                Some(is_first) => is_first,
                None => {
                    let (missing, is_first) = self.read_slowly(file, &span, end, out).await?;
                    missed += missing;
                    is_first
                }
            };
            read_ahead += u64::from(is_first);
        }
        Ok(touch_of(pages, missed, read_ahead))
    }

    /// Reads a page that is there; nothing if it is not. This changes nothing but the mark of a
    /// use, and that only if it is not set. True for the first use of a page that was read ahead.
    #[inline]
    fn try_read(&self, file: u32, span: &Span, out: &mut [u8]) -> Option<bool> {
        let (cpu, shared, key) = (self.cpu(), self.shared(), PageKey::new(file, span.page));
        let index = shared.index_of(file);
        loop {
            let frame = index.get(cpu, span.page)?;
            match shared.frames.copy_out(cpu, frame, key, span, out) {
                Copied::Done(state) => return Some(self.note_read(key, frame, state)),
                Copied::Unfilled => return None,
                // The index will say so in a moment.
                Copied::Moved => wharf_runtime::sync::spin(),
            }
        }
    }

    /// Reads a span, if its page is there and nothing is to be read ahead: an ordinary function.
    /// Nothing if not, and then [`Local::read`] is the way.
    #[inline]
    pub fn read_now(&self, file: u32, span: &Span, out: &mut [u8]) -> Option<Touch> {
        let (frames, key) = (self.frames(), PageKey::new(file, span.page));
        let frame = self.find(key)?;
        match frames.copy_out(self.cpu(), frame, key, span, out) {
            Copied::Done(state) if state & (READAHEAD | TAKEN) == 0 => {
                let is_first = self.pages.note_use(frame, state);
                self.reading.ahead(file, |ahead| ahead.note(span.page));
                Some(Touch::found(is_first))
            }
            _ => {
                self.hints.forget(key);
                None
            }
        }
    }

    /// Writes a span, if its page is there, the drive is not reading it, and no threshold is to be looked at: an ordinary
    /// function. Nothing if not, and then [`Local::write`] is the way.
    #[inline]
    pub fn write_now(&self, file: u32, span: &Span, data: &[u8]) -> Option<Touch> {
        let dirtied = self.dirtied.get() + 1;
        if dirtied >= self.shared().limits.dirty_step {
            return None;
        }
        let (frames, key) = (self.frames(), PageKey::new(file, span.page));
        let frame = self.find(key)?;
        if !frames.try_pin(self.cpu(), frame, key) {
            self.hints.forget(key);
            return None;
        }
        let pinned = Held::of(&*self.pages, frame);
        if !frames.is(frame, FILLED) {
            return None;
        }
        let is_first = self.try_write(&pinned, key, span, data)?;
        self.dirtied.set(dirtied);
        Some(Touch::found(is_first))
    }

    /// Pins a page that is there; [`Local::unpin`] takes the pin off.
    #[inline]
    pub fn pin_now(&self, file: u32, page: u64) -> Option<u32> {
        let (frames, key) = (self.frames(), PageKey::new(file, page));
        let frame = self.find(key)?;
        // Pinning is an atomic operation, and later loads wait for it: unless they are on their
        // way.
        wharf_runtime::prefetch(frames.pointer(frame));
        // A frame that is taken cannot be pinned.
        if frames.try_pin(self.cpu(), frame, key) {
            let pinned = Held::of(&*self.pages, frame);
            let state = frames.state(frame);
            if state & FILLED != 0 && takes_guards(state) {
                self.pages.note_use(frame, state);
                return Some(pinned.keep());
            }
        }
        self.hints.forget(key);
        None
    }

    /// The frame that has a page, or had it a while ago: by the thread's memory or the index.
    #[inline(always)]
    fn find(&self, key: PageKey) -> Option<u32> {
        if let Some(frame) = self.hints.find(key) {
            return Some(frame);
        }
        let frame = self.pages.look_up(key)?;
        self.hints.note(key, frame);
        Some(frame)
    }

    /// Pins a page, which is read if it is missing; [`Local::unpin`] takes the pin off.
    ///
    /// # Errors
    /// An error of the drive; more pins than can be counted.
    pub async fn pin_page(&self, file: u32, page: u64) -> Result<u32, IoError> {
        let (_, pinned) = self.bring(PageKey::new(file, page), page + 1).await?;
        let (frames, frame) = (self.frames(), pinned.frame);
        let state = frames.state(frame);
        if !takes_guards(state) {
            return Err(IoError::Guards { page });
        }
        self.pages.note_use(frame, state);
        Ok(pinned.keep())
    }

    /// Reads a span of a page that the caller has pinned; false if the frame does not hold it.
    #[inline]
    pub fn read_pinned(&self, file: u32, frame: u32, span: &Span, out: &mut [u8]) -> bool {
        let (frames, key) = (self.frames(), PageKey::new(file, span.page));
        matches!(
            frames.copy_out(self.cpu(), frame, key, span, out),
            Copied::Done(_)
        )
    }

    /// Takes off a pin of [`Local::pin_now`] or [`Local::pin_page`].
    #[inline]
    pub fn unpin(&self, frame: u32) {
        self.frames().unpin(self.cpu(), frame);
    }

    /// Has pages of a file read that are not there, as far as there is memory.
    pub fn read_ahead(&self, file: u32, first: u64, pages: u64) {
        let plan = Plan {
            first,
            pages,
            mark: None,
        };
        self.read_later(file, [plan]);
    }

    /// A page has been read whose frame's state was `state`. True for its first use, if it was read
    /// ahead.
    #[inline]
    fn note_read(&self, key: PageKey, frame: u32, state: u32) -> bool {
        let is_first = self.pages.note_use(frame, state);
        self.reading
            .ahead(key.file(), |ahead| ahead.note(key.page()));
        if state & READAHEAD != 0 {
            self.advance(key, frame);
        }
        is_first
    }

    /// The marked page of a window has been read: reads the next one ahead.
    #[cold]
    fn advance(&self, key: PageKey, frame: u32) {
        let frames = self.frames();
        if frames.change(self.cpu(), frame, 0, READAHEAD) & READAHEAD != 0 {
            let (file, page) = (key.file(), key.page());
            if let Some(places) = self.stride(file, |stride| stride.marked(page)) {
                self.read_later(file, places.plans());
            } else if self.follows_another(key) {
                let plan = self.reading.ahead(file, |ahead| ahead.marked(page));
                self.read_later(file, [plan]);
            }
        }
    }

    /// False for a page whose predecessor is not there. A mark on it is of a stride, of another CPU
    /// or of one that is forgotten: nobody reads in order here.
    fn follows_another(&self, key: PageKey) -> bool {
        let index = self.shared().index_of(key.file());
        let before = key.page().checked_sub(1);
        before.is_none_or(|page| index.get(self.cpu(), page).is_some())
    }

    /// Reads a page that was not there, in a request that goes to page `end`. Gives the pages of
    /// the request that were missing, and whether this one was on its way, read ahead, and not used
    /// before.
    #[cold]
    async fn read_slowly(
        &self,
        file: u32,
        span: &Span,
        end: u64,
        out: &mut [u8],
    ) -> Result<(u64, bool), IoError> {
        let (missed, _pinned) = self.bring(PageKey::new(file, span.page), end).await?;
        let read = self.try_read(file, span, out);
        Ok((missed, read.expect("a pinned page stays")))
    }

    /// Pins a page, which is read if it is missing, in a request that goes to page `end`. Gives the
    /// pages of the request that were missing.
    ///
    /// # Errors
    /// An error of the drive.
    async fn bring(&self, key: PageKey, end: u64) -> Result<(u64, Pinned<'_, I, B>), IoError> {
        let mut missed = 0;
        let pinned = loop {
            if let Some(pinned) = self.pages.find(key) {
                break pinned;
            }
            if let Some(pinned) = self.begin_page(key).await? {
                missed = self.read_around(&pinned, key, end);
                break pinned;
            }
        };
        self.wait_filled(&pinned, key).await?;
        Ok((missed, pinned))
    }

    /// Gives a page that is missing a frame, which the caller fills; nothing if another task was
    /// faster.
    async fn begin_page(&self, key: PageKey) -> Result<Option<Pinned<'_, I, B>>, IoError> {
        let frame = self.memory.allocate(key).await?;
        let begun = self.pages.insert(frame, key, 0);
        Ok(begun.then(|| Held::of(&*self.pages, frame)))
    }

    /// Waits until the page of a pinned frame is there; reads it, if somebody has tried in vain.
    ///
    /// # Errors
    /// The read's; if the drive holds the page and does not answer.
    async fn wait_filled(&self, pinned: &Pinned<'_, I, B>, key: PageKey) -> Result<(), IoError> {
        let (pages, frame) = (&*self.pages, pinned.frame);
        let is_coming = |state| state & (FILLED | FAILED) == 0;
        while !pages.is(frame, FILLED) {
            if pages.is(frame, FAILED) {
                // Whoever clears the flag is the one who reads.
                if pages.change(frame, 0, FAILED) & FAILED != 0 {
                    return self.fill(pinned, key).await;
                }
            }
            pages.wait_while(frame, key, is_coming).await?;
        }
        Ok(())
    }

    /// Reads one page, which nobody else does, into its frame, and waits for it.
    ///
    /// # Errors
    /// The read's.
    async fn fill(&self, pinned: &Pinned<'_, I, B>, key: PageKey) -> Result<(), IoError> {
        self.frames().pin_again(self.cpu(), pinned.frame);
        let mut run = Run::default();
        run.push(key.page(), pinned.frame);
        let outcome = self.transfers.submit(Transfer::Read, key.file(), &mut run);
        self.transfers.wait_for(&[outcome]).await
    }

    /// Begins to read a page that was missing, in a request that goes to page `end`, with what is
    /// to be read ahead. Gives how many pages of the request were missing.
    fn read_around(&self, pinned: &Pinned<'_, I, B>, key: PageKey, end: u64) -> u64 {
        let (missed, plan) = self.reading.around(pinned.frame, key, end);
        if plan.mark.is_none()
            && self.shared().window_pages > 0
            && let Some(places) =
                self.stride(key.file(), |stride| stride.miss(key.page(), plan.pages))
        {
            self.read_later(key.file(), places.plans());
        }
        missed
    }

    /// Writes within a file, out of a payload that fits; with write-through, waits until the drive
    /// has the data.
    ///
    /// # Errors
    /// An error of the drive.
    pub async fn write(
        &self,
        file: u32,
        extent: Extent,
        data: &[u8],
        policy: WritePolicy,
    ) -> Result<Touch, IoError> {
        let page_bytes = self.frames().page_bytes();
        let (pages, mut touch) = (extent.pages(), Touch::default());
        for span in spans(extent, page_bytes) {
            touch += self.write_page(file, &span, data).await?;
            self.balance_dirty().await;
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
        let (pinned, was_there) = loop {
            if let Some(pinned) = self.pages.find(key) {
                self.wait_filled(&pinned, key).await?;
                break (pinned, true);
            }
            if let Some(pinned) = self.begin_page(key).await? {
                if !span.whole {
                    self.fill(&pinned, key).await?;
                }
                break (pinned, false);
            }
        };
        self.shared().common.kernel_path.page_write(self.cpu());
        let is_first = loop {
            match self.try_write(&pinned, key, span, data) {
                Some(is_first) => break is_first,
                None => self.pages.wait_written(pinned.frame, key).await?,
            }
        };
        match was_there {
            true => Ok(Touch::found(is_first)),
            false => Ok(Touch::no_hits(1)),
        }
    }

    /// Copies into a page, unless the drive is reading it. True for its first use, if it was read
    /// ahead.
    fn try_write(
        &self,
        pinned: &Pinned<'_, I, B>,
        key: PageKey,
        span: &Span,
        data: &[u8],
    ) -> Option<bool> {
        let (cpu, frames, frame) = (self.cpu(), self.frames(), pinned.frame);
        frames.lock(cpu, frame);
        let state = frames.state(frame);
        let may = state & WRITEBACK == 0;
        if may {
            frames.copy_in(cpu, frame, span, data);
            self.pages.mark_dirty(frame, key);
        }
        frames.unlock(frame);
        may.then(|| self.pages.note_use(frame, state))
    }

    /// The task has dirtied a page: sometimes looks at the thresholds.
    #[inline]
    async fn balance_dirty(&self) {
        let dirtied = self.dirtied.get() + 1;
        self.dirtied.set(dirtied);
        if dirtied >= self.shared().limits.dirty_step {
            self.dirtied.set(0);
            self.write_back.balance().await;
        }
    }

    /// Writes the dirty pages `first..=last` of a file, and waits for all of the range that is in
    /// write-back.
    ///
    /// # Errors
    /// The first error of a transfer; a page that the drive holds and does not answer for.
    pub async fn write_and_wait(&self, file: u32, range: (u64, u64)) -> Result<(), IoError> {
        self.write_back.write_and_wait(file, range).await
    }

    /// Makes durable what was written before to the pages `first..=last` of a file, for one who has
    /// been told of earlier failures.
    ///
    /// # Errors
    /// The first error of a transfer; else [`IoError::WriteBack`] if write-backs of the file have
    /// failed since.
    pub async fn flush(
        &self,
        file: u32,
        range: (u64, u64),
        told: &ErrSeqCursor,
    ) -> Result<(), IoError> {
        let flush = async {
            self.write_and_wait(file, range).await?;
            self.pages.backing.flush(self.cpu(), file).await
        };
        told.report(|| self.shared().failures_of(file), flush).await
    }
}
