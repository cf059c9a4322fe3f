//! What file systems stand on: pages by number.
//!
//! A drive gives its flash so, a host the page cache above a device, tests a piece of memory. All
//! of them keep the same promises:
//!
//! * A page of [`PAGE_BYTES`] is never torn: after a power cut it is what it was, or what one of
//!   the writes since the last flush made of it.
//! * Writes that were not flushed may have happened or not, each page for itself, in any order
//!   across pages. [`Pages::flush`] makes all durable that were completed before it was called.
//! * Operations on the same page take effect in the order in which they were completed.
//! * A discarded page holds anything until it is written again: what it was, or zeros.
//!
//! Pages of metadata go through memory ([`Pages::read`], [`Pages::write`]). Bytes of files go where
//! whoever asks wants them ([`Out`], [`In`]), which may be out of reach for all but a drive: for
//! those there are five more methods. As they stand here, they serve memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::errno::Fault;
use crate::payload::{In, Out};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// The bytes of one page.
pub type PageBytes = [u8; PAGE_BYTES];

/// Pages that lie side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// The first of them.
    pub first: u64,
    /// How many.
    pub pages: u64,
}

impl Run {
    /// `pages` pages from `first` on.
    pub fn new(first: u64, pages: u64) -> Run {
        Run { first, pages }
    }

    /// One page.
    pub fn one(page: u64) -> Run {
        Run::new(page, 1)
    }

    /// The page behind the last.
    pub fn end(self) -> u64 {
        self.first.saturating_add(self.pages)
    }

    /// Whether a page is among them.
    pub fn has(self, page: u64) -> bool {
        (self.first..self.end()).contains(&page)
    }

    /// Its pages, in order.
    pub fn iter(self) -> impl Iterator<Item = u64> {
        self.first..self.end()
    }

    /// The number of pages of several runs.
    pub fn total(runs: &[Run]) -> u64 {
        runs.iter().map(|run| run.pages).sum()
    }
}

/// Pages by number. See the module for what they promise.
#[allow(async_fn_in_trait)] // the futures stay on their CPU: no Send is wanted
pub trait Pages {
    /// How many there are.
    fn pages(&self) -> u64;

    /// Reads the pages of all runs, in order, into `buffer`, which is as long as they are.
    ///
    /// # Errors
    /// [`Fault::Read`]: of the first page that cannot be read, or is not there.
    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault>;

    /// Writes the pages of all runs, in order, from `bytes`, which is as long as they are.
    ///
    /// # Errors
    /// [`Fault::Write`]: of the first page that cannot be written, or is not there. Any of the
    /// others may have been written.
    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault>;

    /// Reads the pages of all runs as if they were side by side, from byte `skip` of the first on,
    /// as far as `out` goes.
    ///
    /// # Errors
    /// As [`Pages::read`]; [`Fault::Payload`]. Any of the bytes may have been read.
    async fn read_bytes(&self, runs: &[Run], skip: u64, out: Out<'_>) -> Result<(), Fault> {
        read_into(self, runs, skip, out.memory()?).await
    }

    /// Writes the pages of all runs, in order, from `data`, which is as long as they are.
    ///
    /// # Errors
    /// As [`Pages::write`]; [`Fault::Payload`].
    async fn write_bytes(&self, runs: &[Run], data: In<'_>) -> Result<(), Fault> {
        self.write(runs, data.memory()?).await
    }

    /// Fills with zeros.
    ///
    /// # Errors
    /// [`Fault::Payload`].
    async fn zero(&self, out: Out<'_>) -> Result<(), Fault> {
        out.memory()?.fill(0);
        Ok(())
    }

    /// Gives bytes that are in memory to whoever wants them.
    ///
    /// # Errors
    /// [`Fault::Payload`].
    async fn give(&self, bytes: &[u8], out: Out<'_>) -> Result<(), Fault> {
        out.memory()?.copy_from_slice(bytes);
        Ok(())
    }

    /// Brings bytes that are to be written into memory: those of pages that keep some of what they
    /// have.
    ///
    /// # Errors
    /// [`Fault::Payload`].
    async fn fetch(&self, data: In<'_>, into: &mut [u8]) -> Result<(), Fault> {
        into.copy_from_slice(data.memory()?);
        Ok(())
    }

    /// Makes durable what was written before.
    ///
    /// # Errors
    /// [`Fault::Flush`]: any of it may be durable, and no later flush makes up for it.
    async fn flush(&self) -> Result<(), Fault>;

    /// Says that what the pages hold is not wanted any more.
    ///
    /// # Errors
    /// [`Fault::Write`]: of the first page that is not there.
    async fn discard(&self, runs: &[Run]) -> Result<(), Fault>;
}

