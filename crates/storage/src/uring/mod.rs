//! Files and devices by io_uring.
//!
//! Problem: a system call for each I/O, and in it the look-up of descriptor and memory, cost as much as
//! a fast device takes for the I/O itself.
//!
//! Idea: each channel is a ring of its own, that of one thread, with everything registered once.
//!
//! 1. `submit` puts an entry in the ring; nothing enters the kernel yet.
//! 2. `poll` hands over all entries by one call, if there are any or the kernel has completions to
//!    deliver, and takes what has ended.
//! 3. `wait` hands over and waits by the same call.
//! 4. A short read or write goes on where it stopped, by the same slot.
//!
//! What the kernel refuses is done without ([`capabilities`]): single issuer and deferred task work
//! (completions are handled when their thread asks for them, not by interrupting it), registered
//! descriptors and memory.

mod probe;

use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;

use crate::error::StorageError;
use crate::file::{FileCore, Next, Way};
use crate::io::{Completion, Io, IoError, Op, Segment};
use crate::target::{Channel, Ended, Full, admit};
use crate::transfer::Transfer;

pub use probe::{Capabilities, Feature, capabilities};

/// The most bytes that the kernel takes as one registered piece of memory.
const REGISTERED_BYTES_MAX: usize = 1 << 30;
/// Places of the two descriptors in the table of registered files.
const DIRECT_FILE: i32 = 0;
const BUFFERED_FILE: i32 = 1;

/// One thread's ring for a file or device.
pub(crate) struct UringChannel {
    /// First, so that the kernel has let go of everything before the rest is dropped.
    ring: IoUring,
    core: Arc<FileCore>,
    registered_files: bool,
    /// Registered memory, by its place in the kernel's table.
    regions: Vec<Segment>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// What ended without the kernel.
    ended: Ended,
    /// Completions taken from the ring: slot and result.
    taken: Vec<(u32, i32)>,
    /// I/Os that the kernel has, or finds in the ring.
    in_kernel: usize,
    /// A channel stays on its thread: the ring has a single issuer.
    thread: PhantomData<*mut ()>,
}

/// Room for one I/O.
struct Slot {
    transfer: Transfer,
    /// The list that the kernel reads; not touched while it has the I/O.
    vector: Vec<libc::iovec>,
}

impl UringChannel {
    pub(crate) fn new(core: Arc<FileCore>, depth: u32) -> Result<UringChannel, StorageError> {
        let can = capabilities();
        let mut builder = IoUring::builder();
        if can.has(probe::SINGLE_ISSUER) {
            builder.setup_single_issuer();
        }
        if can.has(probe::DEFERRED) {
            builder.setup_defer_taskrun().setup_taskrun_flag();
        }
        let ring = builder
            .build(depth.next_power_of_two())
            .map_err(StorageError::Uring)?;
        let files = [Way::Direct, Way::Buffered].map(|way| core.file(way).as_raw_fd());
        let registered_files =
            can.has(probe::FILES) && ring.submitter().register_files(&files).is_ok();
        let slots = (0..depth).map(|_| Slot {
            transfer: Transfer::idle(),
            vector: Vec::new(),
        });
        Ok(UringChannel {
            ring,
            core,
            registered_files,
            regions: Vec::new(),
            slots: slots.collect(),
            free: (0..depth).rev().collect(),
            ended: Ended::default(),
            taken: Vec::new(),
            in_kernel: 0,
            thread: PhantomData,
        })
    }

    /// Puts the next step of a slot's I/O in the ring, or ends the I/O.
    fn advance(&mut self, slot: u32) {
        let transfer = &mut self.slots[slot as usize].transfer;
        if transfer.op == Op::Flush {
            return self.push(slot, Way::Buffered, 0);
        }
        match self.core.next(transfer) {
            Next::Step(way, limit) => self.push(slot, way, limit),
            Next::Done => self.end(slot, Ok(())),
            Next::Zeros => {
                // SAFETY: `submit`'s caller leaves the memory alone until the I/O is reported.
                unsafe { transfer.fill_with_zeros() };
                self.end(slot, Ok(()));
            }
        }
    }

    fn end(&mut self, slot: u32, result: Result<(), IoError>) {
        let tag = self.slots[slot as usize].transfer.tag;
        self.free.push(slot);
        self.ended.push(tag, result);
    }

    fn push(&mut self, slot: u32, way: Way, limit: u64) {
        let entry = self.entry(slot, way, limit).user_data(u64::from(slot));
        self.in_kernel += 1;
        // SAFETY: the memory of the I/O is valid until it is reported, as `submit`'s caller promises, and
        // the slot's list is not touched until then.
        unsafe { self.ring.submission().push(&entry) }
            .expect("the ring has room for every slot, and a slot has one entry");
    }

