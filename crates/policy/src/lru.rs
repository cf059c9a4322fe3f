//! LRU: the page leaves whose last use is longest ago.

use crate::Policy;
use crate::lists::{Links, List};

/// See the module.
#[derive(Debug)]
pub struct Lru {
    links: Links,
    list: List,
}

impl Policy for Lru {
    fn new(frames: u32) -> Lru {
        Lru {
            links: Links::new(frames),
            list: List::default(),
        }
    }

    #[inline]
    fn hit(&mut self, frame: u32) {
        self.links.renew(&mut self.list, frame);
    }

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
