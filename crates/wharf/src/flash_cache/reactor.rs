//! What a thread has under way on real storage: I/Os of channels, and calls that block.
//!
//! Tasks submit and sleep; the reactor takes what has ended between two passes of the tasks, and
//! wakes who waits. An I/O owns its memory, so a task that is dropped leaves nothing behind that
//! the kernel writes to.

use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use wharf_host::error::IoError;
use wharf_nbd::pool::{Inbox, Pool};
use wharf_nbd::{Answer, Errno as NbdErrno, Tag};
use wharf_runtime::wake::Pause;
use wharf_runtime::{Cpu, CpuId, Inline, Notify, TaskId};
use wharf_storage::{
    AlignedBuffer, Channel, Completion, Io, Op, PollGroup, Segment, StorageError, Target,
};

/// I/Os of a disk under way at a time.
const DEPTH: u32 = 64;
/// Memory of I/Os that is kept for the next ones.
const BUFFERS_MAX: usize = 32;
/// Threads that make holes.
const THREADS: u32 = 1;

/// How long a sleep lasts at most: the drive looks for pages on their way by the clock.
const SLEEP: Duration = Duration::from_micros(50);

thread_local! {
    static REACTOR: RefCell<Weak<Reactor>> = const { RefCell::new(Weak::new()) };
}

/// What a thread has under way on real storage.
pub struct Reactor {
    group: PollGroup,
    ways: RefCell<Vec<Weak<Way>>>,
    /// Calls on file systems, which may take a while.
    pool: Pool,
    inbox: Arc<Inbox>,
    calls: RefCell<Vec<Option<(Cpu, Call)>>>,
    free: RefCell<Vec<AlignedBuffer>>,
}

/// A descriptor or two that something arrives at, and whether to look every so often all the same.
pub struct Arrivals {
    /// Descriptors that become readable.
    pub descriptors: [Option<RawFd>; 2],
    /// Some of it arrives without a sign.
    pub has_silent: bool,
    /// Nothing is under way.
    pub is_quiet: bool,
}

impl Reactor {
    /// That of this thread; made if there is none.
    ///
    /// # Errors
    /// If the system has no thread or descriptor left.
    pub fn of_thread() -> std::io::Result<Rc<Reactor>> {
        if let Some(found) = REACTOR.with(|held| held.borrow().upgrade()) {
            return Ok(found);
        }
        let reactor = Rc::new(Reactor {
            group: PollGroup::new(),
            ways: RefCell::default(),
            pool: Pool::new(THREADS)?,
            inbox: Inbox::new()?,
            calls: RefCell::default(),
            free: RefCell::default(),
        });
        REACTOR.with(|held| *held.borrow_mut() = Rc::downgrade(&reactor));
        Ok(reactor)
    }

    /// Runs everything on `inline` until `future`, of `cpu`, is done; sleeps where there is nothing
    /// to do.
    pub fn run<T>(
        self: &Rc<Self>,
        inline: &Inline,
        cpu: CpuId,
        future: impl Future<Output = T>,
    ) -> T {
        let is_done = Rc::new(Cell::new(false));
        let (reactor, ended, own) = (self.clone(), is_done.clone(), inline.cpu(cpu).clone());
        inline.cpu(cpu).spawn("arrivals", async move {
            while !ended.get() {
                if !reactor.poll() && own.is_alone() {
                    reactor.sleep();
                }
                own.yield_now().await;
            }
        });
        inline.block_on(cpu, |_| async move {
            let result = future.await;
            is_done.set(true);
            result
        })
    }

    /// Sleeps until something arrives, or timers may be due.
    fn sleep(&self) {
        let arrivals = self.arrivals();
        // SAFETY: the reactor's descriptors are open as long as it lives.
        let borrow = |fd| unsafe { BorrowedFd::borrow_raw(fd) };
        let descriptors = arrivals.descriptors.into_iter().flatten().map(borrow);
        let of = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut set: Vec<PollFd<'_>> = descriptors.map(of).collect();
        let limit = Timespec::try_from(SLEEP).expect("a short time");
        // An early return is harmless.
        let _ = poll(&mut set, Some(&limit));
    }

