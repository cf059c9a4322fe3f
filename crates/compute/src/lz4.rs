//! LZ4, in its frame format, which `lz4 -d` reads: the compressing half. The other one is `lz4/frame.rs`.
//!
//! The library compresses a block as a whole. So blocks are short ([`BLOCK_BYTES`]), and find what they repeat in those before.

mod block;
mod frame;

use std::io::Write;

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

use super::{Refused, Step, give};

pub(super) use frame::Decompress;

/// Bytes of a block: it is compressed at once, which takes some ten microseconds.
const BLOCK_BYTES: usize = 8 << 10;

/// Compresses into one frame, with a checksum of what it holds.
pub(super) struct Compress {
    frame: FrameEncoder<Vec<u8>>,
    /// Bytes of what the frame made that have been given.
    given: usize,
    /// Bytes of the block that is being filled.
    block: usize,
    made: u64,
    is_done: bool,
}

impl Compress {
    pub(super) fn new() -> Compress {
        let info = FrameInfo::new()
            .block_size(BlockSize::Max64KB)
            .block_mode(BlockMode::Linked)
            .content_checksum(true);
        Compress {
            frame: FrameEncoder::with_frame_info(info, Vec::new()),
            given: 0,
            block: 0,
            made: 0,
            is_done: false,
        }
    }

    pub(super) fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, Refused> {
        let made = self.give(room);
        if self.is_waiting() {
            return Ok(Step::of(0, made));
        }
        let taken = input.len().min(BLOCK_BYTES - self.block);
        let mut done = self.frame.write_all(&input[..taken]);
        self.block += taken;
        if self.block == BLOCK_BYTES {
            self.block = 0;
            done = done.and_then(|()| self.frame.flush());
        }
        done.map_err(|_| Refused::Damaged)?;
        Ok(Step::of(taken, made + self.give(&mut room[made..])))
    }

    pub(super) fn finish(&mut self, room: &mut [u8]) -> Result<Step, Refused> {
        if !self.is_done && !self.is_waiting() {
            self.is_done = true;
            (self.frame.try_finish()).map_err(|_| Refused::Damaged)?;
        }
        Ok(Step::of(0, self.give(room)))
    }

    pub(super) fn value(&self) -> u64 {
        self.made
    }

    /// Whether something was made that has not been given.
    fn is_waiting(&self) -> bool {
        self.given < self.frame.get_ref().len()
    }

    fn give(&mut self, room: &mut [u8]) -> usize {
        let bytes = give(self.frame.get_ref(), &mut self.given, room);
        if !self.is_waiting() {
            self.frame.get_mut().clear();
            self.given = 0;
        }
        self.made += bytes as u64;
        bytes
    }
}
