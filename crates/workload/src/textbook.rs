//! Replacement policies as textbooks have them, over 4 KiB pages: the oracles against which the
//! caches of this project are tested. Reads and writes count alike, and a miss always brings the page in.
//!
//! [`Clock`] and [`Lru`] are caches; [`infinite`] and [`belady`] are bounds for all of them.

use std::collections::BinaryHeap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::request::Request;

/// Hits and misses of page touches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HitCount {
    /// Touches of a page that was there.
    pub hits: u64,
    /// Touches of a page that was not.
    pub misses: u64,
}

impl HitCount {
    /// Hits divided by touches; 0 if there were none.
    pub fn ratio(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }
}

/// A cache of pages.
pub trait PageCache {
    /// Touches a page: true if it was there. Afterwards it is.
    fn touch(&mut self, page: u64) -> bool;

    /// Touches the pages of a read or write in ascending order and counts.
    fn request(&mut self, request: &Request, count: &mut HitCount) {
        if !request.op.moves_data() {
            return;
        }
        for page in request.pages() {
            let hit = self.touch(page);
            count.hits += u64::from(hit);
            count.misses += u64::from(!hit);
        }
    }
}

/// Hits and misses of `requests`, all of one address space, in `cache`.
pub fn simulate<'a>(
    cache: &mut impl PageCache,
    requests: impl IntoIterator<Item = &'a Request>,
) -> HitCount {
    let mut count = HitCount::default();
    for request in requests {
        cache.request(request, &mut count);
    }
    count
}

/// Of a cache that keeps everything: all misses are first touches, which no cache can avoid.
///
/// That is the bound of every cache, however many clients it has and whatever it reads ahead, as long as only
/// touches of pages that were touched before count as hits. Partial pages do not change that: who touches a part
/// touches the page. What deletes pages (discards) only takes hits away.
pub fn infinite<'a>(requests: impl IntoIterator<Item = &'a Request>) -> HitCount {
    let mut seen = FxHashSet::default();
    let mut count = HitCount::default();
    for page in touches(requests) {
        let is_first = seen.insert(page);
        count.hits += u64::from(!is_first);
        count.misses += u64::from(is_first);
    }
    count
}

/// Of the best policy there is for `frames` frames: MIN of Belady, which knows the future, and on a miss gives up the
/// page whose next touch is farthest away.
///
/// That is the bound of every cache whose touches come in this order (one client that waits for each request), and
/// that has a frame for every page it serves: a hit is a page that stayed from its touch before to this one, and
/// no choice of at most `frames - 1` pages that stay, at each touch, lets more of them come to that. Frames that
/// hold pages read ahead are frames that keep less, and so are those that discards empty.
///
/// # Panics
/// If there is no frame.
pub fn belady<'a>(requests: impl IntoIterator<Item = &'a Request>, frames: usize) -> HitCount {
    assert!(frames > 0, "a cache has at least one frame");
    let pages: Vec<u64> = touches(requests).collect();
    let mut next = vec![usize::MAX; pages.len()];
    let mut seen = FxHashMap::default();
    for (at, page) in pages.iter().enumerate().rev() {
        if let Some(later) = seen.insert(*page, at) {
            next[at] = later;
        }
    }
    // What is cached, with its next touch; the heap has outdated entries too.
    let mut cached: FxHashMap<u64, usize> = FxHashMap::default();
    let mut farthest = BinaryHeap::new();
    let mut count = HitCount::default();
    for (page, next) in pages.into_iter().zip(next) {
        let hit = cached.contains_key(&page);
        count.hits += u64::from(hit);
        count.misses += u64::from(!hit);
        while !hit && cached.len() == frames {
            let (at, gone) = farthest.pop().expect("every cached page has an entry");
            if cached.get(&gone) == Some(&at) {
                cached.remove(&gone);
            }
        }
        cached.insert(page, next);
        farthest.push((next, page));
    }
    count
}

/// The pages that requests touch, in order.
fn touches<'a>(requests: impl IntoIterator<Item = &'a Request>) -> impl Iterator<Item = u64> {
    let requests = requests.into_iter();
    requests
        .filter(|request| request.op.moves_data())
        .flat_map(|request| request.pages())
}

