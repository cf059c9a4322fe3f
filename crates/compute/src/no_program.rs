//! What stands for programs in a build without them.

use super::{Refused, Step};

/// None of them can be made.
pub(super) enum Program {}

/// Checks a program, and says what is wrong with it.
///
/// # Errors
/// Always: this build has no programs.
pub fn check_program(_: &[u8]) -> Result<(), String> {
    Err(Refused::NotBuilt.to_string())
}

impl Program {
    pub(super) fn new(_: &[u8], _: &[u8], _: u32) -> Result<Program, Refused> {
        Err(Refused::NotBuilt)
    }

    pub(super) fn step(&mut self, _: &[u8], _: &mut [u8]) -> Result<Step, Refused> {
        match *self {}
    }

    pub(super) fn finish(&mut self, _: &mut [u8]) -> Result<Step, Refused> {
        match *self {}
    }

    pub(super) fn take_fuel(&mut self) -> u64 {
        match *self {}
    }

    pub(super) fn value(&self) -> u64 {
        match *self {}
    }
}
