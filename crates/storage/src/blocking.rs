//! A channel used one I/O at a time, with any memory: for what is rare, such as superblocks, and for
//! tools and tests.

use crate::buffer::AlignedBuffer;
use crate::error::StorageError;
use crate::io::{Completion, Io, IoError, Segment};
use crate::target::{Channel, Target};

/// The most bytes of one I/O; longer requests are several.
const PIECE_BYTES: usize = 256 << 10;

/// Reads and writes that return when they are done. Offsets and lengths are multiples of the target's
/// block; memory need not be aligned.
pub struct Blocking {
    channel: Box<dyn Channel>,
    /// As large as the largest piece so far.
    bounce: AlignedBuffer,
}

impl Blocking {
    /// A channel of its own to `target`.
    pub fn new(target: &dyn Target) -> Result<Blocking, StorageError> {
        Ok(Blocking {
            channel: target.channel(1)?,
            bounce: AlignedBuffer::new(0),
        })
    }

    /// Fills `out` from `offset`.
    pub fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), IoError> {
        for (index, part) in out.chunks_mut(PIECE_BYTES).enumerate() {
            let at = offset + (index * PIECE_BYTES) as u64;
            let piece = self.bounce(part.len());
            self.run(Io::read(at, &[piece], 0))?;
            part.copy_from_slice(&self.bounce[..part.len()]);
        }
        Ok(())
    }

    /// Stores `data` at `offset`.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        for (index, part) in data.chunks(PIECE_BYTES).enumerate() {
            let at = offset + (index * PIECE_BYTES) as u64;
            let piece = self.bounce(part.len());
            self.bounce[..part.len()].copy_from_slice(part);
            self.run(Io::write(at, &[piece], 0))?;
        }
        Ok(())
    }

    /// Makes what has been written durable.
    pub fn flush(&mut self) -> Result<(), IoError> {
        self.run(Io::flush(0))
    }

    fn bounce(&mut self, len_bytes: usize) -> Segment {
        if self.bounce.len() < len_bytes {
            self.bounce = AlignedBuffer::new(len_bytes);
        }
        Segment::of(&mut self.bounce[..len_bytes])
    }

    fn run(&mut self, io: Io<'_>) -> Result<(), IoError> {
        let mut ended = None;
        let mut note = |completion: Completion| ended = Some(completion.result);
        // SAFETY: the bounce buffer lives as long as the channel, and nobody touches it before the I/O
        // has ended below.
        unsafe { self.channel.submit(io) }.expect("nothing else is in flight");
        self.channel.wait(1, &mut note);
        ended.expect("the I/O has ended")
    }
}
