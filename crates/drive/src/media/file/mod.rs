//! File media: a core's flash in an image that outlives the process.
//!
//! One file holds all cores, each in a region of its own, so that they share nothing but the file
//! descriptor. The order of writes makes every operation atomic:
//!
//! * **Program**: the data, then the page's entry (sequence number, logical page, checksums). A
//!   kill in between leaves a page that is still erased.
//! * **Erase**: the block's record with the next erase count. That alone is the erase: an entry
//!   counts only if it carries its block's erase count. Wiping the entries and giving the space of
//!   the data back follow, and lose nothing if a kill prevents them.
//! * **Log**: see `log.rs`.
//!
//! Against a crash of the *host machine*, which may lose any write since the last sync and keep
//! any other: a page from before the sync is safe, as an erase waits for a sync of what came
//! before it (unless [`FileOptions::ordered`] is off). A page programmed after it may have its
//! entry without its data; loading therefore reads the data of just those pages, and those that
//! do not fit are treated as never having been programmed to the end. The next sync voids their
//! entries, as from then on nobody checks them again.
//!
//! Entries are also held in memory, 16 bytes a page in a lazily backed array: reads cost one
//! system call and reverse look-ups none.

pub(super) mod format;
mod image;
pub(super) mod load;
pub(super) mod log;
pub(super) mod store;
pub(super) mod syncing;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zerocopy::{FromZeros, IntoBytes};

pub use format::ImageGeometry;
use format::{BlockRecord, Layout, PageEntry, SYNC_AT, Sealed, SyncRecord};
pub use image::{FileImage, FileOptions, ImageError};
use log::SlotLog;
pub use store::KillPoint;
use store::Store;
pub use syncing::{HeldSyncs, Syncing};

use super::{
    BlockCopy, CoreGeometry, HostFault, LPN_MAX, Media, MediaError, Oob, ZeroedSlab, assert_page,
    assert_unused, panic_not_erased,
};

/// `lpn_plus_1` of a page whose entry or data were found torn or rotten when it was loaded.
const UNREADABLE: u32 = u32::MAX;

/// The logical page in the entry of a page that was torn.
const VOID_LPN: u32 = u32::MAX;

/// What memory holds of a page's entry.
#[derive(Debug, Clone, Copy, FromZeros)]
struct Page {
    seq: u64,
    /// 0 is erased, [`UNREADABLE`] is lost.
    lpn_plus_1: u32,
    data_crc: u32,
}

/// What memory holds of a block.
#[derive(Debug, Clone, Copy, FromZeros)]
struct Block {
    erase_count: u32,
    written_pages: u32,
}

/// The flash of one core in an image file.
#[derive(Debug)]
pub struct FileMedia {
    store: Arc<Store>,
    taken: Arc<[AtomicBool]>,
    geometry: CoreGeometry,
    core: u32,
    layout: Layout,
    pages: ZeroedSlab<Page>,
    blocks: ZeroedSlab<Block>,
    log: SlotLog,
    /// Goes into the entries of pages programmed now; the next sync notes it and starts another.
    /// At `u32::MAX` it stays, is never noted, and later loads check more pages than they must.
    sync_period: u32,
    /// Whether a page was programmed or loaded that bears this period or one not noted before.
    programmed: bool,
    /// Pages that loading found torn and whose entries are not void yet.
    torn: Vec<u32>,
    /// Whether anything was written since the last sync.
    dirty: bool,
}

impl FileMedia {
    fn data_at(&self, ppn: u32) -> u64 {
        self.layout.data + u64::from(ppn) * u64::from(self.geometry.page_bytes)
    }

    fn entry_at(&self, ppn: u32) -> u64 {
        self.layout.entries + u64::from(ppn) * size_of::<PageEntry>() as u64
    }

    fn entry(&self, ppn: u32, oob: Oob, epoch: u32, data_crc: u32) -> PageEntry {
        PageEntry {
            seq: oob.seq.into(),
            lpn: oob.lpn.into(),
            epoch: epoch.into(),
            data_crc: data_crc.into(),
            ppn: ppn.into(),
            sync_period: self.sync_period.into(),
            crc: 0.into(),
        }
        .sealed()
    }

    /// What a page that is to be read says of itself.
    #[inline]
    fn begin_read(&self, ppn: u32, out: &[u8]) -> Result<Oob, MediaError> {
        assert_page(&self.geometry, ppn, out.len());
        if self.pages[ppn as usize].lpn_plus_1 == 0 {
            return Err(MediaError::Erased { ppn });
        }
        self.oob(ppn).ok_or(MediaError::Rot { ppn })
    }

    #[inline]
    fn verify(&self, ppn: u32, data: &[u8]) -> Result<(), MediaError> {
        match crc_fast::crc32_iscsi(data) == self.pages[ppn as usize].data_crc {
            true => Ok(()),
            false => Err(MediaError::Rot { ppn }),
        }
    }

