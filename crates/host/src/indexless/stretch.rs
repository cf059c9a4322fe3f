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

/// Adds sectors behind those that are there, to the last stretch if they go on with it.
#[inline]
pub(super) fn push(out: &mut Vec<Stretch>, first: u64, count: u32, place: Place) {
    match out.last_mut() {
        Some(last) if last.place == place && last.first + u64::from(last.count) == first => {
            last.count += count;
        }
        _ => out.push(Stretch {
            first,
            count,
            place,
        }),
    }
}

/// A part whose sectors must be learned from the drive first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown(
    /// Its number.
    pub u64,
);
