//! The units of a core in an image file.
//!
//! As for pages (`media/file/mod.rs`), the order of writes makes every operation atomic: the data
//! of a unit, then its directory; of an erase the block's record, then the wiping of what it voids.
//! A directory takes more than a sector, so a kill or a crash may tear it: then it is not sound,
//! and the unit counts as programmed with nothing in it, as one does whose data were lost.
//!
//! Loading reads the directories of each block that has any, and the data of those units that no
//! sync has covered: one extent that does not fit its checksum there voids its unit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zerocopy::{FromZeros, IntoBytes};

use super::PackedMedia;
use super::table::Block;
use super::unit::{
    Directory, EXTENTS_PER_PAGE, ExtentData, Found, GRANULE_BYTES, PAGE_GRANULES, UnitPlace,
    directory_room,
};
use crate::media::file::ImageError;
use crate::media::file::Syncing;
use crate::media::file::format::{BlockRecord, Layout, SYNC_AT, Sealed, SyncRecord};
use crate::media::file::load::{load_erase_counts, load_synced_period};
use crate::media::file::log::SlotLog;
use crate::media::file::store::Store;
use crate::media::{CoreGeometry, HostFault, PAGE_BYTES, STAMP_BYTES};

type Access<T> = Result<T, Box<HostFault>>;

/// The file's side of a core's flash.
#[derive(Debug)]
pub struct PackedImage {
    store: Arc<Store>,
    taken: Arc<[AtomicBool]>,
    core: u32,
    layout: Layout,
    page_bytes: u32,
    log: SlotLog,
    /// Goes into the directories of units programmed now; the next sync notes it and starts another.
    sync_period: u32,
    /// Whether a unit was programmed or loaded that bears this period or one not noted before.
    programmed: bool,
    /// Units, by block, that loading found torn and whose directories are not void yet; the first
    /// extent of each.
    torn: Vec<UnitPlace>,
    /// Whether anything was written since the last sync began.
    dirty: bool,
    /// A sync beside that nobody has taken note of.
    syncing: Option<Syncing>,
    /// A sync has failed: what it was to cover may never reach the disk, so that no later one is
    /// noted, and the next load looks at the data.
    is_unsure: bool,
    /// Blocks whose erase needs no sync of its own.
    covered: Vec<u32>,
    /// Whether the records and the log have room on the file system.
    has_room: bool,
}

impl PackedImage {
    fn directory_at(&self, unit: u32, unit_pages: u32) -> u64 {
        self.layout.entries + u64::from(unit) * directory_room(unit_pages)
    }

    /// Where the bytes of an extent lie: pages by granules, stamps by extents.
    fn data_at(&self, extent: u32, granule: usize) -> u64 {
        let offset = match self.page_bytes {
            STAMP_BYTES => u64::from(extent) * u64::from(STAMP_BYTES),
            _ => granule as u64 * u64::from(GRANULE_BYTES),
        };
        self.layout.data + offset
    }

    pub fn log(&self) -> &SlotLog {
        &self.log
    }

    /// The log, to be written.
    pub fn log_mut(&mut self) -> &mut SlotLog {
        self.dirty = true;
        &mut self.log
    }

    /// Writes a unit: data, then directory.
    pub fn program(
        &mut self,
        geometry: &CoreGeometry,
        place: UnitPlace,
        epoch: u32,
        granule: usize,
        extents: &[ExtentData<'_>],
    ) -> Access<()> {
        const ACTION: &str = "program a unit of";
        self.dirty = true;
        let mut data = Vec::with_capacity((geometry.unit_pages * PAGE_BYTES) as usize);
        for extent in extents {
            data.extend_from_slice(extent.data);
            // A filler keeps nothing, but has a place like others.
            let room = match self.page_bytes {
                STAMP_BYTES => STAMP_BYTES,
                _ => extent.content.granules() * GRANULE_BYTES,
            };
            data.resize(data.len() - extent.data.len() + room as usize, 0);
        }
        let first = place.block * geometry.extents_per_block() + place.first_extent;
        self.store
            .write_at(ACTION, &data, self.data_at(first, granule))?;
        let noted = |extent: &ExtentData<'_>| {
            let crc = crc_fast::crc32_iscsi(extent.data);
            (extent.oob, extent.content, crc)
        };
        let directory = Directory {
            first_extent: place.first_extent,
            epoch,
            sync_period: self.sync_period,
            extents: extents.iter().map(noted).collect(),
        };
        self.write_directory(ACTION, geometry, place, &directory)?;
        self.programmed = true;
        Ok(())
    }

