//! What byte-addressable file systems stand on: persistent memory, in lines of [`LINE_BYTES`].
//!
//! Persistent memory is loaded from and stored to like any other, and behind caches that a power
//! cut empties. All implementations keep the same promises:
//!
//! * A *word* of 8 bytes at a multiple of 8 is never torn: after a power cut it is what one of the
//!   stores made of it, or what it was before them.
//! * What was stored is durable when its lines were persisted behind it ([`Lines::persist`]), and a
//!   fence ([`Lines::fence`]) was completed behind that.
//! * Until then it may be there after a power cut or not, each line for itself: a line is what it
//!   was after any of the words that were stored in it since it was durable. The words of one store
//!   are stored in any order, and stores to one line in theirs.
//! * What was stored is what is loaded, at once.
//!
//! Bytes of files go where whoever asks wants them ([`Out`], [`In`]), which may be out of reach for
//! all but a drive: for those there are five more methods. As they stand here, they serve memory;
//! who can reach a host says how bytes get there and back ([`Lines::give`], [`Lines::fetch`]).

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::errno::Fault;
use crate::pages::PAGE_BYTES;
use crate::payload::{In, Out};
use crate::stamped::StampedPages;

/// Bytes of a line: what is made durable at once.
pub const LINE_BYTES: u64 = 64;

/// Bytes of a word: what is never torn.
pub const WORD_BYTES: u64 = 8;

const PAGE: u64 = PAGE_BYTES as u64;

/// Persistent memory. See the module for what it promises.
#[allow(async_fn_in_trait)] // the futures stay on their CPU: no Send is wanted
pub trait Lines {
    /// How many bytes there are: a multiple of a page.
    fn bytes(&self) -> u64;

    /// Loads bytes from address `at` on.
    ///
    /// # Errors
    /// [`Fault::Read`]: of the first page that cannot be read, or is not there.
    async fn load(&self, at: u64, out: &mut [u8]) -> Result<(), Fault>;

    /// Stores bytes from address `at` on.
    ///
    /// # Errors
    /// [`Fault::Write`]: of the first page that cannot be written, or is not there. Any of the
    /// bytes may have been stored.
    async fn store(&self, at: u64, bytes: &[u8]) -> Result<(), Fault>;

    /// Begins to make durable all lines that have one of these bytes, as they are now.
    ///
    /// # Errors
    /// [`Fault::Write`].
    async fn persist(&self, at: u64, bytes: u64) -> Result<(), Fault>;

    /// Waits until all is durable that was persisted before.
    ///
    /// # Errors
    /// [`Fault::Flush`]: any of it may be durable, and no later fence makes up for it.
    async fn fence(&self) -> Result<(), Fault>;

    /// As [`Lines::load`], to where the bytes are wanted.
    ///
    /// # Errors
    /// As there; [`Fault::Payload`].
    async fn load_to(&self, at: u64, out: Out<'_>) -> Result<(), Fault> {
        let mut out = match out {
            Out::Bytes(bytes) => return self.load(at, bytes).await,
            Out::Host(host) => Out::Host(host),
        };
        let mut memory = vec![0; PAGE_BYTES];
        for (page, from, bytes) in by_page(at, out.len() as usize) {
            let (part, address) = (&mut memory[..bytes], page * PAGE + from as u64);
            self.load(address, part).await?;
            let done = address - at;
            self.give(part, out.slice(done..done + bytes as u64))
                .await?;
        }
        Ok(())
    }

    /// As [`Lines::store`], from where the bytes are.
    ///
    /// # Errors
    /// As there; [`Fault::Payload`].
    async fn store_from(&self, at: u64, data: In<'_>) -> Result<(), Fault> {
        if let In::Bytes(bytes) = data {
            return self.store(at, bytes).await;
        }
        let mut memory = vec![0; PAGE_BYTES];
        for (page, from, bytes) in by_page(at, data.len() as usize) {
            let (part, address) = (&mut memory[..bytes], page * PAGE + from as u64);
            let done = address - at;
            self.fetch(data.slice(done..done + bytes as u64), part)
                .await?;
            self.store(address, part).await?;
        }
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

    /// Fills with zeros.
    ///
    /// # Errors
    /// [`Fault::Payload`].
    async fn zero(&self, out: Out<'_>) -> Result<(), Fault> {
        out.memory()?.fill(0);
        Ok(())
    }

    /// Brings bytes that are to be stored into memory.
    ///
    /// # Errors
    /// [`Fault::Payload`].
    async fn fetch(&self, data: In<'_>, into: &mut [u8]) -> Result<(), Fault> {
        into.copy_from_slice(data.memory()?);
        Ok(())
    }
}

impl<L: Lines> Lines for &L {
    fn bytes(&self) -> u64 {
        (**self).bytes()
    }

    async fn load(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        (**self).load(at, out).await
    }

    async fn store(&self, at: u64, bytes: &[u8]) -> Result<(), Fault> {
        (**self).store(at, bytes).await
    }

    async fn persist(&self, at: u64, bytes: u64) -> Result<(), Fault> {
        (**self).persist(at, bytes).await
    }

    async fn fence(&self) -> Result<(), Fault> {
        (**self).fence().await
    }

