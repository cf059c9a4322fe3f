//! Reading and writing files of the cache.

use wharf_files::Errno;
use wharf_runtime::rw_gate::Entry;
use wharf_wire::dma::PAGE_BYTES;

use super::backing::as_file_error;
use super::mode::CacheMode;
use super::opened::OpenFile;
use super::thread::Cached;
use crate::design::{Touch, WritePolicy};
use crate::files::{FileError, Transfer};
use crate::key::PAGES_MAX;
use crate::span::{Extent, Span, spans};
use crate::stor::client::fits;

/// Bytes of a page.
pub(super) const PAGE: u64 = PAGE_BYTES as u64;

/// A write that begins so far behind the end goes to the drive, which knows how long files may be.
const GAP_MAX: u64 = 1 << 30;

/// Where a write begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    Offset(u64),
    End,
}

impl Cached {
    /// Counts a request of pages.
    fn note(&self, touch: Touch) -> Touch {
        let counters = self.local.counters();
        counters.touches.add(touch.pages);
        counters.hits.add(touch.hits);
        counters.read_ahead_hits.add(touch.read_ahead_hits);
        touch
    }

    /// Reads what is in the cache, without a task, a command or a lock; nothing if something is not.
    #[inline]
    pub(super) fn read_at_once(
        &self,
        file: &OpenFile,
        extent: Extent,
        out: &mut [u8],
    ) -> Option<Transfer> {
        if !file.can_read || extent.bytes != out.len() as u64 {
            return None;
        }
        if file.stream.is_due(extent.first_page()) {
            return None;
        }
        let left = self.node(file.slot).bytes().saturating_sub(extent.offset);
        let bytes = extent.bytes.min(left);
        let mut touch = Touch::default();
        for span in spans(Extent::new(extent.offset, bytes), PAGE_BYTES) {
            touch += self.local.read_now(file.slot, &span, out)?;
        }
        self.local.counters().reads.add(1);
        self.note_use(file.slot, extent);
        let touch = self.note(touch);
        Some(Transfer { bytes, touch })
    }

    /// Reads.
    pub(super) async fn read(
        &self,
        file: &OpenFile,
        extent: Extent,
        out: &mut [u8],
    ) -> Result<Transfer, FileError> {
        fits(extent, out.len())?;
        if !file.can_read {
            return Err(Errno::EBADF.into());
        }
        if let Some(read) = self.read_at_once(file, extent, out) {
            return Ok(read);
        }
        self.read_as(file, extent, out, false).await
    }

    /// The same of one who has the drive use what lies beside it: nothing is brought ahead.
    pub(super) async fn read_apart(
        &self,
        file: &OpenFile,
        extent: Extent,
        out: &mut [u8],
    ) -> Result<Transfer, FileError> {
        self.read_as(file, extent, out, true).await
    }

    /// An extent that is read, with the pages that may be read ahead of it: those of a range that nobody has used yet are not old.
    fn with_ahead(&self, there: Extent) -> Extent {
        let pages = match self.process.mode {
            // Who brings them ahead notes that.
            CacheMode::Near => 0,
            _ => 2 * self.process.window_pages,
        };
        Extent::new(there.offset, there.bytes + pages * PAGE)
    }

    async fn read_as(
        &self,
        file: &OpenFile,
        extent: Extent,
        out: &mut [u8],
        is_apart: bool,
    ) -> Result<Transfer, FileError> {
        self.enter(file.slot, Entry::Shared).await;
        let left = self.node(file.slot).bytes().saturating_sub(extent.offset);
        let bytes = extent.bytes.min(left);
        let there = Extent::new(extent.offset, bytes);
        self.note_use(file.slot, self.with_ahead(there));
        let out = &mut out[..bytes as usize];
        let read = match self.process.mode {
            CacheMode::Near if is_apart => self.read_near_as(file, there, out, false).await,
            CacheMode::Near => self.read_near(file, there, out).await,
            _ => {
                let read = self.local.read(file.slot, there, out).await;
                read.map_err(as_file_error)
            }
        };
        self.leave(file.slot, Entry::Shared);
        self.leave_if_low();
        self.local.counters().reads.add(1);
        let touch = self.note(read?);
        Ok(Transfer { bytes, touch })
    }

    /// Writes within a page that is in the cache; false if that cannot be done at once.
    #[inline]
    pub(super) fn write_at_once(&self, file: &OpenFile, extent: Extent, data: &[u8]) -> bool {
        let may = file.can_write && !file.appends && !file.goes_around;
        let keeps = matches!(self.process.mode, CacheMode::WriteBack | CacheMode::Near);
        if !may || !keeps || extent.bytes != data.len() as u64 {
            return false;
        }
        let Some(span) = Span::within_page(extent) else {
            return false;
        };
        let node = self.node(file.slot);
        let end = extent.offset.checked_add(extent.bytes);
        let is_within = || end.is_some_and(|end| end <= node.bytes());
        let entered = node
            .gate
            .try_enter(self.cpu(), Entry::Shared, |_| is_within().then_some(()));
        if entered.is_none() {
            return false;
        }
        let written = self.local.write_now(file.slot, &span, data);
        self.leave(file.slot, Entry::Shared);
        if let Some(touch) = written {
            self.local.counters().writes.add(1);
            self.note_use(file.slot, extent);
            self.note(touch);
        }
        written.is_some()
    }

