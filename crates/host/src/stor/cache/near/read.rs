//! Reading by way of either cache.

use wharf_runtime::Cpu;
use wharf_wire::dma::PAGE_BYTES;

use super::super::backing::as_file_error;
use super::super::mode::Without;
use super::super::opened::OpenFile;
use super::super::thread::Cached;
use super::head;
use super::place::{Ask, Place, Way};
use crate::design::Touch;
use crate::files::FileError;
use crate::span::{Extent, Span, spans};

impl Cached {
    /// Reads what lies within a file, for one who is inside with others.
    pub(in crate::stor::cache) async fn read_near(
        &self,
        file: &OpenFile,
        extent: Extent,
        out: &mut [u8],
    ) -> Result<Touch, FileError> {
        if extent.bytes == 0 {
            return Ok(Touch::default());
        }
        let (first, end) = (extent.first_page(), extent.first_page() + extent.pages());
        let is_in_order = file.stream.note(first, end);
        if is_in_order {
            self.go_ahead(file, extent);
        }
        self.read_near_as(file, extent, out, is_in_order).await
    }

    /// The same, without a look at what was read before.
    pub(in crate::stor::cache) async fn read_near_as(
        &self,
        file: &OpenFile,
        extent: Extent,
        out: &mut [u8],
        is_in_order: bool,
    ) -> Result<Touch, FileError> {
        let (mut touch, mut done) = (Touch::default(), 0);
        while done < extent.bytes {
            let rest = Extent::new(extent.offset + done, extent.bytes - done);
            let out = &mut out[done as usize..];
            let span = spans(rest, PAGE_BYTES).next().expect("it is not empty");
            let ask = Ask {
                writes: false,
                is_whole: span.whole,
                is_in_order,
            };
            let (first, pages) = (rest.first_page(), rest.pages());
            let place = self.place(file.slot, &(first..first + pages), ask);
            let here = match place.way {
                Way::Here => self.read_here(file.slot, &span, out),
                _ => None,
            };
            let (bytes, found) = match here {
                Some(found) => (span.len.into(), found),
                None => self.read_missing(file, rest, out, place).await?,
            };
            touch += found;
            done += bytes;
        }
        Ok(touch)
    }

    /// Reads a page that is here; nothing if it is not.
    fn read_here(&self, slot: u32, span: &Span, out: &mut [u8]) -> Option<Touch> {
        let found = self.local.read_now(slot, span, out);
        // What the thread remembers of where the page is may be old, and is forgotten then: the index says it.
        found.or_else(|| self.local.read_now(slot, span, out))
    }

    /// Reads the first pages of an extent; gives how many bytes. None if others had them move meanwhile.
    async fn read_missing(
        &self,
        file: &OpenFile,
        extent: Extent,
        out: &mut [u8],
        place: Place,
    ) -> Result<(u64, Touch), FileError> {
        let (way, run) = (place.way, place.pages);
        let (slot, first) = (file.slot, extent.first_page());
        let (part, pages) = (head(extent, run), first..first + run);
        let out = &mut out[..part.bytes as usize];
        let _guard = self.lock_pages(slot, &pages, !way.is_host()).await;
        if way.is_host() {
            let read = self.local.read(slot, part, out).await;
            let found = read.map_err(as_file_error)?;
            if place.is_on_device {
                self.note_here(&(slot, pages));
            }
            return Ok((part.bytes, found));
        }
        if pages.clone().any(|page| self.is_here(slot, page)) {
            return Ok((0, Touch::default()));
        }
        let is_loaded = place.is_on_device && self.client.load_near(file.handle, part, out);
        if is_loaded {
            let touch = self.note_window(file, &pages, part).await?;
            return Ok((part.bytes, touch));
        }
        let keeps = way == Way::Near;
        if !keeps {
            // The next one may find room.
            self.evict_later((slot, first));
        }
        let found = match self.process.without {
            Without::NearIo => {
                let read = self.client.read_near_pages(file.handle, part, out, keeps);
                read.await?
            }
            _ => {
                let read = self.client.read_near(file.handle, part.offset, out, keeps);
                read.await?
            }
        };
        // The drive's file may end before: nobody has written there.
        out[found.bytes as usize..].fill(0);
        Ok((part.bytes, self.note_near(file, &pages, found).await?))
    }

    /// Has the next pages come of one who goes through a file in order, and is at an extent. To who wants less than a page at a time only
    /// bytes come that are asked for, where the drive's cache is filled ahead and has room.
    pub(super) fn go_ahead(&self, file: &OpenFile, extent: Extent) {
        let is_fed = self.process.prefetch_pages > 0;
        let is_near = is_fed && extent.bytes < super::PAGE && self.process.omni.has_room(1);
        if !is_near {
            self.bring_ahead(file, extent.first_page());
        }
        if is_fed {
            self.prefetch(file, extent.first_page() + extent.pages());
        }
    }

    /// Has the next pages of one who goes through a file in order, from this one on, come here, if nobody is in the way.
    fn bring_ahead(&self, file: &OpenFile, page: u64) {
        let (cpu, process): (&Cpu, _) = (self.cpu(), &self.process);
        let Some((first, pages)) = file.stream.window(page, process.window_pages) else {
            return;
        };
        let last = self.node(file.slot).bytes().div_ceil(super::PAGE);
        let window = (file.slot, first..(first + pages).min(last));
        if window.1.is_empty() {
            return;
        }
        let locker = self.locker(false);
        if let Some(_guard) = process.omni.try_lock(cpu, locker, window.clone()) {
            // From here on they are found here, and whoever wants them waits for them.
            let count = window.1.end - first;
            self.note_use(file.slot, Extent::of_pages(first, count));
            self.local.read_ahead(file.slot, first, count);
            if process.omni.is_any_on_device(cpu, &window) {
                // For the others there was no memory.
                let here = window.1.filter(|page| self.is_here(file.slot, *page));
                here.for_each(|page| self.note_here(&(file.slot, page..page + 1)));
            }
        }
    }
}
