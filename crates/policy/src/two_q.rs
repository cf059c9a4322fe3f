//! 2Q: new pages go through a queue of a quarter of the frames. Keys of those that leave it are remembered, as many as half of the frames; a page
//! that comes back meanwhile joins an LRU list of the others.

use crate::Policy;
use crate::ghosts::Ghosts;
use crate::lists::Lists;

/// The lists of frames.
const NEW: usize = 0;
const MAIN: usize = 1;

/// See the module.
#[derive(Debug)]
pub struct TwoQ {
    lists: Lists<2>,
    keys: Vec<u64>,
    gone: Ghosts,
    new_most: u32,
}

impl Policy for TwoQ {
    fn new(frames: u32) -> TwoQ {
        TwoQ {
            lists: Lists::new(frames),
            keys: vec![0; frames as usize],
            gone: Ghosts::new(frames / 2),
            new_most: frames / 4,
        }
    }

    #[inline]
    fn hit(&mut self, frame: u32) {
        if self.lists.place(frame) == MAIN {
            self.lists.renew(frame);
        }
    }

    fn evict(&mut self, key: u64) -> u32 {
        self.gone.recall(key);
        let has_room = self.lists.list(NEW).len() <= self.new_most;
        if has_room && !self.lists.list(MAIN).is_empty() {
            return self.lists.pop(MAIN);
        }
        let frame = self.lists.pop(NEW);
        self.gone.push(self.keys[frame as usize]);
        frame
    }

    fn insert(&mut self, frame: u32, key: u64) {
        self.keys[frame as usize] = key;
        let list = match self.gone.comes_back(key) {
            true => MAIN,
            false => NEW,
        };
        self.lists.push(list, frame);
    }

    fn remove(&mut self, frame: u32) {
        self.lists.remove(frame);
    }
}
