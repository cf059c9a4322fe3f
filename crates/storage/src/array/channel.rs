//! The channel of an array: divides I/Os into pieces, and runs a task for each.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::array::layout::Level;
use crate::array::member_channels::MemberChannels;
use crate::array::memory::cut;
use crate::array::mirror;
use crate::array::state::Shared;
use crate::array::stripe::{self, Part};
use crate::group::PollGroup;
use crate::io::{Completion, Io, IoError, Op, Segment};
use crate::target::{Channel, Ended, Full, admit};

/// Tasks that run at a time; further pieces of large I/Os wait.
const RUNNING_MAX: usize = 128;

type Work = Pin<Box<dyn Future<Output = Result<(), IoError>>>>;

pub(super) struct ArrayChannel {
    member_channels: Rc<MemberChannels>,
    depth: usize,
    ios: Vec<Option<Pending>>,
    ended: Ended,
    in_flight: usize,
    tasks: Vec<Option<Task>>,
    running: usize,
    waiting: VecDeque<Task>,
    ready: Vec<usize>,
}

/// An I/O of the caller.
struct Pending {
    tag: u64,
    op: Op,
    offset: u64,
    pieces: usize,
    error: Option<IoError>,
}

struct Task {
    work: Work,
    io: usize,
}

impl ArrayChannel {
    pub(super) fn new(shared: Arc<Shared>, depth: u32, group: Option<PollGroup>) -> ArrayChannel {
        ArrayChannel {
            member_channels: MemberChannels::new(shared, depth, group),
            depth: depth as usize,
            ios: (0..depth).map(|_| None).collect(),
            ended: Ended::default(),
            in_flight: 0,
            tasks: Vec::new(),
            running: 0,
            waiting: VecDeque::new(),
            ready: Vec::new(),
        }
    }

    /// The tasks of an I/O of `len_bytes`.
    fn divide(&self, io: &Io<'_>, len_bytes: u64) -> Vec<Work> {
        match (self.member_channels.shared.shape.level, io.op) {
            // What has ended is in the journal, durably.
            (Level::Raid5, Op::Flush) => vec![Box::pin(std::future::ready(Ok(())))],
            (_, Op::Flush) => vec![Box::pin(mirror::flush(self.member_channels.clone()))],
            (Level::Raid5, Op::Write) => self.divide_by_windows(io, len_bytes),
            (level, op) => self.divide_by_chunks(io, len_bytes, level, op),
        }
    }

    /// One task for each window, with all its chunks.
    fn divide_by_windows(&self, io: &Io<'_>, len_bytes: u64) -> Vec<Work> {
        let shape = self.member_channels.shared.shape;
        let mut windows: BTreeMap<u64, Vec<Part>> = BTreeMap::new();
        let mut done = 0;
        while done < len_bytes {
            let piece = shape.piece(io.offset + done, len_bytes - done);
            windows.entry(piece.window).or_default().push(Part {
                k: piece.k,
                begin: piece.begin,
                len_bytes: piece.len_bytes,
                segments: cut(io.segments, done, piece.len_bytes),
            });
            done += piece.len_bytes;
        }
        let work = |(window, parts)| {
            Box::pin(stripe::write(self.member_channels.clone(), window, parts)) as Work
        };
        windows.into_iter().map(work).collect()
    }

    /// One task for each chunk; for a write to mirrors, for each window of it.
    fn divide_by_chunks(&self, io: &Io<'_>, len_bytes: u64, level: Level, op: Op) -> Vec<Work> {
        let shape = self.member_channels.shared.shape;
        let mut work: Vec<Work> = Vec::new();
        let mut done = 0;
        while done < len_bytes {
            let at = io.offset + done;
            let piece = shape.piece(at, len_bytes - done);
            let to_chunk_end = shape.chunk_bytes - at % shape.chunk_bytes;
            let len = match (level, op) {
                (Level::Raid10, Op::Write) => piece.len_bytes,
                _ => to_chunk_end.min(len_bytes - done),
            };
            let segments = cut(io.segments, done, len);
            let (member_channels, window, k, begin) = (
                self.member_channels.clone(),
                piece.window,
                piece.k,
                piece.begin,
            );
            work.push(match (level, op) {
                (Level::Raid5, _) => {
                    Box::pin(stripe::read(member_channels, window, k, begin, segments))
                }
                (Level::Raid10, Op::Read) => {
                    Box::pin(mirror::read(member_channels, window, k, begin, segments))
                }
                (Level::Raid10, _) => {
                    Box::pin(mirror::write(member_channels, window, k, begin, segments))
                }
                (Level::Raid0, op) => {
                    let offset = shape.window_offset(window) + begin;
                    let member = shape.data_member(window, k);
                    Box::pin(mirror::single(
                        member_channels,
                        op,
                        member,
                        offset,
                        segments,
                    ))
                }
            });
            done += len;
        }
        work
    }

