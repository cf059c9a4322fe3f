//! Which page to give up: two lists of frames, *active* and *inactive*.
//!
//! Problem: a page that was used once, by a scan, should not push out one that is used again and
//! again.
//!
//! Idea (mm/vmscan.c and mm/swap.c of Linux): a page enters the inactive list. A second touch moves
//! it to the active one. Victims come from the tail of the inactive list, which gets the tail of the
//! active list when it has become too short. Both are behind one lock per memory node.
//!
//! Not modelled: shadow entries, which tell a page that left too early (mm/workingset.c).

use wharf_wire::dma::RegisterError;

use crate::per_frame::per_frame;

/// Frames of a batch that is put on a list, or taken off, at once.
pub const BATCH: usize = 15;

/// No frame.
const NONE: u32 = u32::MAX;

/// Bytes above which the active list may be longer than the inactive one.
const GIB: u64 = 1 << 30;

/// A list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum List {
    /// Pages that were used once, or long ago.
    Inactive = 0,
    /// Pages that were used again.
    Active = 1,
}

#[derive(Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
    on: Option<List>,
}

#[derive(Clone, Copy)]
struct Ends {
    newest: u32,
    oldest: u32,
    len: u32,
}

/// The two lists. See the module.
pub struct Lru {
    links: Box<[Link]>,
    ends: [Ends; 2],
    /// How many times as long as the inactive list the active one may be.
    ratio: u32,
}

impl Lru {
    /// Empty lists for `frames` frames of 4 KiB.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(frames: u32) -> Result<Lru, RegisterError> {
        let none = Link {
            newer: NONE,
            older: NONE,
            on: None,
        };
        let ends = Ends {
            newest: NONE,
            oldest: NONE,
            len: 0,
        };
        Ok(Lru {
            links: per_frame(frames, |_| none)?.into(),
            ends: [ends; 2],
            ratio: inactive_ratio(u64::from(frames) * 4096),
        })
    }

    /// Frames on a list.
    pub fn len(&self, list: List) -> u32 {
        self.ends[list as usize].len
    }

    /// The list that a frame is on.
    pub fn list_of(&self, frame: u32) -> Option<List> {
        self.links[frame as usize].on
    }

    /// True if the inactive list is too short, by the kernel's rule: shorter than the active one, or
    /// than its share from 1 GiB of memory on.
    pub fn inactive_is_low(&self) -> bool {
        self.len(List::Inactive) * self.ratio < self.len(List::Active)
    }

    /// Puts a frame that is on no list at the young end of one.
    pub fn add(&mut self, frame: u32, list: List) {
        let oldest_side = self.ends[list as usize].newest;
        self.link(frame, list, NONE, oldest_side);
    }

    /// Puts a frame that is on no list at the old end of the inactive one.
    pub fn add_oldest(&mut self, frame: u32) {
        let newer = self.ends[List::Inactive as usize].oldest;
        self.link(frame, List::Inactive, newer, NONE);
    }

    fn link(&mut self, frame: u32, list: List, newer: u32, older: u32) {
        let link = &mut self.links[frame as usize];
        assert!(link.on.is_none(), "a frame is on one list");
        *link = Link {
            newer,
            older,
            on: Some(list),
        };
        let ends = &mut self.ends[list as usize];
        match newer {
            NONE => ends.newest = frame,
            newer => self.links[newer as usize].older = frame,
        }
        match older {
            NONE => ends.oldest = frame,
            older => self.links[older as usize].newer = frame,
        }
        ends.len += 1;
    }

    /// Takes a frame off the list it is on.
    pub fn remove(&mut self, frame: u32) {
        let Link { newer, older, on } = self.links[frame as usize];
        let list = on.expect("a frame on a list");
        let ends = &mut self.ends[list as usize];
        match newer {
            NONE => ends.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NONE => ends.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        ends.len -= 1;
        self.links[frame as usize].on = None;
    }

    /// Takes the oldest frame off a list.
    pub fn take_oldest(&mut self, list: List) -> Option<u32> {
        let oldest = self.ends[list as usize].oldest;
        (oldest != NONE).then(|| {
            self.remove(oldest);
            oldest
        })
    }

    /// The frames of a list, oldest first, for checks.
    pub fn iter(&self, list: List) -> impl Iterator<Item = u32> {
        let frame = |at: u32| (at != NONE).then_some(at);
        let next = move |at: &u32| frame(self.links[*at as usize].newer);
        std::iter::successors(frame(self.ends[list as usize].oldest), next)
    }
}

/// The square root of ten times the GiB, at least 1 (`inactive_is_low` in mm/vmscan.c).
fn inactive_ratio(bytes: u64) -> u32 {
    (10 * (bytes / GIB)).isqrt().max(1) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use wharf_runtime::Seed;

    #[test]
    fn lists_are_as_two_queues() {
        let mut rng = Seed(3).rng();
        let mut lru = Lru::new(20).unwrap();
        let mut model: [VecDeque<u32>; 2] = Default::default();
        for _ in 0..20_000 {
            let frame = rng.below(20) as u32;
            let list = [List::Inactive, List::Active][rng.below(2) as usize];
            let on = model.iter().position(|queue| queue.contains(&frame));
            assert_eq!(lru.list_of(frame).map(|list| list as usize), on);
            match (rng.below(4), on) {
                (0, None) => {
                    lru.add(frame, list);
                    model[list as usize].push_back(frame);
                }
                (1, None) => {
                    lru.add_oldest(frame);
                    model[0].push_front(frame);
                }
                (2, Some(on)) => {
                    lru.remove(frame);
                    model[on].retain(|other| *other != frame);
                }
                (3, _) => assert_eq!(lru.take_oldest(list), model[list as usize].pop_front()),
                _ => {}
            }
            for list in [List::Inactive, List::Active] {
                assert!(lru.iter(list).eq(model[list as usize].iter().copied()));
                assert_eq!(lru.len(list) as usize, model[list as usize].len());
            }
        }
    }

    #[test]
    fn small_memories_keep_half_inactive_and_large_ones_less() {
        assert_eq!(inactive_ratio(64 << 20), 1);
        assert_eq!(inactive_ratio(GIB), 3);
        assert_eq!(inactive_ratio(10 * GIB), 10);
    }
}
