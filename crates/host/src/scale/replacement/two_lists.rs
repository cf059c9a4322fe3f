//! Two lists: a page that was used once, by a scan, does not push out one that is used again and
//! again.
//!
//! A page enters the inactive list. Victims come from its old end; one that was used again goes to
//! the active list instead. When the inactive list is too short it gets the old end of the active
//! one. Each memory node has such lists under one lock, which misses take and hits do not.
//!
//! As in Linux (mm/swap.c, mm/vmscan.c) the lock is taken for many pages at a time: new ones wait
//! in a batch of their CPU, and who looks for victims takes a stretch of the list off it first,
//! tries them without the lock, and puts those that stay back. Whose lines are fetched with the
//! lock held is told by [`TwoLists`]. What a frame's *place* says decides: whoever changes it from
//! [`BETWEEN`] to [`LISTED`], with the lock, puts the frame on a list; a page that leaves before
//! has made it [`ABSENT`], and what still names the frame in a batch means nothing.

use wharf_runtime::sync::{AtomicU32, Ordering};
use wharf_runtime::{Cpu, Lock, Op};
use wharf_wire::dma::RegisterError;

use super::{Candidates, STRETCH, SharedReplacement};
use crate::kit::node_lists::NodeLists;
use crate::kit::nodes::{Nodes, by_node};
use crate::kit::per_frame::per_frame;
use crate::kit::replacement::two_lists::{BATCH, List, TwoLists};
use crate::scale::frame::{Frames, REFERENCED, REUSED};

/// The frame has no page.
const ABSENT: u32 = 0;

/// It has one, and is in a batch, or with who looks for victims.
const BETWEEN: u32 = 1;

/// It is on a list; or its page is leaving, and whoever sees to that will take it off.
const LISTED: u32 = 2;

/// See the module.
pub struct SharedLists {
    lists: NodeLists,
    /// By frame.
    places: Box<[AtomicU32]>,
    /// Frames on their way to the inactive list, by CPU.
    batches: Box<[Lock<Vec<u32>>]>,
    /// Frames of a batch that go there at once.
    batch: usize,
}

impl SharedLists {
    /// Empty lists of a cache for so many CPUs. Their batches keep a 16th of the frames at most.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(nodes: Nodes, cpus: u32) -> Result<SharedLists, RegisterError> {
        let (slots, frames) = (cpus.next_power_of_two(), nodes.frames());
        Ok(SharedLists {
            lists: NodeLists::new(nodes)?,
            places: per_frame(frames, |_| AtomicU32::new(ABSENT))?.into(),
            batches: (0..slots).map(|_| Lock::new(Vec::new())).collect(),
            batch: BATCH.min((frames / (16 * cpus)).max(1) as usize),
        })
    }

    fn place(&self, frame: u32) -> &AtomicU32 {
        &self.places[frame as usize]
    }

    /// True if the frame was at `from`, and is at `to` now.
    fn moves(&self, frame: u32, from: u32, to: u32) -> bool {
        // Relaxed: what goes with LISTED is under the lock, and a frame is not given to another
        // page before who took it from the last one has returned from `remove`.
        let place = self.place(frame);
        place
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Puts frames, which are between the lists, on the inactive lists of their nodes: those of one
    /// node that follow one another under one lock.
    fn put(&self, cpu: &Cpu, frames: &Frames, batch: &[u32]) {
        let changed = |frame| frames.relink(cpu, frame);
        for (node, run) in by_node(self.lists.nodes(), batch) {
            self.lists.with(cpu, node, |lru| {
                cpu.work_n(Op::ListUpdate, run.len() as u32, || {
                    for frame in run {
                        if self.moves(*frame, BETWEEN, LISTED) {
                            lru.add(*frame, List::Inactive, changed);
                        }
                    }
                });
            });
        }
    }

    /// Puts all batches on the inactive lists.
    fn put_all(&self, cpu: &Cpu, frames: &Frames) {
        for batch in &self.batches {
            let waiting = batch.with(cpu, std::mem::take);
            self.put(cpu, frames, &waiting);
        }
    }

    /// Takes the oldest of the inactive list off it that were not used again; those that were go to
    /// the active one. Gives how many it looked at.
    fn isolate(&self, cpu: &Cpu, lru: &mut TwoLists, frames: &Frames, out: &mut Candidates) -> u32 {
        let changed = |frame| frames.relink(cpu, frame);
        let moved = lru.refill(STRETCH, changed, |_| ());
        let looked = STRETCH.min(lru.len(List::Inactive));
        for _ in 0..looked {
            let oldest = lru.take_oldest(List::Inactive, changed);
            let frame = oldest.expect("as many as were counted");
            if frames.is(frame, REUSED) {
                frames.change(cpu, frame, 0, REFERENCED | REUSED);
                lru.add(frame, List::Active, changed);
            } else if self.moves(frame, LISTED, BETWEEN) {
                out.push(frame);
            }
        }
        cpu.work_n(Op::ListUpdate, moved + looked, || looked)
    }
}

