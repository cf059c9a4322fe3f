//! W-TinyLFU: new pages go through an LRU list of a hundredth of the frames. One that leaves it joins the others only if it was used more often of late
//! than the page that would leave for it. The others are a segmented LRU: a fifth for pages that were not used since they joined, four fifths for those that
//! were.
//!
//! How often a page was used of late says a count-min sketch of four bits for each of four counters, whose counts are halved after ten times as many
//! uses as there are frames: so pages that are not in the cache are counted too.

use crate::Policy;
use crate::lists::{Links, List};

/// Where a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    New,
    Joined,
    Used,
}

/// See the module.
#[derive(Debug)]
pub struct TinyLfu {
    links: Links,
    new: List,
    joined: List,
    used: List,
    places: Vec<Place>,
    keys: Vec<u64>,
    new_most: u32,
    used_most: u32,
    sketch: Sketch,
}

impl TinyLfu {
    fn push(&mut self, frame: u32, place: Place) {
        self.places[frame as usize] = place;
        let list = match place {
            Place::New => &mut self.new,
            Place::Joined => &mut self.joined,
            Place::Used => &mut self.used,
        };
        self.links.push(list, frame);
    }

    fn take(&mut self, frame: u32) {
        let list = match self.places[frame as usize] {
            Place::New => &mut self.new,
            Place::Joined => &mut self.joined,
            Place::Used => &mut self.used,
        };
        self.links.remove(list, frame);
    }

    /// The page beside the new ones that leaves next, if there is one.
    fn oldest(&self) -> Option<u32> {
        match (self.joined.is_empty(), self.used.is_empty()) {
            (false, _) => Some(self.joined.oldest()),
            (true, false) => Some(self.used.oldest()),
            (true, true) => None,
        }
    }
}

impl Policy for TinyLfu {
    fn new(frames: u32) -> TinyLfu {
        let new_most = (frames / 100).max(1);
        TinyLfu {
            links: Links::new(frames),
            new: List::default(),
            joined: List::default(),
            used: List::default(),
            places: vec![Place::New; frames as usize],
            keys: vec![0; frames as usize],
            new_most,
            used_most: (u64::from(frames - new_most) * 4 / 5) as u32,
            sketch: Sketch::new(frames),
        }
    }

    #[inline]
    fn hit(&mut self, frame: u32) {
        self.sketch.add(self.keys[frame as usize]);
        match self.places[frame as usize] {
            Place::New => self.links.renew(&mut self.new, frame),
            Place::Used => self.links.renew(&mut self.used, frame),
            Place::Joined => {
                self.take(frame);
                self.push(frame, Place::Used);
                if self.used.len() > self.used_most {
                    let oldest = self.links.pop(&mut self.used);
                    self.push(oldest, Place::Joined);
                }
            }
        }
    }

    fn evict(&mut self, _key: u64) -> u32 {
        let Some(oldest) = self.oldest() else {
            return self.links.pop(&mut self.new);
        };
        if self.new.len() < self.new_most {
            self.take(oldest);
            return oldest;
        }
        let newcomer = self.links.pop(&mut self.new);
        let often = |frame: u32| self.sketch.count(self.keys[frame as usize]);
        if often(newcomer) <= often(oldest) {
            return newcomer;
        }
        self.take(oldest);
        self.push(newcomer, Place::Joined);
        oldest
    }

    fn insert(&mut self, frame: u32, key: u64) {
        self.sketch.add(key);
        self.keys[frame as usize] = key;
        self.push(frame, Place::New);
        // Who leaves the new ones while there is room elsewhere joins the others.
        if self.new.len() > self.new_most {
            let oldest = self.links.pop(&mut self.new);
            self.push(oldest, Place::Joined);
        }
    }

    fn remove(&mut self, frame: u32) {
        self.take(frame);
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
