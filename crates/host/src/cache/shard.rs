//! A shard of a page cache: frames, their index, the clock hand, and who waits. Everything here is
//! done by one client at a time, under the shard's lock, and nothing waits.
//!
//! Until all frames are in use they are used in order. A new page enters with its reference bit
//! without uses; hits count them. When a page must go, the [policy](crate::kit::replacement) says
//! which.
//!
//! A page that leaves with changes is written to the drive first. From the moment its frame is
//! chosen, the index has the new page (busy); the old one stands in the list of those *leaving*,
//! until it is on the drive. Who looks for either waits.

use std::collections::VecDeque;

use wharf_runtime::page_index::{Index, hash_page};

use crate::cache::dirty::DirtySet;
use crate::cache::frame::Frame;
use crate::design::Replacement;
use crate::kit::replacement::{AnyPolicy, Look, Victim, chosen};
use wharf_runtime::wake::Sleeper;
use wharf_wire::dma::RegisterError;

/// What a page is waited for by, when any frame will do.
const ANY_PAGE: u64 = u64::MAX;

/// What the shard knows of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Its data is in this frame.
    Ready(u32),
    /// Its data is on the way in or out: wait for it.
    OnTheWay,
    /// As before, and the drive does not answer.
    Stuck,
    /// It is not in the cache.
    Absent,
}

/// What became of the wish for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// The page has this frame now, and is busy.
    Clean(u32),
    /// As before, but the page that had the frame must be written to the drive first.
    Dirty {
        /// The frame.
        frame: u32,
        /// The page that leaves.
        leaving: u64,
    },
    /// The policy would have a frame that the request itself holds: it must give it up.
    Own,
    /// Every frame is held by a request: wait for any.
    AllHeld,
    /// Every frame is held by a command that the drive does not answer.
    AllStuck,
}

struct Leaving {
    page: u64,
    frame: u32,
}

struct Waiter {
    page: u64,
    sleeper: Sleeper,
}

/// See the module.
pub struct Shard {
    frames: Box<[Frame]>,
    index: Index,
    dirty: DirtySet,
    policy: Box<dyn AnyPolicy>,
    /// Whether the policy is told of each use.
    hears_uses: bool,
    /// Frames from here on were never used.
    used: u32,
    /// Frames whose page could not be read, to be used again before any page must go.
    freed: VecDeque<u32>,
    leaving: Vec<Leaving>,
    waiters: Vec<Waiter>,
}

impl Shard {
    /// A shard of `frames` empty frames.
    ///
    /// # Errors
    /// If there is no memory for the policy.
    pub fn new(frames: u32, replacement: Replacement) -> Result<Shard, RegisterError> {
        let policy = chosen(replacement, frames)?;
        Ok(Shard {
            frames: vec![Frame::default(); frames as usize].into(),
            index: Index::new(frames),
            dirty: DirtySet::new(frames),
            hears_uses: policy.hears_uses(),
            policy,
            used: 0,
            freed: VecDeque::new(),
            leaving: Vec::new(),
            waiters: Vec::new(),
        })
    }

    /// Bytes that it takes to keep book of the frames.
    pub fn bytes(&self) -> usize {
        let frames = size_of_val(&*self.frames) + self.dirty.bytes();
        frames + self.index.bytes() + self.policy.bytes() + size_of::<Shard>()
    }

    /// A frame's page and state.
    #[inline]
    pub fn frame(&self, frame: u32) -> Frame {
        self.frames[frame as usize]
    }

    /// Looks a page up; `hash` is [`hash_page`] of it.
    #[inline]
    pub fn find(&self, page: u64, hash: u64) -> Found {
        let holds = |frame: u32| self.frames[frame as usize].holds(page);
        match self.index.find(page, hash, holds) {
            Some(frame) if !self.frames[frame as usize].is_busy() => Found::Ready(frame),
            Some(frame) if self.frames[frame as usize].is_stuck() => Found::Stuck,
            Some(_) => Found::OnTheWay,
            None if self.leaving.is_empty() => Found::Absent,
            None => self.find_leaving(page),
        }
    }

    fn find_leaving(&self, page: u64) -> Found {
        match self.leaving.iter().find(|l| l.page == page) {
            Some(l) if self.frames[l.frame as usize].is_stuck() => Found::Stuck,
            Some(_) => Found::OnTheWay,
            None => Found::Absent,
        }
    }

