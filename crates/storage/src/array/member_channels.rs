//! One thread's channels to all members, and the I/Os on them that tasks wait for.
//!
//! What an array does for an I/O is written straight on, as async functions. Their executor is the
//! channel of the array: it runs a task when an I/O that the task began has ended.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::array::state::{Shared, WindowGuard};
use crate::array::superblock::absent;
use crate::buffer::AlignedBuffer;
use crate::group::PollGroup;
use crate::io::{Io, IoError, Op, Segment};
use crate::target::Channel;

/// One thread's channels to all members.
pub(super) struct MemberChannels {
    pub(super) shared: Arc<Shared>,
    depth: u32,
    /// What the members' channels are waited for in, if somebody waits for more than the array.
    group: Option<PollGroup>,
    /// The task that is running.
    running: Cell<usize>,
    inner: RefCell<Inner>,
    pool: RefCell<Vec<AlignedBuffer>>,
}

struct Inner {
    member_channels: Vec<MemberChannel>,
    /// The member channel of each member, once it is used.
    lane_of: Vec<Option<usize>>,
    requests: Vec<Request>,
    free: Vec<usize>,
    /// Tasks one of whose I/Os has ended.
    ready: Vec<usize>,
    /// Tasks that wait for other threads.
    stalled: Vec<usize>,
}

struct MemberChannel {
    generation: u32,
    channel: Box<dyn Channel>,
    /// Requests that found the channel full.
    backlog: VecDeque<usize>,
    /// Flushes that are asked for, and those that the flush in flight is for.
    flushes: Flushes,
}

/// Flushes of one member channel are gathered: one is in flight at a time, and all that are asked for meanwhile, each when
/// the writes it is for have ended, become one when that ends.
#[derive(Default)]
struct Flushes {
    asked: Vec<usize>,
    in_flight: Vec<usize>,
}

struct Request {
    op: Op,
    offset: u64,
    segments: Vec<Segment>,
    task: usize,
    result: Option<Result<(), IoError>>,
}

impl MemberChannels {
    pub(super) fn new(
        shared: Arc<Shared>,
        depth: u32,
        group: Option<PollGroup>,
    ) -> Rc<MemberChannels> {
        let members = shared.shape.members as usize;
        Rc::new(MemberChannels {
            shared,
            depth,
            group,
            running: Cell::new(0),
            inner: RefCell::new(Inner {
                member_channels: Vec::new(),
                lane_of: vec![None; members],
                requests: Vec::new(),
                free: Vec::new(),
                ready: Vec::new(),
                stalled: Vec::new(),
            }),
            pool: RefCell::new(Vec::new()),
        })
    }

    /// Says which task runs from here on.
    pub(super) fn set_running(&self, task: usize) {
        self.running.set(task);
    }

    /// Begins an I/O on a member. The ticket has to be awaited before the memory of `segments` goes.
    pub(super) fn start(
        self: &Rc<Self>,
        member: u32,
        op: Op,
        offset: u64,
        segments: Vec<Segment>,
    ) -> Ticket {
        let mut inner = self.inner.borrow_mut();
        let request = Request {
            op,
            offset,
            segments,
            task: self.running.get(),
            result: None,
        };
        let index = match inner.free.pop() {
            Some(index) => {
                inner.requests[index] = request;
                index
            }
            None => {
                inner.requests.push(request);
                inner.requests.len() - 1
            }
        };
        match self.member_channel(&mut inner, member) {
            Some(member_channel) if op == Op::Flush => inner.member_channels[member_channel]
                .flushes
                .asked
                .push(index),
            Some(member_channel) => inner.submit(member_channel, index),
            None => inner.requests[index].result = Some(Err(absent(op, offset))),
        }
        Ticket {
            member_channels: self.clone(),
            index,
        }
    }

