//! Reading and writing files where the drive has a cache too (OmniCache, FAST 2024, section 4.2.2): a page is in one of both.
//!
//! 1. What makes a file longer stays here, and so does a page that is here as long as it is not pushed out.
//! 2. All else that is read or written goes by way of the drive's cache: bytes cross the link, and not pages.
//! 3. Pages come into this cache only by one who is alone in the file. So a page that is not here stays so for all who are in the
//!    file together: none of them writes to one cache what another finds in the other.
//! 4. If the drive's cache has no room, the range of a file that was used least lately leaves it, in the background.

use std::sync::Arc;

use wharf_runtime::rw_gate::Entry;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::file::{Evict, NearResult};

use super::backing::as_file_error;
use super::node::DriveHandle;
use super::opened::OpenFile;
use super::thread::Cached;
use crate::design::{Touch, WritePolicy};
use crate::files::FileError;
use crate::kit::index::Index;
use crate::span::{Extent, Span, spans};
use crate::stor::StorClient;

impl Cached {
    /// Reads what lies within a file, for one who is inside with others.
    pub(super) async fn read_near(
        &self,
        file: &OpenFile,
        extent: Extent,
        out: &mut [u8],
    ) -> Result<Touch, FileError> {
        let (mut touch, mut missing) = (Touch::default(), Extent::new(extent.offset, 0));
        for span in spans(extent, PAGE_BYTES) {
            let from = extent.offset + span.payload as u64;
            if let Some(found) = self.read_here(file.slot, &span, out) {
                touch += found;
                self.read_missing(file, (extent, missing), out, &mut touch)
                    .await?;
                missing = Extent::new(from + u64::from(span.len), 0);
                continue;
            }
            missing.bytes = from + u64::from(span.len) - missing.offset;
        }
        self.read_missing(file, (extent, missing), out, &mut touch)
            .await?;
        Ok(touch)
    }

    /// Reads a page that is here; nothing if it is not.
    fn read_here(&self, slot: u32, span: &Span, out: &mut [u8]) -> Option<Touch> {
        let found = self.local.read_now(slot, span, out);
        // What the thread remembers of where the page is may be old, and is forgotten then: the index says it.
        found.or_else(|| self.local.read_now(slot, span, out))
    }

    /// Reads a part of an extent that is not here.
    async fn read_missing(
        &self,
        file: &OpenFile,
        (extent, part): (Extent, Extent),
        out: &mut [u8],
        touch: &mut Touch,
    ) -> Result<(), FileError> {
        if part.bytes == 0 {
            return Ok(());
        }
        let from = (part.offset - extent.offset) as usize;
        let out = &mut out[from..from + part.bytes as usize];
        let read = self.client.read_near(file.handle, part.offset, out, true);
        let found = read.await?;
        // The drive's file may end before: nobody has written there.
        out[found.bytes as usize..].fill(0);
        // Hits are those of the host's own memory.
        *touch += Touch::no_hits(part.pages());
        self.note_near(file, part, found);
        Ok(())
    }

    /// Writes within a file; nothing if that has to be done by one who is alone in it.
    pub(super) async fn write_near(
        &self,
        file: &OpenFile,
        extent: Extent,
        data: &[u8],
        entry: Entry,
    ) -> Result<Option<Touch>, FileError> {
        let (cpu, node) = (self.cpu(), self.node(file.slot));
        let index = self.process.shared.index_of(file.slot);
        let mut touch = Touch::default();
        let is_here = |page| index.get(cpu, page).is_some();
        let mut pages = spans(extent, PAGE_BYTES).map(|span| span.page);
        if entry == Entry::Shared && pages.any(is_here) {
            return Ok(None);
        }
        node.stretch_on_drive(extent.offset + extent.bytes);
        let mut missing = Extent::new(extent.offset, 0);
        for span in spans(extent, PAGE_BYTES) {
            let part = Extent::new(extent.offset + span.payload as u64, span.len.into());
            if entry == Entry::Alone && is_here(span.page) {
                self.write_missing(file, (extent, missing), data, &mut touch)
                    .await?;
                missing = Extent::new(part.offset + part.bytes, 0);
                let own = &data[span.in_payload()];
                let written = self.local.write(file.slot, part, own, WritePolicy::Back);
                touch += written.await.map_err(as_file_error)?;
                continue;
            }
            missing.bytes = part.offset + part.bytes - missing.offset;
        }
        self.write_missing(file, (extent, missing), data, &mut touch)
            .await?;
        Ok(Some(touch))
    }

    /// Writes a part of an extent that is not here.
    async fn write_missing(
        &self,
        file: &OpenFile,
        (extent, part): (Extent, Extent),
        data: &[u8],
        touch: &mut Touch,
    ) -> Result<(), FileError> {
        if part.bytes == 0 {
            return Ok(());
        }
        let from = (part.offset - extent.offset) as usize;
        let data = &data[from..from + part.bytes as usize];
        let write = self.client.write_near(file.handle, part.offset, data);
        let written = write.await?;
        *touch += Touch::no_hits(part.pages());
        self.note_near(file, part, written);
        Ok(())
    }

    /// A part of a file was used by way of the drive's cache: has it make room, if it had none.
    fn note_near(&self, file: &OpenFile, part: Extent, found: NearResult) {
        let next = self.process.device.with(self.cpu(), |ranges| {
            let key = ranges.of(file.slot, part.offset);
            if found.kept > 0 {
                let (_, last) = ranges.of(file.slot, part.offset + part.bytes - 1);
                (key.1..=last).for_each(|range| ranges.touch((file.slot, range)));
            }
            let next = found.is_full.then(|| ranges.begin_evict(key)).flatten()?;
            Some((next.0, ranges.extent(next)))
        });
        let Some((slot, extent)) = next else {
            return;
        };
        let Some(carrier) = self.node(slot).carrier(self.cpu()) else {
            // It was closed, and has left.
            return self
                .process
                .device
                .with(self.cpu(), |ranges| ranges.end_evict());
        };
        let (client, process) = (self.client.clone(), self.process.clone());
        self.cpu().spawn("omni evicts", async move {
            // What cannot be written stays there, and whoever syncs the file is told.
            let _ = evict(&client, carrier, extent).await;
            let cpu = &client.inner.cpu;
            process.device.with(cpu, |ranges| ranges.end_evict());
        });
    }

    /// A file is about to be closed: what the drive keeps of it for this process leaves.
    pub(super) async fn leave_near(&self, file: &OpenFile) -> Result<(), FileError> {
        let slot = file.slot;
        let had = self.process.mode.is_near()
            && self
                .process
                .device
                .with(self.cpu(), |ranges| ranges.forget(slot));
        if !had {
            return Ok(());
        }
        let evict = self
            .client
            .evict_near(file.handle, Evict::WriteBack, 0, u64::MAX);
        evict.await.map(drop)
    }
}

/// Has a range leave the drive's cache.
async fn evict(
    client: &StorClient,
    carrier: Arc<DriveHandle>,
    extent: Extent,
) -> Result<(), FileError> {
    let Extent { offset, bytes } = extent;
    let evicted = client.evict_near(carrier.handle, Evict::WriteBack, offset, bytes);
    let evicted = evicted.await;
    let released = client.release_handle(carrier).await;
    evicted.map(drop).and(released)
}
