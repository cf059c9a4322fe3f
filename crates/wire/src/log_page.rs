//! Log pages: what the drive tells about itself while it works.
//!
//! Errors (01h) and health (02h) are those of NVM Express. The vendor pages hold one
//! [`DriveStatistics`](crate::statistics::DriveStatistics) for the whole drive (C0h) or one
//! for each firmware core in turn (C1h), the [space](crate::space) that is used (C2h), what
//! has become of the [file system](crate::file::FileSystemLog) (C3h), and the drive's
//! [cache](crate::file::DeviceCacheLog) of pages of files (C4h).

use crate::bits::wire_enum;
use crate::status::Status;
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

wire_enum! {
    /// The log pages there are.
    pub enum LogPage: u8 {
        /// The latest failures, newest first: an array of [`ErrorLogEntry`].
        ErrorInformation = 0x01 => "error information",
        /// [`SmartHealth`].
        SmartHealth = 0x02 => "SMART / health information",
        /// [`DriveStatistics`](crate::statistics::DriveStatistics) of the whole drive.
        DriveStatistics = 0xc0 => "drive statistics",
        /// One [`DriveStatistics`](crate::statistics::DriveStatistics) per firmware core.
        CoreStatistics = 0xc1 => "core statistics",
        /// [`SpacePage`](crate::space::SpacePage): how much of the flash is used.
        Space = 0xc2 => "space",
        /// [`FileSystemLog`](crate::file::FileSystemLog): what has become of the file system.
        FileSystem = 0xc3 => "file system",
        /// [`DeviceCacheLog`](crate::file::DeviceCacheLog): the cache of pages of files in the drive's memory.
        DeviceCache = 0xc4 => "device cache",
    }
}

/// One failed command in the error information log.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ErrorLogEntry {
    /// Number of the failure since the drive was made, from 1; 0 marks an unused entry.
    pub error_count: u64,
    /// Submission queue of the command.
    pub sqid: u16,
    /// Identifier of the command.
    pub cid: u16,
    /// Phase and status as in the completion; see [`ErrorLogEntry::status`].
    pub status_phase: u16,
    /// Byte (7:0) and bit (10:8) of the command that is wrong, FFFFh if it is no one field.
    pub parameter_error_location: u16,
    /// First page that failed.
    pub lba: u64,
    /// Namespace of the command.
    pub nsid: u32,
    /// A vendor log page with more about it, 0 for none.
    pub vendor_log_page: u8,
    /// Transport type; 0, since none is named.
    pub trtype: u8,
    pub(crate) reserved_30: [u8; 2],
    /// Of the command; 0.
    pub command_specific: u64,
    /// Of the transport; 0.
    pub transport_specific: u16,
    pub(crate) reserved_42: [u8; 22],
}

const _: () = assert!(size_of::<ErrorLogEntry>() == 64);

impl ErrorLogEntry {
    /// The value of `parameter_error_location` for a failure that is not about one field.
    pub const NO_FIELD: u16 = 0xffff;

    /// The status that the command completed with.
    pub const fn status(&self) -> Status {
        Status::from_bits(self.status_phase >> 1)
    }

    /// The same entry with the status that the command completed with.
    #[must_use]
    pub const fn with_status(mut self, status: Status) -> ErrorLogEntry {
        self.status_phase = status.bits() << 1;
        self
    }
}

/// SMART / health information, for the whole drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SmartHealth {
    /// Bits of [`CriticalWarning`], by number.
    pub critical_warning: u8,
    /// Temperature in kelvins.
    pub composite_temperature: U16,
    /// Spare blocks left, in percent of those at first.
    pub available_spare: u8,
    /// The `available_spare` below which the warning is set.
    pub available_spare_threshold: u8,
    /// Life used, in percent; may exceed 100, and stops at 255.
    pub percentage_used: u8,
    /// Critical warnings of endurance groups, of which there are none; 0.
    pub endurance_group_critical_warning: u8,
    pub(crate) reserved_7: [u8; 25],
    /// Read by the host, in thousands of 512 bytes, rounded up: see [`data_units`].
    pub data_units_read: u128,
    /// Written by the host, in thousands of 512 bytes, rounded up: see [`data_units`].
    pub data_units_written: u128,
    /// Read commands completed.
    pub host_read_commands: u128,
    /// Write commands completed.
    pub host_write_commands: u128,
    /// Minutes with a command in flight.
    pub controller_busy_time: u128,
    /// Times that power came on.
    pub power_cycles: u128,
    /// Hours with power on.
    pub power_on_hours: u128,
    /// Times that power went without a shutdown before it.
    pub unsafe_shutdowns: u128,
    /// Reads whose data could not be recovered.
    pub media_errors: u128,
    /// Entries ever made in the error information log.
    pub error_log_entries: u128,
    /// Minutes above the warning temperature.
    pub warning_temperature_time: u32,
    /// Minutes above the critical temperature.
    pub critical_temperature_time: u32,
    /// Eight sensors in kelvins, 0 where there is none.
    pub temperature_sensors: [u16; 8],
    /// Transitions to the first stage of thermal management.
    pub thermal_transitions_1: u32,
    /// Transitions to the second stage of thermal management.
    pub thermal_transitions_2: u32,
    /// Seconds in the first stage of thermal management.
    pub thermal_time_1: u32,
    /// Seconds in the second stage of thermal management.
    pub thermal_time_2: u32,
    pub(crate) reserved_232: [u8; 280],
}

