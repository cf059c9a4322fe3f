//! Flash media: where the bytes of a drive are kept, below all timing.
//!
//! Each firmware core owns its dies, and with them one media object of its own. It addresses pages
//! by a number local to the core (`block * pages_per_block + page`) and knows nothing of latency,
//! mapping or garbage collection. The same trait has four kinds:
//!
//! * [`RamMedia`] holds 4 KiB pages in memory, whole or, with [`RamMedia::mixed`], as 64 bytes where that says all;
//! * [`StampMedia`] holds 8 bytes per page, a stamp that names the page's last write, so that a
//!   terabyte drive runs in a few gigabytes;
//! * [`FileMedia`] keeps pages of either size in an image file that survives the process
//!   (`docs/media-format.md` is its format);
//! * [`PackedMedia`] keeps extents of units in any of these places, for drives that compress.
//!
//! What a caller may rely on, of every kind:
//!
//! 1. Each call is atomic: a cut before, within or after it leaves the page, the block or the log
//!    as it was or as it should be. What a cut tore is found by its checksum, never returned.
//! 2. Out-of-band data, erase counts and the log survive with the pages.
//! 3. Calls that only a faulty translation layer makes (a page out of range, a program of a page
//!    that is not erased, a buffer of the wrong size) panic with a message; errors are for what
//!    flash and hosts really do.

mod any;
mod copy;
mod file;
mod memory_log;
pub mod packed;
mod ram;
pub mod rot;
mod stamp;
#[cfg(test)]
mod tests;

pub use any::AnyMedia;
pub use copy::{BlockCopy, UnitCopy, copy_core};
pub use file::{
    FileImage, FileMedia, FileOptions, HeldSyncs, ImageError, ImageGeometry, KillPoint, Syncing,
};
pub use packed::PackedMedia;
use packed::unit::{Content, EXTENTS_PER_PAGE, ExtentData, UNIT_PAGES_MAX, UnitPlace};
pub use ram::RamMedia;
pub use stamp::StampMedia;
pub use wharf_runtime::slab::{SlabError, ZeroedSlab};

/// Bytes of a logical block on the wire, and of a page that holds real data.
pub const PAGE_BYTES: u32 = 4096;
/// Bytes of a page that holds a stamp only.
pub const STAMP_BYTES: u32 = 8;
/// The largest logical page number that fits an out-of-band area: the two above it are taken by
/// "erased" and "unreadable".
pub const LPN_MAX: u32 = u32::MAX - 2;

/// What a programmed page says of itself, apart from its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oob {
    /// The logical page, local to the core; at most [`LPN_MAX`].
    pub lpn: u32,
    /// The core's program sequence number: of two pages with one `lpn`, the greater is newer. It
    /// grows from program to program within a block.
    pub seq: u64,
}

/// The flash of one core: its shape, and the room of its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreGeometry {
    /// Erase blocks.
    pub blocks: u32,
    /// Pages in a block.
    pub pages_per_block: u32,
    /// Bytes of data in a page: [`PAGE_BYTES`] or [`STAMP_BYTES`].
    pub page_bytes: u32,
    /// Pages that are programmed together, as a unit of extents; 0 where each page is programmed,
    /// and read, by itself.
    pub unit_pages: u32,
    /// Bytes that the log may hold, each record counted as [`log_record_bytes`].
    pub log_bytes: u64,
}

/// A geometry that no media can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// No blocks, no pages or no cores.
    #[error("{what} must be at least 1, and is 0")]
    Zero {
        /// The field.
        what: &'static str,
    },
    /// More pages than a 32-bit page number can name.
    #[error(
        "{blocks} blocks of {pages_per_block} pages are more than the {} pages of a core; use more cores",
        u32::MAX
    )]
    TooManyPages {
        /// Blocks asked for.
        blocks: u32,
        /// Pages in each.
        pages_per_block: u32,
    },
    /// A page size that no media has.
    #[error(
        "a page of {page_bytes} bytes cannot be kept: use {PAGE_BYTES} (data) or {STAMP_BYTES} (stamps)"
    )]
    PageBytes {
        /// The size asked for.
        page_bytes: u32,
    },
    /// Units that do not divide blocks, or are too large.
    #[error(
        "units of {unit_pages} pages do not divide blocks of {pages_per_block}, or are more than {UNIT_PAGES_MAX}"
    )]
    UnitPages {
        /// Pages of a unit.
        unit_pages: u32,
        /// Pages of a block.
        pages_per_block: u32,
    },
    /// All cores together exceed what a file can hold.
    #[error("{cores} cores of this geometry are larger than any file; use fewer blocks")]
    TooLarge {
        /// The cores asked for.
        cores: u32,
    },
}

impl CoreGeometry {
    /// Pages in all blocks. Fits once [`CoreGeometry::check`] has passed.
    pub fn pages(&self) -> u32 {
        self.blocks * self.pages_per_block
    }

