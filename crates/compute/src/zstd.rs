//! Zstandard (RFC 8878), level 1. Frames may follow each other.
//!
//! The library compresses and expands a block as a whole. Blocks that are made here are short ([`BLOCK_BYTES`]); one of another program
//! holds up to 128 KiB, which is expanded at once and given piece by piece.

use zstd::zstd_safe::zstd_sys::{ZSTD_EndDirective, ZSTD_ErrorCode};
use zstd::zstd_safe::{
    CCtx, CParameter, DCtx, DParameter, ErrorCode, InBuffer, OutBuffer, is_error_kind,
};

use super::codec::zstd_window_bytes;
use super::{Refused, Step};

/// Bytes of a block: it is compressed at once, which takes some twenty microseconds.
const BLOCK_BYTES: usize = 8 << 10;

/// The window of what is compressed: 64 KiB. The level remembers only 16,384 positions, and twice the window makes 2 % less.
const WINDOW_LOG: u32 = 16;

/// Compresses into one frame, with a checksum of what it holds.
pub(super) struct Compress {
    state: CCtx<'static>,
    /// Bytes of the block that is being filled.
    block: usize,
    /// A block is whole, and not all of it has been given.
    is_flushing: bool,
    is_done: bool,
    made: u64,
}

/// Expands frames.
pub(super) struct Decompress {
    state: DCtx<'static>,
    /// The last frame has ended, and no other one begun.
    is_between: bool,
    made: u64,
}

impl Compress {
    pub(super) fn new() -> Result<Compress, Refused> {
        let mut state = CCtx::try_create().ok_or(Refused::Memory)?;
        for parameter in [
            CParameter::CompressionLevel(1),
            CParameter::WindowLog(WINDOW_LOG),
            CParameter::ChecksumFlag(true),
        ] {
            state.set_parameter(parameter).map_err(refused)?;
        }
        Ok(Compress {
            state,
            block: 0,
            is_flushing: false,
            is_done: false,
            made: 0,
        })
    }

    pub(super) fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, Refused> {
        use ZSTD_EndDirective::{ZSTD_e_continue, ZSTD_e_flush};
        let mut all = Step::default();
        if !self.is_flushing {
            let input = &input[..input.len().min(BLOCK_BYTES - self.block)];
            (all, _) = self.call(input, room, ZSTD_e_continue)?;
            self.block += all.taken;
            self.is_flushing = self.block == BLOCK_BYTES;
        }
        if self.is_flushing {
            let (step, left) = self.call(&[], &mut room[all.made..], ZSTD_e_flush)?;
            all.made += step.made;
            if left == 0 {
                (self.is_flushing, self.block) = (false, 0);
            }
        }
        Ok(all)
    }

    pub(super) fn finish(&mut self, room: &mut [u8]) -> Result<Step, Refused> {
        if self.is_done {
            return Ok(Step::default());
        }
        if self.is_flushing {
            let step = self.step(&[], room)?;
            if self.is_flushing || step.made > 0 {
                return Ok(step);
            }
        }
        let (step, left) = self.call(&[], room, ZSTD_EndDirective::ZSTD_e_end)?;
        self.is_done = left == 0;
        Ok(step)
    }

    pub(super) fn value(&self) -> u64 {
        self.made
    }

    /// Gives what was done, and how many bytes at least are left to be given.
    fn call(
        &mut self,
        input: &[u8],
        room: &mut [u8],
        end: ZSTD_EndDirective,
    ) -> Result<(Step, usize), Refused> {
        let (mut input, mut out) = (InBuffer::around(input), OutBuffer::around(room));
        let left = self.state.compress_stream2(&mut out, &mut input, end);
        let left = left.map_err(refused)?;
        self.made += out.pos() as u64;
        Ok((Step::of(input.pos(), out.pos()), left))
    }
}

impl Decompress {
    /// One that takes no more memory than `most` bytes.
    pub(super) fn new(most: u64) -> Result<Decompress, Refused> {
        let mut state = DCtx::try_create().ok_or(Refused::Memory)?;
        let window = DParameter::WindowLogMax(zstd_window_bytes(most).ilog2());
        state.set_parameter(window).map_err(refused)?;
        Ok(Decompress {
            state,
            is_between: false,
            made: 0,
        })
    }

    pub(super) fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, Refused> {
        // Without room the library counts calls that get nowhere.
        if room.is_empty() || input.is_empty() && self.is_between {
            return Ok(Step::default());
        }
        let (mut input, mut out) = (InBuffer::around(input), OutBuffer::around(room));
        let left = self.state.decompress_stream(&mut out, &mut input);
        self.is_between = left.map_err(refused)? == 0;
        self.made += out.pos() as u64;
        Ok(Step::of(input.pos(), out.pos()))
    }

    pub(super) fn finish(&mut self, room: &mut [u8]) -> Result<Step, Refused> {
        let step = self.step(&[], room)?;
        match step.made {
            0 if !self.is_between => Err(Refused::Damaged),
            _ => Ok(step),
        }
    }

    pub(super) fn value(&self) -> u64 {
        self.made
    }
}

fn refused(code: ErrorCode) -> Refused {
    let is = |kind| is_error_kind(code, kind);
    let too_large = ZSTD_ErrorCode::ZSTD_error_frameParameter_windowTooLarge;
    match is(too_large) || is(ZSTD_ErrorCode::ZSTD_error_memory_allocation) {
        true => Refused::Memory,
        false => Refused::Damaged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Codec;

    #[test]
    fn states_have_no_more_than_they_say() {
        let data: Vec<u8> = (0..3u32 << 20)
            .map(|nth| (nth.wrapping_mul(nth) >> 7) as u8)
            .collect();
        let (mut compress, mut room) = (Compress::new().unwrap(), vec![0; 1 << 20]);
        let mut small = Vec::new();
        for piece in data.chunks(4096) {
            let step = compress.step(piece, &mut room).unwrap();
            assert_eq!(step.taken, piece.len());
            small.extend_from_slice(&room[..step.made]);
        }
        let made = compress.finish(&mut room).unwrap().made;
        small.extend_from_slice(&room[..made]);
        let bytes = compress.state.sizeof() as u64;
        println!("to compress: {bytes}");
        assert!(bytes <= Codec::Zstd.compress_bytes(), "{bytes}");
        // A frame of the largest window that there is memory for, with a block that repeats a byte.
        for most in [1 << 20, 2 << 20, 16 << 20] {
            let window = zstd_window_bytes(most).ilog2() - 10;
            let frame = [
                0x28,
                0xb5,
                0x2f,
                0xfd,
                0,
                (window as u8) << 3,
                3,
                0,
                16,
                b'x',
            ];
            let mut expand = Decompress::new(most).unwrap();
            assert_eq!(expand.step(&frame, &mut room).unwrap().made, (16 << 16) / 8);
            let bytes = expand.state.sizeof() as u64;
            println!("to expand: {bytes} of {most}");
            assert!(bytes <= Codec::Zstd.expand_bytes(most), "{bytes}");
        }
    }
}