const _: () = assert!(size_of::<SmartHealth>() == 512);

impl Default for SmartHealth {
    fn default() -> SmartHealth {
        FromZeros::new_zeroed()
    }
}

wire_enum! {
    /// Bits of [`SmartHealth::critical_warning`], by number.
    pub enum CriticalWarning: u8 {
        /// Spare blocks are below their threshold.
        SpareLow = 0 => "spare blocks are running out",
        /// Too hot or too cold.
        Temperature = 1 => "temperature out of range",
        /// Media errors have made the drive unreliable.
        Degraded = 2 => "reliability is degraded",
        /// The media takes no more writes.
        ReadOnly = 3 => "the drive is read-only",
        /// The backup of volatile memory has failed.
        BackupFailed = 4 => "volatile memory backup failed",
    }
}

impl SmartHealth {
    /// Whether the drive warns of `warning`.
    pub const fn warns_of(&self, warning: CriticalWarning) -> bool {
        self.critical_warning & 1 << warning.raw() != 0
    }

    /// Sets or clears a warning.
    pub const fn set_warning(&mut self, warning: CriticalWarning, on: bool) {
        let bit = 1 << warning.raw();
        self.critical_warning = self.critical_warning & !bit | if on { bit } else { 0 };
    }
}

/// Pages as data units: thousands of 512-byte blocks, rounded up.
pub const fn data_units(pages: u64) -> u128 {
    (pages as u128 * 8).div_ceil(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::StatusCode;

    #[test]
    fn an_error_entry_keeps_the_status() {
        let status = Status::new(StatusCode::UnrecoveredReadError).with_more();
        let entry = ErrorLogEntry {
            error_count: 1,
            lba: 77,
            ..Default::default()
        };
        let entry = entry.with_status(status);
        assert_eq!(entry.status(), status);
        let bytes = entry.as_bytes();
        assert_eq!(bytes[12..14], (status.bits() << 1).to_le_bytes());
        assert_eq!(bytes[16..24], 77_u64.to_le_bytes());
        assert_eq!(ErrorLogEntry::read_from_bytes(bytes).unwrap(), entry);
    }

    #[test]
    fn warnings_are_bits_of_their_own() {
        let mut health = SmartHealth::default();
        health.set_warning(CriticalWarning::ReadOnly, true);
        health.set_warning(CriticalWarning::SpareLow, true);
        assert_eq!(health.critical_warning, 0b1001);
        assert!(health.warns_of(CriticalWarning::ReadOnly));
        assert!(!health.warns_of(CriticalWarning::Degraded));
        health.set_warning(CriticalWarning::ReadOnly, false);
        assert_eq!(health.critical_warning, 1);
    }

    #[test]
    fn data_units_round_up() {
        let cases = [(0, 0), (1, 1), (125, 1), (126, 2), (250, 2)];
        for (pages, units) in cases {
            assert_eq!(data_units(pages), units, "{pages} pages");
        }
        assert_eq!(
            data_units(u64::MAX),
            (u128::from(u64::MAX) * 8).div_ceil(1000)
        );
    }

    #[test]
    fn health_is_little_endian_and_unaligned_where_the_standard_is() {
        let health = SmartHealth {
            composite_temperature: U16::new(0x0131),
            power_cycles: 0x0102,
            ..Default::default()
        };
        let bytes = health.as_bytes();
        assert_eq!(bytes[1..3], [0x31, 0x01]);
        assert_eq!(bytes[112..114], [0x02, 0x01]);
        assert_eq!(SmartHealth::read_from_bytes(bytes).unwrap(), health);
    }
}
