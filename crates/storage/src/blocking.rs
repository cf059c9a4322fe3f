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
    bounce: AlignedBuffer,
}

impl Blocking {
    /// A channel of its own to `target`.
    pub fn new(target: &dyn Target) -> Result<Blocking, StorageError> {
        Ok(Blocking {
            channel: target.channel(1)?,
            bounce: AlignedBuffer::new(PIECE_BYTES),
        })
    }

    /// Fills `out` from `offset`.
    pub fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), IoError> {
        for (index, part) in out.chunks_mut(PIECE_BYTES).enumerate() {
            let at = offset + (index * PIECE_BYTES) as u64;
            let piece = Segment::of(&mut self.bounce[..part.len()]);
            self.run(Io::read(at, &[piece], 0))?;
            part.copy_from_slice(&self.bounce[..part.len()]);
        }
        Ok(())
    }

    /// Stores `data` at `offset`.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        for (index, part) in data.chunks(PIECE_BYTES).enumerate() {
            let at = offset + (index * PIECE_BYTES) as u64;
            self.bounce[..part.len()].copy_from_slice(part);
            let piece = Segment::of(&mut self.bounce[..part.len()]);
            self.run(Io::write(at, &[piece], 0))?;
        }
        Ok(())
    }

    /// Makes what has been written durable.
    pub fn flush(&mut self) -> Result<(), IoError> {
        self.run(Io::flush(0))
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
