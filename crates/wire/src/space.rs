//! Space on the drive: how much of the flash is used. Log page C2h, the levels that completions
//! carry, and the value of the feature with the thresholds.
//!
//! A drive may show more than it holds. What it holds is counted in *granules*, since pages may take
//! less than their size. A host that fills such a drive has to know how much is left, and early:
//! by levels in completions (no command at all), by an event, or by the page.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::bits::{bit_fields, wire_enum};

wire_enum! {
    /// How full the drive is: of its cores, the fullest.
    pub enum SpaceLevel: u8 {
        /// Below both thresholds, or there are none.
        Green = 0 => "green",
        /// The first threshold is reached.
        Yellow = 1 => "yellow",
        /// The second threshold is reached.
        Red = 2 => "red",
        /// A page that is not on flash can no longer be written.
        Full = 3 => "full",
    }
}

bit_fields! {
    /// Value of the space thresholds feature.
    mod space_fields {
        YELLOW = 11 [6:0];
        RED = 11 [14:8];
        TELL = 11 [16:16];
        EVENTS = 11 [17:17];
    }
}

/// Feature C0h: when space runs low, and how the host is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceThresholds {
    /// Percent of the capacity from which on the level is yellow, up to 127; 0 is never.
    pub yellow_percent: u8,
    /// Percent from which on it is red; 0 is never.
    pub red_percent: u8,
    /// Completions of I/O commands carry the level.
    pub in_completions: bool,
    /// A change of the level completes an async event request.
    pub as_events: bool,
}

impl SpaceThresholds {
    /// Reads the feature's value; every value has a meaning.
    pub const fn from_value(value: u32) -> SpaceThresholds {
        SpaceThresholds {
            yellow_percent: space_fields::YELLOW.get(value) as u8,
            red_percent: space_fields::RED.get(value) as u8,
            in_completions: space_fields::TELL.get(value) != 0,
            as_events: space_fields::EVENTS.get(value) != 0,
        }
    }

    /// The feature's value.
    ///
    /// # Panics
    /// If a threshold is above 127.
    pub const fn to_value(self) -> u32 {
        let value = space_fields::YELLOW.put(0, self.yellow_percent as u32);
        let value = space_fields::RED.put(value, self.red_percent as u32);
        let value = space_fields::TELL.put(value, self.in_completions as u32);
        space_fields::EVENTS.put(value, self.as_events as u32)
    }
}

/// Log page C2h: the drive's space. All but the first three fields are sums over its cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SpacePage {
    /// Version of this structure: [`SpacePage::VERSION`].
    pub version: u32,
    /// Bytes of a granule.
    pub granule_bytes: u32,
    /// The level ([`SpaceLevel`]).
    pub level: u8,
    /// Percent of the capacity from which on it is yellow; 0 is never.
    pub yellow_percent: u8,
    /// Percent from which on it is red; 0 is never.
    pub red_percent: u8,
    pub(crate) reserved1: [u8; 5],
    /// Granules that may be used.
    pub capacity: u64,
    /// Granules in use.
    pub used: u64,
    /// Granules of the capacity that only metadata may use.
    pub metadata_reserve: u64,
    /// Granules of garbage: overwritten or deallocated, and not collected.
    pub garbage: u64,
    /// Logical pages that are allocated.
    pub allocated_pages: u64,
    /// Bytes of drive memory that the map takes.
    pub map_bytes: u64,
    pub(crate) reserved2: [u64; 8],
}

const _: () = assert!(size_of::<SpacePage>() == 128);

impl SpacePage {
    /// The version that this crate writes and reads.
    pub const VERSION: u32 = 1;

    /// A page without space, for the drive to fill.
    pub fn new(granule_bytes: u32) -> SpacePage {
        SpacePage {
            version: SpacePage::VERSION,
            granule_bytes,
            ..FromZeros::new_zeroed()
        }
    }

    /// The level; what is not known counts as full.
    pub fn space_level(&self) -> SpaceLevel {
        SpaceLevel::from_raw(self.level).unwrap_or(SpaceLevel::Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_come_back_from_their_value() {
        for yellow_percent in [0, 1, 80, 127] {
            for (in_completions, as_events) in [(false, true), (true, false)] {
                let thresholds = SpaceThresholds {
                    yellow_percent,
                    red_percent: 127 - yellow_percent,
                    in_completions,
                    as_events,
                };
                assert_eq!(
                    SpaceThresholds::from_value(thresholds.to_value()),
                    thresholds
                );
            }
        }
        assert_eq!(SpaceThresholds::from_value(0), SpaceThresholds::default());
    }

    #[test]
    fn an_unknown_level_is_taken_for_full() {
        let mut page = SpacePage::new(64);
        assert_eq!(page.space_level(), SpaceLevel::Green);
        page.level = 9;
        assert_eq!(page.space_level(), SpaceLevel::Full);
    }
}