    /// Writes how often a block was erased.
    fn write_block_record(
        &self,
        action: &'static str,
        block: u32,
        erase_count: u32,
    ) -> Result<(), Box<HostFault>> {
        let record = BlockRecord {
            erase_count: erase_count.into(),
            core: self.core.into(),
            block: block.into(),
            crc: 0.into(),
        };
        let at = self.layout.block_records + u64::from(block) * size_of::<BlockRecord>() as u64;
        self.store.write_at(action, record.sealed().as_bytes(), at)
    }

    /// Flips a bit of a page's data in the file and leaves the checksum as it is.
    pub(super) fn flip_data(&mut self, ppn: u32, bit: u32) -> Result<(), MediaError> {
        let at = self.data_at(ppn) + u64::from(bit / 8 % self.geometry.page_bytes);
        let mut byte = [0];
        self.store.read_at("damage", &mut byte, at)?;
        byte[0] ^= 1 << (bit % 8);
        Ok(self.store.write_at("damage", &byte, at)?)
    }

    /// Wipes the entries of an erased block's first pages and gives back the space of their data.
    fn clean(&self, block: u32, pages: u32) -> Result<(), Box<HostFault>> {
        if pages == 0 {
            return Ok(());
        }
        let first = block * self.geometry.pages_per_block;
        let zeros = vec![0; pages as usize * size_of::<PageEntry>()];
        self.store
            .write_at("erase a block of", &zeros, self.entry_at(first))?;
        let data_bytes = u64::from(pages) * u64::from(self.geometry.page_bytes);
        self.store
            .punch("erase a block of", self.data_at(first), data_bytes)
    }

    /// Makes the entries of torn pages say so: once a sync is noted, loading trusts the data of
    /// every entry before it.
    fn void_torn(&mut self) -> Result<(), Box<HostFault>> {
        for &ppn in &self.torn {
            let epoch = self.erase_count(ppn / self.geometry.pages_per_block);
            let entry = self.entry(
                ppn,
                Oob {
                    lpn: VOID_LPN,
                    seq: 0,
                },
                epoch,
                0,
            );
            self.store
                .write_at("sync", entry.as_bytes(), self.entry_at(ppn))?;
        }
        self.torn.clear();
        Ok(())
    }

    /// Notes in the file that all programs so far are on the disk.
    ///
    /// The note itself reaches the disk with the next sync or by chance: an older one only makes
    /// the next load check more pages.
    fn note_synced(&mut self) -> Result<(), Box<HostFault>> {
        if self.programmed && self.sync_period < u32::MAX {
            let mut record = SyncRecord::new_zeroed();
            record.synced_period = self.sync_period.into();
            record.core = self.core.into();
            let at = self.layout.core_page + SYNC_AT;
            self.store
                .write_at("sync", record.sealed().as_bytes(), at)?;
            self.sync_period += 1;
            self.programmed = false;
        }
        Ok(())
    }
}

impl Media for FileMedia {
    #[inline]
    fn geometry(&self) -> &CoreGeometry {
        &self.geometry
    }

    fn program(&mut self, ppn: u32, oob: Oob, data: &[u8]) -> Result<(), MediaError> {
        assert_page(&self.geometry, ppn, data.len());
        assert!(oob.lpn <= LPN_MAX);
        if self.pages[ppn as usize].lpn_plus_1 != 0 {
            panic_not_erased(ppn, oob);
        }
        let block = (ppn / self.geometry.pages_per_block) as usize;
        let data_crc = crc_fast::crc32_iscsi(data);
        let entry = self.entry(ppn, oob, self.blocks[block].erase_count, data_crc);
        self.dirty = true;
        self.store
            .write_at("program a page of", data, self.data_at(ppn))?;
        self.store
            .write_at("program a page of", entry.as_bytes(), self.entry_at(ppn))?;
        self.pages[ppn as usize] = Page {
            seq: oob.seq,
            lpn_plus_1: oob.lpn + 1,
            data_crc,
        };
        let index = ppn % self.geometry.pages_per_block;
        self.blocks[block].written_pages = self.blocks[block].written_pages.max(index + 1);
        self.programmed = true;
        Ok(())
    }

    fn read(&self, ppn: u32, out: &mut [u8]) -> Result<Oob, MediaError> {
        let oob = self.begin_read(ppn, out)?;
        self.store
            .read_at("read a page of", out, self.data_at(ppn))?;
        self.verify(ppn, out).map(|()| oob)
    }

    fn read_if_near(&self, ppn: u32, out: &mut [u8]) -> Result<Option<Oob>, MediaError> {
        let oob = self.begin_read(ppn, out)?;
        let is_here = self
            .store
            .read_if_near("read a page of", out, self.data_at(ppn))?;
        match is_here {
            true => self.verify(ppn, out).map(|()| Some(oob)),
            false => Ok(None),
        }
    }

