//! SIEVE: a queue as of FIFO, and a hand that goes from its oldest page to its newest. A use sets the mark of a page. The hand passes pages with a
//! mark, which it takes, up to one without: that leaves, wherever in the queue it is. So new pages that nobody uses leave soon, and those that are
//! used stay where they are.

use crate::Policy;
use crate::lists::{Links, List, NONE};

/// See the module.
#[derive(Debug)]
pub struct Sieve {
    links: Links,
    list: List,
    used: Vec<bool>,
    /// [`NONE`]: the oldest.
    hand: u32,
}

impl Sieve {
    fn take(&mut self, frame: u32) {
        if self.hand == frame {
            self.hand = self.links.newer(frame);
        }
        self.links.remove(&mut self.list, frame);
    }
}

impl Policy for Sieve {
    fn new(frames: u32) -> Sieve {
        Sieve {
            links: Links::new(frames),
            list: List::default(),
            used: vec![false; frames as usize],
            hand: NONE,
        }
    }

    #[inline]
    fn hit(&mut self, frame: u32) {
        self.used[frame as usize] = true;
    }

    fn evict(&mut self, _key: u64) -> u32 {
        loop {
            if self.hand == NONE {
                self.hand = self.list.oldest();
            }
            let frame = self.hand;
            if !std::mem::take(&mut self.used[frame as usize]) {
                self.take(frame);
                return frame;
            }
            self.hand = self.links.newer(frame);
        }
    }

    fn insert(&mut self, frame: u32, _key: u64) {
        self.used[frame as usize] = false;
        self.links.push(&mut self.list, frame);
    }

    fn remove(&mut self, frame: u32) {
        self.take(frame);
    }
}
