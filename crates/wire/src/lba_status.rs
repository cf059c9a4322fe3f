//! Get LBA status: which pages of a range are allocated, as runs.
//!
//! The answer is a head and a descriptor for each run, in the order of their pages. It holds as many as
//! the host has asked for bytes, so a host asks again, from behind the last run, until the head says
//! that all was looked at.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::bits::{bit_fields, wire_enum};
use crate::command::Command;
use crate::opcode::{AdminOpcode, IoOpcode};
use crate::status::StatusCode;

bit_fields! {
    /// Get LBA status.
    mod lba_status_fields {
        SLBA_LOW = 10 [31:0];
        SLBA_HIGH = 11 [31:0];
        MNDW = 12 [31:0];
        RL = 13 [15:0];
        ATYPE = 13 [31:24];
    }
}

wire_enum! {
    /// What a get LBA status command asks for (ATYPE).
    pub enum StatusAction: u8 {
        /// The allocated pages of the range.
        Allocated = 0x02 => "allocated pages",
    }
}

wire_enum! {
    /// How far the pages were looked at (CMPC).
    pub enum Completeness: u8 {
        /// Up to the end of the last run: there may be more.
        Partly = 1 => "up to the last run",
        /// All of the range.
        Whole = 2 => "the whole range",
    }
}

/// The head of the answer.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct LbaStatusHead {
    /// Number of runs that follow.
    pub nlsd: u32,
    /// [`Completeness`].
    pub cmpc: u8,
    pub(crate) reserved: [u8; 3],
}

/// A run of allocated pages.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct LbaStatusRun {
    /// First page.
    pub dslba: u64,
    /// Number of pages, not 0-based.
    pub nlb: u32,
    pub(crate) reserved1: u8,
    /// More about the run: 0.
    pub status: u8,
    pub(crate) reserved2: [u8; 2],
}

impl LbaStatusRun {
    /// `pages` pages from `first` on.
    pub fn new(first: u64, pages: u32) -> LbaStatusRun {
        LbaStatusRun {
            dslba: first,
            nlb: pages,
            ..FromZeros::new_zeroed()
        }
    }
}

const _: () = assert!(size_of::<LbaStatusHead>() == 8 && size_of::<LbaStatusRun>() == 16);

/// Runs of an answer that takes a page.
pub const RUNS_PER_PAGE: usize = (4096 - 8) / 16;

/// Bytes of an answer of `runs` runs.
pub const fn answer_bytes(runs: usize) -> usize {
    8 + runs * 16
}

/// Writes an answer.
pub fn write_answer(runs: &[LbaStatusRun], completeness: Completeness) -> Vec<u8> {
    let head = LbaStatusHead {
        nlsd: runs.len() as u32,
        cmpc: completeness.raw(),
        ..FromZeros::new_zeroed()
    };
    let mut bytes = head.as_bytes().to_vec();
    bytes.extend_from_slice(runs.as_bytes());
    bytes
}

/// Reads an answer: its runs, and whether all of the range was looked at. `None` if it is none.
pub fn read_answer(bytes: &[u8]) -> Option<(Vec<LbaStatusRun>, bool)> {
    let (head, rest) = LbaStatusHead::read_from_prefix(bytes).ok()?;
    let completeness = Completeness::from_raw(head.cmpc)?;
    let count = usize::try_from(head.nlsd).ok()?;
    let end = count.checked_mul(size_of::<LbaStatusRun>())?;
    let runs = rest.get(..end)?.chunks_exact(size_of::<LbaStatusRun>());
    let runs = runs.map(|run| LbaStatusRun::read_from_bytes(run).expect("16 bytes"));
    Some((runs.collect(), completeness == Completeness::Whole))
}

impl Command {
    /// Asks on the admin queue which of `pages` pages from `lba` on are allocated; 0 stands for all to the
    /// end of the namespace. The answer is of up to `bytes` bytes.
    ///
    /// # Panics
    /// If `pages` is above 65535, or `bytes` is 0 or no multiple of 4.
    pub const fn get_lba_status(nsid: u32, lba: u64, pages: u32, bytes: u32) -> Command {
        Command::status_of(AdminOpcode::GetLbaStatus.raw(), nsid, lba, pages, bytes)
    }

