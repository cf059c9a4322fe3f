//! Channels of one thread that are waited for together.
//!
//! As SPDK's poll group: what a thread has submitted to any target of the group is begun when it
//! waits for any other, and one wait is for all. By io_uring the channels share one ring, which is
//! one descriptor, however many files there are.

use std::cell::{OnceCell, RefCell};
use std::os::fd::RawFd;
use std::rc::Rc;

use crate::error::StorageError;
use crate::uring::ring::{Ring, SharedRing};

/// I/Os that are handed over by one system call, at most.
const ENTRIES: u32 = 256;

/// See the module. Clones are the same group; it stays on its thread.
#[derive(Clone, Default)]
pub struct PollGroup(Rc<OnceCell<SharedRing>>);

impl PollGroup {
    /// A group without channels.
    pub fn new() -> PollGroup {
        PollGroup::default()
    }

    /// The ring of the group, made when it is first asked for.
    pub(crate) fn ring(&self) -> Result<SharedRing, StorageError> {
        if let Some(ring) = self.0.get() {
            return Ok(ring.clone());
        }
        let ring = Rc::new(RefCell::new(Ring::new(ENTRIES)?));
        Ok(self.0.get_or_init(|| ring).clone())
    }

    /// A descriptor that is readable when I/Os have ended, for a thread that waits for other things too. It is
    /// asked for after the last poll of the channels and before each such wait. None if no channel has a
    /// ring.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.0.get()?.borrow_mut().descriptor()
    }

    /// I/Os of [grouped](crate::Channel::is_grouped) channels that the kernel has.
    pub fn in_flight(&self) -> usize {
        self.0.get().map_or(0, |ring| ring.borrow().in_kernel())
    }

    /// Hands over what the channels have, without waiting.
    pub fn submit(&self) {
        if let Some(ring) = self.0.get() {
            ring.borrow_mut().poll();
        }
    }

    /// Hands over what the channels have, and waits until about `min` of their I/Os have ended, or
    /// some are to be reported: poll the channels then.
    pub fn wait(&self, min: usize) {
        if let Some(ring) = self.0.get() {
            ring.borrow_mut().wait_any(min);
        }
    }
}