    /// Notes a hit on a ready frame.
    #[inline]
    pub fn touch(&mut self, frame: u32) {
        match self.hears_uses {
            true => self.policy.hit(frame),
            false => self.frames[frame as usize].count_use(),
        }
    }

    /// Whether a hit changes lists, and not the frame's own word alone.
    #[inline]
    pub fn hears_uses(&self) -> bool {
        self.hears_uses
    }

    /// Gives a page that is absent a frame, and makes it busy. `is_own(frame)` says whether the
    /// request holds a frame itself. Also gives the frames that the policy looked at.
    pub fn place(&mut self, page: u64, hash: u64, is_own: impl Fn(u32) -> bool) -> (Placed, u32) {
        if let Some(frame) = self.freed.pop_front() {
            self.enter(page, hash, frame);
            return (Placed::Clean(frame), 0);
        }
        if self.used < self.frames.len() as u32 {
            let frame = self.used;
            self.used += 1;
            self.enter(page, hash, frame);
            return (Placed::Clean(frame), 0);
        }
        let (victim, steps) = self.choose(page, is_own);
        let placed = match victim {
            Ok(frame) => self.replace(page, hash, frame),
            Err(other) => other,
        };
        (placed, steps)
    }

    /// Has the policy choose a frame that can be given up for a page. Also gives the frames looked at.
    #[inline]
    fn choose(&mut self, page: u64, is_own: impl Fn(u32) -> bool) -> (Result<u32, Placed>, u32) {
        let (frames, mut hopeful, mut steps) = (&mut self.frames, false, 0);
        let victim = self.policy.evict(Some(page), &mut |at| {
            let frame = &mut frames[at as usize];
            steps += 1;
            let uses = frame.take_uses();
            if uses > 0 {
                return Look::Used(uses);
            }
            if frame.is_pinned() {
                hopeful |= !frame.is_stuck();
                return if is_own(at) { Look::Ends } else { Look::Stays };
            }
            if frame.is_empty() {
                Look::Stays
            } else {
                Look::Goes
            }
        });
        let victim = match victim {
            Victim::Frame(frame) => Ok(frame),
            Victim::Ended => {
                steps -= 1;
                Err(Placed::Own)
            }
            Victim::None if hopeful => Err(Placed::AllHeld),
            Victim::None => Err(Placed::AllStuck),
        };
        (victim, steps)
    }

    fn replace(&mut self, page: u64, hash: u64, frame: u32) -> Placed {
        let old = self.frames[frame as usize];
        self.unindex(frame);
        self.enter(page, hash, frame);
        if !old.is_dirty() {
            return Placed::Clean(frame);
        }
        self.dirty.set(frame, false);
        let leaving = old.page();
        self.leaving.push(Leaving {
            page: leaving,
            frame,
        });
        Placed::Dirty { frame, leaving }
    }

    fn enter(&mut self, page: u64, hash: u64, frame: u32) {
        self.frames[frame as usize] = Frame::busy(page);
        self.index.insert(page, hash, frame);
        self.policy.insert(frame, page);
    }

    fn unindex(&mut self, frame: u32) {
        let page = self.frames[frame as usize].page();
        let frames = &self.frames;
        self.index
            .remove(page, hash_page(page), frame, |f| frames[f as usize].page());
    }

    /// The page that left a frame is on the drive.
    pub fn has_left(&mut self, page: u64, woken: &mut Vec<Sleeper>) {
        let at = self.leaving.iter().position(|l| l.page == page);
        self.leaving.swap_remove(at.expect("the page is leaving"));
        self.wake(page, woken);
    }

    /// The page that was leaving a frame could not be written: it stays, and the page that was to
    /// have the frame is absent again.
    pub fn take_back(&mut self, leaving: u64, woken: &mut Vec<Sleeper>) {
        let at = self.leaving.iter().position(|l| l.page == leaving);
        let Leaving { frame, .. } = self.leaving.swap_remove(at.expect("the page is leaving"));
        let kept_out = self.frames[frame as usize].page();
        self.unindex(frame);
        self.policy.remove(frame);
        self.enter(leaving, hash_page(leaving), frame);
        self.frames[frame as usize].set_ready();
        self.set_dirty(frame);
        self.wake(leaving, woken);
        self.wake(kept_out, woken);
    }

