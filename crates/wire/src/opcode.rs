//! Opcodes: the first byte of a command, by the kind of queue it came on.
//!
//! The standard range keeps the values of NVM Express. Bits 1:0 of every opcode, standard or
//! vendor, say which way data moves, so that a transport can map buffers without knowing the
//! command. Of the vendor ranges (I/O 80h-FFh, admin C0h-FFh) the first holds pin, unpin, get LBA status and
//! commands for files; `docs/command-set.md` lists what the rest is kept for.

use crate::bits::wire_enum;

wire_enum! {
    /// Commands of the admin queue (queue 0).
    pub enum AdminOpcode: u8 {
        /// Deletes an I/O submission queue.
        DeleteSubmissionQueue = 0x00 => "delete I/O submission queue",
        /// Creates an I/O submission queue.
        CreateSubmissionQueue = 0x01 => "create I/O submission queue",
        /// Reads a log page.
        GetLogPage = 0x02 => "get log page",
        /// Deletes an I/O completion queue.
        DeleteCompletionQueue = 0x04 => "delete I/O completion queue",
        /// Creates an I/O completion queue.
        CreateCompletionQueue = 0x05 => "create I/O completion queue",
        /// Reads what the controller or a namespace is and can do.
        Identify = 0x06 => "identify",
        /// Changes a feature's value.
        SetFeatures = 0x09 => "set features",
        /// Reads a feature's value.
        GetFeatures = 0x0a => "get features",
        /// Asks to be told of an event; see [`crate::events`].
        AsyncEventRequest = 0x0c => "async event request",
        /// Erases a namespace: every page reads as zeros afterwards.
        FormatNvm = 0x80 => "format NVM",
        /// Tells which pages are allocated; see [`crate::lba_status`].
        GetLbaStatus = 0x86 => "get LBA status",
        /// Gives the drive a key; see [`crate::file`].
        SetKey = 0xc5 => "set key",
        /// Takes sessions back.
        Revoke = 0xc8 => "revoke",
    }
}

wire_enum! {
    /// Commands of the I/O queues.
    pub enum IoOpcode: u8 {
        /// Makes every write acknowledged before it durable.
        Flush = 0x00 => "flush",
        /// Writes pages.
        Write = 0x01 => "write",
        /// Reads pages.
        Read = 0x02 => "read",
        /// Sets pages to zeros without moving data.
        WriteZeroes = 0x08 => "write zeroes",
        /// Deallocates ranges of pages.
        DatasetManagement = 0x09 => "dataset management",
        /// Checks that pages can be read, without moving data.
        Verify = 0x0c => "verify",
        /// Gives references to frames back; see [`crate::pin`].
        Unpin = 0x81 => "unpin",
        /// Holds pages in frames of the host's memory; see [`crate::pin`].
        Pin = 0x83 => "pin",
        /// The admin command of this name, on an I/O queue: every client can ask for itself.
        GetLbaStatus = 0x86 => "get LBA status",
        /// Gives an open file back; see [`crate::file`] for all that follow.
        CloseFile = 0xa0 => "close file",
        /// Writes bytes of an open file.
        WriteFile = 0xa1 => "write file",
        /// Reads bytes of an open file.
        ReadFile = 0xa2 => "read file",
        /// Opens a file by its name.
        OpenFile = 0xa3 => "open file",
        /// Makes bytes of files durable.
        SyncFile = 0xa4 => "sync file",
        /// Changes names.
        PathChange = 0xa5 => "path change",
        /// Lists a directory.
        ReadDirectory = 0xa6 => "read directory",
        /// Asks of names, and makes what is not there.
        PathRequest = 0xa7 => "path request",
        /// Sizes and storage of an open file.
        HandleOperation = 0xa8 => "handle operation",
        /// Sets attributes.
        SetFileAttributes = 0xa9 => "set file attributes",
        /// Asks to be told when an open file changes.
        LeaseFile = 0xaa => "lease file",
        /// Asks which lock of an open file is in the way.
        TestLock = 0xab => "test lock",
        /// Takes locks of an open file, and gives them back.
        LockFile = 0xac => "lock file",
        /// Shows who sends the commands of this host.
        Authenticate = 0xad => "authenticate",
        /// Writes bytes of an open file to the drive's cache.
        WriteNear = 0xb1 => "write near",
        /// Reads bytes of an open file by way of the drive's cache.
        ReadNear = 0xb2 => "read near",
        /// Takes pages of an open file out of the drive's cache.
        EvictNear = 0xb4 => "evict near",
        /// Computes on bytes of open files.
        Vector = 0xbb => "vector",
    }
}

