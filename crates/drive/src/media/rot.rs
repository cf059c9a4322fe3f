//! Rot on demand: damages stored pages, for tests of what is above the media.

use super::{AnyMedia, FileMedia, Media, MediaError, PackedMedia, RamMedia, StampMedia};

/// Media in which a page can be made to rot.
pub trait Rot: Media {
    /// Flips bit `bit` (modulo the page's size) of a programmed page's data and leaves its checksum
    /// as it is, so that the next read answers [`MediaError::Rot`].
    ///
    /// Panics if the page is erased: there is nothing to rot.
    fn corrupt(&mut self, ppn: u32, bit: u32) -> Result<(), MediaError>;
}

impl Rot for RamMedia {
    /// Panics also without `verify`: nothing would notice.
    fn corrupt(&mut self, ppn: u32, bit: u32) -> Result<(), MediaError> {
        assert!(
            self.verify,
            "rot goes unnoticed in RAM media without checksums"
        );
        assert!(
            self.lpn(ppn).is_some(),
            "page {ppn} is erased: nothing can rot"
        );
        self.flip(ppn, bit);
        Ok(())
    }
}

impl Rot for StampMedia {
    /// A stamp has no checksum: the page is marked as unreadable, whatever the bit.
    fn corrupt(&mut self, ppn: u32, _bit: u32) -> Result<(), MediaError> {
        assert!(
            self.lpn(ppn).is_some(),
            "page {ppn} is erased: nothing can rot"
        );
        self.rotten.insert(ppn);
        Ok(())
    }
}

impl Rot for FileMedia {
    /// The damage is in the file, and outlives the process.
    fn corrupt(&mut self, ppn: u32, bit: u32) -> Result<(), MediaError> {
        assert!(
            self.lpn(ppn).is_some(),
            "page {ppn} is erased: nothing can rot"
        );
        self.flip_data(ppn, bit)
    }
}

impl Rot for PackedMedia {
    /// Panics also if nothing is kept of the extent, or in memory without `verify`.
    fn corrupt(&mut self, extent: u32, bit: u32) -> Result<(), MediaError> {
        self.damage(extent, bit)
    }
}

impl Rot for AnyMedia {
    fn corrupt(&mut self, ppn: u32, bit: u32) -> Result<(), MediaError> {
        match self {
            AnyMedia::Stamp(media) => media.corrupt(ppn, bit),
            AnyMedia::Ram(media) => media.corrupt(ppn, bit),
            AnyMedia::File(media) => media.corrupt(ppn, bit),
            AnyMedia::Packed(media) => media.corrupt(ppn, bit),
        }
    }
}