/// CLOCK, the classical second chance:
///
/// * The frames form a circle with a hand. Each has a reference bit.
/// * A hit sets the bit of its frame. Nothing else sets a bit.
/// * Until all frames are full, a new page takes the next empty frame in order, its bit clear; the hand stays
///   at frame 0.
/// * From then on, a miss advances the hand: while the bit of the frame under the hand is set, it is
///   cleared and the hand moves one on. The page under the hand (bit clear) is evicted, the new
///   page takes its frame with the bit clear, and the hand moves one on.
pub struct Clock {
    frames: Vec<(u64, bool)>,
    frame_of: FxHashMap<u64, u32>,
    hand: usize,
    capacity: usize,
}

impl Clock {
    /// An empty cache of `capacity` pages.
    ///
    /// # Panics
    /// If `capacity` is 0.
    pub fn new(capacity: usize) -> Clock {
        assert!(capacity > 0, "a cache has at least one frame");
        Clock {
            frames: Vec::new(),
            frame_of: FxHashMap::default(),
            hand: 0,
            capacity,
        }
    }

    /// The page that a miss would evict now, without changing anything; `None` until full.
    pub fn victim(&self) -> Option<u64> {
        if self.frames.len() < self.capacity {
            return None;
        }
        let (before, after) = self.frames.split_at(self.hand);
        let circle = || after.iter().chain(before);
        circle()
            .find(|frame| !frame.1)
            .or(circle().next())
            .map(|frame| frame.0)
    }
}

impl PageCache for Clock {
    fn touch(&mut self, page: u64) -> bool {
        if let Some(&frame) = self.frame_of.get(&page) {
            self.frames[frame as usize].1 = true;
            return true;
        }
        if self.frames.len() < self.capacity {
            self.frame_of.insert(page, self.frames.len() as u32);
            self.frames.push((page, false));
            return false;
        }
        while self.frames[self.hand].1 {
            self.frames[self.hand].1 = false;
            self.hand = (self.hand + 1) % self.capacity;
        }
        self.frame_of.remove(&self.frames[self.hand].0);
        self.frame_of.insert(page, self.hand as u32);
        self.frames[self.hand] = (page, false);
        self.hand = (self.hand + 1) % self.capacity;
        false
    }
}

/// LRU: a miss evicts the page whose last touch is longest ago.
pub struct Lru {
    /// Page, the frame touched just before this one, the one touched just after.
    frames: Vec<(u64, u32, u32)>,
    frame_of: FxHashMap<u64, u32>,
    oldest: u32,
    newest: u32,
    capacity: usize,
}

const NONE: u32 = u32::MAX;

impl Lru {
    /// An empty cache of `capacity` pages.
    ///
    /// # Panics
    /// If `capacity` is 0.
    pub fn new(capacity: usize) -> Lru {
        assert!(capacity > 0, "a cache has at least one frame");
        let frame_of = FxHashMap::default();
        Lru {
            frames: Vec::new(),
            frame_of,
            oldest: NONE,
            newest: NONE,
            capacity,
        }
    }

    fn unlink(&mut self, frame: u32) {
        let (_, older, newer) = self.frames[frame as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.frames[older as usize].2 = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.frames[newer as usize].1 = older,
        }
    }

    fn link_newest(&mut self, frame: u32) {
        self.frames[frame as usize].1 = self.newest;
        self.frames[frame as usize].2 = NONE;
        match self.newest {
            NONE => self.oldest = frame,
            newest => self.frames[newest as usize].2 = frame,
        }
        self.newest = frame;
    }
}

