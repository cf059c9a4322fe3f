//! Memory lent to a drive: frames, their table, and the descriptors that name both.

use std::sync::Arc;

use wharf_wire::dma::{DmaRegion, DmaSpace, RegisterError};
use wharf_wire::host_memory::{HostMemoryDescriptor, frame_table_pages};
use zerocopy::IntoBytes;

/// What the drive is told of the memory that it is lent. The memory itself stays its owner's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HmbMemory {
    /// Frames, over all chunks.
    pub frames: u32,
    /// DMA address of the list of descriptors.
    pub list: u64,
    /// Descriptors in it.
    pub entries: u32,
}

/// Frames and frame table of one drive, and the list of the one chunk that they are.
pub struct HmbFrames {
    /// The frames: pages of data.
    pub frames: DmaRegion,
    /// The pages of the frame table.
    pub table: DmaRegion,
    /// What the drive is told, with the page where that stands; nothing where another process lends.
    told: Option<(HmbMemory, DmaRegion)>,
}

impl HmbFrames {
    /// Makes `frames` frames to lend, all zeros. The drive calls them by `0`, `4096`, ... .
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(space: &Arc<DmaSpace>, frames: u32) -> Result<HmbFrames, RegisterError> {
        let (count, frames) = (frames, space.register(frames as usize)?);
        let table = space.register_whole(frame_table_pages(count as usize))?;
        let list = space.register_whole(1)?;
        let descriptor = HostMemoryDescriptor::new(frames.address(0), count, 0, table.address(0));
        let bytes = descriptor.as_bytes();
        // SAFETY: the page is new: no command names it and nobody else has a reference.
        let page = unsafe { list.page_mut(0) };
        page[..bytes.len()].copy_from_slice(bytes);
        let told = HmbMemory {
            frames: count,
            list: list.address(0),
            entries: 1,
        };
        Ok(HmbFrames {
            frames,
            table,
            told: Some((told, list)),
        })
    }

    /// The same frames as another process sees them, which has lent them.
    pub fn attach(frames: DmaRegion, table: DmaRegion) -> HmbFrames {
        HmbFrames {
            frames,
            table,
            told: None,
        }
    }

    /// What the drive is to be told; nothing by a process that has not lent the frames.
    pub fn memory(&self) -> Option<HmbMemory> {
        self.told.as_ref().map(|(memory, _)| *memory)
    }
}
