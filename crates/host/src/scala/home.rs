//! Where a page belongs: its drive, and the firmware core that keeps it.

use crate::volume::{Layout, Volume};

/// Which firmware core of which drive each page belongs to.
#[derive(Debug, Clone, Copy)]
pub struct SetMap {
    layout: Layout,
    cores: u32,
    core_stripe_pages: u32,
}

/// Where a page of the volume belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home {
    /// The drive.
    pub drive: usize,
    /// The page on the drive.
    pub lba: u64,
    /// The firmware core.
    pub core: u32,
}

impl SetMap {
    /// The map for a volume whose drives are alike.
    pub fn new(volume: &Volume) -> SetMap {
        let config = volume.drivers()[0].config();
        SetMap {
            layout: *volume.layout(),
            cores: config.cores,
            core_stripe_pages: config.core_stripe_pages,
        }
    }

    /// Firmware cores of each drive.
    pub fn cores(&self) -> u32 {
        self.cores
    }

    /// Where a page belongs.
    #[inline]
    pub fn home(&self, page: u64) -> Home {
        let (drive, lba) = self.layout.locate(page);
        let stripe = lba / u64::from(self.core_stripe_pages);
        let core = (stripe % u64::from(self.cores)) as u32;
        Home { drive, lba, core }
    }

    /// The number of the set of slots, or of frames, that a home has.
    #[inline]
    pub fn set(&self, home: &Home) -> u32 {
        home.drive as u32 * self.cores + home.core
    }

    /// The drive of a page.
    #[inline]
    pub fn drive(&self, page: u64) -> usize {
        self.layout.locate(page).0
    }
}
