//! What a thread has open.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_files::Handle;

use super::near::Stream;
use super::node::DriveHandle;
use crate::errseq::ErrSeqCursor;

/// All pages of a file.
pub(super) const ALL: (u64, u64) = (0, u64::MAX);

/// An open file of a thread.
pub(super) struct OpenFile {
    pub(super) handle: Handle,
    /// Its place in the cache.
    pub(super) slot: u32,
    pub(super) can_read: bool,
    pub(super) can_write: bool,
    pub(super) appends: bool,
    /// Whether writes go past the cache: pages cannot be read by it.
    pub(super) goes_around: bool,
    /// Failed write-backs that it has reported.
    pub(super) told: ErrSeqCursor,
    /// Whether it is gone through in order.
    pub(super) stream: Stream,
    /// Its share in the drive's open file, until it is closed.
    pub(super) drive: RefCell<Option<Arc<DriveHandle>>>,
}

/// What a handle stands for.
#[derive(Clone)]
pub(super) enum Open {
    /// A file of the cache.
    File(Rc<OpenFile>),
    /// What the cache keeps nothing of.
    Other(Handle),
}

impl Open {
    pub(super) fn handle(&self) -> Handle {
        match self {
            Open::File(file) => file.handle,
            Open::Other(handle) => *handle,
        }
    }
}
