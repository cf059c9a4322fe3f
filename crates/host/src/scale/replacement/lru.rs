//! Two lists: a page that was used once, by a scan, does not push out one that is used again and again.
//!
//! A page enters the inactive list. Victims come from its old end; one that was used again goes to the active list
//! instead. When the inactive list is too short it gets the old end of the active one. The lists are under one lock,
//! which misses take and hits do not.

use wharf_runtime::{Cpu, Lock, Op};

use super::{Candidates, Policy, STRETCH};
use crate::kernel::lru::{List, Lru};
use crate::scale::frame::{Frames, REFERENCED, REUSED};

/// See the module.
pub struct TwoLists(Lock<Lru>);

impl TwoLists {
    pub fn new(frames: u32) -> TwoLists {
        TwoLists(Lock::new(Lru::new(frames)))
    }
}

/// Moves old active pages to the inactive list if that is too short.
fn refill(lru: &mut Lru) -> u32 {
    let mut moved = 0;
    while moved < STRETCH && lru.inactive_is_low() {
        let Some(frame) = lru.take_oldest(List::Active) else {
            break;
        };
        lru.add(frame, List::Inactive);
        moved += 1;
    }
    moved
}

impl Policy for TwoLists {
    fn admit(&self, cpu: &Cpu, frame: u32) {
        self.0.with(cpu, |lru| {
            cpu.work(Op::ListUpdate, || lru.add(frame, List::Inactive));
        });
    }

    fn leave(&self, cpu: &Cpu, frame: u32) {
        self.0.with(cpu, |lru| {
            cpu.work(Op::ListUpdate, || lru.remove(frame));
        });
    }

    /// The oldest of the inactive list that were not used again. They go to its young end; those that are freed
    /// leave it.
    fn candidates(&self, cpu: &Cpu, frames: &Frames, out: &mut Candidates) -> u32 {
        self.0.with(cpu, |lru| {
            let moved = refill(lru);
            let looked = STRETCH.min(lru.len(List::Inactive));
            for _ in 0..looked {
                let oldest = lru.take_oldest(List::Inactive);
                let frame = oldest.expect("as many as were counted");
                if frames.is(frame, REUSED) {
                    frames.change(cpu, frame, 0, REFERENCED | REUSED);
                    lru.add(frame, List::Active);
                } else {
                    lru.add(frame, List::Inactive);
                    out.push(frame);
                }
            }
            cpu.work_n(Op::ListUpdate, moved + looked, || looked)
        })
    }

    fn verify(&self, cpu: &Cpu, pages: u64) {
        self.0.with(cpu, |lru| {
            let listed = lru.len(List::Inactive) + lru.len(List::Active);
            assert_eq!(u64::from(listed), pages, "every page is on a list");
        });
    }
}
