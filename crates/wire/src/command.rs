//! The submission queue entry: 64 bytes in which the host asks for one thing.
//!
//! This file has the entry itself and the commands of the I/O queues; those of the admin queue
//! stand in `admin`. Constructors take counts as people count (1 page is `1`); on the wire
//! counts are 0-based, as in NVM Express. All of it is plain arithmetic on a `Copy` value.

use crate::bits::{Bits, bit_fields};
use crate::dsm::RANGES_MAX;
use crate::opcode::IoOpcode;
use crate::status::StatusCode;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The structures are read and written in place, in the byte order of the wire.
#[cfg(not(target_endian = "little"))]
compile_error!(
    "wharf-wire reads its little-endian structures in place: a big-endian host is not supported"
);

/// Bytes of a page: the logical block, the unit of transfer and the memory page of PRPs alike.
pub const PAGE_BYTES: usize = 1 << PAGE_SHIFT;

/// Base-2 logarithm of [`PAGE_BYTES`].
pub const PAGE_SHIFT: u32 = 12;

/// The most pages that one command can name (a 16-bit, 0-based count).
pub const COMMAND_PAGES_MAX: u32 = 1 << 16;

/// The namespace identifier that stands for every namespace of the controller.
pub const NAMESPACE_ALL: u32 = u32::MAX;

bit_fields! {
    /// Read, write, write zeroes, verify: where and how. DEAC belongs to write zeroes alone.
    mod rw_fields {
        SLBA_LOW = 10 [31:0];
        SLBA_HIGH = 11 [31:0];
        NLB = 12 [15:0];
        DEAC = 12 [25:25];
        FUA = 12 [30:30];
    }
}

bit_fields! {
    /// Dataset management.
    mod dsm_fields {
        NR = 10 [7:0];
        AD = 11 [2:2];
    }
}

bit_fields! {
    /// The `flags` byte of every command.
    mod flags_byte {
        FUSE = 0 [1:0];
        PSDT = 0 [7:6];
    }
}

/// A submission queue entry.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Command {
    /// What to do: an [`IoOpcode`] or an [`AdminOpcode`](crate::opcode::AdminOpcode).
    pub opcode: u8,
    /// Fused operation and kind of data pointer; zero in this command set.
    pub flags: u8,
    /// Command identifier, chosen by the host, unique among its queue's commands in flight.
    pub cid: u16,
    /// Namespace, counted from 1; [`NAMESPACE_ALL`] for all; 0 where it is not used.
    pub nsid: u32,
    /// Of the command; not used by a standard one.
    pub cdw2: u32,
    /// Of the command; not used by a standard one.
    pub cdw3: u32,
    /// Metadata pointer; not used, since no format has metadata.
    pub mptr: u64,
    /// DMA address of the first page of data.
    pub prp1: u64,
    /// DMA address of the second page, or of the list of the second and later ones.
    pub prp2: u64,
    /// Of the command.
    pub cdw10: u32,
    /// Of the command.
    pub cdw11: u32,
    /// Of the command.
    pub cdw12: u32,
    /// Of the command.
    pub cdw13: u32,
    /// Of the command.
    pub cdw14: u32,
    /// Of the command.
    pub cdw15: u32,
}

const _: () = assert!(size_of::<Command>() == 64);

/// The 0-based count for `count` things of which there may be `1..=max`.
#[inline]
pub(crate) const fn zero_based(count: u32, max: u32) -> u32 {
    assert!(
        count >= 1 && count <= max,
        "count out of the range of its field"
    );
    count - 1
}

impl Command {
    /// A command of `opcode` with everything else zero.
    #[inline]
    pub(crate) const fn blank(opcode: u8, nsid: u32) -> Command {
        Command {
            opcode,
            flags: 0,
            cid: 0,
            nsid,
            cdw2: 0,
            cdw3: 0,
            mptr: 0,
            prp1: 0,
            prp2: 0,
            cdw10: 0,
            cdw11: 0,
            cdw12: 0,
            cdw13: 0,
            cdw14: 0,
            cdw15: 0,
        }
    }

