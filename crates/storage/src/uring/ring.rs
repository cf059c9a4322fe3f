//! A ring of one thread, and the I/Os of all channels that use it.
//!
//! Each channel has a *port*: what of its I/Os has ended waits there until the channel reports it,
//! whichever channel it was that took it from the kernel.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;

use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::probe;
use super::region_of;
use crate::error::StorageError;
use crate::file::{FileCore, Next, Way};
use crate::io::{Io, IoError, Op, Segment};
use crate::target::Ended;
use crate::transfer::Transfer;
use crate::uring::capabilities;

/// Places of the two descriptors in the table of registered files.
const DIRECT_FILE: i32 = 0;
const BUFFERED_FILE: i32 = 1;

/// A ring that channels of one thread share.
pub(crate) type SharedRing = Rc<RefCell<Ring>>;

/// See the module.
pub(crate) struct Ring {
    // First, so that the kernel has let go of everything before the rest is dropped.
    uring: IoUring,
    /// It is one file's, whose descriptors are registered.
    has_files: bool,
    /// Registered memory, by its place in the kernel's table.
    regions: Vec<Segment>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    ports: Vec<Port>,
    free_ports: Vec<usize>,
    /// Completions taken from the kernel: slot and result.
    taken: VecDeque<(u32, i32)>,
    /// I/Os that the kernel has, or finds in the ring.
    in_kernel: usize,
    /// I/Os that have ended and are at their ports.
    unreported: usize,
    /// Rung by the kernel for each completion, once somebody has asked for it.
    bell: Option<OwnedFd>,
    bell_is_watched: bool,
}

/// Room for one I/O.
struct Slot {
    transfer: Transfer,
    /// The list that the kernel reads; not touched while it has the I/O.
    vector: Vec<libc::iovec>,
    /// The file, which stays open meanwhile.
    core: Option<Arc<FileCore>>,
    port: usize,
}

/// What one channel has under way.
#[derive(Default)]
struct Port {
    in_kernel: usize,
    ended: Ended,
}

impl Ring {
    /// A ring for `entries` I/Os between two system calls.
    pub(crate) fn new(entries: u32) -> Result<Ring, StorageError> {
        let can = capabilities();
        let mut builder = IoUring::builder();
        if can.has(probe::SINGLE_ISSUER) {
            builder.setup_single_issuer();
        }
        if can.has(probe::DEFERRED) {
            builder.setup_defer_taskrun().setup_taskrun_flag();
        }
        let uring = builder
            .build(entries.next_power_of_two())
            .map_err(StorageError::Uring)?;
        Ok(Ring {
            uring,
            has_files: false,
            regions: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            ports: Vec::new(),
            free_ports: Vec::new(),
            taken: VecDeque::new(),
            in_kernel: 0,
            unreported: 0,
            bell: None,
            bell_is_watched: false,
        })
    }

    /// Makes it the ring of `core` alone: the kernel looks the descriptors up once.
    pub(crate) fn register_files(&mut self, core: &FileCore) {
        let files = [Way::Direct, Way::Buffered].map(|way| core.file(way).as_raw_fd());
        let submitter = self.uring.submitter();
        self.has_files =
            capabilities().has(probe::FILES) && submitter.register_files(&files).is_ok();
    }

    /// Registers `regions` in place of what was; nothing is in flight.
    ///
    /// # Safety
    /// The memory stays valid until other memory is registered or the ring is dropped.
    pub(crate) unsafe fn register_memory(&mut self, regions: Vec<Segment>) -> bool {
        assert_eq!(self.in_kernel, 0, "memory changes while nothing uses it");
        if !self.regions.is_empty() {
            // Fails only if there is nothing registered.
            let _ = self.uring.submitter().unregister_buffers();
            self.regions.clear();
        }
        let as_vector = |r: &Segment| libc::iovec {
            iov_base: r.pointer.cast(),
            iov_len: r.len_bytes,
        };
        let list: Vec<_> = regions.iter().map(as_vector).collect();
        // SAFETY: the caller promises that the memory stays; refused if the process may not pin so
        // much.
        let registered =
            !list.is_empty() && unsafe { self.uring.submitter().register_buffers(&list).is_ok() };
        if registered {
            self.regions = regions;
        }
        registered
    }