    fn write_directory(
        &self,
        action: &'static str,
        geometry: &CoreGeometry,
        place: UnitPlace,
        directory: &Directory,
    ) -> Access<()> {
        let unit = unit_number(geometry, place);
        let at = self.directory_at(unit, geometry.unit_pages);
        self.store.write_at(action, &directory.encode(unit), at)
    }

    /// Reads what is kept of an extent.
    pub fn read(&self, extent: u32, granule: usize, out: &mut [u8]) -> Access<()> {
        self.store
            .read_at("read a page of", out, self.data_at(extent, granule))
    }

    /// As [`PackedImage::read`], without waiting: false if it is on its way.
    pub fn read_if_near(&self, extent: u32, granule: usize, out: &mut [u8]) -> Access<bool> {
        let at = self.data_at(extent, granule);
        self.store.read_if_near("read a page of", out, at)
    }

    /// Notes that a block is erased: that is the erase.
    pub fn void_block(&mut self, block: u32, erase_count: u32) -> Access<()> {
        let covered = self.covered.iter().position(|covered| *covered == block);
        match covered {
            Some(at) => drop(self.covered.swap_remove(at)),
            None => self.store.barrier()?,
        }
        self.restore_erases(block, erase_count)?;
        self.torn.retain(|place| place.block != block);
        Ok(())
    }

    /// Writes how often a block was erased.
    pub fn restore_erases(&mut self, block: u32, erase_count: u32) -> Access<()> {
        self.dirty = true;
        let record = BlockRecord {
            erase_count: erase_count.into(),
            core: self.core.into(),
            block: block.into(),
            crc: 0.into(),
        };
        let at = self.layout.block_records + u64::from(block) * size_of::<BlockRecord>() as u64;
        self.store
            .write_at("erase a block of", record.sealed().as_bytes(), at)
    }

    /// Wipes the directories of an erased block's first units and gives the space of their data back.
    pub fn clean(&self, geometry: &CoreGeometry, block: u32, units: u32) -> Access<()> {
        const ACTION: &str = "erase a block of";
        if units == 0 {
            return Ok(());
        }
        let first = unit_number(
            geometry,
            UnitPlace {
                block,
                unit: 0,
                first_extent: 0,
            },
        );
        let zeros = vec![0; (u64::from(units) * directory_room(geometry.unit_pages)) as usize];
        let at = self.directory_at(first, geometry.unit_pages);
        self.store.write_at(ACTION, &zeros, at)?;
        let (data, bytes) = self.data_of_block(geometry, block);
        self.store.punch(ACTION, data, bytes)
    }

    /// Where the data of a block lie, and how many bytes.
    fn data_of_block(&self, geometry: &CoreGeometry, block: u32) -> (u64, u64) {
        let pages = u64::from(geometry.pages_per_block);
        let per_page = match self.page_bytes {
            STAMP_BYTES => EXTENTS_PER_PAGE * STAMP_BYTES,
            page_bytes => page_bytes,
        };
        let bytes = pages * u64::from(per_page);
        (self.layout.data + u64::from(block) * bytes, bytes)
    }

