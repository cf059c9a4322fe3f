//! W-TinyLFU: new pages go through an LRU list of a hundredth of the frames. One that leaves it joins the others only if it was used more often of late
//! than the page that would leave for it. The others are a segmented LRU: a fifth for pages that were not used since they joined, four fifths for those that
//! were.
//!
//! How often a page was used of late says a count-min sketch of four bits for each of four counters, whose counts are halved after ten times as many
//! uses as there are frames: so pages that are not in the cache are counted too.

use crate::lists::{ALL, Lists};
use crate::{Look, Policy, Victim};

/// The lists of frames: new pages, those that joined the others, and those of them that were used again.
const NEW: usize = 0;
const JOINED: usize = 1;
const USED: usize = 2;

/// See the module.
#[derive(Debug)]
pub struct TinyLfu {
    lists: Lists<3>,
    keys: Vec<u64>,
    new_most: u32,
    used_most: u32,
    sketch: Sketch,
}

impl TinyLfu {
    /// The page beside the new ones that leaves next, if there is one.
    fn oldest(&mut self, look: &mut impl FnMut(u32) -> Look) -> Victim {
        let found = match self.lists.find(JOINED, USED, ALL, &mut *look) {
            Victim::None => self.lists.find(USED, USED, ALL, look),
            found => found,
        };
        self.balance();
        found
    }

    /// Pages that were used long ago join the others of them that were not.
    fn balance(&mut self) {
        while self.lists.list(USED).len() > self.used_most {
            let oldest = self.lists.pop(USED);
            self.lists.push(JOINED, oldest);
        }
    }

    fn goes(&mut self, frame: u32) -> Victim {
        self.lists.remove(frame);
        Victim::Frame(frame)
    }
}

impl Policy for TinyLfu {
    fn new(frames: u32) -> TinyLfu {
        let new_most = (frames / 100).max(1);
        TinyLfu {
            lists: Lists::new(frames),
            keys: vec![0; frames as usize],
            new_most,
            used_most: (u64::from(frames - new_most) * 4 / 5) as u32,
            sketch: Sketch::new(frames),
        }
    }

    fn hears_uses(&self) -> bool {
        true
    }

    #[inline]
    fn hit(&mut self, frame: u32) {
        self.sketch.add(self.keys[frame as usize]);
        if self.lists.place(frame) != JOINED {
            return self.lists.renew(frame);
        }
        self.lists.remove(frame);
        self.lists.push(USED, frame);
        self.balance();
    }

    fn evict(&mut self, _coming: Option<u64>, mut look: impl FnMut(u32) -> Look) -> Victim {
        let oldest = match self.oldest(&mut look) {
            Victim::Frame(oldest) => oldest,
            Victim::Ended => return Victim::Ended,
            Victim::None => return self.lists.take(NEW, NEW, ALL, look),
        };
        if self.lists.list(NEW).len() < self.new_most {
            return self.goes(oldest);
        }
        let newcomer = match self.lists.find(NEW, NEW, ALL, look) {
            Victim::Frame(newcomer) => newcomer,
            Victim::Ended => return Victim::Ended,
            Victim::None => return self.goes(oldest),
        };
        let often = |frame: u32| self.sketch.count(self.keys[frame as usize]);
        if often(newcomer) <= often(oldest) {
            return self.goes(newcomer);
        }
        self.lists.remove(newcomer);
        self.lists.push(JOINED, newcomer);
        self.goes(oldest)
    }

    fn insert(&mut self, frame: u32, key: u64) {
        self.sketch.add(key);
        self.keys[frame as usize] = key;
        self.lists.push(NEW, frame);
        // Who leaves the new ones while there is room elsewhere joins the others.
        if self.lists.list(NEW).len() > self.new_most {
            let oldest = self.lists.pop(NEW);
            self.lists.push(JOINED, oldest);
        }
    }

    fn remove(&mut self, frame: u32) {
        self.lists.remove(frame);
    }

    fn bytes(&self) -> usize {
        self.lists.bytes() + 8 * (self.keys.len() + self.sketch.words.len())
    }
}

/// Counts of keys, in sixteen counters of four bits a word.
#[derive(Debug)]
struct Sketch {
    words: Vec<u64>,
    added: u64,
    sample: u64,
}

/// Counters that a key has.
const ROWS: u32 = 4;

/// The most that a counter counts to.
const COUNT_MAX: u64 = 15;

impl Sketch {
    fn new(frames: u32) -> Sketch {
        let words = (frames as usize).next_power_of_two();
        Sketch {
            words: vec![0; words],
            added: 0,
            sample: 10 * u64::from(frames),
        }
    }

    /// The word, and the shift within it, of each counter of a key.
    fn places(&self, key: u64) -> [(usize, u32); ROWS as usize] {
        let mut hash = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        let mask = self.words.len() - 1;
        [0, 1, 2, 3].map(|row| {
            let own = hash
                .rotate_left(16 * row)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // A quarter of each word is a row's.
            let counter = 4 * row + (own >> 62) as u32;
            ((own >> 24) as usize & mask, 4 * counter)
        })
    }

    fn add(&mut self, key: u64) {
        for (word, shift) in self.places(key) {
            if self.words[word] >> shift & COUNT_MAX < COUNT_MAX {
                self.words[word] += 1 << shift;
            }
        }
        self.added += 1;
        if self.added >= self.sample {
            self.added /= 2;
            for word in &mut self.words {
                // No bit passes from one counter to the next.
                *word = *word >> 1 & 0x7777_7777_7777_7777;
            }
        }
    }

    fn count(&self, key: u64) -> u64 {
        let counts = self
            .places(key)
            .map(|(word, shift)| self.words[word] >> shift & COUNT_MAX);
        counts.into_iter().min().unwrap_or(0)
    }
}
