//! Media of drives that pack pages: units of extents, of every kind.
//!
//! Where the other media know pages, these know *extents* of a few granules, which hold a page each
//! as the drive has compressed it. Their numbers stand for page numbers in all calls: the extents
//! of block `b` are `b * extents_per_block` and on, in the order in which they were programmed.
//!
//! 1. A unit with all its extents is programmed by one call, [`Media::program_unit`]: after a cut
//!    it is there whole, or not at all.
//! 2. [`Media::read_extent`] gives the bytes of an extent as they were programmed, and what they
//!    are; it neither compresses nor expands.
//! 3. What is known of the extents is in memory, 24 bytes each (`table.rs`), and lies in the units'
//!    directories in an image (`unit.rs`, `image.rs`).
//!
//! Of stamps a drive keeps 8 bytes, whatever an extent's length says: they take the granules that
//! the model of their compression has given them, and so fill units as bytes would.

mod image;
mod table;
#[cfg(test)]
mod tests;
pub mod unit;

use std::collections::BTreeSet;

use image::PackedImage;
pub(super) use image::load as load_image;
use table::Block;
use unit::{Content, ExtentData, GRANULE_BYTES, PAGE_GRANULES, UnitPlace};

use super::memory_log::MemoryLog;
use super::{
    BlockCopy, CoreGeometry, LPN_MAX, Media, MediaError, Oob, PAGE_BYTES, SlabError, Syncing,
    UnitCopy, ZeroedSlab, assert_unused,
};
use crate::divide::{quotient, remainder};

/// Flash of units.
#[derive(Debug)]
pub struct PackedMedia {
    geometry: CoreGeometry,
    blocks: Vec<Block>,
    store: Store,
}

/// Where the bytes of extents are.
#[derive(Debug)]
enum Store {
    /// In memory, by granules.
    Ram {
        granules: ZeroedSlab<[u8; GRANULE_BYTES as usize]>,
        verify: bool,
        log: MemoryLog,
    },
    /// In the table: stamps.
    Stamp {
        /// Extents marked as rotted by a test; empty in every other run.
        rotten: BTreeSet<u32>,
        log: MemoryLog,
    },
    /// In an image.
    File(Box<PackedImage>),
}

impl PackedMedia {
    /// Erased flash in memory; `verify` keeps a CRC32C of each extent and checks it at reads.
    ///
    /// # Panics
    /// If the geometry fails its [check](CoreGeometry::check) or has no units.
    pub fn new(geometry: CoreGeometry, verify: bool) -> Result<PackedMedia, SlabError> {
        geometry.check().unwrap_or_else(|error| panic!("{error}"));
        assert!(geometry.unit_pages > 0, "the flash has no units");
        let log = MemoryLog::new(geometry.log_bytes);
        let store = if geometry.page_bytes == PAGE_BYTES {
            let granules = geometry.pages() as usize * PAGE_GRANULES as usize;
            Store::Ram {
                granules: ZeroedSlab::new("the pages of a drive", granules)?,
                verify,
                log,
            }
        } else {
            Store::Stamp {
                rotten: BTreeSet::new(),
                log,
            }
        };
        Ok(PackedMedia {
            geometry,
            blocks: vec![Block::default(); geometry.blocks as usize],
            store,
        })
    }

    /// Flash in an image, with what is known of its blocks.
    fn of_image(geometry: CoreGeometry, blocks: Vec<Block>, image: PackedImage) -> PackedMedia {
        PackedMedia {
            geometry,
            blocks,
            store: Store::File(Box::new(image)),
        }
    }

    /// The block of an extent, and its number within it.
    #[inline]
    fn locate(&self, extent: u32) -> (u32, u32) {
        let per_block = self.geometry.extents_per_block();
        (
            quotient(u64::from(extent), per_block) as u32,
            remainder(u64::from(extent), per_block) as u32,
        )
    }

    fn block_of(&self, extent: u32) -> (&Block, u32) {
        let (block, index) = self.locate(extent);
        (&self.blocks[block as usize], index)
    }

    /// Where an extent's granules begin, counted from the start of the core's.
    fn granule(&self, block: u32, start: u32) -> usize {
        block as usize * (self.geometry.pages_per_block * PAGE_GRANULES) as usize + start as usize
    }

