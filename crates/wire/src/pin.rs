//! Pin and unpin: pages held in frames of the memory that the host lent.
//!
//! *Pin* asks for pages of a window of the namespace; the drive finds each in a frame or brings it
//! into one, counts a reference, and tells the frame's address. *Unpin* gives references back.
//! A pin may carry unpins: the drive serves them first, so that a cache that is full exchanges pages
//! by one command.
//!
//! One page and one unpin fit the command and its completion alone. More take a *list page*, named
//! by PRP1:
//!
//! 1. bytes 0..64 are a bitmap over the window, bit 1 for a page that is wanted (a miss of the host),
//!    0 for one that it holds already;
//! 2. 504 entries of 8 bytes follow. The host writes unpins from the last entry backwards, the
//!    drive writes the addresses of the wanted pages from the first forwards, in the order of
//!    the window. So both together are at most 504.
//!
//! A command that fails leaves what it did: pages that it pinned before the failure have their
//! address in the list, the others [`NOT_PINNED`]; unpins are done. (ScalaCache, section 5.4, has the
//! idea; the format is our own.)

use crate::bits::bit_fields;
use crate::command::{Command, PAGE_BYTES};
use crate::opcode::IoOpcode;
use crate::status::StatusCode;

/// Pages that a window can have.
pub const WINDOW_PAGES_MAX: u32 = 512;

/// Entries of a list page.
pub const LIST_ENTRIES: usize = (PAGE_BYTES - BITMAP_BYTES) / 8;

/// Bytes of the bitmap.
pub const BITMAP_BYTES: usize = WINDOW_PAGES_MAX as usize / 8;

/// The address of a page that was not pinned.
pub const NOT_PINNED: u64 = u64::MAX;

/// Marks the address of a frame with zeros that are nobody's data: the page was pinned to be overwritten,
/// and has not been written yet. Who overwrites it is not told.
const BLANK: u64 = 1;

/// What the drive tells of a pinned page: the address of its frame, and whether that is blank.
#[inline]
pub const fn told_address(address: u64, is_blank: bool) -> u64 {
    address | if is_blank { BLANK } else { 0 }
}

/// The address that the drive has told, and whether the frame is blank. Neither is a frame's for
/// [`NOT_PINNED`].
#[inline]
pub const fn split_address(told: u64) -> (u64, bool) {
    (told & !BLANK, told & BLANK != 0)
}

/// Marks an unpin of a page that the host has written.
const DIRTY: u64 = 1 << 63;

bit_fields! {
    /// Pin and unpin.
    mod pin_fields {
        SLBA_LOW = 10 [31:0];
        SLBA_HIGH = 11 [31:0];
        NLB = 12 [15:0];
        WRITE = 12 [16:16];
        OVERWRITE = 12 [17:17];
        LIST = 12 [18:18];
        NOWAIT = 12 [19:19];
        UNPINS = 13 [15:0];
        UNPIN_LOW = 14 [31:0];
        UNPIN_HIGH = 15 [30:0];
        UNPIN_DIRTY = 15 [31:31];
    }
}

/// What the host is going to do with pinned pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only read them.
    Read,
    /// Change them.
    Write,
    /// Write them whole before anything else: what they held is not fetched, and the frames hold
    /// zeros until then.
    Overwrite,
}

/// A reference that the host gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpin {
    /// The page.
    pub lba: u64,
    /// Whether the host has written to it.
    pub is_dirty: bool,
}

impl Unpin {
    /// Reads an entry of a list page.
    #[inline]
    pub const fn from_entry(entry: u64) -> Unpin {
        Unpin {
            lba: entry & !DIRTY,
            is_dirty: entry & DIRTY != 0,
        }
    }

    /// The entry of a list page.
    #[inline]
    pub const fn to_entry(self) -> u64 {
        self.lba | if self.is_dirty { DIRTY } else { 0 }
    }
}

/// Offset in the list page of unpin number `index`.
#[inline]
pub const fn unpin_offset(index: u32) -> u64 {
    PAGE_BYTES as u64 - 8 * (index as u64 + 1)
}

/// Offset in the list page of the address of the wanted page number `index`.
#[inline]
pub const fn address_offset(index: u32) -> u64 {
    BITMAP_BYTES as u64 + 8 * index as u64
}

impl Command {
    /// Pins the page `lba`. The completion's result is the frame's address.
    #[inline]
    pub const fn pin(nsid: u32, lba: u64, access: Access) -> Command {
        Command::blank(IoOpcode::Pin.raw(), nsid)
            .with(pin_fields::SLBA_LOW, lba as u32)
            .with(pin_fields::SLBA_HIGH, (lba >> 32) as u32)
            .with_access(access)
    }

    /// Pins the pages that the bitmap of the list page names, out of `pages` (1..=512) from `lba` on.
    ///
    /// # Panics
    /// If `pages` is out of its range.
    #[inline]
    pub const fn pin_window(nsid: u32, lba: u64, pages: u32, access: Access) -> Command {
        Command::pin(nsid, lba, access)
            .with(
                pin_fields::NLB,
                crate::command::zero_based(pages, WINDOW_PAGES_MAX),
            )
            .with(pin_fields::LIST, 1)
    }

    /// Unpins one page.
    #[inline]
    pub const fn unpin(nsid: u32, unpin: Unpin) -> Command {
        Command::blank(IoOpcode::Unpin.raw(), nsid).with_unpin(unpin)
    }

    /// Unpins the `count` pages (1..=504) at the end of the list page.
    #[inline]
    pub const fn unpin_list(nsid: u32, count: u32) -> Command {
        Command::blank(IoOpcode::Unpin.raw(), nsid).with_unpin_list(count)
    }

