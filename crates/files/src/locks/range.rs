//! Ranges of bytes.

/// Bytes of a file, both ends among them. A range whose last byte is `u64::MAX` goes to the end of the file, wherever
/// that will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockRange {
    first: u64,
    last: u64,
}

impl LockRange {
    /// All of a file.
    pub const ALL: LockRange = LockRange {
        first: 0,
        last: u64::MAX,
    };

    /// From byte `first` to byte `last`; `None` if they are the wrong way round.
    pub const fn new(first: u64, last: u64) -> Option<LockRange> {
        match first <= last {
            true => Some(LockRange { first, last }),
            false => None,
        }
    }

    /// One that is known to have a byte.
    pub(super) fn of(first: u64, last: u64) -> LockRange {
        debug_assert!(first <= last, "a range has a byte");
        LockRange { first, last }
    }

    /// The first byte.
    pub const fn first(self) -> u64 {
        self.first
    }

    /// The last byte.
    pub const fn last(self) -> u64 {
        self.last
    }

    /// Whether both have a byte in common.
    pub const fn meets(self, other: LockRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}