    /// Numbers of extents of a block, or of pages where there are no units.
    #[inline]
    pub fn extents_per_block(&self) -> u32 {
        match self.unit_pages {
            0 => self.pages_per_block,
            _ => self.pages_per_block * EXTENTS_PER_PAGE,
        }
    }

    /// Numbers of extents, or of pages, of all blocks: those that a map may name.
    pub fn numbers(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.extents_per_block())
    }

    /// Refuses a shape that cannot be addressed.
    pub fn check(&self) -> Result<(), GeometryError> {
        for (what, value) in [
            ("blocks", self.blocks),
            ("pages_per_block", self.pages_per_block),
        ] {
            if value == 0 {
                return Err(GeometryError::Zero { what });
            }
        }
        let units = self.unit_pages;
        if units > 0 && (units > UNIT_PAGES_MAX || !self.pages_per_block.is_multiple_of(units)) {
            return Err(GeometryError::UnitPages {
                unit_pages: units,
                pages_per_block: self.pages_per_block,
            });
        }
        let addressed = self.pages_per_block.checked_mul(match units {
            0 => 1,
            _ => EXTENTS_PER_PAGE,
        });
        if addressed.is_none_or(|numbers| self.blocks.checked_mul(numbers).is_none()) {
            let Self {
                blocks,
                pages_per_block,
                ..
            } = *self;
            return Err(GeometryError::TooManyPages {
                blocks,
                pages_per_block,
            });
        }
        match self.page_bytes {
            PAGE_BYTES | STAMP_BYTES => Ok(()),
            page_bytes => Err(GeometryError::PageBytes { page_bytes }),
        }
    }
}

/// Why the media could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The page holds nothing.
    #[error("page {ppn} is erased")]
    Erased {
        /// The physical page, local to its core.
        ppn: u32,
    },
    /// The page's checksum does not fit its data: an unrecovered read error.
    #[error("page {ppn} has rotted: its checksum does not fit its data")]
    Rot {
        /// The physical page, local to its core.
        ppn: u32,
    },
    /// A record in the middle of the log no longer fits its checksum.
    #[error("the log has rotted {offset} bytes in; what follows cannot be trusted")]
    LogRot {
        /// Where the damaged record begins, bytes.
        offset: u64,
    },
    /// The log has no room for the record: replace it by a shorter one first.
    #[error("the log holds {len} of {capacity} bytes and {wanted} more do not fit")]
    LogFull {
        /// Bytes in the log.
        len: u64,
        /// Bytes that fit at most.
        capacity: u64,
        /// Bytes of what was to be added.
        wanted: u64,
    },
    /// The machine that holds an image refused: no space, an I/O error.
    #[error(transparent)]
    Host(#[from] Box<HostFault>),
}

/// A failed access to an image file.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {cause}", path.display())]
pub struct HostFault {
    /// What was tried: "write a page to", "read a page of".
    pub action: &'static str,
    /// The image.
    pub path: std::path::PathBuf,
    /// What the system answered.
    pub cause: std::io::Error,
}

/// Bytes that a record of `len` bytes takes from the log: length and checksum before it, padded
/// to 8 bytes.
pub const fn log_record_bytes(len: usize) -> u64 {
    (len as u64 + 8).next_multiple_of(8)
}

/// The flash of one core, with a small log beside it.
///
/// See the [module](self) for what all kinds promise. "Now" in the notes on power cuts is the
/// return of the call.
pub trait Media {
    /// The shape of this flash.
    fn geometry(&self) -> &CoreGeometry;

    /// Bytes of data in a page: [`PAGE_BYTES`] or [`STAMP_BYTES`].
    #[inline]
    fn page_bytes(&self) -> usize {
        self.geometry().page_bytes as usize
    }

    /// Programs an erased page with `data`, exactly a page of it. It survives a power cut now.
    fn program(&mut self, ppn: u32, oob: Oob, data: &[u8]) -> Result<(), MediaError>;

    /// Copies a page to `out`, exactly a page of it. On an error, `out` holds nothing of worth.
    fn read(&self, ppn: u32, out: &mut [u8]) -> Result<Oob, MediaError>;

