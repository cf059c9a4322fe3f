//! The block view of operations on files: the requests that they make in regions of a volume.
//!
//! It is an adapter: what threads plan, file by file, is moved to the files' regions; reads and writes become requests
//! of the request size, what is made durable a flush, what is cut or removed a discard. What only names files
//! makes none.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::{Behaviour, FileOpKind, Regions, Run, Runs};
use crate::request::{Op, PAGE_BYTES, Request};

/// Most bytes of a request that moves none: what its size can say, in whole pages.
const CONTROL_BYTES_MAX: u64 = u32::MAX as u64 / PAGE_BYTES * PAGE_BYTES;

/// Bytes of the volume that a thread is going to ask for, piece by piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlockRun {
    op: Op,
    at: u64,
    end: u64,
    /// Bytes of a read or write, at most.
    piece: u64,
}

impl BlockRun {
    /// What a run asks of the volume, if it asks for something.
    fn of(run: &Run, regions: &Regions) -> Option<BlockRun> {
        let op = match run.kind {
            // Who computes, and writes back, is not a volume's matter.
            FileOpKind::Read
            | FileOpKind::ReadWhole
            | FileOpKind::CrcWrite
            | FileOpKind::Nearest => Op::Read,
            FileOpKind::Write | FileOpKind::Append => Op::Write,
            FileOpKind::Fsync | FileOpKind::Fdatasync => Op::Flush,
            FileOpKind::Open | FileOpKind::Remove | FileOpKind::Truncate | FileOpKind::Punch => {
                Op::Discard
            }
            _ => return None,
        };
        let start = regions.start(run.file);
        run.counts().then_some(BlockRun {
            op,
            at: start + run.at,
            end: start + run.end,
            piece: run.piece,
        })
    }

    /// The next request; the run is shorter then.
    fn cut(&mut self, thread: u32) -> Request {
        let most = match self.op {
            Op::Read | Op::Write => self.piece,
            Op::Flush | Op::Discard => CONTROL_BYTES_MAX,
        };
        let bytes = (self.end - self.at).min(most);
        let request = Request {
            stream: thread,
            ..Request::new(self.op, self.at, bytes as u32)
        };
        self.at += bytes;
        request
    }
}

/// A stream of file operations' requests.
#[derive(Debug, Clone)]
pub struct FileGenerator {
    left: u64,
    initial: Vec<(u64, u64)>,
    regions: Regions,
    behaviour: Behaviour,
    /// Threads by the turns that they have had.
    turns: BinaryHeap<Reverse<(u64, u32)>>,
    planned: Vec<VecDeque<BlockRun>>,
    /// The thread whose requests are not to be parted, and how many turns it has had.
    alone: Option<(u64, u32)>,
    /// What a thread has just planned; empty in between.
    runs: Runs,
}

impl FileGenerator {
    pub(super) fn new(requests: u64, regions: Regions, behaviour: Behaviour) -> FileGenerator {
        let region = |(file, bytes): (u32, Option<u64>)| {
            let start = regions.start(file);
            Some((start, start + bytes?))
        };
        FileGenerator {
            left: requests,
            initial: (0..).zip(behaviour.initial()).filter_map(region).collect(),
            turns: (0..regions.threads)
                .map(|thread| Reverse((0, thread)))
                .collect(),
            planned: vec![VecDeque::new(); regions.threads as usize],
            alone: None,
            runs: Runs::new(),
            regions,
            behaviour,
        }
    }

    /// The bytes that exist when all begins, as (first, end), each in one file.
    pub fn initial(&self) -> &[(u64, u64)] {
        &self.initial
    }

    /// The next request of a thread that asks for it, and when it may be made, in nanoseconds from the beginning; nothing
    /// when all have been made. Equal orders of asking give equal requests.
    ///
    /// # Panics
    /// If threads read what others write: then the stream alone keeps the order.
    pub fn request_of(&mut self, thread: u32) -> Option<(Request, u64)> {
        let is_shared = self.behaviour.is_shared();
        assert!(!is_shared, "threads of a store are not asked one by one");
        self.left = self.left.checked_sub(1)?;
        let due_ns = match self.planned[thread as usize].is_empty() {
            true => self.behaviour.due_ns(thread),
            false => 0,
        };
        Some((self.make(thread), due_ns))
    }

    /// The next request of a thread.
    fn make(&mut self, thread: u32) -> Request {
        while self.planned[thread as usize].is_empty() {
            self.behaviour.plan(thread, &mut self.runs);
            self.move_planned(thread);
        }
        let runs = &mut self.planned[thread as usize];
        let run = runs.front_mut().expect("just planned");
        let request = run.cut(thread);
        if run.at == run.end {
            runs.pop_front();
        }
        request
    }

    /// Moves what a thread has planned to the regions. A store's neighbours are one, also in two files.
    fn move_planned(&mut self, thread: u32) {
        let planned = &mut self.planned[thread as usize];
        let joins = self.behaviour.is_shared();
        let runs = self.runs.drain(..);
        for run in runs.filter_map(|run| BlockRun::of(&run, &self.regions)) {
            match planned.back_mut() {
                Some(last) if joins && last.op == run.op && last.end == run.at => {
                    last.end = run.end;
                }
                _ => planned.push_back(run),
            }
        }
    }
}

impl Iterator for FileGenerator {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        let (made, thread) = self.alone.take().unwrap_or_else(|| {
            let Reverse(turn) = self.turns.pop().expect("there are threads");
            turn
        });
        let request = self.make(thread);
        // What others may read is not left half done.
        let next = made + self.behaviour.turns(thread);
        if self.behaviour.is_shared() && !self.planned[thread as usize].is_empty() {
            self.alone = Some((next, thread));
        } else {
            self.turns.push(Reverse((next, thread)));
        }
        Some(request)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}
