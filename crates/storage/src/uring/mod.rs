//! Files and devices by io_uring.
//!
//! Problem: a system call for each I/O, and in it the look-up of descriptor and memory, cost as much as
//! a fast device takes for the I/O itself. A ring for each file and thread costs a descriptor each,
//! and what waits in one ring is not begun while the thread sleeps in another.
//!
//! Idea: a ring is one thread's (`ring.rs`). The channels of a [`PollGroup`](crate::PollGroup) share
//! one; a channel by itself has its own, with descriptors and memory registered once.
//!
//! 1. `submit` puts an entry in the ring; nothing enters the kernel yet.
//! 2. `poll` hands over all entries by one call, if there are any or the kernel has completions to
//!    deliver, and takes what has ended.
//! 3. `wait` hands over and waits by the same call.
//! 4. A short read or write goes on where it stopped, by the same slot.
//!
//! A shared ring has no registered descriptors: they would keep a file open until the thread, which
//! may be busy elsewhere, takes them out. Nor has a channel of it the file itself: who owns the
//! target closes it.
//!
//! What the kernel refuses is done without ([`capabilities`]): single issuer and deferred task work
//! (completions are handled when their thread asks for them, not by interrupting it), registered
//! descriptors and memory.

mod probe;
pub(crate) mod ring;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use rustix::io::Errno;

use crate::error::StorageError;
use crate::file::FileCore;
use crate::io::{Completion, Io, IoError, Segment};
use crate::target::{Channel, Ended, Full, admit};
use ring::{Ring, SharedRing};

pub use probe::{Capabilities, Feature, capabilities};

/// The most bytes that the kernel takes as one registered piece of memory.
const REGISTERED_BYTES_MAX: usize = 1 << 30;

/// One thread's way to a file or device.
pub(crate) struct UringChannel {
    // The order of the fields is the order of their end.
    ring: SharedRing,
    port: usize,
    core: Weak<FileCore>,
    /// A channel with a ring of its own keeps the file open.
    own: Option<Arc<FileCore>>,
    depth: usize,
    /// What has ended, while it is reported.
    reported: Ended,
}

impl UringChannel {
    /// A channel with a ring of its own.
    pub(crate) fn new(core: Arc<FileCore>, depth: u32) -> Result<UringChannel, StorageError> {
        let mut ring = Ring::new(depth)?;
        ring.register_files(&core);
        let ring = Rc::new(RefCell::new(ring));
        let mut channel = UringChannel::of_ring(ring, &core, depth);
        channel.own = Some(core);
        Ok(channel)
    }

    /// A channel that shares `ring`.
    pub(crate) fn of_ring(ring: SharedRing, core: &Arc<FileCore>, depth: u32) -> UringChannel {
        let port = ring.borrow_mut().open_port();
        UringChannel {
            ring,
            port,
            core: Arc::downgrade(core),
            own: None,
            depth: depth as usize,
            reported: Ended::default(),
        }
    }

    fn report(&mut self, done: &mut dyn FnMut(Completion)) -> usize {
        self.ring
            .borrow_mut()
            .exchange(self.port, &mut self.reported);
        self.reported.report(done)
    }
}

/// The place of the registered memory in which a piece lies.
fn region_of(regions: &[Segment], pointer: *mut u8, len: u32) -> Option<u16> {
    let (first, end) = (pointer.addr(), pointer.addr() + len as usize);
    let holds = |r: &Segment| r.pointer.addr() <= first && end <= r.pointer.addr() + r.len_bytes;
    regions.iter().position(holds).map(|index| index as u16)
}

impl Channel for UringChannel {
    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.ring.borrow().in_flight(self.port)
    }

    unsafe fn submit(&mut self, io: Io<'_>) -> Result<(), Full> {
        let mut ring = self.ring.borrow_mut();
        if ring.in_flight(self.port) == self.depth {
            return Err(Full);
        }
        let core = self.core.upgrade().ok_or(IoError {
            op: io.op,
            offset: io.offset,
            errno: Errno::BADF,
        });
        let admitted = core.and_then(|core| {
            admit(&core.info, core.size_bytes(), &io)?;
            Ok(core)
        });
        match admitted {
            Ok(core) => ring.begin(self.port, core, &io),
            Err(error) => ring.refuse(self.port, io.tag, error),
        }
        Ok(())
    }

    fn poll(&mut self, done: &mut dyn FnMut(Completion)) -> usize {
        self.ring.borrow_mut().poll();
        self.report(done)
    }

    fn wait(&mut self, min: usize, done: &mut dyn FnMut(Completion)) -> usize {
        self.ring.borrow_mut().wait(self.port, min);
        self.report(done)
    }

    fn is_grouped(&self) -> bool {
        self.own.is_none()
    }

    unsafe fn register(&mut self, memory: &[Segment]) -> bool {
        if self.is_grouped() || !capabilities().has(probe::BUFFERS) {
            return false;
        }
        let mut regions = Vec::new();
        for whole in memory {
            for begin in (0..whole.len_bytes).step_by(REGISTERED_BYTES_MAX) {
                regions.push(Segment {
                    pointer: whole.pointer.wrapping_add(begin),
                    len_bytes: (whole.len_bytes - begin).min(REGISTERED_BYTES_MAX),
                });
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.ring.borrow_mut().register_memory(regions) }
    }
}

impl Drop for UringChannel {
    fn drop(&mut self) {
        self.ring.borrow_mut().close_port(self.port);
    }
}
