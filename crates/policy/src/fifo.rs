//! FIFO: the page that came first leaves first, however much it is used.

use crate::lists::{Links, List};
use crate::{Look, Policy, Victim};

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

    fn evict(&mut self, _coming: Option<u64>, look: impl FnMut(u32) -> Look) -> Victim {
        self.links.take(&mut self.list, look)
    }

    fn insert(&mut self, frame: u32, _key: u64) {
        self.links.push(&mut self.list, frame);
    }

    fn remove(&mut self, frame: u32) {
        self.links.remove(&mut self.list, frame);
    }

    fn bytes(&self) -> usize {
        self.links.bytes()
    }
}