    /// Makes all that was written survive a crash of the host machine.
    pub fn sync(&mut self, geometry: &CoreGeometry, blocks: &[Block]) -> Access<()> {
        let before = self.settle();
        if !self.dirty {
            return before;
        }
        self.void_torn(geometry, blocks)?;
        if let Err(fault) = self.store.sync() {
            self.is_unsure = true;
            return Err(fault);
        }
        self.dirty = false;
        let period = self.next_period();
        self.note_synced(period)?;
        before
    }

    /// As [`PackedImage::sync`], beside: `None` if there is nothing to wait for.
    pub fn begin_sync(
        &mut self,
        geometry: &CoreGeometry,
        blocks: &[Block],
    ) -> Access<Option<Syncing>> {
        if !self.dirty && self.syncing.is_none() || self.store.syncs_at_once() {
            return self.sync(geometry, blocks).map(|()| None);
        }
        self.settle()?;
        self.void_torn(geometry, blocks)?;
        let period = self.next_period();
        self.dirty = false;
        match self.store.begin_sync(period) {
            Ok(syncing) => {
                self.syncing = Some(syncing.clone());
                Ok(Some(syncing))
            }
            Err(fault) => {
                (self.dirty, self.is_unsure) = (true, true);
                Err(fault)
            }
        }
    }

    /// Takes note of a sync beside, unless that was done; gives what it came to.
    pub fn end_sync(&mut self, syncing: &Syncing) -> Access<()> {
        match &self.syncing {
            Some(_) => self.settle(),
            None => self.store.end_sync(syncing),
        }
    }

    /// Waits for the sync beside, if there is one.
    fn settle(&mut self) -> Access<()> {
        let Some(syncing) = self.syncing.take() else {
            return Ok(());
        };
        if let Err(fault) = self.store.end_sync(&syncing) {
            (self.dirty, self.is_unsure) = (true, true);
            return Err(fault);
        }
        self.note_synced(syncing.period())
    }

    /// The erase of this block relies on nothing that is not synced.
    pub fn cover_erase(&mut self, block: u32) {
        self.covered.push(block);
    }

    /// Gives an erased block room on the file system, and what must be written whenever there is
    /// data; false if there is none left.
    pub fn reserve(&mut self, geometry: &CoreGeometry, block: u32) -> bool {
        let place = UnitPlace {
            block,
            unit: 0,
            first_extent: 0,
        };
        let units = geometry.pages_per_block / geometry.unit_pages;
        let directories = self.directory_at(unit_number(geometry, place), geometry.unit_pages);
        let (data, data_bytes) = self.data_of_block(geometry, block);
        let mut ranges = vec![
            (
                directories,
                u64::from(units) * directory_room(geometry.unit_pages),
            ),
            (data, data_bytes),
        ];
        if !self.has_room {
            let Layout {
                core_page,
                entries,
                slots,
                end,
                ..
            } = self.layout;
            ranges.extend([(core_page, entries - core_page), (slots[0], end - slots[0])]);
        }
        let has_room = self.store.reserve(&ranges);
        self.has_room |= has_room;
        has_room
    }

    /// Makes the directories of torn units say so.
    fn void_torn(&mut self, geometry: &CoreGeometry, blocks: &[Block]) -> Access<()> {
        for place in std::mem::take(&mut self.torn) {
            let void = Directory {
                first_extent: place.first_extent,
                epoch: blocks[place.block as usize].erase_count,
                sync_period: self.sync_period,
                extents: Vec::new(),
            };
            let voided = self.write_directory("sync", geometry, place, &void);
            if voided.is_err() {
                self.torn.push(place);
            }
            voided?;
        }
        Ok(())
    }

    /// The period that ends now, if anything was programmed in it: the next has begun.
    fn next_period(&mut self) -> Option<u32> {
        let ends = self.programmed && self.sync_period < u32::MAX;
        ends.then(|| {
            self.programmed = false;
            self.sync_period += 1;
            self.sync_period - 1
        })
    }