    /// A port for another channel.
    pub(crate) fn open_port(&mut self) -> usize {
        self.free_ports.pop().unwrap_or_else(|| {
            self.ports.push(Port::default());
            self.ports.len() - 1
        })
    }

    /// Waits for what a channel has under way, which is not reported, and gives its port to another
    /// one.
    pub(crate) fn close_port(&mut self, port: usize) {
        while self.ports[port].in_kernel > 0 {
            self.enter(1);
            self.reap();
        }
        self.unreported -= self.ports[port].ended.len();
        self.ports[port] = Port::default();
        self.free_ports.push(port);
    }

    /// Readable when the kernel has ended something, until the next call of `poll`; none if the system
    /// gives none.
    ///
    /// It is an eventfd. A ring's own descriptor is not enough: where completions are left to be handled
    /// when their thread asks for them, it stays silent until then.
    pub(crate) fn descriptor(&mut self) -> Option<RawFd> {
        if self.bell.is_none() {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            let bell = eventfd(0, flags).ok()?;
            self.uring
                .submitter()
                .register_eventfd(bell.as_raw_fd())
                .ok()?;
            // What has ended by now has rung nothing: whoever waits looks once more.
            let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
            self.bell = Some(bell);
        }
        self.bell_is_watched = true;
        self.bell.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Makes the descriptor silent, before what it told of is taken.
    fn silence(&mut self) {
        if let Some(bell) = &self.bell
            && std::mem::take(&mut self.bell_is_watched)
        {
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
    }

    /// I/Os that the kernel has.
    pub(crate) fn in_kernel(&self) -> usize {
        self.in_kernel
    }

    /// I/Os of a port that are not reported.
    pub(crate) fn in_flight(&self, port: usize) -> usize {
        self.ports[port].in_kernel + self.ports[port].ended.len()
    }

    /// Exchanges what has ended at a port for `empty`.
    pub(crate) fn exchange(&mut self, port: usize, empty: &mut Ended) {
        let ended = &mut self.ports[port].ended;
        self.unreported -= ended.len();
        std::mem::swap(ended, empty);
    }

    /// Notes an I/O that has ended before it began.
    pub(crate) fn refuse(&mut self, port: usize, tag: u64, error: IoError) {
        self.unreported += 1;
        self.ports[port].ended.push(tag, Err(error));
    }

    /// Begins an I/O, whose memory is the ring's until it is at its port.
    pub(crate) fn begin(&mut self, port: usize, core: Arc<FileCore>, io: &Io<'_>) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                transfer: Transfer::idle(),
                vector: Vec::new(),
                core: None,
                port,
            });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[number as usize];
        slot.transfer.begin(io);
        slot.core = Some(core);
        slot.port = port;
        self.advance(number);
    }

    /// Puts the next step of a slot's I/O in the ring, or ends the I/O.
    fn advance(&mut self, number: u32) {
        let Slot { transfer, core, .. } = &mut self.slots[number as usize];
        let core = core.as_ref().expect("an I/O has a file");
        if transfer.op == Op::Flush {
            return self.push(number, Way::Buffered, 0);
        }
        match core.next(transfer) {
            Next::Step(way, limit) => self.push(number, way, limit),
            Next::Done => self.end(number, Ok(())),
            Next::Zeros => {
                // SAFETY: `submit`'s caller leaves the memory alone until the I/O is reported.
                unsafe { transfer.fill_with_zeros() };
                self.end(number, Ok(()));
            }
        }
    }

    fn end(&mut self, number: u32, result: Result<(), IoError>) {
        let slot = &mut self.slots[number as usize];
        slot.core = None;
        self.free.push(number);
        self.unreported += 1;
        self.ports[slot.port].ended.push(slot.transfer.tag, result);
    }