    #[inline]
    const fn on_range(opcode: IoOpcode, nsid: u32, lba: u64, pages: u32) -> Command {
        Command::blank(opcode.raw(), nsid)
            .with(rw_fields::SLBA_LOW, lba as u32)
            .with(rw_fields::SLBA_HIGH, (lba >> 32) as u32)
            .with(rw_fields::NLB, zero_based(pages, COMMAND_PAGES_MAX))
    }

    /// Reads `pages` pages (1..=65536) from page `lba` on.
    ///
    /// # Panics
    /// If `pages` is out of its range; so do the constructors below.
    #[inline]
    pub const fn read(nsid: u32, lba: u64, pages: u32) -> Command {
        Command::on_range(IoOpcode::Read, nsid, lba, pages)
    }

    /// Writes `pages` pages (1..=65536) from page `lba` on.
    #[inline]
    pub const fn write(nsid: u32, lba: u64, pages: u32) -> Command {
        Command::on_range(IoOpcode::Write, nsid, lba, pages)
    }

    /// Sets `pages` pages (1..=65536) from page `lba` on to zeros.
    #[inline]
    pub const fn write_zeroes(nsid: u32, lba: u64, pages: u32) -> Command {
        Command::on_range(IoOpcode::WriteZeroes, nsid, lba, pages)
    }

    /// Checks that `pages` pages (1..=65536) from page `lba` on can be read.
    #[inline]
    pub const fn verify(nsid: u32, lba: u64, pages: u32) -> Command {
        Command::on_range(IoOpcode::Verify, nsid, lba, pages)
    }

    /// Makes durable whatever was acknowledged in the namespace (or in all of them).
    #[inline]
    pub const fn flush(nsid: u32) -> Command {
        Command::blank(IoOpcode::Flush.raw(), nsid)
    }

    /// Deallocates the `ranges` ranges (1..=256) in the page at PRP1; see [`crate::dsm`].
    #[inline]
    pub const fn deallocate(nsid: u32, ranges: u32) -> Command {
        Command::blank(IoOpcode::DatasetManagement.raw(), nsid)
            .with(dsm_fields::NR, zero_based(ranges, RANGES_MAX as u32))
            .with(dsm_fields::AD, 1)
    }

    /// The same command under identifier `cid`.
    #[must_use]
    #[inline]
    pub const fn with_cid(mut self, cid: u16) -> Command {
        self.cid = cid;
        self
    }

    /// The same command with its data pointers; [`crate::prp::prp_for`] makes them.
    #[must_use]
    #[inline]
    pub const fn with_prp(mut self, prp1: u64, prp2: u64) -> Command {
        self.prp1 = prp1;
        self.prp2 = prp2;
        self
    }

    /// The same command with "force unit access": of a write or write zeroes, the completion
    /// says that the data is durable; of a read or verify, that it came from the media.
    #[must_use]
    #[inline]
    pub const fn with_fua(self) -> Command {
        self.with(rw_fields::FUA, 1)
    }

    /// The same write zeroes with leave to deallocate the pages. They read as zeros either way.
    #[must_use]
    #[inline]
    pub const fn with_deallocate(self) -> Command {
        self.with(rw_fields::DEAC, 1)
    }

    /// The opcode, taken as that of an I/O queue.
    #[inline]
    pub const fn io_opcode(&self) -> Option<IoOpcode> {
        IoOpcode::from_raw(self.opcode)
    }

    /// First page of a read, write, write zeroes or verify.
    #[inline]
    pub const fn slba(&self) -> u64 {
        self.field(rw_fields::SLBA_LOW) as u64 | (self.field(rw_fields::SLBA_HIGH) as u64) << 32
    }