    /// The same on an I/O queue.
    ///
    /// # Panics
    /// As that.
    pub const fn get_lba_status_by_io(nsid: u32, lba: u64, pages: u32, bytes: u32) -> Command {
        Command::status_of(IoOpcode::GetLbaStatus.raw(), nsid, lba, pages, bytes)
    }

    const fn status_of(opcode: u8, nsid: u32, lba: u64, pages: u32, bytes: u32) -> Command {
        assert!(
            bytes > 0 && bytes.is_multiple_of(4),
            "an answer is of whole dwords"
        );
        Command::blank(opcode, nsid)
            .with(lba_status_fields::SLBA_LOW, lba as u32)
            .with(lba_status_fields::SLBA_HIGH, (lba >> 32) as u32)
            .with(lba_status_fields::MNDW, bytes / 4 - 1)
            .with(lba_status_fields::RL, pages)
            .with(
                lba_status_fields::ATYPE,
                StatusAction::Allocated.raw() as u32,
            )
    }

    /// What a get LBA status command asks for.
    pub const fn status_action(&self) -> Option<StatusAction> {
        StatusAction::from_raw(self.field(lba_status_fields::ATYPE) as u8)
    }

    /// Bytes that the answer to a get LBA status command may take: 4 to 16 GiB.
    pub const fn status_bytes(&self) -> u64 {
        (self.field(lba_status_fields::MNDW) as u64 + 1) * 4
    }

    /// The range of a get LBA status command: first page and end.
    ///
    /// # Errors
    /// [`StatusCode::LbaOutOfRange`] if it does not lie within the first `namespace_pages` pages.
    pub const fn status_range(&self, namespace_pages: u64) -> Result<(u64, u64), StatusCode> {
        let first = self.slba();
        let end = match self.field(lba_status_fields::RL) {
            0 => namespace_pages,
            pages => first.saturating_add(pages as u64),
        };
        if first < namespace_pages && end <= namespace_pages {
            Ok((first, end))
        } else {
            Err(StatusCode::LbaOutOfRange)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back() {
        for count in [0, 1, 255] {
            let run = |n: u64| LbaStatusRun::new(n * 9 + (1 << 40), n as u32 + 1);
            let runs: Vec<_> = (0..count).map(run).collect();
            for completeness in Completeness::ALL {
                let bytes = write_answer(&runs, *completeness);
                assert_eq!(bytes.len(), answer_bytes(runs.len()));
                let whole = *completeness == Completeness::Whole;
                assert_eq!(read_answer(&bytes), Some((runs.clone(), whole)));
                assert_eq!(read_answer(&bytes[..bytes.len() - 1]), None);
            }
        }
        assert_eq!(read_answer(&[0; 8]), None, "no completeness");
        assert_eq!(read_answer(&[255; 64]), None);
        assert!(answer_bytes(RUNS_PER_PAGE) <= 4096 && answer_bytes(RUNS_PER_PAGE + 1) > 4096);
    }

    #[test]
    fn a_range_lies_within_the_namespace() {
        let range = |lba, pages| Command::get_lba_status(1, lba, pages, 4096).status_range(100);
        assert_eq!(range(0, 0), Ok((0, 100)));
        assert_eq!(range(99, 0), Ok((99, 100)));
        assert_eq!(range(90, 10), Ok((90, 100)));
        let beyond = Err(StatusCode::LbaOutOfRange);
        assert_eq!(
            [range(100, 0), range(91, 10), range(u64::MAX, 2)],
            [beyond; 3]
        );
        let command = Command::get_lba_status_by_io(1, 7, 65535, 4096);
        assert_eq!(command.status_action(), Some(StatusAction::Allocated));
        assert_eq!(command.status_bytes(), 4096);
        assert_eq!(command.io_opcode(), Some(IoOpcode::GetLbaStatus));
    }
}
