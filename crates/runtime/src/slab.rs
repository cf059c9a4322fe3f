//! Big arrays that cost memory only where they are touched.
//!
//! A terabyte drive in stamp mode has a quarter of a billion pages; its page array must exist at
//! once, start as "everything erased", and cost nothing until it is written. An anonymous private
//! mapping does exactly that: the kernel hands out zeroed memory at the first touch.
//!
//! 1. The mapping is not reserved (`MAP_NORESERVE`), so that its virtual size may exceed the memory.
//! 2. From 2 MiB on it is aligned to huge pages and asks for them: random access to gigabytes of
//!    small entries is bound by TLB misses otherwise.
//! 3. All-zero bytes must be a valid `T` ([`FromZeros`]) and should mean "nothing here".

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use zerocopy::FromZeros;

/// Size and alignment of a transparent huge page on x86-64 and most AArch64 systems, bytes.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The system would not map an array of that size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot map {bytes} bytes of memory for {what}: {cause}; use a smaller cache, a smaller drive or stamp media"
)]
pub struct SlabError {
    /// What the array was for.
    pub what: &'static str,
    /// Bytes that were asked for (saturated where the size itself overflows).
    pub bytes: usize,
    /// What the system answered.
    pub cause: rustix::io::Errno,
}

/// A fixed-size array of `T`, zeroed, backed by memory only where it has been touched.
///
/// It dereferences to `[T]`. Elements are not dropped, so `T` must not need it.
pub struct ZeroedSlab<T> {
    elements: NonNull<T>,
    len: usize,
    mapping: NonNull<std::ffi::c_void>,
    mapping_bytes: usize,
}

impl<T: FromZeros> ZeroedSlab<T> {
    /// Maps `len` zeroed elements; `what` names the array in the error.
    pub fn new(what: &'static str, len: usize) -> Result<Self, SlabError> {
        const {
            assert!(
                !std::mem::needs_drop::<T>(),
                "a slab never drops its elements"
            );
            assert!(
                align_of::<T>() <= 4096,
                "a mapping is aligned to 4 KiB only"
            );
        }
        let bytes = len.checked_mul(size_of::<T>());
        // Room to move the start up to a huge page's boundary; never touched, so it costs nothing.
        let mapping_bytes = bytes.and_then(|bytes| {
            bytes.max(1).checked_add(if bytes >= HUGE_PAGE_BYTES {
                HUGE_PAGE_BYTES
            } else {
                0
            })
        });
        let (Some(bytes), Some(mapping_bytes)) = (bytes, mapping_bytes) else {
            return Err(SlabError {
                what,
                bytes: usize::MAX,
                cause: rustix::io::Errno::NOMEM,
            });
        };
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let mapping = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                mapping_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .map_err(|cause| SlabError { what, bytes, cause })?;
        let skip = match bytes >= HUGE_PAGE_BYTES {
            true => mapping.addr().next_multiple_of(HUGE_PAGE_BYTES) - mapping.addr(),
            false => 0,
        };
        // SAFETY: `skip` is below HUGE_PAGE_BYTES, by which the mapping was made longer.
        let elements = unsafe { mapping.byte_add(skip) };
        if bytes >= HUGE_PAGE_BYTES {
            // A hint: where the system has no huge pages, small ones do.
            // SAFETY: the range lies within the mapping; the advice does not change its contents.
            let _ = unsafe { madvise(elements, bytes, Advice::LinuxHugepage) };
        }
        Ok(Self {
            elements: NonNull::new(elements.cast()).expect("mmap never answers null"),
            len,
            mapping: NonNull::new(mapping).expect("mmap never answers null"),
            mapping_bytes,
        })
    }

    /// Asks the processor to bring element `index` near, for a use a few hundred instructions on.
    ///
    /// An index beyond the end is ignored.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        if let Some(element) = self.get(index) {
            #[cfg(target_arch = "x86_64")]
            {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                // SAFETY: SSE, which has the instruction, is part of x86-64; it never faults.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast()) };
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = element;
        }
    }
}

impl<T> Deref for ZeroedSlab<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `elements` starts `len` elements inside the mapping, which lives as long as
        // `self`; zeroed memory is a valid `T` (FromZeros, asked for by `new`).
        unsafe { std::slice::from_raw_parts(self.elements.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for ZeroedSlab<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.elements.as_ptr(), self.len) }
    }
}

impl<T> Drop for ZeroedSlab<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this size and nothing borrows it any more.
        // The call cannot fail for such a range, and a failure would only leak it.
        let _ = unsafe { munmap(self.mapping.as_ptr(), self.mapping_bytes) };
    }
}

impl<T> std::fmt::Debug for ZeroedSlab<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "ZeroedSlab<{}>[{}]",
            std::any::type_name::<T>(),
            self.len
        )
    }
}

// SAFETY: the slab owns its mapping as a Vec owns its buffer.
unsafe impl<T: Send> Send for ZeroedSlab<T> {}
// SAFETY: as above; shared references give out only `&T`.
unsafe impl<T: Sync> Sync for ZeroedSlab<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_slab_is_zero_and_keeps_what_is_written() {
        for len in [0, 1, 1000, HUGE_PAGE_BYTES / 8, HUGE_PAGE_BYTES / 8 + 1] {
            let mut slab = ZeroedSlab::<u64>::new("a test", len).unwrap();
            assert_eq!(slab.len(), len);
            assert!(slab.iter().all(|&element| element == 0));
            for (index, element) in slab.iter_mut().enumerate() {
                *element = index as u64 + 1;
            }
            slab.prefetch(0);
            slab.prefetch(len);
            assert!(
                slab.iter()
                    .enumerate()
                    .all(|(index, &element)| element == index as u64 + 1)
            );
        }
    }

    #[test]
    fn a_big_slab_is_aligned_to_huge_pages() {
        let slab = ZeroedSlab::<u64>::new("a test", HUGE_PAGE_BYTES).unwrap();
        assert_eq!(slab.as_ptr().addr() % HUGE_PAGE_BYTES, 0);
    }

    #[test]
    fn a_slab_beyond_all_memory_is_one_clear_line() {
        let error = ZeroedSlab::<u64>::new("the page array", usize::MAX / 16).unwrap_err();
        assert_eq!(error.what, "the page array");
        let line = error.to_string();
        assert!(
            line.contains("the page array") && !line.contains('\n'),
            "{line}"
        );
        assert!(ZeroedSlab::<u64>::new("a test", usize::MAX).is_err());
    }
}