    /// Number of pages of a read, write, write zeroes or verify: 1..=65536.
    #[inline]
    pub const fn pages(&self) -> u32 {
        self.field(rw_fields::NLB) + 1
    }

    /// Force unit access, of a read, write, write zeroes or verify.
    #[inline]
    pub const fn fua(&self) -> bool {
        self.field(rw_fields::FUA) != 0
    }

    /// Leave to deallocate, of a write zeroes.
    #[inline]
    pub const fn may_deallocate(&self) -> bool {
        self.field(rw_fields::DEAC) != 0
    }

    /// Number of ranges of a dataset management command: 1..=256.
    #[inline]
    pub const fn range_count(&self) -> u32 {
        self.field(dsm_fields::NR) + 1
    }

    /// Whether a dataset management command deallocates. Its other attributes are hints on
    /// coming accesses, which the drive does not use.
    #[inline]
    pub const fn deallocates(&self) -> bool {
        self.field(dsm_fields::AD) != 0
    }

    /// Refuses what this command set has not: fused commands and SGLs.
    ///
    /// # Errors
    /// [`StatusCode::InvalidField`] if FUSE or PSDT is not zero. The other bits of the flags
    /// are reserved and ignored.
    #[inline]
    pub const fn check_flags(&self) -> Result<(), StatusCode> {
        let flags = self.flags as u32;
        if flags_byte::FUSE.get(flags) | flags_byte::PSDT.get(flags) != 0 {
            return Err(StatusCode::InvalidField);
        }
        Ok(())
    }

    /// Refuses a range that does not lie within the first `namespace_pages` pages.
    ///
    /// # Errors
    /// [`StatusCode::LbaOutOfRange`], also if the sum of address and length overflows.
    #[inline]
    pub const fn check_lba_range(&self, namespace_pages: u64) -> Result<(), StatusCode> {
        match self.slba().checked_add(self.pages() as u64) {
            Some(end) if end <= namespace_pages => Ok(()),
            _ => Err(StatusCode::LbaOutOfRange),
        }
    }

    /// The field at `bits` of CDW10..CDW15.
    #[inline]
    pub(crate) const fn field(&self, bits: Bits) -> u32 {
        bits.get(match bits.dword {
            10 => self.cdw10,
            11 => self.cdw11,
            12 => self.cdw12,
            13 => self.cdw13,
            14 => self.cdw14,
            _ => self.cdw15,
        })
    }