    /// A busy frame's data is there.
    #[inline]
    pub fn set_ready(&mut self, frame: u32, woken: &mut Vec<Sleeper>) {
        self.frames[frame as usize].set_ready();
        self.wake(self.frames[frame as usize].page(), woken);
    }

    /// As [`Shard::set_ready`], for a frame that was placed clean under the same hold of the lock:
    /// nobody can have begun to wait for it, nor for want of it.
    #[inline]
    pub fn set_ready_at_once(&mut self, frame: u32) {
        self.frames[frame as usize].set_ready();
    }

    /// A ready frame's data was changed.
    #[inline]
    pub fn set_dirty(&mut self, frame: u32) {
        self.frames[frame as usize].set_dirty(true);
        self.dirty.set(frame, true);
    }

    /// The drive is to read a ready frame.
    #[inline]
    pub fn begin_writing(&mut self, frame: u32) {
        self.frames[frame as usize].set_writing(true);
    }

    /// The drive has read a frame, or refused it; a dirty page is clean if it `succeeded`.
    pub fn end_writing(&mut self, frame: u32, succeeded: bool, woken: &mut Vec<Sleeper>) {
        let state = &mut self.frames[frame as usize];
        state.set_writing(false);
        if succeeded {
            state.set_dirty(false);
            self.dirty.set(frame, false);
        }
        self.wake(self.frames[frame as usize].page(), woken);
    }

    /// Takes a page out that is busy, or whose data must not be used; it is absent then, and its
    /// frame free.
    pub fn drop_page(&mut self, frame: u32, woken: &mut Vec<Sleeper>) {
        let page = self.frames[frame as usize].page();
        self.unindex(frame);
        self.policy.remove(frame);
        self.frames[frame as usize] = Frame::default();
        self.dirty.set(frame, false);
        self.freed.push_back(frame);
        self.wake(page, woken);
    }

    /// The drive does not answer a command on a frame: nobody is to wait for it.
    pub fn set_stuck(&mut self, frame: u32, woken: &mut Vec<Sleeper>) {
        self.frames[frame as usize].set_stuck();
        self.wake(self.frames[frame as usize].page(), woken);
        if let Some(leaving) = self.leaving.iter().find(|l| l.frame == frame) {
            self.wake(leaving.page, woken);
        }
    }

    /// Has a sleeper woken when the state of `page` changes, or of any if it is `None`.
    pub fn wait_for(&mut self, page: Option<u64>, sleeper: Sleeper) {
        let page = page.unwrap_or(ANY_PAGE);
        let known = |w: &Waiter| w.page == page && w.sleeper == sleeper;
        if !self.waiters.iter().any(known) {
            self.waiters.push(Waiter { page, sleeper });
        }
    }

    #[inline]
    fn wake(&mut self, page: u64, woken: &mut Vec<Sleeper>) {
        if self.waiters.is_empty() {
            return;
        }
        self.waiters.retain(|waiter| {
            let waits = waiter.page == page || waiter.page == ANY_PAGE;
            if waits {
                woken.push(waiter.sleeper);
            }
            !waits
        });
    }

    /// Adds the pages that the drive does not have, also those that are being written.
    pub fn unwritten(&self, pages: &mut Vec<u64>) {
        pages.extend(self.dirty.iter().map(|f| self.frames[f as usize].page()));
        pages.extend(self.leaving.iter().map(|l| l.page));
    }