    fn push(&mut self, number: u32, way: Way, limit: u64) {
        let entry = self.entry(number, way, limit).user_data(u64::from(number));
        self.in_kernel += 1;
        self.ports[self.slots[number as usize].port].in_kernel += 1;
        // SAFETY: the memory of the I/O is valid until it is reported, as `submit`'s caller
        // promises, and the slot's list is not touched until then.
        while unsafe { self.uring.submission().push(&entry) }.is_err() {
            // As many entries as the ring holds: the kernel takes them.
            self.enter(0);
            self.take();
        }
    }

    fn entry(&mut self, number: u32, way: Way, limit: u64) -> squeue::Entry {
        let Slot {
            transfer,
            vector,
            core,
            ..
        } = &mut self.slots[number as usize];
        let core = core.as_ref().expect("an I/O has a file");
        let file = types::Fd(match (self.has_files, way) {
            (true, Way::Direct) => DIRECT_FILE,
            (true, Way::Buffered) => BUFFERED_FILE,
            (false, way) => core.file(way).as_raw_fd(),
        });
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
        if self.has_files {
            // The number above is a place in the table of registered files.
            entry.flags(squeue::Flags::FIXED_FILE)
        } else {
            entry
        }
    }

    /// Hands the ring's entries to the kernel, and waits until `min` of its I/Os have ended.
    fn enter(&mut self, min: usize) {
        loop {
            match self.uring.submitter().submit_and_wait(min) {
                Ok(_) => return,
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // The kernel is short of memory, or wants its completions taken first: those that
                // are there are taken, and the entries stay in the ring.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => {
                    std::thread::yield_now();
                    return;
                }
                Err(error) => panic!("io_uring_enter failed on a ring that was good: {error}"),
            }
        }
    }

    /// Takes completions from the kernel.
    fn take(&mut self) {
        let completions = self.uring.completion();
        self.taken
            .extend(completions.map(|c| (c.user_data() as u32, c.result())));
    }

    /// Takes what the kernel has ended, and goes on with what it left unfinished.
    fn reap(&mut self) {
        self.take();
        while let Some((number, result)) = self.taken.pop_front() {
            let Slot {
                transfer,
                core,
                port,
                ..
            } = &mut self.slots[number as usize];
            self.in_kernel -= 1;
            self.ports[*port].in_kernel -= 1;
            let core = core.as_ref().expect("an I/O has a file");
            let moved = match u64::try_from(result) {
                Ok(_) if transfer.op == Op::Flush => {
                    self.end(number, Ok(()));
                    continue;
                }
                Ok(moved) => core.account(transfer, moved),
                Err(_) => Err(Errno::from_raw_os_error(-result)),
            };
            match moved {
                Ok(()) | Err(Errno::INTR | Errno::AGAIN) => self.advance(number),
                Err(errno) => {
                    let error = transfer.error(errno);
                    self.end(number, Err(error));
                }
            }
        }
    }

    /// Hands over what was submitted, and takes what has ended, without waiting.
    pub(crate) fn poll(&mut self) {
        self.silence();
        let entries = self.uring.submission();
        let has_work = !entries.is_empty() || entries.taskrun() || entries.cq_overflow();
        drop(entries);
        if has_work {
            self.enter(0);
        }
        self.reap();
    }

    /// Hands over what was submitted, and waits until `min` I/Os of a port have ended, or all that
    /// it has.
    pub(crate) fn wait(&mut self, port: usize, min: usize) {
        let min = min.min(self.in_flight(port));
        self.reap();
        loop {
            let missing = min.saturating_sub(self.ports[port].ended.len());
            if missing == 0 && self.uring.submission().is_empty() {
                return;
            }
            self.enter(missing);
            self.reap();
        }
    }

    /// Hands over what was submitted, and waits until about `min` I/Os of any port have ended; not
    /// at all if some have by now, and are to be reported.
    pub(crate) fn wait_any(&mut self, min: usize) {
        self.reap();
        let min = match self.unreported {
            0 => min.min(self.in_kernel),
            _ => 0,
        };
        if min > 0 || !self.uring.submission().is_empty() {
            self.enter(min);
            self.reap();
        }
    }
}