    /// Writes all of `data`, or fails; gives where.
    pub(super) async fn write(
        &self,
        file: &OpenFile,
        at: At,
        data: &[u8],
    ) -> Result<(u64, Touch), FileError> {
        if !file.can_write {
            return Err(Errno::EBADF.into());
        }
        let at = if file.appends { At::End } else { at };
        let mut entry = match at {
            At::Offset(_) => Entry::Shared,
            At::End => Entry::Alone,
        };
        loop {
            self.enter(file.slot, entry).await;
            let written = self.write_inside(file, at, data, entry).await;
            self.leave(file.slot, entry);
            self.leave_if_low();
            match written? {
                Some((offset, touch)) => {
                    self.local.counters().writes.add(1);
                    return Ok((offset, self.note(touch)));
                }
                // It changes more than bytes.
                None => entry = Entry::Alone,
            }
        }
    }

    /// Writes, as one who has entered so; nothing if one has to be alone for it.
    async fn write_inside(
        &self,
        file: &OpenFile,
        at: At,
        data: &[u8],
        entry: Entry,
    ) -> Result<Option<(u64, Touch)>, FileError> {
        let node = self.node(file.slot);
        let offset = match at {
            At::Offset(offset) => offset,
            At::End => node.bytes(),
        };
        let extent = Extent::new(offset, data.len() as u64);
        if data.is_empty() {
            return Ok(Some((offset, Touch::default())));
        }
        let end = offset.checked_add(extent.bytes).ok_or(Errno::EFBIG)?;
        if end > self.client.file_bytes_max.min(PAGES_MAX * PAGE) {
            return Err(Errno::EFBIG.into());
        }
        self.note_use(file.slot, extent);
        let goes_around = file.goes_around
            || self.process.mode == CacheMode::WriteAround
            || offset > node.bytes().saturating_add(GAP_MAX);
        let is_longer = end > node.bytes();
        if entry == Entry::Shared && (goes_around || is_longer) {
            return Ok(None);
        }
        if self.process.mode.is_near() && !goes_around && !is_longer {
            let touch = self.write_near(file, extent, data).await?;
            return Ok(Some((offset, touch)));
        }
        self.leave_device(file, extent).await?;
        let switches = self.process.mode.is_near() && self.host_is_full();
        let touch = match goes_around || switches {
            true => self.write_around(file, extent, data).await?,
            false => self.write_cached(file, extent, data).await?,
        };
        Ok(Some((offset, touch)))
    }

    /// Writes into the cache, and with write-through to the drive.
    async fn write_cached(
        &self,
        file: &OpenFile,
        extent: Extent,
        data: &[u8],
    ) -> Result<Touch, FileError> {
        let policy = match self.process.mode {
            CacheMode::WriteThrough => WritePolicy::Through,
            _ => WritePolicy::Back,
        };
        let (node, end) = (self.node(file.slot), extent.offset + extent.bytes);
        let is_longer = end > node.bytes();
        if is_longer {
            node.set_extent(end);
        }
        let written = self.local.write(file.slot, extent, data, policy).await;
        match written {
            Ok(touch) => {
                if is_longer {
                    node.set_bytes(end);
                }
                Ok(touch)
            }
            Err(error) => {
                if is_longer {
                    self.take_back(file).await?;
                }
                Err(as_file_error(error))
            }
        }
    }

    /// Takes away what a write behind the end, which failed, has left there.
    async fn take_back(&self, file: &OpenFile) -> Result<(), FileError> {
        let node = self.node(file.slot);
        let bytes = node.bytes();
        node.set_extent(bytes);
        self.local.cut(file.slot, bytes.div_ceil(PAGE)).await;
        self.drop_tail(file.slot, bytes).await?;
        match node.on_drive() > bytes {
            true => self.client.truncate_open(file.handle, bytes).await,
            false => Ok(()),
        }
    }

    /// Writes to the drive; the cache forgets the pages.
    async fn write_around(
        &self,
        file: &OpenFile,
        extent: Extent,
        data: &[u8],
    ) -> Result<Touch, FileError> {
        self.drop_pages(file.slot, extent).await?;
        let (node, end) = (self.node(file.slot), extent.offset + extent.bytes);
        node.stretch_on_drive(end);
        self.client
            .write_all(file.handle, extent.offset, data)
            .await?;
        if end > node.bytes() {
            node.set_extent(end);
            node.set_bytes(end);
        }
        Ok(Touch::no_hits(extent.pages()))
    }
}
