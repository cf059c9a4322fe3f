//! CLOCK: frames are a circle with a hand. The hand passes frames that were used since it came by, up to one that was not: its page leaves, and the
//! hand stands behind it. A page enters wherever its frame is, and the hand need not be told: so it keeps nothing of frames at all.

use crate::{Look, Policy, Victim};

/// See the module. It is as good as copied: whoever has it in a `Cell` puts it back.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    frames: u32,
    hand: u32,
}

impl Clock {
    /// The frame that it looks at next.
    pub fn hand(&self) -> u32 {
        self.hand
    }

    /// Has the hand go on by so many frames at most; gives how many it went.
    #[inline]
    pub fn search(&mut self, steps: u32, mut look: impl FnMut(u32) -> Look) -> (Victim, u32) {
        for step in 0..steps {
            let at = self.hand;
            let seen = look(at);
            if seen == Look::Ends {
                return (Victim::Ended, step);
            }
            self.hand = if at + 1 == self.frames { 0 } else { at + 1 };
            if seen == Look::Goes {
                return (Victim::Frame(at), step + 1);
            }
        }
        (Victim::None, steps)
    }

    /// The same, by two rounds: one takes every mark off, a second looks at every frame.
    #[inline]
    pub fn victim(&mut self, look: impl FnMut(u32) -> Look) -> (Victim, u32) {
        self.search(2 * self.frames, look)
    }
}

impl Policy for Clock {
    fn new(frames: u32) -> Clock {
        Clock { frames, hand: 0 }
    }

    #[inline]
    fn evict(&mut self, _coming: Option<u64>, look: impl FnMut(u32) -> Look) -> Victim {
        self.victim(look).0
    }

    #[inline]
    fn insert(&mut self, _frame: u32, _key: u64) {}

    #[inline]
    fn remove(&mut self, _frame: u32) {}

    fn bytes(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_takes_marks_off_and_stops_where_it_is_told() {
        let mut clock = Clock::new(3);
        let mut used = [true, false, true];
        let mut look = |frame: u32| match std::mem::take(&mut used[frame as usize]) {
            true => Look::Used(1),
            false => Look::Goes,
        };
        assert_eq!(clock.victim(&mut look), (Victim::Frame(1), 2));
        assert_eq!(clock.victim(&mut look), (Victim::Frame(0), 2));
        assert_eq!(clock.victim(|_| Look::Stays), (Victim::None, 6));
        assert_eq!(clock.victim(|_| Look::Ends), (Victim::Ended, 0));
        assert_eq!(clock.hand(), 1, "it waits there");
    }
}