    /// The same command with `value` in the field at `bits` of CDW10..CDW15.
    #[inline]
    pub(crate) const fn with(mut self, bits: Bits, value: u32) -> Command {
        let dword = match bits.dword {
            10 => &mut self.cdw10,
            11 => &mut self.cdw11,
            12 => &mut self.cdw12,
            13 => &mut self.cdw13,
            14 => &mut self.cdw14,
            _ => &mut self.cdw15,
        };
        *dword = bits.put(*dword, value);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_come_back_from_the_whole_span_of_their_fields() {
        type Make = fn(u32, u64, u32) -> Command;
        let makers: [(Make, IoOpcode); 4] = [
            (Command::read, IoOpcode::Read),
            (Command::write, IoOpcode::Write),
            (Command::write_zeroes, IoOpcode::WriteZeroes),
            (Command::verify, IoOpcode::Verify),
        ];
        for (make, opcode) in makers {
            for lba in [0, 1, u64::from(u32::MAX), 1 << 32, u64::MAX] {
                for pages in [1, 2, 8, COMMAND_PAGES_MAX] {
                    let command = make(7, lba, pages).with_cid(9);
                    assert_eq!(command.io_opcode(), Some(opcode));
                    assert_eq!((command.nsid, command.cid), (7, 9));
                    assert_eq!((command.slba(), command.pages()), (lba, pages));
                    assert!(!command.fua() && !command.may_deallocate());
                }
            }
        }
    }

    #[test]
    fn flags_do_not_disturb_the_range() {
        let command = Command::write_zeroes(1, 5, 65536)
            .with_fua()
            .with_deallocate();
        assert!(command.fua() && command.may_deallocate());
        assert_eq!((command.slba(), command.pages()), (5, 65536));
        assert_eq!(command.cdw12, 1 << 30 | 1 << 25 | 0xffff);
        let only_fua = Command::write(1, 5, 1).with_fua();
        assert!(only_fua.fua() && !only_fua.may_deallocate());
    }

    #[test]
    fn deallocate_counts_its_ranges() {
        for ranges in [1, 2, 256] {
            let command = Command::deallocate(1, ranges).with_prp(0x3000, 0);
            assert_eq!(command.io_opcode(), Some(IoOpcode::DatasetManagement));
            assert_eq!(command.range_count(), ranges);
            assert!(command.deallocates());
            assert_eq!((command.prp1, command.prp2), (0x3000, 0));
        }
        let hint = Command {
            cdw11: 3,
            ..Command::deallocate(1, 1)
        };
        assert!(!hint.deallocates());
    }

    #[test]
    #[should_panic(expected = "out of the range")]
    fn a_read_of_no_pages_cannot_be_said() {
        let _ = Command::read(1, 0, 0);
    }

    #[test]
    #[should_panic(expected = "out of the range")]
    fn a_write_of_too_many_pages_cannot_be_said() {
        let _ = Command::write(1, 0, COMMAND_PAGES_MAX + 1);
    }

    #[test]
    fn a_range_must_end_within_the_namespace() {
        assert_eq!(Command::read(1, 90, 10).check_lba_range(100), Ok(()));
        for (lba, pages) in [
            (91, 10),
            (100, 1),
            (0, 101),
            (u64::MAX, 1),
            (u64::MAX - 3, 65536),
        ] {
            let verdict = Command::read(1, lba, pages).check_lba_range(100);
            assert_eq!(verdict, Err(StatusCode::LbaOutOfRange), "{lba} + {pages}");
        }
        assert_eq!(
            Command::read(1, u64::MAX - 1, 1).check_lba_range(u64::MAX),
            Ok(())
        );
    }

    #[test]
    fn fused_commands_and_sgls_are_refused() {
        for flags in 0..=u8::MAX {
            let command = Command {
                flags,
                ..Command::flush(1)
            };
            let plain = flags & 0b1100_0011 == 0;
            let expected = if plain {
                Ok(())
            } else {
                Err(StatusCode::InvalidField)
            };
            assert_eq!(command.check_flags(), expected, "{flags:#x}");
        }
    }

    #[test]
    fn the_bytes_are_little_endian_and_in_place() {
        let command = Command::write(0x0102_0304, 0x1122_3344_5566_7788, 0x0a0b)
            .with_cid(0xc1d0)
            .with_prp(0xaaa0_0000_1000, 0xbbb0_0000_2000);
        let bytes = command.as_bytes();
        assert_eq!(bytes[..8], [1, 0, 0xd0, 0xc1, 4, 3, 2, 1]);
        assert_eq!(bytes[8..24], [0; 16]);
        assert_eq!(bytes[24..32], 0xaaa0_0000_1000_u64.to_le_bytes());
        assert_eq!(bytes[32..40], 0xbbb0_0000_2000_u64.to_le_bytes());
        assert_eq!(bytes[40..48], 0x1122_3344_5566_7788_u64.to_le_bytes());
        assert_eq!(bytes[48..52], [0x0a, 0x0a, 0, 0]);
        assert_eq!(Command::read_from_bytes(bytes).unwrap(), command);
    }

    #[test]
    fn flush_is_all_zeros_but_its_namespace() {
        assert_eq!(
            Command::flush(NAMESPACE_ALL),
            Command {
                nsid: u32::MAX,
                ..Default::default()
            }
        );
    }
}
