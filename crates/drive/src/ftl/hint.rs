//! Bringing map entries near before the core that owns them looks.
//!
//! The map of a large drive lies in memory, and a look into it costs hundreds of nanoseconds. Whoever
//! passes a part on to a core knows the page already. A hint touches nothing: it is an address for
//! the processor to look at, and changes only how long the core will wait.

/// Where a core's map is.
#[derive(Debug, Clone, Copy)]
pub struct MapHint {
    start: usize,
    entries: usize,
}

impl MapHint {
    /// A hint at this map, or at another such table.
    pub fn new(map: &[u32]) -> MapHint {
        MapHint {
            start: map.as_ptr().addr(),
            entries: map.len(),
        }
    }

    /// Brings the entry of a logical page near.
    #[inline]
    pub fn prefetch(&self, lpn: u32) {
        if (lpn as usize) < self.entries {
            let address = self.start + lpn as usize * size_of::<u32>();
            #[cfg(target_arch = "x86_64")]
            {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                let pointer = std::ptr::without_provenance::<i8>(address);
                // SAFETY: SSE, which has the instruction, is part of x86-64. It reads nothing and
                // never faults, even when the map is gone.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(pointer) };
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = address;
        }
    }
}
