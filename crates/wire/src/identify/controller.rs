//! The controller's page.

use super::{DriveInfo, IdentifyError};
use crate::bits::wire_enum;
use zerocopy::little_endian::U128;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// NVM Express 2.0, as [`IdentifyController::ver`] gives it.
pub const VERSION_2_0: u32 = 0x0002_0000;

/// Queue entry sizes as SQES and CQES give them: bits 3:0 required, 7:4 largest, log2 bytes.
const SUBMISSION_ENTRY_SIZES: u8 = 0x66;
const COMPLETION_ENTRY_SIZES: u8 = 0x44;

/// Identify controller data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IdentifyController {
    /// PCI vendor; 0, since there is no PCI device.
    pub vid: u16,
    /// PCI subsystem vendor; 0.
    pub ssvid: u16,
    /// Serial number: ASCII, padded with spaces.
    pub sn: [u8; 20],
    /// Model number: ASCII, padded with spaces.
    pub mn: [u8; 40],
    /// Firmware revision: ASCII, padded with spaces.
    pub fr: [u8; 8],
    /// Recommended arbitration burst, log2.
    pub rab: u8,
    /// IEEE OUI of the vendor; 0.
    pub ieee: [u8; 3],
    /// Several ports or controllers; 0, there is one.
    pub cmic: u8,
    /// Largest transfer: log2 of pages, 0 for no limit; see
    /// [`IdentifyController::max_transfer_pages`].
    pub mdts: u8,
    /// Identifier of the controller.
    pub cntlid: u16,
    /// Version of NVM Express: [`VERSION_2_0`].
    pub ver: u32,
    pub(crate) reserved_84: [u8; 8],
    /// Optional asynchronous events; 0: those of space are the vendor's own.
    pub oaes: u32,
    pub(crate) reserved_96: [u8; 15],
    /// Type of controller: 1, for I/O.
    pub cntrltype: u8,
    pub(crate) reserved_112: [u8; 144],
    /// Optional admin commands: bits of [`OptionalAdminCommand`].
    pub oacs: u16,
    /// Abort commands at once, 0-based.
    pub acl: u8,
    /// Asynchronous event requests at once, 0-based.
    pub aerl: u8,
    /// Firmware updates; bit 0: slot 1 is read-only.
    pub frmw: u8,
    /// Log page attributes; bit 2: offsets and lengths above 16 bits.
    pub lpa: u8,
    /// Entries of the error information log, 0-based.
    pub elpe: u8,
    /// Power states, 0-based.
    pub npss: u8,
    pub(crate) reserved_264: [u8; 2],
    /// Warning temperature in kelvins.
    pub wctemp: u16,
    /// Critical temperature in kelvins.
    pub cctemp: u16,
    pub(crate) reserved_270: [u8; 2],
    /// Host memory preferred size, in pages of 4096 bytes; 0 if the drive takes none.
    pub hmpre: u32,
    /// Host memory minimum size, in pages of 4096 bytes: less is refused.
    pub hmmin: u32,
    /// Capacity of the drive in bytes.
    pub tnvmcap: U128,
    /// Capacity in no namespace, in bytes.
    pub unvmcap: U128,
    pub(crate) reserved_312: [u8; 200],
    /// Sizes of submission queue entries: 66h, for 64 bytes and no other.
    pub sqes: u8,
    /// Sizes of completion queue entries: 44h, for 16 bytes and no other.
    pub cqes: u8,
    /// Most commands in flight on one queue; 0 if not told.
    pub maxcmd: u16,
    /// Number of namespaces; their identifiers go from 1 to it.
    pub nn: u32,
    /// Optional I/O commands: bits of [`OptionalIoCommand`].
    pub oncs: u16,
    /// Fused operations; 0, there are none.
    pub fuses: u16,
    /// Format attributes; 0, a format is of one namespace.
    pub fna: u8,
    /// Volatile write cache: bit 0, there is one; bits 2:1 = 3, flush takes all namespaces.
    pub vwc: u8,
    /// Pages that a write sets atomically, 0-based: 0.
    pub awun: u16,
    /// Pages that a write sets atomically if power fails, 0-based: 0.
    pub awupf: u16,
    pub(crate) reserved_530: [u8; 6],
    /// SGL support; 0, there is none.
    pub sgls: u32,
    pub(crate) reserved_540: [u8; 228],
    /// Qualified name of the subsystem: UTF-8, ended by a zero byte.
    pub subnqn: [u8; 256],
    pub(crate) reserved_1024: [u8; 2048],
    /// What is particular to a Wharf drive.
    pub drive: DriveInfo,
}

