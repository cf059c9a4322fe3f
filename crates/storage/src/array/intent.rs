//! The write-intent map of mirrors: which parts of an array may differ between them after a power cut.
//!
//! A bit for each of up to 32,768 regions, set and made durable before the first write to the region; all are
//! cleared when the array is closed, or made equal after a cut. Mirrors need no more: of a block whose write
//! was cut short either copy will do, as long as it is the same from then on. (RAID-5 needs the journal.)
//! A torn write of the map leaves each sector old or new, which is as good: no write has relied on it yet.

use crate::array::layout::{INTENT_BYTES, INTENT_OFFSET, Shape};
use crate::blocking::Blocking;
use crate::io::IoError;

/// Regions of an array that may have been written to since it was opened.
pub(super) struct Intent {
    bits: Vec<u8>,
    windows_per_region: u64,
    windows: u64,
}

impl Intent {
    /// No region.
    pub(super) fn new(shape: &Shape) -> Intent {
        Intent {
            bits: vec![0; INTENT_BYTES as usize],
            windows_per_region: shape.windows().div_ceil(INTENT_BYTES * 8),
            windows: shape.windows(),
        }
    }

    /// What a member has stored, together with what this holds.
    pub(super) fn add_from(&mut self, way: &mut Blocking) -> Result<(), IoError> {
        let mut stored = vec![0; INTENT_BYTES as usize];
        way.read(INTENT_OFFSET, &mut stored)?;
        for (bits, more) in self.bits.iter_mut().zip(stored) {
            *bits |= more;
        }
        Ok(())
    }

    /// Sets the region of a window; whether it was not set.
    pub(super) fn set(&mut self, window: u64) -> bool {
        let (byte, bit) = self.place(window);
        let new = self.bits[byte] & bit == 0;
        self.bits[byte] |= bit;
        new
    }

    /// Takes the region of a window back.
    pub(super) fn unset(&mut self, window: u64) {
        let (byte, bit) = self.place(window);
        self.bits[byte] &= !bit;
    }

    fn place(&self, window: u64) -> (usize, u8) {
        let region = window / self.windows_per_region;
        ((region / 8) as usize, 1 << (region % 8))
    }

    /// Every window of a region that is set.
    pub(super) fn windows(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.windows).filter(|window| {
            let (byte, bit) = self.place(*window);
            self.bits[byte] & bit != 0
        })
    }

    /// Forgets all regions.
    pub(super) fn clear(&mut self) {
        self.bits.fill(0);
    }

    /// Stores the map on a member, durably.
    pub(super) fn write(&self, way: &mut Blocking) -> Result<(), IoError> {
        way.write(INTENT_OFFSET, &self.bits)?;
        way.flush()
    }
}
