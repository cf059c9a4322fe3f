//! FIFO: the page that came first leaves first, however much it is used.

use crate::Policy;
use crate::lists::{Links, List};

/// See the module.
#[derive(Debug)]
pub struct Fifo {
    links: Links,
    list: List,
}

impl Policy for Fifo {
    fn new(frames: u32) -> Fifo {
        Fifo {
            links: Links::new(frames),
            list: List::default(),
        }
    }

    #[inline]
    fn hit(&mut self, _frame: u32) {}

    fn evict(&mut self, _key: u64) -> u32 {
        self.links.pop(&mut self.list)
    }

    fn insert(&mut self, frame: u32, _key: u64) {
        self.links.push(&mut self.list, frame);
    }

    fn remove(&mut self, frame: u32) {
        self.links.remove(&mut self.list, frame);
    }
}
