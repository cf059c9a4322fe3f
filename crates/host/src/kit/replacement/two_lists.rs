//! Which page to give up: two lists of frames, *active* and *inactive*.
//!
//! Problem: a page that was used once, by a scan, should not push out one that is used again and
//! again.
//!
//! Idea (mm/vmscan.c and mm/swap.c of Linux): a page enters the inactive list. A second touch moves
//! it to the active one. Victims come from the tail of the inactive list, which gets the tail of
//! the active list when it has become too short. Each memory node has both, behind one lock
//! ([`NodeLists`](crate::kit::node_lists::NodeLists)).
//!
//! The links of Linux' lists are in the pages' own structures (`struct page`, a cache line each),
//! with flags and references. So whoever puts a page on a list or takes it off fetches its line and
//! that of its neighbour, while all others wait for the lock: [`TwoLists`] tells whoever calls it
//! which frames' lines it has changed.
//!
//! Not modelled: shadow entries, which tell a page that left too early (mm/workingset.c).

use std::ops::Range;

use wharf_wire::dma::RegisterError;

use super::{Look, Policy, Victim};
use crate::kit::per_frame::per_frame;

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

/// The two lists of a node. See the module.
pub struct TwoLists {
    /// The first of the frames that can be on them.
    first: u32,
    links: Box<[Link]>,
    ends: [Ends; 2],
    /// How many times as long as the inactive list the active one may be.
    ratio: u32,
}

impl TwoLists {
    /// Empty lists for these frames of 4 KiB.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(frames: Range<u32>) -> Result<TwoLists, RegisterError> {
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
        let count = frames.end - frames.start;
        Ok(TwoLists {
            first: frames.start,
            links: per_frame(count, |_| none)?.into(),
            ends: [ends; 2],
            ratio: inactive_ratio(u64::from(count) * 4096),
        })
    }

    fn at(&mut self, frame: u32) -> &mut Link {
        &mut self.links[(frame - self.first) as usize]
    }

    /// Frames on a list.
    pub fn len(&self, list: List) -> u32 {
        self.ends[list as usize].len
    }

    /// The list that a frame is on.
    pub fn list_of(&self, frame: u32) -> Option<List> {
        self.links[(frame - self.first) as usize].on
    }

    /// True if the inactive list is too short, by the kernel's rule: shorter than the active one,
    /// or than its share from 1 GiB of memory on.
    pub fn inactive_is_low(&self) -> bool {
        self.len(List::Inactive) * self.ratio < self.len(List::Active)
    }

    /// Puts a frame that is on no list at the young end of one.
    pub fn add(&mut self, frame: u32, list: List, changed: impl Fn(u32)) {
        let oldest_side = self.ends[list as usize].newest;
        self.link(frame, list, (NONE, oldest_side), changed);
    }

    /// Puts a frame that is on no list at the old end of the inactive one.
    pub fn add_oldest(&mut self, frame: u32, changed: impl Fn(u32)) {
        let newer = self.ends[List::Inactive as usize].oldest;
        self.link(frame, List::Inactive, (newer, NONE), changed);
    }

    fn link(&mut self, frame: u32, list: List, (newer, older): (u32, u32), changed: impl Fn(u32)) {
        changed(frame);
        let link = self.at(frame);
        assert!(link.on.is_none(), "a frame is on one list");
        *link = Link {
            newer,
            older,
            on: Some(list),
        };
        self.ends[list as usize].len += 1;
        self.join(list, (newer, frame), (frame, older), changed);
    }

    /// Has what is to be newer and what is to be older than a place of a list know of each other: a
    /// frame's new neighbours.
    fn join(
        &mut self,
        list: List,
        (newer, its_older): (u32, u32),
        (its_newer, older): (u32, u32),
        changed: impl Fn(u32),
    ) {
        match newer {
            NONE => self.ends[list as usize].newest = its_older,
            newer => {
                changed(newer);
                self.at(newer).older = its_older;
            }
        }
        match older {
            NONE => self.ends[list as usize].oldest = its_newer,
            older => {
                changed(older);
                self.at(older).newer = its_newer;
            }
        }
    }

    /// Takes a frame off the list it is on.
    pub fn remove(&mut self, frame: u32, changed: impl Fn(u32)) {
        changed(frame);
        let Link { newer, older, on } = *self.at(frame);
        let list = on.expect("a frame on a list");
        self.join(list, (newer, older), (newer, older), changed);
        self.ends[list as usize].len -= 1;
        self.at(frame).on = None;
    }

    /// Takes the oldest frame off a list.
    pub fn take_oldest(&mut self, list: List, changed: impl Fn(u32)) -> Option<u32> {
        let oldest = self.ends[list as usize].oldest;
        (oldest != NONE).then(|| {
            self.remove(oldest, changed);
            oldest
        })
    }

    /// Moves old active pages to the inactive list, `most` at most, if that is too short; `moved`
    /// is told of each. Gives how many.
    pub fn refill(&mut self, most: u32, changed: impl Fn(u32) + Copy, moved: impl Fn(u32)) -> u32 {
        let mut count = 0;
        while count < most && self.inactive_is_low() {
            let Some(frame) = self.take_oldest(List::Active, changed) else {
                break;
            };
            moved(frame);
            self.add(frame, List::Inactive, changed);
            count += 1;
        }
        count
    }

    /// The frames of a list, oldest first, for checks.
    pub fn iter(&self, list: List) -> impl Iterator<Item = u32> {
        let frame = |at: u32| (at != NONE).then_some(at);
        let next = move |at: &u32| frame(self.links[(*at - self.first) as usize].newer);
        std::iter::successors(frame(self.ends[list as usize].oldest), next)
    }
}

