//! Inodes in memory, within a budget: those that were not used for the longest time leave first.
//!
//! An inode is kept whole, so one large directory may take more than the budget by itself; then it
//! is the only one.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::node::Node;

#[derive(Debug)]
struct Entry {
    /// Nothing while somebody changes it.
    node: Option<Arc<Node>>,
    memory: usize,
    is_used: bool,
}

/// Inodes by number.
#[derive(Debug)]
pub struct Kept {
    all: FxHashMap<u64, Entry>,
    /// Each number of `all` once, in the order in which the hand comes to them.
    ring: VecDeque<u64>,
    memory: usize,
    memory_max: usize,
}

impl Kept {
    /// None so far, and not more than so many bytes ever.
    pub fn new(memory_max: usize) -> Kept {
        Kept {
            all: FxHashMap::default(),
            ring: VecDeque::new(),
            memory: 0,
            memory_max,
        }
    }

    /// An inode, for looking.
    pub fn get(&mut self, number: u64) -> Option<Arc<Node>> {
        let entry = self.all.get_mut(&number)?;
        entry.is_used = true;
        entry.node.clone()
    }

    /// An inode, for changing: it is not here until it is put back.
    pub fn take(&mut self, number: u64) -> Option<Arc<Node>> {
        let entry = self.all.get_mut(&number)?;
        self.memory -= std::mem::take(&mut entry.memory);
        entry.node.take()
    }

    /// Keeps an inode.
    pub fn put(&mut self, node: Arc<Node>) {
        let (number, memory) = (node.number, node.memory());
        // What is used once leaves before what is used again.
        let is_known = self.all.contains_key(&number);
        let entry = self.all.entry(number).or_insert_with(|| {
            self.ring.push_back(number);
            Entry {
                node: None,
                memory: 0,
                is_used: false,
            }
        });
        self.memory = self.memory - entry.memory + memory;
        (entry.node, entry.memory, entry.is_used) = (Some(node), memory, is_known);
        self.make_room(number);
    }

    fn make_room(&mut self, newest: u64) {
        while self.memory > self.memory_max && self.all.len() > 1 {
            let Some(number) = self.ring.pop_front() else {
                return;
            };
            let Some(entry) = self.all.get_mut(&number) else {
                continue;
            };
            if number == newest || std::mem::take(&mut entry.is_used) {
                self.ring.push_back(number);
                continue;
            }
            self.memory -= entry.memory;
            self.all.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_within_the_budget() {
        let node = |number| Arc::new(Node::new(number));
        let memory = node(1).memory();
        let mut kept = Kept::new(4 * memory);
        for number in 0..100 {
            kept.put(node(number));
            assert!(kept.get(0).is_some(), "{number}");
            assert!(kept.memory <= 4 * memory && kept.all.len() <= 4);
            assert_eq!(kept.ring.len(), kept.all.len());
        }
        let taken = kept.take(99).unwrap();
        assert!(kept.get(99).is_none());
        for number in 200..300 {
            kept.put(node(number));
        }
        kept.put(taken);
        assert!(kept.get(99).is_some());
        assert_eq!(kept.ring.len(), kept.all.len());
    }
}
