//! Bytes as they are.

use super::{Refused, Step};

#[derive(Default)]
pub(super) struct Copy(u64);

impl Copy {
    pub(super) fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, Refused> {
        let bytes = input.len().min(room.len());
        room[..bytes].copy_from_slice(&input[..bytes]);
        self.0 += bytes as u64;
        Ok(Step::of(bytes, bytes))
    }

    pub(super) fn finish(&mut self, _: &mut [u8]) -> Result<Step, Refused> {
        Ok(Step::default())
    }

    pub(super) fn value(&self) -> u64 {
        self.0
    }
}