    /// Programs an erased unit with its extents, all or none: they survive a power cut now.
    ///
    /// # Panics
    /// If pages are programmed by themselves here.
    fn program_unit(&mut self, place: UnitPlace, _: &[ExtentData<'_>]) -> Result<(), MediaError> {
        panic!("{place:?} cannot be programmed: this flash is programmed by pages")
    }

    /// Copies what is kept of an extent to the start of `out`, which has room for a page.
    ///
    /// # Panics
    /// If pages are programmed by themselves here.
    fn read_extent(&self, extent: u32, _: &mut [u8]) -> Result<(Oob, Content), MediaError> {
        panic!("extent {extent} cannot be read: this flash is read by pages")
    }

    /// As [`Media::read`], without waiting for a slow place: `None` says that the page is on its way. Ask again.
    #[inline]
    fn read_if_near(&self, ppn: u32, out: &mut [u8]) -> Result<Option<Oob>, MediaError> {
        self.read(ppn, out).map(Some)
    }

    /// As [`Media::read_extent`], without waiting for a slow place.
    #[inline]
    fn read_extent_if_near(
        &self,
        extent: u32,
        out: &mut [u8],
    ) -> Result<Option<(Oob, Content)>, MediaError> {
        self.read_extent(extent, out).map(Some)
    }

    /// Granules of an extent; 1 for a page that is programmed by itself.
    #[inline]
    fn granules(&self, _: u32) -> u32 {
        1
    }

    /// The logical page that a page holds; `None` if it is erased or its out-of-band data is lost.
    ///
    /// Memory only, at the cost of one cache line: garbage collection asks this for every page.
    fn lpn(&self, ppn: u32) -> Option<u32>;

    /// The out-of-band data of a page; `None` if it is erased or that data is lost.
    fn oob(&self, ppn: u32) -> Option<Oob>;

    /// Says that `ppn` will be read or programmed soon. Changes nothing but the time that takes.
    fn prefetch(&self, ppn: u32);

    /// Erases a block and counts it. It survives a power cut now.
    fn erase(&mut self, block: u32) -> Result<(), MediaError>;

    /// How often a block has been erased.
    fn erase_count(&self, block: u32) -> u32;

    /// The index after the last page of the block that is not erased: where programming may go on.
    fn written_pages(&self, block: u32) -> u32;

    /// The index after the last page or unit of the block that is not erased.
    #[inline]
    fn written_slots(&self, block: u32) -> u32 {
        self.written_pages(block)
    }

    /// Copies what a block holds to `out`.
    ///
    /// # Errors
    /// A page that has rotted, or what the image's host refuses.
    fn copy_block(&self, block: u32, out: &mut BlockCopy) -> Result<(), MediaError> {
        let page_bytes = self.page_bytes();
        let written = self.written_pages(block);
        out.begin(self.erase_count(block), written as usize, page_bytes);
        let first = block * self.geometry().pages_per_block;
        for (index, data) in (0..written).zip(out.data.chunks_exact_mut(page_bytes)) {
            if self.lpn(first + index).is_some() {
                out.pages[index as usize] = Some(self.read(first + index, data)?);
            }
        }
        Ok(())
    }

    /// Gives a block that was never used the contents and the wear of another.
    ///
    /// # Panics
    /// If the block has been used.
    fn restore_block(&mut self, block: u32, copy: &BlockCopy) -> Result<(), MediaError>;

    /// Makes all that was programmed, erased and logged survive a crash of the host machine too.
    fn sync(&mut self) -> Result<(), MediaError>;

    /// Begins what [`Media::sync`] does, of all that was done so far. `None` says that it is done;
    /// else [`Media::end_sync`] is to be called once it is.
    fn begin_sync(&mut self) -> Result<Option<Syncing>, MediaError> {
        self.sync().map(|()| None)
    }

    /// Takes note of a sync that is done; waits for it if it is not.
    fn end_sync(&mut self, _: &Syncing) -> Result<(), MediaError> {
        Ok(())
    }

    /// All that the next erase of this block relies on has been synced.
    fn cover_erase(&mut self, _: u32) {}

    /// Sees to it that an erased block can be programmed where the image's file system gives out
    /// room as it is written; false if it has none left.
    fn reserve(&mut self, _: u32) -> bool {
        true
    }

    /// Adds a record to the log. It survives a power cut now.
    fn log_append(&mut self, record: &[u8]) -> Result<(), MediaError>;

    /// Puts these records in the place of the whole log: a cut leaves the old log or the new one.
    fn log_replace(&mut self, records: &[&[u8]]) -> Result<(), MediaError>;

    /// All records, oldest first. One that a cut tore is not among them, nor is any after it.
    fn log_read(&self) -> Result<Vec<Vec<u8>>, MediaError>;

    /// Bytes in the log, each record counted as [`log_record_bytes`].
    fn log_len(&self) -> u64;
}

/// Panics unless `ppn` is a page of `geometry` and `len` a page's bytes: both are checked before
/// every access, here and nowhere else.
#[inline]
fn assert_page(geometry: &CoreGeometry, ppn: u32, len: usize) {
    assert!(
        len == geometry.page_bytes as usize,
        "a buffer of {len} bytes is not a page"
    );
    assert!(
        ppn < geometry.pages(),
        "page {ppn} is beyond the core's {} pages",
        geometry.pages()
    );
}

/// Panics unless the block is as it was made.
fn assert_unused(media: &impl Media, block: u32) {
    assert!(
        media.erase_count(block) == 0 && media.written_pages(block) == 0,
        "block {block} has been used: nothing can be restored to it"
    );
}

/// Panics with the story of a program over data: no error, as no caller could act on it.
#[cold]
#[inline(never)]
fn panic_not_erased(ppn: u32, oob: Oob) -> ! {
    panic!(
        "program of page {ppn} for logical page {} without an erase",
        oob.lpn
    )
}
