//! The frame format of LZ4: out of it. Frames may follow each other, and others to be skipped may lie between.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | a number that says what kind of frame it is |
//! | 3 or 11 | flags, the largest block, the length of what it holds (8, if a flag says so), a checksum of these |
//! | 4 and more | each block: its length, itself, a checksum of it (4, if a flag says so); the length 0 ends them |
//! | 4 | the checksum of what the frame holds, if a flag says so |

use twox_hash::XxHash32;

use super::super::{Refused, Step};
use super::block::Sequences;

/// How a frame begins.
const MAGIC: u32 = 0x184d_2204;

/// How one begins that is skipped: the last four bits are any.
const MAGIC_SKIPPED: u32 = 0x184d_2a50;

/// A block whose length has this bit is not compressed.
const PLAIN: u32 = 1 << 31;

/// What the first flags must be: version 1, and nothing in the bit without a meaning; and that says that a dictionary is needed, of which
/// there are none.
const FLAGS_FIXED: (u8, u8) = (0b1100_0011, 0b0100_0000);
const INDEPENDENT: u8 = 1 << 5;
const BLOCK_CHECKSUM: u8 = 1 << 4;
const CONTENT_BYTES: u8 = 1 << 3;
const CONTENT_CHECKSUM: u8 = 1 << 2;

/// The longest of a frame's parts that are read as a whole: its flags and lengths.
const PART_BYTES_MAX: usize = 11;

/// Expands frames.
pub(crate) struct Decompress {
    state: State,
    /// The part of the frame that is being read.
    part: [u8; PART_BYTES_MAX],
    part_bytes: usize,
    frame: Frame,
    sequences: Sequences,
    /// Frames that have ended.
    frames: u64,
    made: u64,
}

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Magic,
    SkippedBytes,
    Skipped(u32),
    Flags,
    BlockBytes,
    /// Bytes that are left of a block that is not compressed.
    Plain(usize),
    /// And of one that is.
    Packed(usize),
    BlockChecksum,
    ContentChecksum,
}

/// What a frame says of itself, and what it has come to.
struct Frame {
    flags: u8,
    block_bytes_max: usize,
    content_bytes: Option<u64>,
    made: u64,
    /// Bytes that the block has made.
    block_made: usize,
    content: XxHash32,
    block: XxHash32,
}

impl Frame {
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// What the flags and lengths behind the magic number say.
    fn of(part: &[u8]) -> Result<Frame, Refused> {
        let (said, checksum) = part.split_at(part.len() - 1);
        let (flags, size) = (said[0], said[1]);
        let is_right = flags & FLAGS_FIXED.0 == FLAGS_FIXED.1
            && matches!(size, 0x40 | 0x50 | 0x60 | 0x70)
            && (XxHash32::oneshot(0, said) >> 8) as u8 == checksum[0];
        if !is_right {
            return Err(Refused::Damaged);
        }
        let content = said[2..].first_chunk::<8>();
        Ok(Frame {
            flags,
            // 64 KiB, 256 KiB, 1 MiB, 4 MiB.
            block_bytes_max: 1 << (8 + 2 * (size >> 4)),
            content_bytes: content.map(|bytes| u64::from_le_bytes(*bytes)),
            made: 0,
            block_made: 0,
            content: XxHash32::with_seed(0),
            block: XxHash32::with_seed(0),
        })
    }

    /// Takes what was read and made of a block into account.
    fn account(&mut self, read: &[u8], made: &[u8]) -> Result<(), Refused> {
        use std::hash::Hasher;
        self.block_made += made.len();
        self.made += made.len() as u64;
        if self.block_made > self.block_bytes_max {
            return Err(Refused::Damaged);
        }
        if self.has(BLOCK_CHECKSUM) {
            self.block.write(read);
        }
        if self.has(CONTENT_CHECKSUM) {
            self.content.write(made);
        }
        Ok(())
    }
}

impl Decompress {
    pub(crate) fn new() -> Decompress {
        Decompress {
            state: State::Magic,
            part: [0; PART_BYTES_MAX],
            part_bytes: 0,
            frame: Frame {
                flags: 0,
                block_bytes_max: 0,
                content_bytes: None,
                made: 0,
                block_made: 0,
                content: XxHash32::with_seed(0),
                block: XxHash32::with_seed(0),
            },
            sequences: Sequences::new(),
            frames: 0,
            made: 0,
        }
    }

    pub(crate) fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, Refused> {
        let mut all = Step::default();
        loop {
            let (rest, free) = (&input[all.taken..], &mut room[all.made..]);
            let before = self.state;
            let step = match self.state {
                State::Plain(left) | State::Packed(left) => self.block(left, rest, free)?,
                State::Skipped(left) => {
                    let bytes = rest.len().min(left as usize);
                    self.state = match left - bytes as u32 {
                        0 => State::Magic,
                        left => State::Skipped(left),
                    };
                    Step::of(bytes, 0)
                }
                _ => Step::of(self.part(rest)?, 0),
            };
            all.taken += step.taken;
            all.made += step.made;
            if step == Step::default() && before == self.state {
                self.made += all.made as u64;
                return Ok(all);
            }
        }
    }