    fn entry(&mut self, slot: u32, way: Way, limit: u64) -> squeue::Entry {
        let file = types::Fd(match (self.registered_files, way) {
            (true, Way::Direct) => DIRECT_FILE,
            (true, Way::Buffered) => BUFFERED_FILE,
            (false, way) => self.core.file(way).as_raw_fd(),
        });
        let Slot { transfer, vector } = &mut self.slots[slot as usize];
        let offset = transfer.offset;
        let single = transfer.has_segments().then(|| transfer.single(limit));
        let entry = match (transfer.op, single.flatten()) {
            (Op::Flush, _) => opcode::Fsync::new(file)
                .flags(types::FsyncFlags::DATASYNC)
                .build(),
            (Op::Read, Some((pointer, len))) => match region_of(&self.regions, pointer, len) {
                Some(region) => opcode::ReadFixed::new(file, pointer, len, region)
                    .offset(offset)
                    .build(),
                None => opcode::Read::new(file, pointer, len).offset(offset).build(),
            },
            (Op::Write, Some((pointer, len))) => match region_of(&self.regions, pointer, len) {
                Some(region) => opcode::WriteFixed::new(file, pointer, len, region)
                    .offset(offset)
                    .build(),
                None => opcode::Write::new(file, pointer, len)
                    .offset(offset)
                    .build(),
            },
            (op, None) => {
                transfer.vector(limit, vector);
                let (list, count) = (vector.as_ptr(), vector.len() as u32);
                if op == Op::Read {
                    opcode::Readv::new(file, list, count).offset(offset).build()
                } else {
                    opcode::Writev::new(file, list, count)
                        .offset(offset)
                        .build()
                }
            }
        };
        if self.registered_files {
            // The number above is a place in the table of registered files.
            entry.flags(squeue::Flags::FIXED_FILE)
        } else {
            entry
        }
    }

    /// Hands the ring's entries to the kernel, and waits until `min` of its I/Os have ended.
    fn enter(&mut self, min: usize) {
        loop {
            match self.ring.submitter().submit_and_wait(min) {
                Ok(_) => return,
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // The kernel is short of memory, or wants its completions taken first: those that are
                // there are taken, and the entries stay in the ring.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => {
                    return;
                }
                Err(error) => panic!("io_uring_enter failed on a ring that was good: {error}"),
            }
        }
    }

    /// Takes what the kernel has ended, and goes on with what it left unfinished.
    fn reap(&mut self) {
        let mut taken = std::mem::take(&mut self.taken);
        let completions = self.ring.completion();
        taken.extend(completions.map(|c| (c.user_data() as u32, c.result())));
        self.in_kernel -= taken.len();
        for (slot, result) in taken.drain(..) {
            let transfer = &mut self.slots[slot as usize].transfer;
            let moved = match u64::try_from(result) {
                Ok(_) if transfer.op == Op::Flush => {
                    self.end(slot, Ok(()));
                    continue;
                }
                Ok(moved) => self.core.account(transfer, moved),
                Err(_) => Err(Errno::from_raw_os_error(-result)),
            };
            match moved {
                Ok(()) | Err(Errno::INTR | Errno::AGAIN) => self.advance(slot),
                Err(errno) => {
                    let error = transfer.error(errno);
                    self.end(slot, Err(error));
                }
            }
        }
        self.taken = taken;
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
        self.slots.len()
    }

    fn in_flight(&self) -> usize {
        self.in_kernel + self.ended.len()
    }

    unsafe fn submit(&mut self, io: Io<'_>) -> Result<(), Full> {
        if self.in_flight() == self.slots.len() {
            return Err(Full);
        }
        if let Err(error) = admit(&self.core.info, self.core.size_bytes(), &io) {
            self.ended.push(io.tag, Err(error));
            return Ok(());
        }
        let slot = self.free.pop().expect("fewer in flight than slots");
        self.slots[slot as usize].transfer.begin(&io);
        self.advance(slot);
        Ok(())
    }

    fn poll(&mut self, done: &mut dyn FnMut(Completion)) -> usize {
        let entries = self.ring.submission();
        let has_work = !entries.is_empty() || entries.taskrun() || entries.cq_overflow();
        drop(entries);
        if has_work {
            self.enter(0);
        }
        self.reap();
        self.ended.report(done)
    }

    fn wait(&mut self, min: usize, done: &mut dyn FnMut(Completion)) -> usize {
        let min = min.min(self.in_flight());
        self.reap();
        loop {
            let missing = min.saturating_sub(self.ended.len());
            if missing == 0 && self.ring.submission().is_empty() {
                return self.ended.report(done);
            }
            self.enter(missing);
            self.reap();
        }
    }

    unsafe fn register(&mut self, memory: &[Segment]) -> bool {
        assert_eq!(self.in_flight(), 0, "memory changes while nothing uses it");
        if !capabilities().has(probe::BUFFERS) {
            return false;
        }
        if !self.regions.is_empty() {
            // Fails only if there is nothing registered.
            let _ = self.ring.submitter().unregister_buffers();
            self.regions.clear();
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
        let as_vector = |r: &Segment| libc::iovec {
            iov_base: r.pointer.cast(),
            iov_len: r.len_bytes,
        };
        let list: Vec<_> = regions.iter().map(as_vector).collect();
        // SAFETY: the caller promises that the memory stays; refused if the process may not pin so much.
        let registered =
            !list.is_empty() && unsafe { self.ring.submitter().register_buffers(&list).is_ok() };
        if registered {
            self.regions = regions;
        }
        registered
    }
}

impl Drop for UringChannel {
    fn drop(&mut self) {
        while self.in_kernel > 0 {
            self.enter(self.in_kernel);
            self.reap();
        }
    }
}
