//! Reads into and writes from [`Bytes`].

use bytes::{Buf, Bytes};

use crate::{File, PageCacheError};

impl File {
    /// Up to `count` bytes from byte `offset` on: fewer only at the end of the file.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub fn read_bytes_at(&self, count: usize, offset: u64) -> Result<Bytes, PageCacheError> {
        // No more memory than there are bytes to put into it.
        let left = self.len().saturating_sub(offset);
        let mut out = vec![0; left.min(count as u64) as usize];
        let there = self.read_at(&mut out, offset)?;
        out.truncate(there);
        Ok(out.into())
    }

    /// Writes all that `data` has from byte `offset` on, chunk by chunk.
    ///
    /// # Errors
    /// As [`File::write_all_at`]; `data` begins then with the chunk that was not written.
    pub fn write_buf_at(&self, data: &mut impl Buf, offset: u64) -> Result<(), PageCacheError> {
        let mut offset = offset;
        while data.has_remaining() {
            let count = data.chunk().len();
            self.write_all_at(data.chunk(), offset)?;
            data.advance(count);
            offset = offset.saturating_add(count as u64);
        }
        Ok(())
    }
}
