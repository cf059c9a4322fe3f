//! CLOCK: frames are a circle with a hand. A use sets the mark of a frame. The hand passes frames with a mark, which it takes, up to one without:
//! its page leaves, and the hand stands behind it.

use crate::Policy;

/// What is in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    Empty,
    Unused,
    Used,
}

/// See the module.
#[derive(Debug)]
pub struct Clock {
    frames: Vec<Frame>,
    hand: usize,
}

impl Policy for Clock {
    fn new(frames: u32) -> Clock {
        Clock {
            frames: vec![Frame::Empty; frames as usize],
            hand: 0,
        }
    }

    #[inline]
    fn hit(&mut self, frame: u32) {
        self.frames[frame as usize] = Frame::Used;
    }

    fn evict(&mut self, _key: u64) -> u32 {
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.frames.len();
            match self.frames[at] {
                Frame::Empty => {}
                Frame::Used => self.frames[at] = Frame::Unused,
                Frame::Unused => {
                    self.frames[at] = Frame::Empty;
                    return at as u32;
                }
            }
        }
    }

    fn insert(&mut self, frame: u32, _key: u64) {
        self.frames[frame as usize] = Frame::Unused;
    }

    fn remove(&mut self, frame: u32) {
        self.frames[frame as usize] = Frame::Empty;
    }
}