    /// Units of a block.
    fn units_per_block(&self) -> u32 {
        self.geometry.pages_per_block / self.geometry.unit_pages
    }

    /// Flips a bit of what is kept of an extent, and leaves its checksum as it is.
    pub(super) fn damage(&mut self, extent: u32, bit: u32) -> Result<(), MediaError> {
        let (block, index) = self.locate(extent);
        let found = self.blocks[block as usize].get(index);
        let found = *found.unwrap_or_else(|| panic!("extent {extent} is erased"));
        let granule = self.granule(block, found.start);
        let bytes = found
            .content()
            .stored_bytes(self.geometry.page_bytes as usize);
        assert!(bytes > 0, "nothing of extent {extent} is kept");
        match &mut self.store {
            Store::Stamp { rotten, .. } => drop(rotten.insert(extent)),
            Store::Ram {
                granules, verify, ..
            } => {
                assert!(*verify, "rot goes unnoticed in RAM media without checksums");
                let kept = &mut granules[granule..].as_flattened_mut()[..bytes];
                kept[bit as usize / 8 % bytes] ^= 1 << (bit % 8);
            }
            Store::File(image) => image.flip(extent, granule, bytes, bit)?,
        }
        Ok(())
    }

    /// Flips a bit of the directory of a unit of an image, where it lies: found at the next load.
    #[cfg(test)]
    fn damage_directory(&mut self, unit: u32, bit: u32) -> Result<(), MediaError> {
        match &mut self.store {
            Store::File(image) => Ok(image.flip_directory(unit, self.geometry.unit_pages, bit)?),
            _ => panic!("directories lie in images alone"),
        }
    }

    /// Copies what is kept of an extent to the start of `out`; `None` if that would be waited for, and is not to be.
    fn read_kept(
        &self,
        extent: u32,
        out: &mut [u8],
        waits: bool,
    ) -> Result<Option<(Oob, Content)>, MediaError> {
        let (number, index) = self.locate(extent);
        let block = &self.blocks[number as usize];
        let found = block.get(index).ok_or(MediaError::Erased { ppn: extent })?;
        let rot = || MediaError::Rot { ppn: extent };
        let oob = block.oob(index).ok_or_else(rot)?;
        let content = found.content();
        let out = &mut out[..content.stored_bytes(self.geometry.page_bytes as usize)];
        let granule = self.granule(number, found.start);
        match &self.store {
            Store::Ram {
                granules, verify, ..
            } => {
                out.copy_from_slice(&granules[granule..].as_flattened()[..out.len()]);
                if *verify && u64::from(data_crc(out)) != found.payload {
                    return Err(rot());
                }
            }
            Store::Stamp { rotten, .. } => {
                if rotten.contains(&extent) {
                    return Err(rot());
                }
                if !out.is_empty() {
                    out.copy_from_slice(&found.payload.to_le_bytes());
                }
            }
            Store::File(image) => {
                let is_here = match waits {
                    true => image.read(extent, granule, out).map(|()| true)?,
                    false => image.read_if_near(extent, granule, out)?,
                };
                if !is_here {
                    return Ok(None);
                }
                if u64::from(data_crc(out)) != found.payload {
                    return Err(rot());
                }
            }
        }
        Ok(Some((oob, content)))
    }

    fn assert_unit(&self, place: UnitPlace, extents: &[ExtentData<'_>]) {
        let UnitPlace { block, unit, .. } = place;
        assert!(
            block < self.geometry.blocks && unit < self.units_per_block(),
            "no such unit: {place:?}"
        );
        let count = extents.len() as u32;
        let used: u32 = extents.iter().map(|extent| extent.content.granules()).sum();
        let unit_pages = self.geometry.unit_pages;
        let taken = used + unit::directory_granules(unit_pages, count);
        assert!(
            taken <= unit_pages * PAGE_GRANULES && count <= unit_pages * unit::EXTENTS_PER_PAGE,
            "{count} extents of {used} granules do not fit a unit of {unit_pages} pages"
        );
        for extent in extents {
            let bytes = extent
                .content
                .stored_bytes(self.geometry.page_bytes as usize);
            assert!(
                extent.data.len() == bytes && extent.oob.lpn <= LPN_MAX,
                "extent {:?} comes with {} bytes",
                extent.content,
                extent.data.len()
            );
        }
    }
}

/// The checksum of what is kept of an extent.
fn data_crc(data: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(data)
}

impl Media for PackedMedia {
    #[inline]
    fn geometry(&self) -> &CoreGeometry {
        &self.geometry
    }