    /// Takes what has ended, without waiting; true if there was anything.
    pub fn poll(&self) -> bool {
        let mut ended = 0;
        self.inbox.take(&mut |tag, outcome| {
            ended += 1;
            let call = self.calls.borrow_mut()[tag.slot as usize].take();
            let (cpu, call) = call.expect("a call ends once");
            let outcome = outcome
                .map(drop)
                .map_err(|errno| errno == NbdErrno::NotSupported);
            call.0.outcome.set(Some(outcome));
            call.0.wake(&cpu);
        });
        let ways = self.ways.borrow().clone();
        for way in ways.iter().filter_map(Weak::upgrade) {
            ended += way.poll();
        }
        if self.ways.borrow().iter().any(|way| way.strong_count() == 0) {
            self.ways.borrow_mut().retain(|way| way.strong_count() > 0);
        }
        ended > 0
    }

    /// What there is to wait for. Asked for after a poll that found nothing.
    pub fn arrivals(&self) -> Arrivals {
        let ways = self.ways.borrow();
        let ways: Vec<_> = ways.iter().filter_map(Weak::upgrade).collect();
        let under_way = |way: &&Rc<Way>| way.channel.borrow().in_flight() > 0;
        let has_any = ways.iter().any(|way| under_way(&way));
        let ring = has_any.then(|| self.group.descriptor()).flatten();
        let is_silent = |way: &Rc<Way>| !way.channel.borrow().is_grouped();
        let has_silent = ways.iter().filter(under_way).any(is_silent);
        let inbox = self.inbox.descriptor();
        Arrivals {
            descriptors: [ring, inbox],
            has_silent: has_silent || (has_any && ring.is_none()),
            is_quiet: !has_any && inbox.is_none(),
        }
    }

    pub(super) fn take_buffer(&self, bytes: usize) -> AlignedBuffer {
        let mut free = self.free.borrow_mut();
        match free.iter().position(|buffer| buffer.len() >= bytes) {
            Some(at) => free.swap_remove(at),
            None => AlignedBuffer::new(bytes.next_power_of_two()),
        }
    }

    pub(super) fn give_back(&self, buffer: AlignedBuffer) {
        let mut free = self.free.borrow_mut();
        if free.len() < BUFFERS_MAX {
            free.push(buffer);
        }
    }

    /// Has a call made on a thread beside.
    pub(super) fn call(
        &self,
        cpu: &Cpu,
        job: impl FnOnce() -> Result<(), NbdErrno> + Send + 'static,
    ) -> Call {
        let call = Call::default();
        let mut calls = self.calls.borrow_mut();
        let slot = calls.iter().position(Option::is_none);
        let slot = slot.unwrap_or_else(|| {
            calls.push(None);
            calls.len() - 1
        });
        calls[slot] = Some((cpu.clone(), call.clone()));
        let tag = Tag {
            connection: 0,
            slot: slot as u32,
        };
        let run = move || job().map(|()| Answer::Nothing);
        self.pool.run(tag, &self.inbox, run);
        call
    }
}

/// What a task waits for.
pub(super) struct Ending<T> {
    outcome: Cell<Option<T>>,
    waiter: Cell<Option<TaskId>>,
}

impl<T> Default for Ending<T> {
    fn default() -> Ending<T> {
        Ending {
            outcome: Cell::new(None),
            waiter: Cell::new(None),
        }
    }
}

impl<T> Ending<T> {
    fn wake(&self, cpu: &Cpu) {
        if let Some(task) = self.waiter.take() {
            cpu.wake(task);
        }
    }

    pub(super) async fn wait(&self, cpu: &Cpu) -> T {
        loop {
            if let Some(outcome) = self.outcome.take() {
                return outcome;
            }
            self.waiter.set(Some(cpu.current()));
            Pause::default().await;
        }
    }
}

