//! I/Os on a few threads: files and devices by plain `preadv` and `pwritev`, where io_uring is not to be had or not wanted,
//! and [storage of users' own](crate::custom).
//!
//! A target has one pool of threads and one queue in front of it; each channel has a box into which the
//! threads put what has ended.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use rustix::io::Errno;
use wharf_runtime::worker::Worker;

use crate::error::StorageError;
use crate::file::{FileCore, Next};
use crate::io::{Completion, Io, IoError, Op};
use crate::target::{Channel, Full, TargetInfo, admit};
use crate::transfer::Transfer;

/// What the threads of a pool do I/Os on.
pub(crate) trait Serve: Send + Sync {
    /// What it is.
    fn info(&self) -> &TargetInfo;

    /// Its size in bytes.
    fn size_bytes(&self) -> u64;

    /// Does the whole of an I/O. The memory of the transfer is valid, and as the transfer's [`Op`] needs it.
    fn run(&self, transfer: &mut Transfer, scratch: &mut Scratch) -> Result<(), IoError>;
}

/// Memory of a thread that its I/Os use again and again.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Pieces of memory for one system call.
    vector: Vec<libc::iovec>,
    /// Bytes of one I/O in a row.
    pub(crate) bytes: Vec<u8>,
}

impl Serve for FileCore {
    fn info(&self) -> &TargetInfo {
        &self.info
    }

    fn size_bytes(&self) -> u64 {
        FileCore::size_bytes(self)
    }

    fn run(&self, transfer: &mut Transfer, scratch: &mut Scratch) -> Result<(), IoError> {
        run(self, transfer, &mut scratch.vector)
    }
}

/// The threads of a target. Dropping it ends them; the target does, or the last channel.
pub(crate) struct Pool {
    jobs: Arc<Jobs>,
    workers: Vec<Worker>,
}

impl Pool {
    /// Threads that do what the channels of a target ask for.
    pub(crate) fn new(core: &Arc<dyn Serve>, threads: u32) -> Result<Arc<Pool>, StorageError> {
        let jobs = Arc::new(Jobs::default());
        let mut workers = Vec::new();
        for index in 0..threads.max(1) {
            let (core, jobs) = (core.clone(), jobs.clone());
            let worker = Worker::spawn(&format!("storage-{index}"), move || jobs.serve(&*core));
            workers.push(worker.map_err(StorageError::Thread)?);
        }
        Ok(Arc::new(Pool { jobs, workers }))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.jobs.queue).closed = true;
        self.jobs.arrived.notify_all();
        self.workers.clear();
    }
}

struct Job {
    transfer: Transfer,
    ended: Arc<Inbox>,
}

// SAFETY: the pointers of a transfer are to memory that `submit`'s caller leaves alone until the I/O is
// reported; which thread uses it is of no consequence.
unsafe impl Send for Job {}

#[derive(Default)]
struct Jobs {
    queue: Mutex<JobQueue>,
    arrived: Condvar,
}

#[derive(Default)]
struct JobQueue {
    waiting: VecDeque<Job>,
    closed: bool,
}

impl Jobs {
    /// The life of a thread of the pool.
    fn serve(&self, core: &dyn Serve) {
        let mut scratch = Scratch::default();
        while let Some(mut job) = self.take() {
            let result = core.run(&mut job.transfer, &mut scratch);
            job.ended.push(job.transfer, result);
        }
    }