    fn program(&mut self, ppn: u32, _: Oob, _: &[u8]) -> Result<(), MediaError> {
        panic!("page {ppn} cannot be programmed: this flash is programmed by units")
    }

    fn read(&self, ppn: u32, _: &mut [u8]) -> Result<Oob, MediaError> {
        panic!("page {ppn} cannot be read: this flash is read by extents")
    }

    fn program_unit(
        &mut self,
        place: UnitPlace,
        extents: &[ExtentData<'_>],
    ) -> Result<(), MediaError> {
        self.assert_unit(place, extents);
        let granule = self.granule(
            place.block,
            place.unit * self.geometry.unit_pages * PAGE_GRANULES,
        );
        let block = &mut self.blocks[place.block as usize];
        assert!(place.unit >= block.units, "{place:?} is not erased");
        let payload = |extent: &ExtentData<'_>| match &self.store {
            Store::Ram { verify: false, .. } => 0,
            Store::Stamp { .. } => extent.data.try_into().map_or(0, u64::from_le_bytes),
            _ => data_crc(extent.data).into(),
        };
        let noted: Vec<_> = extents
            .iter()
            .map(|extent| (extent.oob, extent.content, payload(extent)))
            .collect();
        match &mut self.store {
            Store::Stamp { .. } => {}
            Store::Ram { granules, .. } => {
                let mut at = granule;
                for extent in extents {
                    let to = &mut granules[at..].as_flattened_mut()[..extent.data.len()];
                    to.copy_from_slice(extent.data);
                    at += extent.content.granules() as usize;
                }
            }
            Store::File(image) => {
                image.program(&self.geometry, place, block.erase_count, granule, extents)?;
            }
        }
        let unit_pages = self.geometry.unit_pages;
        block.push_unit(
            place.unit,
            unit_pages,
            place.first_extent,
            noted.into_iter(),
        );
        if block.units * unit_pages == self.geometry.pages_per_block {
            block.shrink();
        }
        Ok(())
    }

    fn read_extent(&self, extent: u32, out: &mut [u8]) -> Result<(Oob, Content), MediaError> {
        let read = self.read_kept(extent, out, true)?;
        Ok(read.expect("it was waited for"))
    }

    fn read_extent_if_near(
        &self,
        extent: u32,
        out: &mut [u8],
    ) -> Result<Option<(Oob, Content)>, MediaError> {
        self.read_kept(extent, out, false)
    }

    #[inline]
    fn granules(&self, extent: u32) -> u32 {
        let (block, index) = self.block_of(extent);
        block
            .get(index)
            .map_or(1, |found| found.content().granules())
    }

    #[inline]
    fn lpn(&self, extent: u32) -> Option<u32> {
        let (block, index) = self.block_of(extent);
        block.oob(index).map(|oob| oob.lpn)
    }

    #[inline]
    fn oob(&self, extent: u32) -> Option<Oob> {
        let (block, index) = self.block_of(extent);
        block.oob(index)
    }

    #[inline]
    fn prefetch(&self, _: u32) {}

    fn erase(&mut self, block: u32) -> Result<(), MediaError> {
        let (units, erase_count) = {
            let found = &self.blocks[block as usize];
            (found.units, found.erase_count)
        };
        match &mut self.store {
            Store::Ram { .. } => {}
            Store::Stamp { rotten, .. } => {
                let per_block = self.geometry.extents_per_block();
                rotten.retain(|extent| extent / per_block != block);
            }
            Store::File(image) => image.void_block(block, erase_count + 1)?,
        }
        self.blocks[block as usize].erase();
        if let Store::File(image) = &self.store {
            image.clean(&self.geometry, block, units)?;
        }
        Ok(())
    }

