//! What one CPU uses of a design.

use super::gauges::Gauges;
use super::statistics::Statistics;
use super::touch::Touch;
use crate::error::IoError;
use crate::span::Extent;
use crate::volume::Volume;

/// What one CPU uses of a design. Requests of several tasks may be in flight.
///
/// An extent lies within the volume. A payload has exactly as many bytes as the extent; where pages
/// are stamps, 8 for each touched page.
#[allow(async_fn_in_trait)] // the futures stay on their CPU: no Send is wanted
pub trait Client: 'static {
    /// Reads.
    ///
    /// # Errors
    /// A wrong extent or payload; an error of the drive. The payload is undefined then.
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError>;

    /// Writes. Durable after the next flush.
    ///
    /// # Errors
    /// As for a read; each page of the extent then holds its old or its new content.
    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError>;

    /// Reads, if what is asked for lies within a page that the client can use at once: an ordinary
    /// function, without a task or a command. False if it does not, and then nothing was done;
    /// [`Client::read`] is the way.
    #[inline]
    fn read_now(&self, _extent: Extent, _out: &mut [u8]) -> bool {
        false
    }

    /// As [`Client::read_now`], for a write.
    #[inline]
    fn write_now(&self, _extent: Extent, _data: &[u8]) -> bool {
        false
    }

    /// Makes durable every write, of any client, that was acknowledged before.
    ///
    /// # Errors
    /// If a page could not be written, now or since this client's last flush.
    async fn flush(&self) -> Result<(), IoError>;

    /// Makes durable every write within `extent`, of any client, that was acknowledged before: `fsync` where
    /// the extent is a file. Designs that do not know which writes these are flush all.
    ///
    /// # Errors
    /// As for [`Client::flush`]; an extent beyond the volume.
    async fn flush_extent(&self, _extent: Extent) -> Result<(), IoError> {
        self.flush().await
    }

    /// The pages that `extent` covers whole are forgotten, as when a file is deleted or cut: until they are
    /// written again they hold anything. A cache may drop them, also if they are dirty, without writing them.
    ///
    /// # Errors
    /// An extent beyond the volume; a page that the drive holds and does not answer for.
    async fn discard(&self, _extent: Extent) -> Result<(), IoError> {
        Ok(())
    }

    /// Gives back what the client holds of the drives. It has no request in flight, and gets none
    /// after that.
    ///
    /// # Errors
    /// If the drives do not take it back.
    async fn release(&self) -> Result<(), IoError> {
        Ok(())
    }

    /// Brings near what a request for `extent`, which comes soon, is going to look at. A hint, for those
    /// who know the future: nothing changes but how long the processor waits for memory.
    #[inline]
    fn prefetch(&self, _extent: Extent, _approach: Approach) {}

    /// What this client did so far.
    fn statistics(&self) -> Statistics;

    /// What it reports so far beyond that. Reports show the sum over all clients; what is of all of
    /// them is in the first one's.
    fn gauges(&self) -> Gauges {
        Gauges::none()
    }
}

/// How soon a request comes that [`Client::prefetch`] tells of. A cache finds a page by several looks
/// into memory, each at a place that the one before has named: so a request is told of at every
/// approach in turn, a few requests apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approach {
    /// Nothing of it was brought near yet.
    Far,
    /// It is one of the next, and what was asked for at first has arrived.
    Near,
}

/// Refuses a request that does not fit the volume or its payload.
///
/// # Errors
/// If it does not.
#[inline]
pub fn check_request(
    volume: &Volume,
    page_bytes: usize,
    extent: Extent,
    payload_bytes: usize,
) -> Result<(), IoError> {
    if extent.offset.checked_add(extent.bytes).is_none() {
        return Err(IoError::OutOfRange {
            first: extent.first_page(),
            pages: extent.bytes / 4096,
            volume_pages: volume.pages(),
        });
    }
    volume.check(extent.first_page(), extent.pages())?;
    let expected = extent.payload_bytes(page_bytes);
    if expected != payload_bytes {
        return Err(IoError::Payload {
            expected,
            found: payload_bytes,
        });
    }
    Ok(())
}