impl SharedReplacement for SharedLists {
    fn insert(&self, cpu: &Cpu, frames: &Frames, frame: u32) {
        self.place(frame).store(BETWEEN, Ordering::Relaxed);
        let own = cpu.index() as usize % self.batches.len();
        let full = self.batches[own].with(cpu, |batch| {
            batch.push(frame);
            (batch.len() >= self.batch).then(|| std::mem::take(batch))
        });
        if let Some(full) = full {
            self.put(cpu, frames, &full);
        }
    }

    fn remove(&self, cpu: &Cpu, frames: &Frames, frame: u32) {
        if self.place(frame).swap(ABSENT, Ordering::Relaxed) != LISTED {
            return;
        }
        let node = self.lists.nodes().of_frame(frame);
        self.lists.with(cpu, node, |lru| {
            cpu.work(Op::ListUpdate, || {
                // Who looks for victims may have taken it off a moment ago.
                if lru.list_of(frame).is_some() {
                    lru.remove(frame, |changed| frames.relink(cpu, changed));
                }
            });
        });
    }

    fn victims(&self, cpu: &Cpu, node: usize, frames: &Frames, out: &mut Candidates) -> u32 {
        let isolate =
            |lru: &mut TwoLists, out: &mut Candidates| self.isolate(cpu, lru, frames, out);
        match self.lists.with(cpu, node, |lru| isolate(lru, out)) {
            // What there is, is in batches.
            0 => {
                self.put_all(cpu, frames);
                self.lists.with(cpu, node, |lru| isolate(lru, out))
            }
            looked => looked,
        }
    }

    /// They go to the young end of the inactive list.
    fn keep(&self, cpu: &Cpu, frames: &Frames, stayed: Candidates) {
        self.put(cpu, frames, &stayed);
    }

    fn verify(&self, cpu: &Cpu, frames: &Frames, pages: u64) {
        self.put_all(cpu, frames);
        let lists = self.lists.nodes().from(0).map(|node| {
            self.lists.with(cpu, node, |lru| {
                lru.len(List::Inactive) + lru.len(List::Active)
            })
        });
        let listed: u32 = lists.sum();
        assert_eq!(u64::from(listed), pages, "every page is on a list");
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::{Arc, Mutex};

    use wharf_runtime::{CostTable, Machine, Seed, Side};
    use wharf_wire::dma::{DmaSpace, STAMP_BYTES};

    use super::*;

    const PAGES: u64 = 150;
    const LINE_NS: u64 = 100;

    /// What two CPUs spend, each of which enters so many frames, of its own half, after each other.
    fn spent_ns(nodes: u32) -> u64 {
        let mut costs = CostTable::free();
        for op in [Op::LineTransfer, Op::LockHandOver] {
            costs.cost_ns.insert(op.key().into(), LINE_NS as f64);
        }
        let mut machine = Machine::new(costs, false);
        let nodes = Nodes::new(nodes, 4096, 2);
        let lists = Arc::new(SharedLists::new(nodes, 2).unwrap());
        let frames = Arc::new(Frames::new(4096, &DmaSpace::new(STAMP_BYTES)).unwrap());
        let spent = Arc::new(Mutex::new(0));
        for number in 0..2 {
            let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
            let (lists, frames, spent) = (lists.clone(), frames.clone(), spent.clone());
            machine.spawn_main(cpu, "misses", move |cpu| async move {
                for page in 0..PAGES {
                    // In turn, so that each finds the other one's lines.
                    cpu.sleep_until(10_000 * (2 * page + number)).await;
                    let began_ns = cpu.now();
                    lists.insert(&cpu, &frames, (2048 * number + page) as u32);
                    *spent.lock().unwrap() += cpu.now() - began_ns;
                }
            });
        }
        machine.run_virtual(Seed(1)).unwrap();
        let spent = spent.lock().unwrap();
        *spent
    }

    /// With a lock for each page the lists alone kept 64 CPUs below what fast drives take.
    #[test]
    fn new_pages_take_the_lock_of_the_lists_many_at_a_time() {
        let batches = 2 * PAGES / BATCH as u64;
        // The lock, the ends of the list, and the newest page, which the other CPU has entered.
        let most_ns = batches * 3 * LINE_NS;
        let spent_ns = spent_ns(1);
        assert!(
            spent_ns > most_ns - 4 * LINE_NS && spent_ns <= most_ns,
            "{spent_ns} ns for {batches} batches"
        );
    }

    /// All sockets met at one lock.
    #[test]
    fn pages_of_two_sockets_do_not_meet() {
        assert_eq!(spent_ns(2), 0);
    }
}
