//! The kind of media as a value: chosen by configuration, dispatched without a virtual call.

use super::packed::unit::{Content, ExtentData, UnitPlace};
use super::{
    BlockCopy, CoreGeometry, FileMedia, Media, MediaError, Oob, PackedMedia, RamMedia, StampMedia,
    Syncing,
};

/// Media of any kind.
#[derive(Debug)]
pub enum AnyMedia {
    /// Whole pages in memory.
    Ram(RamMedia),
    /// Stamps in memory.
    Stamp(StampMedia),
    /// An image file.
    File(FileMedia),
    /// Units of extents, in any of these places.
    Packed(PackedMedia),
}

/// Forwards one call to the kind at hand.
macro_rules! forward {
    ($self:ident, $media:ident => $call:expr) => {
        match $self {
            AnyMedia::Stamp($media) => $call,
            AnyMedia::Ram($media) => $call,
            AnyMedia::File($media) => $call,
            AnyMedia::Packed($media) => $call,
        }
    };
}

impl Media for AnyMedia {
    #[inline]
    fn geometry(&self) -> &CoreGeometry {
        forward!(self, media => media.geometry())
    }

    #[inline]
    fn program(&mut self, ppn: u32, oob: Oob, data: &[u8]) -> Result<(), MediaError> {
        forward!(self, media => media.program(ppn, oob, data))
    }

    #[inline]
    fn read(&self, ppn: u32, out: &mut [u8]) -> Result<Oob, MediaError> {
        forward!(self, media => media.read(ppn, out))
    }

    fn program_unit(
        &mut self,
        place: UnitPlace,
        extents: &[ExtentData<'_>],
    ) -> Result<(), MediaError> {
        forward!(self, media => media.program_unit(place, extents))
    }

    fn read_extent(&self, extent: u32, out: &mut [u8]) -> Result<(Oob, Content), MediaError> {
        forward!(self, media => media.read_extent(extent, out))
    }

    #[inline]
    fn read_if_near(&self, ppn: u32, out: &mut [u8]) -> Result<Option<Oob>, MediaError> {
        forward!(self, media => media.read_if_near(ppn, out))
    }

    #[inline]
    fn read_extent_if_near(
        &self,
        extent: u32,
        out: &mut [u8],
    ) -> Result<Option<(Oob, Content)>, MediaError> {
        forward!(self, media => media.read_extent_if_near(extent, out))
    }

    #[inline]
    fn granules(&self, extent: u32) -> u32 {
        forward!(self, media => media.granules(extent))
    }

    #[inline]
    fn lpn(&self, ppn: u32) -> Option<u32> {
        forward!(self, media => media.lpn(ppn))
    }

    #[inline]
    fn oob(&self, ppn: u32) -> Option<Oob> {
        forward!(self, media => media.oob(ppn))
    }

    #[inline]
    fn prefetch(&self, ppn: u32) {
        forward!(self, media => media.prefetch(ppn))
    }

    #[inline]
    fn erase(&mut self, block: u32) -> Result<(), MediaError> {
        forward!(self, media => media.erase(block))
    }

    #[inline]
    fn erase_count(&self, block: u32) -> u32 {
        forward!(self, media => media.erase_count(block))
    }

    #[inline]
    fn written_pages(&self, block: u32) -> u32 {
        forward!(self, media => media.written_pages(block))
    }

    #[inline]
    fn written_slots(&self, block: u32) -> u32 {
        forward!(self, media => media.written_slots(block))
    }

    fn copy_block(&self, block: u32, out: &mut BlockCopy) -> Result<(), MediaError> {
        forward!(self, media => media.copy_block(block, out))
    }

    fn restore_block(&mut self, block: u32, copy: &BlockCopy) -> Result<(), MediaError> {
        forward!(self, media => media.restore_block(block, copy))
    }

    fn sync(&mut self) -> Result<(), MediaError> {
        forward!(self, media => media.sync())
    }

    fn begin_sync(&mut self) -> Result<Option<Syncing>, MediaError> {
        forward!(self, media => media.begin_sync())
    }

    fn end_sync(&mut self, syncing: &Syncing) -> Result<(), MediaError> {
        forward!(self, media => media.end_sync(syncing))
    }

    fn cover_erase(&mut self, block: u32) {
        forward!(self, media => media.cover_erase(block));
    }

    fn reserve(&mut self, block: u32) -> bool {
        forward!(self, media => media.reserve(block))
    }

    fn log_append(&mut self, record: &[u8]) -> Result<(), MediaError> {
        forward!(self, media => media.log_append(record))
    }

    fn log_replace(&mut self, records: &[&[u8]]) -> Result<(), MediaError> {
        forward!(self, media => media.log_replace(records))
    }

    fn log_read(&self) -> Result<Vec<Vec<u8>>, MediaError> {
        forward!(self, media => media.log_read())
    }

    fn log_len(&self) -> u64 {
        forward!(self, media => media.log_len())
    }
}
