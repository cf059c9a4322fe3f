//! Blocks of LZ4, sequence by sequence.
//!
//! Problem: a block of another program's holds up to 4 MiB, which a library expands at once, into memory for all of it.
//!
//! Idea: a sequence is some bytes as they are, and some that were there before, at most 64 KiB ago. So the last 64 KiB are enough, and
//! it can stop behind any byte of what it reads and of what it makes.

use super::super::{Refused, Step};

/// Bytes that can be repeated.
const WINDOW_BYTES: usize = 1 << 16;

/// The shortest repetition.
const MATCH_MIN: usize = 4;

/// More than a token says of bytes as they are, and a whole half of those that it says are repeated.
const SHORT_BYTES: usize = 16;

/// A length in a token that goes on in bytes of its own.
const MORE: usize = 15;

/// What was made last, and where in a sequence it stands.
pub(super) struct Sequences {
    /// A ring: what comes next is put at `at`.
    window: Box<[u8]>,
    at: usize,
    /// Bytes before that may be repeated.
    known: usize,
    state: State,
    /// The shorter length in the token of this sequence.
    match_code: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Token,
    LiteralLength(usize),
    Literals(usize),
    Offset,
    OffsetEnd(u8),
    MatchLength(usize, usize),
    /// Bytes that are left of a repetition, and how far back they were.
    Match(usize, usize),
}

impl Sequences {
    pub(super) fn new() -> Sequences {
        Sequences {
            window: vec![0; WINDOW_BYTES].into(),
            at: 0,
            known: 0,
            state: State::Token,
            match_code: 0,
        }
    }

    /// What comes cannot repeat what was before.
    pub(super) fn forget(&mut self) {
        self.known = 0;
    }

    /// Whether a block may end here: behind bytes as they are.
    pub(super) fn can_end(&self) -> bool {
        self.state == State::Offset
    }

    /// A block begins.
    pub(super) fn begin(&mut self) {
        self.state = State::Token;
    }

    /// Takes bytes that are not compressed, as many as there are and as there is room for.
    pub(super) fn plain(&mut self, input: &[u8], room: &mut [u8]) -> usize {
        let bytes = input.len().min(room.len());
        room[..bytes].copy_from_slice(&input[..bytes]);
        self.keep(&input[..bytes]);
        bytes
    }

    /// Takes some of a block, and fills some of the room: until one of both is used up.
    pub(super) fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, Refused> {
        let mut done = Step::default();
        loop {
            let Step { taken, made, .. } = done;
            match self.state {
                State::Literals(left) => {
                    let count = left.min(input.len() - taken).min(room.len() - made);
                    room[made..made + count].copy_from_slice(&input[taken..taken + count]);
                    done.taken += count;
                    done.made += count;
                    if count < left {
                        self.state = State::Literals(left - count);
                        break;
                    }
                    self.state = State::Offset;
                }
                State::Match(left, back) => {
                    let count = left.min(room.len() - made);
                    self.repeat(back, count, room, made);
                    done.made += count;
                    if count < left {
                        self.state = State::Match(left - count, back);
                        break;
                    }
                    self.state = State::Token;
                    self.short_ones(input, room, &mut done)?;
                }
                _ => {
                    let Some(&byte) = input.get(taken) else { break };
                    done.taken += 1;
                    self.state = self.next(byte, made)?;
                }
            }
        }
        self.keep(&room[..done.made]);
        Ok(done)
    }

    /// The same for sequences whose lengths are in their tokens, as most are: as long as neither input nor room can end within one.
    fn short_ones(&self, input: &[u8], room: &mut [u8], done: &mut Step) -> Result<(), Refused> {
        let mut at = (done.taken, done.made);
        while input.len() - at.0 >= 2 * SHORT_BYTES && room.len() - at.1 >= 3 * SHORT_BYTES {
            let token = usize::from(input[at.0]);
            let (literals, code) = (token >> 4, token & MORE);
            if literals == MORE || code == MORE {
                break;
            }
            let from = at.0 + 1;
            // What is too much is overwritten by what comes next.
            room[at.1..at.1 + SHORT_BYTES].copy_from_slice(&input[from..from + SHORT_BYTES]);
            let (from, made) = (from + literals, at.1 + literals);
            let back = usize::from(u16::from_le_bytes([input[from], input[from + 1]]));
            self.check_back(back, made)?;
            let count = code + MATCH_MIN;
            match (2 * SHORT_BYTES..=made).contains(&back) {
                true => room.copy_within(made - back..made - back + 2 * SHORT_BYTES, made),
                false => self.repeat(back, count, room, made),
            }
            at = (from + 2, made + count);
        }
        (done.taken, done.made) = at;
        Ok(())
    }

    /// Whether there is something so far back, when so many bytes were made since the window was filled.
    fn check_back(&self, back: usize, made: usize) -> Result<(), Refused> {
        match (1..=self.known + made).contains(&back) {
            true => Ok(()),
            false => Err(Refused::Damaged),
        }
    }

    /// What comes behind a byte of a sequence's lengths and offset, when so many bytes were made since the window was filled.
    fn next(&mut self, byte: u8, made: usize) -> Result<State, Refused> {
        let value = usize::from(byte);
        Ok(match self.state {
            State::Token => {
                self.match_code = value & MORE;
                match value >> 4 {
                    MORE => State::LiteralLength(MORE),
                    0 => State::Offset,
                    count => State::Literals(count),
                }
            }
            State::LiteralLength(so_far) => match byte {
                u8::MAX => State::LiteralLength(so_far + value),
                _ => State::Literals(so_far + value),
            },
            State::Offset => State::OffsetEnd(byte),
            State::OffsetEnd(low) => {
                let back = usize::from(u16::from_le_bytes([low, byte]));
                self.check_back(back, made)?;
                let count = self.match_code + MATCH_MIN;
                match self.match_code {
                    MORE => State::MatchLength(count, back),
                    _ => State::Match(count, back),
                }
            }
            State::MatchLength(so_far, back) => match byte {
                u8::MAX => State::MatchLength(so_far + value, back),
                _ => State::Match(so_far + value, back),
            },
            State::Literals(_) | State::Match(..) => unreachable!("they take no byte of their own"),
        })
    }

    /// Makes bytes of the room, from `made` on, which were there `back` bytes before.
    fn repeat(&self, back: usize, count: usize, room: &mut [u8], made: usize) {
        let (mut at, end) = (made, made + count);
        while at < end && at < back {
            // Before all that is in the room.
            let from = (self.at + WINDOW_BYTES - (back - at)) % WINDOW_BYTES;
            let run = (end - at).min(back - at).min(WINDOW_BYTES - from);
            room[at..at + run].copy_from_slice(&self.window[from..from + run]);
            at += run;
        }
        // What was repeated can be repeated as a whole.
        let from = at.wrapping_sub(back);
        while at < end {
            let run = (end - at).min(at - from);
            room.copy_within(from..from + run, at);
            at += run;
        }
    }

    /// These are what was made last.
    fn keep(&mut self, bytes: &[u8]) {
        let last = &bytes[bytes.len().saturating_sub(WINDOW_BYTES)..];
        let end = last.len().min(WINDOW_BYTES - self.at);
        self.window[self.at..self.at + end].copy_from_slice(&last[..end]);
        self.window[..last.len() - end].copy_from_slice(&last[end..]);
        self.at = (self.at + last.len()) % WINDOW_BYTES;
        self.known = (self.known + bytes.len()).min(WINDOW_BYTES);
    }
}
