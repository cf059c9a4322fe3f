//! The drive's cache of pages of files: commands that read and write by way of it.
//!
//! A page is named as all bytes of files are, by an open file and an offset: there is no other name for it that a host
//! could guess, keep too long, or take from another one. Only the bytes that are asked for cross the link.

use super::command::FileHandle;
use crate::bits::{bit_fields, wire_enum};
use crate::command::Command;
use crate::opcode::IoOpcode;

bit_fields! {
    /// Read near.
    mod read_near_fields {
        KEEP = 15 [0:0];
        TAKE = 15 [1:1];
        SHOW = 15 [2:2];
        AHEAD = 15 [31:16];
    }
}

bit_fields! {
    /// Write near.
    mod write_near_fields {
        SHOW = 15 [2:2];
    }
}

bit_fields! {
    /// Evict near.
    mod evict_near_fields {
        KIND = 15 [7:0];
    }
}

wire_enum! {
    /// What becomes of pages of a range, which is as that of a handle operation.
    pub enum Evict: u8 {
        /// Those that were changed are written to the file, and all stay in the cache.
        Clean = 0 => "clean",
        /// Those that were changed are written to the file, and all leave the cache.
        WriteBack = 1 => "write back",
        /// All leave the cache; what was changed is lost.
        Drop = 2 => "drop",
    }
}

/// What a command that goes by way of the cache came to: its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NearResult {
    /// Bytes that were read or written.
    pub bytes: u32,
    /// Pages that the cache had of them.
    pub hits: u32,
    /// Pages that the cache has of them now.
    pub kept: u32,
    /// Whether it had no room for others.
    pub is_full: bool,
}

/// Most pages that a [`NearResult`] counts.
const PAGES_MAX: u32 = (1 << 12) - 1;

impl NearResult {
    /// What two commands came to.
    #[must_use]
    pub fn and(self, other: NearResult) -> NearResult {
        NearResult {
            bytes: self.bytes + other.bytes,
            hits: self.hits + other.hits,
            kept: self.kept + other.kept,
            is_full: self.is_full || other.is_full,
        }
    }

    /// As a result: bits 31:0, 43:32, 55:44, 56.
    pub fn raw(self) -> u64 {
        let pages = |count: u32| u64::from(count.min(PAGES_MAX));
        u64::from(self.is_full) << 56
            | pages(self.kept) << 44
            | pages(self.hits) << 32
            | u64::from(self.bytes)
    }

    /// What a result says.
    pub fn from_raw(raw: u64) -> NearResult {
        let pages = |shift: u32| (raw >> shift) as u32 & PAGES_MAX;
        NearResult {
            bytes: raw as u32,
            hits: pages(32),
            kept: pages(44),
            is_full: raw >> 56 & 1 != 0,
        }
    }
}

impl Command {
    /// Reads `bytes` bytes from byte `offset` of an open file on; the result is a [`NearResult`].
    pub fn read_near(nsid: u32, handle: FileHandle, offset: u64, bytes: u32) -> Command {
        Command::file(IoOpcode::ReadNear, nsid, handle).at_bytes(offset, bytes)
    }

    /// Writes `bytes` bytes to byte `offset` of an open file on; the result is a [`NearResult`].
    pub fn write_near(nsid: u32, handle: FileHandle, offset: u64, bytes: u32) -> Command {
        Command::file(IoOpcode::WriteNear, nsid, handle).at_bytes(offset, bytes)
    }

    /// Has pages of a range of an open file leave the cache; the result is how many did.
    pub fn evict_near(
        nsid: u32,
        handle: FileHandle,
        how: Evict,
        offset: u64,
        bytes: u64,
    ) -> Command {
        Command::file(IoOpcode::EvictNear, nsid, handle)
            .at_bytes(offset, 0)
            .with_prp(bytes, 0)
            .with(evict_near_fields::KIND, how.raw().into())
    }

    /// The same read; the cache keeps the pages that it has not, and `ahead` pages behind them.
    #[must_use]
    pub fn keeping(self, ahead: u16) -> Command {
        self.with(read_near_fields::KEEP, 1)
            .with(read_near_fields::AHEAD, ahead.into())
    }

    /// The same read; the pages leave the cache for the host that reads them.
    #[must_use]
    pub fn taking(self) -> Command {
        self.with(read_near_fields::TAKE, 1)
    }

    /// The same read or write; the pages that the cache has of it then are shown in the drive's window, to be loaded, or stored to if it is
    /// a write.
    #[must_use]
    pub fn showing(self) -> Command {
        self.with(read_near_fields::SHOW, 1)
            .with(write_near_fields::SHOW, 1)
    }

    /// Whether the pages that the cache has of it then are shown in the drive's window.
    pub const fn shows(&self) -> bool {
        self.field(read_near_fields::SHOW) != 0
    }

    /// Whether the pages of a read leave the cache.
    pub const fn takes(&self) -> bool {
        self.field(read_near_fields::TAKE) != 0
    }

    /// Whether a read has the cache keep pages that it has not.
    pub const fn keeps(&self) -> bool {
        self.field(read_near_fields::KEEP) != 0
    }

    /// Pages behind those of a read that the cache is to have too.
    pub const fn keeps_ahead(&self) -> u32 {
        self.field(read_near_fields::AHEAD)
    }

    /// What becomes of pages.
    pub const fn evict_kind(&self) -> Option<Evict> {
        Evict::from_raw(self.field(evict_near_fields::KIND) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_says_comes_back() {
        let handle = FileHandle {
            index: 7,
            generation: 9,
        };
        let read = Command::read_near(1, handle, 1 << 40, 1000);
        assert!(!read.keeps() && read.keeps_ahead() == 0);
        let read = read.keeping(511);
        assert!(read.keeps() && read.keeps_ahead() == 511);
        assert_eq!((read.file_offset(), read.file_bytes()), (1 << 40, 1000));
        assert!(!read.takes());
        let taken = Command::read_near(1, handle, 0, 4096).taking();
        assert!(taken.takes() && !taken.keeps() && !taken.shows());
        assert!(read.showing().shows() && read.showing().keeps() && !read.showing().takes());
        assert!(Command::write_near(1, handle, 0, 9).showing().shows());
        for how in Evict::ALL {
            let evict = Command::evict_near(1, handle, *how, 4096, u64::MAX);
            assert_eq!(evict.evict_kind(), Some(*how));
            assert_eq!((evict.file_offset(), evict.range_bytes()), (4096, u64::MAX));
        }
    }

    #[test]
    fn a_result_has_room_for_what_a_command_can_move() {
        let result = NearResult {
            bytes: 2 << 20,
            hits: 513,
            kept: 512,
            is_full: true,
        };
        assert_eq!(NearResult::from_raw(result.raw()), result);
        assert!(result.raw() < 1 << 63);
        let is_full = false;
        let result = NearResult { is_full, ..result };
        assert_eq!(NearResult::from_raw(result.raw()), result);
    }
}
