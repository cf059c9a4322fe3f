//! One thread's channels to the files below the cache: a channel to each that it has used, and what is under way
//! on them.
//!
//! A thread's tasks run only while one of its calls waits. So a task of its own looks after the channels:
//! while other tasks have something to do it takes what has ended; when they have not, it hands over all that they
//! submitted and sleeps until an I/O ends, by one call; where it only writes back, until some of that is written, as
//! nobody waits for a single page and each waking up costs more than an I/O. A thread that waits for another one's I/O spins, yields, then
//! sleeps until that one wakes it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Weak};

use wharf_host::error::IoError;
use wharf_host::kit::backing::{Backing, Sent};
use wharf_host::kit::run::Run;
use wharf_host::volume::Transfer;
use wharf_runtime::wake::Pause;
use wharf_runtime::{Cpu, Notify, TaskId};
use wharf_storage::{Channel, Completion, Errno, Io, Op, PollGroup, Segment, StorageError};
use wharf_wire::dma::{DmaRegion, PAGE_BYTES};

use crate::open_file::OpenFile;
use crate::table::FileTable;

/// Turns that a thread without I/O of its own spins, then yields, before it sleeps.
const SPIN_TURNS: u32 = 20;
const YIELD_TURNS: u32 = 40;
/// Most writes that a thread sleeps for at a time: it may be wanted for something else.
const WRITES_MAX: usize = 16;

/// See the module.
pub(super) struct Channels {
    table: Arc<FileTable>,
    depth: u32,
    /// What is waited for together: the I/Os of all files.
    group: PollGroup,
    channels: RefCell<Vec<Option<Rc<FileChannel>>>>,
    /// I/Os under way, by tag.
    pending: RefCell<Vec<Option<Pending>>>,
    free_tags: RefCell<Vec<usize>>,
    /// Of the I/Os under way, those that are no writes: somebody waits for each.
    awaited: Cell<usize>,
    /// Turns in which the thread could only wait for another one.
    idle_turns: Cell<u32>,
    /// Files that had been closed when channels to such were closed last.
    closes_seen: Cell<u64>,
}

/// A channel to a file.
struct FileChannel {
    file: Weak<OpenFile>,
    channel: RefCell<Box<dyn Channel>>,
    /// Who waits until it takes another I/O.
    room: Notify,
}

/// One I/O that has been submitted, or that is known to fail.
#[derive(Clone, Default)]
pub(super) struct Pending(Rc<State>);

#[derive(Default)]
struct State {
    outcome: Cell<Option<Result<(), IoError>>>,
    waiter: Cell<Option<TaskId>>,
    /// The file whose storage it writes to.
    writes: RefCell<Option<Arc<OpenFile>>>,
}

impl Channels {
    /// None yet. Their task runs on `cpu`.
    pub fn start(cpu: &Cpu, table: Arc<FileTable>, depth: u32) -> Rc<Channels> {
        let channels = Rc::new(Channels {
            table,
            depth,
            group: PollGroup::new(),
            channels: RefCell::default(),
            pending: RefCell::default(),
            free_tags: RefCell::default(),
            awaited: Cell::new(0),
            idle_turns: Cell::new(0),
            closes_seen: Cell::new(0),
        });
        cpu.spawn("channels", channels.clone().look_after(cpu.clone()));
        channels
    }

    async fn look_after(self: Rc<Self>, cpu: Cpu) {
        loop {
            if !cpu.is_alone() {
                self.idle_turns.set(0);
                self.poll(&cpu);
            } else if self.sleep_until_one_ends(&cpu) {
                self.idle_turns.set(0);
            } else {
                let turns = self.idle_turns.get();
                self.idle_turns.set(turns.saturating_add(1));
                rest(&cpu, turns);
            }
            cpu.yield_now().await;
        }
    }

    /// Something new is waited for: what was before is no measure.
    pub fn begin_turn(&self) {
        self.idle_turns.set(0);
        let closes = self.table.closes();
        if self.closes_seen.replace(closes) != closes {
            self.sweep();
        }
    }

    /// Takes what has ended; gives how many I/Os.
    fn poll(&self, cpu: &Cpu) -> usize {
        let poll = |way: &Rc<FileChannel>| {
            let mut channel = way.channel.borrow_mut();
            channel.poll(&mut |end| self.end(cpu, way, end))
        };
        self.channels.borrow().iter().flatten().map(poll).sum()
    }

    /// Sleeps until I/Os end; false if none is under way. All that was submitted has begun then.
    fn sleep_until_one_ends(&self, cpu: &Cpu) -> bool {
        if self.sleep_for_one_alone(cpu) {
            return true;
        }
        let in_flight = self.group.in_flight();
        if in_flight > 0 {
            self.group.wait(self.enough(in_flight));
        }
        self.poll(cpu) > 0 || in_flight > 0
    }

