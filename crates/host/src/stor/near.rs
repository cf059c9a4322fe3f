//! Operations on open files by way of the cache in the drive's memory.

use wharf_files::{Errno, Handle};
use wharf_runtime::Op;
use wharf_wire::command::Command;
use wharf_wire::file::{Evict, NearResult};
use wharf_wire::window::{FilePage, Window};

use super::StorClient;
use super::convert::file_handle;
use super::pages::PAGE;
use super::placement::About;
use super::send::Buffer;
use crate::files::FileError;
use crate::span::{Extent, Span, spans};
use crate::volume::NAMESPACE;

/// Most bytes that are loaded or stored: more go faster by the drive's engines, at which no CPU waits (`lab/tests/stor/window.rs`: at 4 KiB a
/// command takes 1.6 times as long as loads, and loads of 64 KiB take 1.2 times as long as it).
const LOAD_BYTES_MAX: u64 = 8 << 10;

/// A read of so many bytes keeps a core for long.
pub(super) const LONG_BYTES: usize = 64 << 10;

impl StorClient {
    /// Reads by way of the cache in the drive's memory, from byte `offset` on, as far as the file goes. That cache keeps the pages, as
    /// far as it has room, if `keeps`.
    ///
    /// # Errors
    /// As [`StorClient::read`].
    pub async fn read_near(
        &self,
        handle: Handle,
        offset: u64,
        out: &mut [u8],
        keeps: bool,
    ) -> Result<NearResult, FileError> {
        let (mut done, mut sum) = (0, NearResult::default());
        loop {
            let rest = &mut out[done..];
            let bytes = rest.len().min(self.inner.bytes_max);
            let at = offset.saturating_add(done as u64);
            let mut buffer = self.inner.buffer(bytes).await;
            let found = self.ask_near(&mut buffer, handle, (at, bytes), keeps);
            let found = found.await?;
            let count = found.bytes as usize;
            buffer.get(&mut rest[..count]);
            done += count;
            sum = sum.and(found);
            if count < bytes || done == out.len() {
                return Ok(sum);
            }
        }
    }

    /// Reads into a buffer by one command, of no more than the buffer has room for.
    async fn ask_near(
        &self,
        buffer: &mut Buffer<'_>,
        handle: Handle,
        (offset, bytes): (u64, usize),
        keeps: bool,
    ) -> Result<NearResult, FileError> {
        let read = Command::read_near(NAMESPACE, file_handle(handle), offset, bytes as u32);
        let read = match keeps {
            true => self.shown(read.keeping(0)),
            false => read,
        };
        let about = match bytes >= LONG_BYTES {
            true => About::Long,
            false => About::Read(self.number(handle)),
        };
        let found = NearResult::from_raw(buffer.send(about, read).await?);
        match found.bytes as usize > bytes {
            true => Err(Errno::EIO.into()),
            false => Ok(found),
        }
    }

    /// Writes to the cache in the drive's memory; what lies behind the end of the file, or finds no room there, to the file. All, or
    /// it fails.
    ///
    /// # Errors
    /// As [`StorClient::write`].
    pub async fn write_near(
        &self,
        handle: Handle,
        offset: u64,
        data: &[u8],
    ) -> Result<NearResult, FileError> {
        let (mut done, mut sum) = (0, NearResult::default());
        while done < data.len() {
            let rest = &data[done..];
            let bytes = rest.len().min(self.inner.bytes_max);
            let at = offset.saturating_add(done as u64);
            let write = Command::write_near(NAMESPACE, file_handle(handle), at, bytes as u32);
            let write = self.shown(write);
            let written = self.write_some(handle, write, &rest[..bytes]).await?;
            let written = NearResult::from_raw(written);
            if written.bytes == 0 || written.bytes as usize > bytes {
                return Err(Errno::EIO.into());
            }
            done += written.bytes as usize;
            sum = sum.and(written);
        }
        Ok(sum)
    }

    /// Loads bytes of a file from the drive's cache, if all of them are there to be loaded.
    pub(super) fn load_near(&self, handle: Handle, part: Extent, out: &mut [u8]) -> bool {
        self.by_window(handle, part, |window, name, span| {
            let (at, out) = (span.in_page().start, &mut out[span.in_payload()]);
            window.load(&self.inner.cpu, name, at, out)
        })
    }

    /// Stores bytes of a file to the drive's cache, if all of its pages are there to be stored to. Else some may have been.
    pub(super) fn store_near(&self, handle: Handle, part: Extent, data: &[u8]) -> bool {
        self.by_window(handle, part, |window, name, span| {
            let (at, data) = (span.in_page().start, &data[span.in_payload()]);
            window.store(&self.inner.cpu, name, at, data)
        })
    }

    /// Moves each span of what is better loaded and stored, until one is not there.
    fn by_window(
        &self,
        handle: Handle,
        part: Extent,
        mut move_span: impl FnMut(&Window, FilePage, &Span) -> bool,
    ) -> bool {
        let window = self.inner.window.as_deref();
        let Some(window) = window.filter(|_| part.bytes <= LOAD_BYTES_MAX) else {
            return false;
        };
        let number = self.number(handle);
        spans(part, PAGE).all(|span| {
            let page = span.page;
            let moved = || move_span(window, FilePage { number, page }, &span);
            self.inner.cpu.work(Op::ConcurrentLookup, moved)
        })
    }