    /// Reads a piece that begins in `window` from a member, without a lock; an error if the member does not hold what
    /// it should of all of it, or got another target meanwhile.
    pub(super) async fn read(
        self: &Rc<Self>,
        member: u32,
        window: u64,
        begin: u64,
        segments: &[Segment],
    ) -> Result<(), IoError> {
        let shape = self.shared.shape;
        let offset = shape.window_offset(window) + begin;
        let len: u64 = segments.iter().map(|s| s.len_bytes as u64).sum();
        let last = window + (begin + len - 1) / shape.window_bytes();
        let generation = self.shared.generation(member);
        if !self.shared.usable(member, last) {
            return Err(absent(Op::Read, offset));
        }
        let ticket = self.start(member, Op::Read, offset, segments.to_vec());
        ticket.await?;
        if self.shared.generation(member) != generation {
            return Err(absent(Op::Read, offset));
        }
        Ok(())
    }

    /// The member channel of a member's present target.
    fn member_channel(&self, inner: &mut Inner, member: u32) -> Option<usize> {
        let generation = self.shared.generation(member);
        if let Some(member_channel) = inner.lane_of[member as usize]
            && inner.member_channels[member_channel].generation == generation
        {
            return Some(member_channel);
        }
        // The old one, if any, stays for what is still in flight on it.
        let target = self.shared.target(member)?;
        let channel = match &self.group {
            Some(group) => target.channel_in(group, self.depth).ok()?,
            None => target.channel(self.depth).ok()?,
        };
        inner.member_channels.push(MemberChannel {
            generation,
            channel,
            backlog: VecDeque::new(),
            flushes: Flushes::default(),
        });
        inner.lane_of[member as usize] = Some(inner.member_channels.len() - 1);
        inner.lane_of[member as usize]
    }

    /// I/Os in flight to a member.
    pub(super) fn load(&self, member: u32) -> usize {
        let inner = self.inner.borrow();
        let member_channel = inner.lane_of[member as usize]
            .map(|member_channel| &inner.member_channels[member_channel]);
        member_channel.map_or(0, |member_channel| {
            member_channel.channel.in_flight() + member_channel.backlog.len()
        })
    }

    /// Takes what has ended, and begins what had no room; waits for something if `block`.
    pub(super) fn pump(&self, block: bool) {
        let mut inner = self.inner.borrow_mut();
        let inner = &mut *inner;
        (0..inner.member_channels.len())
            .for_each(|member_channel| inner.submit_flushes(member_channel));
        let mut ended = Vec::new();
        let busiest = (0..inner.member_channels.len())
            .max_by_key(|l| inner.member_channels[*l].channel.in_flight());
        for (index, member_channel) in inner.member_channels.iter_mut().enumerate() {
            let mut note = |c: crate::io::Completion| ended.push((c.tag as usize, c.result));
            if block && Some(index) == busiest && member_channel.channel.in_flight() > 0 {
                member_channel.channel.wait(1, &mut note);
            } else {
                member_channel.channel.poll(&mut note);
            }
        }
        for (request, result) in ended {
            inner.end(request, result);
        }
        for member_channel in 0..inner.member_channels.len() {
            while let Some(request) = inner.member_channels[member_channel].backlog.pop_front() {
                inner.submit(member_channel, request);
                if !inner.member_channels[member_channel].backlog.is_empty()
                    && inner.member_channels[member_channel].channel.in_flight()
                        == inner.member_channels[member_channel].channel.depth()
                {
                    break;
                }
            }
        }
    }

    /// I/Os that members have.
    pub(super) fn in_flight(&self) -> usize {
        let inner = self.inner.borrow();
        let waiting = |l: &MemberChannel| l.channel.in_flight() + l.flushes.asked.len();
        inner.member_channels.iter().map(waiting).sum()
    }

    /// Moves the tasks that may run to `out`.
    pub(super) fn take_ready(&self, out: &mut Vec<usize>) {
        let mut inner = self.inner.borrow_mut();
        out.append(&mut inner.ready);
        out.append(&mut inner.stalled);
    }