    /// As [`Channels::sleep_until_one_ends`], for a channel that is not of the group.
    fn sleep_for_one_alone(&self, cpu: &Cpu) -> bool {
        let channels = self.channels.borrow();
        let is_alone = |way: &&Rc<FileChannel>| {
            let channel = way.channel.borrow();
            !channel.is_grouped() && channel.in_flight() > 0
        };
        let Some(way) = channels.iter().flatten().find(is_alone) else {
            return false;
        };
        self.group.submit();
        let mut channel = way.channel.borrow_mut();
        let enough = self.enough(channel.in_flight());
        channel.wait(enough, &mut |end| self.end(cpu, way, end));
        true
    }

    /// How many of so many I/Os are worth waking up for.
    fn enough(&self, in_flight: usize) -> usize {
        match self.awaited.get() {
            0 => in_flight.div_ceil(2).min(WRITES_MAX),
            _ => 1,
        }
    }

    fn end(&self, cpu: &Cpu, way: &FileChannel, completion: Completion) {
        way.room.notify_one(cpu);
        let tag = completion.tag as usize;
        let pending = self.pending.borrow_mut()[tag].take();
        let pending = pending.expect("a tag is used once");
        self.free_tags.borrow_mut().push(tag);
        let is_awaited = pending.0.writes.borrow().is_none();
        self.awaited
            .set(self.awaited.get() - usize::from(is_awaited));
        let outcome = completion.result.map_err(|error| IoError::System {
            doing: doing(error.op),
            offset: error.offset,
            errno: error.errno.raw_os_error(),
        });
        pending.end(cpu, outcome);
    }

    /// The open file of this number, and the channel to it.
    fn way(&self, number: u32) -> Result<(Arc<OpenFile>, Rc<FileChannel>), StorageError> {
        let file = self.table.file(number);
        let mut channels = self.channels.borrow_mut();
        let slot = number as usize;
        if channels.len() <= slot {
            channels.resize_with(slot + 1, || None);
        }
        let known = channels[slot].as_ref();
        if let Some(way) = known.filter(|way| std::ptr::eq(way.file.as_ptr(), &*file)) {
            return Ok((file, way.clone()));
        }
        let way = Rc::new(FileChannel {
            file: Arc::downgrade(&file),
            channel: RefCell::new(file.target.channel_in(&self.group, self.depth)?),
            room: Notify::new(),
        });
        channels[slot] = Some(way.clone());
        Ok((file, way))
    }

    /// Closes the channels to files that have been closed.
    fn sweep(&self) {
        for way in self.channels.borrow_mut().iter_mut() {
            if way.as_ref().is_some_and(|way| way.file.strong_count() == 0) {
                *way = None;
            }
        }
    }

    /// Submits an I/O, when the channel has room.
    ///
    /// # Safety
    /// As [`Channel::submit`].
    async unsafe fn submit(
        &self,
        cpu: &Cpu,
        way: &FileChannel,
        op: Op,
        offset: u64,
        memory: &[Segment],
        pending: &Pending,
    ) {
        let tag = self.free_tags.borrow_mut().pop().unwrap_or_else(|| {
            self.pending.borrow_mut().push(None);
            self.pending.borrow().len() - 1
        });
        self.pending.borrow_mut()[tag] = Some(pending.clone());
        self.awaited
            .set(self.awaited.get() + usize::from(op != Op::Write));
        let io = Io {
            op,
            offset,
            segments: memory,
            tag: tag as u64,
        };
        loop {
            // SAFETY: the caller's.
            if unsafe { way.channel.borrow_mut().submit(io) }.is_ok() {
                return;
            }
            way.room.wait(cpu).await;
        }
    }
}

/// What a thread does that waits for another one.
fn rest(cpu: &Cpu, idle_turns: u32) {
    match idle_turns {
        0..SPIN_TURNS => std::hint::spin_loop(),
        SPIN_TURNS..YIELD_TURNS => std::thread::yield_now(),
        _ => cpu.park(),
    }
}

fn doing(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "flush",
    }
}

/// An error of storage as a whole, as that of an I/O.
fn failed(op: Op, offset: u64, error: &StorageError) -> IoError {
    let errno = match error {
        StorageError::File { source, .. } | StorageError::Uring(source) => source.raw_os_error(),
        StorageError::Thread(source) => source.raw_os_error(),
        StorageError::FixedSize(_) => Some(Errno::NOSPC.raw_os_error()),
        _ => None,
    };
    IoError::System {
        doing: doing(op),
        offset,
        errno: errno.unwrap_or(Errno::IO.raw_os_error()),
    }
}

