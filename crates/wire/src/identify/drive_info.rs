//! What is particular to a Wharf drive.

use crate::bits::wire_enum;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

wire_enum! {
    /// What a Wharf drive may do beyond an ordinary SSD, by bit number in
    /// [`DriveInfo::features`]. A drive of version 1 has none of them.
    pub enum DriveFeature: u8 {
        /// Completions carry the state of garbage collection.
        GcState = 0 => "gc-state",
        /// Pages are pinned in memory that the host lends.
        Pin = 1 => "pin",
        /// Pages are compressed on the way to the media.
        Compression = 2 => "compression",
        /// The drive's own memory caches pages as the host says.
        DeviceCache = 3 => "device-cache",
        /// The drive computes on its data.
        Compute = 4 => "compute",
        /// File systems run in the drive.
        FileSystem = 5 => "file-system",
    }
}

/// Bits of [`DriveFeature`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(transparent)]
pub struct FeatureSet(pub u64);

impl FeatureSet {
    /// Whether `feature` is on.
    pub const fn contains(self, feature: DriveFeature) -> bool {
        self.0 & 1 << feature.raw() != 0
    }

    /// The set with `feature` on.
    #[must_use]
    pub const fn with(self, feature: DriveFeature) -> FeatureSet {
        FeatureSet(self.0 | 1 << feature.raw())
    }

    /// The features that are on. Bits without a name are skipped.
    pub fn iter(self) -> impl Iterator<Item = DriveFeature> {
        DriveFeature::ALL
            .iter()
            .copied()
            .filter(move |&feature| self.contains(feature))
    }
}

/// What is particular to a Wharf drive: bytes 3072..4096 of the identify controller data.
///
/// Later versions only add fields where now is `reserved`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DriveInfo {
    /// [`DriveInfo::SIGNATURE`].
    pub signature: [u8; 8],
    /// Version of this structure: [`DriveInfo::VERSION`].
    pub version: u16,
    /// Firmware cores; stripes are dealt out to them in turn.
    pub firmware_cores: u16,
    /// Pages of a stripe, the unit in which pages are dealt out to cores.
    pub stripe_pages: u32,
    /// Features that are on.
    pub features: FeatureSet,
    /// Most entries of a queue.
    pub queue_entries_max: u32,
    /// Flash channels.
    pub channels: u16,
    /// Flash dies, over all channels.
    pub dies: u16,
    /// Pages of an erase block.
    pub block_pages: u32,
    pub(crate) reserved_36: [u8; 4],
    /// Pages of flash, over-provisioning included.
    pub physical_pages: u64,
    /// File systems that can run in the drive: bit *n* for the one of number *n* (see `docs/files.md`).
    pub file_systems: u64,
    /// Files that can be open at a time.
    pub file_handles_max: u32,
    pub(crate) reserved_60: [u8; 964],
}

const _: () = assert!(size_of::<DriveInfo>() == 1024);

impl DriveInfo {
    /// Marks the structure.
    pub const SIGNATURE: [u8; 8] = *b"WHARFCSD";

    /// The version that this crate writes.
    pub const VERSION: u16 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_bits_with_names() {
        let set = FeatureSet::default()
            .with(DriveFeature::Pin)
            .with(DriveFeature::Compute);
        assert_eq!(set.0, 0b1_0010);
        assert!(set.contains(DriveFeature::Pin) && !set.contains(DriveFeature::GcState));
        let names: Vec<_> = FeatureSet(set.0 | 1 << 63)
            .iter()
            .map(|f| f.text())
            .collect();
        assert_eq!(names, ["pin", "compute"]);
    }
}