    #[inline]
    fn erase_count(&self, block: u32) -> u32 {
        self.blocks[block as usize].erase_count
    }

    #[inline]
    fn written_pages(&self, block: u32) -> u32 {
        self.blocks[block as usize].extents()
    }

    #[inline]
    fn written_slots(&self, block: u32) -> u32 {
        self.blocks[block as usize].units
    }

    fn copy_block(&self, block: u32, out: &mut BlockCopy) -> Result<(), MediaError> {
        let from = &self.blocks[block as usize];
        out.begin(from.erase_count, 0, 0);
        let first = block * self.geometry.extents_per_block();
        let unit_granules = self.geometry.unit_pages * PAGE_GRANULES;
        let mut buffer = vec![0; PAGE_BYTES as usize];
        for index in 0..from.extents() {
            let Some(oob) = from.oob(index) else {
                continue;
            };
            let (_, content) = self.read_extent(first + index, &mut buffer)?;
            let start = from.get(index).expect("it has a page").start;
            let unit = start / unit_granules;
            let bytes = content.stored_bytes(self.geometry.page_bytes as usize);
            if out.units.last().is_none_or(|last| last.unit != unit) {
                out.units.push(UnitCopy {
                    unit,
                    first_extent: index,
                    extents: Vec::new(),
                });
            }
            let copy = out
                .units
                .last_mut()
                .expect("one was made if there was none");
            copy.extents.push((oob, content, buffer[..bytes].to_vec()));
        }
        Ok(())
    }

    fn restore_block(&mut self, block: u32, copy: &BlockCopy) -> Result<(), MediaError> {
        assert_unused(self, block);
        if let Store::File(image) = &mut self.store {
            image.restore_erases(block, copy.erase_count)?;
        }
        self.blocks[block as usize].erase_count = copy.erase_count;
        for unit in &copy.units {
            let place = UnitPlace {
                block,
                unit: unit.unit,
                first_extent: unit.first_extent,
            };
            let extents = unit.extents.iter().map(|(oob, content, data)| ExtentData {
                oob: *oob,
                content: *content,
                data,
            });
            self.program_unit(place, &extents.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), MediaError> {
        match &mut self.store {
            Store::File(image) => Ok(image.sync(&self.geometry, &self.blocks)?),
            _ => Ok(()),
        }
    }

    fn begin_sync(&mut self) -> Result<Option<Syncing>, MediaError> {
        match &mut self.store {
            Store::File(image) => Ok(image.begin_sync(&self.geometry, &self.blocks)?),
            _ => Ok(None),
        }
    }

    fn end_sync(&mut self, syncing: &Syncing) -> Result<(), MediaError> {
        match &mut self.store {
            Store::File(image) => Ok(image.end_sync(syncing)?),
            _ => Ok(()),
        }
    }

    fn cover_erase(&mut self, block: u32) {
        if let Store::File(image) = &mut self.store {
            image.cover_erase(block);
        }
    }

    fn reserve(&mut self, block: u32) -> bool {
        match &mut self.store {
            Store::File(image) => image.reserve(&self.geometry, block),
            _ => true,
        }
    }

    fn log_append(&mut self, record: &[u8]) -> Result<(), MediaError> {
        match &mut self.store {
            Store::Ram { log, .. } | Store::Stamp { log, .. } => log.append(record),
            Store::File(image) => image.log_mut().append(record),
        }
    }

    fn log_replace(&mut self, records: &[&[u8]]) -> Result<(), MediaError> {
        match &mut self.store {
            Store::Ram { log, .. } | Store::Stamp { log, .. } => log.replace(records),
            Store::File(image) => image.log_mut().replace(records),
        }
    }

    fn log_read(&self) -> Result<Vec<Vec<u8>>, MediaError> {
        match &self.store {
            Store::Ram { log, .. } | Store::Stamp { log, .. } => Ok(log.read()),
            Store::File(image) => image.log().read(),
        }
    }

    fn log_len(&self) -> u64 {
        match &self.store {
            Store::Ram { log, .. } | Store::Stamp { log, .. } => log.len(),
            Store::File(image) => image.log().len(),
        }
    }
}
