//! zlib (RFC 1950), level 1. A stream ends where it says so: bytes behind it are refused.

use flate2::{FlushCompress, FlushDecompress, Status};

use super::{Refused, Step};

pub(super) struct Compress {
    state: flate2::Compress,
    is_done: bool,
}

pub(super) struct Decompress {
    state: flate2::Decompress,
    is_done: bool,
}

impl Compress {
    pub(super) fn new() -> Compress {
        Compress {
            state: flate2::Compress::new(flate2::Compression::fast(), true),
            is_done: false,
        }
    }

    pub(super) fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, Refused> {
        let (taken, made) = (self.state.total_in(), self.state.total_out());
        let done = self.state.compress(input, room, FlushCompress::None);
        done.map_err(|_| Refused::Damaged)?;
        Ok(Step::of(
            (self.state.total_in() - taken) as usize,
            (self.state.total_out() - made) as usize,
        ))
    }

    pub(super) fn finish(&mut self, room: &mut [u8]) -> Result<Step, Refused> {
        if self.is_done {
            return Ok(Step::default());
        }
        let made = self.state.total_out();
        let status = self.state.compress(&[], room, FlushCompress::Finish);
        self.is_done = status.map_err(|_| Refused::Damaged)? == Status::StreamEnd;
        Ok(Step::of(0, (self.state.total_out() - made) as usize))
    }

    pub(super) fn value(&self) -> u64 {
        self.state.total_out()
    }
}

impl Decompress {
    pub(super) fn new() -> Decompress {
        Decompress {
            state: flate2::Decompress::new(true),
            is_done: false,
        }
    }

    pub(super) fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, Refused> {
        if self.is_done && !input.is_empty() {
            return Err(Refused::Damaged);
        }
        let (taken, made) = (self.state.total_in(), self.state.total_out());
        let status = self.state.decompress(input, room, FlushDecompress::None);
        self.is_done |= status.map_err(|_| Refused::Damaged)? == Status::StreamEnd;
        let step = Step::of(
            (self.state.total_in() - taken) as usize,
            (self.state.total_out() - made) as usize,
        );
        // Without an end, input and room it can only go on for ever.
        let is_stuck = step == Step::default() && !input.is_empty() && !room.is_empty();
        match is_stuck && !self.is_done {
            true => Err(Refused::Damaged),
            false => Ok(step),
        }
    }

    pub(super) fn finish(&mut self, room: &mut [u8]) -> Result<Step, Refused> {
        if self.is_done {
            return Ok(Step::default());
        }
        match self.step(&[], room)?.made {
            0 if !self.is_done => Err(Refused::Damaged),
            made => Ok(Step::of(0, made)),
        }
    }

    pub(super) fn value(&self) -> u64 {
        self.state.total_out()
    }
}
