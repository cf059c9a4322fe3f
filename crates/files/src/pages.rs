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

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::errno::Fault;

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

    async fn flush(&self) -> Result<(), Fault> {
        (**self).flush().await
    }

    async fn discard(&self, runs: &[Run]) -> Result<(), Fault> {
        (**self).discard(runs).await
    }
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
        self.held().insert(page, Arc::new(*bytes));
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
