//! Where a host keeps the locks that it grants itself under a lease of a file's locks: a part of its memory that the drive takes
//! them from.
//!
//! | pages | what |
//! |---|---|
//! | 0 | words: of each of 64 places the lease, then of each the state |
//! | 1 to 64 | of each place twice 64 locks of 32 bytes |
//!
//! The words lie as those of a [write area](super::write_area), with the state where that has a size, and are used in the same way:
//!
//! 1. The drive puts the locks that the host has on side 0, has the state name them, and writes a lease's number to the word of its place;
//!    and 0 before anybody else may have a lock of the file.
//! 2. To change what it has, the host swaps [`BUSY`] into the state, and looks at the lease. If that lasts, it puts all locks
//!    that it has of the file then on the side that the state does not name, and exchanges the busy state for one that names it: by that
//!    the change has taken effect. If either is not so, it has not, and the host sends a command.
//! 3. To take, the drive swaps 0 into the lease, and waits until the state is not busy; if it is for too long, it makes it so.
//!    Then it gives the host those locks that the state names.
//!
//! A change of which the drive hears nothing leaves the side alone that the state names. What a host writes there is looked at once,
//! and means locks that it could have had by commands.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::write_area;
use crate::dma::PAGE_BYTES;

pub use super::write_area::{
    BUSY, PLACES, Words, begin, cut_short, end, is_still, lease_word, size_word as state_word, stop,
};

/// Locks of a file that a host can grant itself at a time. Ranges that touch and are of one owner and kind are one.
pub const LOCKS: usize = 64;

/// Pages of an area.
pub const AREA_PAGES: usize = 1 + PLACES;

const LOCK_BYTES: usize = size_of::<OwnLock>();
const _: () = assert!(2 * LOCKS * LOCK_BYTES == PAGE_BYTES);
const _: () = assert!(write_area::size_word(PLACES) <= PAGE_BYTES / size_of::<u64>());

/// A lock that a host has granted itself.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct OwnLock {
    /// The first byte.
    pub first: u64,
    /// The last byte; all bits set: to the end of the file, wherever that is.
    pub last: u64,
    /// The owner.
    pub owner: u64,
    /// A [`LockState`](super::LockState).
    pub state: u16,
    /// 1 if it is a whole-file lock.
    pub whole_file: u16,
    /// 0.
    pub reserved: u32,
}

/// The byte where the locks of a side of a place begin; they lie side by side.
pub const fn locks_at(place: usize, side: usize) -> usize {
    (1 + place) * PAGE_BYTES + (side & 1) * (PAGE_BYTES / 2)
}

/// What a state says that is not busy: which side of the place has the locks, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// 0 or 1.
    pub side: usize,
    /// At most [`LOCKS`].
    pub locks: usize,
}

impl Told {
    /// The bit that a state has which names a side.
    const NAMED: u64 = 1 << 17;

    /// What a state says; none if it says what no host may say.
    #[inline]
    pub const fn from_raw(raw: u64) -> Option<Told> {
        let told = Told {
            side: (raw >> 16 & 1) as usize,
            locks: (raw & 0xffff) as usize,
        };
        match told.locks <= LOCKS && told.raw() == raw {
            true => Some(told),
            false => None,
        }
    }

    /// The state; never 0.
    #[inline]
    pub const fn raw(self) -> u64 {
        Told::NAMED | (self.side as u64) << 16 | self.locks as u64
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_a_state_says_comes_back() {
        for side in [0, 1] {
            for locks in [0, 1, LOCKS] {
                let told = Told { side, locks };
                assert_eq!(Told::from_raw(told.raw()), Some(told));
                for raw in [told.raw() | BUSY, told.raw() & !Told::NAMED] {
                    assert_eq!(Told::from_raw(raw), None, "{raw:#x}");
                }
            }
        }
        let many = Told { side: 0, locks: 65 };
        for raw in [0, many.raw(), 1 << 18 | many.raw(), u64::MAX] {
            assert_eq!(Told::from_raw(raw), None, "{raw:#x}");
        }
    }

    #[test]
    fn sides_do_not_overlap() {
        assert_eq!(locks_at(0, 0), PAGE_BYTES);
        assert_eq!(locks_at(0, 1), locks_at(0, 0) + LOCKS * LOCK_BYTES);
        assert_eq!(locks_at(1, 0), locks_at(0, 1) + LOCKS * LOCK_BYTES);
        assert_eq!(locks_at(PLACES, 0), AREA_PAGES * PAGE_BYTES);
    }
}