impl IoOpcode {
    /// Whether results of this command take all bits of a completion that results may have.
    #[inline]
    pub const fn has_wide_result(self) -> bool {
        matches!(self, IoOpcode::Pin | IoOpcode::Unpin) || self.is_of_files()
    }

    /// Whether it is a command for files.
    #[inline]
    pub const fn is_of_files(self) -> bool {
        matches!(self.raw(), 0xa0..=0xad | 0xb1 | 0xb2 | 0xb4 | 0xbb)
    }
}

/// The first vendor opcode on I/O queues; the range goes to FFh.
pub const IO_VENDOR_FIRST: u8 = 0x80;

/// The first vendor opcode on the admin queue; the range goes to FFh.
pub const ADMIN_VENDOR_FIRST: u8 = 0xc0;

/// Which way a command moves data, from bits 1:0 of its opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataDirection {
    /// No data: PRP1 and PRP2 are not looked at.
    None,
    /// The drive reads host memory.
    HostToDrive,
    /// The drive writes host memory.
    DriveToHost,
    /// Both; only vendor commands may say so.
    Both,
}

impl DataDirection {
    /// The direction that `opcode` names.
    #[inline]
    pub const fn of(opcode: u8) -> DataDirection {
        match opcode & 3 {
            0 => DataDirection::None,
            1 => DataDirection::HostToDrive,
            2 => DataDirection::DriveToHost,
            _ => DataDirection::Both,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_come_back_from_their_values_and_no_others() {
        for raw in 0..=u8::MAX {
            let admin = AdminOpcode::ALL.iter().find(|o| o.raw() == raw).copied();
            assert_eq!(AdminOpcode::from_raw(raw), admin);
            let io = IoOpcode::ALL.iter().find(|o| o.raw() == raw).copied();
            assert_eq!(IoOpcode::from_raw(raw), io);
        }
        assert_eq!(IoOpcode::WriteZeroes.to_string(), "write zeroes");
    }

    #[test]
    fn the_vendor_range_holds_what_is_added() {
        let vendor = IoOpcode::ALL.iter().filter(|o| o.raw() >= IO_VENDOR_FIRST);
        assert_eq!(
            vendor.copied().collect::<Vec<_>>(),
            [
                IoOpcode::Unpin,
                IoOpcode::Pin,
                IoOpcode::GetLbaStatus,
                IoOpcode::CloseFile,
                IoOpcode::WriteFile,
                IoOpcode::ReadFile,
                IoOpcode::OpenFile,
                IoOpcode::SyncFile,
                IoOpcode::PathChange,
                IoOpcode::ReadDirectory,
                IoOpcode::PathRequest,
                IoOpcode::HandleOperation,
                IoOpcode::SetFileAttributes,
                IoOpcode::LeaseFile,
                IoOpcode::TestLock,
                IoOpcode::LockFile,
                IoOpcode::Authenticate,
                IoOpcode::WriteNear,
                IoOpcode::ReadNear,
                IoOpcode::EvictNear,
                IoOpcode::Vector,
            ]
        );
        let vendor = AdminOpcode::ALL
            .iter()
            .filter(|o| o.raw() >= ADMIN_VENDOR_FIRST);
        assert_eq!(
            vendor.copied().collect::<Vec<_>>(),
            [AdminOpcode::SetKey, AdminOpcode::Revoke]
        );
    }

    #[test]
    fn the_direction_bits_are_those_of_the_data_moved() {
        use DataDirection::*;
        let io = IoOpcode::ALL.iter().map(|o| DataDirection::of(o.raw()));
        assert_eq!(
            io.collect::<Vec<_>>(),
            [
                None,
                HostToDrive,
                DriveToHost,
                None,
                HostToDrive,
                None,
                HostToDrive,
                Both,
                DriveToHost,
                None,
                HostToDrive,
                DriveToHost,
                Both,
                None,
                HostToDrive,
                DriveToHost,
                Both,
                None,
                HostToDrive,
                DriveToHost,
                Both,
                None,
                HostToDrive,
                HostToDrive,
                DriveToHost,
                None,
                Both,
            ]
        );
        let (set_key, revoke) = (AdminOpcode::SetKey.raw(), AdminOpcode::Revoke.raw());
        assert_eq!(DataDirection::of(set_key), HostToDrive);
        assert_eq!(DataDirection::of(revoke), None);
        assert_eq!(DataDirection::of(AdminOpcode::Identify.raw()), DriveToHost);
        assert_eq!(
            DataDirection::of(AdminOpcode::GetLogPage.raw()),
            DriveToHost
        );
        assert_eq!(DataDirection::of(AdminOpcode::FormatNvm.raw()), None);
        assert_eq!(DataDirection::of(0x83), Both);
    }
}
