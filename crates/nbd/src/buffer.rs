//! Memory for the data of requests: aligned to a page, as direct I/O wants it, and used again.

use std::ops::{Deref, DerefMut};

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// Bytes of a page.
const PAGE_BYTES: usize = 4096;
/// Most bytes that a thread keeps for later.
const KEPT_BYTES_MAX: usize = 16 << 20;

#[derive(Clone, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

/// Owned bytes that begin at a page. What they hold at first is whatever they held before.
pub struct Buffer {
    pages: Vec<Page>,
    len: usize,
}

impl Buffer {
    fn new(len: usize) -> Buffer {
        let pages = Page::new_vec_zeroed(len.div_ceil(PAGE_BYTES).next_power_of_two());
        Buffer {
            // A request is at most 32 MiB: a system without that much is out of memory.
            pages: pages.expect("memory for a request"),
            len,
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.pages.as_bytes()[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.pages.as_mut_slice().as_mut_bytes()[..self.len]
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer of {} bytes", self.len)
    }
}

/// Buffers that wait for their next use, by size.
#[derive(Default)]
pub struct BufferPool {
    /// By the power of two of their pages.
    free: Vec<Vec<Buffer>>,
    kept_bytes: usize,
}

impl BufferPool {
    /// A buffer of `len` bytes.
    pub fn take(&mut self, len: usize) -> Buffer {
        let pages = len.div_ceil(PAGE_BYTES).next_power_of_two();
        let class = pages.ilog2() as usize;
        match self.free.get_mut(class).and_then(Vec::pop) {
            Some(mut buffer) => {
                self.kept_bytes -= pages * PAGE_BYTES;
                buffer.len = len;
                buffer
            }
            None => Buffer::new(len),
        }
    }

    /// Gives a buffer back.
    pub fn give(&mut self, buffer: Buffer) {
        let bytes = buffer.pages.len() * PAGE_BYTES;
        if self.kept_bytes + bytes > KEPT_BYTES_MAX {
            return;
        }
        let class = buffer.pages.len().ilog2() as usize;
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        self.kept_bytes += bytes;
        self.free[class].push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_have_their_length_and_come_back() {
        let mut pool = BufferPool::default();
        for len in [0, 1, 4096, 4097, 128 << 10, 1 << 20] {
            let mut buffer = pool.take(len);
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr().addr() % PAGE_BYTES, 0);
            buffer.fill(7);
            let at = buffer.as_ptr();
            pool.give(buffer);
            let again = pool.take(len);
            assert_eq!((again.as_ptr(), again.len()), (at, len));
            pool.give(again);
        }
        pool.give(Buffer::new(KEPT_BYTES_MAX));
        assert!(pool.kept_bytes < KEPT_BYTES_MAX, "it was not kept");
    }
}
