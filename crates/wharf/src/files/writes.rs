//! Writes of a process that keeps something of files: kept until the drive takes them, or by commands.

use rustix::time::{ClockId, clock_gettime};
use wharf_files::{FileError, Handle, Place, Written};

use super::cached::Command;
use super::drive::FileDrive;

impl FileDrive {
    /// Writes what the drive takes later; none if it takes a command, as it does beside another command that may be about the file: for one of
    /// this process's own the drive takes what was written without a look at whether a write is under way.
    #[inline]
    pub fn write_kept(&self, handle: Handle, place: Place, data: &[u8]) -> Option<Written> {
        let cache = self.usable()?;
        let number = cache.borrow().number(handle)?;
        if !self.is_quiet(number) {
            return None;
        }
        let place = match self.appends(handle) {
            true => Place::End,
            false => place,
        };
        let now = clock_gettime(ClockId::Realtime);
        let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        cache.borrow_mut().write(handle, place, data, now_ns)
    }

    /// Writes by the cache, and asks for a lease to do so if it is time for that; none if it takes a command.
    pub(super) fn write_by_cache(
        &self,
        handle: Handle,
        place: Place,
        data: &[u8],
    ) -> Result<Option<Written>, FileError> {
        let Some(cache) = self.usable().filter(|cache| cache.borrow().writes_back()) else {
            return Ok(None);
        };
        let written = self.write_kept(handle, place, data);
        if written.is_some() {
            return Ok(written);
        }
        if cache.borrow().has_near() {
            // Then it is known how long the file is.
            self.look_for_lease(cache, handle)?;
            if let Some(written) = self.write_near(cache, handle, place, data)? {
                return Ok(Some(written));
            }
        }
        let end = match place {
            Place::At(offset) => offset.saturating_add(data.len() as u64),
            Place::End => u64::MAX,
        };
        if cache.borrow().has_lease_to_write(handle) && !cache.borrow_mut().has_lease(handle) {
            // Beside a change that may have been to it, what was known of the file was forgotten: a lease to write is of use with a lease alone.
            self.lease(cache, handle)?;
            return Ok(self.write_kept(handle, place, data));
        }
        let Some(wanted) = cache.borrow_mut().ask_to_write(handle, end) else {
            return Ok(None);
        };
        let lease = self.look_for_lease(cache, handle).and_then(|()| {
            let client = self.client();
            self.done_on(handle, client.lease_writes(handle, wanted.word))
        });
        let answer = *lease.as_ref().unwrap_or(&0);
        cache.borrow_mut().may_write(wanted, answer);
        lease?;
        if !cache.borrow().is_coherent() {
            // What was known of the file is from before.
            self.look_for_lease(cache, handle)?;
        }
        Ok(self.write_kept(handle, place, data))
    }

    /// Writes by a command.
    pub(super) fn done_to_write(
        &self,
        handle: Handle,
        (place, data): (Place, &[u8]),
        future: impl Command<Written>,
    ) -> Result<Written, FileError> {
        let at_end = place == Place::End || self.appends(handle);
        self.done_to(self.part(handle), future, |cache, ended| match ended {
            Ok(Written { offset, bytes }) if *bytes == data.len() as u64 => {
                cache.written(handle, at_end, *offset, data);
            }
            // Nobody knows of the rest what has become of it.
            _ => cache.changed(handle),
        })
    }
}