    /// Checks that frames, index, dirty set and lists agree.
    ///
    /// # Panics
    /// If they do not.
    pub fn verify(&self) {
        let mut present = 0;
        for (at, frame) in self.frames.iter().enumerate() {
            let at = at as u32;
            assert!(
                frame.is_empty() || at < self.used,
                "frame {at} is used out of order"
            );
            let in_set = self.dirty.iter().any(|f| f == at);
            assert_eq!(frame.is_dirty(), in_set, "frame {at}: dirty bit and set");
            if frame.is_empty() {
                continue;
            }
            present += 1;
            let page = frame.page();
            let found = self.index.find(page, hash_page(page), |f| {
                self.frames[f as usize].holds(page)
            });
            assert_eq!(found, Some(at), "page {page} is indexed where it is");
            assert!(
                !(frame.is_busy() && frame.is_dirty()),
                "frame {at} is busy and dirty"
            );
        }
        let empty = self.frames[..self.used as usize]
            .iter()
            .filter(|f| f.is_empty())
            .count();
        assert_eq!(self.freed.len(), empty, "every freed frame is on the list");
        assert!(present + self.freed.len() <= self.frames.len());
        for leaving in &self.leaving {
            assert!(
                self.frames[leaving.frame as usize].is_busy(),
                "what leaves makes room"
            );
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use wharf_runtime::Seed;

    /// Touches a page; true if it was there.
    fn touch(shard: &mut Shard, page: u64) -> bool {
        let hash = hash_page(page);
        if let Found::Ready(frame) = shard.find(page, hash) {
            shard.touch(frame);
            return true;
        }
        match shard.place(page, hash, |_| false).0 {
            Placed::Clean(frame) => shard.set_ready_at_once(frame),
            Placed::Dirty { frame, leaving } => {
                shard.has_left(leaving, &mut Vec::new());
                shard.set_ready(frame, &mut Vec::new());
            }
            other => panic!("{other:?}"),
        }
        false
    }

    #[test]
    fn a_shard_takes_any_policy() {
        const FRAMES: u32 = 20;
        for (name, replacement) in Replacement::ALL {
            println!("{name}");
            let mut rng = Seed(5).rng();
            let mut shard = Shard::new(FRAMES, replacement).unwrap();
            for _ in 0..5_000 {
                let page = rng.below(3 * u64::from(FRAMES));
                touch(&mut shard, page);
                if let Found::Ready(frame) = shard.find(page, hash_page(page)) {
                    match rng.below(8) {
                        0 => shard.drop_page(frame, &mut Vec::new()),
                        1 | 2 => shard.set_dirty(frame),
                        _ => {}
                    }
                }
                shard.verify();
            }
        }
    }

    /// The same pages through a shard and through a simulation of the policy.
    #[test]
    fn a_shard_hits_what_its_policy_hits() {
        let mut rng = Seed(7).rng();
        let pages: Vec<u64> = (0..20_000)
            .map(|nth| match nth % 700 > 500 {
                true => 1_000 + nth,
                false => rng.below(400).min(rng.below(400)),
            })
            .collect();
        // W-TinyLFU hashes pages, and simulations number them in the order of their first uses.
        let mut known = Vec::new();
        let number = |page: &u64| {
            let found = known.iter().position(|other| other == page);
            found.unwrap_or_else(|| {
                known.push(*page);
                known.len() - 1
            })
        };
        let pages: Vec<u64> = pages.iter().map(number).map(|at| at as u64).collect();
        let mut stream = wharf_policy::Stream::default();
        pages.iter().for_each(|page| stream.push(*page));
        for (name, kind) in wharf_policy::Kind::ALL {
            let known = Replacement::ALL.iter().find(|(known, _)| *known == name);
            let Some((_, replacement)) = known else {
                assert_eq!(name, "belady", "a policy that caches cannot have");
                continue;
            };
            let mut shard = Shard::new(64, *replacement).unwrap();
            let hits = pages
                .iter()
                .filter(|page| touch(&mut shard, **page))
                .count();
            assert_eq!(hits as u64, stream.hits(kind, 64), "{name}");
        }
    }

    /// What the two lists are for, and CLOCK is not.
    #[test]
    fn a_scan_does_not_push_out_what_is_used_again_and_again() {
        fn hits_after_a_scan(replacement: Replacement) -> usize {
            let mut shard = Shard::new(64, replacement).unwrap();
            for round in 0..8 {
                let others = 100 * (round + 1)..100 * (round + 1) + 40;
                (0..16)
                    .chain(others)
                    .for_each(|page| _ = touch(&mut shard, page));
            }
            (10_000..10_200).for_each(|page| _ = touch(&mut shard, page));
            (0..16).filter(|page| touch(&mut shard, *page)).count()
        }
        assert_eq!(hits_after_a_scan(Replacement::Clock), 0);
        for replacement in [
            Replacement::TwoLists,
            Replacement::S3Fifo,
            Replacement::Arc,
            Replacement::Lirs,
        ] {
            assert_eq!(hits_after_a_scan(replacement), 16, "{replacement:?}");
        }
    }
}
