//! Programs and erases under way, in the order in which they end.
//!
//! A plane serves one operation at a time, so its operations end in the order in which they began:
//! a queue for each plane, and a heap of the planes by what ends first on each. The heap holds as
//! many entries as there are planes at work, however many programs wait for them.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

/// One operation: when it ends, when it was issued, what it is.
#[derive(Debug, Clone, Copy)]
struct Operation {
    end_ns: u64,
    issued: u32,
    what: u32,
}

impl Operation {
    /// Operations that end together end in the order they began.
    #[inline]
    fn key(&self, plane: u32) -> Reverse<u128> {
        let order = u64::from(self.issued) << 32 | u64::from(plane);
        Reverse(u128::from(self.end_ns) << 64 | u128::from(order))
    }
}

/// The operations under way on a core's planes.
#[derive(Debug)]
pub struct Operations {
    queues: Vec<VecDeque<Operation>>,
    /// The planes at work: end and order of issue of the first operation, plane.
    first: BinaryHeap<Reverse<u128>>,
    issued: u32,
}

impl Operations {
    /// None, on `planes` planes.
    pub fn new(planes: u32) -> Operations {
        Operations {
            queues: (0..planes).map(|_| VecDeque::with_capacity(16)).collect(),
            first: BinaryHeap::with_capacity(planes as usize),
            issued: 0,
        }
    }

    /// An operation begins that ends at `end_ns`, not before the plane's last one.
    #[inline]
    pub fn begin(&mut self, plane: u32, end_ns: u64, what: u32) {
        self.issued = self.issued.wrapping_add(1);
        let operation = Operation {
            end_ns,
            issued: self.issued,
            what,
        };
        let queue = &mut self.queues[plane as usize];
        match queue.back() {
            None => self.first.push(operation.key(plane)),
            Some(last) => debug_assert!(last.end_ns <= end_ns),
        }
        queue.push_back(operation);
    }

    /// When the first one ends.
    #[inline]
    pub fn next_end_ns(&self) -> Option<u64> {
        self.first.peek().map(|Reverse(key)| (key >> 64) as u64)
    }

    /// Takes the first one, if it has ended by `now_ns`.
    #[inline]
    pub fn end_one(&mut self, now_ns: u64) -> Option<u32> {
        let mut first = self.first.peek_mut()?;
        if (first.0 >> 64) as u64 > now_ns {
            return None;
        }
        let plane = first.0 as u32;
        let queue = &mut self.queues[plane as usize];
        let ended = queue.pop_front().expect("a plane at work has an operation");
        match queue.front() {
            Some(next) => *first = next.key(plane),
            None => drop(PeekMut::pop(first)),
        }
        Some(ended.what)
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.queues.iter().flatten().map(|operation| operation.what)
    }

    /// True if none is under way.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_end_in_order_of_time_then_of_issue() {
        let mut operations = Operations::new(3);
        for (plane, end_ns, what) in [(0, 30, 1), (1, 20, 2), (0, 40, 3), (2, 40, 4), (1, 40, 5)] {
            operations.begin(plane, end_ns, what);
        }
        assert_eq!(operations.next_end_ns(), Some(20));
        assert_eq!(operations.end_one(19), None);
        let mut ended = Vec::new();
        while let Some(what) = operations.end_one(40) {
            ended.push(what);
        }
        assert_eq!(ended, [2, 1, 3, 4, 5]);
        assert!(operations.is_empty() && operations.next_end_ns().is_none());
    }
}
