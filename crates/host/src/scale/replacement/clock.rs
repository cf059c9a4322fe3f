//! CLOCK: the hand is moved by one addition, so that every CPU has a stretch of its own and they
//! sweep side by side.

use wharf_runtime::sync::{AtomicU64, Ordering};
use wharf_runtime::{Cpu, Line, Op};

use super::{Candidates, STRETCH, SharedReplacement};
use crate::scale::frame::{Frames, REFERENCED};

/// See the module.
pub struct Sweep {
    frames: u32,
    /// The frame, when divided by their number.
    hand: AtomicU64,
    line: Line,
}

impl Sweep {
    /// The hand before the first of so many frames.
    pub fn new(frames: u32) -> Sweep {
        Sweep {
            frames,
            hand: AtomicU64::new(0),
            line: Line::new(),
        }
    }
}

impl SharedReplacement for Sweep {
    fn insert(&self, _: &Cpu, _: &Frames, _: u32) {}

    fn remove(&self, _: &Cpu, _: &Frames, _: u32) {}

    /// Those of the next stretch that were not used since the hand came by.
    fn victims(&self, cpu: &Cpu, _: usize, frames: &Frames, out: &mut Candidates) -> u32 {
        let stretch = STRETCH.min(self.frames);
        self.line.write(cpu);
        // Relaxed: a place to begin, which orders nothing.
        let from = self.hand.fetch_add(stretch.into(), Ordering::Relaxed);
        for step in from..from + u64::from(stretch) {
            let frame = (step % u64::from(self.frames)) as u32;
            if cpu.work(Op::ClockStep, || frames.may_go(frame)) {
                match frames.is(frame, REFERENCED) {
                    true => _ = frames.change(cpu, frame, 0, REFERENCED),
                    false => out.push(frame),
                }
            }
        }
        stretch
    }

    fn verify(&self, _: &Cpu, _: &Frames, _: u64) {}
}