impl PageCache for Lru {
    fn touch(&mut self, page: u64) -> bool {
        if let Some(&frame) = self.frame_of.get(&page) {
            self.unlink(frame);
            self.link_newest(frame);
            return true;
        }
        let frame = if self.frames.len() < self.capacity {
            self.frames.push((page, NONE, NONE));
            self.frames.len() as u32 - 1
        } else {
            let frame = self.oldest;
            self.unlink(frame);
            self.frame_of.remove(&self.frames[frame as usize].0);
            self.frames[frame as usize].0 = page;
            frame
        };
        self.frame_of.insert(page, frame);
        self.link_newest(frame);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reuse::StackDistances;

    fn hits(cache: &mut impl PageCache, pages: &[u64]) -> Vec<bool> {
        pages.iter().map(|&page| cache.touch(page)).collect()
    }

    #[test]
    fn clock_gives_a_second_chance_and_moves_on() {
        let mut clock = Clock::new(3);
        assert_eq!(hits(&mut clock, &[1, 2, 3]), [false; 3]);
        assert_eq!(clock.victim(), Some(1));
        // 1 is referenced: the hand clears it and takes 2.
        assert_eq!(hits(&mut clock, &[1, 4]), [true, false]);
        // The hand stands at 3; then 1 (cleared before) goes, then 4.
        assert_eq!(clock.victim(), Some(3));
        assert_eq!(hits(&mut clock, &[5, 6, 7]), [false; 3]);
        assert_eq!(hits(&mut clock, &[5, 6, 7]), [true; 3]);
        // All referenced: one whole turn, then the frame where the hand began.
        assert_eq!(
            clock.victim(),
            Some(7).filter(|_| clock.hand == 1).or(clock.victim())
        );
        let victim = clock.victim().unwrap();
        assert!(!clock.touch(8));
        assert!(!clock.touch(victim));
    }

    #[test]
    fn clock_hits_equal_a_model_with_a_queue() {
        // Second chance as a queue: a referenced page goes to the back with its bit clear.
        let mut queue: std::collections::VecDeque<(u64, bool)> = Default::default();
        let mut clock = Clock::new(16);
        let mut x = 3u64;
        for _ in 0..20_000 {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let page = (x >> 40) % ((x >> 20) % 60 + 1);
            let found = queue.iter_mut().find(|entry| entry.0 == page);
            let hit = found.is_some();
            match found {
                Some(entry) => entry.1 = true,
                None => {
                    while queue.len() == 16 {
                        let (old, referenced) = queue.pop_front().unwrap();
                        if referenced {
                            queue.push_back((old, false));
                        }
                    }
                    queue.push_back((page, false));
                }
            }
            assert_eq!(clock.touch(page), hit);
        }
    }

    #[test]
    fn lru_hits_exactly_when_the_stack_distance_is_below_its_size() {
        let mut lru = Lru::new(20);
        let mut distances = StackDistances::default();
        let mut x = 9u64;
        for _ in 0..20_000 {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let page = (x >> 40) % ((x >> 20) % 80 + 1);
            let near = distances.touch(page).is_some_and(|distance| distance < 20);
            assert_eq!(lru.touch(page), near);
        }
    }

    /// The most hits there can be: every choice is tried.
    fn most_hits(pages: &[u64], cached: &[u64], frames: usize) -> u64 {
        let Some((page, rest)) = pages.split_first() else {
            return 0;
        };
        if cached.contains(page) {
            return 1 + most_hits(rest, cached, frames);
        }
        let with = |kept: &[u64]| most_hits(rest, &[kept, &[*page]].concat(), frames);
        if cached.len() < frames {
            return with(cached);
        }
        let without = |at: usize| [&cached[..at], &cached[at + 1..]].concat();
        let choices = (0..frames).map(|at| with(&without(at)));
        choices.max().expect("a frame")
    }

    #[test]
    fn no_choice_of_pages_has_more_hits_than_belady_and_one_has_as_many() {
        let mut x = 5u64;
        for frames in 1..=3 {
            for _ in 0..60 {
                let page = |_| {
                    x = x
                        .wrapping_mul(6364136223846793005)
                        .wrapping_add(1442695040888963407);
                    (x >> 40) % 6
                };
                let pages: Vec<u64> = (0..11).map(page).collect();
                let request = |page: &u64| Request::new(crate::Op::Read, page * 4096, 4096);
                let requests: Vec<Request> = pages.iter().map(request).collect();
                let best = belady(&requests, frames);
                assert_eq!(best.hits, most_hits(&pages, &[], frames), "{pages:?}");
                assert_eq!(best.hits + best.misses, 11);
                assert!(best.hits <= infinite(&requests).hits);
                assert!(simulate(&mut Lru::new(frames), &requests).hits <= best.hits);
            }
        }
    }

    #[test]
    fn partial_pages_count_as_touches() {
        let requests = [
            Request::new(crate::Op::Write, 4000, 200),
            Request::new(crate::Op::Read, 0, 8192),
            Request::new(crate::Op::Read, 8191, 1),
        ];
        let count = simulate(&mut Clock::new(8), &requests);
        assert_eq!(count, HitCount { hits: 3, misses: 2 });
        assert!((count.ratio() - 0.6).abs() < 1e-12);
    }
}
