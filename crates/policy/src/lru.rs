//! LRU: the page leaves whose last use is longest ago.

use crate::lists::{Links, List};
use crate::{Look, Policy, Victim};

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

    fn hears_uses(&self) -> bool {
        true
    }

    #[inline]
    fn hit(&mut self, frame: u32) {
        self.links.renew(&mut self.list, frame);
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
