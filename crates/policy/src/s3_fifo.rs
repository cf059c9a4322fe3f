//! S3-FIFO: three queues. A tenth of the frames is for new pages. One that leaves it and was used twice or more joins the other nine tenths, as does
//! a page that comes back while its key is remembered (of nine tenths as many as frames). There the oldest page goes round again, as often as it was
//! used, three times at most, and else leaves. As long as nothing has left, new pages that the tenth has no room for join the others, as in libCacheSim.

use crate::ghosts::Ghosts;
use crate::lists::Lists;
use crate::{Look, Policy, Victim};

/// The lists of frames.
const NEW: usize = 0;
const MAIN: usize = 1;

/// Uses that are counted at most.
const USES_MAX: u8 = 3;

/// Uses of a new page that make it one of the others.
const USES_STAY: u8 = 2;

/// See the module.
#[derive(Debug)]
pub struct S3Fifo {
    lists: Lists<2>,
    /// Uses that looks have told of.
    uses: Vec<u8>,
    keys: Vec<u64>,
    gone: Ghosts,
    new_most: u32,
    main_most: u32,
    has_evicted: bool,
}

impl S3Fifo {
    fn used(&mut self, frame: u32, times: u8) {
        let uses = &mut self.uses[frame as usize];
        *uses = uses.saturating_add(times).min(USES_MAX);
    }

    /// Gives up a new page, and has those that were used, or cannot go, join the others.
    fn evict_new(&mut self, look: &mut impl FnMut(u32) -> Look) -> Victim {
        while !self.lists.list(NEW).is_empty() {
            let frame = self.lists.list(NEW).oldest();
            if self.uses[frame as usize] >= USES_STAY {
                self.lists.remove(frame);
                self.join_main(frame);
                continue;
            }
            match look(frame) {
                Look::Goes => {
                    self.lists.remove(frame);
                    self.gone.push(self.keys[frame as usize]);
                    return Victim::Frame(frame);
                }
                Look::Used(times) => self.used(frame, times),
                Look::Stays => {
                    self.lists.remove(frame);
                    self.join_main(frame);
                }
                Look::Ends => return Victim::Ended,
            }
        }
        Victim::None
    }

    fn evict_main(&mut self, look: &mut impl FnMut(u32) -> Look) -> Victim {
        // A page goes round as often as it was used; then a round looks at every page.
        let mut rest = (u32::from(USES_MAX) + 1).saturating_mul(self.lists.list(MAIN).len());
        while rest > 0 {
            let frame = self.lists.list(MAIN).oldest();
            match look(frame) {
                Look::Used(times) => {
                    self.used(frame, times);
                    continue;
                }
                Look::Ends => return Victim::Ended,
                Look::Goes if self.uses[frame as usize] == 0 => {
                    self.lists.remove(frame);
                    return Victim::Frame(frame);
                }
                Look::Goes => self.uses[frame as usize] -= 1,
                Look::Stays => {}
            }
            self.lists.renew(frame);
            rest -= 1;
        }
        Victim::None
    }

    fn join_main(&mut self, frame: u32) {
        self.uses[frame as usize] = 0;
        self.lists.push(MAIN, frame);
    }
}

impl Policy for S3Fifo {
    fn new(frames: u32) -> S3Fifo {
        let share = |tenths: u64| (u64::from(frames) * tenths / 10) as u32;
        S3Fifo {
            lists: Lists::new(frames),
            uses: vec![0; frames as usize],
            keys: vec![0; frames as usize],
            gone: Ghosts::new(share(9)),
            new_most: share(1).max(1),
            main_most: frames - share(1).max(1),
            has_evicted: false,
        }
    }

    fn evict(&mut self, coming: Option<u64>, mut look: impl FnMut(u32) -> Look) -> Victim {
        self.has_evicted = true;
        self.gone.recall(coming);
        let main_first = self.lists.list(MAIN).len() > self.main_most;
        if main_first || self.lists.list(NEW).is_empty() {
            return match self.evict_main(&mut look) {
                Victim::None => self.evict_new(&mut look),
                found => found,
            };
        }
        match self.evict_new(&mut look) {
            Victim::None => self.evict_main(&mut look),
            found => found,
        }
    }

    fn insert(&mut self, frame: u32, key: u64) {
        self.keys[frame as usize] = key;
        let is_full = self.lists.list(NEW).len() >= self.new_most;
        if self.gone.comes_back(key) || !self.has_evicted && is_full {
            return self.join_main(frame);
        }
        self.uses[frame as usize] = 0;
        self.lists.push(NEW, frame);
    }

    fn remove(&mut self, frame: u32) {
        self.lists.remove(frame);
    }

    fn bytes(&self) -> usize {
        self.lists.bytes() + self.uses.len() + 8 * self.keys.len() + self.gone.bytes()
    }
}
