//! SIEVE: a queue as of FIFO, and a hand that goes from its oldest page to its newest. The hand passes pages that were used since it came by, up to one
//! that was not: that leaves, wherever in the queue it is. So new pages that nobody uses leave soon, and those that are used stay where they are.

use crate::lists::{Links, List, NONE};
use crate::{Look, Policy, Victim};

/// See the module.
#[derive(Debug)]
pub struct Sieve {
    links: Links,
    list: List,
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
            hand: NONE,
        }
    }

    fn evict(&mut self, _coming: Option<u64>, mut look: impl FnMut(u32) -> Look) -> Victim {
        // One round takes every mark off, a second looks at every page.
        for _ in 0..2 * self.list.len() {
            if self.hand == NONE {
                self.hand = self.list.oldest();
            }
            let frame = self.hand;
            match look(frame) {
                Look::Goes => {
                    self.take(frame);
                    return Victim::Frame(frame);
                }
                Look::Ends => return Victim::Ended,
                Look::Used(_) | Look::Stays => self.hand = self.links.newer(frame),
            }
        }
        Victim::None
    }

    fn insert(&mut self, frame: u32, _key: u64) {
        self.links.push(&mut self.list, frame);
    }

    fn remove(&mut self, frame: u32) {
        self.take(frame);
    }

    fn bytes(&self) -> usize {
        self.links.bytes()
    }
}
