//! CLOCK, as in the textbooks: the frames form a circle, over which a hand goes. A page that was
//! used since the hand came by stays, and its mark is taken off; the first that was not goes, and
//! the hand moves on by one.
//!
//! A new page enters without a mark, wherever its frame is: the hand need not be told.

use super::{Look, Replacement, Victim};

/// See the module. It is as good as copied: whoever has it in a `Cell` puts it back.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    frames: u32,
    hand: u32,
}

impl Clock {
    /// Has another hand stand where this one does.
    pub fn hand(&self) -> u32 {
        self.hand
    }

    /// As [`Replacement::victim`], by so many steps at most.
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
}

impl Replacement for Clock {
    fn of_frames(frames: u32) -> Clock {
        Clock { frames, hand: 0 }
    }

    #[inline]
    fn insert(&mut self, _: u32) {}

    #[inline]
    fn remove(&mut self, _: u32) {}

    /// One round takes every mark off, a second looks at every frame.
    #[inline]
    fn victim(&mut self, look: impl FnMut(u32) -> Look) -> (Victim, u32) {
        self.search(2 * self.frames, look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_takes_marks_off_and_stops_where_it_is_told() {
        let mut clock = Clock::of_frames(3);
        let mut used = [true, false, true];
        let mut look = |frame: u32| match std::mem::take(&mut used[frame as usize]) {
            true => Look::Used,
            false => Look::Goes,
        };
        assert_eq!(clock.victim(&mut look), (Victim::Frame(1), 2));
        assert_eq!(clock.victim(&mut look), (Victim::Frame(0), 2));
        assert_eq!(clock.victim(|_| Look::Stays), (Victim::None, 6));
        assert_eq!(clock.victim(|_| Look::Ends), (Victim::Ended, 0));
        assert_eq!(clock.hand(), 1, "it waits there");
    }
}