    /// Lets the task go on at the next pass, when another thread may have made way.
    pub(super) fn stall(self: &Rc<Self>) -> impl Future<Output = ()> + use<> {
        let member_channels = self.clone();
        let mut stalled = false;
        std::future::poll_fn(move |_| {
            if stalled {
                return Poll::Ready(());
            }
            stalled = true;
            let task = member_channels.running.get();
            member_channels.inner.borrow_mut().stalled.push(task);
            Poll::Pending
        })
    }

    /// Locks a window.
    pub(super) async fn lock(self: &Rc<Self>, window: u64) -> WindowGuard {
        loop {
            if let Some(guard) = self.shared.try_lock(window) {
                return guard;
            }
            self.stall().await;
        }
    }

    /// Memory for up to a window, with anything in it.
    pub(super) fn scratch(self: &Rc<Self>, len_bytes: u64) -> Scratch {
        let room = self.shared.shape.window_bytes() as usize;
        let buffer = self.pool.borrow_mut().pop();
        Scratch {
            buffer: Some(buffer.unwrap_or_else(|| AlignedBuffer::new(room))),
            len_bytes: len_bytes as usize,
            member_channels: self.clone(),
        }
    }
}

impl Inner {
    /// A member's I/O has ended; a flush ends all that it is for.
    fn end(&mut self, request: usize, result: Result<(), IoError>) {
        let flushed = self
            .member_channels
            .iter_mut()
            .map(|member_channel| &mut member_channel.flushes.in_flight);
        let mut ended = match flushed.into_iter().find(|f| f.first() == Some(&request)) {
            Some(flushes) => std::mem::take(flushes),
            None => vec![request],
        };
        for request in ended.drain(..) {
            self.requests[request].result = Some(result);
            self.ready.push(self.requests[request].task);
        }
    }

    /// Begins one flush for all that are asked for, unless one is in flight.
    fn submit_flushes(&mut self, member_channel: usize) {
        let flushes = &mut self.member_channels[member_channel].flushes;
        if flushes.in_flight.is_empty() && !flushes.asked.is_empty() {
            flushes.in_flight = std::mem::take(&mut flushes.asked);
            let first = flushes.in_flight[0];
            self.submit(member_channel, first);
        }
    }

    fn submit(&mut self, member_channel: usize, index: usize) {
        let request = &self.requests[index];
        let io = Io {
            op: request.op,
            offset: request.offset,
            segments: &request.segments,
            tag: index as u64,
        };
        let member_channel = &mut self.member_channels[member_channel];
        // SAFETY: the memory is that of the array's caller, or scratch memory of a task, which awaits its tickets
        // before it lets the memory go; the array's channel ends all tasks before it is gone.
        if unsafe { member_channel.channel.submit(io) }.is_err() {
            member_channel.backlog.push_back(index);
        }
    }
}

/// An I/O on a member, to be awaited.
pub(super) struct Ticket {
    member_channels: Rc<MemberChannels>,
    index: usize,
}

impl Future for Ticket {
    type Output = Result<(), IoError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = self.member_channels.inner.borrow_mut();
        match inner.requests[self.index].result.take() {
            Some(result) => {
                inner.free.push(self.index);
                Poll::Ready(result)
            }
            None => Poll::Pending,
        }
    }
}

/// Waits for I/Os on several members: those that failed, with the member. All have ended then.
pub(super) async fn failures(tickets: Vec<(u32, Ticket)>) -> Vec<(u32, IoError)> {
    let mut failed = Vec::new();
    for (member, ticket) in tickets {
        if let Err(error) = ticket.await {
            failed.push((member, error));
        }
    }
    failed
}

/// Memory from the pool.
pub(super) struct Scratch {
    buffer: Option<AlignedBuffer>,
    len_bytes: usize,
    member_channels: Rc<MemberChannels>,
}

impl Scratch {
    /// All of it.
    pub(super) fn segment(&mut self) -> Segment {
        Segment::of(self)
    }
}

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer.as_ref().expect("there until it is dropped")[..self.len_bytes]
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.as_mut().expect("there until it is dropped")[..self.len_bytes]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.member_channels
            .pool
            .borrow_mut()
            .extend(self.buffer.take());
    }
}
