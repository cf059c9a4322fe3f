//! A manager's frames: which are free, which may be taken, in which order (CLOCK, by a [queue](SecondChance)).
//!
//! The hand passes only frames that might be taken: they are in a queue, in the order in which
//! their last pin was taken off. A frame at the head that was pinned again leaves the queue until
//! its pins are off; one that was used since it was last passed gets a second chance at the tail.
//! So a step of the hand costs the same however many frames clients hold, and clients may
//! pin a frame without the manager's help.

use wharf_runtime::{Cpu, Op};

use crate::kit::replacement::Look;
use crate::kit::replacement::second_chance::SecondChance;
use crate::tri::shared::Shared;

/// It is in the queue.
const QUEUED: u8 = 1;
/// It was used since the hand last passed.
const USED: u8 = 2;
/// Its content is being written to the drive from a copy.
const WRITING: u8 = 4;
/// A command that timed out may still use it.
const STUCK: u8 = 8;

/// A frame that is to be given another page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It was free.
    Free(u32),
    /// It holds this page, which is clean.
    Clean(u32, u64),
    /// It holds this page, which must be written first.
    Dirty(u32, u64),
}

/// See the module. Frames are numbered over all managers.
pub(super) struct Pool {
    first: u32,
    free: Vec<u32>,
    /// Those that may be taken.
    queue: SecondChance,
    marks: Box<[u8]>,
    /// Frames that wait for a command that timed out.
    stuck: u32,
    /// The version of each frame's content that the drive has.
    on_drive: Box<[u32]>,
}

impl Pool {
    /// All of `frames` frames from `first` on are free.
    pub(super) fn new(first: u32, frames: u32) -> Pool {
        Pool {
            first,
            free: (first..first + frames).rev().collect(),
            queue: SecondChance::default(),
            marks: vec![0; frames as usize].into(),
            stuck: 0,
            on_drive: vec![0; frames as usize].into(),
        }
    }

    /// The frames.
    pub(super) fn frames(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.marks.len() as u32
    }

    #[inline]
    fn mark(&mut self, frame: u32) -> &mut u8 {
        &mut self.marks[(frame - self.first) as usize]
    }

    /// A frame was used.
    #[inline]
    pub(super) fn set_used(&mut self, frame: u32) {
        *self.mark(frame) |= USED;
    }

    /// An open frame has no pins, and nothing of it is being written: it may be taken.
    pub(super) fn offer(&mut self, frame: u32) {
        let mark = self.mark(frame);
        if *mark & (QUEUED | WRITING) == 0 {
            *mark |= QUEUED;
            self.queue.insert(frame);
        }
    }

    /// A frame is empty.
    pub(super) fn give_back(&mut self, frame: u32) {
        *self.mark(frame) = 0;
        self.free.push(frame);
    }

    /// True if a frame may be there to take.
    pub(super) fn has_any(&self) -> bool {
        !self.free.is_empty() || !self.queue.is_empty()
    }

    /// A command that timed out may still use a frame, or no more.
    #[cold]
    pub(super) fn set_stuck(&mut self, frame: u32, stuck: bool) {
        let mark = self.mark(frame);
        debug_assert!((*mark & STUCK != 0) != stuck, "a command to a frame");
        *mark = *mark & !STUCK | if stuck { STUCK } else { 0 };
        match stuck {
            true => self.stuck += 1,
            false => self.stuck -= 1,
        }
    }

    /// True while a command that timed out may still use a frame.
    pub(super) fn has_stuck(&self) -> bool {
        self.stuck > 0
    }

    /// True if a frame may never be there to take, because of a command that timed out: all that the
    /// drive answers for rest with clients. Nothing can be taken now. Where pages do not stay with
    /// clients (`keeps` is false) none rests there.
    pub(super) fn is_hopeless(&self, cpu: &Cpu, shared: &Shared, keeps: bool) -> bool {
        let rests = |frame: u32| {
            let state = shared.frames.word_to_read(cpu, frame).state();
            keeps && !state.is_busy() && state.pins() > 0
        };
        let is_stuck = |frame: u32| self.marks[(frame - self.first) as usize] & STUCK != 0;
        self.has_stuck() && self.frames().all(|frame| is_stuck(frame) || rests(frame))
    }

    /// Takes a frame: its word is busy then, unless it is empty.
    pub(super) fn take(&mut self, cpu: &Cpu, shared: &Shared) -> Option<Taken> {
        if let Some(frame) = self.free.pop() {
            return Some(Taken::Free(frame));
        }
        let (first, marks) = (self.first, &mut self.marks);
        let mut taken = None;
        self.queue.victim(|frame| {
            cpu.work(Op::ClockStep, || ());
            let mark = &mut marks[(frame - first) as usize];
            let state = shared.frames.word_to_read(cpu, frame).state();
            let is_held = state.pins() > 0 || state.is_busy() || *mark & WRITING != 0;
            if !is_held && *mark & USED != 0 {
                *mark &= !USED;
                return Look::Used(1);
            }
            *mark &= !QUEUED;
            if is_held {
                // Offered again when that is over.
                return Look::Stays;
            }
            match shared.frames.word_to_write(cpu, frame).try_take() {
                Some(state) => {
                    let page = state.page().expect("an open frame has a page");
                    taken = Some(match state.is_dirty() {
                        true => Taken::Dirty(frame, page),
                        false => Taken::Clean(frame, page),
                    });
                    Look::Goes
                }
                // A client pinned it just now.
                None => Look::Stays,
            }
        });
        taken
    }

    /// Whether the drive does not have what a frame holds. A frame that comes back to a version
    /// after exactly 2^31 writes between two write-backs would fool it: minutes of nothing
    /// else, and any write-back or eviction between ends the count.
    pub(super) fn has_changed(&self, shared: &Shared, frame: u32) -> bool {
        shared.frames.version(frame) != Some(self.on_drive[(frame - self.first) as usize])
    }

    /// The drive has this version of a frame's content.
    pub(super) fn set_on_drive(&mut self, frame: u32, version: u32) {
        self.on_drive[(frame - self.first) as usize] = version;
    }

    /// The drive has what a frame holds, to which nobody writes now.
    pub(super) fn set_unchanged(&mut self, shared: &Shared, frame: u32) {
        let version = shared.frames.version(frame);
        self.set_on_drive(frame, version.expect("nobody writes to a busy frame"));
    }

    /// True while a frame's content is being written from a copy.
    pub(super) fn is_writing(&self, frame: u32) -> bool {
        self.marks[(frame - self.first) as usize] & WRITING != 0
    }

    /// A frame's content is being written from a copy, or no more.
    pub(super) fn set_writing(&mut self, frame: u32, writing: bool) {
        let mark = self.mark(frame);
        *mark = *mark & !WRITING | if writing { WRITING } else { 0 };
    }
}
