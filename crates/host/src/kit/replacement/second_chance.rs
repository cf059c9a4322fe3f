//! Second chance: a queue of frames that may go, in the order in which they were offered. One that
//! was used since goes to the end once more; one that cannot go when its turn comes leaves the
//! queue until it is offered again.
//!
//! So a step costs the same however many frames cannot go, as where clients hold most of them.

use std::collections::VecDeque;

use super::{Look, Replacement, Victim};

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
}

impl Replacement for SecondChance {
    fn of_frames(_: u32) -> SecondChance {
        SecondChance::default()
    }

    #[inline]
    fn insert(&mut self, frame: u32) {
        self.queue.push_back(frame);
    }

    fn remove(&mut self, frame: u32) {
        self.queue.retain(|other| *other != frame);
    }

    fn victim(&mut self, mut look: impl FnMut(u32) -> Look) -> (Victim, u32) {
        let mut steps = 0;
        while let Some(frame) = self.queue.pop_front() {
            steps += 1;
            match look(frame) {
                Look::Goes => return (Victim::Frame(frame), steps),
                Look::Used => self.queue.push_back(frame),
                Look::Stays => {}
                Look::Ends => {
                    self.queue.push_front(frame);
                    return (Victim::Ended, steps - 1);
                }
            }
        }
        (Victim::None, steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_frames_come_again_and_others_when_they_are_offered() {
        let mut queue = SecondChance::of_frames(3);
        (0..3).for_each(|frame| queue.insert(frame));
        let mut seen = Vec::new();
        let victim = queue.victim(|frame| {
            seen.push(frame);
            match (frame, seen.len()) {
                (0, 1) => Look::Used,
                (1, _) => Look::Stays,
                (2, _) => Look::Used,
                _ => Look::Goes,
            }
        });
        assert_eq!((victim, seen), ((Victim::Frame(0), 4), vec![0, 1, 2, 0]));
        assert_eq!(queue.victim(|_| Look::Goes), (Victim::Frame(2), 1));
        assert!(queue.is_empty(), "the second one was not offered again");
    }
}
