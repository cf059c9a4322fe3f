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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Function, Work, whole};

    fn text(bytes: usize) -> Vec<u8> {
        (0..bytes)
            .map(|nth| b"some words, "[nth * nth % 12])
            .collect()
    }

    #[test]
    fn all_cuts_come_back() {
        for bytes in [0, 1, 4096, 100_000] {
            let text = text(bytes);
            let (value, small) = whole(Function::Compress, &[], 0, &text).unwrap();
            assert_eq!(value, small.len() as u64);
            for (cut, room) in [(1, 7), (1000, 1), (1 << 20, 1 << 20)] {
                let mut work = Work::new(Function::Decompress, &[], 0).unwrap();
                let (mut back, mut room) = (Vec::new(), vec![0; room]);
                for piece in small.chunks(cut) {
                    let mut rest = piece;
                    while !rest.is_empty() {
                        let step = work.step(rest, &mut room).unwrap();
                        rest = &rest[step.taken..];
                        back.extend_from_slice(&room[..step.made]);
                    }
                }
                loop {
                    let made = work.finish(&mut room).unwrap().made;
                    if made == 0 {
                        break;
                    }
                    back.extend_from_slice(&room[..made]);
                }
                assert!(back == text, "{bytes} {cut}");
                assert_eq!(work.value(), text.len() as u64);
            }
        }
    }

    #[test]
    fn what_is_cut_off_changed_or_longer_is_refused() {
        let (_, small) = whole(Function::Compress, &[], 0, &text(5000)).unwrap();
        let out_of = |bytes: &[u8]| whole(Function::Decompress, &[], 0, bytes).err();
        for cut in 0..small.len() {
            assert_eq!(out_of(&small[..cut]), Some(Refused::Damaged), "{cut}");
        }
        let longer = [&small[..], b"x"].concat();
        assert_eq!(out_of(&longer), Some(Refused::Damaged));
        for at in 0..small.len() {
            let mut bad = small.clone();
            bad[at] ^= 0x10;
            // The stream has a checksum of its own; some bits of it mean nothing.
            let back = whole(Function::Decompress, &[], 0, &bad);
            assert!(back.is_err() || back.unwrap().1 == text(5000), "{at}");
        }
    }

    #[test]
    fn a_bomb_never_makes_more_than_there_is_room_for() {
        let (_, small) = whole(Function::Compress, &[], 0, &vec![0; 10 << 20]).unwrap();
        assert!(small.len() < 200_000);
        let mut work = Work::new(Function::Decompress, &[], 0).unwrap();
        let (mut rest, mut room, mut all) = (&small[..], [0; 4096], 0);
        while !rest.is_empty() {
            let step = work.step(rest, &mut room).unwrap();
            assert!(step.made <= 4096);
            rest = &rest[step.taken..];
            all += step.made;
        }
        assert!(all > 9 << 20);
    }
}
