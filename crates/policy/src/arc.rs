//! ARC: pages that were used once, and pages that were used again, each in an LRU list; and the keys of as many that left either. A page that comes
//! back from one of these says which list was too short, and moves the border between both.

use crate::ghosts::Ghosts;
use crate::lists::{ALL, Lists};
use crate::{Look, Policy, Victim};

/// The lists of frames: pages that were used once, and again.
const ONCE: usize = 0;
const AGAIN: usize = 1;

/// Frames that have to stay before another list is asked.
const STAY_MOST: u32 = 32;

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

    /// Gives up a page of the list that is too long, or of the other if none of it can go.
    fn replace(&mut self, from: From, look: &mut impl FnMut(u32) -> Look) -> Victim {
        let once = f64::from(self.lists.list(ONCE).len());
        let is_long = once > self.once_wanted || once == self.once_wanted && from == From::Again;
        let order = match once > 0.0 && is_long {
            true => [ONCE, AGAIN],
            false => [AGAIN, ONCE],
        };
        // Pages on their way are all in the list of those used once, and dirty ones are where they are: that they stay does not mean that they were
        // used again. If some have to stay, the other list is asked before all others of this one.
        let mut found = Victim::None;
        for (list, most) in [
            (order[0], STAY_MOST),
            (order[1], STAY_MOST),
            (order[0], ALL),
            (order[1], ALL),
        ] {
            found = self.lists.take(list, list, most, &mut *look);
            if let Victim::Frame(frame) = found {
                let key = self.keys[frame as usize];
                match list {
                    ONCE => self.once_gone.push(key),
                    _ => self.again_gone.push(key),
                }
            }
            if found != Victim::None {
                break;
            }
        }
        found
    }

    /// Where the page was that is to come. The border moves once for it, however often a frame is looked for.
    fn from(&mut self, coming: Option<u64>) -> From {
        match (coming, self.coming) {
            (Some(key), Some((known, from))) if key == known => from,
            (Some(key), _) => {
                let from = self.look(key);
                self.coming = Some((key, from));
                from
            }
            (None, _) => From::Nowhere,
        }
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

    fn hears_uses(&self) -> bool {
        true
    }

    #[inline]
    fn hit(&mut self, frame: u32) {
        self.lists.remove(frame);
        self.lists.push(AGAIN, frame);
    }

    fn evict(&mut self, coming: Option<u64>, mut look: impl FnMut(u32) -> Look) -> Victim {
        let from = self.from(coming);
        if from == From::Nowhere {
            let all_once = self.lists.list(ONCE).len() + self.once_gone.len();
            if all_once >= self.frames && self.once_gone.len() == 0 {
                match self.lists.take(ONCE, ONCE, ALL, &mut look) {
                    Victim::None => return self.replace(from, &mut look),
                    found => return found,
                }
            }
            if all_once >= self.frames {
                self.once_gone.pop();
            } else if u64::from(all_once + self.lists.list(AGAIN).len() + self.again_gone.len())
                >= 2 * u64::from(self.frames)
            {
                self.again_gone.pop();
            }
        }
        self.replace(from, &mut look)
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

    fn bytes(&self) -> usize {
        let gone = self.once_gone.bytes() + self.again_gone.bytes();
        self.lists.bytes() + 8 * self.keys.len() + gone
    }
}
