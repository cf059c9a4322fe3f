//! A file that the cache of a process has pages of: how long it is, and who may go in.
//!
//! It has three ends. Readers see it up to its *length*. A write that makes it longer first moves the *extent*, up to which pages
//! are written back, then copies, then moves the length: so no reader sees zeros that nobody wrote, and no write-back
//! leaves out bytes that were. The drive has nothing behind the third one: pages there are zeros without a command.

use std::sync::Arc;

use wharf_files::Handle;
use wharf_runtime::rw_gate::RwGate;
use wharf_runtime::sync::{AtomicBool, AtomicU64, Ordering};
use wharf_runtime::{Cpu, Lock};

/// An open file of the drive's. Whoever gives the last one back closes it.
#[derive(Debug)]
pub(super) struct DriveHandle {
    pub(super) handle: Handle,
    pub(super) can_read: bool,
    pub(super) can_write: bool,
}

/// See the module.
pub(super) struct Node {
    number: AtomicU64,
    bytes: AtomicU64,
    extent: AtomicU64,
    on_drive: AtomicU64,
    /// Whether the ends are known to be the drive's, or later: not of a file that nobody had open for a while.
    is_checked: AtomicBool,
    /// Operations that change what is there go in alone; reads that find their pages do not go in at all.
    pub(super) gate: RwGate<()>,
    /// The open file by which pages come and go, while somebody has the file open or it has dirty pages.
    carrier: Lock<Option<Arc<DriveHandle>>>,
}

impl Default for Node {
    fn default() -> Node {
        Node {
            number: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            extent: AtomicU64::new(0),
            on_drive: AtomicU64::new(0),
            is_checked: AtomicBool::new(false),
            gate: RwGate::new(()),
            carrier: Lock::new(None),
        }
    }
}

impl Node {
    /// The file's number.
    pub(super) fn number(&self) -> u64 {
        // Relaxed: it changes while nobody has the node.
        self.number.load(Ordering::Relaxed)
    }

    /// The node is another file's now, of which nothing is known.
    pub(super) fn begin(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
        self.is_checked.store(false, Ordering::Relaxed);
    }

    /// What is known of it may be old.
    pub(super) fn doubt(&self) {
        self.is_checked.store(false, Ordering::Relaxed);
    }

    /// Whether what is known of it is so.
    pub(super) fn is_checked(&self) -> bool {
        // With the release in `set_checked`: the ends are those that were set before.
        self.is_checked.load(Ordering::Acquire)
    }

    /// What is known of it is so.
    pub(super) fn set_checked(&self) {
        self.is_checked.store(true, Ordering::Release);
    }

    /// Bytes up to its end, as readers see it.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        // With the release in `set_bytes`: pages up to there are in the cache, or on the drive.
        self.bytes.load(Ordering::Acquire)
    }

    /// Bytes up to where pages are written back.
    pub(super) fn extent(&self) -> u64 {
        self.extent.load(Ordering::Acquire)
    }

    /// Bytes up to where the drive may have any.
    pub(super) fn on_drive(&self) -> u64 {
        self.on_drive.load(Ordering::Acquire)
    }

    /// Has readers see it up to there. By one who is alone in the file, as all that follow.
    pub(super) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Release);
    }

    /// Has pages written back up to there.
    pub(super) fn set_extent(&self, bytes: u64) {
        self.extent.store(bytes, Ordering::Release);
    }

    /// The drive's file ends there, and so does what is here.
    pub(super) fn set_all(&self, bytes: u64) {
        self.on_drive.store(bytes, Ordering::Release);
        self.set_extent(bytes);
        self.set_bytes(bytes);
    }

    /// The drive may have bytes up to there.
    pub(super) fn stretch_on_drive(&self, bytes: u64) {
        self.on_drive.fetch_max(bytes, Ordering::AcqRel);
    }

    /// The open file by which pages come and go.
    pub(super) fn carrier(&self, cpu: &Cpu) -> Option<Arc<DriveHandle>> {
        self.carrier.with(cpu, |carrier| carrier.clone())
    }

    /// Takes an open file for pages, if it is better than the one there is; gives the one that is not used any more.
    pub(super) fn offer(&self, cpu: &Cpu, handle: &Arc<DriveHandle>) -> Option<Arc<DriveHandle>> {
        self.carrier.with(cpu, |carrier| {
            let is_better = handle.can_read
                && carrier
                    .as_ref()
                    .is_none_or(|now| handle.can_write && !now.can_write);
            match is_better {
                true => carrier.replace(handle.clone()),
                false => None,
            }
        })
    }

    /// Takes the open file away.
    pub(super) fn take_carrier(&self, cpu: &Cpu) -> Option<Arc<DriveHandle>> {
        self.carrier.with(cpu, Option::take)
    }
}
