//! The requests that wait, and the thread that does them.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::block::{Block, Event};
use super::tell::{self, List};
use crate::calls::data::{data, out, read_at, write_at};
use crate::calls::storage::make_durable;
use crate::errno::{Errno, Outcome};
use crate::table::Ref;

/// How long the thread waits for another request before it ends.
const IDLE: Duration = Duration::from_secs(1);

/// By how much a request's priority can be below that of the caller (`AIO_PRIO_DELTA_MAX`).
const LOWER_MAX: c_int = 20;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Read,
    Write,
    Sync {
        data_only: bool,
    },
    /// No operation that there is: an error like any other.
    Unknown,
}

/// A request, with all that its block says: that is the program's.
pub(crate) struct Request {
    block: NonNull<Block>,
    descriptor: c_int,
    open: Ref,
    what: What,
    offset: i64,
    buffer: *mut c_void,
    bytes: usize,
    /// By how much its priority is below the caller's.
    lower: c_int,
    event: Event,
    list: Option<Arc<List>>,
}

// SAFETY: block and buffer are the request's until it has ended, by the rules of `<aio.h>`.
unsafe impl Send for Request {}

impl Request {
    /// The request of a block.
    ///
    /// # Errors
    /// `EINVAL` for a priority that there is not, also as the block's result.
    ///
    /// # Safety
    /// Block and buffer are there, and used by nobody else, until the request has ended.
    pub(crate) unsafe fn new(
        block: NonNull<Block>,
        open: Ref,
        what: What,
        list: Option<Arc<List>>,
    ) -> Outcome<Request> {
        // SAFETY: the caller's promise.
        let told = unsafe { block.as_ref() };
        let is_sync = matches!(what, What::Sync { .. });
        if !is_sync && !(0..=LOWER_MAX).contains(&told.priority) {
            told.end(Err(Errno(libc::EINVAL)));
            return Err(Errno(libc::EINVAL));
        }
        Ok(Request {
            block,
            descriptor: told.descriptor,
            open,
            what,
            offset: told.offset,
            buffer: told.buffer,
            bytes: told.bytes,
            lower: if is_sync { 0 } else { told.priority },
            event: told.event,
            list,
        })
    }

    fn block(&self) -> &Block {
        // SAFETY: it is there until the request has ended.
        unsafe { self.block.as_ref() }
    }

    fn order(&self) -> Order {
        Order {
            description: self.open.page().id,
            lower: self.lower,
            is_sync: matches!(self.what, What::Sync { .. }),
        }
    }

    fn perform(&self) -> Outcome<usize> {
        let offset = || u64::try_from(self.offset).map_err(|_| Errno(libc::EINVAL));
        match self.what {
            // SAFETY: the request's buffer.
            What::Read => read_at(&self.open, offset()?, unsafe {
                out(self.buffer, self.bytes)
            }),
            What::Write => {
                // SAFETY: the request's buffer.
                let data = unsafe { data(self.buffer, self.bytes) };
                write_at(&self.open, offset()?, data, false).map(|(_, bytes)| bytes)
            }
            What::Sync { data_only } => make_durable(&self.open, data_only).map(|()| 0),
            What::Unknown => Err(Errno(libc::EINVAL)),
        }
    }

    /// Tells of its end, which its block says already.
    fn tell(self) {
        tell::ended();
        tell::tell(&self.event);
        if let Some(list) = self.list {
            list.one_has_ended();
        }
    }
}

/// What decides about the order of a request among others.
#[derive(Debug, Clone, Copy)]
struct Order {
    description: u64,
    lower: c_int,
    is_sync: bool,
}

/// Where a new request goes among those that wait.
fn place(waiting: impl ExactSizeIterator<Item = Order> + Clone, new: Order) -> usize {
    let end = waiting.len();
    if new.is_sync {
        return end;
    }
    let mine = |order: &Order| order.description == new.description;
    let syncs = waiting.clone().enumerate();
    let syncs = syncs.filter(|(_, order)| mine(order) && order.is_sync);
    let from = syncs.last().map_or(0, |(at, _)| at + 1);
    let mut rest = waiting.enumerate().skip(from);
    rest.find(|(_, order)| mine(order) && order.lower > new.lower)
        .map_or(end, |(at, _)| at)
}

struct Queue {
    waiting: VecDeque<Request>,
    /// What the thread is about: the descriptor, and the block.
    running: Option<(c_int, NonNull<Block>)>,
    has_thread: bool,
}

// SAFETY: the block that runs is compared with others alone.
unsafe impl Send for Queue {}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    waiting: VecDeque::new(),
    running: None,
    has_thread: false,
});

/// There is a new request.
static NEW: Condvar = Condvar::new();

/// Nothing else of this library's is locked while this is.
fn queue() -> MutexGuard<'static, Queue> {
    QUEUE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Has a request done.
