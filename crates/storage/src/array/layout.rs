//! Where a byte of the array lies on its members.
//!
//! Each member is: two superblocks (0, 4 KiB), the write-intent map (8 KiB), the journal, the data.
//! Data is striped by *chunks*; a *stripe* is the row of chunks at one place of all members. A *window* is
//! a slice of a stripe, 64 KiB of each chunk: what is locked, journalled and rebuilt at a time. Parity is
//! byte by byte, so a window is a small stripe of its own.
//!
//! RAID-5 is left-symmetric, as md's default: in stripe `s` of `n` members parity is on
//! `n - 1 - s % n`, and data chunk `k` on the `k + 1`-th member after it, around the end. RAID-10 is
//! pairs of neighbours, striped.

use crate::array::superblock::{MEMBERS_MAX, SUPERBLOCK_BYTES};

/// Where the write-intent map is on a member.
pub(super) const INTENT_OFFSET: u64 = 2 * SUPERBLOCK_BYTES;
/// Bytes of the write-intent map.
pub(super) const INTENT_BYTES: u64 = 4096;
/// Where the journal begins on a member.
const JOURNAL_OFFSET: u64 = 64 << 10;
/// Alignment of the data on a member.
const DATA_ALIGN_BYTES: u64 = 1 << 20;
/// The most bytes of a window on one member.
const WINDOW_BYTES_MAX: u64 = 64 << 10;
/// Bytes of a journal record's header: a block of every device.
pub(super) const HEADER_BYTES: u64 = 4096;
/// The largest chunk in bytes.
const CHUNK_BYTES_MAX: u64 = 64 << 20;

/// How data is spread over the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Striped: any member lost is all lost.
    Raid0,
    /// Striped with rotating parity: any one member may be lost.
    Raid5,
    /// Striped over pairs of mirrors: one of each pair may be lost.
    Raid10,
}

impl Level {
    /// 0, 5 or 10.
    pub fn number(self) -> u32 {
        match self {
            Level::Raid0 => 0,
            Level::Raid5 => 5,
            Level::Raid10 => 10,
        }
    }

    /// The level of a number.
    pub fn from_number(number: u32) -> Option<Level> {
        match number {
            0 => Some(Level::Raid0),
            5 => Some(Level::Raid5),
            10 => Some(Level::Raid10),
            _ => None,
        }
    }

    /// The fewest members.
    pub fn members_min(self) -> u32 {
        match self {
            Level::Raid0 | Level::Raid10 => 2,
            Level::Raid5 => 3,
        }
    }
}

/// What an array is like; fixed when it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// How data is spread.
    pub level: Level,
    /// How many members.
    pub members: u32,
    /// Bytes of a chunk, a power of two.
    pub chunk_bytes: u64,
    /// Bytes of data on each member, a multiple of the chunk.
    pub member_data_bytes: u64,
    /// Where data begins on each member.
    pub data_offset: u64,
    /// Where the journal begins on each member.
    pub journal_offset: u64,
    /// Records that the journal has room for.
    pub journal_slots: u32,
    /// The largest block of any member in bytes.
    pub block_bytes: u32,
}

/// Why an array cannot be made like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Too few, too many, or an odd number for pairs.
    #[error("level {level} with {members} members: it takes {min} to {max}{even}", max = MEMBERS_MAX)]
    Members {
        /// The level's number.
        level: u32,
        /// How many were given.
        members: u32,
        /// The fewest.
        min: u32,
        /// Says so if the number has to be even.
        even: &'static str,
    },
    /// The chunk cannot be so large.
    #[error(
        "chunk of {0} bytes: choose a power of two from 4096 to {CHUNK_BYTES_MAX}, and no less than the members' blocks"
    )]
    Chunk(u64),
    /// A member is too small.
    #[error(
        "the smallest member has {bytes} bytes, and {needed} are needed: take larger ones or a smaller journal"
    )]
    Small {
        /// Of the smallest member.
        bytes: u64,
        /// For superblocks, journal and one chunk.
        needed: u64,
    },
    /// The journal has no room, or no end.
    #[error("journal of {0} records: choose 2 to 65536")]
    Journal(u32),
    /// Offsets overlap or overflow.
    #[error("the areas of a member overlap")]
    Areas,
}