const _: () = assert!(size_of::<IdentifyController>() == 4096);

wire_enum! {
    /// Bits of [`IdentifyController::oacs`], by number.
    pub enum OptionalAdminCommand: u8 {
        /// Format NVM.
        Format = 1 => "format NVM",
        /// Get LBA status.
        GetLbaStatus = 9 => "get LBA status",
    }
}

wire_enum! {
    /// Bits of [`IdentifyController::oncs`], by number.
    pub enum OptionalIoCommand: u8 {
        /// Dataset management.
        DatasetManagement = 2 => "dataset management",
        /// Write zeroes.
        WriteZeroes = 3 => "write zeroes",
        /// SEL in get features and SV in set features.
        SaveSelect = 4 => "save and select of features",
        /// The feature of the time; only drives with a file system have it.
        Timestamp = 6 => "timestamp",
        /// Verify.
        Verify = 7 => "verify",
    }
}

/// Bit 2 of LPA: get log page takes 32-bit lengths and 64-bit offsets.
const LPA_EXTENDED: u8 = 1 << 2;

/// VWC: there is a volatile write cache, and flush takes all namespaces.
const VWC_PRESENT_FLUSH_ALL: u8 = 0b111;

impl IdentifyController {
    /// The identify data of a drive with one namespace and every command of this command set;
    /// limits, capacities and `drive` beyond its header are for the caller to fill. Texts are
    /// cut to their fields, and what is not printable ASCII becomes `?`.
    pub fn new(model: &str, serial: &str, firmware: &str) -> IdentifyController {
        let mut controller: IdentifyController = FromZeros::new_zeroed();
        put_ascii(&mut controller.mn, model);
        put_ascii(&mut controller.sn, serial);
        put_ascii(&mut controller.fr, firmware);
        controller.ver = VERSION_2_0;
        controller.cntrltype = 1;
        for command in OptionalAdminCommand::ALL {
            controller.oacs |= 1 << command.raw();
        }
        controller.frmw = 1;
        controller.lpa = LPA_EXTENDED;
        controller.sqes = SUBMISSION_ENTRY_SIZES;
        controller.cqes = COMPLETION_ENTRY_SIZES;
        controller.nn = 1;
        for command in OptionalIoCommand::ALL {
            let is_of_all = *command != OptionalIoCommand::Timestamp;
            controller.oncs |= u16::from(is_of_all) << command.raw();
        }
        controller.vwc = VWC_PRESENT_FLUSH_ALL;
        controller.drive.signature = DriveInfo::SIGNATURE;
        controller.drive.version = DriveInfo::VERSION;
        controller
    }

    /// The most pages in one transfer, or `None` for no limit. A value that does not fit
    /// (2^32 pages and more) is no limit either.
    pub const fn max_transfer_pages(&self) -> Option<u32> {
        if self.mdts == 0 {
            None
        } else {
            1_u32.checked_shl(self.mdts as u32)
        }
    }

    /// Serial number without its padding.
    pub fn serial(&self) -> String {
        text(&self.sn)
    }

    /// Model number without its padding.
    pub fn model(&self) -> String {
        text(&self.mn)
    }

    /// Firmware revision without its padding.
    pub fn firmware(&self) -> String {
        text(&self.fr)
    }

    /// Sets the qualified name of the subsystem, cut at a character to at most 223 bytes.
    pub fn set_subsystem_name(&mut self, name: &str) {
        const NAME_BYTES_MAX: usize = 223;
        let name = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
        self.subnqn = [0; 256];
        self.subnqn[..name.len()].copy_from_slice(name.as_bytes());
    }

    /// Qualified name of the subsystem.
    pub fn subsystem_name(&self) -> String {
        let end = self
            .subnqn
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(self.subnqn.len());
        String::from_utf8_lossy(&self.subnqn[..end]).into_owned()
    }

    /// Whether a volatile write cache is present, so that flush has something to do.
    pub const fn has_volatile_write_cache(&self) -> bool {
        self.vwc & 1 != 0
    }

    /// Whether an optional I/O command is supported.
    pub const fn supports(&self, command: OptionalIoCommand) -> bool {
        self.oncs & 1 << command.raw() != 0
    }

    /// What is particular to a Wharf drive, or `None` if this is not one.
    pub fn drive_info(&self) -> Option<&DriveInfo> {
        let known = self.drive.signature == DriveInfo::SIGNATURE && self.drive.version > 0;
        known.then_some(&self.drive)
    }

