//! What the drive does at an address: whole pages, words of lists, bytes of structures.

use std::ptr::NonNull;

use super::{DmaFault, DmaSpace, GUEST_SHIFT, HostPage, PAGE_BYTES, of_guest};
use crate::host_memory::{FrameTable, frame_table_pages};

impl DmaSpace {
    /// The page of data at `address`.
    #[inline]
    pub fn page(&self, address: u64) -> Result<HostPage<'_>, DmaFault> {
        let (memory, offset) = self.resolve(address)?;
        if memory.stride != self.page_bytes || !offset.is_multiple_of(PAGE_BYTES) {
            return Err(DmaFault(address));
        }
        Ok(HostPage::new(memory, offset / PAGE_BYTES))
    }

    /// The frame table for `frames` frames at `address`, in a region of whole pages.
    ///
    /// # Errors
    /// If the table does not lie within one region.
    pub fn frame_table(&self, address: u64, frames: usize) -> Result<FrameTable, DmaFault> {
        let (memory, offset) = self.resolve(address)?;
        let first = offset / PAGE_BYTES;
        let fits = first + frame_table_pages(frames) <= memory.pages;
        if memory.stride != PAGE_BYTES || !offset.is_multiple_of(PAGE_BYTES) || !fits || frames == 0
        {
            return Err(DmaFault(address));
        }
        let start = NonNull::new(memory.pointer(first)).expect("a mapping is not at address 0");
        // SAFETY: the pages lie inside the region, which the view keeps; regions begin as zeros,
        // and the lender uses these pages for nothing else, as the command set asks.
        Ok(unsafe { FrameTable::new(start, frames, memory.clone()) })
    }

    /// Checks that `pages` pages of data lie at `address` and after it, in one region.
    ///
    /// # Errors
    /// The first address that does not.
    pub fn check_pages(&self, address: u64, pages: usize) -> Result<(), DmaFault> {
        let (memory, offset) = self.resolve(address)?;
        let first = offset / PAGE_BYTES;
        let is_data = memory.stride == self.page_bytes && offset.is_multiple_of(PAGE_BYTES);
        match is_data && first + pages <= memory.pages {
            true => Ok(()),
            false => Err(DmaFault(address)),
        }
    }

    /// A pointer to `len` bytes from `address` on, within one page of a region of whole pages.
    #[inline]
    fn whole_pointer(&self, address: u64, len: usize) -> Result<*mut u8, DmaFault> {
        let (memory, offset) = self.resolve(address)?;
        let within = offset % PAGE_BYTES;
        if memory.stride != PAGE_BYTES || within + len > PAGE_BYTES {
            return Err(DmaFault(address));
        }
        // SAFETY: within a page of the mapping.
        Ok(unsafe { memory.pointer(offset / PAGE_BYTES).add(within) })
    }

    /// A pointer to the 64-bit word at `address`, a multiple of 8 in a region of whole pages.
    #[inline]
    pub(super) fn word_pointer(&self, address: u64) -> Result<*mut u64, DmaFault> {
        match address.is_multiple_of(8) {
            true => Ok(self.whole_pointer(address, 8)?.cast()),
            false => Err(DmaFault(address)),
        }
    }

    /// Writes the 64-bit word at `address` in a region of whole pages.
    ///
    /// # Safety
    /// The word is in a page named by a command in flight, and nobody else writes the word meanwhile.
    #[inline]
    pub unsafe fn write_u64(&self, address: u64, value: u64) -> Result<(), DmaFault> {
        let word = self.word_pointer(address)?;
        // SAFETY: an aligned word inside the mapping; exclusive by the caller's contract.
        unsafe { word.write(value) };
        Ok(())
    }

    /// The entry of a PRP list at `address`: an address of whoever wrote the list.
    ///
    /// # Errors
    /// As [`DmaSpace::read_u64`].
    #[inline]
    pub fn read_prp(&self, address: u64) -> Result<u64, DmaFault> {
        let entry = self.read_u64(address)?;
        Ok(match (address >> GUEST_SHIFT) as u32 {
            0 => entry,
            guest => of_guest(guest - 1, entry),
        })
    }

    /// The 64-bit word at `address` in a region of whole pages.
    #[inline]
    pub fn read_u64(&self, address: u64) -> Result<u64, DmaFault> {
        let word = self.word_pointer(address)?;
        // SAFETY: an aligned word inside the mapping. List pages are written by the host before
        // the doorbell of the command that names them, and not again before its completion. Volatile:
        // a guest may not keep to that, and what is checked must be what is used.
        Ok(unsafe { word.read_volatile() })
    }

    /// Copies `bytes` to `address` on, within one page of a region of whole pages.
    ///
    /// # Safety
    /// As for [`HostPage::copy_in`].
    pub unsafe fn write_bytes(&self, address: u64, bytes: &[u8]) -> Result<(), DmaFault> {
        let start = self.whole_pointer(address, bytes.len())?;
        // SAFETY: inside one page of the mapping; exclusive by the caller's contract.
        unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Copies bytes from `address` on, within one page of a region of whole pages.
    ///
    /// # Safety
    /// As for [`HostPage::copy_out`].
    pub unsafe fn read_bytes(&self, address: u64, out: &mut [u8]) -> Result<(), DmaFault> {
        let start = self.whole_pointer(address, out.len())?;
        // SAFETY: inside one page of the mapping; exclusive by the caller's contract.
        unsafe { start.copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
        Ok(())
    }
}