///
/// # Errors
/// `EAGAIN` if there can be no thread to do it.
pub(crate) fn add(request: Request) -> Outcome<()> {
    let mut queue = queue();
    if !queue.has_thread {
        tell::start(work, ptr::null_mut(), ptr::null())?;
        queue.has_thread = true;
    }
    request.block().begin();
    let at = place(queue.waiting.iter().map(Request::order), request.order());
    queue.waiting.insert(at, request);
    NEW.notify_one();
    Ok(())
}

/// The thread.
extern "C" fn work(_: *mut c_void) -> *mut c_void {
    let mut locked = queue();
    loop {
        if let Some(request) = locked.waiting.pop_front() {
            locked.running = Some((request.descriptor, request.block));
            drop(locked);
            let outcome = request.perform();
            locked = queue();
            // Together: who finds it ended does not find it running.
            request.block().end(outcome);
            locked.running = None;
            drop(locked);
            request.tell();
            locked = queue();
            continue;
        }
        let (again, waited) = NEW
            .wait_timeout(locked, IDLE)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        locked = again;
        if waited.timed_out() && locked.waiting.is_empty() {
            locked.has_thread = false;
            return ptr::null_mut();
        }
    }
}

/// What came of cancelling: the numbers are those of `<aio.h>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancelled {
    All = 0,
    NotAll = 1,
    NoneLeft = 2,
}

/// Cancels what waits of a descriptor's requests, or one of them.
///
/// # Errors
/// `EINVAL` if the one is none of them, though it is under way.
///
/// # Safety
/// The block is there.
pub(crate) unsafe fn cancel(descriptor: c_int, one: Option<NonNull<Block>>) -> Outcome<Cancelled> {
    let mut queue = queue();
    // SAFETY: the caller's promise.
    if let Some(block) = one.map(|one| unsafe { one.as_ref() }) {
        if block.descriptor != descriptor {
            return Err(Errno(libc::EINVAL));
        }
        if !block.is_under_way() {
            return Ok(Cancelled::NoneLeft);
        }
    }
    let is_meant = |of: c_int, block| of == descriptor && one.is_none_or(|one| one == block);
    let all = std::mem::take(&mut queue.waiting).into_iter();
    let (ended, left): (VecDeque<_>, VecDeque<_>) =
        all.partition(|request| is_meant(request.descriptor, request.block));
    queue.waiting = left;
    let runs = queue.running.is_some_and(|(of, block)| is_meant(of, block));
    for request in &ended {
        request.block().end(Err(Errno(libc::ECANCELED)));
    }
    drop(queue);
    let has_ended = !ended.is_empty();
    ended.into_iter().for_each(Request::tell);
    match (runs, has_ended) {
        (true, _) => Ok(Cancelled::NotAll),
        (false, true) => Ok(Cancelled::All),
        (false, false) if one.is_some() => Err(Errno(libc::EINVAL)),
        (false, false) => Ok(Cancelled::NoneLeft),
    }
}

/// What a fork must find in order.
pub(crate) struct Forking(MutexGuard<'static, Queue>);

/// Before a fork: no other thread is amid changing the queue.
pub(crate) fn before_fork() -> Forking {
    Forking(queue())
}

impl Forking {
    /// In the child: the requests are the parent's, and so is the thread.
    pub(crate) fn in_child(mut self) {
        std::mem::forget(std::mem::take(&mut self.0.waiting));
        self.0.running = None;
        self.0.has_thread = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests as `(description, lower)`, made one after the other; -1 for one that makes durable. Gives the order in which they
    /// are done, by the numbers in which they were made.
    fn done(made: &[(u64, c_int)]) -> Vec<usize> {
        let mut waiting: Vec<(usize, Order)> = Vec::new();
        for (number, &(description, lower)) in made.iter().enumerate() {
            let order = Order {
                description,
                lower: lower.max(0),
                is_sync: lower < 0,
            };
            let at = place(waiting.iter().map(|(_, order)| *order), order);
            waiting.insert(at, (number, order));
        }
        waiting.into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn equal_requests_are_done_in_the_order_in_which_they_were_made() {
        assert_eq!(done(&[(1, 0), (1, 0), (2, 0), (1, 0)]), [0, 1, 2, 3]);
    }

    #[test]
    fn a_higher_priority_goes_first_among_those_of_one_description() {
        assert_eq!(done(&[(1, 5), (1, 5), (1, 0), (1, 3)]), [2, 3, 0, 1]);
        assert_eq!(done(&[(1, 5), (2, 0), (2, 9), (1, 5)]), [0, 1, 2, 3]);
    }

    #[test]
    fn nothing_passes_what_makes_a_file_durable() {
        assert_eq!(done(&[(1, 9), (1, -1), (1, 0)]), [0, 1, 2]);
        assert_eq!(done(&[(1, 9), (2, -1), (1, 0)]), [2, 0, 1]);
        assert_eq!(done(&[(1, -1), (1, 9), (1, 0), (1, -1)]), [0, 2, 1, 3]);
    }
}
