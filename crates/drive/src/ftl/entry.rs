//! The map entry: 4 bytes that say where a logical page is. (FusionFTL, ScalaCache section 5.1:
//! one table answers both "is it cached?" and "where on flash?".)

/// No page, no frame, no block.
pub const NONE: u32 = u32::MAX;

const UNMAPPED: u32 = 0;
const TRIMMED: u32 = 1;
const ZERO: u32 = 2;
const FLASH_BASE: u32 = 3;
const FRAME_BIT: u32 = 1 << 31;
const CACHED_BITS: u32 = FRAME_BIT | 1 << 30;

/// The largest number of cached frames of a core that entries can name.
pub const CACHED_MAX: u32 = 1 << 30;

/// The largest number of physical pages of a core that entries can name.
pub const PAGES_MAX: u32 = FRAME_BIT - FLASH_BASE;

/// Where a logical page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Never written: reads as zeros.
    Unmapped,
    /// Deallocated: reads as zeros, and must do so after a power cut too.
    Trimmed,
    /// Written with zeros: it holds data, which takes no flash. The log says so after a power cut.
    Zero,
    /// In a frame of the write buffer, on its way to flash.
    Frame(u32),
    /// On flash, at this physical page.
    Flash(u32),
}

impl Place {
    /// Reads an entry.
    #[inline]
    pub fn decode(entry: u32) -> Place {
        match entry {
            UNMAPPED => Place::Unmapped,
            TRIMMED => Place::Trimmed,
            ZERO => Place::Zero,
            _ if entry & FRAME_BIT != 0 => Place::Frame(entry & !FRAME_BIT),
            _ => Place::Flash(entry - FLASH_BASE),
        }
    }

    /// Makes an entry.
    #[inline]
    pub fn encode(self) -> u32 {
        match self {
            Place::Unmapped => UNMAPPED,
            Place::Trimmed => TRIMMED,
            Place::Zero => ZERO,
            Place::Frame(frame) => FRAME_BIT | frame,
            Place::Flash(ppn) => {
                debug_assert!(ppn < PAGES_MAX);
                ppn + FLASH_BASE
            }
        }
    }

    /// True if the page holds data: it is allocated.
    #[inline]
    pub fn is_mapped(self) -> bool {
        matches!(self, Place::Frame(_) | Place::Flash(_) | Place::Zero)
    }

    /// True if the page takes flash, or is going to.
    #[inline]
    pub fn takes_flash(self) -> bool {
        matches!(self, Place::Frame(_) | Place::Flash(_))
    }
}

/// What is known of a logical page. Where the map itself knows of frames, one look tells a hit of the cache from a miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// In this cached frame; the frame's account says where it is below.
    Cached(u32),
    /// Not cached: the place itself.
    Uncached(Place),
}

impl Entry {
    /// Reads an entry.
    #[inline]
    pub fn decode(entry: u32) -> Entry {
        match entry & CACHED_BITS {
            CACHED_BITS => Entry::Cached(entry & !CACHED_BITS),
            _ => Entry::Uncached(Place::decode(entry)),
        }
    }

    /// Makes an entry.
    #[inline]
    pub fn encode(self) -> u32 {
        match self {
            Entry::Cached(frame) => CACHED_BITS | frame,
            Entry::Uncached(place) => place.encode(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_comes_back_and_zero_is_unmapped() {
        assert_eq!(Place::decode(0), Place::Unmapped);
        let places = [
            Place::Unmapped,
            Place::Trimmed,
            Place::Zero,
            Place::Frame(0),
            Place::Frame(CACHED_MAX - 1),
        ];
        for place in places
            .into_iter()
            .chain([Place::Flash(0), Place::Flash(PAGES_MAX - 1)])
        {
            assert_eq!(Place::decode(place.encode()), place);
            assert_eq!(Entry::decode(place.encode()), Entry::Uncached(place));
        }
        for frame in [0, CACHED_MAX - 1] {
            let entry = Entry::Cached(frame);
            assert_eq!(Entry::decode(entry.encode()), entry);
        }
    }
}
