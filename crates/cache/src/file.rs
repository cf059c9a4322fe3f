//! A file that is read and written through a page cache.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wharf_host::design::{Touch, WritePolicy};
use wharf_host::errseq::ErrSeqCursor;
use wharf_host::span::{Extent, spans};
use wharf_wire::dma::PAGE_BYTES;

use crate::Handle;
use crate::error::PageCacheError;
use crate::open_file::OpenFile;
use crate::opening::Access;
use crate::table::Closed;
#[cfg(feature = "tokio")]
use crate::thread::with_context_now;
use crate::thread::{ThreadContext, with_context};

mod guard;

pub use guard::PageGuard;

const PAGE: u64 = PAGE_BYTES as u64;

/// What a program is going to do with a part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// It reads it soon: what is missing is read now, as far as there is memory.
    WillNeed,
    /// It has done with it: clean pages go.
    DontNeed,
}

/// A handle of an open file. Any number of threads use it side by side.
///
/// Dropping the last handle of a file writes its dirty pages back, and tells of no errors: [`File::close`]
/// does. Only [`File::sync_all`] makes them durable.
///
/// It is also a [`Read`](std::io::Read), [`Write`](std::io::Write) and [`Seek`](std::io::Seek), by `&File` too, with a position
/// that it does not share with its clones.
pub struct File {
    open: Arc<OpenFile>,
    cache: Arc<Handle>,
    access: Access,
    /// Where the next read or write of a stream is.
    position: Mutex<u64>,
    /// Failed write-backs that this handle has reported.
    told: ErrSeqCursor,
    /// Taken back already.
    closed: bool,
}

