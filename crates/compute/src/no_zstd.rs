//! What stands for Zstandard in a build without it.

use super::{Refused, Step};

/// None of them can be made.
pub(super) enum Compress {}

/// None of them can be made.
pub(super) enum Decompress {}

impl Compress {
    pub(super) fn new() -> Result<Compress, Refused> {
        Err(Refused::NoCodec)
    }
}

impl Decompress {
    pub(super) fn new(_: u64) -> Result<Decompress, Refused> {
        Err(Refused::NoCodec)
    }
}

macro_rules! nothing {
    ($name:ident) => {
        impl $name {
            pub(super) fn step(&mut self, _: &[u8], _: &mut [u8]) -> Result<Step, Refused> {
                match *self {}
            }

            pub(super) fn finish(&mut self, _: &mut [u8]) -> Result<Step, Refused> {
                match *self {}
            }

            pub(super) fn value(&self) -> u64 {
                match *self {}
            }
        }
    };
}

nothing!(Compress);
nothing!(Decompress);