    /// Notes in the file that all programs of a period are on the disk; see the pages' media.
    fn note_synced(&mut self, period: Option<u32>) -> Access<()> {
        let Some(period) = period.filter(|_| !self.is_unsure) else {
            return Ok(());
        };
        let mut record = SyncRecord::new_zeroed();
        record.synced_period = period.into();
        record.core = self.core.into();
        let at = self.layout.core_page + SYNC_AT;
        let record = record.sealed();
        self.store.write_at("sync", record.as_bytes(), at)
    }

    /// Flips a bit of what is kept of an extent.
    pub fn flip(&mut self, extent: u32, granule: usize, bytes: usize, bit: u32) -> Access<()> {
        self.flip_at(
            self.data_at(extent, granule) + u64::from(bit / 8) % bytes as u64,
            bit,
        )
    }

    /// Flips a bit of a unit's directory.
    #[cfg(test)]
    pub fn flip_directory(&mut self, unit: u32, unit_pages: u32, bit: u32) -> Access<()> {
        self.flip_at(
            self.directory_at(unit, unit_pages) + u64::from(bit / 8),
            bit,
        )
    }

    fn flip_at(&mut self, at: u64, bit: u32) -> Access<()> {
        let mut byte = [0];
        self.store.read_at("damage", &mut byte, at)?;
        byte[0] ^= 1 << (bit % 8);
        self.store.write_at("damage", &byte, at)
    }
}

impl Drop for PackedImage {
    fn drop(&mut self) {
        // The image is free once nobody has its file. There is nobody left to be told.
        let _ = self.syncing.take().map(|syncing| syncing.wait());
        self.taken[self.core as usize].store(false, Ordering::Release);
    }
}

/// The number in the core of a unit.
fn unit_number(geometry: &CoreGeometry, place: UnitPlace) -> u32 {
    place.block * (geometry.pages_per_block / geometry.unit_pages) + place.unit
}

/// Loads the units of a core.
pub fn load(
    store: Arc<Store>,
    taken: Arc<[AtomicBool]>,
    geometry: CoreGeometry,
    core: u32,
    layout: Layout,
) -> Result<PackedMedia, ImageError> {
    let log = SlotLog::open(store.clone(), core, layout, geometry.log_bytes)?;
    let synced_period = load_synced_period(&store, core, &layout)?;
    let mut blocks = vec![Block::default(); geometry.blocks as usize];
    load_erase_counts(&store, core, &layout, geometry.blocks, |block, count| {
        blocks[block as usize].erase_count = count;
    })?;
    let image = PackedImage {
        store,
        taken,
        core,
        layout,
        page_bytes: geometry.page_bytes,
        log,
        sync_period: synced_period.saturating_add(1),
        programmed: false,
        torn: Vec::new(),
        // What the last process wrote may still be on its way to the disk.
        dirty: true,
        syncing: None,
        is_unsure: false,
        covered: Vec::new(),
        has_room: false,
    };
    let mut loading = Loading {
        geometry,
        synced_period,
        blocks,
        image,
    };
    loading.load_directories()?;
    let Loading { blocks, image, .. } = loading;
    Ok(PackedMedia::of_image(geometry, blocks, image))
}

/// An image that is being loaded.
struct Loading {
    geometry: CoreGeometry,
    synced_period: u32,
    blocks: Vec<Block>,
    image: PackedImage,
}

impl Loading {
    fn load_directories(&mut self) -> Access<()> {
        let units = self.geometry.pages_per_block / self.geometry.unit_pages;
        let block_bytes = u64::from(units) * directory_room(self.geometry.unit_pages);
        let mut bytes = vec![0; block_bytes as usize];
        let mut block = 0;
        while block < self.geometry.blocks {
            let at = self.image.layout.entries + u64::from(block) * block_bytes;
            let Some(data_at) = self.image.store.next_data(at) else {
                break;
            };
            let skipped = (data_at - at) / block_bytes;
            if skipped > 0 {
                let left = u64::from(self.geometry.blocks - block);
                block += skipped.min(left) as u32;
                continue;
            }
            self.image.store.read_at("load", &mut bytes, at)?;
            self.load_block(block, units, &bytes)?;
            block += 1;
        }
        Ok(())
    }