    /// Has the drive show the pages of a command, if there is a window to see them.
    fn shown(&self, command: Command) -> Command {
        match self.inner.window {
            Some(_) => command.showing(),
            None => command,
        }
    }

    /// Has pages of `bytes` bytes from byte `offset` on leave the cache in the drive's memory; gives how many did.
    ///
    /// # Errors
    /// If what was changed there cannot be written to the file.
    pub async fn evict_near(
        &self,
        handle: Handle,
        how: Evict,
        offset: u64,
        bytes: u64,
    ) -> Result<u64, FileError> {
        let evict = Command::evict_near(NAMESPACE, file_handle(handle), how, offset, bytes);
        self.inner.send(self.about_open(handle), evict).await
    }

    /// Has the drive bring `pages` pages of a file to its cache, from page `first` on; no byte crosses the link.
    ///
    /// # Errors
    /// As [`StorClient::read`].
    pub(super) async fn prefetch_near(
        &self,
        handle: Handle,
        first: u64,
        pages: u16,
    ) -> Result<NearResult, FileError> {
        let at = first * PAGE as u64;
        let read = Command::read_near(NAMESPACE, file_handle(handle), at, 0).keeping(pages);
        let found = self.inner.send(self.about_open(handle), read).await?;
        Ok(NearResult::from_raw(found))
    }

    /// The same as [`StorClient::read_near`], but that whole pages cross the link.
    ///
    /// # Errors
    /// As [`StorClient::read`].
    pub(super) async fn read_near_pages(
        &self,
        handle: Handle,
        part: Extent,
        out: &mut [u8],
        keeps: bool,
    ) -> Result<NearResult, FileError> {
        let (mut done, mut sum) = (0, NearResult::default());
        while done < part.bytes {
            let rest = Extent::new(part.offset + done, part.bytes - done);
            let first = rest.first_page();
            let pages = rest.pages().min((self.inner.bytes_max / PAGE) as u64);
            let (at, bytes) = (first * PAGE as u64, pages as usize * PAGE);
            let mut buffer = self.inner.buffer(bytes).await;
            let found = self.ask_near(&mut buffer, handle, (at, bytes), keeps);
            let found = found.await?;
            let end = at + u64::from(found.bytes);
            let wanted = rest.bytes.min(end.saturating_sub(rest.offset));
            let out = &mut out[done as usize..];
            for span in spans(Extent::new(rest.offset, wanted), PAGE) {
                let (nth, found) = ((span.page - first) as usize, span.in_page());
                let out = &mut out[span.in_payload()];
                let copy = |page: &[u8]| out.copy_from_slice(&page[found.clone()]);
                buffer.look(nth, found.end, copy);
            }
            done += wanted;
            sum = sum.and(NearResult {
                bytes: wanted as u32,
                ..found
            });
            if found.bytes as usize != bytes {
                break;
            }
        }
        Ok(sum)
    }

    /// The same as [`StorClient::write_near`], but that whole pages cross the link, as far as a file of `end` bytes goes: of what is written
    /// in part, the rest is read before. For one who has the pages alone.
    ///
    /// # Errors
    /// As [`StorClient::write`].
    pub(super) async fn write_near_pages(
        &self,
        handle: Handle,
        part: Extent,
        data: &[u8],
        end: u64,
    ) -> Result<NearResult, FileError> {
        let mut sum = NearResult::default();
        for span in spans(part, PAGE) {
            let data = &data[span.in_payload()];
            let at = span.page * PAGE as u64;
            let bytes = end.saturating_sub(at).min(PAGE as u64) as usize;
            let written = match data.len() < bytes {
                true => self.replace_near(handle, &span, data, bytes).await?,
                false => self.write_near(handle, at, data).await?,
            };
            sum = sum.and(NearResult {
                bytes: data.len() as u32,
                ..written
            });
        }
        Ok(sum)
    }

    /// Reads the `bytes` bytes that a page of a file has, changes some of them, and writes them.
    async fn replace_near(
        &self,
        handle: Handle,
        span: &Span,
        data: &[u8],
        bytes: usize,
    ) -> Result<NearResult, FileError> {
        let at = span.page * PAGE as u64;
        let mut buffer = self.inner.buffer(PAGE).await;
        let found = self.ask_near(&mut buffer, handle, (at, bytes), true);
        let found = found.await?;
        buffer.change(0, |page| {
            // The drive's file may end before: nobody has written there.
            page[found.bytes as usize..].fill(0);
            page[span.in_page()].copy_from_slice(data);
        });
        let write = Command::write_near(NAMESPACE, file_handle(handle), at, bytes as u32);
        let written = buffer.send(self.about_open(handle), write).await?;
        let written = NearResult::from_raw(written);
        match written.bytes as usize == bytes {
            true => Ok(NearResult {
                hits: found.hits,
                ..written
            }),
            false => Err(Errno::EIO.into()),
        }
    }
}