    fn take(&self) -> Option<Job> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.waiting.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue = self
                .arrived
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Does the whole of an I/O.
pub(crate) fn run(
    core: &FileCore,
    transfer: &mut Transfer,
    vector: &mut Vec<libc::iovec>,
) -> Result<(), IoError> {
    if transfer.op == Op::Flush {
        return rustix::fs::fdatasync(core.buffered.as_fd()).map_err(|e| transfer.error(e));
    }
    loop {
        let (way, limit) = match core.next(transfer) {
            Next::Done => return Ok(()),
            Next::Zeros => {
                // SAFETY: `submit`'s caller leaves the memory alone until the I/O is reported.
                unsafe { transfer.fill_with_zeros() };
                return Ok(());
            }
            Next::Step(way, limit) => (way, limit),
        };
        transfer.vector(limit, vector);
        let moved = step(core, transfer, way, vector).and_then(|n| core.account(transfer, n));
        match moved {
            Ok(()) | Err(Errno::INTR) => {}
            Err(errno) => return Err(transfer.error(errno)),
        }
    }
}

/// One system call; gives the bytes that it moved.
fn step(
    core: &FileCore,
    transfer: &Transfer,
    way: crate::file::Way,
    vector: &[libc::iovec],
) -> Result<u64, Errno> {
    use std::os::fd::AsRawFd;
    let fd = core.file(way).as_raw_fd();
    let (list, count) = (vector.as_ptr(), vector.len() as i32);
    let offset = transfer.offset as i64;
    let moved = match transfer.op {
        // SAFETY: the list and the memory it names are valid: `submit`'s caller promises that.
        Op::Read => unsafe { libc::preadv(fd, list, count, offset) },
        // SAFETY: as above.
        Op::Write => unsafe { libc::pwritev(fd, list, count, offset) },
        Op::Flush => unreachable!("a flush moves nothing"),
    };
    u64::try_from(moved)
        .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// What has ended of one channel's I/Os.
#[derive(Default)]
struct Inbox {
    list: Mutex<Vec<(Transfer, Result<(), IoError>)>>,
    arrived: Condvar,
}

// SAFETY: as for `Job`: the transfers in it are not dereferenced any more.
unsafe impl Send for Inbox {}
// SAFETY: all access is through the mutex.
unsafe impl Sync for Inbox {}

impl Inbox {
    fn push(&self, transfer: Transfer, result: Result<(), IoError>) {
        lock(&self.list).push((transfer, result));
        self.arrived.notify_one();
    }
}

/// One thread's way to a target through its pool.
pub(crate) struct ThreadsChannel {
    core: Weak<dyn Serve>,
    jobs: Weak<Jobs>,
    /// A channel outside of a group keeps the target, and the threads.
    own: Option<(Arc<dyn Serve>, Arc<Pool>)>,
    ended: Arc<Inbox>,
    depth: usize,
    in_flight: usize,
    /// Transfers that can be used again.
    idle: Vec<Transfer>,
    reported: Vec<(Transfer, Result<(), IoError>)>,
    /// A channel stays on its thread.
    thread: PhantomData<*mut ()>,
}

impl ThreadsChannel {
    /// A channel that keeps the target open.
    pub(crate) fn new(core: Arc<dyn Serve>, pool: Arc<Pool>, depth: u32) -> ThreadsChannel {
        let mut channel = ThreadsChannel::of_group(&core, &pool, depth);
        channel.own = Some((core, pool));
        channel
    }

    /// A channel that is of no use when the target is closed.
    pub(crate) fn of_group(core: &Arc<dyn Serve>, pool: &Arc<Pool>, depth: u32) -> ThreadsChannel {
        ThreadsChannel {
            core: Arc::downgrade(core),
            jobs: Arc::downgrade(&pool.jobs),
            own: None,
            ended: Arc::new(Inbox::default()),
            depth: depth as usize,
            in_flight: 0,
            idle: Vec::new(),
            reported: Vec::new(),
            thread: PhantomData,
        }
    }

    fn report(&mut self, done: &mut dyn FnMut(Completion)) -> usize {
        let count = self.reported.len();
        self.in_flight -= count;
        for (transfer, result) in self.reported.drain(..) {
            let tag = transfer.tag;
            self.idle.push(transfer);
            done(Completion { tag, result });
        }
        count
    }
}

impl Channel for ThreadsChannel {
    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    unsafe fn submit(&mut self, io: Io<'_>) -> Result<(), Full> {
        if self.in_flight == self.depth {
            return Err(Full);
        }
        self.in_flight += 1;
        let mut transfer = self.idle.pop().unwrap_or_else(Transfer::idle);
        transfer.begin(&io);
        let (Some(core), Some(jobs)) = (self.core.upgrade(), self.jobs.upgrade()) else {
            let error = transfer.error(Errno::BADF);
            self.ended.push(transfer, Err(error));
            return Ok(());
        };
        if let Err(error) = admit(core.info(), core.size_bytes(), &io) {
            self.ended.push(transfer, Err(error));
            return Ok(());
        }
        let ended = self.ended.clone();
        let job = Job { transfer, ended };
        lock(&jobs.queue).waiting.push_back(job);
        jobs.arrived.notify_one();
        Ok(())
    }

    fn poll(&mut self, done: &mut dyn FnMut(Completion)) -> usize {
        std::mem::swap(&mut *lock(&self.ended.list), &mut self.reported);
        self.report(done)
    }

    fn wait(&mut self, min: usize, done: &mut dyn FnMut(Completion)) -> usize {
        let min = min.min(self.in_flight);
        let mut list = lock(&self.ended.list);
        while list.len() < min {
            list = self
                .ended
                .arrived
                .wait(list)
                .unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut *list, &mut self.reported);
        drop(list);
        self.report(done)
    }
}

impl Drop for ThreadsChannel {
    fn drop(&mut self) {
        self.wait(self.in_flight, &mut |_| {});
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
