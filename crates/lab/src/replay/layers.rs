//! A cache on drives before others that hold all data: how large the address spaces are that this takes.
//!
//! A flash cache may use addresses several times over, so that its drives have to show more than the drives behind
//! them have. Where nobody says what they show, they show what is needed.

use wharf_codec::Sizes;

use super::{RunError, Setup};
use crate::designs::DesignEntry;

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

impl Setup {
    /// Bytes that clients can address with any of `designs`.
    ///
    /// # Panics
    /// As [`Setup::volume_bytes`].
    pub fn addressable_bytes(&self, designs: &[&DesignEntry]) -> u64 {
        let home_bytes = self.volume_bytes();
        let of = |design: &&DesignEntry| design.addressable_bytes(self, home_bytes);
        designs.iter().map(of).min().unwrap_or(home_bytes)
    }

    /// What the workload's data compresses to, where pages are stamps: as the drives of the cache are told.
    pub(super) fn data_sizes(&self) -> Result<Sizes, RunError> {
        let told = &self.cache().drive.compression;
        let table = told.sizes.load();
        let table = table.map_err(|error| RunError::Memory(error.to_string()))?;
        Ok(Sizes::new(&table, told.sizes_seed))
    }

    /// Has the drives of the cache show what `designs` need, where their configuration does not say what they show.
    pub fn show_enough(&mut self, designs: &[&DesignEntry]) {
        let home_bytes = self.volume_bytes();
        let of = |design: &&DesignEntry| design.shown_bytes(self, home_bytes);
        let needed = designs.iter().map(of).max().unwrap_or(0);
        let cache = self.cache();
        let is_flash = cache.drive.as_disk().is_none();
        if !is_flash || cache.drive.ftl.shown_bytes > 0 || cache.volume_bytes() >= needed {
            return;
        }
        let columns = u64::from(cache.drives);
        let firmware = &cache.drive.firmware;
        let step = u64::from(firmware.stripe_pages) * u64::from(firmware.cores);
        let step = step.max(cache.spread.stripe_pages) * PAGE_BYTES;
        // A stripe more on each: whole stripes of all count.
        let shown = needed.div_ceil(columns).next_multiple_of(step) + 2 * step;
        self.cache_mut().drive.ftl.shown_bytes = shown;
    }
}

/// Refuses drives of a cache that show too little.
pub(super) fn check_shown(design: &str, setup: &Setup, needed_bytes: u64) -> Result<(), RunError> {
    let shown_bytes = setup.cache().volume_bytes();
    match shown_bytes < needed_bytes {
        true => Err(RunError::ShowTooLittle {
            design: design.into(),
            shown_bytes,
            needed_bytes,
            home_bytes: setup.volume_bytes(),
        }),
        false => Ok(()),
    }
}