impl<P: Pages> Pages for &P {
    fn pages(&self) -> u64 {
        (**self).pages()
    }

    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        (**self).read(runs, buffer).await
    }

    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        (**self).write(runs, bytes).await
    }

    async fn read_bytes(&self, runs: &[Run], skip: u64, out: Out<'_>) -> Result<(), Fault> {
        (**self).read_bytes(runs, skip, out).await
    }

    async fn write_bytes(&self, runs: &[Run], data: In<'_>) -> Result<(), Fault> {
        (**self).write_bytes(runs, data).await
    }

    async fn zero(&self, out: Out<'_>) -> Result<(), Fault> {
        (**self).zero(out).await
    }

    async fn give(&self, bytes: &[u8], out: Out<'_>) -> Result<(), Fault> {
        (**self).give(bytes, out).await
    }

    async fn fetch(&self, data: In<'_>, into: &mut [u8]) -> Result<(), Fault> {
        (**self).fetch(data, into).await
    }

    async fn flush(&self) -> Result<(), Fault> {
        (**self).flush().await
    }

    async fn discard(&self, runs: &[Run]) -> Result<(), Fault> {
        (**self).discard(runs).await
    }
}

/// Bytes of runs into memory: whole pages at once, parts of the first and the last by a page of
/// their own.
async fn read_into<P: Pages + ?Sized>(
    pages: &P,
    runs: &[Run],
    skip: u64,
    out: &mut [u8],
) -> Result<(), Fault> {
    const PAGE: u64 = PAGE_BYTES as u64;
    let mut rest = out;
    let mut start = 0;
    for run in runs {
        let (from, end) = (skip.max(start), start + run.pages * PAGE);
        let bytes = end.saturating_sub(from).min(rest.len() as u64);
        let (mut part, behind) = rest.split_at_mut(bytes as usize);
        rest = behind;
        let mut at = from.saturating_sub(start);
        while !part.is_empty() {
            let first = run.first + at / PAGE;
            let within = (at % PAGE) as usize;
            let now = match part.len() / PAGE_BYTES {
                whole @ 1.. if within == 0 => {
                    let now = whole * PAGE_BYTES;
                    let run = Run::new(first, whole as u64);
                    pages.read(&[run], &mut part[..now]).await?;
                    now
                }
                _ => {
                    let mut page: PageBytes = [0; PAGE_BYTES];
                    pages.read(&[Run::one(first)], &mut page).await?;
                    let now = part.len().min(PAGE_BYTES - within);
                    part[..now].copy_from_slice(&page[within..within + now]);
                    now
                }
            };
            part = &mut part[now..];
            at += now as u64;
        }
        start = end;
    }
    assert!(rest.is_empty(), "there are as many bytes as are wanted");
    Ok(())
}

/// The first page of `runs` that a medium of `pages` pages does not have. `bytes` is the length of
/// the buffer that goes with them.
///
/// # Panics
/// If the buffer is not as long as the runs: a mistake of the caller.
pub fn first_outside(runs: &[Run], bytes: usize, pages: u64) -> Option<u64> {
    let total = Run::total(runs) * PAGE_BYTES as u64;
    assert_eq!(total, bytes as u64, "a buffer is as long as its runs");
    let outside = runs.iter().find(|run| run.end() > pages);
    outside.map(|run| run.first.max(pages))
}

/// Pages in memory, which cost some only once they are written. A clone has pages of its own, and
/// costs little until these are written. For tests and tools.
#[derive(Debug)]
pub struct RamPages {
    pages: u64,
    held: Mutex<FxHashMap<u64, Arc<PageBytes>>>,
}

impl RamPages {
    /// Pages of zeros.
    pub fn new(pages: u64) -> RamPages {
        RamPages {
            pages,
            held: Mutex::new(FxHashMap::default()),
        }
    }

    fn held(&self) -> MutexGuard<'_, FxHashMap<u64, Arc<PageBytes>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a page holds.
    pub fn peek(&self, page: u64) -> PageBytes {
        self.held()
            .get(&page)
            .map_or([0; PAGE_BYTES], |bytes| **bytes)
    }

    /// Puts bytes into a page, behind the back of whoever uses it.
    pub fn poke(&self, page: u64, bytes: &PageBytes) {
        self.put(page, Arc::new(*bytes));
    }

    /// The same, of bytes that others may have too.
    pub(crate) fn put(&self, page: u64, bytes: Arc<PageBytes>) {
        self.held().insert(page, bytes);
    }

