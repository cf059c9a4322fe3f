//! Memory aligned as O_DIRECT wants it.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Alignment of every [`AlignedBuffer`] in bytes: that of a page, which every device takes.
pub const BUFFER_ALIGN_BYTES: usize = 4096;

/// Owned bytes, zero at first, aligned to [`BUFFER_ALIGN_BYTES`].
#[derive(Debug)]
pub struct AlignedBuffer {
    pointer: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: it owns its memory, as a Vec does.
unsafe impl Send for AlignedBuffer {}
// SAFETY: shared access only reads, as with a Vec.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// A buffer of `len_bytes` zeros.
    pub fn new(len_bytes: usize) -> AlignedBuffer {
        let layout = layout(len_bytes);
        // SAFETY: the layout has a size above 0.
        let pointer = unsafe { alloc_zeroed(layout) };
        AlignedBuffer {
            pointer: NonNull::new(pointer).unwrap_or_else(|| handle_alloc_error(layout)),
            len_bytes,
        }
    }
}

fn layout(len_bytes: usize) -> Layout {
    Layout::from_size_align(len_bytes.max(1), BUFFER_ALIGN_BYTES).expect("a size that memory has")
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is owned, initialised and of this length.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.len_bytes) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len_bytes) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout and is freed once.
        unsafe { dealloc(self.pointer.as_ptr(), layout(self.len_bytes)) }
    }
}
