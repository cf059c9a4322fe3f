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
//! 4. An array of which little is used, scattered, asks for no huge pages ([`ZeroedSlab::sparse`]): one
//!    element that is touched would make 2 MiB resident. It can give memory back ([`ZeroedSlab::forget`]).

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use zerocopy::FromZeros;

/// Size and alignment of a transparent huge page on x86-64 and most AArch64 systems, bytes.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Size of the pages that memory is given back by, bytes: no system that this runs on has smaller ones, and where
/// they are larger nothing is given back.
const SMALL_PAGE_BYTES: usize = 4096;

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
        Self::map(what, len, HUGE_PAGE_BYTES)
    }

    /// The same in pages of the system's smallest size, however long it is: memory follows what is touched.
    pub fn sparse(what: &'static str, len: usize) -> Result<Self, SlabError> {
        let slab = Self::map(what, len, usize::MAX)?;
        let bytes = len * size_of::<T>();
        // Where huge pages are the rule, these have to be asked for.
        // SAFETY: the range lies within the mapping; the advice does not change its contents.
        let _ = unsafe {
            madvise(
                slab.elements.as_ptr().cast(),
                bytes,
                Advice::LinuxNoHugepage,
            )
        };
        Ok(slab)
    }

    /// Maps `len` elements, which ask for huge pages if they take `huge_from` bytes.
    fn map(what: &'static str, len: usize, huge_from: usize) -> Result<Self, SlabError> {
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
            bytes.max(1).checked_add(if bytes >= huge_from {
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
        let skip = match bytes >= huge_from {
            true => mapping.addr().next_multiple_of(HUGE_PAGE_BYTES) - mapping.addr(),
            false => 0,
        };
        // SAFETY: `skip` is below HUGE_PAGE_BYTES, by which the mapping was made longer.
        let elements = unsafe { mapping.byte_add(skip) };
        if bytes >= huge_from {
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

    /// Makes the elements of `range` zeros and gives the system the pages that lie wholly within it.
    ///
    /// # Panics
    /// If the range does not lie within the array.
    pub fn forget(&mut self, range: std::ops::Range<usize>) {
        let elements = &mut self[range];
        let bytes = size_of_val(elements);
        let start = elements.as_mut_ptr().addr();
        let whole_first = start.next_multiple_of(SMALL_PAGE_BYTES);
        let whole_end = (start + bytes) / SMALL_PAGE_BYTES * SMALL_PAGE_BYTES;
        let whole_bytes = whole_end.saturating_sub(whole_first);
        let at = elements.as_mut_ptr().with_addr(whole_first).cast();
        // SAFETY: the pages lie within the mapping, as the elements do, and `&mut self` makes this the only
        // reference to them; they read as zeros from now on, which is a valid `T`.
        let is_gone =
            whole_bytes > 0 && unsafe { madvise(at, whole_bytes, Advice::LinuxDontNeed) }.is_ok();
        for element in elements {
            let first = std::ptr::from_ref(element).addr();
            let inside = whole_first <= first && first + size_of::<T>() <= whole_end;
            if !(is_gone && inside) {
                element.zero();
            }
        }
    }

    /// Asks the processor to bring element `index` near, for a use a few hundred instructions on.
    ///
    /// An index beyond the end is ignored.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        if let Some(element) = self.get(index) {
            crate::prefetch(element);
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

    /// Bytes of a range of addresses that are resident.
    fn resident_bytes(slab: &ZeroedSlab<u64>) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let address = slab.mapping.addr().get() + slab.mapping_bytes / 2;
        let mut inside = false;
        for line in maps.lines() {
            let range = line
                .split(' ')
                .next()
                .and_then(|range| range.split_once('-'));
            let hex = |text| usize::from_str_radix(text, 16).ok();
            if let Some((Some(first), Some(end))) = range.map(|(a, b)| (hex(a), hex(b))) {
                inside = (first..end).contains(&address);
            } else if let (true, Some(rest)) = (inside, line.strip_prefix("Rss:")) {
                return rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024;
            }
        }
        panic!("no mapping holds the slab");
    }

    /// One element in each 256 KiB would make everything resident if there were huge pages.
    #[test]
    fn a_sparse_slab_takes_what_is_touched_and_gives_it_back() {
        const LEN: usize = 64 << 20;
        let mut slab = ZeroedSlab::<u64>::sparse("a test", LEN / 8).unwrap();
        (0..LEN / 8)
            .step_by(1 << 15)
            .for_each(|index| slab[index] = 7);
        let touched = resident_bytes(&slab);
        assert!((1 << 20..4 << 20).contains(&touched), "{touched} bytes");
        slab.forget(3..LEN / 16);
        assert!((3..LEN / 16).all(|index| slab[index] == 0));
        assert_eq!((slab[0], slab[LEN / 16]), (7, 7));
        slab.forget(0..LEN / 8);
        let left = resident_bytes(&slab);
        assert!(left <= 4096, "{left} bytes");
        slab.forget(5..5);
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