    async fn load_to(&self, at: u64, out: Out<'_>) -> Result<(), Fault> {
        (**self).load_to(at, out).await
    }

    async fn store_from(&self, at: u64, data: In<'_>) -> Result<(), Fault> {
        (**self).store_from(at, data).await
    }

    async fn give(&self, bytes: &[u8], out: Out<'_>) -> Result<(), Fault> {
        (**self).give(bytes, out).await
    }

    async fn zero(&self, out: Out<'_>) -> Result<(), Fault> {
        (**self).zero(out).await
    }

    async fn fetch(&self, data: In<'_>, into: &mut [u8]) -> Result<(), Fault> {
        (**self).fetch(data, into).await
    }
}

/// The first page that is not there, of `length` bytes from `at` on, in a memory of `bytes`.
pub fn first_outside(at: u64, length: u64, bytes: u64) -> Option<u64> {
    match at.checked_add(length) {
        Some(end) if end <= bytes => None,
        _ => Some(at.max(bytes) / PAGE),
    }
}

/// What of a range lies in each page: the page, the first byte in it, and how many.
pub fn by_page(at: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let (mut at, end) = (at, at + length as u64);
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (page, from) = (at / PAGE, (at % PAGE) as usize);
        let bytes = (PAGE_BYTES - from).min((end - at) as usize);
        at += bytes as u64;
        Some((page, from, bytes))
    })
}

/// Persistent memory in memory, which costs some only once it is written, and little of what checked workloads
/// write ([`StampedPages`]). A clone has its own, and costs little until that is written.
#[derive(Debug)]
pub struct RamLines {
    bytes: u64,
    held: Mutex<StampedPages>,
}

impl RamLines {
    /// So many pages of zeros.
    pub fn new(pages: u64) -> RamLines {
        RamLines {
            bytes: pages * PAGE,
            held: Mutex::default(),
        }
    }

    fn held(&self) -> MutexGuard<'_, StampedPages> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores bytes, behind the back of whoever uses it.
    ///
    /// # Errors
    /// [`Fault::Write`].
    pub fn poke(&self, at: u64, bytes: &[u8]) -> Result<(), Fault> {
        if let Some(page) = first_outside(at, bytes.len() as u64, self.bytes) {
            return Err(Fault::Write { page });
        }
        let mut held = self.held();
        let mut rest = bytes;
        for (page, from, length) in by_page(at, bytes.len()) {
            let (part, behind) = rest.split_at(length);
            held.write(page, from, part);
            rest = behind;
        }
        Ok(())
    }

    /// Bytes of this machine's memory that it takes now.
    pub fn memory_bytes(&self) -> u64 {
        self.held().memory_bytes()
    }

    /// Which pages hold something, and CRC-64s of that.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn identity(&self) -> Vec<(u64, usize)> {
        self.held().identity()
    }

    /// Loads bytes, now.
    ///
    /// # Errors
    /// [`Fault::Read`].
    pub fn peek(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        if let Some(page) = first_outside(at, out.len() as u64, self.bytes) {
            return Err(Fault::Read { page });
        }
        let held = self.held();
        let mut rest = out;
        for (page, from, length) in by_page(at, rest.len()) {
            let (part, behind) = rest.split_at_mut(length);
            held.read(page, from, part);
            rest = behind;
        }
        Ok(())
    }
}

impl Clone for RamLines {
    fn clone(&self) -> RamLines {
        RamLines {
            bytes: self.bytes,
            held: Mutex::new(self.held().clone()),
        }
    }
}

impl Lines for RamLines {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    async fn load(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.peek(at, out)
    }

    async fn store(&self, at: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.poke(at, bytes)
    }

    async fn persist(&self, at: u64, bytes: u64) -> Result<(), Fault> {
        match first_outside(at, bytes, self.bytes) {
            Some(page) => Err(Fault::Write { page }),
            None => Ok(()),
        }
    }

    async fn fence(&self) -> Result<(), Fault> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_on;

    #[test]
    fn memory_holds_what_was_stored_also_across_pages() {
        let lines = RamLines::new(3);
        let bytes: Vec<u8> = (0..5000).map(|nth| nth as u8).collect();
        block_on(lines.store(4000, &bytes)).unwrap();
        let copy = lines.clone();
        block_on(lines.store(4000, &[9])).unwrap();
        let mut out = vec![7; 5002];
        block_on(copy.load(3999, &mut out)).unwrap();
        assert_eq!((out[0], out[5001]), (0, 0));
        assert_eq!(out[1..5001], bytes[..]);
    }

    #[test]
    fn bytes_that_are_not_there_are_errors() {
        let lines = RamLines::new(2);
        let mut out = [0; 100];
        let read = |page| Err(Fault::Read { page });
        assert_eq!(block_on(lines.load(2 * PAGE - 99, &mut out)), read(2));
        assert_eq!(
            block_on(lines.load(u64::MAX - 9, &mut out)),
            read(u64::MAX / PAGE)
        );
        assert!(block_on(lines.store(2 * PAGE, &[1])).is_err());
        assert!(block_on(lines.persist(2 * PAGE, 1)).is_err());
    }
}
