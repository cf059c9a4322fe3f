//! RAM media: pages of 4 KiB in memory.
//!
//! The data of the pages lie in one lazily backed array, or as [`StampedPages`], which keep 64 bytes of what checked
//! workloads write and are a little slower. What is known of them lies in an array of 16 bytes a page
//! (sequence number, logical page + 1 with 0 as erased, checksum). With huge pages a block of 512
//! pages of 4 KiB is one page of the machine's memory.
//!
//! Checksums are optional: memory hardly rots by itself, and a 4 KiB read takes half as long
//! again with one.

use wharf_files::stamped::StampedPages;
use zerocopy::FromZeros;

use super::memory_log::MemoryLog;
use super::{
    BlockCopy, CoreGeometry, LPN_MAX, Media, MediaError, Oob, PAGE_BYTES, SlabError, ZeroedSlab,
    assert_page, assert_unused, panic_not_erased,
};

#[derive(Clone, Copy, FromZeros)]
struct Page {
    seq: u64,
    lpn_plus_1: u32,
    crc: u32,
}

#[derive(Clone, Copy, FromZeros)]
struct Block {
    erase_count: u32,
    written_pages: u32,
}

const _: () = assert!(size_of::<Page>() == 16 && size_of::<Block>() == 8);

/// Where the data of pages are.
#[derive(Debug)]
enum Data {
    Whole(ZeroedSlab<[u8; PAGE_BYTES as usize]>),
    Mixed(StampedPages),
}

impl Data {
    #[inline]
    fn read(&self, ppn: u32, out: &mut [u8]) {
        match self {
            Data::Whole(pages) => out.copy_from_slice(&pages[ppn as usize]),
            Data::Mixed(pages) => pages.read(ppn.into(), 0, out),
        }
    }

    #[inline]
    fn write(&mut self, ppn: u32, data: &[u8]) {
        match self {
            Data::Whole(pages) => pages[ppn as usize].copy_from_slice(data),
            Data::Mixed(pages) => pages.write(ppn.into(), 0, data),
        }
    }
}

/// Flash with pages of 4 KiB, in memory.
#[derive(Debug)]
pub struct RamMedia {
    geometry: CoreGeometry,
    pub(super) verify: bool,
    data: Data,
    pages: ZeroedSlab<Page>,
    blocks: ZeroedSlab<Block>,
    log: MemoryLog,
}

impl RamMedia {
    /// Erased flash of this shape; `verify` keeps a CRC32C of each page and checks it at reads.
    ///
    /// Panics if the geometry fails its [check](CoreGeometry::check) or has pages of another size.
    pub fn new(geometry: CoreGeometry, verify: bool) -> Result<Self, SlabError> {
        Self::with(geometry, verify, |pages| {
            ZeroedSlab::new("the pages of a drive", pages).map(Data::Whole)
        })
    }

    /// The same, of which pages that checked workloads write take 64 bytes.
    pub fn mixed(geometry: CoreGeometry, verify: bool) -> Result<Self, SlabError> {
        Self::with(geometry, verify, |_| {
            Ok(Data::Mixed(StampedPages::default()))
        })
    }

    fn with(
        geometry: CoreGeometry,
        verify: bool,
        data: impl FnOnce(usize) -> Result<Data, SlabError>,
    ) -> Result<Self, SlabError> {
        geometry.check().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            geometry.page_bytes, PAGE_BYTES,
            "a page of RAM media holds {PAGE_BYTES} bytes"
        );
        Ok(Self {
            geometry,
            verify,
            data: data(geometry.pages() as usize)?,
            pages: ZeroedSlab::new("the page table of a drive", geometry.pages() as usize)?,
            blocks: ZeroedSlab::new("the block table of a drive", geometry.blocks as usize)?,
            log: MemoryLog::new(geometry.log_bytes),
        })
    }

    /// Flips a bit of what is kept of a page, and leaves its checksum as it is.
    pub(super) fn flip(&mut self, ppn: u32, bit: u32) {
        let mut page = [0; PAGE_BYTES as usize];
        self.data.read(ppn, &mut page);
        page[bit as usize / 8 % page.len()] ^= 1 << (bit % 8);
        self.data.write(ppn, &page);
    }
}

impl Media for RamMedia {
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
        self.data.write(ppn, data);
        let crc = if self.verify {
            crc_fast::crc32_iscsi(data)
        } else {
            0
        };
        *page = Page {
            seq: oob.seq,
            lpn_plus_1: oob.lpn + 1,
            crc,
        };
        let index = ppn % self.geometry.pages_per_block;
        let block = &mut self.blocks[(ppn / self.geometry.pages_per_block) as usize];
        block.written_pages = block.written_pages.max(index + 1);
        Ok(())
    }

    #[inline]
    fn read(&self, ppn: u32, out: &mut [u8]) -> Result<Oob, MediaError> {
        assert_page(&self.geometry, ppn, out.len());
        let page = &self.pages[ppn as usize];
        let lpn = page
            .lpn_plus_1
            .checked_sub(1)
            .ok_or(MediaError::Erased { ppn })?;
        self.data.read(ppn, out);
        if self.verify && crc_fast::crc32_iscsi(out) != page.crc {
            return Err(MediaError::Rot { ppn });
        }
        Ok(Oob { lpn, seq: page.seq })
    }

    #[inline]
    fn lpn(&self, ppn: u32) -> Option<u32> {
        self.pages[ppn as usize].lpn_plus_1.checked_sub(1)
    }

    #[inline]
    fn oob(&self, ppn: u32) -> Option<Oob> {
        let page = &self.pages[ppn as usize];
        Some(Oob {
            lpn: page.lpn_plus_1.checked_sub(1)?,
            seq: page.seq,
        })
    }

    #[inline]
    fn prefetch(&self, ppn: u32) {
        self.pages.prefetch(ppn as usize);
        if let Data::Whole(pages) = &self.data {
            pages.prefetch(ppn as usize);
        }
    }

    fn erase(&mut self, block: u32) -> Result<(), MediaError> {
        let first = (block * self.geometry.pages_per_block) as usize;
        let state = &mut self.blocks[block as usize];
        // No read reaches a page whose entry says that it is erased: data stay where nothing is won.
        if let Data::Mixed(pages) = &mut self.data {
            (first..first + state.written_pages as usize).for_each(|ppn| pages.forget(ppn as u64));
        }
        self.pages[first..first + state.written_pages as usize].fill(Page::new_zeroed());
        *state = Block {
            erase_count: state.erase_count + 1,
            written_pages: 0,
        };
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
