//! Pages that the drive brings to its own cache ahead of who goes through a file in order.
//!
//! Problem: who reads a file in order by small requests waits for flash at the first one of each page; bringing whole pages to the host ahead
//! of it takes room there, and carries bytes that may not be asked for.
//!
//! Idea: the drive reads its media ahead, by a command that carries nothing (*read near* of no bytes with `AHEAD`); requests then find their
//! pages in its memory, and only their bytes cross the link. A task does it, for nobody is to wait.
//!
//! The task enters the file as readers do: who makes the file longer or cuts it is not beside it, so a page does not come to the drive that is being made
//! here. It locks its pages as who uses them there does, so none of them comes here meanwhile.

use std::ops::Range;

use wharf_runtime::rw_gate::Entry;
use wharf_runtime::sync::Ordering;

use super::super::node::DriveHandle;
use super::super::opened::OpenFile;
use super::super::thread::Cached;
use super::PAGE;
use super::stream::WINDOW_PAGES_MIN;

impl Cached {
    /// Has the drive bring the next pages, for a request in order that ends before page `end`, unless it has them or has no room.
    pub(super) fn prefetch(&self, file: &OpenFile, end: u64) {
        let (process, slot) = (&self.process, file.slot);
        let most = process.prefetch_pages.min(process.omni.free_pages());
        if most < process.prefetch_pages.min(WINDOW_PAGES_MIN) {
            return self.evict_later((slot, end));
        }
        let Some((first, pages)) = file.stream.window_near(end, most) else {
            return;
        };
        let Some(this) = self.this.upgrade() else {
            return;
        };
        process.omni.begin_coming(pages);
        self.leave_if_low();
        self.cpu().spawn("omni prefetches", async move {
            this.enter(slot, Entry::Shared).await;
            this.fill_near(slot, first..first + pages).await;
            this.leave(slot, Entry::Shared);
            this.process.omni.end_coming(pages);
        });
    }

    /// Has the drive bring pages of a file that the caller is inside, as far as none of them is here.
    async fn fill_near(&self, slot: u32, pages: Range<u64>) {
        let node = self.node(slot);
        let bytes = node.bytes().min(node.on_drive());
        let last = pages.end.min(bytes.div_ceil(PAGE));
        if last <= pages.start {
            return;
        }
        if let Some(carrier) = node.carrier(self.cpu()) {
            if carrier.can_read {
                self.fill_unless_here(slot, &carrier, pages.start..last)
                    .await;
            }
            // If that fails the drive closes it when the client goes.
            let _ = self.client.release_handle(carrier).await;
        }
    }

    /// The same by an open file of the drive's.
    async fn fill_unless_here(&self, slot: u32, carrier: &DriveHandle, pages: Range<u64>) {
        let guard = self.lock_pages(slot, &pages, true).await;
        let mut all = pages.clone();
        let here = all.find(|page| self.is_here(slot, *page));
        let pages = pages.start..here.unwrap_or(pages.end);
        if pages.is_empty() {
            return;
        }
        self.fill_locked(slot, carrier, &pages).await;
        drop(guard);
        // Who closed the file meanwhile has had those leave that were noted then.
        if !self.with_table(|table| table.is_open(slot)) {
            let _guard = self.lock_pages(slot, &pages, false).await;
            let _ = self.leave_unknown(carrier.handle, &pages).await;
            self.process.omni.clear(self.cpu(), &(slot, pages));
        }
    }

    /// The same of pages that are locked. If they cannot be read, who wants them is told.
    async fn fill_locked(&self, slot: u32, carrier: &DriveHandle, pages: &Range<u64>) {
        let count = pages.end - pages.start;
        let (client, handle) = (&self.client, carrier.handle);
        let brought = client.prefetch_near(handle, pages.start, count as u16);
        let Ok(found) = brought.await else {
            return;
        };
        self.process.prefetched.fetch_add(count, Ordering::Relaxed);
        let part = (slot, pages.clone());
        if found.is_full || !self.process.omni.note(self.cpu(), &part) {
            // The next one may find room.
            self.evict_later((slot, pages.start));
            let _ = self.leave_unknown(handle, pages).await;
        }
    }
}
