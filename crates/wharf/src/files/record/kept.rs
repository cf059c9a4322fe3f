//! What a process reads and writes of what it keeps: no command tells of it.

use wharf_files::{Handle, Place, Written};

use super::Recorded;
use super::service::{range, written_kind};
use crate::files::{FileDrive, now_ns};
use wharf_workload::files::FileOpKind;

impl Recorded<FileDrive> {
    /// As [`FileDrive::read_kept`].
    #[inline]
    pub fn read_kept(&self, handle: Handle, offset: u64, out: &mut [u8]) -> Option<usize> {
        let read = self.inner.read_kept(handle, offset, out);
        if let (Some(bytes @ 1..), Some(_)) = (read, &self.state) {
            let more = range(offset, bytes as u64);
            self.opened(Some(now_ns()), FileOpKind::Read, handle, more);
        }
        read
    }

    /// As [`FileDrive::write_kept`].
    #[inline]
    pub fn write_kept(&self, handle: Handle, place: Place, data: &[u8]) -> Option<Written> {
        let written = self.inner.write_kept(handle, place, data);
        if let (Some(done @ Written { bytes: 1.., .. }), Some(state)) = (written, &self.state) {
            let kind = written_kind(&state.borrow(), handle, place);
            let more = range(done.offset, done.bytes);
            self.opened(Some(now_ns()), kind, handle, more);
        }
        written
    }
}
