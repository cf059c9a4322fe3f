//! Features: settings of the controller, read by get features and changed by set features.
//!
//! Each but the timestamp has a 32-bit value: CDW11 of a set, dword 0 of the completion of a get. The types here
//! turn values into what they mean and back. Reserved bits are ignored in a set and zero in a
//! get.

use crate::bits::{bit_fields, wire_enum};
use crate::status::StatusCode;

wire_enum! {
    /// The features there are.
    pub enum FeatureId: u8 {
        /// How many commands are taken from one submission queue before the next one's turn.
        Arbitration = 0x01 => "arbitration",
        /// Whether a completed write may still be lost at a power cut.
        VolatileWriteCache = 0x06 => "volatile write cache",
        /// How many I/O queues the host may create.
        NumberOfQueues = 0x07 => "number of queues",
        /// Memory that the host lends to the drive; see [`crate::host_memory`].
        HostMemory = 0x0d => "host memory",
        /// What time it is; see [`crate::timestamp`].
        Timestamp = 0x0e => "timestamp",
        /// When space runs low, and how the host is told; see [`crate::space`].
        SpaceThresholds = 0xc0 => "space thresholds",
    }
}

bit_fields! {
    /// Value of the arbitration feature.
    mod arbitration_fields {
        AB = 11 [2:0];
        LPW = 11 [15:8];
        MPW = 11 [23:16];
        HPW = 11 [31:24];
    }
}

bit_fields! {
    /// Value of the volatile write cache feature.
    mod write_cache_fields {
        WCE = 11 [0:0];
    }
}

bit_fields! {
    /// Value of the number of queues feature, in a set and in its completion alike.
    mod number_of_queues_fields {
        NSQ = 11 [15:0];
        NCQ = 11 [31:16];
    }
}

bit_fields! {
    /// What get features says with SEL = 3.
    mod capability_fields {
        SAVEABLE = 0 [0:0];
        NAMESPACE_SPECIFIC = 0 [1:1];
        CHANGEABLE = 0 [2:2];
    }
}

/// The completion's dword 0 for [`FeatureSelect::Capabilities`](crate::admin::FeatureSelect):
/// bit 0 saveable, bit 1 of a namespace, bit 2 changeable.
pub const fn capabilities(saveable: bool, namespace_specific: bool, changeable: bool) -> u32 {
    let value = capability_fields::SAVEABLE.put(0, saveable as u32);
    let value = capability_fields::NAMESPACE_SPECIFIC.put(value, namespace_specific as u32);
    capability_fields::CHANGEABLE.put(value, changeable as u32)
}

/// Feature 01h: arbitration between submission queues.
///
/// The drive goes round its queues and takes up to a burst from each. The weights belong to an
/// arbitration (weighted round robin) that the drive does not offer: it keeps them and
/// returns them, and they change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arbitration {
    /// Base-2 logarithm of the burst, 0..=6; 7 stands for no limit.
    pub burst_log2: u8,
    /// Weight of low-priority queues, 0-based.
    pub low_weight: u8,
    /// Weight of medium-priority queues, 0-based.
    pub medium_weight: u8,
    /// Weight of high-priority queues, 0-based.
    pub high_weight: u8,
}

impl Arbitration {
    /// The value of [`Arbitration::burst_log2`] that stands for no limit.
    pub const UNLIMITED: u8 = 7;

    /// Reads the feature's value; every value has a meaning.
    pub const fn from_value(value: u32) -> Arbitration {
        Arbitration {
            burst_log2: arbitration_fields::AB.get(value) as u8,
            low_weight: arbitration_fields::LPW.get(value) as u8,
            medium_weight: arbitration_fields::MPW.get(value) as u8,
            high_weight: arbitration_fields::HPW.get(value) as u8,
        }
    }

    /// The feature's value.
    ///
    /// # Panics
    /// If `burst_log2` is above 7.
    pub const fn to_value(self) -> u32 {
        let value = arbitration_fields::AB.put(0, self.burst_log2 as u32);
        let value = arbitration_fields::LPW.put(value, self.low_weight as u32);
        let value = arbitration_fields::MPW.put(value, self.medium_weight as u32);
        arbitration_fields::HPW.put(value, self.high_weight as u32)
    }

    /// The most commands taken from one queue in a turn (1..=64), or `None` for no limit.
    pub const fn burst(self) -> Option<u32> {
        if self.burst_log2 >= Arbitration::UNLIMITED {
            None
        } else {
            Some(1 << self.burst_log2)
        }
    }
}

