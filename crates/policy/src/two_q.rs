//! 2Q: new pages go through a queue of a quarter of the frames. Keys of those that leave it are remembered, as many as half of the frames; a page
//! that comes back meanwhile joins an LRU list of the others.

use crate::ghosts::Ghosts;
use crate::lists::{ALL, Lists};
use crate::{Look, Policy, Victim};

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

impl TwoQ {
    fn evict_new(&mut self, look: impl FnMut(u32) -> Look) -> Victim {
        let found = self.lists.take(NEW, MAIN, ALL, look);
        if let Victim::Frame(frame) = found {
            self.gone.push(self.keys[frame as usize]);
        }
        found
    }
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

    fn hears_uses(&self) -> bool {
        true
    }

    #[inline]
    fn hit(&mut self, frame: u32) {
        if self.lists.place(frame) == MAIN {
            self.lists.renew(frame);
        }
    }

    fn evict(&mut self, coming: Option<u64>, mut look: impl FnMut(u32) -> Look) -> Victim {
        self.gone.recall(coming);
        let has_room = self.lists.list(NEW).len() <= self.new_most;
        let first = match has_room {
            true => self.lists.take(MAIN, MAIN, ALL, &mut look),
            false => self.evict_new(&mut look),
        };
        match (first, has_room) {
            (Victim::None, true) => self.evict_new(look),
            (Victim::None, false) => self.lists.take(MAIN, MAIN, ALL, look),
            (found, _) => found,
        }
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

    fn bytes(&self) -> usize {
        self.lists.bytes() + 8 * self.keys.len() + self.gone.bytes()
    }
}