/// For who has no lines to tell of. A page that was used moves to the active list when its turn
/// comes.
impl Policy for TwoLists {
    /// # Panics
    /// If there is no memory.
    fn new(frames: u32) -> TwoLists {
        TwoLists::new(0..frames).expect("memory for the links of a cache")
    }

    fn insert(&mut self, frame: u32, _key: u64) {
        self.add(frame, List::Inactive, |_| ());
    }

    fn remove(&mut self, frame: u32) {
        TwoLists::remove(self, frame, |_| ());
    }

    fn evict(&mut self, _coming: Option<u64>, mut look: impl FnMut(u32) -> Look) -> Victim {
        for _ in 0..2 * (self.len(List::Inactive) + self.len(List::Active)) {
            self.refill(u32::MAX, |_| (), |_| ());
            let frame = self
                .take_oldest(List::Inactive, |_| ())
                .or_else(|| self.take_oldest(List::Active, |_| ()));
            let Some(frame) = frame else { break };
            match look(frame) {
                Look::Goes => return Victim::Frame(frame),
                Look::Used(_) => self.add(frame, List::Active, |_| ()),
                Look::Stays => self.add(frame, List::Inactive, |_| ()),
                Look::Ends => {
                    self.add_oldest(frame, |_| ());
                    return Victim::Ended;
                }
            }
        }
        Victim::None
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.links)
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
        let mut lru = TwoLists::new(30..50).unwrap();
        let mut model: [VecDeque<u32>; 2] = Default::default();
        for _ in 0..20_000 {
            let frame = 30 + rng.below(20) as u32;
            let list = [List::Inactive, List::Active][rng.below(2) as usize];
            let on = model.iter().position(|queue| queue.contains(&frame));
            assert_eq!(lru.list_of(frame).map(|list| list as usize), on);
            match (rng.below(4), on) {
                (0, None) => {
                    lru.add(frame, list, |_| ());
                    model[list as usize].push_back(frame);
                }
                (1, None) => {
                    lru.add_oldest(frame, |_| ());
                    model[0].push_front(frame);
                }
                (2, Some(on)) => {
                    lru.remove(frame, |_| ());
                    model[on].retain(|other| *other != frame);
                }
                (3, _) => {
                    let taken = lru.take_oldest(list, |_| ());
                    assert_eq!(taken, model[list as usize].pop_front());
                }
                _ => {}
            }
            for list in [List::Inactive, List::Active] {
                assert!(lru.iter(list).eq(model[list as usize].iter().copied()));
                assert_eq!(lru.len(list) as usize, model[list as usize].len());
            }
        }
    }

    /// An entry of a list cost what one in a line at hand costs, whoever had written its page and
    /// its neighbour.
    #[test]
    fn who_changes_a_list_fetches_the_lines_of_neighbours_too() {
        let mut lru = TwoLists::new(0..4).unwrap();
        let lines = std::cell::RefCell::new(Vec::new());
        let changed = |frame| lines.borrow_mut().push(frame);
        lru.add(0, List::Inactive, changed);
        lru.add(1, List::Inactive, changed);
        lru.add(2, List::Inactive, changed);
        assert_eq!(lines.take(), [0, 1, 0, 2, 1]);
        lru.remove(1, changed);
        assert_eq!(lines.take(), [1, 2, 0]);
        assert_eq!(lru.take_oldest(List::Inactive, changed), Some(0));
        assert_eq!(lines.take(), [0, 2]);
        lru.add_oldest(3, changed);
        assert_eq!(lines.take(), [3, 2]);
    }

    #[test]
    fn small_memories_keep_half_inactive_and_large_ones_less() {
        assert_eq!(inactive_ratio(64 << 20), 1);
        assert_eq!(inactive_ratio(GIB), 3);
        assert_eq!(inactive_ratio(10 * GIB), 10);
    }
}
