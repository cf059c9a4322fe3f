//! Lists of all that is cached: least recently used, and first in, first out. What the scan is
//! compared with; they take memory for each cached sector.

use hashbrown::HashMap;

use super::{Policy, Victim, View, tidy};

/// No node.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Node {
    sector: u64,
    older: u32,
    newer: u32,
}

/// Sectors in an order, and where each is in it.
#[derive(Debug)]
struct Order {
    nodes: Vec<Node>,
    free: Vec<u32>,
    places: HashMap<u64, u32, rustc_hash::FxBuildHasher>,
    oldest: u32,
    newest: u32,
}

impl Default for Order {
    fn default() -> Order {
        Order {
            nodes: Vec::new(),
            free: Vec::new(),
            places: HashMap::default(),
            oldest: NONE,
            newest: NONE,
        }
    }
}

impl Order {
    fn unlink(&mut self, node: u32) {
        let Node { older, newer, .. } = self.nodes[node as usize];
        match older {
            NONE => self.oldest = newer,
            _ => self.nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.nodes[newer as usize].older = older,
        }
    }

    fn link_newest(&mut self, node: u32) {
        let older = std::mem::replace(&mut self.newest, node);
        (
            self.nodes[node as usize].older,
            self.nodes[node as usize].newer,
        ) = (older, NONE);
        match older {
            NONE => self.oldest = node,
            _ => self.nodes[older as usize].newer = node,
        }
    }

    /// The sector becomes the newest; if it is there already, only where `moves`.
    fn touch(&mut self, sector: u64, moves: bool) {
        if let Some(&node) = self.places.get(&sector) {
            if moves {
                self.unlink(node);
                self.link_newest(node);
            }
            return;
        }
        let new = Node {
            sector,
            older: NONE,
            newer: NONE,
        };
        let node = match self.free.pop() {
            Some(node) => {
                self.nodes[node as usize] = new;
                node
            }
            None => {
                self.nodes.push(new);
                self.nodes.len() as u32 - 1
            }
        };
        self.places.insert(sector, node);
        self.link_newest(node);
    }

    fn remove(&mut self, sector: u64) {
        if let Some(node) = self.places.remove(&sector) {
            self.unlink(node);
            self.free.push(node);
        }
    }

    /// The sectors from the oldest on.
    fn oldest_first(&self) -> impl Iterator<Item = u64> {
        let node = |at: u32| (at != NONE).then(|| &self.nodes[at as usize]);
        let first = node(self.oldest);
        std::iter::successors(first, move |last| node(last.newer)).map(|node| node.sector)
    }

    /// Adds the oldest sectors.
    fn choose(&self, budget: u64, out: &mut Vec<Victim>) {
        let oldest = self.oldest_first().take(budget as usize);
        out.extend(oldest.map(|first| Victim { first, count: 1 }));
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + self.free.capacity() * size_of::<u32>()
            + self.places.allocation_size()
    }
}

/// The sectors that have been in their order for longest leave. Where `MOVES`, a sector that is used
/// again is the newest.
#[derive(Debug, Default)]
pub struct List<const MOVES: bool>(Order);

/// The least recently used sectors leave.
pub type Lru = List<true>;

/// The sectors that came first leave first: the paper's "write back in order".
pub type Fifo = List<false>;

impl<const MOVES: bool> Policy for List<MOVES> {
    fn touched(&mut self, first: u64, count: u32) {
        (first..first + u64::from(count)).for_each(|sector| self.0.touch(sector, MOVES));
    }

    fn forgotten(&mut self, first: u64, count: u32) {
        (first..first + u64::from(count)).for_each(|sector| self.0.remove(sector));
    }

    fn choose(&mut self, _view: View<'_>, budget: u64, out: &mut Vec<Victim>) {
        self.0.choose(budget, out);
        tidy(out);
    }

    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}