    /// The same command with one unpin in itself.
    #[must_use]
    #[inline]
    pub const fn with_unpin(self, unpin: Unpin) -> Command {
        self.with(pin_fields::UNPINS, 1)
            .with(pin_fields::UNPIN_LOW, unpin.lba as u32)
            .with(pin_fields::UNPIN_HIGH, (unpin.lba >> 32) as u32)
            .with(pin_fields::UNPIN_DIRTY, unpin.is_dirty as u32)
    }

    /// The same command with `count` unpins at the end of its list page.
    ///
    /// # Panics
    /// If `count` is above 504.
    #[must_use]
    #[inline]
    pub const fn with_unpin_list(self, count: u32) -> Command {
        assert!(
            count as usize <= LIST_ENTRIES,
            "more unpins than a list holds"
        );
        self.with(pin_fields::UNPINS, count)
            .with(pin_fields::LIST, 1)
    }

    /// The same pin, to fail rather than to wait while every frame is held.
    #[must_use]
    #[inline]
    pub const fn without_waiting(self) -> Command {
        self.with(pin_fields::NOWAIT, 1)
    }

    const fn with_access(self, access: Access) -> Command {
        match access {
            Access::Read => self,
            Access::Write => self.with(pin_fields::WRITE, 1),
            Access::Overwrite => self
                .with(pin_fields::WRITE, 1)
                .with(pin_fields::OVERWRITE, 1),
        }
    }

    /// What a pin is for.
    ///
    /// # Errors
    /// [`StatusCode::ConflictingAttributes`] for an overwrite that is no write.
    #[inline]
    pub const fn access(&self) -> Result<Access, StatusCode> {
        match (
            self.field(pin_fields::WRITE) != 0,
            self.field(pin_fields::OVERWRITE) != 0,
        ) {
            (false, false) => Ok(Access::Read),
            (true, false) => Ok(Access::Write),
            (true, true) => Ok(Access::Overwrite),
            (false, true) => Err(StatusCode::ConflictingAttributes),
        }
    }

    /// Whether a pin or unpin has a list page.
    #[inline]
    pub const fn has_list(&self) -> bool {
        self.field(pin_fields::LIST) != 0
    }

    /// Whether a pin fails rather than waits while every frame is held.
    #[inline]
    pub const fn may_not_wait(&self) -> bool {
        self.field(pin_fields::NOWAIT) != 0
    }

    /// Number of unpins of a pin or unpin: 0..=65535, of which 504 are possible.
    #[inline]
    pub const fn unpin_count(&self) -> u32 {
        self.field(pin_fields::UNPINS)
    }

    /// The unpin in the command itself.
    #[inline]
    pub const fn inline_unpin(&self) -> Unpin {
        Unpin {
            lba: self.field(pin_fields::UNPIN_LOW) as u64
                | (self.field(pin_fields::UNPIN_HIGH) as u64) << 32,
            is_dirty: self.field(pin_fields::UNPIN_DIRTY) != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opcode::DataDirection;

    #[test]
    fn what_a_pin_says_comes_back() {
        for (access, lba) in [
            (Access::Read, 0),
            (Access::Write, 1 << 40),
            (Access::Overwrite, u64::MAX >> 1),
        ] {
            let unpin = Unpin {
                lba: lba ^ 5,
                is_dirty: access != Access::Read,
            };
            let command = Command::pin(1, lba, access).with_unpin(unpin);
            assert_eq!(command.io_opcode(), Some(IoOpcode::Pin));
            assert_eq!((command.slba(), command.pages()), (lba, 1));
            assert_eq!(command.access(), Ok(access));
            assert_eq!((command.unpin_count(), command.inline_unpin()), (1, unpin));
            assert!(!command.has_list() && !command.may_not_wait());
            assert_eq!(Unpin::from_entry(unpin.to_entry()), unpin);
        }
        let command = Command::pin_window(1, 7, 512, Access::Read)
            .with_unpin_list(3)
            .without_waiting();
        assert!(command.has_list() && command.may_not_wait());
        assert_eq!((command.pages(), command.unpin_count()), (512, 3));
    }

    #[test]
    fn pins_and_unpins_meet_in_the_middle_of_the_list() {
        let entries = LIST_ENTRIES as u32;
        assert_eq!(entries, 504);
        assert_eq!(address_offset(0), 64);
        assert_eq!(unpin_offset(0), 4088);
        assert_eq!(unpin_offset(entries - 1), address_offset(0));
    }

    #[test]
    fn an_address_and_whether_its_frame_is_blank_come_back() {
        for is_blank in [false, true] {
            assert_eq!(
                split_address(told_address(0x5000, is_blank)),
                (0x5000, is_blank)
            );
        }
        let (no_address, _) = split_address(NOT_PINNED);
        assert!(!no_address.is_multiple_of(PAGE_BYTES as u64));
    }

    #[test]
    fn the_opcodes_say_which_way_lists_go() {
        assert_eq!(DataDirection::of(IoOpcode::Pin.raw()), DataDirection::Both);
        assert_eq!(
            DataDirection::of(IoOpcode::Unpin.raw()),
            DataDirection::HostToDrive
        );
    }

    #[test]
    fn an_overwrite_that_is_no_write_is_refused() {
        let command = Command::pin(1, 0, Access::Overwrite).with(pin_fields::WRITE, 0);
        assert_eq!(command.access(), Err(StatusCode::ConflictingAttributes));
    }
}
