//! Feature 0Eh, timestamp: the host tells the drive what time it is, as NVM Express has it.
//!
//! Files have times. A drive has a clock that counts from power-up, and knows of no other until a host
//! sets this feature.

use crate::command::Command;
use crate::features::FeatureId;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The bits of [`Timestamp::attributes`] that say where the time is from, and their value for a host that set it.
const ORIGIN: u8 = 0b1110;
const SET_BY_HOST: u8 = 0b0010;

/// What a set takes from, and a get writes to, the memory that PRP1 names.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Timestamp {
    pub(crate) milliseconds: [u8; 6],
    pub(crate) attributes: u8,
    pub(crate) reserved: u8,
}

const _: () = assert!(size_of::<Timestamp>() == 8);

impl Timestamp {
    /// So many milliseconds since 1970, of which 48 bits are kept.
    pub fn of_milliseconds(milliseconds: u64) -> Timestamp {
        let mut timestamp = Timestamp::default();
        timestamp
            .milliseconds
            .copy_from_slice(&milliseconds.to_le_bytes()[..6]);
        timestamp
    }

    /// The same, set by a host and not counted from 0 at power-up.
    #[must_use]
    pub fn set_by_host(self) -> Timestamp {
        Timestamp {
            attributes: self.attributes & !ORIGIN | SET_BY_HOST,
            ..self
        }
    }

    /// Milliseconds since 1970; since power-up if no host has set it.
    pub fn milliseconds(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..6].copy_from_slice(&self.milliseconds);
        u64::from_le_bytes(bytes)
    }

    /// Whether a host has set it.
    pub fn is_set_by_host(&self) -> bool {
        self.attributes & ORIGIN == SET_BY_HOST
    }
}

impl Command {
    /// Sets the time to what the [`Timestamp`] at DMA address `at` says.
    pub const fn set_timestamp(at: u64) -> Command {
        Command::set_feature(FeatureId::Timestamp, 0).with_prp(at, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_comes_back_with_48_bits() {
        for milliseconds in [0, 1, 1_700_000_000_000, (1 << 48) - 1] {
            let timestamp = Timestamp::of_milliseconds(milliseconds);
            assert_eq!(timestamp.milliseconds(), milliseconds);
            assert!(!timestamp.is_set_by_host() && timestamp.set_by_host().is_set_by_host());
        }
        assert_eq!(Timestamp::of_milliseconds(1 << 48).milliseconds(), 0);
    }
}
