//! Stamp media: 8 bytes for each page, so that a terabyte drive runs in a few gigabytes.
//!
//! The host writes to every page a stamp that names the write, and checks it at every read; the
//! 4 KiB around it would say nothing more. A page here is one entry of 16 bytes:
//!
//! | bytes | field |
//! |---|---|
//! | 8 | stamp |
//! | 4 | logical page + 1; 0 is erased |
//! | 4 | sequence number, less that of the block's first program |
//!
//! One entry and not three arrays, because a read of a random page then waits for one cache line
//! of DRAM and not for three. Every block adds 16 bytes (base, erase count, written pages).
//!
//! The stamp fills the page: there is no room for a checksum. Rot is therefore not found by
//! itself; [`Rot`](super::rot::Rot) marks a page as unreadable instead of flipping a bit.

use std::collections::BTreeSet;

use zerocopy::FromZeros;

use super::memory_log::MemoryLog;
use super::{
    BlockCopy, CoreGeometry, LPN_MAX, Media, MediaError, Oob, STAMP_BYTES, SlabError, ZeroedSlab,
    assert_page, assert_unused, panic_not_erased,
};

#[derive(Clone, Copy, FromZeros)]
struct Page {
    stamp: u64,
    lpn_plus_1: u32,
    seq_offset: u32,
}

#[derive(Clone, Copy, FromZeros)]
struct Block {
    /// The sequence number of the first program after the erase.
    seq_base: u64,
    erase_count: u32,
    written_pages: u32,
}

const _: () = assert!(size_of::<Page>() == 16 && size_of::<Block>() == 16);

/// Flash whose pages hold 8 bytes, in memory. See the source's module notes for its layout.
///
/// A block may stay open for 2^32 programs of its core (16 TiB of writes at 4 KiB) from its first
/// to its last; a program later than that panics, as its sequence number cannot be kept.
#[derive(Debug)]
pub struct StampMedia {
    geometry: CoreGeometry,
    pages: ZeroedSlab<Page>,
    blocks: ZeroedSlab<Block>,
    log: MemoryLog,
    /// Pages marked as rotted by a test; empty in every other run.
    pub(super) rotten: BTreeSet<u32>,
}

impl StampMedia {
    /// Erased flash of this shape.
    ///
    /// Panics if the geometry fails its [check](CoreGeometry::check) or has pages of another size.
    pub fn new(geometry: CoreGeometry) -> Result<Self, SlabError> {
        geometry.check().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            geometry.page_bytes, STAMP_BYTES,
            "a page of stamp media is a stamp"
        );
        Ok(Self {
            geometry,
            pages: ZeroedSlab::new("the stamps of a drive", geometry.pages() as usize)?,
            blocks: ZeroedSlab::new("the block table of a drive", geometry.blocks as usize)?,
            log: MemoryLog::new(geometry.log_bytes),
            rotten: BTreeSet::new(),
        })
    }
}

impl Media for StampMedia {
    #[inline]
    fn geometry(&self) -> &CoreGeometry {
        &self.geometry
    }

    #[inline]
    fn program(&mut self, ppn: u32, oob: Oob, data: &[u8]) -> Result<(), MediaError> {
        assert_page(&self.geometry, ppn, data.len());
        assert!(oob.lpn <= LPN_MAX);
        let page = &mut self.pages[ppn as usize];
        if page.lpn_plus_1 != 0 {
            panic_not_erased(ppn, oob);
        }
        let index = ppn % self.geometry.pages_per_block;
        let block = &mut self.blocks[(ppn / self.geometry.pages_per_block) as usize];
        if block.written_pages == 0 {
            block.seq_base = oob.seq;
        }
        let seq_offset = oob
            .seq
            .checked_sub(block.seq_base)
            .and_then(|n| u32::try_from(n).ok());
        *page = Page {
            stamp: u64::from_le_bytes(data.try_into().expect("its length was checked")),
            lpn_plus_1: oob.lpn + 1,
            seq_offset: seq_offset.expect("the block was open for 2^32 programs, or seq fell"),
        };
        block.written_pages = block.written_pages.max(index + 1);
        Ok(())
    }

    #[inline]
    fn read(&self, ppn: u32, out: &mut [u8]) -> Result<Oob, MediaError> {
        assert_page(&self.geometry, ppn, out.len());
        let oob = self.oob(ppn).ok_or(MediaError::Erased { ppn })?;
        if !self.rotten.is_empty() && self.rotten.contains(&ppn) {
            return Err(MediaError::Rot { ppn });
        }
        out.copy_from_slice(&self.pages[ppn as usize].stamp.to_le_bytes());
        Ok(oob)
    }

    #[inline]
    fn lpn(&self, ppn: u32) -> Option<u32> {
        self.pages[ppn as usize].lpn_plus_1.checked_sub(1)
    }

    #[inline]
    fn oob(&self, ppn: u32) -> Option<Oob> {
        let page = &self.pages[ppn as usize];
        let lpn = page.lpn_plus_1.checked_sub(1)?;
        let block = &self.blocks[(ppn / self.geometry.pages_per_block) as usize];
        Some(Oob {
            lpn,
            seq: block.seq_base + u64::from(page.seq_offset),
        })
    }

    #[inline]
    fn prefetch(&self, ppn: u32) {
        self.pages.prefetch(ppn as usize);
    }

    fn erase(&mut self, block: u32) -> Result<(), MediaError> {
        let first = (block * self.geometry.pages_per_block) as usize;
        let state = &mut self.blocks[block as usize];
        self.pages[first..first + state.written_pages as usize].fill(Page::new_zeroed());
        *state = Block {
            seq_base: 0,
            erase_count: state.erase_count + 1,
            written_pages: 0,
        };
        if !self.rotten.is_empty() {
            self.rotten
                .retain(|ppn| ppn / self.geometry.pages_per_block != block);
        }
        Ok(())
    }

    #[inline]
    fn erase_count(&self, block: u32) -> u32 {
        self.blocks[block as usize].erase_count
    }

    #[inline]
    fn written_pages(&self, block: u32) -> u32 {
        self.blocks[block as usize].written_pages
    }

    fn restore_block(&mut self, block: u32, copy: &BlockCopy) -> Result<(), MediaError> {
        assert_unused(self, block);
        self.blocks[block as usize].erase_count = copy.erase_count;
        let first = block * self.geometry.pages_per_block;
        copy.iter()
            .try_for_each(|(index, oob, data)| self.program(first + index, oob, data))
    }

    fn sync(&mut self) -> Result<(), MediaError> {
        Ok(())
    }

    fn log_append(&mut self, record: &[u8]) -> Result<(), MediaError> {
        self.log.append(record)
    }

    fn log_replace(&mut self, records: &[&[u8]]) -> Result<(), MediaError> {
        self.log.replace(records)
    }

    fn log_read(&self) -> Result<Vec<Vec<u8>>, MediaError> {
        Ok(self.log.read())
    }

    fn log_len(&self) -> u64 {
        self.log.len()
    }
}