impl Shape {
    /// The shape of an array of `members` whose smallest has `member_bytes`.
    pub fn new(
        level: Level,
        members: u32,
        chunk_bytes: u64,
        member_bytes: u64,
        journal_slots: u32,
        block_bytes: u32,
    ) -> Result<Shape, ShapeError> {
        let mut shape = Shape {
            level,
            members,
            chunk_bytes,
            member_data_bytes: chunk_bytes,
            data_offset: 0,
            journal_offset: JOURNAL_OFFSET,
            journal_slots,
            block_bytes,
        };
        shape.check_numbers()?;
        let journal = match level {
            Level::Raid5 => u64::from(journal_slots) * shape.slot_bytes(),
            Level::Raid0 | Level::Raid10 => 0,
        };
        shape.data_offset = (JOURNAL_OFFSET + journal).next_multiple_of(DATA_ALIGN_BYTES);
        let room = member_bytes.saturating_sub(shape.data_offset);
        shape.member_data_bytes = room - room % chunk_bytes;
        if shape.member_data_bytes == 0 {
            return Err(ShapeError::Small {
                bytes: member_bytes,
                needed: shape.data_offset + chunk_bytes,
            });
        }
        shape.check().map(|()| shape)
    }

    /// How many records a journal of `journal_bytes` on each member has room for.
    pub fn journal_slots(chunk_bytes: u64, journal_bytes: u64) -> u32 {
        let slots = journal_bytes / (HEADER_BYTES + chunk_bytes.min(WINDOW_BYTES_MAX));
        slots.min(u64::from(u32::MAX)) as u32
    }

    fn check_numbers(&self) -> Result<(), ShapeError> {
        let (level, members) = (self.level, self.members);
        let pairs = level == Level::Raid10;
        let many = members < level.members_min() || members as usize > MEMBERS_MAX;
        if many || (pairs && !members.is_multiple_of(2)) {
            return Err(ShapeError::Members {
                level: level.number(),
                members,
                min: level.members_min(),
                even: if pairs { ", an even number" } else { "" },
            });
        }
        let block = u64::from(self.block_bytes);
        let chunk = self.chunk_bytes;
        let in_range = (4096..=CHUNK_BYTES_MAX).contains(&chunk) && chunk.is_power_of_two();
        if !in_range || !block.is_power_of_two() || block > 4096 {
            return Err(ShapeError::Chunk(chunk));
        }
        if !(2..=65536).contains(&self.journal_slots) {
            return Err(ShapeError::Journal(self.journal_slots));
        }
        Ok(())
    }

    /// Whether it can be: also for one that was read from a member.
    pub(super) fn check(&self) -> Result<(), ShapeError> {
        self.check_numbers()?;
        let journal = u64::from(self.journal_slots) * self.slot_bytes();
        let journal = if self.level == Level::Raid5 {
            journal
        } else {
            0
        };
        let fits = self.journal_offset >= INTENT_OFFSET + INTENT_BYTES
            && self.journal_offset.is_multiple_of(4096)
            && self.data_offset.is_multiple_of(4096)
            && self.member_data_bytes > 0
            && self.member_data_bytes.is_multiple_of(self.chunk_bytes)
            && self
                .journal_offset
                .checked_add(journal)
                .is_some_and(|end| end <= self.data_offset)
            && self
                .data_offset
                .checked_add(self.member_data_bytes)
                .is_some()
            && self
                .member_data_bytes
                .checked_mul(u64::from(self.members))
                .is_some();
        if fits { Ok(()) } else { Err(ShapeError::Areas) }
    }

    /// Bytes of a member that the array uses.
    pub fn member_bytes(&self) -> u64 {
        self.data_offset + self.member_data_bytes
    }

    /// Chunks of data in a stripe.
    pub fn data_chunks(&self) -> u32 {
        match self.level {
            Level::Raid0 => self.members,
            Level::Raid5 => self.members - 1,
            Level::Raid10 => self.members / 2,
        }
    }

    /// Bytes of the whole array.
    pub fn size_bytes(&self) -> u64 {
        self.member_data_bytes * u64::from(self.data_chunks())
    }

    /// Bytes of a window on one member.
    pub fn window_bytes(&self) -> u64 {
        self.chunk_bytes.min(WINDOW_BYTES_MAX)
    }

    /// Windows of a member.
    pub fn windows(&self) -> u64 {
        self.member_data_bytes / self.window_bytes()
    }

    /// Bytes of a journal record on one member.
    pub(super) fn slot_bytes(&self) -> u64 {
        HEADER_BYTES + self.window_bytes()
    }

    /// Where a record's header is on a member.
    pub(super) fn slot_offset(&self, slot: u32) -> u64 {
        self.journal_offset + u64::from(slot) * self.slot_bytes()
    }