    fn load_block(&mut self, block: u32, units: u32, bytes: &[u8]) -> Access<()> {
        let unit_pages = self.geometry.unit_pages;
        let room = directory_room(unit_pages) as usize;
        let found = (block * units..)
            .zip(bytes.chunks_exact(room))
            .map(|(number, bytes)| Directory::decode(bytes, number, unit_pages));
        let found: Vec<Found> = found.collect();
        let epochs = found.iter().filter_map(|found| match found {
            Found::Sound(directory) => Some(directory.epoch),
            _ => None,
        });
        let newest = epochs.max().unwrap_or(0);
        let erase_count = self.blocks[block as usize].erase_count.max(newest);
        self.blocks[block as usize].erase_count = erase_count;
        for (unit, found) in (0..).zip(found) {
            match found {
                Found::Sound(directory) if directory.epoch == erase_count => {
                    self.load_unit(block, unit, &directory)?;
                }
                Found::Damaged => self.lose(block, unit),
                Found::Blank | Found::Sound(_) => {}
            }
        }
        Ok(())
    }

    fn lose(&mut self, block: u32, unit: u32) {
        let most = self.geometry.unit_pages * EXTENTS_PER_PAGE;
        let room = self.geometry.extents_per_block() - self.blocks[block as usize].extents();
        self.blocks[block as usize].lose_unit(unit, most.min(room));
    }

    fn load_unit(&mut self, block: u32, unit: u32, directory: &Directory) -> Access<()> {
        let place = UnitPlace {
            block,
            unit,
            first_extent: directory.first_extent,
        };
        let account = &mut self.blocks[block as usize];
        account.trim_lost(place.first_extent);
        let end = u64::from(place.first_extent) + directory.extents.len() as u64;
        if account.extents() > place.first_extent
            || end > u64::from(self.geometry.extents_per_block())
        {
            self.lose(block, unit);
            return Ok(());
        }
        if directory.sync_period > self.synced_period {
            let next = directory.sync_period.saturating_add(1);
            self.image.sync_period = self.image.sync_period.max(next);
            self.image.programmed = true;
            if !self.data_fit(place, directory)? {
                self.image.torn.push(place);
                self.blocks[block as usize].push_unit(
                    unit,
                    self.geometry.unit_pages,
                    place.first_extent,
                    std::iter::empty(),
                );
                return Ok(());
            }
        }
        let extents = directory.extents.iter();
        let extents = extents.map(|(oob, content, crc)| (*oob, *content, u64::from(*crc)));
        self.blocks[block as usize].push_unit(
            unit,
            self.geometry.unit_pages,
            place.first_extent,
            extents,
        );
        Ok(())
    }

    /// Whether all that is kept of a unit's extents fits its checksums.
    fn data_fit(&self, place: UnitPlace, directory: &Directory) -> Access<bool> {
        let geometry = &self.geometry;
        let mut granule = (place.block * geometry.pages_per_block
            + place.unit * geometry.unit_pages) as usize
            * PAGE_GRANULES as usize;
        let first = place.block * geometry.extents_per_block() + place.first_extent;
        let mut buffer = [0; PAGE_BYTES as usize];
        for (extent, (_, content, crc)) in (first..).zip(&directory.extents) {
            let kept = &mut buffer[..content.stored_bytes(geometry.page_bytes as usize)];
            self.image.read(extent, granule, kept)?;
            if crc_fast::crc32_iscsi(kept) != *crc {
                return Ok(false);
            }
            granule += content.granules() as usize;
        }
        Ok(true)
    }
}
