//! Writing by way of either cache.

use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::file::Evict;

use super::super::backing::as_file_error;
use super::super::mode::Without;
use super::super::opened::OpenFile;
use super::super::thread::Cached;
use super::head;
use super::place::{Ask, Way};
use crate::design::{Touch, WritePolicy};
use crate::files::FileError;
use crate::span::{Extent, spans};

impl Cached {
    /// Writes within a file, for one who is inside.
    pub(in crate::stor::cache) async fn write_near(
        &self,
        file: &OpenFile,
        extent: Extent,
        data: &[u8],
    ) -> Result<Touch, FileError> {
        self.node(file.slot)
            .stretch_on_drive(extent.offset + extent.bytes);
        let (first, end) = (extent.first_page(), extent.first_page() + extent.pages());
        let is_in_order = file.stream.note(first, end);
        if is_in_order && extent.bytes < super::PAGE {
            // They are read before a part of them is written.
            self.go_ahead(file, extent);
        }
        let (mut done, mut touch) = (0, Touch::default());
        while done < extent.bytes {
            let rest = Extent::new(extent.offset + done, extent.bytes - done);
            let span = spans(rest, PAGE_BYTES).next().expect("it is not empty");
            let ask = Ask {
                writes: true,
                is_whole: span.whole,
                is_in_order,
            };
            let data = &data[done as usize..];
            let (bytes, found) = self.write_part(file, rest, data, ask).await?;
            touch += found;
            done += bytes;
        }
        Ok(touch)
    }

    /// Writes the first pages of an extent; gives how many bytes. None if others had them move meanwhile.
    async fn write_part(
        &self,
        file: &OpenFile,
        extent: Extent,
        data: &[u8],
        ask: Ask,
    ) -> Result<(u64, Touch), FileError> {
        let slot = file.slot;
        let (first, all) = (extent.first_page(), extent.pages());
        // Of several pages the last one may be written in part: it goes by itself.
        let whole = (extent.offset + extent.bytes) / super::PAGE;
        let all = match ask.is_whole {
            true => all.min(whole - first),
            false => 1,
        };
        let place = self.place(slot, &(first..first + all), ask);
        let (way, run) = (place.way, place.pages);
        let (part, pages) = (head(extent, run), first..first + run);
        let data = &data[..part.bytes as usize];
        // Who reads a page, and writes it with a change, is alone with it.
        let is_shared = !way.is_host() && self.process.without != Without::NearIo;
        let _guard = self.lock_pages(slot, &pages, is_shared).await;
        if way.is_host() {
            let is_near = |page| !self.is_here(slot, page) && self.is_on_device(slot, page);
            if ask.is_whole && !place.is_on_device && pages.clone().any(is_near) {
                // It went there before it was locked, and a write of all of it takes nothing from there.
                return Ok((0, Touch::default()));
            }
            let written = self.local.write(slot, part, data, WritePolicy::Back);
            let found = written.await.map_err(as_file_error)?;
            if place.is_on_device {
                self.note_here(&(slot, pages));
            }
            return Ok((part.bytes, found));
        }
        if pages.clone().any(|page| self.is_here(slot, page)) {
            return Ok((0, Touch::default()));
        }
        let is_stored = place.is_on_device && self.client.store_near(file.handle, part, data);
        if is_stored {
            let touch = self.note_window(file, &pages, part).await?;
            return Ok((part.bytes, touch));
        }
        if way == Way::Past {
            // The next one may find room.
            self.evict_later((slot, first));
            let write = self.client.write_all(file.handle, part.offset, data);
            write.await?;
            return Ok((part.bytes, Touch::no_hits(run)));
        }
        let written = match self.process.without {
            Without::NearIo => {
                let end = self.node(slot).bytes();
                let write = self.client.write_near_pages(file.handle, part, data, end);
                write.await?
            }
            _ => {
                let write = self.client.write_near(file.handle, part.offset, data);
                write.await?
            }
        };
        Ok((part.bytes, self.note_near(file, &pages, written).await?))
    }

    /// Pages of an extent are about to be written here whatever place they would have: none stays in the drive's cache. For one who is
    /// alone in the file.
    pub(in crate::stor::cache) async fn leave_device(
        &self,
        file: &OpenFile,
        extent: Extent,
    ) -> Result<(), FileError> {
        let first = extent.first_page();
        let pages = first..first + extent.pages();
        let (cpu, omni) = (self.cpu(), &self.process.omni);
        let part = (file.slot, pages.clone());
        if !self.process.mode.is_near() || !omni.is_any_on_device(cpu, &part) {
            return Ok(());
        }
        // What is leaving it in the background has left then.
        let _guard = self.lock_pages(file.slot, &pages, false).await;
        let Extent { offset, bytes } = extent;
        let evict = self
            .client
            .evict_near(file.handle, Evict::WriteBack, offset, bytes);
        evict.await?;
        omni.clear(cpu, &part);
        Ok(())
    }
}
