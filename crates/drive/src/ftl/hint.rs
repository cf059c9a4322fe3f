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
            wharf_runtime::prefetch(std::ptr::without_provenance::<u32>(address));
        }
    }
}