    fn spawn(&mut self, task: Task) {
        self.running += 1;
        let index = match self.tasks.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.tasks.push(None);
                self.tasks.len() - 1
            }
        };
        self.tasks[index] = Some(task);
        self.run(index);
    }

    /// Runs a task as far as it goes. One that has ended is not there any more.
    fn run(&mut self, index: usize) {
        let Some(task) = &mut self.tasks[index] else {
            return;
        };
        self.member_channels.set_running(index);
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(result) = task.work.as_mut().poll(&mut context) else {
            return;
        };
        let io = task.io;
        self.tasks[index] = None;
        self.running -= 1;
        let pending = self.ios[io].as_mut().expect("its tasks have not ended");
        pending.pieces -= 1;
        pending.error = pending.error.or(result.err());
        if pending.pieces == 0 {
            let pending = self.ios[io].take().expect("it was there");
            let (op, offset) = (pending.op, pending.offset);
            let error = pending.error.map(|e| IoError {
                op,
                offset,
                errno: e.errno,
            });
            self.ended.push(pending.tag, error.map_or(Ok(()), Err));
        }
    }

    /// Runs everything that can run.
    fn pass(&mut self, block: bool) {
        self.member_channels.pump(block);
        let mut ready = std::mem::take(&mut self.ready);
        self.member_channels.take_ready(&mut ready);
        for index in ready.drain(..) {
            self.run(index);
        }
        self.ready = ready;
        while self.running < RUNNING_MAX
            && let Some(task) = self.waiting.pop_front()
        {
            self.spawn(task);
        }
    }

    fn report(&mut self, done: &mut dyn FnMut(Completion)) -> usize {
        self.in_flight -= self.ended.len();
        self.ended.report(done)
    }
}

impl Channel for ArrayChannel {
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
        let size = self.member_channels.shared.shape.size_bytes();
        if let Err(error) = admit(&self.member_channels.shared.info, size, &io) {
            self.ended.push(io.tag, Err(error));
            return Ok(());
        }
        let asked = io.len_bytes();
        let len_bytes = asked.min(size.saturating_sub(io.offset));
        if io.op == Op::Read && asked > len_bytes {
            for beyond in cut(io.segments, len_bytes, asked - len_bytes) {
                let Segment { pointer, len_bytes } = beyond;
                // SAFETY: the caller promises that the memory is valid and nobody else's.
                unsafe { pointer.write_bytes(0, len_bytes) };
            }
        }
        let work = self.divide(&io, len_bytes);
        let index = self.ios.iter().position(Option::is_none);
        let index = index.expect("fewer are in flight than the depth");
        self.ios[index] = Some(Pending {
            tag: io.tag,
            op: io.op,
            offset: io.offset,
            pieces: work.len(),
            error: None,
        });
        let tasks = work.into_iter().map(|work| Task { work, io: index });
        self.waiting.extend(tasks);
        Ok(())
    }

    fn poll(&mut self, done: &mut dyn FnMut(Completion)) -> usize {
        self.pass(false);
        self.report(done)
    }

    fn wait(&mut self, min: usize, done: &mut dyn FnMut(Completion)) -> usize {
        let min = min.min(self.in_flight);
        self.pass(false);
        while self.ended.len() < min {
            let before = self.ended.len();
            self.pass(false);
            if self.ended.len() > before || self.ended.len() >= min {
                continue;
            }
            if self.member_channels.in_flight() > 0 {
                self.pass(true);
            } else {
                // Another thread has the window, or all of the journal.
                std::thread::yield_now();
            }
        }
        self.report(done)
    }
}

impl Drop for ArrayChannel {
    fn drop(&mut self) {
        self.wait(self.in_flight, &mut |_| {});
    }
}
