//! How much of the flash is used, and what may be written.
//!
//! Space is counted in *granules* of 64 bytes. A page takes 64 of them, or as many as it is compressed
//! to, or none if it is zeros. The
//! capacity is what the flash holds for the host: what is over-provisioned is not in it, so that
//! collection finds room whenever it is full. A write is refused if what it needs, less what it
//! frees, would go beyond: also one of a page that holds something. What the page held stays.
//!
//! At full, everything else goes on: deallocations take the log, whose checkpoint always fits, and
//! collection has blocks of its own. A share of the capacity can be kept for pages of *metadata*, the
//! last ones of the namespace, so that a host can write down what it gives up.

use wharf_wire::space::SpaceLevel;

use super::Ftl;
use super::write::Refusal;
use crate::config::CorePlan;
use crate::media::Media;

/// Bytes of a granule.
pub const GRANULE_BYTES: u32 = 64;

/// Granules of a page.
pub const PAGE_GRANULES: u64 = 64;

/// A core's space, in granules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// What may be used.
    pub capacity: u64,
    /// What is used.
    pub used: u64,
    /// What only metadata may use.
    pub reserved: u64,
    /// Garbage: programmed, needed by no page, not yet erased.
    pub garbage: u64,
}

impl CorePlan {
    /// Granules that pages may take.
    pub fn capacity_granules(&self) -> u64 {
        u64::from(self.capacity_pages) * PAGE_GRANULES
    }

    /// Of these, what pages other than metadata may take.
    pub fn open_granules(&self) -> u64 {
        u64::from(self.capacity_pages - self.reserved_pages) * PAGE_GRANULES
    }

    /// How full a core is by these thresholds, in percent of the capacity that any page may take.
    pub fn level_of(&self, used: u64, yellow: u8, red: u8) -> SpaceLevel {
        let open = self.open_granules();
        match used * 100 {
            _ if used + PAGE_GRANULES > open => SpaceLevel::Full,
            used if red > 0 && used >= open * u64::from(red) => SpaceLevel::Red,
            used if yellow > 0 && used >= open * u64::from(yellow) => SpaceLevel::Yellow,
            _ => SpaceLevel::Green,
        }
    }
}

impl Ftl {
    /// Refuses a write of a page that needs `needed` granules if they are not there.
    #[inline]
    pub(super) fn check_capacity(&self, lpn: u32, needed: u64) -> Result<(), Refusal> {
        if self.used_granules + needed <= self.open_granules {
            return Ok(());
        }
        let freed = self.granules_at(self.place(lpn));
        // A page that does not grow is let through whatever is used: at full, what is there can be written
        // anew.
        if needed <= freed {
            return Ok(());
        }
        let capacity = match lpn >= self.plan.metadata_first {
            true => self.plan.capacity_granules(),
            false => self.open_granules,
        };
        match self.used_granules + needed - freed > capacity {
            true => Err(Refusal::CapacityExceeded),
            false => Ok(()),
        }
    }

    /// The core's space now.
    pub fn space(&self) -> Space {
        let blocks = 0..self.plan.blocks;
        let written: u64 = blocks
            .map(|block| u64::from(self.media.written_slots(block)))
            .sum();
        let per_slot = u64::from(self.plan.weight_per_block / self.plan.slots_per_block);
        let valid: u64 = self
            .blocks
            .iter()
            .map(|(_, block)| u64::from(block.valid))
            .sum();
        Space {
            capacity: self.plan.capacity_granules(),
            used: self.used_granules,
            reserved: self.plan.capacity_granules() - self.open_granules,
            garbage: match self.packs() {
                false => (written - valid) * PAGE_GRANULES,
                // With the rests of units, which nothing is put into.
                true => written * per_slot - valid,
            },
        }
    }

    /// Granules that pages take.
    #[inline]
    pub fn used_granules(&self) -> u64 {
        self.used_granules
    }

    /// Bytes of memory that the map takes.
    pub fn map_bytes(&self) -> u64 {
        self.map.bytes()
    }
}
