//! ARC: pages that were used once, and pages that were used again, each in an LRU list; and the keys of as many that left either. A page that comes
//! back from one of these says which list was too short, and moves the border between both.

use crate::Policy;
use crate::ghosts::Ghosts;
use crate::lists::{Links, List};

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
    links: Links,
    once: List,
    again: List,
    is_again: Vec<bool>,
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
        let once = f64::from(self.once.len());
        let is_long = once > self.once_wanted || once == self.once_wanted && from == From::Again;
        let (list, gone) = match !self.once.is_empty() && is_long || self.again.is_empty() {
            true => (&mut self.once, &mut self.once_gone),
            false => (&mut self.again, &mut self.again_gone),
        };
        let frame = self.links.pop(list);
        gone.push(self.keys[frame as usize]);
        frame
    }
}

impl Policy for Arc {
    fn new(frames: u32) -> Arc {
        Arc {
            links: Links::new(frames),
            once: List::default(),
            again: List::default(),
            is_again: vec![false; frames as usize],
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
        if self.is_again[frame as usize] {
            self.links.renew(&mut self.again, frame);
            return;
        }
        self.is_again[frame as usize] = true;
        self.links.remove(&mut self.once, frame);
        self.links.push(&mut self.again, frame);
    }

    fn evict(&mut self, key: u64) -> u32 {
        let from = self.look(key);
        self.coming = Some((key, from));
        if from == From::Nowhere {
            let all_once = self.once.len() + self.once_gone.len();
            if all_once >= self.frames && self.once_gone.len() == 0 {
                return self.links.pop(&mut self.once);
            }
            if all_once >= self.frames {
                self.once_gone.pop();
            } else if u64::from(all_once + self.again.len() + self.again_gone.len())
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
        let is_again = from != From::Nowhere;
        self.is_again[frame as usize] = is_again;
        self.keys[frame as usize] = key;
        let list = match is_again {
            true => &mut self.again,
            false => &mut self.once,
        };
        self.links.push(list, frame);
    }

    fn remove(&mut self, frame: u32) {
        let list = match self.is_again[frame as usize] {
            true => &mut self.again,
            false => &mut self.once,
        };
        self.links.remove(list, frame);
    }
}
