//! What policies hit of a stream of pages. The pages are numbered once, so that each of many simulations finds a page by its number and no hash.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use crate::lists::NONE;
use crate::{
    Arc, Clock, Fifo, Kind, Lirs, Look, Lru, Policy, S3Fifo, Sieve, TinyLfu, TwoQ, Victim, belady,
};

/// Uses of pages, in order.
#[derive(Debug, Clone)]
pub struct Stream<K = u64> {
    numbers: FxHashMap<K, u32>,
    uses: Vec<u32>,
}

impl<K> Default for Stream<K> {
    fn default() -> Stream<K> {
        Stream {
            numbers: FxHashMap::default(),
            uses: Vec::new(),
        }
    }
}

impl<K: Eq + Hash> Stream<K> {
    /// Adds a use of a page.
    ///
    /// # Panics
    /// After 4 billion uses.
    pub fn push(&mut self, page: K) {
        assert!(self.uses.len() < NONE as usize, "too many uses of pages");
        let next = self.numbers.len() as u32;
        self.uses.push(*self.numbers.entry(page).or_insert(next));
    }

    /// Bytes of memory that it takes at the most while it comes to so many more uses: where its table grows, the old one is there too.
    pub fn bytes_with(&self, more: usize) -> u64 {
        let entry = size_of::<(K, u32)>() as u64 + 1;
        // A table is filled to seven eighths.
        let table = |pages: usize| (pages as u64 * 8).div_ceil(7).next_power_of_two() * entry;
        let (pages, room) = (self.numbers.len() + more, self.numbers.capacity());
        let table = match pages > room {
            true => table(room) + table(pages.max(room + 1)),
            false => table(room),
        };
        let (uses, room) = (self.uses.len() + more, self.uses.capacity());
        let uses = if uses > room {
            uses.max(room * 2)
        } else {
            room
        };
        table + uses as u64 * size_of::<u32>() as u64
    }

    /// Uses of pages.
    pub fn len(&self) -> u64 {
        self.uses.len() as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.uses.is_empty()
    }

    /// Pages that are used.
    pub fn distinct(&self) -> u32 {
        self.numbers.len() as u32
    }

    /// Uses that a cache of so many frames has the page for; a page that is not there always comes.
    pub fn hits(&self, kind: Kind, frames: u32) -> u64 {
        let (uses, distinct) = (&self.uses[..], self.distinct());
        match kind {
            Kind::Fifo => simulate::<Fifo>(uses, distinct, frames),
            Kind::Lru => simulate::<Lru>(uses, distinct, frames),
            Kind::Clock => simulate::<Clock>(uses, distinct, frames),
            Kind::Sieve => simulate::<Sieve>(uses, distinct, frames),
            Kind::S3Fifo => simulate::<S3Fifo>(uses, distinct, frames),
            Kind::TwoQ => simulate::<TwoQ>(uses, distinct, frames),
            Kind::Arc => simulate::<Arc>(uses, distinct, frames),
            Kind::Lirs => simulate::<Lirs>(uses, distinct, frames),
            Kind::WTinyLfu => simulate::<TinyLfu>(uses, distinct, frames),
            Kind::Belady => belady(uses, distinct, frames),
        }
    }
}

/// Hits of a policy over pages that are numbered below `distinct`.
pub fn simulate<P: Policy>(pages: &[u32], distinct: u32, frames: u32) -> u64 {
    if frames == 0 {
        return 0;
    }
    let frames = frames.min(distinct.max(1));
    let mut policy = P::new(frames);
    let mut frame_of = vec![NONE; distinct as usize];
    let mut page_of = vec![NONE; frames as usize];
    let (mut used, mut hits) = (0, 0);
    let hears_uses = policy.hears_uses();
    // Uses since the policy looked, as a cache counts them.
    let mut uses = vec![0_u8; frames as usize];
    for &page in pages {
        let frame = frame_of[page as usize];
        if frame != NONE {
            hits += 1;
            match hears_uses {
                true => policy.hit(frame),
                false => uses[frame as usize] = uses[frame as usize].saturating_add(1),
            }
            continue;
        }
        let frame = match used < frames {
            true => {
                used += 1;
                used - 1
            }
            false => {
                let look = |frame: u32| match std::mem::take(&mut uses[frame as usize]) {
                    0 => Look::Goes,
                    times => Look::Used(times),
                };
                let Victim::Frame(frame) = policy.evict(Some(page.into()), look) else {
                    unreachable!("each page may go");
                };
                frame
            }
        };
        let gone = std::mem::replace(&mut page_of[frame as usize], page);
        if gone != NONE {
            frame_of[gone as usize] = NONE;
        }
        frame_of[page as usize] = frame;
        policy.insert(frame, page.into());
    }
    hits
}
