//! What a look at the bitmap gives.

use super::word::Place;

/// Neighbouring sectors that are read from one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The first sector.
    pub first: u64,
    /// How many.
    pub count: u32,
    /// Where they are.
    pub place: Place,
}

/// A part whose sectors must be learned from the drive first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown(
    /// Its number.
    pub u64,
);
