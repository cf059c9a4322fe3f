//! Second chance: a queue of frames that may go, in the order in which they were offered. One that
//! was used since goes to the end once more; one that cannot go when its turn comes leaves the
//! queue until it is offered again.
//!
//! So a step costs the same however many frames cannot go, as where clients hold most of them.

use std::collections::VecDeque;

use super::Look;

/// See the module. A frame that is in the queue is not inserted: its owner knows.
#[derive(Debug, Default)]
pub struct SecondChance {
    queue: VecDeque<u32>,
}

impl SecondChance {
    /// True if no frame may go.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// A frame may go from now on.
    #[inline]
    pub fn insert(&mut self, frame: u32) {
        self.queue.push_back(frame);
    }

    /// A frame may not go any more.
    pub fn remove(&mut self, frame: u32) {
        self.queue.retain(|other| *other != frame);
    }

    /// Looks for a page to give up, until one [goes](Look::Goes) or the queue is empty. One that goes, or stays, has left the queue.
    pub fn victim(&mut self, mut look: impl FnMut(u32) -> Look) -> Option<u32> {
        while let Some(frame) = self.queue.pop_front() {
            match look(frame) {
                Look::Goes => return Some(frame),
                Look::Used(_) => self.queue.push_back(frame),
                Look::Stays => {}
                Look::Ends => {
                    self.queue.push_front(frame);
                    return None;
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_frames_come_again_and_others_when_they_are_offered() {
        let mut queue = SecondChance::default();
        (0..3).for_each(|frame| queue.insert(frame));
        let mut seen = Vec::new();
        let victim = queue.victim(|frame| {
            seen.push(frame);
            match (frame, seen.len()) {
                (0, 1) => Look::Used(1),
                (1, _) => Look::Stays,
                (2, _) => Look::Used(1),
                _ => Look::Goes,
            }
        });
        assert_eq!((victim, seen), (Some(0), vec![0, 1, 2, 0]));
        assert_eq!(queue.victim(|_| Look::Goes), Some(2));
        assert!(queue.is_empty(), "the second one was not offered again");
    }
}
