//! Memory nodes: what a machine with several sockets has of memory, each next to the CPUs of its
//! socket.
//!
//! Frames and clients are divided evenly, in order; services are on the first node. As in Linux a
//! CPU is given frames of its own node first, and each node has lists and a lock of its own
//! ([`DesignConfig::memory_nodes`]), so that CPUs of different sockets seldom meet there.
//!
//! [`DesignConfig::memory_nodes`]: crate::design::DesignConfig::memory_nodes

use std::ops::Range;

use wharf_runtime::sync::{AtomicU64, Ordering};
use wharf_runtime::{Cpu, Lock};
use wharf_wire::dma::RegisterError;

use crate::kit::per_frame::per_frame;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nodes {
    count: u32,
    frames: u32,
    clients: u32,
}

impl Nodes {
    /// `count` nodes, or as many as there are frames.
    pub fn new(count: u32, frames: u32, clients: u32) -> Nodes {
        Nodes {
            count: count.clamp(1, frames.max(1)),
            frames,
            clients: clients.max(1),
        }
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Frames of all of them.
    pub fn frames(self) -> u32 {
        self.frames
    }

    /// The node of a frame.
    #[inline]
    pub fn of_frame(self, frame: u32) -> usize {
        match self.count {
            1 => 0,
            count => (u64::from(frame) * u64::from(count) / u64::from(self.frames)) as usize,
        }
    }

    /// The node of a client, or of a service: their numbers follow those of the clients.
    pub fn of_client(self, client: u32) -> usize {
        match client < self.clients {
            true => (u64::from(client) * u64::from(self.count) / u64::from(self.clients)) as usize,
            false => 0,
        }
    }

    /// The frames of a node.
    pub fn frames_of(self, node: usize) -> Range<u32> {
        let first = |node: u64| {
            let whole = node * u64::from(self.frames);
            whole.div_ceil(self.count.into()) as u32
        };
        first(node as u64)..first(node as u64 + 1)
    }

    /// All nodes, from `home` on.
    pub fn from(self, home: usize) -> impl Iterator<Item = usize> + Clone {
        let count = self.count as usize;
        (home..home + count).map(move |node| node % count)
    }
}

/// Runs of frames of one node, with it.
pub fn by_node(nodes: Nodes, frames: &[u32]) -> impl Iterator<Item = (usize, &[u32])> {
    let alike = move |a: &u32, b: &u32| nodes.of_frame(*a) == nodes.of_frame(*b);
    let runs = frames.chunk_by(alike);
    runs.map(move |run| (nodes.of_frame(run[0]), run))
}

/// Frames that no CPU has and no page, by node: each node's behind a lock.
pub struct FreeFrames {
    nodes: Nodes,
    of_node: Box<[(Lock<Vec<u32>>, AtomicU64)]>,
}

impl FreeFrames {
    /// All frames.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn all(nodes: Nodes) -> Result<FreeFrames, RegisterError> {
        let of_node = |node| {
            let own = nodes.frames_of(node);
            let count = own.end - own.start;
            let frames = per_frame(count, |nth| own.end - 1 - nth)?;
            Ok((Lock::new(frames), AtomicU64::new(count.into())))
        };
        let of_node: Result<Box<[_]>, RegisterError> = nodes.from(0).map(of_node).collect();
        Ok(FreeFrames {
            nodes,
            of_node: of_node?,
        })
    }

    /// How many there are. Relaxed: who trusts it a moment too long looks for what is gone, or does
    /// without what has come.
    pub fn count(&self) -> u64 {
        let counts = self.of_node.iter();
        counts.map(|(_, count)| count.load(Ordering::Relaxed)).sum()
    }

    /// Moves up to `most` frames of one node to `own`: of the first from `home` on that has any.
    pub fn take(&self, cpu: &Cpu, home: usize, most: usize, own: &mut Vec<u32>) {
        let has_any = |node: &usize| self.of_node[*node].1.load(Ordering::Relaxed) > 0;
        for node in self.nodes.from(home).filter(has_any) {
            let (free, count) = &self.of_node[node];
            free.with(cpu, |free| {
                let from = free.len().saturating_sub(most);
                own.extend(free.drain(from..));
                count.store(from as u64, Ordering::Relaxed);
            });
            if !own.is_empty() {
                return;
            }
        }
    }

    /// Takes frames back, each to its node.
    pub fn give(&self, cpu: &Cpu, frames: &[u32]) {
        for (node, run) in by_node(self.nodes, frames) {
            let (free, count) = &self.of_node[node];
            free.with(cpu, |free| {
                free.extend_from_slice(run);
                count.store(free.len() as u64, Ordering::Relaxed);
            });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use wharf_runtime::{CostTable, Machine, Seed, Side};

    use super::*;

    #[test]
    fn every_frame_is_of_the_node_that_has_it_and_every_client_is_on_one() {
        for (count, frames, clients) in [
            (1, 7, 3),
            (4, 1000, 64),
            (4, 1001, 6),
            (3, 2, 1),
            (5, 13, 4),
        ] {
            let nodes = Nodes::new(count, frames, clients);
            let mut next = 0;
            for node in nodes.from(0) {
                let own = nodes.frames_of(node);
                assert!(own.start == next && !own.is_empty());
                assert!(own.clone().all(|frame| nodes.of_frame(frame) == node));
                next = own.end;
            }
            assert_eq!(next, frames);
            let homes: Vec<usize> = (0..clients).map(|client| nodes.of_client(client)).collect();
            assert!(homes.is_sorted() && homes.iter().all(|home| *home < nodes.count() as usize));
            assert_eq!(nodes.of_client(clients), 0);
        }
        let nodes = Nodes::new(4, 16, 4);
        assert!(nodes.from(2).eq([2, 3, 0, 1]));
        let runs: Vec<_> = by_node(nodes, &[0, 3, 5, 1, 15]).collect();
        assert_eq!(runs, [(0, &[0, 3][..]), (1, &[5]), (0, &[1]), (3, &[15])]);
    }

    #[test]
    fn a_cpu_is_given_frames_of_its_own_node_as_long_as_there_are_any() {
        let mut machine = Machine::new(CostTable::free(), false);
        let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
        machine.spawn_main(cpu, "takes", |cpu| async move {
            let free = FreeFrames::all(Nodes::new(2, 8, 2)).unwrap();
            let mut own = Vec::new();
            free.take(&cpu, 1, 3, &mut own);
            assert_eq!((own.as_slice(), free.count()), (&[6, 5, 4][..], 5));
            for _ in 0..3 {
                own.clear();
                free.take(&cpu, 1, 3, &mut own);
            }
            assert_eq!((own.as_slice(), free.count()), (&[3][..], 0));
            free.give(&cpu, &[3, 7, 0]);
            own.clear();
            free.take(&cpu, 1, 3, &mut own);
            assert_eq!((own.as_slice(), free.count()), (&[7][..], 2));
        });
        machine.run_virtual(Seed(1)).unwrap();
    }
}