    /// Where a window is on a member.
    pub(super) fn window_offset(&self, window: u64) -> u64 {
        self.data_offset + window * self.window_bytes()
    }

    /// The member with the parity of the stripe that a window is of.
    pub fn parity_member(&self, window: u64) -> u32 {
        let stripe = window * self.window_bytes() / self.chunk_bytes;
        self.members - 1 - (stripe % u64::from(self.members)) as u32
    }

    /// The member with data chunk `k` of the stripe that a window is of; for pairs the first of them.
    pub fn data_member(&self, window: u64, k: u32) -> u32 {
        match self.level {
            Level::Raid0 => k,
            Level::Raid10 => 2 * k,
            Level::Raid5 => (self.parity_member(window) + 1 + k) % self.members,
        }
    }

    /// The piece of the array that begins at `offset` and ends with its window or after `len_bytes`.
    pub(super) fn piece(&self, offset: u64, len_bytes: u64) -> Piece {
        let chunk = offset / self.chunk_bytes;
        let (stripe, k) = (
            chunk / u64::from(self.data_chunks()),
            (chunk % u64::from(self.data_chunks())) as u32,
        );
        let on_member = stripe * self.chunk_bytes + offset % self.chunk_bytes;
        let begin = on_member % self.window_bytes();
        Piece {
            window: on_member / self.window_bytes(),
            k,
            begin,
            len_bytes: len_bytes.min(self.window_bytes() - begin),
        }
    }
}

/// A piece of the array within one window of one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// The window.
    pub window: u64,
    /// Which data chunk of its stripe.
    pub k: u32,
    /// Where in the window it begins.
    pub begin: u64,
    /// Its length.
    pub len_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn shape(level: Level, members: u32) -> Shape {
        Shape::new(level, members, 128 << 10, 16 << 20, 8, 512).expect("a shape")
    }

    #[test]
    fn parity_rotates_as_md_does() {
        // The picture in md(4), left-symmetric, 4 members: parity 3, 2, 1, 0; data follows it.
        let shape = shape(Level::Raid5, 4);
        let per_stripe = shape.chunk_bytes / shape.window_bytes();
        let rows: Vec<_> = (0..4)
            .map(|s| {
                let window = s * per_stripe;
                let data: Vec<_> = (0..3).map(|k| shape.data_member(window, k)).collect();
                (shape.parity_member(window), data)
            })
            .collect();
        assert_eq!(
            rows,
            [
                (3, vec![0, 1, 2]),
                (2, vec![3, 0, 1]),
                (1, vec![2, 3, 0]),
                (0, vec![1, 2, 3])
            ]
        );
    }

    #[test]
    fn no_two_bytes_share_a_place() {
        for (level, members) in [(Level::Raid0, 3), (Level::Raid5, 4), (Level::Raid10, 6)] {
            let shape = shape(level, members);
            let mut seen = BTreeSet::new();
            let mut offset = 0;
            while offset < shape.size_bytes() {
                let piece = shape.piece(offset, 32 << 10);
                assert!(piece.window < shape.windows());
                let member = shape.data_member(piece.window, piece.k);
                assert!(
                    seen.insert((member, piece.window, piece.begin)),
                    "{piece:?}"
                );
                if level == Level::Raid5 {
                    assert_ne!(member, shape.parity_member(piece.window));
                }
                offset += piece.len_bytes;
            }
            assert_eq!(offset, shape.size_bytes());
        }
    }

    #[test]
    fn a_shape_that_cannot_be_is_refused() {
        let new = |level, members, chunk, bytes| Shape::new(level, members, chunk, bytes, 8, 512);
        assert!(matches!(
            new(Level::Raid5, 2, 65536, 1 << 24),
            Err(ShapeError::Members { .. })
        ));
        assert!(matches!(
            new(Level::Raid10, 3, 65536, 1 << 24),
            Err(ShapeError::Members { .. })
        ));
        assert!(matches!(
            new(Level::Raid0, 65, 65536, 1 << 24),
            Err(ShapeError::Members { .. })
        ));
        assert!(matches!(
            new(Level::Raid0, 2, 5000, 1 << 24),
            Err(ShapeError::Chunk(5000))
        ));
        assert!(matches!(
            new(Level::Raid0, 2, 65536, 1 << 20),
            Err(ShapeError::Small { .. })
        ));
        let journal = Shape::new(Level::Raid5, 3, 65536, 1 << 24, 1, 512);
        assert_eq!(journal, Err(ShapeError::Journal(1)));
    }
}
