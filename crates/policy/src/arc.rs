//! ARC: pages that were used once, and pages that were used again, each in an LRU list; and the keys of as many that left either. A page that comes
//! back from one of these says which list was too short, and moves the border between both.

use crate::Policy;
use crate::ghosts::Ghosts;
use crate::lists::Lists;

/// The lists of frames: pages that were used once, and again.
const ONCE: usize = 0;
const AGAIN: usize = 1;

/// Where a page that comes was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Nowhere,
    Once,
    Again,
}

/// See the module.
#[derive(Debug)]
pub struct Arc {
    lists: Lists<2>,
    keys: Vec<u64>,
    once_gone: Ghosts,
    again_gone: Ghosts,
    frames: u32,
    /// Frames that pages which were used once are to have: the paper's p.
    once_wanted: f64,
    /// Who is coming, from its eviction of another page until it is there.
    coming: Option<(u64, From)>,
}

impl Arc {
    /// Looks where a page was, and moves the border.
    fn look(&mut self, key: u64) -> From {
        let (once, again) = (
            f64::from(self.once_gone.len()),
            f64::from(self.again_gone.len()),
        );
        if self.once_gone.remove(key) {
            let more = (again / once).max(1.0);
            self.once_wanted = (self.once_wanted + more).min(f64::from(self.frames));
            return From::Once;
        }
        if self.again_gone.remove(key) {
            let less = (once / again).max(1.0);
            self.once_wanted = (self.once_wanted - less).max(0.0);
            return From::Again;
        }
        From::Nowhere
    }

    /// Gives up a page of the list that is too long.
    fn replace(&mut self, from: From) -> u32 {
        let once = f64::from(self.lists.list(ONCE).len());
        let is_long = once > self.once_wanted || once == self.once_wanted && from == From::Again;
        let is_empty = |list| self.lists.list(list).is_empty();
        let (list, gone) = match !is_empty(ONCE) && is_long || is_empty(AGAIN) {
            true => (ONCE, &mut self.once_gone),
            false => (AGAIN, &mut self.again_gone),
        };
        let frame = self.lists.pop(list);
        gone.push(self.keys[frame as usize]);
        frame
    }
}

impl Policy for Arc {
    fn new(frames: u32) -> Arc {
        Arc {
            lists: Lists::new(frames),
            keys: vec![0; frames as usize],
            once_gone: Ghosts::new(frames),
            again_gone: Ghosts::new(frames.saturating_mul(2)),
            frames,
            once_wanted: 0.0,
            coming: None,
        }
    }

    #[inline]
    fn hit(&mut self, frame: u32) {
        self.lists.remove(frame);
        self.lists.push(AGAIN, frame);
    }

    fn evict(&mut self, key: u64) -> u32 {
        let from = self.look(key);
        self.coming = Some((key, from));
        if from == From::Nowhere {
            let all_once = self.lists.list(ONCE).len() + self.once_gone.len();
            if all_once >= self.frames && self.once_gone.len() == 0 {
                return self.lists.pop(ONCE);
            }
            if all_once >= self.frames {
                self.once_gone.pop();
            } else if u64::from(all_once + self.lists.list(AGAIN).len() + self.again_gone.len())
                >= 2 * u64::from(self.frames)
            {
                self.again_gone.pop();
            }
        }
        self.replace(from)
    }

    fn insert(&mut self, frame: u32, key: u64) {
        let from = match self.coming.take() {
            Some((coming, from)) if coming == key => from,
            _ => self.look(key),
        };
        self.keys[frame as usize] = key;
        let list = match from {
            From::Nowhere => ONCE,
            From::Once | From::Again => AGAIN,
        };
        self.lists.push(list, frame);
    }

    fn remove(&mut self, frame: u32) {
        self.lists.remove(frame);
    }
}