impl File {
    pub(super) fn new(open: Arc<OpenFile>, cache: Arc<Handle>, access: Access) -> File {
        let told = ErrSeqCursor::new(cache.core.shared.failures_of(open.number));
        File {
            open,
            cache,
            access,
            position: Mutex::new(0),
            told,
            closed: false,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.open.name()
    }

    /// Whether the file was opened by somebody who wanted less than this handle does.
    pub(super) fn is_less_than_asked(&self) -> bool {
        self.open.target.info().read_only && self.access.write
    }

    /// Whether its length can be changed: that of a device cannot.
    pub(super) fn can_be_cut(&self) -> bool {
        self.open.can_grow()
    }

    /// The position of streams, for one call.
    pub(super) fn position(&self) -> MutexGuard<'_, u64> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether streams write to the end of the file.
    pub(super) fn appends(&self) -> bool {
        self.access.append
    }

    #[inline(always)]
    fn with_context<R>(
        &self,
        f: impl FnOnce(&Rc<ThreadContext>) -> R,
    ) -> Result<R, PageCacheError> {
        with_context(&self.cache.core, f)
    }

    /// The length in bytes, with what was written and not yet synced.
    pub fn len(&self) -> u64 {
        self.open.len()
    }

    /// True if the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What a read of `out` from byte `offset` on finds before the end of the file.
    #[inline(always)]
    fn asked(&self, out: &[u8], offset: u64) -> Result<Extent, PageCacheError> {
        self.check_read()?;
        let left = self.open.len().saturating_sub(offset);
        Ok(Extent::new(offset, left.min(out.len() as u64)))
    }

    /// Fills `out` with what the file holds from byte `offset` on; gives how many bytes there were, fewer
    /// only at the end of the file.
    ///
    /// # Errors
    /// An error of the storage; a file that is open to write only; too many threads.
    #[inline]
    pub fn read_at(&self, out: &mut [u8], offset: u64) -> Result<usize, PageCacheError> {
        let extent = self.asked(out, offset)?;
        let count = extent.bytes as usize;
        if count == 0 {
            return Ok(0);
        }
        let out = &mut out[..count];
        let done = self.with_context(|context| self.read_now(context, extent, out))?;
        match done < count {
            true => self.with_context(|context| self.read_slowly(context, extent, done, out))?,
            false => Ok(count),
        }
    }

    /// Copies what the cache holds from byte `offset` on, up to the first page that it does not hold; gives how
    /// many bytes that is. Never waits and never reads from the storage: for those who must not block, and
    /// leave the rest to somebody who may.
    ///
    /// # Errors
    /// A file that is open to write only; too many threads.
    #[inline]
    pub fn read_cached(&self, out: &mut [u8], offset: u64) -> Result<usize, PageCacheError> {
        let extent = self.asked(out, offset)?;
        let count = extent.bytes as usize;
        if count == 0 {
            return Ok(0);
        }
        self.with_context(|context| self.read_now(context, extent, &mut out[..count]))
    }

    /// As [`File::read_cached`], for threads of which there may be more than the cache has room for: one that gets no place finds
    /// nothing.
    #[cfg(feature = "tokio")]
    pub(super) fn read_without_wait(
        &self,
        out: &mut [u8],
        offset: u64,
    ) -> Result<usize, PageCacheError> {
        let extent = self.asked(out, offset)?;
        let count = extent.bytes as usize;
        if count == 0 {
            return Ok(0);
        }
        let read = |context: &Rc<ThreadContext>| self.read_now(context, extent, &mut out[..count]);
        Ok(with_context_now(&self.cache.core, read).unwrap_or(0))
    }

    /// Reads page by page without a lock, as far as the pages are there; gives how many bytes.
    #[inline]
    fn read_now(&self, context: &ThreadContext, extent: Extent, out: &mut [u8]) -> usize {
        context.counters().reads.add(1);
        for span in spans(extent, PAGE_BYTES) {
            let Some(touch) = context.local.read_now(self.open.number, &span, out) else {
                return span.payload;
            };
            context.note(touch);
        }
        out.len()
    }

    /// Reads what is left of a request of which `done` bytes are there; gives how many bytes there
    /// were in all.
    #[cold]
    fn read_slowly(
        &self,
        context: &ThreadContext,
        extent: Extent,
        done: usize,
        out: &mut [u8],
    ) -> Result<usize, PageCacheError> {
        let _gate = self.open.enter();
        // Before the gate somebody may have cut the file: pages behind its end are not brought in.
        let left = self.open.len().saturating_sub(extent.offset);
        let count = left.min(extent.bytes) as usize;
        if count <= done {
            return Ok(done);
        }
        let rest = Extent::new(extent.offset + done as u64, (count - done) as u64);
        let read = context
            .local
            .read(self.open.number, rest, &mut out[done..count]);
        let touch = context.serve(self.open.name(), read)?;
        context.note(touch);
        Ok(count)
    }

    /// Fills `out` whole.
    ///
    /// # Errors
    /// As [`File::read_at`]; [`PageCacheError::UnexpectedEof`] if the file ends before.
    pub fn read_exact_at(&self, out: &mut [u8], offset: u64) -> Result<(), PageCacheError> {
        match self.read_at(out, offset)? == out.len() {
            true => Ok(()),
            false => Err(self.ends_before(offset.saturating_add(out.len() as u64))),
        }
    }

    /// The error of a read up to byte `end`, which the file has not.
    #[cold]
    pub(super) fn ends_before(&self, end: u64) -> PageCacheError {
        PageCacheError::UnexpectedEof {
            name: self.open.name().into(),
            end,
            len: self.len(),
        }
    }

    /// As [`File::write_all_at`]; gives how many bytes `data` has.
    ///
    /// # Errors
    /// As [`File::write_all_at`].
    #[inline]
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<usize, PageCacheError> {
        self.write_all_at(data, offset)?;
        Ok(data.len())
    }

    /// Writes `data` from byte `offset` on; the file grows if need be, with zeros in between. Durable after
    /// the next [`File::sync_all`].
    ///
    /// Writes to one page follow one another, so that a reader of a page sees a write whole or not at all; one
    /// to several pages may be seen page by page.
    ///
    /// # Errors
    /// A file that is open to read only, or that cannot grow; an error of the storage, and then each page of
    /// the range is old or new.
    pub fn write_all_at(&self, data: &[u8], offset: u64) -> Result<(), PageCacheError> {
        if data.is_empty() {
            return Ok(());
        }
        let end = self.check_write(offset.saturating_add(data.len() as u64))?;
        let _gate = self.open.enter();
        self.open.stretch_extent(end);
        let written = self.with_context(|context| {
            context.counters().writes.add(1);
            let touch = self.write(context, Extent::new(offset, data.len() as u64), data)?;
            context.note(touch);
            Ok(())
        });
        match written.flatten() {
            Ok(()) => self.open.stretch_len(end),
            Err(error) => {
                self.open.note_failed_write();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes `data` behind the last byte, alone among those who append; gives where it ends.
    pub(super) fn append(&self, data: &[u8]) -> Result<u64, PageCacheError> {
        let _turn = self.open.turn_to_append();
        let offset = self.len();
        self.write_all_at(data, offset)?;
        Ok(offset + data.len() as u64)
    }

    fn write(
        &self,
        context: &ThreadContext,
        extent: Extent,
        data: &[u8],
    ) -> Result<Touch, PageCacheError> {
        let (local, number) = (&context.local, self.open.number);
        let write = local.write(number, extent, data, WritePolicy::Back);
        context.serve(self.open.name(), write)
    }

    /// Refuses to read what is open to write only.
    #[inline]
    fn check_read(&self) -> Result<(), PageCacheError> {
        match self.access.read {
            true => Ok(()),
            false => Err(PageCacheError::WriteOnly {
                name: self.open.name().into(),
            }),
        }
    }

    /// Refuses a change of the file up to byte `end` if it cannot be.
    fn check_write(&self, end: u64) -> Result<u64, PageCacheError> {
        let name = || self.open.name().to_string();
        if !self.access.write {
            return Err(PageCacheError::ReadOnly { name: name() });
        }
        let room = self.open.room();
        match end <= room {
            true => Ok(end),
            false => Err(PageCacheError::NoRoom {
                name: name(),
                end,
                room,
            }),
        }
    }

    /// Makes durable what was written before, by any thread, and the length.
    ///
    /// # Errors
    /// If a page could not be written, now or since this handle's last sync: each handle hears of a failed
    /// write-back once. The page stays dirty, and the next sync tries it again.
    pub fn sync_all(&self) -> Result<(), PageCacheError> {
        self.sync_pages((0, u64::MAX))
    }

    /// As [`File::sync_all`], of `bytes` bytes from byte `offset` on: what was written elsewhere may stay dirty.
    ///
    /// # Errors
    /// As [`File::sync_all`], also of pages elsewhere whose write-back has failed.
    pub fn sync_range(&self, offset: u64, bytes: u64) -> Result<(), PageCacheError> {
        match offset.saturating_add(bytes) {
            end if end > offset => self.sync_pages((offset / PAGE, (end - 1) / PAGE)),
            _ => Ok(()),
        }
    }

    fn sync_pages(&self, range: (u64, u64)) -> Result<(), PageCacheError> {
        self.with_context(|context| {
            context.counters().syncs.add(1);
            let flush = context.local.flush(self.open.number, range, &self.told);
            context.serve(self.open.name(), flush)
        })?
    }

    /// As [`File::sync_all`], but times of the file need not be durable: today the same.
    ///
    /// # Errors
    /// As [`File::sync_all`].
    pub fn sync_data(&self) -> Result<(), PageCacheError> {
        self.sync_all()
    }

    /// Cuts the file to `bytes` bytes, or makes it longer, with zeros. Durable after the next sync.
    ///
    /// # Errors
    /// As [`File::write_all_at`]. If the system does not cut the file, it has the length that it has in storage, and
    /// what was written behind `bytes` since the last sync may be lost.
    pub fn set_len(&self, bytes: u64) -> Result<(), PageCacheError> {
        self.check_write(bytes)?;
        let open = &self.open;
        if !open.can_grow() && bytes != open.len() {
            return Err(PageCacheError::NoRoom {
                name: open.name().into(),
                end: bytes,
                room: open.len(),
            });
        }
        let _alone = open.enter_alone();
        if bytes >= open.len() {
            open.stretch_extent(bytes);
            open.stretch_len(bytes);
            return Ok(());
        }
        self.with_context(|context| {
            // First what may fail: the rest of the last page, zeros for when the file grows again.
            let rest = bytes.next_multiple_of(PAGE) - bytes;
            if rest > 0 {
                let zeros = [0; PAGE_BYTES];
                self.write(context, Extent::new(bytes, rest), &zeros[..rest as usize])?;
            }
            open.cut_len(bytes);
            context.wait(context.local.cut(open.number, bytes.div_ceil(PAGE)));
            Ok(open.shrink(bytes)?)
        })?
    }

    /// Says what the program is going to do with `bytes` bytes from byte `offset` on.
    ///
    /// # Errors
    /// Too many threads.
    pub fn advise(&self, offset: u64, bytes: u64, advice: Advice) -> Result<(), PageCacheError> {
        let end = self.len().min(offset.saturating_add(bytes));
        if offset >= end {
            return Ok(());
        }
        let (first, last) = (offset / PAGE, (end - 1) / PAGE);
        let number = self.open.number;
        self.with_context(|context| match advice {
            Advice::DontNeed => {
                context.local.drop_clean(number, (first, last));
            }
            Advice::WillNeed => {
                let _gate = self.open.enter();
                context.wait(async { context.local.read_ahead(number, first, last - first + 1) });
            }
        })
    }

    /// Makes everything durable and ends the handle.
    ///
    /// # Errors
    /// As [`File::sync_all`]; the handle ends all the same, and with the last one of the file what could not be
    /// written is lost. With the last one, a guard of the file that was forgotten: its page stays
    /// in memory, and the file's place among `files_max` is lost.
    pub fn close(mut self) -> Result<(), PageCacheError> {
        let synced = match self.access.write {
            true => self.sync_all(),
            false => Ok(()),
        };
        let ended = self.end();
        synced.and(ended)
    }

    /// Gives the handle back. The last one writes what is dirty and empties the file's place.
    fn end(&mut self) -> Result<(), PageCacheError> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let (core, number) = (&self.cache.core, self.open.number);
        if !core.table.less(number) {
            return Ok(());
        }
        // Without a context nothing can be written: the file stays as it is for the next one who opens
        // it.
        let emptied = self.with_context(|context| self.empty(context));
        core.table.end_close(
            number,
            match emptied {
                Ok(Ok(())) => Closed::Emptied,
                Ok(Err(_)) => Closed::Kept,
                Err(_) => Closed::NotAtAll,
            },
        );
        // Its thread gives up what it had of the file.
        let _ = self.with_context(|context| context.local.call_service());
        emptied.flatten()
    }

    /// Writes what is dirty, and lets all pages go.
    fn empty(&self, context: &ThreadContext) -> Result<(), PageCacheError> {
        // Nobody reads ahead in it any more.
        let _alone = self.open.enter_alone();
        self.open.note_close();
        let number = self.open.number;
        context.serve(self.open.name(), async {
            // Who wants to know of errors calls `close`.
            let _ = context.local.write_and_wait(number, (0, u64::MAX)).await;
            let _ = self.open.settle();
            context.local.forget(number).await
        })
    }
}

/// Another handle of the same file. Errors of earlier write-backs that the first one has not reported yet are
/// reported by both.
impl Clone for File {
    fn clone(&self) -> File {
        self.cache.core.table.more(self.open.number);
        File {
            open: self.open.clone(),
            cache: self.cache.clone(),
            access: self.access,
            position: Mutex::new(*self.position()),
            told: self.told.clone(),
            closed: false,
        }
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File")
            .field("name", &self.name())
            .field("len", &self.len())
            .field("read", &self.access.read)
            .field("write", &self.access.write)
            .finish_non_exhaustive()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // Who wants to know of errors calls `close`.
        let _ = self.end();
    }
}