    /// Which pages were written, and where their bytes are: equal only of clones that hold the same
    /// as long as all of them are there.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn identity(&self) -> Vec<(u64, usize)> {
        let held = self.held();
        let at = |(page, bytes): (&u64, &Arc<PageBytes>)| (*page, Arc::as_ptr(bytes) as usize);
        let mut identity: Vec<_> = held.iter().map(at).collect();
        identity.sort_unstable();
        identity
    }

    /// Reads as [`Pages::read`] does.
    pub(crate) fn look(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        if let Some(page) = first_outside(runs, buffer.len(), self.pages) {
            return Err(Fault::Read { page });
        }
        let held = self.held();
        let pages = runs.iter().flat_map(|run| run.iter());
        for (page, out) in pages.zip(buffer.as_chunks_mut::<PAGE_BYTES>().0) {
            match held.get(&page) {
                Some(bytes) => out.copy_from_slice(&bytes[..]),
                None => out.fill(0),
            }
        }
        Ok(())
    }

    /// Takes a page away: it is zeros again.
    pub fn clear(&self, page: u64) {
        self.held().remove(&page);
    }
}

impl Clone for RamPages {
    fn clone(&self) -> RamPages {
        RamPages {
            pages: self.pages,
            held: Mutex::new(self.held().clone()),
        }
    }
}

impl Pages for RamPages {
    fn pages(&self) -> u64 {
        self.pages
    }

    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        self.look(runs, buffer)
    }

    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        if let Some(page) = first_outside(runs, bytes.len(), self.pages) {
            return Err(Fault::Write { page });
        }
        let mut held = self.held();
        let pages = runs.iter().flat_map(|run| run.iter());
        for (page, bytes) in pages.zip(bytes.as_chunks::<PAGE_BYTES>().0) {
            let page = held.entry(page);
            let held = page.or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            Arc::make_mut(held).copy_from_slice(bytes);
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), Fault> {
        Ok(())
    }

    async fn discard(&self, runs: &[Run]) -> Result<(), Fault> {
        if let Some(run) = runs.iter().find(|run| run.end() > self.pages) {
            return Err(Fault::Write {
                page: run.first.max(self.pages),
            });
        }
        let mut held = self.held();
        for page in runs.iter().flat_map(|run| run.iter()) {
            held.remove(&page);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// The result of a future that never waits.
    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn pages_hold_what_was_written_until_they_are_discarded() {
        let pages = RamPages::new(10);
        let runs = [Run::new(7, 2), Run::one(1)];
        let mut bytes = vec![1; 3 * PAGE_BYTES];
        bytes[2 * PAGE_BYTES..].fill(3);
        now(pages.write(&runs, &bytes)).unwrap();
        let mut read = vec![9; 2 * PAGE_BYTES];
        now(pages.read(&[Run::one(1), Run::one(8)], &mut read)).unwrap();
        assert_eq!((read[0], read[PAGE_BYTES]), (3, 1));
        now(pages.discard(&[Run::one(8)])).unwrap();
        assert_eq!(pages.peek(8), [0; PAGE_BYTES]);
        assert_eq!(pages.clone().peek(7), [1; PAGE_BYTES]);
    }

    #[test]
    fn bytes_are_read_from_anywhere_in_runs() {
        let pages = RamPages::new(10);
        let runs = [Run::new(7, 2), Run::one(1), Run::new(3, 2)];
        let bytes: Vec<u8> = (0..5 * PAGE_BYTES).map(|at| (at / 7) as u8).collect();
        now(pages.write_bytes(&runs, In::from(&bytes))).unwrap();
        let edges = [0, 1, 4095, 4096, 4097, 8192, 12_000, 16_384, 20_479, 20_480];
        for (nth, from) in edges.iter().enumerate() {
            for to in &edges[nth..] {
                let mut out = vec![0xee; to - from];
                now(pages.read_bytes(&runs, *from as u64, Out::from(&mut out))).unwrap();
                assert_eq!(out, bytes[*from..*to], "{from}..{to}");
            }
        }
        let mut three = [1; 3];
        now(pages.fetch(In::from(&[4, 5, 6]), &mut three)).unwrap();
        assert_eq!(three, [4, 5, 6]);
        now(pages.zero(Out::from(&mut three))).unwrap();
        assert_eq!(three, [0; 3]);
    }

    #[test]
    fn pages_that_are_not_there_are_errors() {
        let pages = RamPages::new(10);
        let mut buffer = vec![0; 2 * PAGE_BYTES];
        let (read, runs) = (Fault::Read { page: 10 }, [Run::new(9, 2)]);
        assert_eq!(now(pages.read(&runs, &mut buffer)), Err(read));
        let write = Fault::Write { page: 10 };
        assert_eq!(now(pages.write(&runs, &buffer)), Err(write));
        assert_eq!(now(pages.discard(&runs)), Err(write));
        let far = [Run::new(u64::MAX, 2)];
        assert!(now(pages.discard(&far)).is_err());
    }
}
