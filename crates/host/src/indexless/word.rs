//! What the cache knows of a sector: four bits.

use std::fmt;

/// Four bits of a sector: is it cached, is it dirty, and two of heat (Hao et al., section III-A).
///
/// `1000` is cached, clean and cold. The paper has no meaning for the words that are dirty and not
/// cached; here they are of sectors that are *being written back*: as dirty ones in all but one
/// thing, that a write makes them dirty again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Word(u8);

/// The sector is in the cache.
const CACHED: u8 = 0b1000;
/// The disk has an older version, or none.
const DIRTY: u8 = 0b0100;
/// The heat.
const HEAT: u8 = 0b0011;

impl Word {
    /// Not in the cache.
    pub const ABSENT: Word = Word(0);

    /// The greatest heat.
    pub const HEAT_MAX: u8 = HEAT;

    /// Of a sector that is as on the disk.
    pub fn clean(heat: u8) -> Word {
        debug_assert!(heat <= HEAT);
        Word(CACHED | heat)
    }

    /// Of a sector that the disk has not.
    pub fn dirty(heat: u8) -> Word {
        debug_assert!(heat <= HEAT);
        Word(CACHED | DIRTY | heat)
    }

    /// The word of these four bits.
    #[inline]
    pub(super) fn of_bits(bits: u8) -> Word {
        debug_assert!(bits < 16);
        Word(bits)
    }

    /// Its four bits.
    #[inline]
    pub(super) fn bits(self) -> u8 {
        self.0
    }

    /// Where a read finds the sector.
    #[inline]
    pub fn place(self) -> Place {
        match self.0 & (CACHED | DIRTY) {
            0 => Place::Disk,
            CACHED => Place::Clean,
            _ => Place::Dirty,
        }
    }

    /// Whether the cache has the sector.
    #[inline]
    pub fn is_cached(self) -> bool {
        self.0 & (CACHED | DIRTY) != 0
    }

    /// Whether the disk has not what the cache has.
    #[inline]
    pub fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// Whether it is being written back, and nobody has written it since that began.
    #[inline]
    pub fn is_leaving(self) -> bool {
        self.0 & (CACHED | DIRTY) == DIRTY
    }

    /// How hot it is: 0 to [`Word::HEAT_MAX`].
    #[inline]
    pub fn heat(self) -> u8 {
        self.0 & HEAT
    }

    /// The same, accessed once more. What is not cached has no heat.
    #[inline]
    pub fn warmer(self) -> Word {
        match self.is_cached() && self.heat() < Word::HEAT_MAX {
            true => Word(self.0 + 1),
            false => self,
        }
    }

    /// The same, scanned once more.
    #[inline]
    pub fn cooler(self) -> Word {
        Word(self.0 - u8::from(self.heat() > 0))
    }

    /// The same, beginning to be written back.
    pub fn leaving(self) -> Word {
        debug_assert!(self.place() == Place::Dirty);
        Word(self.0 & !CACHED)
    }

    /// The same, dirty after all, if it was leaving.
    pub fn staying(self) -> Word {
        match self.is_leaving() {
            true => Word(self.0 | CACHED),
            false => self,
        }
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04b}", self.0)
    }
}

/// Where a sector is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// From the disk alone.
    Disk,
    /// From the cache, at its own address.
    Clean,
    /// From the cache, where dirty sectors lie.
    Dirty,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_paper() {
        assert_eq!(
            format!("{:?} {:?}", Word::clean(0), Word::dirty(3)),
            "1000 1111"
        );
        assert_eq!(Word::clean(3).warmer(), Word::clean(3));
        assert_eq!(Word::clean(0).cooler(), Word::clean(0));
        assert_eq!(Word::dirty(1).cooler().warmer().warmer(), Word::dirty(2));
        assert_eq!(Word::ABSENT.warmer(), Word::ABSENT);
    }

    #[test]
    fn a_sector_that_is_leaving_is_read_as_a_dirty_one() {
        let word = Word::dirty(1).leaving();
        assert!(word.is_leaving() && word.is_cached() && word.is_dirty());
        assert_eq!(
            (word.place(), word.staying()),
            (Place::Dirty, Word::dirty(1))
        );
        assert_eq!(word.warmer().staying(), Word::dirty(2));
    }
}
