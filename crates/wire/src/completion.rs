//! The completion queue entry: 16 bytes in which the drive answers a command.

use crate::bits::bit_fields;
use crate::space::SpaceLevel;
use crate::status::Status;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

bit_fields! {
    /// The last word of an entry: phase and status.
    mod status_phase_word {
        PHASE = 0 [0:0];
        STATUS = 0 [15:1];
    }
}

bit_fields! {
    /// The second dword of I/O commands without a result, where the host has asked for levels.
    mod level_word {
        LEVEL = 1 [30:29];
    }
}

bit_fields! {
    /// The second dword.
    mod result_word {
        RESULT_HIGH = 1 [30:0];
        GC = 1 [31:31];
    }
}

/// A completion queue entry.
///
/// The phase bit is the low bit of the last word: a consumer that sees it change knows that
/// the whole entry is new, provided the producer writes that word last.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Completion {
    /// Result of the command; what it holds is said with each command.
    pub dw0: u32,
    /// Bit 31: the drive collects garbage. The rest is the high part of a result of 63 bits, or the level of
    /// space.
    pub dw1: u32,
    /// Head of the submission queue: entries before it may be used again.
    pub sqhd: u16,
    /// The submission queue that the command came on.
    pub sqid: u16,
    /// The command's identifier.
    pub cid: u16,
    /// Phase (bit 0) and status (bits 15:1); see [`Completion::status`].
    pub status_phase: u16,
}

const _: () = assert!(size_of::<Completion>() == 16);

impl Completion {
    /// The answer `status` to command `cid`. Queue, head and phase are for the queue to fill.
    #[inline]
    pub const fn new(cid: u16, status: Status) -> Completion {
        Completion {
            dw0: 0,
            dw1: 0,
            sqhd: 0,
            sqid: 0,
            cid,
            status_phase: status.bits() << status_phase_word::STATUS.low,
        }
    }

    /// The same entry with a result.
    #[must_use]
    #[inline]
    pub const fn with_result(mut self, dw0: u32) -> Completion {
        self.dw0 = dw0;
        self
    }

    /// The same entry with a result of up to 63 bits.
    ///
    /// # Panics
    /// If the result has more.
    #[must_use]
    #[inline]
    pub const fn with_wide_result(mut self, result: u64) -> Completion {
        self.dw0 = result as u32;
        self.dw1 = result_word::RESULT_HIGH.put(self.dw1, (result >> 32) as u32);
        self
    }

    /// The same entry with the state of the drive's garbage collection.
    #[must_use]
    #[inline]
    pub const fn with_gc_state(mut self, collects: bool) -> Completion {
        self.dw1 = result_word::GC.put(self.dw1, collects as u32);
        self
    }

    /// The result, of up to 63 bits.
    #[inline]
    pub const fn wide_result(&self) -> u64 {
        self.dw0 as u64 | (result_word::RESULT_HIGH.get(self.dw1) as u64) << 32
    }

    /// Whether the drive was collecting garbage when it completed the command.
    #[inline]
    pub const fn gc_state(&self) -> bool {
        result_word::GC.get(self.dw1) != 0
    }

    /// The same entry, of a command without a result, with the level of space.
    #[must_use]
    #[inline]
    pub const fn with_space_level(mut self, level: SpaceLevel) -> Completion {
        self.dw1 = level_word::LEVEL.put(self.dw1, level as u32);
        self
    }

    /// The level of space, of a command without a result that carries it.
    #[inline]
    pub const fn space_level(&self) -> SpaceLevel {
        match level_word::LEVEL.get(self.dw1) {
            0 => SpaceLevel::Green,
            1 => SpaceLevel::Yellow,
            2 => SpaceLevel::Red,
            _ => SpaceLevel::Full,
        }
    }

    /// The same entry with its submission queue and that queue's head.
    #[must_use]
    #[inline]
    pub const fn with_queue(mut self, sqid: u16, sqhd: u16) -> Completion {
        self.sqid = sqid;
        self.sqhd = sqhd;
        self
    }

    /// The same entry with the phase bit of the round of the ring it is written in.
    #[must_use]
    #[inline]
    pub const fn with_phase(mut self, phase: bool) -> Completion {
        self.status_phase =
            status_phase_word::PHASE.put(self.status_phase as u32, phase as u32) as u16;
        self
    }

    /// The phase bit.
    #[inline]
    pub const fn phase(&self) -> bool {
        status_phase_word::PHASE.get(self.status_phase as u32) != 0
    }

    /// The status.
    #[inline]
    pub const fn status(&self) -> Status {
        Status::from_bits(status_phase_word::STATUS.get(self.status_phase as u32) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::StatusCode;

    #[test]
    fn what_is_put_in_comes_out() {
        let status = Status::new(StatusCode::WriteFault).with_more();
        for phase in [false, true] {
            let entry = Completion::new(0xbeef, status)
                .with_phase(phase)
                .with_queue(3, 17)
                .with_result(0x1234_5678);
            assert_eq!(entry.cid, 0xbeef);
            assert_eq!(entry.phase(), phase);
            assert_eq!(entry.status(), status);
            assert_eq!((entry.sqid, entry.sqhd), (3, 17));
            assert_eq!((entry.dw0, entry.dw1), (0x1234_5678, 0));
        }
    }

    #[test]
    fn a_wide_result_leaves_the_state_of_collection_alone() {
        let result = u64::MAX >> 1;
        for collects in [false, true] {
            let entry = Completion::new(1, Status::SUCCESS)
                .with_wide_result(result)
                .with_gc_state(collects);
            assert_eq!((entry.wide_result(), entry.gc_state()), (result, collects));
            assert_eq!(entry.with_wide_result(7).wide_result(), 7);
        }
    }

    #[test]
    fn a_level_stands_beside_the_state_of_collection() {
        for level in SpaceLevel::ALL {
            let entry = Completion::new(1, Status::SUCCESS).with_gc_state(true);
            let entry = entry.with_space_level(*level);
            assert_eq!((entry.space_level(), entry.gc_state()), (*level, true));
        }
        let green = Completion::new(1, Status::SUCCESS).with_space_level(SpaceLevel::Green);
        assert_eq!(green.dw1, 0);
    }

    #[test]
    fn the_phase_bit_can_be_cleared_again() {
        let entry = Completion::new(1, Status::new(StatusCode::InvalidField)).with_phase(true);
        assert!(entry.phase());
        assert!(!entry.with_phase(false).phase());
        assert_eq!(entry.with_phase(false).status(), entry.status());
    }

    #[test]
    fn the_bytes_are_little_endian_and_in_place() {
        let entry = Completion::new(0x0a0b, Status::new(StatusCode::InvalidOpcode))
            .with_result(0x0102_0304)
            .with_queue(0x0506, 0x0708)
            .with_phase(true);
        let expected = [4, 3, 2, 1, 0, 0, 0, 0, 8, 7, 6, 5, 0x0b, 0x0a, 0x03, 0x80];
        assert_eq!(entry.as_bytes(), expected);
        assert_eq!(Completion::read_from_bytes(&expected).unwrap(), entry);
    }
}