impl Pending {
    fn end(&self, cpu: &Cpu, outcome: Result<(), IoError>) {
        if let Some(file) = self.0.writes.take() {
            file.end_write();
        }
        self.0.outcome.set(Some(outcome));
        if let Some(task) = self.0.waiter.take() {
            cpu.wake(task);
        }
    }
}

impl Sent for Pending {
    async fn wait(&self, cpu: &Cpu) -> Result<(), IoError> {
        loop {
            if let Some(outcome) = self.0.outcome.get() {
                return outcome;
            }
            self.watch(cpu);
            Pause::default().await;
        }
    }

    fn is_quiet(&self) -> bool {
        self.0.outcome.get().is_some()
    }

    fn watch(&self, cpu: &Cpu) {
        self.0.waiter.set(Some(cpu.current()));
    }
}

impl Backing for Channels {
    type Sent = Pending;

    fn pages(&self, file: u32) -> u64 {
        self.table.file(file).extent().div_ceil(PAGE_BYTES as u64)
    }

    fn while_open(&self, file: u32, f: impl FnOnce()) {
        if let Some(file) = self.table.find(file)
            && let Some(_gate) = file.try_enter()
        {
            f();
        }
    }

    async fn begin(
        &self,
        cpu: &Cpu,
        kind: Transfer,
        file: u32,
        run: &Run,
        memory: &DmaRegion,
    ) -> Pending {
        let pending = Pending::default();
        let offset = run.first * PAGE_BYTES as u64;
        let op = match kind {
            Transfer::Read => Op::Read,
            Transfer::Write | Transfer::WriteThrough => Op::Write,
        };
        let (file, way) = match self.way(file) {
            Ok(found) => found,
            Err(error) => {
                pending.end(cpu, Err(failed(op, offset, &error)));
                return pending;
            }
        };
        if op == Op::Write {
            let end = offset + (run.frames.len() * PAGE_BYTES) as u64;
            if let Err(error) = grow(cpu, &file, end.min(file.extent())).await {
                pending.end(cpu, Err(failed(op, offset, &error)));
                return pending;
            }
            while !file.try_begin_write() {
                cpu.yield_now().await;
            }
            *pending.0.writes.borrow_mut() = Some(file.clone());
        }
        let memory = stored(&file, op, offset, run, memory);
        if memory.is_empty() {
            pending.end(cpu, Ok(()));
        } else {
            // SAFETY: the frames are the backing's until the I/O is reported (`Backing::begin`). They live as
            // long as the cache, and the cache longer than this thread's channels.
            unsafe { self.submit(cpu, &way, op, offset, &memory, &pending) }.await;
        }
        pending
    }

    async fn flush(&self, cpu: &Cpu, file: u32) -> Result<(), IoError> {
        let (file, way) = self.way(file).map_err(|e| failed(Op::Flush, 0, &e))?;
        // A length that no page has written: a hole at the end.
        grow(cpu, &file, file.len())
            .await
            .map_err(|e| failed(Op::Flush, 0, &e))?;
        let pending = Pending::default();
        // SAFETY: a flush has no memory.
        unsafe { self.submit(cpu, &way, Op::Flush, 0, &[], &pending) }.await;
        pending.wait(cpu).await
    }
}

/// Makes the storage of a file at least `end` bytes long. Writes under way may be this thread's, so its other tasks run
/// meanwhile.
async fn grow(cpu: &Cpu, file: &OpenFile, end: u64) -> Result<(), StorageError> {
    while file.must_grow(end) {
        if file.try_begin_resize() {
            while file.has_writes() {
                cpu.yield_now().await;
            }
            let outcome = file.grow(end);
            file.end_resize();
            return outcome;
        }
        cpu.yield_now().await;
    }
    Ok(())
}

/// The memory of those pages of a run that begin below the end of the storage; a read makes the others zeros.
fn stored(file: &OpenFile, op: Op, offset: u64, run: &Run, memory: &DmaRegion) -> Vec<Segment> {
    let below = file.target.size_bytes().saturating_sub(offset);
    let count = below
        .div_ceil(PAGE_BYTES as u64)
        .min(run.frames.len() as u64);
    let (there, beyond) = run.frames.split_at(count as usize);
    if op == Op::Read {
        for &frame in beyond {
            // SAFETY: a whole frame, which is the backing's.
            unsafe {
                memory
                    .page_pointer(frame as usize)
                    .write_bytes(0, PAGE_BYTES)
            };
        }
    }
    let segment = |frame: &u32| Segment {
        pointer: memory.page_pointer(*frame as usize),
        len_bytes: PAGE_BYTES,
    };
    there.iter().map(segment).collect()
}
