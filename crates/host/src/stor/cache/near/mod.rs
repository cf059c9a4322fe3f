//! Reading and writing files where the drive has a cache too (OmniCache, FAST 2024, section 4.2.2): a page is in one of both.
//!
//! 1. What makes a file longer stays here, and so does a page that is here until it is pushed out.
//! 2. Of all else `place.rs` says which cache it goes to. By way of the drive's cache bytes cross the link, and not pages.
//! 3. Who uses a page by way of the drive's cache locks it as shared, and so it stays where it is; who brings it here locks it alone. A page
//!    that comes here leaves the drive's cache in the same command (*read near* with `TAKE`).
//! 4. If the drive's cache has no room, a range of a file that was not used for long leaves it, in the background (`evict.rs`).
//!
//! What each of this is good for is seen by leaving it out (`Without` in `mode.rs`).
//!
//! | file | idea |
//! |---|---|
//! | `index.rs` | which pages the drive's cache has, and the locks of pages: OmniIndex |
//! | `place.rs` | which way a page goes |
//! | `read.rs`, `write.rs` | the ways |
//! | `stream.rs` | who goes through a file in order |
//! | `prefetch.rs` | pages that the drive brings to its cache ahead of that one |
//! | `evict.rs` | what leaves, and when |

mod evict;
mod index;
mod place;
mod prefetch;
mod read;
mod stream;
mod write;

use std::ops::Range;

use wharf_files::Handle;
use wharf_runtime::range_lock::{Locker, RangeGuard};
use wharf_wire::file::{Evict, NearResult};

use super::ages::Part;
use super::mode::Without;
use super::opened::OpenFile;
use super::thread::Cached;
use crate::design::Touch;
use crate::files::FileError;
use crate::kit::index::Index;
use crate::span::Extent;

pub(super) use index::OmniIndex;
pub(super) use stream::Stream;

/// Bytes of a page.
const PAGE: u64 = wharf_wire::dma::PAGE_BYTES as u64;

impl Cached {
    /// Locks pages of a file: as shared for who uses them where they are, else alone.
    pub(super) async fn lock_pages(
        &self,
        slot: u32,
        pages: &Range<u64>,
        is_shared: bool,
    ) -> RangeGuard {
        let locker = self.locker(is_shared);
        let part = (slot, pages.clone());
        self.process.omni.lock(self.cpu(), locker, part).await
    }

    fn locker(&self, is_shared: bool) -> Locker {
        Locker {
            client: self.thread,
            id: self.next_lock(),
            is_shared,
        }
    }

    /// Whether a page is here, or on its way.
    pub(super) fn is_here(&self, slot: u32, page: u64) -> bool {
        let index = self.process.shared.index_of(slot);
        index.get(self.cpu(), page).is_some()
    }

    /// Pages that are locked alone have come here: the drive has them no longer.
    fn note_here(&self, part: &Part) {
        if self.process.without != Without::Exclusion {
            self.process.omni.clear(self.cpu(), part);
        }
    }

    pub(super) fn is_on_device(&self, slot: u32, page: u64) -> bool {
        self.process.omni.is_on_device(self.cpu(), slot, page)
    }

    /// Pages of an open file that both caches have: none, whatever happens. Asks the drive for each page that is here.
    pub(super) async fn pages_in_both(&self, file: &OpenFile) -> Result<u64, FileError> {
        let index = self.process.shared.index_of(file.slot);
        let (mut page, mut both) = (0, 0);
        while let Some((here, _)) = index.next(self.cpu(), page) {
            let mut byte = [0];
            let read = self
                .client
                .read_near(file.handle, here * PAGE, &mut byte, false);
            both += u64::from(read.await?.hits);
            page = here + 1;
        }
        Ok(both)
    }

    /// The same by loads and stores.
    async fn note_window(
        &self,
        file: &OpenFile,
        pages: &Range<u64>,
        part: Extent,
    ) -> Result<Touch, FileError> {
        let count = (pages.end - pages.start) as u32;
        let found = NearResult {
            bytes: part.bytes as u32,
            hits: count,
            kept: count,
            is_full: false,
        };
        self.local.counters().window_hits.add(count.into());
        self.note_near(file, pages, found).await
    }

    /// A part of a file, which is locked, was used by way of the drive's cache; gives what came of it.
    async fn note_near(
        &self,
        file: &OpenFile,
        pages: &Range<u64>,
        found: NearResult,
    ) -> Result<Touch, FileError> {
        let omni = &self.process.omni;
        if found.kept > 0 && !omni.note(self.cpu(), &(file.slot, pages.clone())) {
            // The next one may find room.
            self.evict_later((file.slot, pages.start));
            self.leave_unknown(file.handle, pages).await?;
        }
        self.local.counters().near_hits.add(found.hits.into());
        if found.is_full {
            self.evict_later((file.slot, pages.start));
        }
        // Hits are those of the host's own memory.
        Ok(Touch::no_hits(pages.end - pages.start))
    }

    /// Pages that the drive has, for which there was no room to note that, leave its cache.
    pub(in crate::stor::cache) async fn leave_unknown(
        &self,
        handle: Handle,
        pages: &Range<u64>,
    ) -> Result<(), FileError> {
        let (offset, bytes) = (pages.start * PAGE, (pages.end - pages.start) * PAGE);
        let evict = self
            .client
            .evict_near(handle, Evict::WriteBack, offset, bytes);
        // Those of them that are noted stay so: others who use them may have had them come again.
        evict.await.map(drop)
    }
}

/// The part of an extent that lies in its first `pages` pages.
fn head(extent: Extent, pages: u64) -> Extent {
    let end = (extent.first_page() + pages) * PAGE;
    let bytes = extent.bytes.min(end - extent.offset);
    Extent::new(extent.offset, bytes)
}