/// A call on a thread beside; where it failed, whether it was because it cannot be done here.
#[derive(Clone, Default)]
pub(super) struct Call(pub(super) Rc<Ending<Result<(), bool>>>);

/// An I/O, which gives its memory back.
#[derive(Clone, Default)]
pub(super) struct Pending(pub(super) Rc<Ending<(AlignedBuffer, Result<(), IoError>)>>);

/// A channel to a disk.
pub(super) struct Way {
    // The order of the fields is the order of their end: the channel waits for what it has.
    channel: RefCell<Box<dyn Channel>>,
    pending: RefCell<Vec<Option<(AlignedBuffer, Pending)>>>,
    pub(super) cpu: Cpu,
    /// Who waits until it takes another I/O.
    room: Notify,
}

impl Way {
    /// A channel to `target`, for tasks of `cpu`.
    ///
    /// # Errors
    /// If there can be none.
    pub(super) fn new(
        reactor: &Reactor,
        cpu: &Cpu,
        target: &dyn Target,
    ) -> Result<Rc<Way>, StorageError> {
        let way = Rc::new(Way {
            channel: RefCell::new(target.channel_in(&reactor.group, DEPTH)?),
            pending: RefCell::default(),
            cpu: cpu.clone(),
            room: Notify::new(),
        });
        reactor.ways.borrow_mut().push(Rc::downgrade(&way));
        Ok(way)
    }

    fn poll(&self) -> usize {
        let mut ended = Vec::new();
        let count = self.channel.borrow_mut().poll(&mut |end| ended.push(end));
        for end in ended {
            self.end(end);
        }
        count
    }

    fn end(&self, completion: Completion) {
        let taken = self.pending.borrow_mut()[completion.tag as usize].take();
        let (buffer, pending) = taken.expect("a tag is used once");
        let outcome = completion.result.map_err(|error| IoError::System {
            doing: doing(error.op),
            offset: error.offset,
            errno: error.errno.raw_os_error(),
        });
        pending.0.outcome.set(Some((buffer, outcome)));
        pending.0.wake(&self.cpu);
        self.room.notify_one(&self.cpu);
    }

    /// Submits an I/O of the first `len` bytes of its memory, when there is room.
    pub(super) async fn submit(
        &self,
        op: Op,
        offset: u64,
        mut buffer: AlignedBuffer,
        len: usize,
    ) -> Pending {
        let (pending, segment) = (Pending::default(), Segment::of(&mut buffer[..len]));
        let segments: &[Segment] = match op {
            Op::Flush => &[],
            Op::Read | Op::Write => &[segment],
        };
        let tag = {
            let mut all = self.pending.borrow_mut();
            let free = all.iter().position(Option::is_none);
            let tag = free.unwrap_or_else(|| {
                all.push(None);
                all.len() - 1
            });
            all[tag] = Some((buffer, pending.clone()));
            tag as u64
        };
        let io = Io {
            op,
            offset,
            segments,
            tag,
        };
        let mut guard = Unsubmitted {
            way: self,
            tag: Some(tag),
        };
        loop {
            // SAFETY: the memory is in `pending` until the I/O is reported, and nobody touches it
            // there.
            if unsafe { self.channel.borrow_mut().submit(io) }.is_ok() {
                guard.tag = None;
                return pending;
            }
            self.room.wait(&self.cpu).await;
        }
    }
}

/// An I/O that waits for room: if its task is dropped its place is free again.
struct Unsubmitted<'a> {
    way: &'a Way,
    tag: Option<u64>,
}

impl Drop for Unsubmitted<'_> {
    fn drop(&mut self) {
        if let Some(tag) = self.tag {
            self.way.pending.borrow_mut()[tag as usize] = None;
        }
    }
}

fn doing(op: Op) -> &'static str {
    match op {
        Op::Read => "read of the disk",
        Op::Write => "write to the disk",
        Op::Flush => "flush of the disk",
    }
}