    #[inline]
    fn lpn(&self, ppn: u32) -> Option<u32> {
        match self.pages[ppn as usize].lpn_plus_1 {
            0 | UNREADABLE => None,
            lpn_plus_1 => Some(lpn_plus_1 - 1),
        }
    }

    #[inline]
    fn oob(&self, ppn: u32) -> Option<Oob> {
        Some(Oob {
            lpn: self.lpn(ppn)?,
            seq: self.pages[ppn as usize].seq,
        })
    }

    #[inline]
    fn prefetch(&self, ppn: u32) {
        self.pages.prefetch(ppn as usize);
    }

    /// An error after the block's record was written leaves an erased block whose space is not
    /// given back yet; [`Media::erase_count`] tells which it was.
    fn erase(&mut self, block: u32) -> Result<(), MediaError> {
        let Block {
            erase_count,
            written_pages,
        } = self.blocks[block as usize];
        if self.store.is_ordered() {
            self.sync()?;
        }
        let erase_count = erase_count + 1;
        self.write_block_record("erase a block of", block, erase_count)?;
        self.dirty = true;
        self.blocks[block as usize] = Block {
            erase_count,
            written_pages: 0,
        };
        let first = (block * self.geometry.pages_per_block) as usize;
        self.pages[first..first + written_pages as usize].fill(Page::new_zeroed());
        self.torn
            .retain(|ppn| ppn / self.geometry.pages_per_block != block);
        Ok(self.clean(block, written_pages)?)
    }

    #[inline]
    fn erase_count(&self, block: u32) -> u32 {
        self.blocks[block as usize].erase_count
    }

    #[inline]
    fn written_pages(&self, block: u32) -> u32 {
        self.blocks[block as usize].written_pages
    }

    fn copy_block(&self, block: u32, out: &mut BlockCopy) -> Result<(), MediaError> {
        let Block {
            erase_count,
            written_pages,
        } = self.blocks[block as usize];
        let page_bytes = self.page_bytes();
        out.begin(erase_count, written_pages as usize, page_bytes);
        let first = block * self.geometry.pages_per_block;
        self.store
            .read_at("copy a block of", &mut out.data, self.data_at(first))?;
        for (ppn, (page, data)) in
            (first..).zip(out.pages.iter_mut().zip(out.data.chunks_exact(page_bytes)))
        {
            *page = self.oob(ppn);
            if page.is_some() && crc_fast::crc32_iscsi(data) != self.pages[ppn as usize].data_crc {
                return Err(MediaError::Rot { ppn });
            }
        }
        Ok(())
    }

    fn restore_block(&mut self, block: u32, copy: &BlockCopy) -> Result<(), MediaError> {
        const ACTION: &str = "restore a block of";
        assert_unused(self, block);
        let first = block * self.geometry.pages_per_block;
        self.dirty = true;
        let mut entries = vec![PageEntry::new_zeroed(); copy.pages.len()];
        for (index, oob, data) in copy.iter() {
            let (ppn, data_crc) = (first + index, crc_fast::crc32_iscsi(data));
            entries[index as usize] = self.entry(ppn, oob, copy.erase_count, data_crc);
            self.pages[ppn as usize] = Page {
                seq: oob.seq,
                lpn_plus_1: oob.lpn + 1,
                data_crc,
            };
            self.programmed = true;
        }
        // In the order of an erase and of programs: a kill in between leaves fewer pages.
        self.write_block_record(ACTION, block, copy.erase_count)?;
        self.store
            .write_at(ACTION, &copy.data, self.data_at(first))?;
        self.store
            .write_at(ACTION, entries.as_bytes(), self.entry_at(first))?;
        let written = copy
            .pages
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |last| last + 1);
        self.blocks[block as usize] = Block {
            erase_count: copy.erase_count,
            written_pages: written as u32,
        };
        Ok(())
    }

    fn sync(&mut self) -> Result<(), MediaError> {
        if self.dirty {
            self.void_torn()?;
            self.store.sync()?;
            self.dirty = false;
            self.note_synced()?;
        }
        Ok(())
    }

    fn log_append(&mut self, record: &[u8]) -> Result<(), MediaError> {
        self.dirty = true;
        self.log.append(record)
    }

    fn log_replace(&mut self, records: &[&[u8]]) -> Result<(), MediaError> {
        self.dirty = true;
        self.log.replace(records)
    }

    fn log_read(&self) -> Result<Vec<Vec<u8>>, MediaError> {
        self.log.read()
    }

    fn log_len(&self) -> u64 {
        self.log.len()
    }
}

impl Drop for FileMedia {
    fn drop(&mut self) {
        self.taken[self.core as usize].store(false, Ordering::Release);
    }
}