/// Feature 06h: the volatile write cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolatileWriteCache {
    /// On: a write is durable after the next flush. Off: once it completes, as if with FUA.
    pub enabled: bool,
}

impl VolatileWriteCache {
    /// Reads the feature's value.
    pub const fn from_value(value: u32) -> VolatileWriteCache {
        VolatileWriteCache {
            enabled: write_cache_fields::WCE.get(value) != 0,
        }
    }

    /// The feature's value.
    pub const fn to_value(self) -> u32 {
        write_cache_fields::WCE.put(0, self.enabled as u32)
    }
}

/// Feature 07h: how many I/O queues of each kind, counted from 1.
///
/// In a set it is what the host would like; in the completion of a set or a get it is what the
/// drive allots, which may be less or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberOfQueues {
    /// Submission queues, 1..=65535.
    pub submission: u32,
    /// Completion queues, 1..=65535.
    pub completion: u32,
}

impl NumberOfQueues {
    /// Reads the feature's value.
    ///
    /// # Errors
    /// [`StatusCode::InvalidField`] for FFFFh in either half: identifiers go from 1 to 65535,
    /// so 65536 queues cannot be.
    pub const fn from_value(value: u32) -> Result<NumberOfQueues, StatusCode> {
        let submission = number_of_queues_fields::NSQ.get(value);
        let completion = number_of_queues_fields::NCQ.get(value);
        if submission == 0xffff || completion == 0xffff {
            return Err(StatusCode::InvalidField);
        }
        Ok(NumberOfQueues {
            submission: submission + 1,
            completion: completion + 1,
        })
    }

    /// The feature's value.
    ///
    /// # Panics
    /// If either count is not in 1..=65535.
    pub const fn to_value(self) -> u32 {
        assert!(
            self.submission > 0 && self.submission < 65536,
            "1 to 65535 submission queues"
        );
        assert!(
            self.completion > 0 && self.completion < 65536,
            "1 to 65535 completion queues"
        );
        let value = number_of_queues_fields::NSQ.put(0, self.submission - 1);
        number_of_queues_fields::NCQ.put(value, self.completion - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arbitration_round_trips_and_its_burst_is_a_power_of_two() {
        for burst_log2 in 0..=7 {
            let setting = Arbitration {
                burst_log2,
                low_weight: 1,
                medium_weight: 2,
                high_weight: 255,
            };
            assert_eq!(Arbitration::from_value(setting.to_value()), setting);
            let burst = (burst_log2 < 7).then(|| 2_u32.pow(burst_log2.into()));
            assert_eq!(setting.burst(), burst);
        }
        let value = 0x0302_01fa;
        let setting = Arbitration::from_value(value);
        assert_eq!((setting.burst_log2, setting.low_weight), (2, 1));
        assert_eq!((setting.medium_weight, setting.high_weight), (2, 3));
        assert_eq!(
            setting.to_value(),
            value & !0xf8,
            "reserved bits are dropped"
        );
    }

    #[test]
    fn write_cache_is_its_lowest_bit() {
        assert!(VolatileWriteCache::from_value(0xffff_ffff).enabled);
        assert!(!VolatileWriteCache::from_value(0xffff_fffe).enabled);
        for enabled in [false, true] {
            assert_eq!(
                VolatileWriteCache { enabled }.to_value(),
                u32::from(enabled)
            );
        }
    }

    #[test]
    fn queues_are_counted_from_one() {
        let asked = NumberOfQueues {
            submission: 1,
            completion: 65535,
        };
        assert_eq!(asked.to_value(), 0xfffe_0000);
        assert_eq!(NumberOfQueues::from_value(asked.to_value()), Ok(asked));
        for value in [0xffff, 0xffff_0000, u32::MAX] {
            assert_eq!(
                NumberOfQueues::from_value(value),
                Err(StatusCode::InvalidField)
            );
        }
    }

    #[test]
    #[should_panic(expected = "submission queues")]
    fn no_queues_cannot_be_said() {
        NumberOfQueues {
            submission: 0,
            completion: 1,
        }
        .to_value();
    }

    #[test]
    fn capabilities_have_a_bit_each() {
        assert_eq!(capabilities(true, false, false), 1);
        assert_eq!(capabilities(false, true, false), 2);
        assert_eq!(capabilities(false, false, true), 4);
    }
}
