//! Copying the flash of a core from one media to another, of any kind: for images of prepared drives.
//!
//! Block by block, because a page at a time costs an image two system calls each.

use super::packed::unit::Content;
use super::{AnyMedia, Media, MediaError, Oob};

/// What a block holds. Reused from block to block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockCopy {
    /// Erases of the block.
    pub erase_count: u32,
    /// Out-of-band data of its pages up to the last that is written; `None` is erased, or lost in
    /// a crash before it was acknowledged.
    pub pages: Vec<Option<Oob>>,
    /// Data of those pages.
    pub data: Vec<u8>,
    /// Units with their extents, where there are units.
    pub units: Vec<UnitCopy>,
}

/// What a unit holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitCopy {
    /// The unit within its block.
    pub unit: u32,
    /// The number within the block of its first extent.
    pub first_extent: u32,
    /// Whose page each extent is, how it is kept, and what is kept.
    pub extents: Vec<(Oob, Content, Vec<u8>)>,
}

impl BlockCopy {
    /// Empties the copy and makes room for `pages` pages.
    pub(super) fn begin(&mut self, erase_count: u32, pages: usize, page_bytes: usize) {
        self.erase_count = erase_count;
        self.pages.clear();
        self.pages.resize(pages, None);
        self.units.clear();
        self.data.clear();
        self.data.resize(pages * page_bytes, 0);
    }

    /// The pages that hold something: number within the block, out-of-band data, data.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Oob, &[u8])> {
        let page_bytes = self.data.len() / self.pages.len().max(1);
        let pages = (0..)
            .zip(&self.pages)
            .zip(self.data.chunks_exact(page_bytes.max(1)));
        pages.filter_map(|((index, oob), data)| Some((index, (*oob)?, data)))
    }
}

/// Copies blocks and log to flash that was never used.
///
/// # Errors
/// A page that has rotted (nothing could stand for it in the copy), or what the machine that holds
/// an image refuses.
///
/// # Panics
/// If the two are of different shape.
pub fn copy_core(from: &AnyMedia, to: &mut AnyMedia) -> Result<(), MediaError> {
    assert_eq!(
        from.geometry(),
        to.geometry(),
        "a copy has the shape of the original"
    );
    let mut block_copy = BlockCopy::default();
    for block in 0..from.geometry().blocks {
        if from.erase_count(block) == 0 && from.written_slots(block) == 0 {
            continue;
        }
        from.copy_block(block, &mut block_copy)?;
        to.restore_block(block, &block_copy)?;
    }
    let log = from.log_read()?;
    let records: Vec<&[u8]> = log.iter().map(Vec::as_slice).collect();
    if !records.is_empty() {
        to.log_replace(&records)?;
    }
    to.sync()
}