    pub(crate) fn finish(&mut self, room: &mut [u8]) -> Result<Step, Refused> {
        let step = self.step(&[], room)?;
        let is_between = self.state == State::Magic && self.part_bytes == 0;
        match step.made {
            0 if !is_between || self.frames == 0 => Err(Refused::Damaged),
            _ => Ok(step),
        }
    }

    pub(crate) fn value(&self) -> u64 {
        self.made
    }

    /// Takes some of a block, of which so many bytes are left, and makes what they hold.
    fn block(&mut self, left: usize, input: &[u8], room: &mut [u8]) -> Result<Step, Refused> {
        let input = &input[..input.len().min(left)];
        let is_plain = matches!(self.state, State::Plain(_));
        let step = match is_plain {
            true => {
                let bytes = self.sequences.plain(input, room);
                Step::of(bytes, bytes)
            }
            false => self.sequences.step(input, room)?,
        };
        self.frame
            .account(&input[..step.taken], &room[..step.made])?;
        let left = left - step.taken;
        self.state = match is_plain {
            true => State::Plain(left),
            false => State::Packed(left),
        };
        if left > 0 {
            return Ok(step);
        }
        if is_plain || self.sequences.can_end() {
            self.state = match self.frame.has(BLOCK_CHECKSUM) {
                true => State::BlockChecksum,
                false => State::BlockBytes,
            };
        } else if step.made < room.len() {
            // It ends within a sequence: nothing more comes of it.
            return Err(Refused::Damaged);
        }
        Ok(step)
    }

    /// Takes some of a part that is read as a whole; gives how many bytes.
    fn part(&mut self, input: &[u8]) -> Result<usize, Refused> {
        let mut taken = 0;
        loop {
            let missing = self.wanted() - self.part_bytes;
            if missing == 0 {
                break;
            }
            let more = missing.min(input.len() - taken);
            if more == 0 {
                return Ok(taken);
            }
            let place = &mut self.part[self.part_bytes..self.part_bytes + more];
            place.copy_from_slice(&input[taken..taken + more]);
            self.part_bytes += more;
            taken += more;
        }
        let bytes = std::mem::take(&mut self.part_bytes);
        let part = self.part;
        self.state = self.next(&part[..bytes])?;
        Ok(taken)
    }

    /// Bytes of the part that is being read; of flags, as the first of them says.
    fn wanted(&self) -> usize {
        match self.state {
            State::Flags if self.part_bytes == 0 => 1,
            State::Flags if self.part[0] & CONTENT_BYTES != 0 => PART_BYTES_MAX,
            State::Flags => 3,
            _ => 4,
        }
    }

    /// What comes behind a part.
    fn next(&mut self, part: &[u8]) -> Result<State, Refused> {
        if self.state == State::Flags {
            self.frame = Frame::of(part)?;
            self.sequences.forget();
            return Ok(State::BlockBytes);
        }
        let number = part
            .first_chunk()
            .map_or(0, |part| u32::from_le_bytes(*part));
        match self.state {
            State::Magic if number == MAGIC => Ok(State::Flags),
            State::Magic if number & !15 == MAGIC_SKIPPED => Ok(State::SkippedBytes),
            State::SkippedBytes if number == 0 => Ok(State::Magic),
            State::SkippedBytes => Ok(State::Skipped(number)),
            State::BlockBytes if number == 0 => self.end(),
            State::BlockBytes => self.begin_block(number),
            State::BlockChecksum if number == self.frame.block.finish_32() => Ok(State::BlockBytes),
            State::ContentChecksum if number == self.frame.content.finish_32() => {
                self.frames += 1;
                Ok(State::Magic)
            }
            _ => Err(Refused::Damaged),
        }
    }

    fn begin_block(&mut self, number: u32) -> Result<State, Refused> {
        let bytes = (number & !PLAIN) as usize;
        if bytes > self.frame.block_bytes_max || bytes == 0 {
            return Err(Refused::Damaged);
        }
        if self.frame.has(INDEPENDENT) {
            self.sequences.forget();
        }
        self.sequences.begin();
        self.frame.block_made = 0;
        self.frame.block = XxHash32::with_seed(0);
        Ok(match number & PLAIN {
            0 => State::Packed(bytes),
            _ => State::Plain(bytes),
        })
    }

    /// There is no block more.
    fn end(&mut self) -> Result<State, Refused> {
        let frame = &self.frame;
        if frame.content_bytes.is_some_and(|bytes| bytes != frame.made) {
            return Err(Refused::Damaged);
        }
        if frame.has(CONTENT_CHECKSUM) {
            return Ok(State::ContentChecksum);
        }
        self.frames += 1;
        Ok(State::Magic)
    }
}
