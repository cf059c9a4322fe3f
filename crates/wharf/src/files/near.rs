//! What goes by way of the drive's own cache, for a process that uses both.

use std::cell::RefCell;

use wharf_files::{FileError, Handle, Place, Written};
use wharf_wire::file::Evict;
use wharf_wire::identify::DriveFeature;

use super::cache::Cache;
use super::drive::FileDrive;

impl FileDrive {
    /// Whether the drive is in another process, and has a cache of its own.
    pub(super) fn has_cache(&self) -> bool {
        self.has_elsewhere(DriveFeature::DeviceCache)
    }

    /// Reads bytes that stay in the drive; gives how many, as far as the file goes.
    pub(super) fn read_near(
        &self,
        cache: &RefCell<Cache>,
        handle: Handle,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize, FileError> {
        self.make_room(cache);
        let client = self.client();
        let found = self.done_on(handle, client.read_near(handle, offset, out, true))?;
        let count = found.bytes as usize;
        let bytes = offset..offset + count as u64;
        cache.borrow_mut().note_near(handle, bytes, (found, false));
        Ok(count)
    }

    /// Writes to the drive's cache; none if the write goes another way.
    pub(super) fn write_near(
        &self,
        cache: &RefCell<Cache>,
        handle: Handle,
        place: Place,
        data: &[u8],
    ) -> Result<Option<Written>, FileError> {
        let client = self.client();
        let Place::At(offset) = place else {
            return Ok(None);
        };
        let is_near = data.len() <= client.bytes_max()
            && !self.appends(handle)
            && cache.borrow_mut().writes_near(handle, place, data.len());
        if !is_near {
            return Ok(None);
        }
        self.make_room(cache);
        let bytes = offset..offset + data.len() as u64;
        let written = self.done_to_write(handle, (place, data), async {
            let found = client.write_near(handle, offset, data).await?;
            cache.borrow_mut().note_near(handle, bytes, (found, true));
            Ok(Written {
                offset,
                bytes: data.len() as u64,
            })
        });
        written.map(Some)
    }

    /// Has what was not used for longest leave the drive's cache, if that had no room.
    fn make_room(&self, cache: &RefCell<Cache>) {
        let leaving = cache.borrow_mut().next_leaving();
        let Some((handle, pages)) = leaving else {
            return;
        };
        let client = self.client();
        let (from, count) = pages.bytes();
        let evict = client.evict_near(handle, Evict::WriteBack, from, count);
        let has_left = self.done_on(handle, evict).is_ok();
        // What cannot be written stays there, and whoever syncs the file is told.
        cache.borrow_mut().left(&pages, has_left);
    }

    /// A handle is closed: nothing stays in the drive's cache of a file that is not open any more.
    pub(super) fn leave_near(&self, handle: Handle) {
        let Some(cache) = self.usable() else {
            return;
        };
        if cache.borrow_mut().leaves_near(handle) {
            let client = self.client();
            // What cannot be written stays there until this process ends, and whoever syncs the file is told.
            let _ = self.done_on(
                handle,
                client.evict_near(handle, Evict::WriteBack, 0, u64::MAX),
            );
        }
    }
}
