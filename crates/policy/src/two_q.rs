//! 2Q: new pages go through a queue of a quarter of the frames. Keys of those that leave it are remembered, as many as half of the frames; a page
//! that comes back meanwhile joins an LRU list of the others.

use crate::Policy;
use crate::ghosts::Ghosts;
use crate::lists::{Links, List};

/// See the module.
#[derive(Debug)]
pub struct TwoQ {
    links: Links,
    new: List,
    main: List,
    is_main: Vec<bool>,
    keys: Vec<u64>,
    gone: Ghosts,
    new_most: u32,
    /// Who comes back, from its eviction of another page until it is there.
    back: Option<u64>,
}

impl Policy for TwoQ {
    fn new(frames: u32) -> TwoQ {
        TwoQ {
            links: Links::new(frames),
            new: List::default(),
            main: List::default(),
            is_main: vec![false; frames as usize],
            keys: vec![0; frames as usize],
            gone: Ghosts::new(frames / 2),
            new_most: frames / 4,
            back: None,
        }
    }

    #[inline]
    fn hit(&mut self, frame: u32) {
        if self.is_main[frame as usize] {
            self.links.renew(&mut self.main, frame);
        }
    }

    fn evict(&mut self, key: u64) -> u32 {
        // It is not to be forgotten for the one that leaves for it.
        self.back = self.gone.remove(key).then_some(key);
        if self.new.len() <= self.new_most && !self.main.is_empty() {
            return self.links.pop(&mut self.main);
        }
        let frame = self.links.pop(&mut self.new);
        self.gone.push(self.keys[frame as usize]);
        frame
    }

    fn insert(&mut self, frame: u32, key: u64) {
        let comes_back = self.back.take() == Some(key) || self.gone.remove(key);
        self.is_main[frame as usize] = comes_back;
        self.keys[frame as usize] = key;
        let list = match comes_back {
            true => &mut self.main,
            false => &mut self.new,
        };
        self.links.push(list, frame);
    }

    fn remove(&mut self, frame: u32) {
        let list = match self.is_main[frame as usize] {
            true => &mut self.main,
            false => &mut self.new,
        };
        self.links.remove(list, frame);
    }
}