    /// Refuses a controller that this command set cannot talk to.
    ///
    /// # Errors
    /// What does not fit, as [`IdentifyError`].
    pub fn check(&self) -> Result<(), IdentifyError> {
        let takes = |sizes: u8, log2: u8| sizes & 0xf <= log2 && log2 <= sizes >> 4;
        if !takes(self.sqes, 6) || !takes(self.cqes, 4) {
            return Err(IdentifyError::EntrySize {
                sqes: self.sqes,
                cqes: self.cqes,
            });
        }
        if self.nn == 0 {
            return Err(IdentifyError::NoNamespace);
        }
        Ok(())
    }
}

/// Puts `text` into `field`, padded with spaces.
fn put_ascii(field: &mut [u8], text: &str) {
    field.fill(b' ');
    for (byte, c) in field.iter_mut().zip(text.chars()) {
        *byte = if c == ' ' || c.is_ascii_graphic() {
            c as u8
        } else {
            b'?'
        };
    }
}

/// A padded text field as a person reads it.
fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field)
        .trim_end_matches([' ', '\0'])
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_controller_is_one_that_can_be_used() {
        let controller = IdentifyController::new("Wharf SSD", "S1", "0.1.0");
        assert_eq!(controller.check(), Ok(()));
        assert_eq!(controller.model(), "Wharf SSD");
        assert_eq!(controller.serial(), "S1");
        assert_eq!(controller.firmware(), "0.1.0");
        assert!(controller.has_volatile_write_cache());
        assert!(
            OptionalIoCommand::ALL
                .iter()
                .all(|&c| controller.supports(c) == (c != OptionalIoCommand::Timestamp))
        );
        assert_eq!((controller.oncs, controller.oacs), (0b1001_1100, 0x202));
        let drive = controller.drive_info().unwrap();
        assert_eq!(drive.features.iter().count(), 0);
        let bytes = controller.as_bytes();
        assert_eq!(bytes[512..514], [0x66, 0x44]);
        assert_eq!(bytes[80..84], [0, 0, 2, 0]);
        assert_eq!(&bytes[3072..3080], b"WHARFCSD");
        assert_eq!(
            IdentifyController::read_from_bytes(bytes).unwrap(),
            controller
        );
    }

    #[test]
    fn texts_are_cut_padded_and_kept_printable() {
        let controller = IdentifyController::new("modèle\n", "", "0123456789");
        assert_eq!(controller.model(), "mod?le?");
        assert_eq!(controller.serial(), "");
        assert_eq!(controller.firmware(), "01234567");
        assert_eq!(controller.mn[39], b' ');
        let foreign = IdentifyController {
            sn: [0xff; 20],
            ..controller
        };
        assert_eq!(foreign.serial().chars().count(), 20);
    }

    #[test]
    fn the_subsystem_name_is_cut_at_a_character() {
        let mut controller = IdentifyController::new("", "", "");
        controller.set_subsystem_name("nqn.2026-01.example:wharf");
        assert_eq!(controller.subsystem_name(), "nqn.2026-01.example:wharf");
        controller.set_subsystem_name(&"é".repeat(200));
        assert_eq!(controller.subsystem_name(), "é".repeat(111));
        controller.subnqn = [b'x'; 256];
        assert_eq!(controller.subsystem_name().len(), 256);
    }

    #[test]
    fn transfer_limits_are_powers_of_two() {
        let mut controller = IdentifyController::new("", "", "");
        for (mdts, pages) in [(0, None), (1, Some(2)), (5, Some(32)), (31, Some(1 << 31))] {
            controller.mdts = mdts;
            assert_eq!(controller.max_transfer_pages(), pages);
        }
        for mdts in [32, 255] {
            controller.mdts = mdts;
            assert_eq!(controller.max_transfer_pages(), None);
        }
    }

    #[test]
    fn a_foreign_controller_is_told_from_ours_and_checked() {
        let mut zeros: IdentifyController = FromZeros::new_zeroed();
        assert!(zeros.drive_info().is_none());
        assert_eq!(
            zeros.check(),
            Err(IdentifyError::EntrySize { sqes: 0, cqes: 0 })
        );
        (zeros.sqes, zeros.cqes) = (0x76, 0x54);
        assert_eq!(zeros.check(), Err(IdentifyError::NoNamespace));
        zeros.nn = 1;
        assert_eq!(zeros.check(), Ok(()));
        zeros.sqes = 0x77;
        let error = zeros.check().unwrap_err();
        assert_eq!(
            error.to_string(),
            "controller does not take 64-byte submission and 16-byte completion entries \
             (SQES 77h, CQES 54h)"
        );
        zeros.drive.signature = DriveInfo::SIGNATURE;
        assert!(zeros.drive_info().is_none(), "version 0 is not one");
    }
}
